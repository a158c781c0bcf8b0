//! The output head and the loss, a few rows of logits at a time.
//!
//! The logits of a step would be gigabytes. A chunk's logits are made, turned into log-probabilities on the host, replaced by
//! their gradient and folded into the gradients of head and hidden state before the next chunk is made.

use burn::tensor::Tensor;

use super::gradient::Gradient;
use super::kernels::{Kernels, RowStatistics, index_tensor};
use super::parameters::{head_slot, norm_slot};
use super::plan::Target;
use crate::decoder::Decoder;
use crate::rl::Objective;
use crate::train::TrainError;

/// Rows of logits held at once: enough for efficient products, 50 MB at a vocabulary of 49,152.
const CHUNK_ROWS: usize = 256;

/// Sums over trained tokens, of which the step's report is made.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Tally {
    pub(super) loss: f64,
    pub(super) entropy: f64,
    pub(super) clipped_tokens: usize,
    pub(super) trained_tokens: usize,
    pub(super) mismatch_max: f64,
    pub(super) mismatch_kl: f64,
}

impl Tally {
    /// Adds one token and returns ∂loss/∂logπ_new.
    fn add(&mut self, target: &Target, row: &RowStatistics, objective: &Objective) -> Result<f64, TrainError> {
        if !(row.raw_logprob.is_finite() && row.logprob.is_finite()) {
            return Err(TrainError::NonFinite { what: "logprob" });
        }
        let token = objective.token_loss(row.logprob, target.old_logprob, target.advantage);
        if !(token.value.is_finite() && token.gradient.is_finite()) {
            return Err(TrainError::NonFinite { what: "loss" });
        }
        let mismatch = row.raw_logprob - target.rollout_logprob;
        self.loss += target.weight * token.value;
        self.entropy += row.entropy;
        self.clipped_tokens += usize::from(token.clipped);
        self.trained_tokens += 1;
        self.mismatch_max = self.mismatch_max.max(mismatch.abs());
        self.mismatch_kl += mismatch.exp_m1() - mismatch;
        Ok(target.weight * token.gradient)
    }
}

/// Loss of one micro-batch: adds to `tally` and to the gradients of final norm and head, and returns the gradient of `hidden`
/// (`[rows, hidden]`, the residual stream after the last block).
pub(super) fn loss_and_gradient<B: Kernels>(
    decoder: &Decoder<B>,
    hidden: Tensor<B, 2>,
    targets: &[Target],
    objective: &Objective,
    temperature: f32,
    tally: &mut Tally,
    sum: &mut Gradient<B>,
) -> Result<Tensor<B, 2>, TrainError> {
    let device = hidden.device();
    let mut of_hidden = Tensor::zeros(hidden.dims(), &device);
    let scale = decoder.norm.weight.val();
    for chunk in targets.chunks(CHUNK_ROWS) {
        let rows: Vec<usize> = chunk.iter().map(|target| target.row).collect();
        let ids: Vec<u32> = chunk.iter().map(|target| target.id).collect();
        let selected = hidden.clone().select(0, index_tensor::<B>(rows.iter().copied(), &device));
        let normed = B::rms_norm(&selected, &scale, decoder.norm.epsilon);
        let logits = match &decoder.head {
            Some(head) => B::product(&normed, &head.val()),
            // Tied: the embedding is the head's transpose.
            None => B::product_transposed(&normed, &decoder.embedding.val()),
        };
        let statistics = B::row_statistics(&logits, &ids, temperature).map_err(TrainError::Backend)?;
        let gradients = chunk
            .iter()
            .zip(&statistics)
            .map(|(target, row)| tally.add(target, row, objective))
            .collect::<Result<Vec<f64>, _>>()?;
        let of_logits = B::logits_backward(logits, &ids, temperature, &statistics, &gradients);
        let slot = head_slot(&decoder.config);
        let of_normed = match &decoder.head {
            Some(head) => {
                sum.add_product(slot, &normed, &of_logits);
                B::product_transposed(&of_logits, &head.val())
            }
            None => {
                sum.add_product(slot, &of_logits, &normed);
                B::product(&of_logits, &decoder.embedding.val())
            }
        };
        let (of_selected, of_scale) = B::rms_norm_backward(&selected, &scale, decoder.norm.epsilon, of_normed);
        sum.add(norm_slot(&decoder.config), of_scale);
        of_hidden = B::add_rows(of_hidden, &rows, of_selected);
    }
    Ok(of_hidden)
}
