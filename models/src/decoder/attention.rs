//! Attention over packed sequences, and the seam through which others supply their own.

use std::ops::Range;

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::config::DecoderConfig;
use crate::learner::kernels::{AttentionShape, Kernels};

/// How the tokens of a forward pass see each other.
pub trait Attend<B: Backend> {
    /// How a row of queries, keys and values is laid out.
    fn heads(&self) -> &AttentionShape;

    /// Attention of layer `layer`; rotary embeddings are already applied.
    ///
    /// # Shapes
    /// - `qkv`: `[tokens, (heads + 2 · kv_heads) · head_dim]`: queries, keys, values
    /// - result: `[tokens, heads · head_dim]`
    fn attend(&mut self, layer: usize, qkv: Tensor<B, 2>) -> Tensor<B, 2>;
}

/// A run of tokens that attend causally to each other, after everything in `prefix`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Rows of the packed activations.
    pub tokens: Range<usize>,
    /// Rows that all of them see as well: a prompt shared by several completions, forwarded once.
    pub prefix: Option<Range<usize>>,
}

/// Block-diagonal causal attention over several sequences packed into one `[tokens, …]` batch: no padding, and no token sees
/// another sequence.
#[derive(Debug)]
pub struct PackedAttention {
    shape: AttentionShape,
}

impl PackedAttention {
    /// Attention for `segments`, which together cover the packed rows in order.
    pub fn new(segments: Vec<Segment>, config: &DecoderConfig) -> Self {
        let shape = AttentionShape {
            segments,
            heads: config.num_attention_heads,
            kv_heads: config.num_key_value_heads,
            head_dim: config.head_dim,
        };
        Self { shape }
    }
}

impl<B: Kernels> Attend<B> for PackedAttention {
    fn heads(&self) -> &AttentionShape {
        &self.shape
    }

    fn attend(&mut self, _: usize, qkv: Tensor<B, 2>) -> Tensor<B, 2> {
        B::packed_attention(&qkv, &self.shape).0
    }
}
