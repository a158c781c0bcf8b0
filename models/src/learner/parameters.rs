//! A decoder's parameters as one flat, ordered list: what gradients and optimiser state are indexed by.

use burn::module::{Param, ParamId};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::config::DecoderConfig;
use crate::decoder::{Decoder, FeedForward, Layer, RmsNorm, SelfAttention};

/// One parameter's place in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Its path in the decoder, `layers.3.attention.qkv`.
    pub(crate) name: String,
    /// Its shape: one dimension (a norm's scale) or two.
    pub(crate) dims: Vec<usize>,
}

impl Slot {
    fn new(name: String, dims: &[usize]) -> Self {
        Self { name, dims: dims.to_vec() }
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Does weight decay apply? Not to norms: a scale of one is their neutral value, not zero.
    pub(crate) fn is_decayed(&self) -> bool {
        self.dims.len() > 1
    }
}

/// The parameters of one block, in the order of [`slots`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayerSlot {
    AttentionNorm,
    Qkv,
    Output,
    FeedForwardNorm,
    GateUp,
    Down,
}

const SLOTS_PER_LAYER: usize = 6;
const EMBEDDING: usize = 0;

/// The position of the token embedding.
pub(crate) fn embedding_slot() -> usize {
    EMBEDDING
}

/// The position of a block's parameter.
pub(crate) fn layer_slot(layer: usize, slot: LayerSlot) -> usize {
    EMBEDDING + 1 + SLOTS_PER_LAYER * layer + slot as usize
}

/// The position of the last norm.
pub(crate) fn norm_slot(config: &DecoderConfig) -> usize {
    EMBEDDING + 1 + SLOTS_PER_LAYER * config.num_hidden_layers
}

/// The position of the output head: the embedding's own when they are tied, so that their gradients add up.
pub(crate) fn head_slot(config: &DecoderConfig) -> usize {
    if config.tie_word_embeddings { EMBEDDING } else { norm_slot(config) + 1 }
}

/// Every parameter of a decoder of this shape, in order.
pub(crate) fn slots(config: &DecoderConfig) -> Vec<Slot> {
    let (hidden, wide) = (config.hidden_size, config.intermediate_size);
    let mut slots = vec![Slot::new("embedding".into(), &[config.vocab_size, hidden])];
    for layer in 0..config.num_hidden_layers {
        let name = |part: &str| format!("layers.{layer}.{part}");
        slots.extend([
            Slot::new(name("attention_norm"), &[hidden]),
            Slot::new(name("attention.qkv"), &[hidden, config.query_size() + 2 * config.kv_size()]),
            Slot::new(name("attention.output"), &[config.query_size(), hidden]),
            Slot::new(name("feed_forward_norm"), &[hidden]),
            Slot::new(name("feed_forward.gate_up"), &[hidden, 2 * wide]),
            Slot::new(name("feed_forward.down"), &[wide, hidden]),
        ]);
    }
    slots.push(Slot::new("norm".into(), &[hidden]));
    if !config.tie_word_embeddings {
        slots.push(Slot::new("head".into(), &[hidden, config.vocab_size]));
    }
    slots
}

/// The parameters in slot order, each flattened; contiguous tensors are shared, not copied.
pub(crate) fn flatten<B: Backend>(decoder: &Decoder<B>) -> Vec<Tensor<B, 1>> {
    let matrix = |param: &Param<Tensor<B, 2>>| param.val().flatten::<1>(0, 1);
    let mut flat = vec![matrix(&decoder.embedding)];
    for layer in &decoder.layers {
        flat.extend([
            layer.attention_norm.weight.val(),
            matrix(&layer.attention.qkv),
            matrix(&layer.attention.output),
            layer.feed_forward_norm.weight.val(),
            matrix(&layer.feed_forward.gate_up),
            matrix(&layer.feed_forward.down),
        ]);
    }
    flat.push(decoder.norm.weight.val());
    flat.extend(decoder.head.as_ref().map(matrix));
    flat
}

/// The decoder whose [`flatten`]ed parameters are `flat`, which has one tensor per slot of `config`.
pub(crate) fn assemble<B: Backend>(config: &DecoderConfig, flat: Vec<Tensor<B, 1>>) -> Decoder<B> {
    let slots = slots(config);
    let take = |slot: usize| flat[slot].clone();
    let matrix = |slot: usize| {
        let dims = &slots[slot].dims;
        Param::initialized(ParamId::new(), take(slot).reshape([dims[0], dims[1]]))
    };
    let norm =
        |slot: usize| RmsNorm { weight: Param::initialized(ParamId::new(), take(slot)), epsilon: config.rms_norm_eps };
    let layers = (0..config.num_hidden_layers)
        .map(|layer| {
            let slot = |part| layer_slot(layer, part);
            Layer {
                attention_norm: norm(slot(LayerSlot::AttentionNorm)),
                attention: SelfAttention { qkv: matrix(slot(LayerSlot::Qkv)), output: matrix(slot(LayerSlot::Output)) },
                feed_forward_norm: norm(slot(LayerSlot::FeedForwardNorm)),
                feed_forward: FeedForward {
                    gate_up: matrix(slot(LayerSlot::GateUp)),
                    down: matrix(slot(LayerSlot::Down)),
                },
            }
        })
        .collect();
    Decoder {
        embedding: matrix(EMBEDDING),
        layers,
        norm: norm(norm_slot(config)),
        head: (!config.tie_word_embeddings).then(|| matrix(head_slot(config))),
        config: config.clone(),
    }
}

impl<B: Backend> Decoder<B> {
    /// A decoder with random weights: what tests and measurements use where no weights file is at hand.
    ///
    /// Matrices are uniform with the standard deviation 0.02 that models of this family start from, norms are one.
    pub fn random(config: DecoderConfig, seed: u64, device: &B::Device) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let bound = 0.02 * 3.0_f32.sqrt();
        let flat = slots(&config)
            .iter()
            .map(|slot| {
                let values: Vec<f32> = match slot.is_decayed() {
                    true => (0..slot.len()).map(|_| random.random_range(-bound..bound)).collect(),
                    false => vec![1.0; slot.len()],
                };
                Tensor::from_data(TensorData::new(values, [slot.len()]), device)
            })
            .collect();
        assemble(&config, flat)
    }
}
