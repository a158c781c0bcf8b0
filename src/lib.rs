//! Rehearsal: an actor-model rollout engine for reinforcement-learning post-training of language models.
//!
//! A policy writes code, fresh WebAssembly sandboxes run it, evaluators turn what happened into rewards that can be trusted, a learner
//! updates the policy. The engine is a library first: `rehearsal train` and `rehearsal serve` are two clients of it.
//!
//! ```no_run
//! use std::sync::Arc;
//! use futures::StreamExt;
//! use rehearsal::{Engine, EngineConfig, Purpose, ScriptedPolicy, Task};
//!
//! # async fn run(config: EngineConfig, sandbox: Arc<dyn rehearsal::Sandbox>, task: Arc<Task>) -> Result<(), rehearsal::EngineError> {
//! let policy = ScriptedPolicy::new(|_prompt, _seed| "def add(a, b):\n    return a + b\n".to_owned());
//! let engine = Engine::builder(config, policy, sandbox).start().await?;
//! let mut rollouts = engine.rollouts();
//! engine.submit(task, Purpose::Serve)?;
//! while let Some(rollout) = rollouts.next().await {
//!     println!("{}: {} {:?}", rollout.key.task_id, rollout.outcome.label(), rollout.reward);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Core concepts: a [`Task`] is a prompt and how it is verified; an episode is one attempt at it; a group is the episodes of one task that are
//! compared; a [`Rollout`] is a finished episode with its token ids, log-probs, [`Outcome`] and reward. `examples/embedded.rs` runs the tree
//! under a foreign supervisor.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test's failure is a panic"))]

pub mod config;
pub mod engine;

pub mod tasks;

pub mod evaluate;
pub mod train;

pub mod http;
pub mod serve;

pub mod fetch;
pub mod home;
pub mod prepare;
pub mod progress;

pub mod record;
pub mod report;
pub mod run_dir;

pub use engine::{Engine, EngineBuilder, EngineConfig, EngineError, PolicyParts};
pub use rehearsal_actors::progress::Progress as EngineProgress;
pub use rehearsal_actors::ractor;
pub use rehearsal_actors::{
    Event, GroupId, Outcome, Purpose, RewardRule, Rollout, ScriptedPolicy, StepSummary, Subscription, Task, TaskId,
};
pub use rehearsal_sandboxes::{Limits, Sandbox, Tests};
