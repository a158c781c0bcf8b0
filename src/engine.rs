//! One supervision tree, as a value: build it from a configuration, start it alone or under a ractor supervisor of yours, submit tasks,
//! read rollouts, stop it.
//!
//! Nothing global is touched: two engines in one process do not meet.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{Stream, StreamExt};
use rehearsal_actors::codec::TextCodec;
use rehearsal_actors::metrics::MetricHandles;
use rehearsal_actors::pipeline::credit::{Admission, Curriculum, Cursor, Ledger, SubmitError};
use rehearsal_actors::pipeline::generator::GeneratorFactory;
use rehearsal_actors::pipeline::learner::{Checkpoint, LearnerConfig};
use rehearsal_actors::pipeline::weights::WeightsChannel;
use rehearsal_actors::pipeline::{LearnerParts, PipelineParts, Shared};
use rehearsal_actors::progress::Progress;
use rehearsal_actors::ractor::rpc::CallResult;
use rehearsal_actors::ractor::{Actor, ActorCell, ActorRef};
use rehearsal_actors::supervision::restart::RestartPolicy;
use rehearsal_actors::supervision::{Supervisor, SupervisorMsg};
use rehearsal_actors::types::episode_seed;
use rehearsal_actors::{Event, GroupId, Hub, Purpose, RewardRule, Rollout, ScriptedPolicy, Subscription, Task};
use rehearsal_models::{Sampling, Train, Weights};
use rehearsal_sandboxes::Sandbox;

use crate::config::{DaemonConfig, Deadlines, Recipe, RolloutSection, sandboxes_at_once};

/// What an engine runs under.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineConfig {
    /// Seeds every draw.
    pub seed: u64,
    /// Default group size and sampling, and the bounds on what is in flight.
    pub rollout: RolloutSection,
    /// Sandbox threads; 0 takes one per core.
    pub sandbox_workers: usize,
    /// How outcomes become rewards.
    pub rewards: RewardRule,
    /// Deadlines and retries.
    pub deadlines: Deadlines,
    /// How often a stage may be restarted.
    pub restart: RestartPolicy,
    /// What is learned, if anything.
    pub learner: Option<LearnerConfig>,
    /// Where a resumed run stands.
    pub cursor: Cursor,
}

impl From<&Recipe> for EngineConfig {
    fn from(recipe: &Recipe) -> Self {
        let learner = LearnerConfig {
            objective: recipe.objective.clone(),
            temperature: recipe.rollout.temperature,
            groups_per_step: recipe.train.groups_per_step,
            max_staleness: recipe.train.max_staleness,
            zero_variance: recipe.train.zero_variance,
            mask_truncated: recipe.train.mask_truncated,
        };
        Self {
            seed: recipe.seed,
            rollout: recipe.rollout.clone(),
            sandbox_workers: recipe.sandbox.workers,
            rewards: recipe.reward.clone(),
            deadlines: recipe.deadlines.clone(),
            restart: RestartPolicy::default(),
            learner: Some(learner),
            cursor: Cursor::default(),
        }
    }
}

impl From<&DaemonConfig> for EngineConfig {
    fn from(config: &DaemonConfig) -> Self {
        Self {
            seed: config.seed,
            rollout: config.rollout.clone(),
            sandbox_workers: config.sandbox.workers,
            rewards: config.reward.clone(),
            deadlines: config.deadlines.clone(),
            restart: RestartPolicy::default(),
            learner: None,
            cursor: Cursor::default(),
        }
    }
}

/// The policy an engine samples from and, perhaps, trains.
pub struct PolicyParts {
    /// Renders, encodes, decodes.
    pub codec: Arc<dyn TextCodec>,
    /// Builds the decoder; called again when the generator is restarted.
    pub generator: GeneratorFactory,
    /// The weights to begin with.
    pub weights: Weights,
    /// Takes gradient steps, where something is learned.
    pub trainer: Option<Box<dyn Train>>,
}

impl std::fmt::Debug for PolicyParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyParts").field("weights", &self.weights).finish_non_exhaustive()
    }
}

impl From<ScriptedPolicy> for PolicyParts {
    fn from(policy: ScriptedPolicy) -> Self {
        Self { codec: policy.codec(), generator: policy.generator(), weights: policy.weights(), trainer: None }
    }
}

/// Why an engine did not start, or is no more.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The configuration asks for a learner and the policy has no trainer, or the other way round.
    #[error("{0}")]
    Mismatch(&'static str),
    /// The tree did not start.
    #[error("the engine did not start: {0}")]
    Start(String),
    /// A submission was refused.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The checkpoint could not be written.
    #[error("checkpoint: {0}")]
    Checkpoint(String),
    /// What was in flight did not end in time.
    #[error("{groups} groups were still in flight after {waited:?}")]
    Drain {
        /// Groups in flight.
        groups: usize,
        /// The deadline.
        waited: Duration,
    },
}

/// Collects an engine's parts.
pub struct EngineBuilder<'a> {
    config: EngineConfig,
    policy: PolicyParts,
    sandbox: Arc<dyn Sandbox>,
    recorder: Option<(&'a dyn metrics::Recorder, String)>,
}

impl std::fmt::Debug for EngineBuilder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineBuilder").field("config", &self.config).finish_non_exhaustive()
    }
}

impl<'a> EngineBuilder<'a> {
    /// Registers the engine's metrics with `recorder`; `device` labels `build_info`. Without it, nothing is recorded.
    pub fn recorder(mut self, recorder: &'a dyn metrics::Recorder, device: &str) -> Self {
        self.recorder = Some((recorder, device.to_owned()));
        self
    }

    /// Starts the tree on its own.
    pub async fn start(self) -> Result<Engine, EngineError> {
        self.launch(None).await
    }

    /// Starts the tree under a supervisor of yours. If the tree gives up, `supervisor` sees the failure with its first cause; if
    /// `supervisor` stops, the tree goes with it.
    pub async fn start_linked(self, supervisor: ActorCell) -> Result<Engine, EngineError> {
        self.launch(Some(supervisor)).await
    }

    async fn launch(self, supervisor: Option<ActorCell>) -> Result<Engine, EngineError> {
        let Self { config, policy, sandbox, recorder } = self;
        let metrics = match recorder {
            Some((recorder, device)) => MetricHandles::register(recorder, sandbox.image(), &device),
            None => MetricHandles::disabled(),
        };
        let learner = match (config.learner.clone(), policy.trainer) {
            (Some(learner), Some(trainer)) => {
                Some(LearnerParts { trainer: Arc::new(Mutex::new(trainer)), config: learner })
            }
            (None, None) => None,
            (Some(_), None) => {
                return Err(EngineError::Mismatch(
                    "the configuration asks for a learner, and the policy has no trainer",
                ));
            }
            (None, Some(_)) => {
                return Err(EngineError::Mismatch("the policy has a trainer, and the configuration no learner"));
            }
        };
        let admission = Admission {
            max_in_flight: config.rollout.max_in_flight_groups,
            max_pending: config.rollout.max_pending_groups,
            groups_per_step: config.learner.as_ref().map_or(0, |learner| learner.groups_per_step),
            max_staleness: config.learner.as_ref().map_or(0, |learner| learner.max_staleness),
            max_losses: config.deadlines.retries,
        };
        let shared = Shared {
            ledger: Ledger::new(admission, config.cursor),
            hub: Arc::new(Hub::default()),
            progress: Arc::new(Progress::default()),
            metrics,
            weights: WeightsChannel::new(policy.weights),
        };
        let parts = PipelineParts {
            codec: policy.codec,
            generator: policy.generator,
            max_episodes: config.rollout.max_in_flight_groups
                * (config.rollout.group_size.max(MAX_SUBMITTED_SIZE) as usize),
            sandbox,
            sandbox_workers: sandboxes_at_once(config.sandbox_workers),
            learner,
            rewards: config.rewards.clone(),
            patience: config.deadlines.patience(),
            restart: config.restart,
            watchdog: Duration::from_secs(config.deadlines.watchdog_s),
            shared: shared.clone(),
        };
        let spawned = match supervisor {
            Some(supervisor) => Actor::spawn_linked(None, Supervisor, parts, supervisor).await,
            None => Actor::spawn(None, Supervisor, parts).await,
        };
        let (tree, _running) = spawned.map_err(|error| EngineError::Start(error.to_string()))?;
        Ok(Engine { config, shared, tree, submitted: AtomicU64::new(0) })
    }
}

/// The largest group that may be submitted; also bounds the queues.
pub const MAX_SUBMITTED_SIZE: u32 = 64;

/// A running tree. Dropping the handle stops it.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    shared: Shared,
    tree: ActorRef<SupervisorMsg>,
    submitted: AtomicU64,
}

impl Engine {
    /// Begins an engine from its configuration, a policy and a sandbox.
    pub fn builder<'a>(
        config: EngineConfig,
        policy: impl Into<PolicyParts>,
        sandbox: Arc<dyn Sandbox>,
    ) -> EngineBuilder<'a> {
        EngineBuilder { config, policy: policy.into(), sandbox, recorder: None }
    }

    /// Queues one group of the default size and sampling; its rollouts come through [`subscribe`](Self::subscribe).
    pub fn submit(&self, task: Arc<Task>, purpose: Purpose) -> Result<GroupId, EngineError> {
        let sampling = self.config.rollout.sampling(0);
        self.submit_with(task, self.config.rollout.group_size, sampling, purpose)
    }

    /// Queues one group of `size` episodes. The seed in `sampling` is replaced: the engine's own seed and a running number decide, so
    /// that the same submissions in the same order draw the same tokens.
    pub fn submit_with(
        &self,
        task: Arc<Task>,
        size: u32,
        sampling: Sampling,
        purpose: Purpose,
    ) -> Result<GroupId, EngineError> {
        let size = size.min(MAX_SUBMITTED_SIZE);
        let number = self.submitted.fetch_add(1, Ordering::Relaxed);
        let seed = episode_seed(self.config.seed ^ (purpose as u64) << 56, 0).wrapping_add(number);
        Ok(self.shared.ledger.submit(task, size, Sampling { seed, ..sampling }, purpose)?)
    }

    /// Episodes per submitted group unless said otherwise.
    pub fn group_size(&self) -> u32 {
        self.config.rollout.group_size
    }

    /// How submitted groups are sampled unless said otherwise.
    pub fn sampling(&self) -> Sampling {
        self.config.rollout.sampling(self.config.seed)
    }

    /// Starts drawing training groups from `curriculum` until its steps are taken.
    pub fn train(&self, curriculum: Curriculum) {
        self.shared.ledger.start_curriculum(curriculum);
    }

    /// Everything that happens from now on.
    pub fn subscribe(&self) -> Subscription {
        self.shared.hub.subscribe()
    }

    /// Every rollout that ends from now on.
    pub fn rollouts(&self) -> impl Stream<Item = Arc<Rollout>> + Send + Unpin + use<> {
        let events = self.subscribe().into_stream();
        Box::pin(events.filter_map(|event| async move {
            match event {
                Event::Rollout(rollout) => Some(rollout),
                _ => None,
            }
        }))
    }

    /// Counters of what is going on now.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.shared.progress)
    }

    /// Where the run stands, for a checkpoint.
    pub fn cursor(&self) -> Cursor {
        self.shared.ledger.cursor()
    }

    /// The weights version published last.
    pub fn weights_version(&self) -> u64 {
        self.shared.weights.version()
    }

    /// Tasks taken out of the run, with the reason.
    pub fn quarantined(&self) -> Vec<(rehearsal_actors::TaskId, String)> {
        self.shared.ledger.quarantined()
    }

    /// The untyped cell of the tree, for a supervisor that wants to recognise it.
    pub fn cell(&self) -> ActorCell {
        self.tree.get_cell()
    }

    /// True until the tree has stopped or given up.
    pub fn is_running(&self) -> bool {
        use rehearsal_actors::ractor::ActorStatus::{Draining, Stopped, Stopping};
        !matches!(self.tree.get_status(), Draining | Stopping | Stopped)
    }

    /// Writes a checkpoint of the learner (a Hugging Face directory named by the step) into `root`, after the step it may be in. When
    /// the answer comes, the events of every step in it are on their way.
    pub async fn checkpoint(&self, root: PathBuf) -> Result<Checkpoint, EngineError> {
        let deadline = Duration::from_secs(self.config.deadlines.watchdog_s);
        match self.tree.call(|reply| SupervisorMsg::Save { root, reply }, Some(deadline)).await {
            Ok(CallResult::Success(saved)) => saved.map_err(EngineError::Checkpoint),
            Ok(CallResult::Timeout) => {
                Err(EngineError::Checkpoint(format!("the learner did not answer within {deadline:?}")))
            }
            Ok(CallResult::SenderError) => {
                Err(EngineError::Checkpoint("the learner died before it answered".to_owned()))
            }
            Err(error) => Err(EngineError::Checkpoint(error.to_string())),
        }
    }

    /// Drops what is in flight and starts nothing new; the learner stays, to be saved.
    pub fn quiesce(&self) {
        self.shared.ledger.close();
        // Already gone is as good as quiet.
        let _ = self.tree.cast(SupervisorMsg::Quiesce);
    }

    /// Takes nothing new, lets what is queued and running end, for at most `deadline`, and stops.
    pub async fn drain(self, deadline: Duration) -> Result<(), EngineError> {
        self.shared.ledger.refuse_new();
        let idle = async {
            while !self.shared.ledger.is_idle() && self.is_running() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let drained = tokio::time::timeout(deadline, idle).await;
        let groups = self.shared.ledger.running() + self.shared.ledger.pending();
        self.stop().await;
        drained.map_err(|_| EngineError::Drain { groups, waited: deadline })
    }

    /// Stops now: what is in flight is dropped.
    pub async fn stop(self) {
        self.shared.ledger.close();
        // Already gone is as good as stopped.
        let _ = self.tree.cast(SupervisorMsg::Stop);
        if self.tree.wait(Some(Duration::from_secs(40))).await.is_err() {
            self.tree.kill();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.ledger.close();
        let _ = self.tree.cast(SupervisorMsg::Stop);
    }
}
