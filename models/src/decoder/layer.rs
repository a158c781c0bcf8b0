//! One block: normed attention and normed SwiGLU, each added to the residual stream.

use burn::module::{Module, Param};
use burn::tensor::activation::silu;
use burn::tensor::backend::Backend;
use burn::tensor::{DType, FloatDType, Tensor};

use super::attention::Attend;
use super::rotary::Rotation;
use crate::config::DecoderConfig;

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

impl<B: Backend> Layer<B> {
    /// `[tokens, hidden]` to the same, residuals included.
    pub(super) fn forward(
        &self,
        hidden: Tensor<B, 2>,
        index: usize,
        config: &DecoderConfig,
        rotation: &Rotation<B>,
        attention: &mut impl Attend<B>,
    ) -> Tensor<B, 2> {
        let normed = self.attention_norm.forward(hidden.clone());
        let hidden = hidden + self.attention.forward(normed, index, config, rotation, attention);
        let normed = self.feed_forward_norm.forward(hidden.clone());
        hidden + self.feed_forward.forward(normed)
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

impl<B: Backend> RmsNorm<B> {
    /// `[tokens, hidden]` to the same.
    pub fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        let dtype = x.dtype();
        if dtype == DType::F32 {
            return self.normalise(x);
        }
        self.normalise(x.cast(FloatDType::F32)).cast(dtype)
    }

    fn normalise(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        let mean_square = (x.clone() * x.clone()).mean_dim(1);
        let scale = (mean_square + self.epsilon).sqrt().recip();
        x * scale * self.weight.val().unsqueeze()
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

impl<B: Backend> SelfAttention<B> {
    fn forward(
        &self,
        x: Tensor<B, 2>,
        layer: usize,
        config: &DecoderConfig,
        rotation: &Rotation<B>,
        attention: &mut impl Attend<B>,
    ) -> Tensor<B, 2> {
        let [tokens, _] = x.dims();
        let (heads, kv_heads, dim) = (config.num_attention_heads, config.num_key_value_heads, config.head_dim);
        let qkv = x.matmul(self.qkv.val()).reshape([tokens, heads + 2 * kv_heads, dim]);
        // Queries and keys turn by the same angles: one rotation for both.
        let turned = rotation.apply(qkv.clone().narrow(1, 0, heads + kv_heads));
        let queries = turned.clone().narrow(1, 0, heads);
        let keys = turned.narrow(1, heads, kv_heads);
        let values = qkv.narrow(1, heads + kv_heads, kv_heads);
        let mixed = attention.attend(layer, queries, keys, values);
        mixed.reshape([tokens, heads * dim]).matmul(self.output.val())
    }
}

/// SwiGLU: `(silu(x·G) ⊙ x·U) · D` (Shazeer 2020, arXiv 2002.05202).
#[derive(Module, Debug)]
pub struct FeedForward<B: Backend> {
    /// Gate and up projections side by side, `[hidden, 2 · intermediate]`.
    pub gate_up: Param<Tensor<B, 2>>,
    /// `[intermediate, hidden]`.
    pub down: Param<Tensor<B, 2>>,
}

impl<B: Backend> FeedForward<B> {
    fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        let both = x.matmul(self.gate_up.val());
        let width = both.dims()[1] / 2;
        let gate = both.clone().narrow(1, 0, width);
        let up = both.narrow(1, width, width);
        (silu(gate) * up).matmul(self.down.val())
    }
}
