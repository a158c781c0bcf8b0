//! `rehearsal train`: a recipe, from nothing to a checkpoint and a report.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};

use rehearsal::config::Recipe;
use rehearsal::engine::PolicyParts;
use rehearsal::evaluate::Evaluation;
use rehearsal::home::Home;
use rehearsal::progress::{Bar, Show};
use rehearsal::run_dir::{RunDir, RunState};
use rehearsal::train::{TrainEnd, TrainJob, TrainObserver, train};
use rehearsal::{EngineProgress, StepSummary, http, prepare, tasks};

use crate::commands::{sandboxes, shutdown_signal};
use crate::console::{Console, Watch, activity, step_line};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The recipe (TOML).
    #[arg(required_unless_present = "resume")]
    recipe: Option<PathBuf>,
    /// Where to record the run. Default: `runs/NAME-NUMBER`.
    #[arg(long, conflicts_with = "resume")]
    run_dir: Option<PathBuf>,
    /// Go on with a run from its last checkpoint.
    #[arg(long, value_name = "RUN_DIR", conflicts_with = "recipe")]
    resume: Option<PathBuf>,
    /// Train for this many steps instead of the recipe's.
    #[arg(long)]
    steps: Option<u64>,
    /// Serve Prometheus metrics on this address during the run; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS")]
    metrics_addr: Option<String>,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let console = Console::new();
    let said = console.clone();
    let shutdown = shutdown_signal(move || said.say("ending cleanly; Ctrl-C again ends at once"))?;
    let (recorder, handle) = http::recorder()?;
    let server = match &args.metrics_addr {
        Some(address) => {
            let (listener, bound) = http::bind(address).await?;
            console.say(&format!("metrics on http://{bound}/metrics"));
            Some(tokio::spawn(http::serve_metrics(listener, handle)))
        }
        None => None,
    };
    let shown = console.clone();
    let preparing = tokio::task::spawn_blocking(move || prepare_job(&args, &shown));
    tokio::pin!(shutdown);
    let job = tokio::select! {
        // Nothing has been learned yet: what is half fetched or half built is left to the next start to clear away.
        () = &mut shutdown => return Ok(ExitCode::from(130)),
        job = preparing => job.context("preparing the run failed")??,
    };
    let path = job.run_dir.path().to_owned();
    let mut observer = Observer::new(console.clone());
    let end = train(job, &recorder, &mut observer, shutdown).await;
    drop(observer);
    if let Some(server) = server {
        server.abort();
    }
    match end? {
        TrainEnd::Completed => console.say(&format!("done: {}", path.join("report.html").display())),
        TrainEnd::Interrupted => {
            console.say(&format!("ended early; go on with: rehearsal train --resume {}", path.display()))
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads, fetches, loads and builds everything; whatever is wrong with the input is said before anything long begins.
fn prepare_job(args: &Args, console: &Console) -> Result<TrainJob> {
    let (mut recipe, resumed) = match (&args.recipe, &args.resume) {
        (Some(recipe), _) => (Recipe::load(recipe)?, None),
        (None, Some(run)) => {
            let (dir, recipe) = RunDir::open(run)?;
            // Read here for its faults, before anything long begins; used once the trainer is there.
            dir.state()?;
            (recipe, Some(dir))
        }
        (None, None) => bail!("give a recipe, or --resume RUN_DIR"),
    };
    if let Some(steps) = args.steps {
        recipe.train.steps = steps;
    }
    let limits = &recipe.sandbox.limits;
    let train_tasks = tasks::load_split(&recipe.tasks.file, &recipe.tasks.train_split, limits)?;
    let heldout_tasks = tasks::load_split(&recipe.tasks.file, &recipe.tasks.heldout_split, limits)?;
    let home = Home::open()?;
    let policy = prepare::policy(&home, &recipe.policy.source, recipe.policy.device, console)?;
    let sandbox = sandboxes(&home, (&recipe.sandbox.image, recipe.sandbox.workers, recipe.sandbox.processes), console)?;
    let mut trainer = policy.learner(recipe.optimizer.clone())?;
    let (run_dir, state) = match resumed {
        None => (RunDir::create(&args.run_dir.clone().map_or_else(|| free_run_dir(&recipe.name), Ok)?, &recipe)?, None),
        Some(dir) => {
            let state = resume(&dir, trainer.as_mut(), console)?;
            (dir, state)
        }
    };
    console.say(&format!("run directory {}", run_dir.path().display()));
    let policy = PolicyParts {
        codec: policy.text(),
        weights: trainer.weights(),
        generator: prepare::generator(policy, recipe.policy.max_batch),
        trainer: Some(trainer),
    };
    Ok(TrainJob { recipe, run_dir, state, policy, sandbox, train_tasks, heldout_tasks })
}

/// Restores the trainer from the last complete checkpoint, and the run's files to that point.
fn resume(dir: &RunDir, trainer: &mut dyn rehearsal_models::Train, console: &Console) -> Result<Option<RunState>> {
    let state = dir.state()?;
    match &state {
        Some(state) => {
            trainer.restore(&dir.path().join(&state.checkpoint))?;
            dir.rewind(state.step)?;
            console.say(&format!("going on after step {}", state.step));
        }
        None => {
            dir.rewind(0)?;
            console.say("the run has no checkpoint yet: beginning again");
        }
    }
    Ok(state)
}

/// The first of `runs/NAME-001`, `-002`, … that is free.
fn free_run_dir(name: &str) -> Result<PathBuf> {
    (1..10_000)
        .map(|number| Path::new("runs").join(format!("{name}-{number:03}")))
        .find(|path| !path.exists())
        .context("runs/ is full: name a directory with --run-dir")
}

/// Shows a run on the console.
#[derive(Debug)]
struct Observer {
    console: Console,
    watch: Option<Watch>,
    evaluation: Option<Box<dyn Bar>>,
}

impl Observer {
    fn new(console: Console) -> Self {
        Self { console, watch: None, evaluation: None }
    }
}

impl TrainObserver for Observer {
    fn started(&mut self, progress: Arc<EngineProgress>) {
        self.watch = Some(self.console.watch(progress, activity));
    }

    fn step(&mut self, summary: &StepSummary, steps: u64) {
        self.console.say(&step_line(summary, steps));
    }

    fn evaluating(&mut self, when: &str, done: usize, all: usize) {
        let text = format!("evaluating {when} training: {done} of {all} completions");
        match &self.evaluation {
            Some(bar) => bar.text(&text),
            None => self.evaluation = Some(self.console.spinner(&text)),
        }
    }

    fn evaluated(&mut self, evaluation: &Evaluation) {
        self.evaluation = None;
        self.console.say(&format!(
            "held-out pass@1 {} training: {:.3} ± {:.3} ({} tasks × {}, {:.0} s)",
            evaluation.when,
            evaluation.pass_at_1,
            evaluation.standard_error,
            evaluation.tasks,
            evaluation.samples,
            evaluation.seconds
        ));
    }

    fn note(&mut self, line: &str) {
        self.console.say(line);
        // A pipe that is gone must not end the run.
        let _ = std::io::stderr().flush();
    }
}
