//! The joint vocabulary: what a task, an episode, a rollout and a group are, and how an episode may end.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use rehearsal_models::{FinishReason, Sampling};
use rehearsal_sandboxes::{Judgement, PolicyErrorReason, Verdict};

use crate::task::Task;

/// A task's name, unique within its task file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(pub Arc<str>);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for TaskId {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

/// One group: the episodes of one task that are compared with each other. Unique within an engine, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupId(pub u64);

/// Names one attempt at one episode. A late answer whose key is superseded is recognised by it and dropped.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EpisodeKey {
    /// The task attempted.
    pub task_id: TaskId,
    /// The group compared within.
    pub group_id: GroupId,
    /// Position in the group.
    pub index: u32,
    /// 0 for the first try; one more each time the host, not the policy, failed.
    pub attempt: u32,
    /// Seeds the policy's draws and the sandbox's randomness; the same for every attempt.
    pub seed: u64,
}

/// What a group's rollouts are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Complete groups go to the learner.
    Train,
    /// Measured only.
    Evaluate,
    /// Streamed to whoever subscribes, and not learned from.
    Serve,
}

/// A group to run.
#[derive(Debug, Clone)]
pub struct GroupSpec {
    /// Its id.
    pub id: GroupId,
    /// The task.
    pub task: Arc<Task>,
    /// Episodes in the group.
    pub size: u32,
    /// How its episodes are sampled; the seed here is the group's, each episode derives its own.
    pub sampling: Sampling,
    /// What for.
    pub purpose: Purpose,
}

/// How an episode ended: the one place that decides what may become a reward.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// Every declared test ran and held.
    Passed,
    /// A test ran and did not hold.
    Failed {
        /// Which.
        test: String,
        /// The value expected.
        expected: String,
        /// The value got.
        got: String,
    },
    /// The policy's code ended before its tests could: exception, syntax error, a limit.
    PolicyError {
        /// Why.
        reason: PolicyErrorReason,
        /// The exception's text, or the limit.
        detail: String,
    },
    /// The task is at fault: never scored, the task is quarantined.
    TaskError {
        /// Why.
        detail: String,
    },
    /// The host is at fault: never scored, dispatched again.
    InfraError {
        /// The first cause.
        detail: String,
    },
    /// The engine stopped, or the caller did.
    Cancelled,
    /// A newer attempt took its place.
    Superseded,
}

impl Outcome {
    /// Every label [`label`](Self::label) can return.
    pub const LABELS: [&'static str; 7] =
        ["passed", "failed", "policy_error", "task_error", "infra_error", "cancelled", "superseded"];

    /// The outcome's stable name, as in metrics and records.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed { .. } => "failed",
            Self::PolicyError { .. } => "policy_error",
            Self::TaskError { .. } => "task_error",
            Self::InfraError { .. } => "infra_error",
            Self::Cancelled => "cancelled",
            Self::Superseded => "superseded",
        }
    }

    /// May this become a reward? Only what the policy did may.
    pub fn is_scored(&self) -> bool {
        matches!(self, Self::Passed | Self::Failed { .. } | Self::PolicyError { .. })
    }

    /// One line that says what happened, for people.
    pub fn detail(&self) -> String {
        match self {
            Self::Passed => String::new(),
            Self::Failed { test, expected, got } if expected.is_empty() && got.is_empty() => test.clone(),
            Self::Failed { test, expected, got } => format!("{test}: expected {expected}, got {got}"),
            Self::PolicyError { reason, detail } if detail.is_empty() => reason_label(*reason).to_owned(),
            Self::PolicyError { reason, detail } => format!("{}: {detail}", reason_label(*reason)),
            Self::TaskError { detail } | Self::InfraError { detail } => detail.clone(),
            Self::Cancelled => "cancelled".to_owned(),
            Self::Superseded => "superseded by a newer attempt".to_owned(),
        }
    }
}

impl From<Verdict> for Outcome {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Passed => Self::Passed,
            Verdict::Failed { test, expected, got } => Self::Failed { test, expected, got },
            Verdict::PolicyError { reason, detail } => Self::PolicyError { reason, detail },
            Verdict::TaskError { detail } => Self::TaskError { detail },
            Verdict::InfraError { detail } => Self::InfraError { detail },
        }
    }
}

/// The stable name of a policy error's reason.
pub fn reason_label(reason: PolicyErrorReason) -> &'static str {
    match reason {
        PolicyErrorReason::NoCode => "no_code",
        PolicyErrorReason::Compile => "compile",
        PolicyErrorReason::Runtime => "runtime",
        PolicyErrorReason::Exited => "exited",
        PolicyErrorReason::MissingEntryPoint => "missing_entry_point",
        PolicyErrorReason::OutOfFuel => "out_of_fuel",
        PolicyErrorReason::OutOfMemory => "out_of_memory",
        PolicyErrorReason::OutputLimit => "output_limit",
        PolicyErrorReason::StackOverflow => "stack_overflow",
        PolicyErrorReason::Unserialisable => "unserialisable",
        PolicyErrorReason::WorkspaceLimit => "workspace_limit",
        PolicyErrorReason::NoAnswer => "no_answer",
    }
}

/// What the policy wrote in one turn: token ids, never text that would have to be tokenised again.
#[derive(Debug, Clone, PartialEq)]
pub struct Action {
    /// The rendered prompt.
    pub prompt: Arc<str>,
    /// Its tokens.
    pub prompt_ids: Arc<[u32]>,
    /// The completion's text, end-of-turn token left out.
    pub text: String,
    /// The sampled tokens, end-of-turn included.
    pub completion_ids: Vec<u32>,
    /// Per token, raw softmax.
    pub logprobs: Vec<f32>,
    /// Per token, the distribution sampled from.
    pub sampling_logprobs: Vec<f32>,
    /// Per token, the weights version.
    pub versions: Vec<u64>,
    /// Why sampling stopped.
    pub finish_reason: FinishReason,
}

/// Seconds an episode spent, by where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// In the generator, its queue included.
    pub generate_s: f64,
    /// Waiting for a sandbox.
    pub sandbox_queue_s: f64,
    /// In the sandbox.
    pub sandbox_s: f64,
    /// From admission to reward.
    pub total_s: f64,
}

/// A finished episode.
#[derive(Debug, Clone)]
pub struct Rollout {
    /// Which attempt at which episode.
    pub key: EpisodeKey,
    /// What it was for.
    pub purpose: Purpose,
    /// What the policy wrote; `None` where the episode ended before the policy answered.
    pub action: Option<Action>,
    /// The code taken from the completion.
    pub code: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// The reward; `None` for every outcome that may not become one.
    pub reward: Option<f64>,
    /// The sandbox's evidence, where the code ran.
    pub judgement: Option<Judgement>,
    /// Where its time went.
    pub timing: Timing,
}

/// A group whose every episode has ended.
#[derive(Debug, Clone)]
pub struct Group {
    /// Its id.
    pub id: GroupId,
    /// Its task.
    pub task_id: TaskId,
    /// Rollouts by index. Those that may not become a reward have left.
    pub rollouts: Vec<Arc<Rollout>>,
}

impl Group {
    /// Rewards by index.
    pub fn rewards(&self) -> Vec<f64> {
        self.rollouts.iter().filter_map(|rollout| rollout.reward).collect()
    }
}

/// How outcomes become rewards. Infrastructure and task errors never do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RewardRule {
    /// Reward of `passed`.
    pub passed: f64,
    /// Reward of `failed`.
    pub failed: f64,
    /// Reward of `policy_error`.
    pub policy_error: f64,
    /// Added in proportion to the share of declared tests that held, for `failed` alone; 0 switches partial credit off.
    pub partial: f64,
}

impl Default for RewardRule {
    fn default() -> Self {
        Self { passed: 1.0, failed: 0.0, policy_error: 0.0, partial: 0.0 }
    }
}

impl RewardRule {
    /// The reward of an outcome; `None` where it may not have one.
    pub fn reward(&self, outcome: &Outcome, judgement: Option<&Judgement>) -> Option<f64> {
        match outcome {
            Outcome::Passed => Some(self.passed),
            Outcome::Failed { .. } => {
                let share = judgement
                    .filter(|j| j.tests_declared > 0)
                    .map_or(0.0, |j| f64::from(j.tests_passed) / f64::from(j.tests_declared));
                Some(self.failed + self.partial * share)
            }
            Outcome::PolicyError { .. } => Some(self.policy_error),
            Outcome::TaskError { .. } | Outcome::InfraError { .. } | Outcome::Cancelled | Outcome::Superseded => None,
        }
    }
}

/// The seed of one episode: a fixed mix of the group's seed and the index (SplitMix64's finaliser), so that an attempt that is
/// dispatched again draws the same tokens.
pub fn episode_seed(group_seed: u64, index: u32) -> u64 {
    let mut z = group_seed.wrapping_add(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(u64::from(index) + 1));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes() -> [Outcome; 7] {
        [
            Outcome::Passed,
            Outcome::Failed { test: "case 1".into(), expected: "2".into(), got: "3".into() },
            Outcome::PolicyError { reason: PolicyErrorReason::Exited, detail: String::new() },
            Outcome::TaskError { detail: "x".into() },
            Outcome::InfraError { detail: "x".into() },
            Outcome::Cancelled,
            Outcome::Superseded,
        ]
    }

    #[test]
    fn only_what_the_policy_did_is_scored() {
        let rule = RewardRule { passed: 1.0, failed: 0.1, policy_error: -0.5, partial: 0.0 };
        let rewards: Vec<_> = outcomes().iter().map(|outcome| rule.reward(outcome, None)).collect();
        assert_eq!(rewards, [Some(1.0), Some(0.1), Some(-0.5), None, None, None, None]);
        for outcome in outcomes() {
            assert_eq!(outcome.is_scored(), rule.reward(&outcome, None).is_some(), "{outcome:?}");
        }
    }

    #[test]
    fn labels_are_the_metrics_labels() {
        assert_eq!(outcomes().map(|outcome| outcome.label()), Outcome::LABELS);
    }

    #[test]
    fn episode_seeds_differ_within_and_between_groups() {
        let mut seeds: Vec<u64> = (0..50).flat_map(|group| (0..16).map(move |i| episode_seed(group, i))).collect();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 800);
        assert_eq!(episode_seed(3, 4), episode_seed(3, 4));
    }
}
