//! One completion in the making.

use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;

use super::cache::RowCache;
use super::sampling::{Drawn, draw};
use crate::generate::{Completion, FinishReason, GenerateError, GenerationRequest, Sampling};

/// A request with its cache, its random stream and the tokens sampled so far.
pub(super) struct Row {
    pub(super) cache: RowCache,
    prompt_len: usize,
    sampling: Sampling,
    random: ChaCha12Rng,
    completion: Completion,
}

impl Row {
    /// A row whose prompt is in `cache`.
    pub(super) fn new(request: GenerationRequest, cache: RowCache) -> Self {
        Self {
            cache,
            prompt_len: request.prompt_ids.len(),
            random: ChaCha12Rng::seed_from_u64(request.sampling.seed),
            sampling: request.sampling,
            completion: Completion {
                id: request.id,
                completion_ids: Vec::new(),
                logprobs: Vec::new(),
                sampling_logprobs: Vec::new(),
                versions: Vec::new(),
                // Overwritten by `into_completion`.
                finish_reason: FinishReason::MaxTokens,
            },
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.completion.id
    }

    /// The token to forward next. A row has sampled at least one token before it is decoded.
    pub(super) fn last_token(&self) -> u32 {
        self.completion.completion_ids.last().copied().unwrap_or_default()
    }

    /// Draws the next token from `logits`.
    pub(super) fn sample(&mut self, logits: &[f32], version: u64) -> Result<(), GenerateError> {
        let drawn = draw(logits, &self.sampling, &mut self.random).ok_or(GenerateError::NonFinite { version })?;
        let Drawn { id, logprob, sampling_logprob } = drawn;
        self.completion.completion_ids.push(id);
        self.completion.logprobs.push(logprob);
        self.completion.sampling_logprobs.push(sampling_logprob);
        self.completion.versions.push(version);
        Ok(())
    }

    /// Why the row ends here, if it does.
    pub(super) fn finish_reason(&self, stop_ids: &[u32], context: usize) -> Option<FinishReason> {
        let sampled = self.completion.completion_ids.len();
        if stop_ids.contains(&self.last_token()) {
            Some(FinishReason::Eos)
        } else if sampled >= self.sampling.max_tokens {
            Some(FinishReason::MaxTokens)
        } else if self.prompt_len + sampled >= context {
            Some(FinishReason::ContextFull)
        } else {
            None
        }
    }

    pub(super) fn into_completion(self, finish_reason: FinishReason) -> Completion {
        Completion { finish_reason, ..self.completion }
    }
}
