//! Keys and values of tokens already seen.
//!
//! They live in host memory, one growing run per row and layer: a row that joins, leaves or outgrows its allocation touches
//! no other. (A cache made of backend tensors would be copied whole at every write: burn-flex's `slice_assign` holds two
//! references to the tensor it writes to.)

use std::sync::Arc;

use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::kernel::{self, Heads};
use super::row::Row;
use crate::decoder::Attend;

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
}

impl<'a> DecodeAttention<'a> {
    pub(super) fn new(rows: &'a mut [Row]) -> Self {
        Self { rows }
    }
}

impl<B: Backend> Attend<B> for DecodeAttention<'_> {
    fn attend(&mut self, layer: usize, queries: Tensor<B, 3>, keys: Tensor<B, 3>, values: Tensor<B, 3>) -> Tensor<B, 3> {
        let device = queries.device();
        let [rows, heads, head_dim] = queries.dims();
        let kv_heads = keys.dims()[1];
        let shape = Heads { group: heads / kv_heads, kv_heads, head_dim };
        let (queries, keys, values) = (values_of(queries), values_of(keys), values_of(values));
        let kv_width = kv_heads * head_dim;
        for (row, (keys, values)) in
            self.rows.iter_mut().zip(keys.chunks_exact(kv_width).zip(values.chunks_exact(kv_width)))
        {
            row.cache.push(layer, keys, values);
        }
        let mut mixed = vec![0.0; queries.len()];
        let group_width = shape.group * head_dim;
        let rows_ref: &[Row] = self.rows;
        mixed.par_chunks_mut(group_width).zip(queries.par_chunks(group_width)).enumerate().for_each(
            |(index, (mixed, queries))| {
                let pieces = rows_ref[index / kv_heads].cache.layer(layer);
                kernel::attend_group(shape, index % kv_heads, queries, pieces, mixed);
            },
        );
        Tensor::from_data(TensorData::new(mixed, [rows, heads, head_dim]), &device)
    }
}

/// A tensor's values; burn-flex hands its memory over where it can.
pub(super) fn values_of<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Vec<f32> {
    let data = tensor.into_data().convert::<f32>();
    // `convert` has just made the type what is asked for here.
    data.into_vec().unwrap_or_default()
}
