//! A rollout as a JSON object: a line of the run directory's files, and an event of the daemon's stream.

use serde::Serialize;

use rehearsal_actors::{Outcome, Purpose, Rollout, Timing};
use rehearsal_models::FinishReason;

/// One rollout, whole: what is needed to see why it scored as it did, and to judge it again.
#[derive(Debug, Serialize)]
pub struct RolloutRecord<'a> {
    task_id: &'a str,
    group_id: u64,
    index: u32,
    attempt: u32,
    seed: u64,
    purpose: Purpose,
    prompt: Option<&'a str>,
    text: Option<&'a str>,
    code: Option<&'a str>,
    prompt_ids: &'a [u32],
    completion_ids: &'a [u32],
    /// Raw softmax.
    logprobs: &'a [f32],
    /// The distribution sampled from.
    sampling_logprobs: &'a [f32],
    /// Weights version per token.
    versions: &'a [u64],
    finish_reason: Option<FinishReason>,
    /// `outcome` and its evidence: the failing test with expected and got, or the reason and detail.
    #[serde(flatten)]
    outcome: &'a Outcome,
    /// `null` where the outcome may not become a reward.
    reward: Option<f64>,
    tests_declared: u32,
    tests_executed: u32,
    tests_passed: u32,
    stdout: String,
    stderr: String,
    fuel_used: u64,
    peak_memory_bytes: u64,
    timing: Timing,
}

impl<'a> From<&'a Rollout> for RolloutRecord<'a> {
    fn from(rollout: &'a Rollout) -> Self {
        let action = rollout.action.as_ref();
        let judgement = rollout.judgement.as_ref();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            task_id: &rollout.key.task_id.0,
            group_id: rollout.key.group_id.0,
            index: rollout.key.index,
            attempt: rollout.key.attempt,
            seed: rollout.key.seed,
            purpose: rollout.purpose,
            prompt: action.map(|action| &*action.prompt),
            text: action.map(|action| action.text.as_str()),
            code: rollout.code.as_deref(),
            prompt_ids: action.map_or(&[], |action| &action.prompt_ids),
            completion_ids: action.map_or(&[], |action| &action.completion_ids),
            logprobs: action.map_or(&[], |action| &action.logprobs),
            sampling_logprobs: action.map_or(&[], |action| &action.sampling_logprobs),
            versions: action.map_or(&[], |action| &action.versions),
            finish_reason: action.map(|action| action.finish_reason),
            outcome: &rollout.outcome,
            reward: rollout.reward,
            tests_declared: judgement.map_or(0, |judgement| judgement.tests_declared),
            tests_executed: judgement.map_or(0, |judgement| judgement.tests_executed),
            tests_passed: judgement.map_or(0, |judgement| judgement.tests_passed),
            stdout: judgement.map_or_else(String::new, |judgement| text(&judgement.stdout)),
            stderr: judgement.map_or_else(String::new, |judgement| text(&judgement.stderr)),
            fuel_used: judgement.map_or(0, |judgement| judgement.fuel_used),
            peak_memory_bytes: judgement.map_or(0, |judgement| judgement.peak_memory_bytes),
            timing: rollout.timing,
        }
    }
}
