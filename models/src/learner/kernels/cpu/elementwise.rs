//! Norms, SwiGLU and rotary embeddings.

use burn::tensor::Tensor;
use burn_flex::Flex;
use rayon::prelude::*;

use super::vector::{dot, exp, vectorised};
use super::{ROWS_PER_TASK, Values, ValuesMut, tensor};
use crate::decoder::Rotation;
use crate::learner::kernels::AttentionShape;

#[inline(always)]
fn inverse_rms(row: &[f32], epsilon: f32) -> f32 {
    (dot(row, row) / row.len() as f32 + epsilon).sqrt().recip()
}

pub(super) fn rms_norm(x: &Tensor<Flex, 2>, scale: &Tensor<Flex, 1>, epsilon: f32) -> Tensor<Flex, 2> {
    let [rows, width] = x.dims();
    let (x, scale) = (Values::of(x), Values::of(scale));
    let mut out = vec![0.0; rows * width];
    let task = ROWS_PER_TASK * width;
    out.par_chunks_mut(task).zip(x.as_slice().par_chunks(task)).for_each(|(out, x)| {
        vectorised(
            #[inline(always)]
            || {
                for (out, x) in out.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
                    let inverse = inverse_rms(x, epsilon);
                    for ((out, x), scale) in out.iter_mut().zip(x).zip(scale.as_slice()) {
                        *out = x * inverse * scale;
                    }
                }
            },
        );
    });
    tensor(out, [rows, width])
}

pub(super) fn rms_norm_backward(
    x: &Tensor<Flex, 2>,
    scale: &Tensor<Flex, 1>,
    epsilon: f32,
    gradient: Tensor<Flex, 2>,
) -> (Tensor<Flex, 2>, Tensor<Flex, 1>) {
    let [_, width] = x.dims();
    let (x, scale, mut gradient) = (Values::of(x), Values::of(scale), ValuesMut::of(gradient));
    let task = ROWS_PER_TASK * width;
    let partial_sums: Vec<Vec<f32>> = gradient
        .as_mut_slice()
        .par_chunks_mut(task)
        .zip(x.as_slice().par_chunks(task))
        .map(|(gradient, x)| {
            let mut of_scale = vec![0.0; width];
            vectorised(
                #[inline(always)]
                || {
                    for (gradient, x) in gradient.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
                        rms_norm_row_backward(x, scale.as_slice(), epsilon, gradient, &mut of_scale);
                    }
                },
            );
            of_scale
        })
        .collect();
    let mut of_scale = vec![0.0; width];
    for partial in &partial_sums {
        for (sum, value) in of_scale.iter_mut().zip(partial) {
            *sum += value;
        }
    }
    (gradient.into_tensor(), tensor(of_scale, [width]))
}

/// Replaces the row's output gradient by its input gradient.
#[inline(always)]
fn rms_norm_row_backward(x: &[f32], scale: &[f32], epsilon: f32, gradient: &mut [f32], of_scale: &mut [f32]) {
    let inverse = inverse_rms(x, epsilon);
    for (((gradient, x), scale), of_scale) in gradient.iter_mut().zip(x).zip(scale).zip(of_scale) {
        *of_scale += *gradient * x * inverse;
        *gradient *= scale;
    }
    let along = dot(gradient, x) / x.len() as f32 * inverse * inverse;
    for (gradient, x) in gradient.iter_mut().zip(x) {
        *gradient = (*gradient - x * along) * inverse;
    }
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

pub(super) fn swiglu(gate_up: &Tensor<Flex, 2>) -> Tensor<Flex, 2> {
    let [rows, both] = gate_up.dims();
    let width = both / 2;
    let gate_up = Values::of(gate_up);
    let mut out = vec![0.0; rows * width];
    let tasks = out.par_chunks_mut(ROWS_PER_TASK * width).zip(gate_up.as_slice().par_chunks(ROWS_PER_TASK * both));
    tasks.for_each(|(out, gate_up)| {
        vectorised(
            #[inline(always)]
            || {
                for (out, gate_up) in out.chunks_exact_mut(width).zip(gate_up.chunks_exact(both)) {
                    let (gate, up) = gate_up.split_at(width);
                    for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
                        *out = gate * sigmoid(*gate) * up;
                    }
                }
            },
        );
    });
    tensor(out, [rows, width])
}

pub(super) fn swiglu_backward(
    gate_up: &Tensor<Flex, 2>,
    gradient: &Tensor<Flex, 2>,
) -> (Tensor<Flex, 2>, Tensor<Flex, 2>) {
    let [rows, both] = gate_up.dims();
    let width = both / 2;
    let (gate_up, gradient) = (Values::of(gate_up), Values::of(gradient));
    let (mut activated, mut of_gate_up) = (vec![0.0; rows * width], vec![0.0; rows * both]);
    let (task, task_both) = (ROWS_PER_TASK * width, ROWS_PER_TASK * both);
    activated
        .par_chunks_mut(task)
        .zip(of_gate_up.par_chunks_mut(task_both))
        .zip(gate_up.as_slice().par_chunks(task_both))
        .zip(gradient.as_slice().par_chunks(task))
        .for_each(|(((activated, of_gate_up), gate_up), gradient)| {
            vectorised(
                #[inline(always)]
                || {
                    let outputs = activated.chunks_exact_mut(width).zip(of_gate_up.chunks_exact_mut(both));
                    let inputs = gate_up.chunks_exact(both).zip(gradient.chunks_exact(width));
                    for ((activated, of_gate_up), (gate_up, gradient)) in outputs.zip(inputs) {
                        swiglu_row_backward(gate_up, gradient, activated, of_gate_up);
                    }
                },
            );
        });
    (tensor(activated, [rows, width]), tensor(of_gate_up, [rows, both]))
}

#[inline(always)]
fn swiglu_row_backward(gate_up: &[f32], gradient: &[f32], activated: &mut [f32], of_gate_up: &mut [f32]) {
    let width = gradient.len();
    let (gate, up) = gate_up.split_at(width);
    let (of_gate, of_up) = of_gate_up.split_at_mut(width);
    let (up, activated, of_up) = (&up[..width], &mut activated[..width], &mut of_up[..width]);
    for i in 0..width {
        let sigma = sigmoid(gate[i]);
        let silu = gate[i] * sigma;
        activated[i] = silu * up[i];
        of_up[i] = gradient[i] * silu;
        of_gate[i] = gradient[i] * up[i] * sigma * (1.0 + gate[i] * (1.0 - sigma));
    }
}

pub(super) fn rotate(qkv: Tensor<Flex, 2>, shape: &AttentionShape, rotation: &Rotation<Flex>) -> Tensor<Flex, 2> {
    let (width, head, half) = (shape.row(), shape.head_dim, shape.head_dim / 2);
    let turning = (shape.heads + shape.kv_heads) * head;
    let (cos, sin) = rotation.tables();
    let (cos, sin, mut qkv) = (Values::of(cos), Values::of(sin), ValuesMut::of(qkv));
    let angles = cos.as_slice().par_chunks(ROWS_PER_TASK * half).zip(sin.as_slice().par_chunks(ROWS_PER_TASK * half));
    qkv.as_mut_slice().par_chunks_mut(ROWS_PER_TASK * width).zip(angles).for_each(|(rows, (cos, sin))| {
        vectorised(
            #[inline(always)]
            || {
                let angles = cos.chunks_exact(half).zip(sin.chunks_exact(half));
                for (row, (cos, sin)) in rows.chunks_exact_mut(width).zip(angles) {
                    for head in row[..turning].chunks_exact_mut(head) {
                        let (low, high) = head.split_at_mut(half);
                        for (((low, high), cos), sin) in low.iter_mut().zip(high).zip(cos).zip(sin) {
                            (*low, *high) = (*low * cos - *high * sin, *high * cos + *low * sin);
                        }
                    }
                }
            },
        );
    });
    qkv.into_tensor()
}
