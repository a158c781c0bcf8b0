//! The whole flow, wired in one place.
//!
//! ```text
//! task_source ─▶ rollout ──asks──▶ generator      (completion)
//!      ▲            │ ───asks──▶ sandbox_pool     (judgement)
//!      │            │ ───asks──▶ evaluator        (outcome, reward)
//!      │            └──group────▶ learner ─▶ weights ─▶ generator
//!      └── credit: the permit in a consumed group ──┘
//! ```
//!
//! Stages are wired bottom-up: each is spawned after the stages it speaks to, so the actor graph is a DAG and no actor needs a setter
//! or a look-up by name. The two arcs back are not messages: weights are state ([`weights`]), credit is ownership ([`credit`]).

pub mod credit;
pub mod task_source;

pub mod rollout;

pub mod generator;

pub mod sandbox_pool;

pub mod evaluator;

pub mod batch;
pub mod learner;

pub mod weights;

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorRef, SpawnErr};

use rehearsal_sandboxes::Sandbox;

use crate::codec::TextCodec;
use crate::hub::Hub;
use crate::metrics::Metrics;
use crate::progress::Progress;
use crate::supervision::restart::RestartPolicy;
use crate::types::RewardRule;
use credit::Ledger;
use evaluator::{Evaluator, EvaluatorArgs, EvaluatorMsg};
use generator::{Generator, GeneratorArgs, GeneratorFactory, GeneratorMsg};
use learner::{Learner, LearnerArgs, LearnerConfig, LearnerMsg, TrainerSlot};
use rollout::{Patience, RolloutArgs, RolloutMsg, RolloutStage};
use sandbox_pool::{SandboxArgs, SandboxMsg, SandboxPool};
use task_source::{SourceArgs, SourceMsg, TaskSource};
use weights::WeightsChannel;

/// What every stage shares, and what outlives each of them.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Permits, curriculum and cursor.
    pub ledger: Arc<Ledger>,
    /// Where observers listen.
    pub hub: Arc<Hub>,
    /// What the watchdog looks at.
    pub progress: Arc<Progress>,
    /// Metric handles.
    pub metrics: Metrics,
    /// The way of the weights.
    pub weights: WeightsChannel,
}

/// The learner's engine and what it optimises.
#[derive(Debug, Clone)]
pub struct LearnerParts {
    /// The engine.
    pub trainer: TrainerSlot,
    /// Objective and batch.
    pub config: LearnerConfig,
}

/// Everything a tree is built from; kept by the supervisor, which builds from it again after a crash.
#[derive(Clone)]
pub struct PipelineParts {
    /// Renders, encodes, decodes.
    pub codec: Arc<dyn TextCodec>,
    /// Builds the decoder.
    pub generator: GeneratorFactory,
    /// Completions that may be asked for at once.
    pub max_episodes: usize,
    /// Runs guests.
    pub sandbox: Arc<dyn Sandbox>,
    /// Sandbox threads.
    pub sandbox_workers: usize,
    /// The learner; absent where nothing is learned.
    pub learner: Option<LearnerParts>,
    /// How outcomes become rewards.
    pub rewards: RewardRule,
    /// Deadlines and retries.
    pub patience: Patience,
    /// How often a stage may be restarted.
    pub restart: RestartPolicy,
    /// Longest time without progress while work is in flight.
    pub watchdog: Duration,
    /// What the stages share.
    pub shared: Shared,
}

impl std::fmt::Debug for PipelineParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PipelineParts")
            .field("max_episodes", &self.max_episodes)
            .field("sandbox_workers", &self.sandbox_workers)
            .field("learner", &self.learner)
            .finish_non_exhaustive()
    }
}

/// The stages in wiring order. When one dies, it and every later one are respawned: those hold its dead reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// First: a crash of any other stage never costs the optimiser's state.
    Learner,
    /// Scores.
    Evaluator,
    /// Runs guests.
    Sandbox,
    /// Samples.
    Generator,
    /// Drives episodes.
    Rollout,
    /// Chooses tasks.
    Source,
}

impl Role {
    /// Every role, in wiring order.
    pub const ALL: [Self; 6] =
        [Self::Learner, Self::Evaluator, Self::Sandbox, Self::Generator, Self::Rollout, Self::Source];

    /// The role's stable name.
    pub fn label(self) -> &'static str {
        match self {
            Self::Learner => "learner",
            Self::Evaluator => "evaluator",
            Self::Sandbox => "sandbox",
            Self::Generator => "generator",
            Self::Rollout => "rollout",
            Self::Source => "source",
        }
    }
}

/// References to the running stages.
#[derive(Debug, Clone, Default)]
pub struct Stages {
    /// See [`Role::Learner`].
    pub learner: Option<ActorRef<LearnerMsg>>,
    /// See [`Role::Evaluator`].
    pub evaluator: Option<ActorRef<EvaluatorMsg>>,
    /// See [`Role::Sandbox`].
    pub sandbox: Option<ActorRef<SandboxMsg>>,
    /// See [`Role::Generator`].
    pub generator: Option<ActorRef<GeneratorMsg>>,
    /// See [`Role::Rollout`].
    pub rollout: Option<ActorRef<RolloutMsg>>,
    /// See [`Role::Source`].
    pub source: Option<ActorRef<SourceMsg>>,
}

impl Stages {
    /// The running stages as untyped cells, in wiring order.
    pub fn cells(&self) -> Vec<(Role, ActorCell)> {
        let cells = [
            self.learner.as_ref().map(ActorRef::get_cell),
            self.evaluator.as_ref().map(ActorRef::get_cell),
            self.sandbox.as_ref().map(ActorRef::get_cell),
            self.generator.as_ref().map(ActorRef::get_cell),
            self.rollout.as_ref().map(ActorRef::get_cell),
            self.source.as_ref().map(ActorRef::get_cell),
        ];
        Role::ALL.into_iter().zip(cells).filter_map(|(role, cell)| Some((role, cell?))).collect()
    }

    /// Forgets `from` and every later stage.
    pub fn forget_from(&mut self, from: Role) {
        let kept = |role: Role| role < from;
        self.learner = self.learner.take().filter(|_| kept(Role::Learner));
        self.evaluator = self.evaluator.take().filter(|_| kept(Role::Evaluator));
        self.sandbox = self.sandbox.take().filter(|_| kept(Role::Sandbox));
        self.generator = self.generator.take().filter(|_| kept(Role::Generator));
        self.rollout = self.rollout.take().filter(|_| kept(Role::Rollout));
        self.source = self.source.take().filter(|_| kept(Role::Source));
    }
}

/// Spawns every stage that does not run yet, learner first. On an error the stages spawned so far stay in `stages`.
pub async fn spawn_pipeline(
    parts: &PipelineParts,
    stages: &mut Stages,
    supervisor: &ActorCell,
) -> Result<(), (Role, SpawnErr)> {
    let shared = &parts.shared;
    // The permits bound what is asked; the queues are the backstop, twice as deep.
    let queue = parts.max_episodes * 2;

    if let (None, Some(LearnerParts { trainer, config })) = (&stages.learner, &parts.learner) {
        let args = LearnerArgs { trainer: Arc::clone(trainer), config: config.clone(), shared: shared.clone() };
        stages.learner = Some(spawn(Role::Learner, Learner, args, supervisor).await?);
    }
    let evaluator = match &stages.evaluator {
        Some(running) => running.clone(),
        None => {
            let args = EvaluatorArgs { rewards: parts.rewards.clone(), shared: shared.clone() };
            spawn(Role::Evaluator, Evaluator, args, supervisor).await?
        }
    };
    stages.evaluator = Some(evaluator.clone());
    let sandbox = match &stages.sandbox {
        Some(running) => running.clone(),
        None => {
            let args = SandboxArgs {
                sandbox: Arc::clone(&parts.sandbox),
                workers: parts.sandbox_workers,
                queue,
                restart: parts.restart,
                shared: shared.clone(),
            };
            spawn(Role::Sandbox, SandboxPool, args, supervisor).await?
        }
    };
    stages.sandbox = Some(sandbox.clone());
    let generator = match &stages.generator {
        Some(running) => running.clone(),
        None => {
            let args = GeneratorArgs { factory: Arc::clone(&parts.generator), queue, shared: shared.clone() };
            spawn(Role::Generator, Generator, args, supervisor).await?
        }
    };
    stages.generator = Some(generator.clone());
    let rollout = match &stages.rollout {
        Some(running) => running.clone(),
        None => {
            let args = RolloutArgs {
                codec: Arc::clone(&parts.codec),
                patience: parts.patience,
                generator,
                sandbox,
                evaluator,
                learner: stages.learner.clone(),
                shared: shared.clone(),
            };
            spawn(Role::Rollout, RolloutStage, args, supervisor).await?
        }
    };
    stages.rollout = Some(rollout.clone());
    if stages.source.is_none() {
        let args = SourceArgs { rollout, shared: shared.clone() };
        stages.source = Some(spawn(Role::Source, TaskSource, args, supervisor).await?);
    }
    Ok(())
}

/// Spawns one stage under the supervisor. Actors have no names: ractor's registry is process-wide, and engines must not meet.
async fn spawn<A: Actor>(
    role: Role,
    actor: A,
    args: A::Arguments,
    supervisor: &ActorCell,
) -> Result<ActorRef<A::Msg>, (Role, SpawnErr)> {
    let spawned = Actor::spawn_linked(None, actor, args, supervisor.clone()).await;
    spawned.map(|(stage, _running)| stage).map_err(|error| (role, error))
}
