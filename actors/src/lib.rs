//! The actors of Rehearsal: one supervision tree that turns tasks into rollouts, rollouts into steps, steps into weights.
//!
//! ```text
//! tasks ─▶ task_source ─▶ rollout ─▶ (generator, sandbox_pool, evaluator) ─▶ group ─▶ learner ─▶ weights ─▶ generator
//! ```
//!
//! Read [`pipeline`] first: it is the whole flow. Then one stage file at a time, in flow order. [`supervision`] says what happens when a
//! stage dies; [`types`] says what may become a reward.
//!
//! This is the only crate that knows ractor. It installs nothing global: no names, no recorder, no subscriber, no runtime.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test's failure is a panic"))]

pub mod task;
pub mod types;

pub mod pipeline;

pub mod supervision;

pub mod codec;
pub mod hub;
pub mod metrics;
pub mod progress;
pub mod scripted;

mod worker;

pub use codec::TextCodec;
pub use hub::{Event, Hub, StepSummary, Subscription};
pub use ractor;
pub use scripted::ScriptedPolicy;
pub use task::{Task, extract_code};
pub use types::{Action, EpisodeKey, Group, GroupId, GroupSpec, Outcome, Purpose, RewardRule, Rollout, TaskId, Timing};
