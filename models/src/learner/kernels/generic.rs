//! The building blocks in plain tensor operations: right on every backend, and what fused versions are tested against.

use std::ops::Range;

use burn::tensor::activation::{sigmoid, silu, softmax};
use burn::tensor::backend::Backend;
use burn::tensor::{IndexingUpdateOp, Int, Tensor, TensorData};

use super::{AdamStep, AttentionShape, RowStatistics, Updated, index_tensor};
use crate::decoder::{Rotation, Segment};

/// `1 / sqrt(mean(x²) + ε)` per row, `[rows, 1]`.
fn inverse_rms<B: Backend>(x: &Tensor<B, 2>, epsilon: f64) -> Tensor<B, 2> {
    ((x.clone() * x.clone()).mean_dim(1) + epsilon).sqrt().recip()
}

pub(super) fn rms_norm<B: Backend>(x: &Tensor<B, 2>, scale: &Tensor<B, 1>, epsilon: f64) -> Tensor<B, 2> {
    x.clone() * inverse_rms(x, epsilon) * scale.clone().unsqueeze()
}

/// With s = 1/rms and u = w ⊙ g: ∂x = s·(u − x·s²·mean(x ⊙ u)), ∂w = Σ_rows g ⊙ x·s.
pub(super) fn rms_norm_backward<B: Backend>(
    x: &Tensor<B, 2>,
    scale: &Tensor<B, 1>,
    epsilon: f64,
    gradient: Tensor<B, 2>,
) -> (Tensor<B, 2>, Tensor<B, 1>) {
    let inverse = inverse_rms(x, epsilon);
    let normed = x.clone() * inverse.clone();
    let of_scale = (gradient.clone() * normed.clone()).sum_dim(0).squeeze_dim::<1>(0);
    let scaled = gradient * scale.clone().unsqueeze();
    let along = (scaled.clone() * normed.clone()).mean_dim(1);
    ((scaled - normed * along) * inverse, of_scale)
}

fn halves<B: Backend>(gate_up: &Tensor<B, 2>) -> (Tensor<B, 2>, Tensor<B, 2>) {
    let width = gate_up.dims()[1] / 2;
    (gate_up.clone().narrow(1, 0, width), gate_up.clone().narrow(1, width, width))
}

pub(super) fn swiglu<B: Backend>(gate_up: &Tensor<B, 2>) -> Tensor<B, 2> {
    let (gate, up) = halves(gate_up);
    silu(gate) * up
}

/// silu'(x) = σ(x)·(1 + x·(1 − σ(x))).
pub(super) fn swiglu_backward<B: Backend>(
    gate_up: &Tensor<B, 2>,
    gradient: &Tensor<B, 2>,
) -> (Tensor<B, 2>, Tensor<B, 2>) {
    let (gate, up) = halves(gate_up);
    let sigma = sigmoid(gate.clone());
    let activated = gate.clone() * sigma.clone();
    let slope = sigma.clone() * (gate * (sigma.neg() + 1.0) + 1.0);
    let of_gate = gradient.clone() * up.clone() * slope;
    let of_up = gradient.clone() * activated.clone();
    (activated * up, Tensor::cat(vec![of_gate, of_up], 1))
}

pub(super) fn rotate<B: Backend>(qkv: Tensor<B, 2>, shape: &AttentionShape, rotation: &Rotation<B>) -> Tensor<B, 2> {
    let [rows, width] = qkv.dims();
    let turning = shape.heads + shape.kv_heads;
    let heads = qkv.reshape([rows, turning + shape.kv_heads, shape.head_dim]);
    let turned = rotation.apply(heads.clone().narrow(1, 0, turning));
    Tensor::cat(vec![turned, heads.narrow(1, turning, shape.kv_heads)], 1).reshape([rows, width])
}

/// Queries, keys and values of a segment, heads first.
struct Operands<B: Backend> {
    /// `[kv_heads, group · tokens, d]`: the query heads of a key head stacked along the token axis.
    queries: Tensor<B, 3>,
    /// `[kv_heads, prefix + tokens, d]`.
    keys: Tensor<B, 3>,
    /// `[kv_heads, prefix + tokens, d]`.
    values: Tensor<B, 3>,
}

impl<B: Backend> Operands<B> {
    /// From queries, keys and values as `[rows, heads + 2 · kv_heads, d]`.
    fn new(qkv: &Tensor<B, 3>, shape: &AttentionShape, segment: &Segment) -> Self {
        let take = |rows: &Range<usize>, first: usize, heads: usize| {
            qkv.clone().narrow(0, rows.start, rows.len()).narrow(1, first, heads)
        };
        let seen = |first: usize| {
            let own = take(&segment.tokens, first, shape.kv_heads);
            match &segment.prefix {
                Some(prefix) => Tensor::cat(vec![take(prefix, first, shape.kv_heads), own], 0),
                None => own,
            }
            .swap_dims(0, 1)
        };
        Self {
            queries: stack_heads(take(&segment.tokens, 0, shape.heads), shape),
            keys: seen(shape.heads),
            values: seen(shape.heads + shape.kv_heads),
        }
    }
}

/// `[tokens, heads, d]` to `[kv_heads, group · tokens, d]`.
fn stack_heads<B: Backend>(x: Tensor<B, 3>, shape: &AttentionShape) -> Tensor<B, 3> {
    let [tokens, heads, dim] = x.dims();
    x.swap_dims(0, 1).reshape([shape.kv_heads, heads / shape.kv_heads * tokens, dim])
}

/// The inverse of [`stack_heads`].
fn unstack_heads<B: Backend>(x: Tensor<B, 3>, shape: &AttentionShape) -> Tensor<B, 3> {
    let [_, stacked, dim] = x.dims();
    let tokens = stacked * shape.kv_heads / shape.heads;
    x.reshape([shape.heads, tokens, dim]).swap_dims(0, 1)
}

/// `[1, tokens, prefix + tokens]`: 0 where a token may look, −∞ elsewhere.
fn causal_mask<B: Backend>(segment: &Segment, device: &B::Device) -> Tensor<B, 3> {
    let (tokens, prefix) = (segment.tokens.len(), segment.prefix.as_ref().map_or(0, Range::len));
    let values: Vec<f32> = (0..tokens)
        .flat_map(|i| (0..prefix + tokens).map(move |j| if j <= prefix + i { 0.0 } else { f32::NEG_INFINITY }))
        .collect();
    Tensor::from_data(TensorData::new(values, [1, tokens, prefix + tokens]), device)
}

/// `[rows, (heads + 2 · kv_heads) · d]` with its heads apart.
fn by_head<B: Backend>(qkv: &Tensor<B, 2>, shape: &AttentionShape) -> Tensor<B, 3> {
    let rows = qkv.dims()[0];
    qkv.clone().reshape([rows, shape.heads + 2 * shape.kv_heads, shape.head_dim])
}

pub(super) fn attention<B: Backend>(qkv: &Tensor<B, 2>, shape: &AttentionShape) -> (Tensor<B, 2>, Vec<Tensor<B, 3>>) {
    let by_head = by_head(qkv, shape);
    let factor = (shape.head_dim as f64).powf(-0.5);
    let (mut mixed, mut probabilities) = (Vec::new(), Vec::new());
    for segment in &shape.segments {
        let Operands { queries, keys, values } = Operands::new(&by_head, shape, segment);
        let scores = (queries * factor).matmul(keys.transpose());
        let [kv_heads, stacked, seen] = scores.dims();
        let by_token = scores.reshape([shape.heads, segment.tokens.len(), seen]);
        let masked = (by_token + causal_mask(segment, &qkv.device())).reshape([kv_heads, stacked, seen]);
        let weights = softmax(masked, 2);
        mixed.push(unstack_heads(weights.clone().matmul(values), shape));
        probabilities.push(weights);
    }
    let mixed = Tensor::cat(mixed, 0);
    let rows = mixed.dims()[0];
    (mixed.reshape([rows, shape.heads * shape.head_dim]), probabilities)
}

/// ∂V = Pᵀ·∂O, ∂P = ∂O·Vᵀ, ∂S = P ⊙ (∂P − Σ_j P ⊙ ∂P), ∂Q = ∂S·K/√d, ∂K = ∂Sᵀ·Q/√d.
pub(super) fn attention_backward<B: Backend>(
    qkv: &Tensor<B, 2>,
    shape: &AttentionShape,
    probabilities: Vec<Tensor<B, 3>>,
    gradient: &Tensor<B, 2>,
) -> Tensor<B, 2> {
    let by_head = by_head(qkv, shape);
    let [rows, _] = gradient.dims();
    let gradient = gradient.clone().reshape([rows, shape.heads, shape.head_dim]);
    let factor = (shape.head_dim as f64).powf(-0.5);
    let mut of_queries = Vec::new();
    // Keys and values side by side, `[tokens, 2 · kv_heads, d]` per segment: a prompt's collect what its completions add.
    let mut of_seen: Vec<Tensor<B, 3>> = Vec::new();
    for (segment, weights) in shape.segments.iter().zip(probabilities) {
        let Operands { queries, keys, values } = Operands::new(&by_head, shape, segment);
        let outer = stack_heads(gradient.clone().narrow(0, segment.tokens.start, segment.tokens.len()), shape);
        let of_values = weights.clone().transpose().matmul(outer.clone());
        let of_weights = outer.matmul(values.transpose()) * weights.clone();
        let of_scores = (of_weights.clone() - weights * of_weights.sum_dim(2)) * factor;
        of_queries.push(unstack_heads(of_scores.clone().matmul(keys), shape));
        let of_keys = of_scores.transpose().matmul(queries);
        let mut both = Tensor::cat(vec![of_keys, of_values], 0).swap_dims(0, 1);
        if let Some(prefix) = &segment.prefix {
            if let Some(at) = shape.segments.iter().position(|other| other.tokens == *prefix) {
                of_seen[at] = of_seen[at].clone() + both.clone().narrow(0, 0, prefix.len());
            }
            both = both.narrow(0, prefix.len(), segment.tokens.len());
        }
        of_seen.push(both);
    }
    let all = Tensor::cat(vec![Tensor::cat(of_queries, 0), Tensor::cat(of_seen, 0)], 1);
    all.reshape([rows, shape.row()])
}

/// (log Σ exp(z), softmax-weighted mean of z) per row, `[rows, 1]` each.
fn log_sum_exp<B: Backend>(z: &Tensor<B, 2>) -> (Tensor<B, 2>, Tensor<B, 2>) {
    let peak = z.clone().max_dim(1);
    let shifted = z.clone() - peak.clone();
    let terms = shifted.clone().exp();
    let sum = terms.clone().sum_dim(1);
    let mean = (terms * shifted).sum_dim(1) / sum.clone() + peak.clone();
    (sum.log() + peak, mean)
}

pub(super) fn row_statistics<B: Backend>(
    logits: &Tensor<B, 2>,
    targets: &[u32],
    temperature: f32,
) -> Result<Vec<RowStatistics>, String> {
    let target = logits.clone().gather(1, target_indices(targets, &logits.device()));
    let (raw, mean) = log_sum_exp(logits);
    let (tempered, tempered_mean) =
        if temperature == 1.0 { (raw.clone(), mean) } else { log_sum_exp(&(logits.clone() / temperature)) };
    let columns = Tensor::cat(vec![target, raw, tempered, tempered_mean], 1);
    let values = columns.into_data().convert::<f32>().into_vec::<f32>().map_err(|error| format!("{error:?}"))?;
    let statistics = values.chunks_exact(4).map(|row| {
        let [target, raw, tempered, mean] = [row[0], row[1], row[2], row[3]].map(f64::from);
        RowStatistics {
            raw_logprob: target - raw,
            logprob: target / f64::from(temperature) - tempered,
            entropy: tempered - mean,
            log_sum_exp: tempered,
        }
    });
    Ok(statistics.collect())
}

/// `[rows, 1]`.
fn target_indices<B: Backend>(targets: &[u32], device: &B::Device) -> Tensor<B, 2, Int> {
    index_tensor::<B>(targets.iter().map(|&id| id as usize), device).reshape([targets.len(), 1])
}

/// ∂log softmax(z/T)[target]/∂z = (onehot(target) − softmax(z/T)) / T.
pub(super) fn logits_backward<B: Backend>(
    logits: Tensor<B, 2>,
    targets: &[u32],
    temperature: f32,
    statistics: &[RowStatistics],
    gradient: &[f64],
) -> Tensor<B, 2> {
    let device = logits.device();
    let column = |values: Vec<f32>| Tensor::<B, 2>::from_data(TensorData::new(values, [targets.len(), 1]), &device);
    let log_sums = column(statistics.iter().map(|row| row.log_sum_exp as f32).collect());
    let factors = column(gradient.iter().map(|value| (value / f64::from(temperature)) as f32).collect());
    let softmax = (logits / temperature - log_sums).exp();
    let indices = target_indices(targets, &device);
    (softmax * factors.clone().neg()).scatter(1, indices, factors, IndexingUpdateOp::Add)
}

pub(super) fn add_rows<B: Backend>(into: Tensor<B, 2>, rows: &[usize], values: Tensor<B, 2>) -> Tensor<B, 2> {
    let indices = index_tensor::<B>(rows.iter().copied(), &into.device());
    into.select_assign(0, indices, values, IndexingUpdateOp::Add)
}

pub(super) fn add_product<B: Backend>(
    into: Option<Tensor<B, 1>>,
    lhs: &Tensor<B, 2>,
    rhs: &Tensor<B, 2>,
) -> Tensor<B, 1> {
    let product = lhs.clone().transpose().matmul(rhs.clone()).flatten::<1>(0, 1);
    match into {
        Some(into) => into + product,
        None => product,
    }
}

pub(super) fn sum_of_squares<B: Backend>(x: &Tensor<B, 1>) -> Result<f64, String> {
    let sum = (x.clone() * x.clone()).sum().into_data().convert::<f32>();
    let values = sum.into_vec::<f32>().map_err(|error| format!("{error:?}"))?;
    Ok(values.iter().copied().map(f64::from).sum())
}

pub(super) fn adamw<B: Backend>(
    parameter: Tensor<B, 1>,
    gradient: Tensor<B, 1>,
    first_moment: Tensor<B, 1>,
    second_moment: Tensor<B, 1>,
    step: &AdamStep,
) -> Updated<B> {
    let gradient = gradient * step.gradient_scale;
    let first_moment = first_moment * step.beta1 + gradient.clone() * (1.0 - step.beta1);
    let second_moment = second_moment * step.beta2 + gradient.clone() * gradient * (1.0 - step.beta2);
    let root = (second_moment.clone() / step.correction2).sqrt() + step.epsilon;
    let change = first_moment.clone() / root * (step.learning_rate / step.correction1);
    let parameter = parameter * (1.0 - step.learning_rate * step.weight_decay) - change;
    Updated { parameter, first_moment, second_moment }
}
