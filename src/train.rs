//! The main job: evaluate, train, evaluate, and leave a run directory that says what happened.
//!
//! A client of [`Engine`] like any other: it submits held-out tasks, starts a curriculum, reads events and writes files.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use rehearsal_actors::pipeline::credit::{Curriculum, Cursor};
use rehearsal_actors::progress::Progress;
use rehearsal_actors::{Event, GroupId, Purpose, Rollout, StepSummary, Subscription, Task};
use rehearsal_models::Sampling;
use rehearsal_sandboxes::Sandbox;

use crate::config::Recipe;
use crate::engine::{Engine, EngineConfig, PolicyParts};
use crate::evaluate::{Evaluation, evaluate};
use crate::report::Report;
use crate::run_dir::{RunDir, RunState};

/// Rollouts of a batch that the report shows.
const SHOWN: usize = 8;
/// How long the events of a step that is in a checkpoint may be on their way.
const EVENT_PATIENCE: Duration = Duration::from_secs(30);

/// Everything a training run starts from.
#[derive(Debug)]
pub struct TrainJob {
    /// What to do.
    pub recipe: Recipe,
    /// Where to record it.
    pub run_dir: RunDir,
    /// Where to go on from; the policy's trainer has been restored to it already.
    pub state: Option<RunState>,
    /// The policy and its trainer.
    pub policy: PolicyParts,
    /// Runs code.
    pub sandbox: Arc<dyn Sandbox>,
    /// The training split.
    pub train_tasks: Vec<Arc<Task>>,
    /// The held-out split.
    pub heldout_tasks: Vec<Arc<Task>>,
}

/// Told of what happens, as it happens.
pub trait TrainObserver: Send {
    /// The tree runs; these counters say what goes on within a step.
    fn started(&mut self, progress: Arc<Progress>);
    /// A batch was consumed, out of `steps`.
    fn step(&mut self, summary: &StepSummary, steps: u64);
    /// Completions of an evaluation so far, out of all.
    fn evaluating(&mut self, when: &str, done: usize, all: usize);
    /// An evaluation ended.
    fn evaluated(&mut self, evaluation: &Evaluation);
    /// Something worth a line: a checkpoint, a quarantined task, a restart.
    fn note(&mut self, line: &str);
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainEnd {
    /// Every step was taken.
    Completed,
    /// `shutdown` came first; the run can go on from its checkpoint.
    Interrupted,
}

/// Runs a job to its end or until `shutdown`, and leaves a checkpoint and a report either way.
///
/// # Errors
/// The first cause that ended the engine, or a file that could not be written. The last complete checkpoint stays.
pub async fn train(
    job: TrainJob,
    recorder: &dyn metrics::Recorder,
    observer: &mut dyn TrainObserver,
    shutdown: impl Future<Output = ()>,
) -> Result<TrainEnd> {
    let mut config = EngineConfig::from(&job.recipe);
    config.cursor = job.state.as_ref().map_or_else(Cursor::default, |state| state.cursor);
    let device = job.recipe.policy.device.to_string();
    let engine = Engine::builder(config, job.policy, job.sandbox).recorder(recorder, &device).start().await?;
    let mut session = Session {
        recipe: job.recipe,
        run_dir: job.run_dir,
        train_tasks: job.train_tasks,
        heldout_tasks: job.heldout_tasks,
        events: engine.subscribe(),
        step: job.state.as_ref().map_or(0, |state| state.step),
        saved: job.state.map(|state| state.step),
        batch: BTreeMap::new(),
        samples: Vec::new(),
    };
    observer.started(engine.progress());
    tokio::pin!(shutdown);
    let outcome = tokio::select! {
        biased;
        () = &mut shutdown => Ok(TrainEnd::Interrupted),
        outcome = session.run(&engine, observer) => outcome.map(|()| TrainEnd::Completed),
    };
    let finished = session.finish(&engine, observer, outcome.is_ok()).await;
    engine.stop().await;
    let end = outcome?;
    finished?;
    Ok(end)
}

struct Session {
    recipe: Recipe,
    run_dir: RunDir,
    train_tasks: Vec<Arc<Task>>,
    heldout_tasks: Vec<Arc<Task>>,
    events: Subscription,
    step: u64,
    saved: Option<u64>,
    /// Rollouts since the last step; a later attempt at an episode replaces the earlier one.
    batch: BTreeMap<(GroupId, u32), Arc<Rollout>>,
    samples: Vec<(String, Vec<Arc<Rollout>>)>,
}

impl Session {
    async fn run(&mut self, engine: &Engine, observer: &mut dyn TrainObserver) -> Result<()> {
        let recorded = self.blocking(|dir| dir.evaluations()).await?;
        if !recorded.iter().any(|evaluation| evaluation.when == "before") {
            self.evaluate(engine, observer, "before").await?;
        }
        engine.train(Curriculum {
            tasks: self.train_tasks.clone(),
            sampler: self.recipe.train.sampler,
            group_size: self.recipe.rollout.group_size,
            sampling: self.recipe.sampling(),
            steps: self.recipe.train.steps,
        });
        while self.step < self.recipe.train.steps {
            match self.events.next().await {
                Some(Event::Rollout(rollout)) if rollout.purpose == Purpose::Train => {
                    self.batch.insert((rollout.key.group_id, rollout.key.index), rollout);
                }
                Some(Event::Step(summary)) => self.stepped(engine, observer, &summary).await?,
                Some(Event::Restarted { role, cause }) => {
                    observer.note(&format!("{role} failed and is restarted: {cause}"))
                }
                Some(Event::GroupEnded { task_id, fate: "quarantined", .. }) => {
                    observer.note(&quarantine_note(engine, &task_id.0))
                }
                Some(Event::Stopped(cause)) => {
                    bail!("{}", cause.unwrap_or_else(|| "the engine was stopped".to_owned()))
                }
                Some(Event::Rollout(_) | Event::GroupEnded { .. }) => {}
                None => bail!("the engine ended without saying why"),
            }
        }
        self.evaluate(engine, observer, "after").await
    }

    async fn stepped(
        &mut self,
        engine: &Engine,
        observer: &mut dyn TrainObserver,
        summary: &StepSummary,
    ) -> Result<()> {
        self.record(observer, summary).await?;
        let every = self.recipe.train.checkpoint_every;
        if every > 0 && self.step.is_multiple_of(every) {
            self.checkpoint(engine, observer).await?;
            self.report().await?;
        }
        Ok(())
    }

    /// Writes a step's rollouts and its line.
    async fn record(&mut self, observer: &mut dyn TrainObserver, summary: &StepSummary) -> Result<()> {
        self.step = summary.step;
        let rollouts: Vec<_> = std::mem::take(&mut self.batch).into_values().collect();
        self.keep_samples(&rollouts);
        let line = summary.clone();
        self.blocking(move |dir| {
            dir.write_rollouts(&format!("step-{:06}", line.step), &rollouts)?;
            dir.add_step(&line)
        })
        .await?;
        observer.step(summary, self.recipe.train.steps);
        Ok(())
    }

    /// Keeps the first batch's rollouts and the latest one's for the report.
    fn keep_samples(&mut self, rollouts: &[Arc<Rollout>]) {
        let title = format!("Rollouts of step {}", self.step);
        self.samples.truncate(1);
        self.samples.push((title, spread(rollouts, SHOWN)));
    }

    async fn evaluate(&mut self, engine: &Engine, observer: &mut dyn TrainObserver, when: &str) -> Result<()> {
        let started = Instant::now();
        let eval = &self.recipe.eval;
        let sampling = Sampling {
            temperature: eval.temperature,
            top_p: eval.top_p,
            max_tokens: self.recipe.rollout.max_tokens,
            seed: 0,
        };
        let seen = |done, all| observer.evaluating(when, done, all);
        let rollouts = evaluate(engine, &mut self.events, &self.heldout_tasks, eval.samples, &sampling, seen).await?;
        let evaluation = Evaluation::of(when, self.step, engine.weights_version(), eval.samples, &rollouts, started);
        let (line, name) = (evaluation.clone(), format!("eval-{when}"));
        self.blocking(move |dir| {
            dir.write_rollouts(&name, &rollouts)?;
            dir.add_evaluation(&line)
        })
        .await?;
        observer.evaluated(&evaluation);
        Ok(())
    }

    /// Saves the learner, and records every step that the checkpoint holds before it counts as one to go on from.
    async fn checkpoint(&mut self, engine: &Engine, observer: &mut dyn TrainObserver) -> Result<()> {
        let saved = engine.checkpoint(self.run_dir.path().join("checkpoints")).await?;
        while self.step < saved.step {
            match tokio::time::timeout(EVENT_PATIENCE, self.events.next()).await {
                Ok(Some(Event::Rollout(rollout))) if rollout.purpose == Purpose::Train => {
                    self.batch.insert((rollout.key.group_id, rollout.key.index), rollout);
                }
                Ok(Some(Event::Step(summary))) => self.record(observer, &summary).await?,
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => bail!("step {} is in the checkpoint, and its numbers never came", saved.step),
            }
        }
        let checkpoint = saved.dir.strip_prefix(self.run_dir.path()).unwrap_or(&saved.dir).to_owned();
        let state = RunState { step: saved.step, checkpoint, cursor: saved.cursor };
        self.blocking(move |dir| dir.write_state(&state)).await?;
        self.saved = Some(saved.step);
        observer.note(&format!("checkpoint {}", saved.dir.display()));
        Ok(())
    }

    async fn report(&self) -> Result<()> {
        let (name, samples) = (self.recipe.name.clone(), self.samples.clone());
        self.blocking(move |dir| {
            let recipe =
                std::fs::read_to_string(dir.path().join("recipe.toml")).context("cannot read the run's recipe")?;
            let (steps, evaluations) = (dir.steps()?, dir.evaluations()?);
            let report =
                Report { name: &name, recipe: &recipe, steps: &steps, evaluations: &evaluations, samples: &samples };
            dir.replace("reward.svg", report.reward_svg().as_bytes())?;
            dir.replace("report.html", report.html().as_bytes())
        })
        .await
    }

    /// The end of every run: a checkpoint of what was learned since the last one, and the report.
    async fn finish(&mut self, engine: &Engine, observer: &mut dyn TrainObserver, is_healthy: bool) -> Result<()> {
        let saved = if is_healthy && self.saved != Some(self.step) {
            engine.quiesce();
            self.checkpoint(engine, observer).await
        } else {
            Ok(())
        };
        let reported = self.report().await;
        saved.and(reported)
    }

    /// Files are written on a thread for blocking work, never on the async workers.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&RunDir) -> Result<T> + Send + 'static) -> Result<T> {
        let dir = self.run_dir.clone();
        tokio::task::spawn_blocking(move || work(&dir)).await.map_err(|error| anyhow!("a file task failed: {error}"))?
    }
}

fn quarantine_note(engine: &Engine, task: &str) -> String {
    let reason =
        engine.quarantined().into_iter().find(|(id, _)| &*id.0 == task).map_or_else(String::new, |(_, reason)| reason);
    format!("task `{task}` is quarantined and will not be drawn again: {reason}")
}

/// About `n` of the rollouts: the best, the worst and some between.
fn spread(rollouts: &[Arc<Rollout>], n: usize) -> Vec<Arc<Rollout>> {
    let mut sorted = rollouts.to_vec();
    sorted.sort_by(|a, b| b.reward.unwrap_or(f64::MIN).total_cmp(&a.reward.unwrap_or(f64::MIN)));
    let stride = sorted.len().div_ceil(n).max(1);
    sorted.into_iter().step_by(stride).collect()
}
