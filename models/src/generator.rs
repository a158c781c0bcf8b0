//! Continuous batching: requests join and leave between two steps, every active one gains a token per step.
//!
//! Each row has a cache of its own length; nothing is padded. Equal prompts admitted together are forwarded once and their
//! keys and values shared by reference.

mod cache;
mod kernel;
mod prefill;
mod row;
mod sampling;

pub(crate) use sampling::Distribution;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use rayon::prelude::*;

use self::cache::DecodeAttention;
use self::row::Row;
use crate::decoder::{Decoder, Rotation};
use crate::generate::{Completion, Generate, GenerateError, GenerationRequest};
use crate::learner::kernels::Kernels;
use crate::score::id_tensor;
use crate::weights::Weights;

/// How a generator is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeneratorOptions {
    /// Requests that may be active at once.
    pub max_batch: usize,
    /// Prompt tokens forwarded at once at most (a single longer prompt still goes alone): bounds activation memory.
    pub prefill_tokens: usize,
    /// Goes on past end-of-turn ids until `max_tokens`: for measurements that need a fixed amount of work.
    pub ignore_stop_ids: bool,
}

impl Default for GeneratorOptions {
    fn default() -> Self {
        Self { max_batch: 16, prefill_tokens: 2048, ignore_stop_ids: false }
    }
}

/// A batch under generation.
pub(crate) struct Generator<B: Backend> {
    model: Model<B>,
    stop_ids: Arc<[u32]>,
    options: GeneratorOptions,
    /// Rows with a sampled token that is not yet in their cache.
    running: Vec<Row>,
    /// Admitted, not yet forwarded.
    waiting: Vec<GenerationRequest>,
}

/// One version of the weights, ready for decoding.
struct Model<B: Backend> {
    decoder: Arc<Decoder<B>>,
    /// `[hidden, vocab]`, contiguous: a tied head's transposed view would be copied at every step.
    head: Tensor<B, 2>,
    version: u64,
    device: B::Device,
}

impl<B: Backend> Model<B> {
    fn new(weights: &Weights, device: B::Device) -> Result<Self, GenerateError> {
        let decoder = weights
            .downcast::<Decoder<B>>()
            .ok_or_else(|| GenerateError::WrongWeights("they belong to another device".into()))?;
        let head = contiguous(decoder.output_head());
        Ok(Self { decoder, head, version: weights.version(), device })
    }

    /// Logits of `hidden`'s rows on the host, row-major.
    fn logits(&self, hidden: Tensor<B, 2>) -> Result<Vec<f32>, GenerateError> {
        host_values(hidden.matmul(self.head.clone()))
    }
}

/// A tensor's values on the host, row-major.
fn host_values<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Result<Vec<f32>, GenerateError> {
    tensor.into_data().convert::<f32>().into_vec().map_err(|e| GenerateError::Backend(format!("{e:?}")))
}

/// The same values in row-major memory. Burn has no such operation, but data that passed through the host is.
fn contiguous<B: Backend>(tensor: Tensor<B, 2>) -> Tensor<B, 2> {
    let device = tensor.device();
    Tensor::from_data(tensor.into_data(), &device)
}

impl<B: Kernels> Generator<B> {
    pub(crate) fn new(
        weights: &Weights,
        stop_ids: Arc<[u32]>,
        options: GeneratorOptions,
        device: B::Device,
    ) -> Result<Self, GenerateError> {
        let model = Model::new(weights, device)?;
        let stop_ids = if options.ignore_stop_ids { Arc::default() } else { stop_ids };
        Ok(Self { model, stop_ids, options, running: Vec::new(), waiting: Vec::new() })
    }

    fn check(&self, request: &GenerationRequest) -> Result<(), GenerateError> {
        let config = &self.model.decoder.config;
        let (prompt, context, vocab) = (request.prompt_ids.len(), config.max_position_embeddings, config.vocab_size);
        if prompt == 0 {
            return Err(GenerateError::EmptyPrompt);
        }
        if prompt >= context {
            return Err(GenerateError::PromptTooLong { prompt, context });
        }
        match request.prompt_ids.iter().find(|&&id| id as usize >= vocab) {
            Some(&id) => Err(GenerateError::UnknownToken { id, vocab }),
            None => Ok(()),
        }
    }

    fn advance(&mut self) -> Result<Vec<Completion>, GenerateError> {
        self.decode()?;
        let waiting = std::mem::take(&mut self.waiting);
        let fresh = prefill::prefill(&self.model, waiting, self.options.prefill_tokens)?;
        self.running.extend(fresh);
        let context = self.model.decoder.config.max_position_embeddings;
        let stop_ids = &self.stop_ids;
        let (finished, running) = std::mem::take(&mut self.running)
            .into_iter()
            .map(|row| (row.finish_reason(stop_ids, context), row))
            .partition::<Vec<_>, _>(|(reason, _)| reason.is_some());
        self.running = running.into_iter().map(|(_, row)| row).collect();
        Ok(finished.into_iter().filter_map(|(reason, row)| Some(row.into_completion(reason?))).collect())
    }

    /// One token for every running row.
    fn decode(&mut self) -> Result<(), GenerateError> {
        if self.running.is_empty() {
            return Ok(());
        }
        let Model { decoder, device, version, .. } = &self.model;
        let ids: Vec<u32> = self.running.iter().map(Row::last_token).collect();
        let positions: Vec<usize> = self.running.iter().map(|row| row.cache.len()).collect();
        let rotation = Rotation::new(&decoder.config, &positions, device);
        let mut attention = DecodeAttention::new(&mut self.running, &decoder.config);
        let hidden = decoder.forward_hidden(id_tensor(&ids, device), &rotation, &mut attention);
        let logits = self.model.logits(hidden)?;
        sample_rows(&mut self.running, &logits, decoder.config.vocab_size, *version)
    }
}

/// Samples one token for each row from its logits.
fn sample_rows(rows: &mut [Row], logits: &[f32], vocab: usize, version: u64) -> Result<(), GenerateError> {
    rows.par_iter_mut().zip(logits.par_chunks_exact(vocab)).try_for_each(|(row, logits)| row.sample(logits, version))
}

impl<B: Kernels> Generate for Generator<B> {
    fn admit(&mut self, requests: Vec<GenerationRequest>) -> Result<(), GenerateError> {
        if self.active() + requests.len() > self.capacity() {
            return Err(GenerateError::BatchFull { capacity: self.capacity() });
        }
        requests.iter().try_for_each(|request| self.check(request))?;
        self.waiting.extend(requests);
        Ok(())
    }

    /// After an error the batch is empty: rows whose cache may hold what made it fail are not gone on with.
    fn step(&mut self) -> Result<Vec<Completion>, GenerateError> {
        // Burn reports what a device cannot do (out of memory, lost driver) by panicking.
        let result = catch_unwind(AssertUnwindSafe(|| self.advance())).unwrap_or_else(|cause| {
            let message = cause.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| cause.downcast_ref::<&str>().copied());
            Err(GenerateError::Backend(message.unwrap_or("it panicked").to_owned()))
        });
        if result.is_err() {
            self.running.clear();
            self.waiting.clear();
        }
        result
    }

    fn active(&self) -> usize {
        self.running.len() + self.waiting.len()
    }

    fn capacity(&self) -> usize {
        self.options.max_batch
    }

    fn cancel(&mut self, id: u64) {
        self.running.retain(|row| row.id() != id);
        self.waiting.retain(|request| request.id != id);
    }

    fn set_weights(&mut self, weights: &Weights) -> Result<(), GenerateError> {
        let model = Model::new(weights, self.model.device.clone())?;
        if model.decoder.config != self.model.decoder.config {
            return Err(GenerateError::WrongWeights("they have another shape".into()));
        }
        self.model = model;
        Ok(())
    }

    fn version(&self) -> u64 {
        self.model.version
    }
}

impl<B: Backend> fmt::Debug for Generator<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generator")
            .field("running", &self.running.len())
            .field("waiting", &self.waiting.len())
            .field("version", &self.model.version)
            .finish_non_exhaustive()
    }
}
