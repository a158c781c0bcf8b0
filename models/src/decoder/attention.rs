//! Attention over packed sequences, and the seam through which others supply their own.

use std::ops::Range;

use burn::tensor::activation::softmax;
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};

/// How the tokens of a forward pass see each other.
pub trait Attend<B: Backend> {
    /// Attention of layer `layer`; rotary embeddings are already applied.
    ///
    /// # Shapes
    /// - `queries`: `[tokens, heads, head_dim]`
    /// - `keys`, `values`: `[tokens, kv_heads, head_dim]`
    /// - result: `[tokens, heads, head_dim]`
    fn attend(&mut self, layer: usize, queries: Tensor<B, 3>, keys: Tensor<B, 3>, values: Tensor<B, 3>) -> Tensor<B, 3>;
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
pub struct PackedAttention<B: Backend> {
    segments: Vec<Segment>,
    /// Additive causal masks, one per (tokens, prefix) pair met, shared by all layers.
    masks: Vec<((usize, usize), Tensor<B, 3>)>,
}

impl<B: Backend> PackedAttention<B> {
    /// Attention for `segments`, which together cover the packed rows in order.
    pub fn new(segments: Vec<Segment>, device: &B::Device) -> Self {
        let mut masks: Vec<((usize, usize), Tensor<B, 3>)> = Vec::new();
        for segment in &segments {
            let key = Self::mask_key(segment);
            if !masks.iter().any(|(known, _)| *known == key) {
                masks.push((key, causal_mask(key.0, key.1, device)));
            }
        }
        Self { segments, masks }
    }

    fn mask_key(segment: &Segment) -> (usize, usize) {
        (segment.tokens.len(), segment.prefix.as_ref().map_or(0, Range::len))
    }

    fn mask(&self, segment: &Segment) -> Option<Tensor<B, 3>> {
        let key = Self::mask_key(segment);
        self.masks.iter().find(|(known, _)| *known == key).map(|(_, mask)| mask.clone())
    }
}

impl<B: Backend> Attend<B> for PackedAttention<B> {
    fn attend(&mut self, _: usize, queries: Tensor<B, 3>, keys: Tensor<B, 3>, values: Tensor<B, 3>) -> Tensor<B, 3> {
        let rows = |tensor: &Tensor<B, 3>, range: &Range<usize>| tensor.clone().narrow(0, range.start, range.len());
        let seen = |tensor: &Tensor<B, 3>, segment: &Segment| match &segment.prefix {
            Some(prefix) => Tensor::cat(vec![rows(tensor, prefix), rows(tensor, &segment.tokens)], 0),
            None => rows(tensor, &segment.tokens),
        };
        let mixed = self
            .segments
            .iter()
            .map(|segment| {
                let queries = rows(&queries, &segment.tokens);
                grouped_attention(queries, seen(&keys, segment), seen(&values, segment), self.mask(segment))
            })
            .collect();
        Tensor::cat(mixed, 0)
    }
}

/// Softmax attention of one sequence with grouped heads.
///
/// The queries of a group are stacked along the token axis (`[kv_heads, group · t, d]`) rather than keys and values repeated per
/// query head.
///
/// # Shapes
/// - `queries`: `[t, heads, d]`; `keys`, `values`: `[s, kv_heads, d]`; `mask`: `[1, t, s]`, added to the scores
/// - result: `[t, heads, d]`
pub(crate) fn grouped_attention<B: Backend>(
    queries: Tensor<B, 3>,
    keys: Tensor<B, 3>,
    values: Tensor<B, 3>,
    mask: Option<Tensor<B, 3>>,
) -> Tensor<B, 3> {
    let [t, heads, d] = queries.dims();
    let [s, kv_heads, _] = keys.dims();
    let group = heads / kv_heads;
    let queries = (queries * (d as f64).powf(-0.5)).swap_dims(0, 1).reshape([kv_heads, group * t, d]);
    let keys = keys.permute([1, 2, 0]);
    let values = values.swap_dims(0, 1);
    let mut scores = queries.matmul(keys);
    if let Some(mask) = mask {
        scores = (scores.reshape([heads, t, s]) + mask).reshape([kv_heads, group * t, s]);
    }
    softmax(scores, 2).matmul(values).reshape([heads, t, d]).swap_dims(0, 1)
}

/// `[1, t, prefix + t]`: 0 where token i may look (all of the prefix, and own tokens up to i), −∞ elsewhere.
fn causal_mask<B: Backend>(t: usize, prefix: usize, device: &B::Device) -> Tensor<B, 3> {
    let values: Vec<f32> = (0..t)
        .flat_map(|i| (0..prefix + t).map(move |j| if j <= prefix + i { 0.0 } else { f32::NEG_INFINITY }))
        .collect();
    Tensor::from_data(TensorData::new(values, [1, t, prefix + t]), device)
}
