//! Keys and values of tokens already seen.
//!
//! They live in host memory, one growing run per row and layer: a row that joins, leaves or outgrows its allocation touches
//! no other. (A cache made of backend tensors would be copied whole at every write: burn-flex's `slice_assign` holds two
//! references to the tensor it writes to.)

use std::sync::Arc;

use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::kernel::{self, Head};
use super::row::Row;
use crate::config::DecoderConfig;
use crate::decoder::Attend;
use crate::learner::kernels::AttentionShape;

/// Keys and values of a run of tokens in one layer, `[tokens, kv_heads · head_dim]` each.
#[derive(Debug, Clone, Default)]
pub(super) struct LayerKv {
    pub(super) keys: Vec<f32>,
    pub(super) values: Vec<f32>,
}

/// Keys and values of a prompt, all layers.
#[derive(Debug)]
pub(super) struct PromptCache {
    pub(super) layers: Vec<LayerKv>,
    pub(super) tokens: usize,
}

/// A row's cache: the prompt's, shared with the rows of the same prompt, and its own.
#[derive(Debug)]
pub(super) struct RowCache {
    prompt: Arc<PromptCache>,
    own: Vec<LayerKv>,
    own_tokens: usize,
}

impl RowCache {
    pub(super) fn new(prompt: Arc<PromptCache>) -> Self {
        let own = vec![LayerKv::default(); prompt.layers.len()];
        Self { prompt, own, own_tokens: 0 }
    }

    /// Tokens in the cache.
    pub(super) fn len(&self) -> usize {
        self.prompt.tokens + self.own_tokens
    }

    fn push(&mut self, layer: usize, keys: &[f32], values: &[f32]) {
        self.own[layer].keys.extend_from_slice(keys);
        self.own[layer].values.extend_from_slice(values);
        if layer + 1 == self.own.len() {
            self.own_tokens += 1;
        }
    }

    fn layer(&self, layer: usize) -> [&LayerKv; 2] {
        [&self.prompt.layers[layer], &self.own[layer]]
    }
}

/// Attention of one new token per row over that row's cache, which takes the new keys and values in.
pub(super) struct DecodeAttention<'a> {
    rows: &'a mut [Row],
    shape: AttentionShape,
}

impl<'a> DecodeAttention<'a> {
    pub(super) fn new(rows: &'a mut [Row], config: &DecoderConfig) -> Self {
        let shape = AttentionShape {
            segments: Vec::new(),
            heads: config.num_attention_heads,
            kv_heads: config.num_key_value_heads,
            head_dim: config.head_dim,
        };
        Self { rows, shape }
    }
}

impl<B: Backend> Attend<B> for DecodeAttention<'_> {
    fn heads(&self) -> &AttentionShape {
        &self.shape
    }

    fn attend(&mut self, layer: usize, qkv: Tensor<B, 2>) -> Tensor<B, 2> {
        let device = qkv.device();
        let AttentionShape { heads, kv_heads, head_dim, .. } = self.shape;
        let (query_width, kv_width, group_width) = (heads * head_dim, kv_heads * head_dim, heads / kv_heads * head_dim);
        let qkv = values_of(qkv);
        let mut mixed = vec![0.0; self.rows.len() * query_width];
        self.rows
            .par_iter_mut()
            .zip(qkv.par_chunks_exact(self.shape.row()))
            .zip(mixed.par_chunks_exact_mut(query_width))
            .for_each(|((row, qkv), mixed)| {
                let (queries, rest) = qkv.split_at(query_width);
                let (keys, values) = rest.split_at(kv_width);
                row.cache.push(layer, keys, values);
                let pieces = row.cache.layer(layer);
                let groups = mixed.chunks_exact_mut(group_width).zip(queries.chunks_exact(group_width));
                for (kv_head, (mixed, queries)) in groups.enumerate() {
                    let head = Head { group: heads / kv_heads, width: kv_width, start: kv_head * head_dim, head_dim };
                    kernel::attend_group(head, queries, pieces, mixed);
                }
            });
        Tensor::from_data(TensorData::new(mixed, [self.rows.len(), query_width]), &device)
    }
}

/// A tensor's values; burn-flex hands its memory over where it can.
pub(super) fn values_of<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Vec<f32> {
    let data = tensor.into_data().convert::<f32>();
    // `convert` has just made the type what is asked for here.
    data.into_vec().unwrap_or_default()
}
