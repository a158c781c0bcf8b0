//! What a learner's engine is: a batch of scored groups in, a gradient step and a report out.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::rl::Objective;
use crate::weights::Weights;

/// AdamW and its schedule. Every key is in the recipe, nothing is implied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptimizerConfig {
    /// Peak learning rate.
    pub learning_rate: f64,
    /// Steps of linear warm-up from 0 to the peak; 0 starts at the peak.
    pub warmup_steps: u64,
    /// First-moment decay.
    pub beta1: f64,
    /// Second-moment decay.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Decoupled weight decay (not applied to norms).
    pub weight_decay: f64,
    /// The gradient's global L2 norm is scaled down to this; 0 switches clipping off.
    pub max_grad_norm: f64,
    /// Tokens forwarded per micro-batch at most (a single longer sequence still goes alone): bounds activation memory.
    pub micro_batch_tokens: usize,
}

impl OptimizerConfig {
    /// Checks every number.
    ///
    /// # Errors
    /// [`TrainError::Config`] names the first key whose value cannot be meant.
    pub fn validate(&self) -> Result<(), TrainError> {
        let at_least_zero = |value: f64| value >= 0.0 && value.is_finite();
        let decay = |value: f64| (0.0..1.0).contains(&value);
        let checks = [
            ("learning_rate", self.learning_rate, at_least_zero(self.learning_rate), "a number of at least 0"),
            ("beta1", self.beta1, decay(self.beta1), "a number in [0, 1)"),
            ("beta2", self.beta2, decay(self.beta2), "a number in [0, 1)"),
            ("epsilon", self.epsilon, at_least_zero(self.epsilon) && self.epsilon > 0.0, "a number above 0"),
            ("weight_decay", self.weight_decay, at_least_zero(self.weight_decay), "a number of at least 0"),
            ("max_grad_norm", self.max_grad_norm, at_least_zero(self.max_grad_norm), "a number of at least 0"),
        ];
        if let Some((key, value, _, expected)) = checks.into_iter().find(|&(_, _, valid, _)| !valid) {
            return Err(TrainError::Config { key, value: value.to_string(), expected });
        }
        if self.micro_batch_tokens == 0 {
            let (key, expected) = ("micro_batch_tokens", "at least 1");
            return Err(TrainError::Config { key, value: "0".into(), expected });
        }
        Ok(())
    }
}

/// One scored completion of a group's prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainSequence {
    /// The sampled tokens, as the generator returned them.
    pub completion_ids: Vec<u32>,
    /// Per token: does it take part in the loss?
    pub loss_mask: Vec<bool>,
    /// Per token: the generator's log-probability under the raw softmax; compared with the learner's own (mismatch).
    pub logprobs: Vec<f32>,
    /// Per token: logπ_old of the objective, under softmax(logits / temperature). `None` takes the learner's own value
    /// with a stopped gradient: exact for an on-policy step, and saves the second forward.
    pub old_logprobs: Option<Vec<f32>>,
    /// The advantage of every token of this sequence.
    pub advantage: f64,
}

/// The completions of one prompt; the prompt may be forwarded once for all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainGroup {
    /// The prompt's tokens; never in the loss.
    pub prompt_ids: Arc<[u32]>,
    /// Its completions.
    pub sequences: Vec<TrainSequence>,
}

/// What one accepted step did. Means are per trained token over the whole step, never per micro-batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// The objective's value.
    pub loss: f64,
    /// Global L2 norm of the gradient before clipping.
    pub grad_norm: f64,
    /// Mean entropy of the policy's distribution, nats.
    pub entropy: f64,
    /// Share of tokens whose ratio was clipped.
    pub clip_fraction: f64,
    /// The learning rate of this step.
    pub learning_rate: f64,
    /// Tokens in the loss.
    pub trained_tokens: usize,
    /// Tokens forwarded (prompts included).
    pub forward_tokens: usize,
    /// Largest |logπ_learner − logπ_generator| over the trained tokens.
    pub logprob_mismatch_max: f64,
    /// Mean of exp(d) − 1 − d, d = logπ_learner − logπ_generator (k3 estimate of the divergence).
    pub logprob_mismatch_kl: f64,
}

/// Why a step did not happen. The weights and optimiser state are then unchanged.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A NaN or an infinity: the step is refused.
    #[error("step refused: {what} is not finite")]
    NonFinite {
        /// What was not finite: `loss`, `gradient`, `advantage`, `logprob`.
        what: &'static str,
    },
    /// A value of an [`OptimizerConfig`] that cannot be meant.
    #[error("optimizer key `{key}` is {value}: write {expected}")]
    Config {
        /// The key, as the recipe spells it.
        key: &'static str,
        /// What it holds.
        value: String,
        /// What it may hold.
        expected: &'static str,
    },
    /// No token would be trained.
    #[error("the batch holds no token to train on")]
    EmptyBatch,
    /// Lengths that disagree, ids outside the vocabulary, and the like.
    #[error("malformed batch: {0}")]
    Malformed(String),
    /// Reading or writing a checkpoint failed.
    #[error("checkpoint {path}: {reason}")]
    Checkpoint {
        /// The file or directory.
        path: String,
        /// What went wrong.
        reason: String,
    },
    /// The backend failed.
    #[error("backend: {0}")]
    Backend(String),
}

/// The learner's engine on one device. Calls block: own it on a thread.
pub trait Train: Send + fmt::Debug {
    /// Takes one gradient step on `groups`. On any error nothing has changed.
    ///
    /// `temperature` is the sampling temperature: the objective's log-probabilities are those of softmax(logits / temperature).
    /// `progress` is called with (done, all) micro-batches.
    fn step(
        &mut self,
        groups: &[TrainGroup],
        objective: &Objective,
        temperature: f32,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<StepReport, TrainError>;

    /// The current weights, shared without a copy; their version is the number of accepted steps.
    fn weights(&self) -> Weights;

    /// Writes a Hugging Face directory (`config.json`, `model.safetensors`, tokenizer and chat template) and beside it the
    /// optimiser's state, to a temporary name renamed at the end: `dir` is complete or absent.
    fn save(&self, dir: &Path) -> Result<(), TrainError>;

    /// Restores weights, optimiser state and step count written by [`save`](Self::save).
    fn restore(&mut self, dir: &Path) -> Result<(), TrainError>;
}
