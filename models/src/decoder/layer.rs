//! One block: normed attention and normed SwiGLU, each added to the residual stream.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::attention::Attend;
use super::rotary::Rotation;
use crate::learner::kernels::Kernels;

/// A decoder block.
#[derive(Module, Debug)]
pub struct Layer<B: Backend> {
    /// The norm before attention.
    pub attention_norm: RmsNorm<B>,
    /// Self-attention's projections.
    pub attention: SelfAttention<B>,
    /// The norm before the feed-forward block.
    pub feed_forward_norm: RmsNorm<B>,
    /// The feed-forward block.
    pub feed_forward: FeedForward<B>,
}

impl<B: Kernels> Layer<B> {
    /// `[tokens, hidden]` to the same, residuals included.
    pub(super) fn forward(
        &self,
        hidden: Tensor<B, 2>,
        index: usize,
        rotation: &Rotation<B>,
        attention: &mut impl Attend<B>,
    ) -> Tensor<B, 2> {
        let qkv = self.attention_norm.forward(hidden.clone()).matmul(self.attention.qkv.val());
        let rotated = B::rotate(qkv, attention.heads(), rotation);
        let mixed = attention.attend(index, rotated).matmul(self.attention.output.val());
        let hidden = hidden + mixed;
        let gate_up = self.feed_forward_norm.forward(hidden.clone()).matmul(self.feed_forward.gate_up.val());
        hidden + B::swiglu(&gate_up).matmul(self.feed_forward.down.val())
    }
}

/// Root-mean-square normalisation: `x / sqrt(mean(x²) + ε) · w`, computed in f32 (Zhang & Sennrich 2019, arXiv 1910.07467).
#[derive(Module, Debug)]
pub struct RmsNorm<B: Backend> {
    /// Per-channel scale `[hidden]`.
    pub weight: Param<Tensor<B, 1>>,
    /// ε.
    #[module(skip)]
    pub epsilon: f64,
}

impl<B: Kernels> RmsNorm<B> {
    /// `[tokens, hidden]` to the same.
    pub fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        B::rms_norm(&x, &self.weight.val(), self.epsilon)
    }
}

/// The projections of grouped-query attention (Ainslie et al. 2023, arXiv 2305.13245).
///
/// Queries, keys and values are one matrix: one larger product instead of three, of which two would be too narrow to share
/// among cores.
#[derive(Module, Debug)]
pub struct SelfAttention<B: Backend> {
    /// `[hidden, query + key + value]`, heads in order within each part, HF's rotate-half layout within a head.
    pub qkv: Param<Tensor<B, 2>>,
    /// `[query, hidden]`.
    pub output: Param<Tensor<B, 2>>,
}

/// SwiGLU: `(silu(x·G) ⊙ x·U) · D` (Shazeer 2020, arXiv 2002.05202).
#[derive(Module, Debug)]
pub struct FeedForward<B: Backend> {
    /// Gate and up projections side by side, `[hidden, 2 · intermediate]`.
    pub gate_up: Param<Tensor<B, 2>>,
    /// `[intermediate, hidden]`.
    pub down: Param<Tensor<B, 2>>,
}
