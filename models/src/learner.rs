//! The learner's engine: gradients by hand, AdamW, one step at a time.
//!
//! `plan` packs a step's groups into micro-batches → `pass` takes each forward through the blocks → `head` makes the
//! loss and its gradient, a chunk of logits at a time → `pass` goes back, adding to a `gradient` → `adamw` makes new
//! weights. Whatever is not a matrix product lives in [`kernels`].
//!
//! New weights are new tensors: a generator that holds the old ones keeps them, and nothing is copied for the hand-over.

mod adamw;
mod gradient;
mod head;
pub mod kernels;
mod open;
pub(crate) mod parameters;
mod pass;
mod persistence;
mod plan;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use self::adamw::AdamW;
use self::gradient::Gradient;
use self::head::Tally;
use self::kernels::Kernels;
use self::parameters::Slot;
use self::pass::Pass;
use crate::decoder::Decoder;
use crate::rl::Objective;
use crate::text::PolicyText;
use crate::train::{OptimizerConfig, StepReport, Train, TrainError, TrainGroup};
use crate::weights::Weights;

/// A decoder under training on one device.
pub struct Learner<B: Kernels> {
    decoder: Arc<Decoder<B>>,
    slots: Vec<Slot>,
    optimizer: AdamW<B>,
    config: OptimizerConfig,
    device: B::Device,
    text: Option<Arc<PolicyText>>,
}

impl<B: Kernels> fmt::Debug for Learner<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Learner")
            .field("version", &self.optimizer.updates)
            .field("decoder", &self.decoder.config)
            .field("optimizer", &self.config)
            .finish_non_exhaustive()
    }
}

impl<B: Kernels> Learner<B> {
    /// A learner that starts from `decoder`, as version 0.
    pub fn new(decoder: Arc<Decoder<B>>, config: OptimizerConfig, device: B::Device) -> Self {
        let slots = parameters::slots(&decoder.config);
        let optimizer = AdamW::new(&slots, &device);
        Self { decoder, slots, optimizer, config, device, text: None }
    }

    /// Gives it the policy's text side, which checkpoints then include.
    #[must_use]
    pub fn with_text(self, text: Arc<PolicyText>) -> Self {
        Self { text: Some(text), ..self }
    }
}

impl<B: Kernels> Train for Learner<B> {
    fn step(
        &mut self,
        groups: &[TrainGroup],
        objective: &Objective,
        temperature: f32,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<StepReport, TrainError> {
        if !(temperature.is_finite() && temperature > 0.0) {
            return Err(TrainError::Malformed(format!("temperature {temperature} is not above 0")));
        }
        let shape = &self.decoder.config;
        let (vocab, context) = (shape.vocab_size, shape.max_position_embeddings);
        let budget = self.config.micro_batch_tokens;
        let batches = plan::micro_batches(groups, objective, vocab, context, budget)?;
        let (mut tally, mut sum) = (Tally::default(), Gradient::zero(self.slots.len()));
        for (index, batch) in batches.iter().enumerate() {
            progress(index, batches.len());
            let (pass, hidden) = Pass::forward(&self.decoder, batch, &self.device);
            let of_hidden = head::loss_and_gradient(
                &self.decoder,
                hidden,
                &batch.targets,
                objective,
                temperature,
                &mut tally,
                &mut sum,
            )?;
            pass.backward(&self.decoder, batch, of_hidden, &mut sum);
        }
        progress(batches.len(), batches.len());
        if !tally.loss.is_finite() {
            return Err(TrainError::NonFinite { what: "loss" });
        }
        let grad_norm = sum.norm().map_err(TrainError::Backend)?;
        if !grad_norm.is_finite() {
            return Err(TrainError::NonFinite { what: "gradient" });
        }
        let forward_tokens = batches.iter().map(|batch| batch.ids.len()).sum();
        let report = self.report(&tally, grad_norm, forward_tokens);
        self.update(sum, grad_norm);
        Ok(report)
    }

    fn weights(&self) -> Weights {
        let decoder: Arc<Decoder<B>> = Arc::clone(&self.decoder);
        Weights::new(self.optimizer.updates, decoder)
    }

    fn save(&self, dir: &Path) -> Result<(), TrainError> {
        self.write(dir)
    }

    fn restore(&mut self, dir: &Path) -> Result<(), TrainError> {
        self.read(dir)
    }
}

impl<B: Kernels> Learner<B> {
    fn report(&self, tally: &Tally, grad_norm: f64, forward_tokens: usize) -> StepReport {
        let tokens = tally.trained_tokens as f64;
        StepReport {
            loss: tally.loss,
            grad_norm,
            entropy: tally.entropy / tokens,
            clip_fraction: tally.clipped_tokens as f64 / tokens,
            learning_rate: self.optimizer.learning_rate(&self.config),
            trained_tokens: tally.trained_tokens,
            forward_tokens,
            logprob_mismatch_max: tally.mismatch_max,
            logprob_mismatch_kl: tally.mismatch_kl / tokens,
        }
    }

    fn update(&mut self, sum: Gradient<B>, grad_norm: f64) {
        let parameters = parameters::flatten(&self.decoder);
        let updated = self.optimizer.update(&self.slots, parameters, sum.into_slots(), grad_norm, &self.config);
        self.decoder = Arc::new(parameters::assemble(&self.decoder.config, updated));
    }
}
