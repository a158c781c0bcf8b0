//! Stage: groups → gradient steps → weights. Owns the training thread.
//!
//! Collects groups until a batch is complete, hands it to the thread, and publishes the new weights. The permits of a batch are
//! concluded when the step has consumed it, whether it was trained on, refused or empty: a batch is consumed exactly once. The
//! trainer lives on its own thread and survives a restart of the actor; if the thread itself dies, the run ends, since half-updated
//! weights must not be trained on.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use serde::{Deserialize, Serialize};

use rehearsal_models::rl::Objective;
use rehearsal_models::{StepReport, Train, TrainError, TrainGroup, TrainSequence};

use crate::hub::{Event, StepSummary};
use crate::pipeline::Shared;
use crate::pipeline::batch::{Batch, Consumed};
use crate::pipeline::credit::{Cursor, Permit};
use crate::progress::CountGuard;
use crate::types::{Group, Rollout};
use crate::worker;

const STACK_BYTES: usize = 64 << 20;
/// Jobs that may wait for the thread: one batch and a checkpoint.
const QUEUE: usize = 4;

/// What to do with groups whose rewards are all equal, and whose advantages are therefore 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZeroVariance {
    /// Their tokens count in the loss's denominators.
    Keep,
    /// They leave the batch, denominators included; the batch is not refilled.
    Drop,
}

/// What the learner optimises and when.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnerConfig {
    /// Advantages, loss and aggregation.
    pub objective: Objective,
    /// The sampling temperature of the training groups.
    pub temperature: f32,
    /// Groups per step.
    pub groups_per_step: usize,
    /// Largest age of a token at consumption, in versions.
    pub max_staleness: u64,
    /// What to do with groups of zero variance.
    pub zero_variance: ZeroVariance,
    /// Take completions that were cut by the token limit out of the loss and its denominators.
    pub mask_truncated: bool,
}

/// A complete checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Batches consumed by then.
    pub step: u64,
    /// Its directory.
    pub dir: PathBuf,
    /// Where the task source stood.
    pub cursor: Cursor,
}

/// Where the answer to a save goes.
pub type SaveReply = RpcReplyPort<Result<Checkpoint, String>>;

/// The trainer, shared between incarnations of the actor.
pub type TrainerSlot = Arc<Mutex<Box<dyn Train>>>;

/// Messages of the learner.
#[derive(Debug)]
pub enum LearnerMsg {
    /// A complete group.
    Consume {
        /// The group.
        group: Group,
        /// Its place in the pipeline.
        permit: Permit,
    },
    /// The thread has consumed a batch.
    Stepped(Box<Consumed>),
    /// Write a checkpoint after whatever the thread is doing.
    Save {
        /// The directory to create it in.
        root: PathBuf,
        /// Where the answer goes.
        reply: SaveReply,
    },
    /// The thread has written a checkpoint, or has failed to. It comes after the `Stepped` of every step in it.
    Saved {
        /// Batches consumed by then and the checkpoint's directory.
        saved: Result<(u64, PathBuf), String>,
        /// Where the answer goes.
        reply: SaveReply,
    },
    /// The thread ended with this cause.
    Died(String),
}

/// The learner actor.
#[derive(Debug)]
pub struct Learner;

/// What a learner starts from.
#[derive(Debug, Clone)]
pub struct LearnerArgs {
    /// The engine that takes steps.
    pub trainer: TrainerSlot,
    /// What it optimises.
    pub config: LearnerConfig,
    /// Ledger, hub, metrics, weights.
    pub shared: Shared,
}

/// Work for the training thread.
#[derive(Debug)]
enum Job {
    Step(Batch),
    Save(PathBuf, SaveReply),
}

/// Groups waiting for their batch, and the thread's queue. Dropping it ends the thread after its current job.
#[derive(Debug)]
pub struct LearnerState {
    args: LearnerArgs,
    waiting: Vec<(Group, Permit)>,
    queue: Sender<Job>,
    batch_started: Instant,
}

impl Actor for Learner {
    type Msg = LearnerMsg;
    type State = LearnerState;
    type Arguments = LearnerArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<LearnerMsg>,
        args: LearnerArgs,
    ) -> Result<LearnerState, ActorProcessingErr> {
        let (queue, jobs) = bounded(QUEUE);
        let report = myself.clone();
        let batches = args.shared.ledger.cursor().batches;
        let thread = TrainingThread { args: args.clone(), myself, batches };
        worker::spawn(
            "rehearsal-learner",
            STACK_BYTES,
            move || thread.run(&jobs),
            move |cause| drop(report.cast(LearnerMsg::Died(cause))),
        )?;
        Ok(LearnerState { args, waiting: Vec::new(), queue, batch_started: Instant::now() })
    }

    async fn handle(
        &self,
        _myself: ActorRef<LearnerMsg>,
        msg: LearnerMsg,
        state: &mut LearnerState,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            LearnerMsg::Consume { group, permit } => state.collect(group, permit),
            LearnerMsg::Stepped(consumed) => state.conclude(*consumed),
            LearnerMsg::Save { root, reply } => state.enqueue(Job::Save(root, reply)),
            LearnerMsg::Saved { saved, reply } => {
                let cursor = state.args.shared.ledger.cursor();
                let _ = reply.send(saved.map(|(step, dir)| Checkpoint { step, dir, cursor }));
                Ok(())
            }
            LearnerMsg::Died(cause) => Err(cause.into()),
        }
    }
}

impl LearnerState {
    fn collect(&mut self, group: Group, permit: Permit) -> Result<(), ActorProcessingErr> {
        let version = self.args.shared.weights.version();
        if group_age(&group, version) > self.args.config.max_staleness {
            permit.retire();
            self.args.shared.metrics.groups_total.add("stale", 1);
            return self.announce(vec![Event::GroupEnded { id: group.id, task_id: group.task_id, fate: "stale" }]);
        }
        self.waiting.push((group, permit));
        if self.waiting.len() >= self.args.config.groups_per_step {
            let groups = std::mem::take(&mut self.waiting);
            let batch = Batch::new(groups, self.batch_elapsed());
            return self.enqueue(Job::Step(batch));
        }
        Ok(())
    }

    fn enqueue(&self, job: Job) -> Result<(), ActorProcessingErr> {
        match self.queue.try_send(job) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(Job::Save(_, reply))) => {
                let _ = reply.send(Err(format!("the learner has {QUEUE} jobs waiting already")));
                Ok(())
            }
            // The admission formula allows one batch at a time per version: more is a mistake here, and its permits go back.
            Err(TrySendError::Full(Job::Step(_))) => Err("more batches than the admission formula allows".into()),
            Err(TrySendError::Disconnected(_)) => Ok(()),
        }
    }

    /// The books of a consumed batch: permits, counters, the summary.
    fn conclude(&mut self, consumed: Consumed) -> Result<(), ActorProcessingErr> {
        let shared = &self.args.shared;
        let mut events = Vec::new();
        for (id, task_id, fate, permit) in consumed.groups {
            shared.metrics.groups_total.add(fate, 1);
            permit.accept();
            events.push(Event::GroupEnded { id, task_id, fate });
        }
        shared.ledger.batch_consumed();
        let mut summary = consumed.summary;
        summary.step = shared.ledger.cursor().batches;
        summary.seconds = self.batch_elapsed().as_secs_f64();
        self.batch_started = Instant::now();
        record(shared, &summary);
        events.push(Event::Step(Arc::new(summary)));
        self.announce(events)
    }

    /// Time since the batch before was consumed, or since training began.
    fn batch_elapsed(&self) -> Duration {
        let since = self.args.shared.ledger.training_since();
        since.map_or(self.batch_started, |began| began.max(self.batch_started)).elapsed()
    }

    /// Publishes from a task of its own: a slow subscriber must not hold up this mailbox.
    fn announce(&self, events: Vec<Event>) -> Result<(), ActorProcessingErr> {
        let hub = Arc::clone(&self.args.shared.hub);
        tokio::spawn(async move {
            for event in events {
                hub.publish(event).await;
            }
        });
        Ok(())
    }
}

/// The age of a group's oldest token under the weights `version`.
fn group_age(group: &Group, version: u64) -> u64 {
    let versions =
        group.rollouts.iter().filter_map(|rollout| rollout.action.as_ref()).flat_map(|action| &action.versions);
    versions.min().map_or(0, |oldest| version.saturating_sub(*oldest))
}

fn record(shared: &Shared, summary: &StepSummary) {
    let metrics = &shared.metrics;
    metrics.step.set(summary.step as f64);
    metrics.step_seconds.record(summary.seconds);
    metrics.reward.set(summary.reward);
    metrics.reward_std.set(summary.reward_std);
    metrics.weights_version.set("learner", summary.weights_version as f64);
    metrics.tokens_per_second.set("generator", summary.generator_tokens_per_second);
    metrics.tokens_per_second.set("learner", summary.learner_tokens_per_second);
    if summary.seconds > 0.0 {
        let learning = (summary.learner_seconds / summary.seconds).clamp(0.0, 1.0);
        metrics.idle_ratio.set("learner", 1.0 - learning);
        metrics.idle_ratio.set("generator", learning);
    }
    if let Some(report) = &summary.learner {
        record_report(shared, report);
    }
}

fn record_report(shared: &Shared, report: &StepReport) {
    let metrics = &shared.metrics;
    metrics.loss.set(report.loss);
    metrics.grad_norm.set(report.grad_norm);
    metrics.entropy.set(report.entropy);
    metrics.clip_fraction.set(report.clip_fraction);
    metrics.learning_rate.set(report.learning_rate);
    metrics.logprob_mismatch_max.set(report.logprob_mismatch_max);
    metrics.logprob_mismatch_kl.set(report.logprob_mismatch_kl);
    metrics.tokens_total.add("trained", report.trained_tokens as u64);
}

/// The training thread.
struct TrainingThread {
    args: LearnerArgs,
    myself: ActorRef<LearnerMsg>,
    batches: u64,
}

impl TrainingThread {
    fn run(mut self, jobs: &Receiver<Job>) {
        for job in jobs {
            // The actor is gone only when the engine is, or is being restarted: permits and reply ports then say so by being dropped.
            let _ = match job {
                Job::Step(batch) => {
                    let consumed = self.step(batch);
                    self.batches += 1;
                    self.myself.cast(LearnerMsg::Stepped(Box::new(consumed)))
                }
                Job::Save(root, reply) => self.myself.cast(LearnerMsg::Saved { saved: self.save(&root), reply }),
            };
        }
    }

    fn save(&self, root: &Path) -> Result<(u64, PathBuf), String> {
        let dir = root.join(format!("step-{:06}", self.batches));
        let trainer =
            self.args.trainer.lock().map_err(|_| "an earlier step panicked: its weights are not to be trusted")?;
        trainer.save(&dir).map_err(|error| error.to_string())?;
        Ok((self.batches, dir))
    }

    fn step(&self, batch: Batch) -> Consumed {
        let shared = &self.args.shared;
        let _busy = CountGuard::new(&shared.progress, |progress| &progress.learning);
        let started = Instant::now();
        let version = shared.weights.version();
        for age in batch.ages(version) {
            shared.metrics.staleness_versions.record(age as f64);
        }
        let outcome = self.train(&batch, version);
        let seconds = started.elapsed();
        shared.metrics.stage_seconds.record("learner", seconds);
        if let Err((reason, detail)) = &outcome {
            shared.metrics.step_refused_total.add(reason, 1);
            tracing::warn!(reason, detail, "no step was taken");
        }
        batch.consumed(outcome.map_err(|(_, detail)| detail), seconds, version, shared.weights.version())
    }

    /// One gradient step; on success the new weights are published before anybody hears of the step.
    fn train(&self, batch: &Batch, version: u64) -> Result<StepReport, (&'static str, String)> {
        let config = &self.args.config;
        let groups = train_groups(batch.groups(), config, version).map_err(|detail| ("error", detail))?;
        let progress = &self.args.shared.progress;
        let mut tick = |done: usize, all: usize| {
            progress.tick();
            progress.micro_batches_done.store(done as u64, std::sync::atomic::Ordering::Relaxed);
            progress.micro_batches.store(all as u64, std::sync::atomic::Ordering::Relaxed);
        };
        if groups.is_empty() {
            return Err(("empty", "no group of the batch has anything to learn from".to_owned()));
        }
        // A poisoned lock means a step panicked half-way; `Died` has ended the run by then.
        let mut trainer = self.args.trainer.lock().map_err(|_| ("error", "an earlier step panicked".to_owned()))?;
        let report =
            trainer.step(&groups, &config.objective, config.temperature, &mut tick).map_err(|error| match error {
                TrainError::NonFinite { .. } => ("non_finite", error.to_string()),
                TrainError::EmptyBatch => ("empty", error.to_string()),
                TrainError::Malformed(_)
                | TrainError::Config { .. }
                | TrainError::Checkpoint { .. }
                | TrainError::Backend(_) => ("error", error.to_string()),
            })?;
        self.args.shared.weights.publish(trainer.weights());
        Ok(report)
    }
}

/// Advantages and token tensors of a batch. Groups of zero variance leave it if the configuration says so.
fn train_groups<'a>(
    groups: impl Iterator<Item = &'a Group>,
    config: &LearnerConfig,
    version: u64,
) -> Result<Vec<TrainGroup>, String> {
    let mut train = Vec::new();
    for group in groups {
        let rewards = group.rewards();
        let advantages =
            config.objective.advantage.of_group(&rewards).map_err(|error| format!("group {}: {error}", group.id.0))?;
        if config.zero_variance == ZeroVariance::Drop && advantages.iter().all(|advantage| *advantage == 0.0) {
            continue;
        }
        let Some(prompt_ids) =
            group.rollouts.iter().find_map(|rollout| Some(Arc::clone(&rollout.action.as_ref()?.prompt_ids)))
        else {
            continue;
        };
        let sequences = group
            .rollouts
            .iter()
            .zip(advantages)
            .filter_map(|(rollout, advantage)| sequence(rollout, advantage, config, version));
        train.push(TrainGroup { prompt_ids, sequences: sequences.collect() });
    }
    train.retain(|group| !group.sequences.is_empty());
    Ok(train)
}

fn sequence(rollout: &Rollout, advantage: f64, config: &LearnerConfig, version: u64) -> Option<TrainSequence> {
    let action = rollout.action.as_ref()?;
    let truncated = action.finish_reason != rehearsal_models::FinishReason::Eos;
    if config.mask_truncated && truncated {
        return None;
    }
    let on_policy = action.versions.iter().all(|sampled_by| *sampled_by == version);
    Some(TrainSequence {
        completion_ids: action.completion_ids.clone(),
        loss_mask: vec![true; action.completion_ids.len()],
        logprobs: action.logprobs.clone(),
        old_logprobs: (!on_policy).then(|| action.sampling_logprobs.clone()),
        advantage,
    })
}
