//! A learner's batch, and the numbers of the step that consumed it.

use std::collections::BTreeMap;
use std::time::Duration;

use rehearsal_models::{FinishReason, StepReport};

use crate::hub::StepSummary;
use crate::pipeline::credit::Permit;
use crate::types::{Group, GroupId, Outcome, Rollout, TaskId};

/// Groups on their way through one step, with their permits.
#[derive(Debug)]
pub struct Batch {
    groups: Vec<(Group, Permit)>,
    filled_in: Duration,
}

/// A batch after its step.
#[derive(Debug)]
pub struct Consumed {
    /// Each group's id, task, fate and permit.
    pub groups: Vec<(GroupId, TaskId, &'static str, Permit)>,
    /// The step in numbers (`step` and `seconds` are filled in by the learner).
    pub summary: StepSummary,
}

impl Batch {
    /// A complete batch that took `filled_in` to generate.
    pub fn new(groups: Vec<(Group, Permit)>, filled_in: Duration) -> Self {
        Self { groups, filled_in }
    }

    /// The groups.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().map(|(group, _)| group)
    }

    fn rollouts(&self) -> impl Iterator<Item = &Rollout> {
        self.groups().flat_map(|group| group.rollouts.iter().map(AsRef::as_ref))
    }

    /// The age of every completion token under weights `version`.
    pub fn ages(&self, version: u64) -> impl Iterator<Item = u64> {
        let versions =
            self.rollouts().filter_map(|rollout| rollout.action.as_ref()).flat_map(|action| &action.versions);
        versions.map(move |sampled_by| version.saturating_sub(*sampled_by))
    }

    /// The batch after its step: who was consumed how, and the step in numbers.
    pub fn consumed(
        self,
        outcome: Result<StepReport, String>,
        took: Duration,
        version_before: u64,
        version_after: u64,
    ) -> Consumed {
        let summary = self.summarise(outcome, took, version_before, version_after);
        let groups = self
            .groups
            .into_iter()
            .map(|(group, permit)| {
                let fate = if is_zero_variance(&group) { "zero_variance" } else { "consumed" };
                (group.id, group.task_id, fate, permit)
            })
            .collect();
        Consumed { groups, summary }
    }

    fn summarise(
        &self,
        outcome: Result<StepReport, String>,
        took: Duration,
        version_before: u64,
        version_after: u64,
    ) -> StepSummary {
        let rewards: Vec<f64> = self.rollouts().filter_map(|rollout| rollout.reward).collect();
        let (reward, reward_std) = mean_and_std(&rewards);
        let mut outcomes = BTreeMap::new();
        for rollout in self.rollouts() {
            *outcomes.entry(rollout.outcome.label().to_owned()).or_insert(0) += 1;
        }
        let actions: Vec<_> = self.rollouts().filter_map(|rollout| rollout.action.as_ref()).collect();
        let tokens: u64 = actions.iter().map(|action| action.completion_ids.len() as u64).sum();
        let n_truncated = actions.iter().filter(|action| action.finish_reason != FinishReason::Eos).count();
        let n_passed = self.rollouts().filter(|rollout| rollout.outcome == Outcome::Passed).count();
        let ages: Vec<u64> = self.ages(version_before).collect();
        let n_actions = actions.len().max(1) as f64;
        let (learner, refused) = match outcome {
            Ok(report) => (Some(report), None),
            Err(detail) => (None, Some(detail)),
        };
        let forwarded = learner.as_ref().map_or(0, |report| report.forward_tokens);
        StepSummary {
            step: 0,
            weights_version: version_after,
            reward,
            reward_std,
            pass_rate: n_passed as f64 / rewards.len().max(1) as f64,
            outcomes,
            groups: self.groups.len() as u64,
            zero_variance_groups: self.groups().filter(|group| is_zero_variance(group)).count() as u64,
            completion_tokens_mean: tokens as f64 / n_actions,
            truncated: n_truncated as f64 / n_actions,
            completion_tokens: tokens,
            generator_tokens_per_second: per_second(tokens as f64, self.filled_in),
            learner_tokens_per_second: per_second(forwarded as f64, took),
            staleness_max: ages.iter().copied().max().unwrap_or(0),
            staleness_mean: ages.iter().sum::<u64>() as f64 / ages.len().max(1) as f64,
            learner,
            refused,
            seconds: 0.0,
            learner_seconds: took.as_secs_f64(),
        }
    }
}

fn per_second(n: f64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() { 0.0 } else { n / elapsed.as_secs_f64() }
}

fn is_zero_variance(group: &Group) -> bool {
    group.rewards().windows(2).all(|pair| pair[0] == pair[1])
}

/// Mean and population standard deviation, in two passes; (0, 0) of nothing.
fn mean_and_std(values: &[f64]) -> (f64, f64) {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n;
    (mean, variance.sqrt())
}
