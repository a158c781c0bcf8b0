//! Forward and backward through the decoder's blocks, with the activations in between.

use burn::tensor::Tensor;

use super::gradient::Gradient;
use super::kernels::{AttentionShape, Kernels, index_tensor};
use super::parameters::{LayerSlot, embedding_slot, layer_slot};
use super::plan::MicroBatch;
use crate::decoder::{Decoder, Layer, RmsNorm, Rotation};

/// What the way back needs of one block. Norms and the SwiGLU product are recomputed.
#[derive(Debug)]
struct LayerTrace<B: Kernels> {
    /// The residual stream before the block, `[rows, hidden]`.
    input: Tensor<B, 2>,
    /// Rotated queries and keys, and values, `[rows, (heads + 2 · kv_heads) · head_dim]`.
    qkv: Tensor<B, 2>,
    /// Attention's probabilities, per segment.
    probabilities: Vec<Tensor<B, 3>>,
    /// Attention's output before its projection, `[rows, heads · head_dim]`.
    mixed: Tensor<B, 2>,
    /// The residual stream between attention and feed-forward, `[rows, hidden]`.
    middle: Tensor<B, 2>,
    /// Gate and up projections, `[rows, 2 · intermediate]`.
    gate_up: Tensor<B, 2>,
}

/// A micro-batch on its way through the decoder.
#[derive(Debug)]
pub(super) struct Pass<B: Kernels> {
    shape: AttentionShape,
    rotation: Rotation<B>,
    layers: Vec<LayerTrace<B>>,
}

fn norm<B: Kernels>(norm: &RmsNorm<B>, x: &Tensor<B, 2>) -> Tensor<B, 2> {
    B::rms_norm(x, &norm.weight.val(), norm.epsilon)
}

impl<B: Kernels> Pass<B> {
    /// Runs all blocks on the packed tokens; returns the residual stream after the last, `[rows, hidden]`, before the norm.
    pub(super) fn forward(decoder: &Decoder<B>, batch: &MicroBatch, device: &B::Device) -> (Self, Tensor<B, 2>) {
        let config = &decoder.config;
        let mut pass = Self {
            shape: AttentionShape {
                segments: batch.segments.clone(),
                heads: config.num_attention_heads,
                kv_heads: config.num_key_value_heads,
                head_dim: config.head_dim,
            },
            rotation: Rotation::new(config, &batch.positions, device),
            layers: Vec::with_capacity(decoder.layers.len()),
        };
        let ids = index_tensor::<B>(batch.ids.iter().map(|&id| id as usize), device);
        let mut hidden = decoder.embedding.val().select(0, ids);
        for layer in &decoder.layers {
            hidden = pass.forward_layer(layer, hidden);
        }
        (pass, hidden)
    }

    fn forward_layer(&mut self, layer: &Layer<B>, input: Tensor<B, 2>) -> Tensor<B, 2> {
        let qkv = B::product(&norm(&layer.attention_norm, &input), &layer.attention.qkv.val());
        let qkv = B::rotate(qkv, &self.shape, &self.rotation);
        let (mixed, probabilities) = B::packed_attention(&qkv, &self.shape);
        let middle = B::product(&mixed, &layer.attention.output.val()) + input.clone();
        let gate_up = B::product(&norm(&layer.feed_forward_norm, &middle), &layer.feed_forward.gate_up.val());
        let output = B::product(&B::swiglu(&gate_up), &layer.feed_forward.down.val()) + middle.clone();
        self.layers.push(LayerTrace { input, qkv, probabilities, mixed, middle, gate_up });
        output
    }

    /// Takes the gradient of what [`forward`](Self::forward) returned back to every parameter.
    pub(super) fn backward(
        mut self,
        decoder: &Decoder<B>,
        batch: &MicroBatch,
        mut gradient: Tensor<B, 2>,
        sum: &mut Gradient<B>,
    ) {
        for (index, layer) in decoder.layers.iter().enumerate().rev() {
            if let Some(trace) = self.layers.pop() {
                let middle = Self::backward_feed_forward(layer, index, &trace, gradient, sum);
                gradient = self.backward_attention(layer, index, trace, middle, sum);
            }
        }
        let rows: Vec<usize> = batch.ids.iter().map(|&id| id as usize).collect();
        sum.add_rows(embedding_slot(), decoder.embedding.val().dims(), &rows, gradient);
    }

    /// From the gradient of the block's output to that of [`LayerTrace::middle`].
    fn backward_feed_forward(
        layer: &Layer<B>,
        index: usize,
        trace: &LayerTrace<B>,
        gradient: Tensor<B, 2>,
        sum: &mut Gradient<B>,
    ) -> Tensor<B, 2> {
        let slot = |part| layer_slot(index, part);
        let of_activated = B::product_transposed(&gradient, &layer.feed_forward.down.val());
        let (activated, of_gate_up) = B::swiglu_backward(&trace.gate_up, &of_activated);
        sum.add_product(slot(LayerSlot::Down), &activated, &gradient);
        let normed = norm(&layer.feed_forward_norm, &trace.middle);
        sum.add_product(slot(LayerSlot::GateUp), &normed, &of_gate_up);
        let of_normed = B::product_transposed(&of_gate_up, &layer.feed_forward.gate_up.val());
        let scale = &layer.feed_forward_norm;
        let (of_middle, of_scale) = B::rms_norm_backward(&trace.middle, &scale.weight.val(), scale.epsilon, of_normed);
        sum.add(slot(LayerSlot::FeedForwardNorm), of_scale);
        of_middle + gradient
    }

    /// From the gradient of [`LayerTrace::middle`] to that of the block's input.
    fn backward_attention(
        &self,
        layer: &Layer<B>,
        index: usize,
        trace: LayerTrace<B>,
        gradient: Tensor<B, 2>,
        sum: &mut Gradient<B>,
    ) -> Tensor<B, 2> {
        let slot = |part| layer_slot(index, part);
        let of_mixed = B::product_transposed(&gradient, &layer.attention.output.val());
        sum.add_product(slot(LayerSlot::Output), &trace.mixed, &gradient);
        let of_turned = B::packed_attention_backward(&trace.qkv, &self.shape, trace.probabilities, &of_mixed);
        let of_qkv = B::rotate(of_turned, &self.shape, &self.rotation.inverse());
        let normed = norm(&layer.attention_norm, &trace.input);
        sum.add_product(slot(LayerSlot::Qkv), &normed, &of_qkv);
        let of_normed = B::product_transposed(&of_qkv, &layer.attention.qkv.val());
        let scale = &layer.attention_norm;
        let (of_input, of_scale) = B::rms_norm_backward(&trace.input, &scale.weight.val(), scale.epsilon, of_normed);
        sum.add(slot(LayerSlot::AttentionNorm), of_scale);
        of_input + gradient
    }
}
