//! Prompts of newly admitted requests: forwarded packed, each distinct one once.

use std::collections::HashMap;
use std::sync::Arc;

use burn::tensor::Tensor;

use super::Model;
use super::cache::{LayerKv, PromptCache, RowCache, values_of};
use super::row::Row;
use crate::config::DecoderConfig;
use crate::decoder::{Attend, PackedAttention, Rotation, Segment};
use crate::generate::{GenerateError, GenerationRequest};
use crate::learner::kernels::{AttentionShape, Kernels};
use crate::score::id_tensor;

/// The requests of one prompt.
struct SharedPrompt {
    ids: Arc<[u32]>,
    requests: Vec<GenerationRequest>,
}

/// Forwards the prompts of `requests` and samples the first token of each; at most `budget` prompt tokens at once.
pub(super) fn prefill<B: Kernels>(
    model: &Model<B>,
    requests: Vec<GenerationRequest>,
    budget: usize,
) -> Result<Vec<Row>, GenerateError> {
    let mut rows = Vec::with_capacity(requests.len());
    let mut batch: Vec<SharedPrompt> = Vec::new();
    let mut tokens = 0;
    for prompt in by_prompt(requests) {
        if !batch.is_empty() && tokens + prompt.ids.len() > budget {
            rows.extend(prefill_batch(model, std::mem::take(&mut batch))?);
            tokens = 0;
        }
        tokens += prompt.ids.len();
        batch.push(prompt);
    }
    if !batch.is_empty() {
        rows.extend(prefill_batch(model, batch)?);
    }
    Ok(rows)
}

/// Requests of equal prompts together, in the order of their first.
fn by_prompt(requests: Vec<GenerationRequest>) -> Vec<SharedPrompt> {
    let mut prompts: Vec<SharedPrompt> = Vec::new();
    let mut known: HashMap<Arc<[u32]>, usize> = HashMap::new();
    for request in requests {
        let index = *known.entry(Arc::clone(&request.prompt_ids)).or_insert_with(|| {
            prompts.push(SharedPrompt { ids: Arc::clone(&request.prompt_ids), requests: Vec::new() });
            prompts.len() - 1
        });
        prompts[index].requests.push(request);
    }
    prompts
}

fn prefill_batch<B: Kernels>(model: &Model<B>, prompts: Vec<SharedPrompt>) -> Result<Vec<Row>, GenerateError> {
    let config = &model.decoder.config;
    let device = &model.device;
    let ids: Vec<u32> = prompts.iter().flat_map(|prompt| prompt.ids.iter().copied()).collect();
    let positions: Vec<usize> = prompts.iter().flat_map(|prompt| 0..prompt.ids.len()).collect();
    let mut segments = Vec::with_capacity(prompts.len());
    let mut start = 0;
    for prompt in &prompts {
        segments.push(Segment { tokens: start..start + prompt.ids.len(), prefix: None });
        start += prompt.ids.len();
    }
    let last: Vec<u32> = segments.iter().map(|segment| segment.tokens.end as u32 - 1).collect();
    let mut attention = PrefillAttention::new(segments, config);
    let rotation = Rotation::new(config, &positions, device);
    let hidden = model.decoder.forward_hidden(id_tensor(&ids, device), &rotation, &mut attention);
    let logits = model.logits(hidden.select(0, id_tensor(&last, device)))?;
    let mut rows = Vec::new();
    for ((prompt, cache), logits) in
        prompts.into_iter().zip(attention.caches).zip(logits.chunks_exact(config.vocab_size))
    {
        let cache = Arc::new(cache);
        for request in prompt.requests {
            let mut row = Row::new(request, RowCache::new(Arc::clone(&cache)));
            row.sample(logits, model.version)?;
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Packed attention that keeps the keys and values it saw.
struct PrefillAttention {
    inner: PackedAttention,
    caches: Vec<PromptCache>,
}

impl PrefillAttention {
    fn new(segments: Vec<Segment>, config: &DecoderConfig) -> Self {
        let cache = |segment: &Segment| PromptCache {
            layers: Vec::with_capacity(config.num_hidden_layers),
            tokens: segment.tokens.len(),
        };
        Self { caches: segments.iter().map(cache).collect(), inner: PackedAttention::new(segments, config) }
    }
}

impl<B: Kernels> Attend<B> for PrefillAttention {
    fn heads(&self) -> &AttentionShape {
        Attend::<B>::heads(&self.inner)
    }

    fn attend(&mut self, layer: usize, qkv: Tensor<B, 2>) -> Tensor<B, 2> {
        let shape = Attend::<B>::heads(&self.inner);
        let (queries, kv) = (shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim);
        let rows = values_of(qkv.clone());
        for (segment, cache) in shape.segments.iter().zip(&mut self.caches) {
            let mut kept = LayerKv::default();
            for row in rows.chunks_exact(shape.row()).skip(segment.tokens.start).take(segment.tokens.len()) {
                kept.keys.extend_from_slice(&row[queries..queries + kv]);
                kept.values.extend_from_slice(&row[queries + kv..]);
            }
            cache.layers.push(kept);
        }
        self.inner.attend(layer, qkv)
    }
}
