//! The decoder's building blocks with their gradients, as a backend extension.
//!
//! The learner differentiates by hand: it keeps exactly the activations a gradient needs and recomputes what is cheap, where
//! an autodiff graph would keep every intermediate. Each function has a body in plain tensor operations, right on every
//! backend, and a backend may replace it by a fused one (`cpu` does). Tests compare both with Burn's autodiff.

mod cpu;
mod generic;

use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor};

use crate::decoder::{Rotation, Segment};

/// How packed rows attend to each other, and how a row of queries, keys and values is laid out.
#[derive(Debug, Clone)]
pub struct AttentionShape {
    /// Prompts before the completions that see them; together they cover the rows in order.
    pub segments: Vec<Segment>,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
}

impl AttentionShape {
    /// Values in a row of queries, keys and values: `[queries | keys | values]`.
    pub fn row(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }
}

/// What the loss needs to know of one row of logits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowStatistics {
    /// `log softmax(z)[target]`.
    pub raw_logprob: f64,
    /// `log softmax(z / temperature)[target]`.
    pub logprob: f64,
    /// Entropy of softmax(z / temperature), nats.
    pub entropy: f64,
    /// log Σ exp(z / temperature).
    pub log_sum_exp: f64,
}

/// The numbers of one AdamW update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamStep {
    /// Learning rate of this step.
    pub learning_rate: f64,
    /// First-moment decay.
    pub beta1: f64,
    /// Second-moment decay.
    pub beta2: f64,
    /// Added to the root of the corrected second moment.
    pub epsilon: f64,
    /// Decoupled weight decay of this parameter.
    pub weight_decay: f64,
    /// The gradient is multiplied by this first (norm clipping).
    pub gradient_scale: f64,
    /// 1 − β1^t.
    pub correction1: f64,
    /// 1 − β2^t.
    pub correction2: f64,
}

/// A parameter after an update, with its moments.
#[derive(Debug)]
pub struct Updated<B: Backend> {
    /// The new parameter.
    pub parameter: Tensor<B, 1>,
    /// The new first moment.
    pub first_moment: Tensor<B, 1>,
    /// The new second moment.
    pub second_moment: Tensor<B, 1>,
}

/// Forward and backward of everything in a decoder.
pub trait Kernels: Backend {
    /// RMSNorm: `[rows, width]` by the scale `[width]`.
    fn rms_norm(x: &Tensor<Self, 2>, scale: &Tensor<Self, 1>, epsilon: f64) -> Tensor<Self, 2> {
        generic::rms_norm(x, scale, epsilon)
    }

    /// Gradients of [`rms_norm`](Self::rms_norm) for its output's `gradient`: (of `x`, of `scale`).
    fn rms_norm_backward(
        x: &Tensor<Self, 2>,
        scale: &Tensor<Self, 1>,
        epsilon: f64,
        gradient: Tensor<Self, 2>,
    ) -> (Tensor<Self, 2>, Tensor<Self, 1>) {
        generic::rms_norm_backward(x, scale, epsilon, gradient)
    }

    /// `silu(gate) ⊙ up` of `[rows, gate | up]`: `[rows, width]`.
    fn swiglu(gate_up: &Tensor<Self, 2>) -> Tensor<Self, 2> {
        generic::swiglu(gate_up)
    }

    /// The output of [`swiglu`](Self::swiglu) once more, and the gradient of its input, `[rows, gate | up]`.
    fn swiglu_backward(gate_up: &Tensor<Self, 2>, gradient: &Tensor<Self, 2>) -> (Tensor<Self, 2>, Tensor<Self, 2>) {
        generic::swiglu_backward(gate_up, gradient)
    }

    /// Turns queries and keys in rows of `[queries | keys | values]` by their positions' angles.
    fn rotate(qkv: Tensor<Self, 2>, shape: &AttentionShape, rotation: &Rotation<Self>) -> Tensor<Self, 2> {
        generic::rotate(qkv, shape, rotation)
    }

    /// Attention of rotated rows: the mixed values `[rows, heads · head_dim]`, and the probabilities of each segment,
    /// `[kv_heads, group · tokens, prefix + tokens]`, for the way back.
    fn packed_attention(qkv: &Tensor<Self, 2>, shape: &AttentionShape) -> (Tensor<Self, 2>, Vec<Tensor<Self, 3>>) {
        generic::attention(qkv, shape)
    }

    /// The gradient of `qkv` (still rotated) for the `gradient` of the mixed values.
    fn packed_attention_backward(
        qkv: &Tensor<Self, 2>,
        shape: &AttentionShape,
        probabilities: Vec<Tensor<Self, 3>>,
        gradient: &Tensor<Self, 2>,
    ) -> Tensor<Self, 2> {
        generic::attention_backward(qkv, shape, probabilities, gradient)
    }

    /// Statistics of each row of `logits` (`[rows, vocab]`) for the token `targets[row]`.
    fn row_statistics(
        logits: &Tensor<Self, 2>,
        targets: &[u32],
        temperature: f32,
    ) -> Result<Vec<RowStatistics>, String> {
        generic::row_statistics(logits, targets, temperature)
    }

    /// The gradient of the logits, given ∂loss/∂log-probability of each row's target.
    fn logits_backward(
        logits: Tensor<Self, 2>,
        targets: &[u32],
        temperature: f32,
        statistics: &[RowStatistics],
        gradient: &[f64],
    ) -> Tensor<Self, 2> {
        generic::logits_backward(logits, targets, temperature, statistics, gradient)
    }

    /// Adds row i of `values` to row `rows[i]` of `into`; rows may repeat.
    fn add_rows(into: Tensor<Self, 2>, rows: &[usize], values: Tensor<Self, 2>) -> Tensor<Self, 2> {
        generic::add_rows(into, rows, values)
    }

    /// `lhs · rhs`.
    fn product(lhs: &Tensor<Self, 2>, rhs: &Tensor<Self, 2>) -> Tensor<Self, 2> {
        lhs.clone().matmul(rhs.clone())
    }

    /// `lhs · rhsᵀ`.
    fn product_transposed(lhs: &Tensor<Self, 2>, rhs: &Tensor<Self, 2>) -> Tensor<Self, 2> {
        lhs.clone().matmul(rhs.clone().transpose())
    }

    /// `lhsᵀ · rhs`, flattened, added to `into` if given: the gradient of a weight from its input and output's gradient.
    fn add_product(into: Option<Tensor<Self, 1>>, lhs: &Tensor<Self, 2>, rhs: &Tensor<Self, 2>) -> Tensor<Self, 1> {
        generic::add_product(into, lhs, rhs)
    }

    /// Σ x².
    fn sum_of_squares(x: &Tensor<Self, 1>) -> Result<f64, String> {
        generic::sum_of_squares(x)
    }

    /// One AdamW update (Loshchilov & Hutter, arXiv 1711.05101).
    fn adamw(
        parameter: Tensor<Self, 1>,
        gradient: Tensor<Self, 1>,
        first_moment: Tensor<Self, 1>,
        second_moment: Tensor<Self, 1>,
        step: &AdamStep,
    ) -> Updated<Self> {
        generic::adamw(parameter, gradient, first_moment, second_moment, step)
    }
}

/// Row numbers as a tensor.
pub(super) fn index_tensor<B: Backend>(
    indices: impl ExactSizeIterator<Item = usize>,
    device: &B::Device,
) -> Tensor<B, 1, Int> {
    let count = indices.len();
    let values: Vec<i64> = indices.map(|index| index as i64).collect();
    Tensor::from_data(burn::tensor::TensorData::new(values, [count]), device)
}

#[cfg(feature = "cuda")]
impl Kernels for burn::backend::Cuda {}
