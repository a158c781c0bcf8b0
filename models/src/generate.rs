//! What a generator is: requests join and leave a running batch, one token per row and step.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::weights::Weights;

/// How the next token is chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// Softmax temperature; 0 takes the most likely token.
    pub temperature: f32,
    /// Nucleus: the smallest set of tokens whose probability reaches this; 1 keeps all.
    pub top_p: f32,
    /// Tokens to sample at most (≥ 1).
    pub max_tokens: usize,
    /// The seed of this request's own random stream: the same seed gives the same draws whatever else is in the batch.
    pub seed: u64,
}

/// One completion to sample.
#[derive(Debug, Clone)]
pub struct GenerationRequest {
    /// The caller's name for it; unique among the active requests.
    pub id: u64,
    /// The prompt's tokens. Requests admitted together with an equal prompt are prefilled once.
    pub prompt_ids: Arc<[u32]>,
    /// How to sample.
    pub sampling: Sampling,
}

/// Why a completion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The policy sampled one of its end-of-turn ids (which is the last of `completion_ids`).
    Eos,
    /// `max_tokens` were sampled.
    MaxTokens,
    /// Prompt and completion fill the policy's context.
    ContextFull,
}

/// A finished completion.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// The request's id.
    pub id: u64,
    /// The sampled tokens, an end-of-turn id included.
    pub completion_ids: Vec<u32>,
    /// Per token: log-probability under the raw softmax (temperature 1, nothing cut).
    pub logprobs: Vec<f32>,
    /// Per token: log-probability under the distribution that was sampled (temperature and top-p applied).
    pub sampling_logprobs: Vec<f32>,
    /// Per token: the weights version that sampled it.
    pub versions: Vec<u64>,
    /// Why it ended.
    pub finish_reason: FinishReason,
}

/// Why generation failed. None of these is the policy's doing, so none may become a reward.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The prompt leaves no room for a token.
    #[error("the prompt has {prompt} tokens and the policy's context holds {context}")]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens that fit.
        context: usize,
    },
    /// A prompt without tokens.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// A token id outside the vocabulary.
    #[error("token id {id} is outside the vocabulary of {vocab}")]
    UnknownToken {
        /// The id.
        id: u32,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// Every slot of the batch is taken.
    #[error("the batch is full ({capacity} requests)")]
    BatchFull {
        /// Requests that fit.
        capacity: usize,
    },
    /// Weights of another backend or shape were handed over.
    #[error("the weights do not fit this generator: {0}")]
    WrongWeights(String),
    /// Logits were NaN or infinite.
    #[error("non-finite logits from weights version {version}")]
    NonFinite {
        /// The weights that gave them.
        version: u64,
    },
    /// The backend failed.
    #[error("backend: {0}")]
    Backend(String),
}

/// A batch under generation on one device. Calls block: own it on a thread.
pub trait Generate: Send + fmt::Debug {
    /// Adds requests to the batch; they take part from the next [`step`](Self::step) on.
    /// Either all are admitted or none.
    fn admit(&mut self, requests: Vec<GenerationRequest>) -> Result<(), GenerateError>;

    /// Samples one token for every active request and returns those that finished.
    fn step(&mut self) -> Result<Vec<Completion>, GenerateError>;

    /// Requests in the batch.
    fn active(&self) -> usize;

    /// Requests that fit in the batch.
    fn capacity(&self) -> usize;

    /// Drops a request and frees its slot; unknown ids are ignored.
    fn cancel(&mut self, id: u64);

    /// Swaps the weights between two steps. Active requests go on under the new ones (their cache is kept), and each token
    /// records its version.
    fn set_weights(&mut self, weights: &Weights) -> Result<(), GenerateError>;

    /// The version of the weights in use.
    fn version(&self) -> u64;
}
