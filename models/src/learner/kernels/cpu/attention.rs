//! Attention over packed segments: no copy of a prompt's keys per completion, no mask, no padding.
//!
//! A task is a segment. Its scores against the prefix and against itself are separate products into one matrix
//! `[tokens, prefix + tokens]` per head; what lies above the causal diagonal is never read.

use std::ops::Range;

use burn::tensor::Tensor;
use burn_flex::Flex;
use rayon::prelude::*;

use super::matrix::{Cores, Matrix, MatrixMut, multiply};
use super::vector::{dot, exp, max, sum, vectorised};
use super::{Values, tensor};
use crate::decoder::Segment;
use crate::learner::kernels::AttentionShape;

/// Where one head of one segment finds its operands.
struct Head<'a> {
    shape: &'a AttentionShape,
    segment: &'a Segment,
    qkv: &'a [f32],
    head: usize,
}

impl<'a> Head<'a> {
    fn rows(&self, rows: &Range<usize>, column: usize) -> Matrix<'a> {
        let width = self.shape.row();
        Matrix::new(self.qkv, rows.start * width + column, [rows.len(), self.shape.head_dim], width)
    }

    fn queries(&self) -> Matrix<'a> {
        self.rows(&self.segment.tokens, self.head * self.shape.head_dim)
    }

    fn keys(&self, rows: &Range<usize>) -> Matrix<'a> {
        self.rows(rows, key_column(self.shape, self.head))
    }

    fn values(&self, rows: &Range<usize>) -> Matrix<'a> {
        self.rows(rows, value_column(self.shape, self.head))
    }

    /// The rows it sees, with their first column in the score matrix.
    fn seen(&self) -> impl Iterator<Item = (Range<usize>, usize)> + use<> {
        let prefix = self.segment.prefix.clone();
        let first = prefix.as_ref().map_or(0, Range::len);
        prefix.map(|rows| (rows, 0)).into_iter().chain([(self.segment.tokens.clone(), first)])
    }
}

/// The first key column of a query head within a row.
fn key_column(shape: &AttentionShape, head: usize) -> usize {
    (shape.heads + head / (shape.heads / shape.kv_heads)) * shape.head_dim
}

/// The first value column of a query head within a row.
fn value_column(shape: &AttentionShape, head: usize) -> usize {
    key_column(shape, head) + shape.kv_heads * shape.head_dim
}

/// (tokens, prefix, prefix + tokens).
fn lengths(segment: &Segment) -> (usize, usize, usize) {
    let (tokens, prefix) = (segment.tokens.len(), segment.prefix.as_ref().map_or(0, Range::len));
    (tokens, prefix, prefix + tokens)
}

/// The rows of each segment in a matrix of `width` columns.
fn split_rows<'a>(mut values: &'a mut [f32], shape: &AttentionShape, width: usize) -> Vec<&'a mut [f32]> {
    let mut parts = Vec::with_capacity(shape.segments.len());
    for segment in &shape.segments {
        let (part, rest) = values.split_at_mut(segment.tokens.len() * width);
        parts.push(part);
        values = rest;
    }
    parts
}

pub(super) fn forward(qkv: &Tensor<Flex, 2>, shape: &AttentionShape) -> (Tensor<Flex, 2>, Vec<Tensor<Flex, 3>>) {
    let rows = qkv.dims()[0];
    let qkv = Values::of(qkv);
    let width = shape.heads * shape.head_dim;
    let mut mixed = vec![0.0; rows * width];
    let parts = split_rows(&mut mixed, shape, width);
    let probabilities = shape
        .segments
        .par_iter()
        .zip(parts)
        .map(|(segment, mixed)| forward_segment(qkv.as_slice(), shape, segment, mixed))
        .collect();
    (tensor(mixed, [rows, width]), probabilities)
}

fn forward_segment(qkv: &[f32], shape: &AttentionShape, segment: &Segment, mixed: &mut [f32]) -> Tensor<Flex, 3> {
    let (tokens, prefix, seen) = lengths(segment);
    let (dim, width) = (shape.head_dim, shape.heads * shape.head_dim);
    let factor = (dim as f32).sqrt().recip();
    let mut all = vec![0.0; shape.heads * tokens * seen];
    for (index, scores) in all.chunks_exact_mut(tokens * seen).enumerate() {
        let head = Head { shape, segment, qkv, head: index };
        for (rows, column) in head.seen() {
            let out = MatrixMut::new(scores, column, [tokens, rows.len()], seen);
            multiply(out, head.queries(), head.keys(&rows).transposed(), factor, false, Cores::One);
        }
        vectorised(
            #[inline(always)]
            || {
                for (token, row) in scores.chunks_exact_mut(seen).enumerate() {
                    causal_softmax(row, prefix + token + 1);
                }
            },
        );
        for (rows, column) in head.seen() {
            let out = MatrixMut::new(mixed, index * dim, [tokens, dim], width);
            let weights = Matrix::new(scores, column, [tokens, rows.len()], seen);
            // The first product writes, the second adds.
            multiply(out, weights, head.values(&rows), 1.0, column > 0, Cores::One);
        }
    }
    let group = shape.heads / shape.kv_heads;
    tensor(all, [shape.kv_heads, group * tokens, seen])
}

/// Softmax of the first `visible` values; the others become 0.
#[inline(always)]
fn causal_softmax(row: &mut [f32], visible: usize) {
    let (row, hidden) = row.split_at_mut(visible);
    let peak = max(row);
    for value in row.iter_mut() {
        *value = exp(*value - peak);
    }
    let inverse = sum(row).recip();
    for value in row {
        *value *= inverse;
    }
    hidden.fill(0.0);
}

/// Formulas: see the version in plain tensor operations.
pub(super) fn backward(
    qkv: &Tensor<Flex, 2>,
    shape: &AttentionShape,
    probabilities: &[Tensor<Flex, 3>],
    gradient: &Tensor<Flex, 2>,
) -> Tensor<Flex, 2> {
    let rows = qkv.dims()[0];
    let (qkv, gradient) = (Values::of(qkv), Values::of(gradient));
    let mut of_qkv = vec![0.0; rows * shape.row()];
    let parts = split_rows(&mut of_qkv, shape, shape.row());
    let of_prefixes: Vec<Vec<f32>> = shape
        .segments
        .par_iter()
        .zip(parts)
        .zip(probabilities)
        .map(|((segment, part), probabilities)| {
            let probabilities = Values::of(probabilities);
            Backward { shape, segment, qkv: qkv.as_slice(), gradient: gradient.as_slice() }
                .run(probabilities.as_slice(), part)
        })
        .collect();
    // A prompt's keys and values collect what its completions add, in their order.
    for (segment, of_prefix) in shape.segments.iter().zip(&of_prefixes) {
        if let Some(prefix) = &segment.prefix {
            let rows = &mut of_qkv[prefix.start * shape.row()..prefix.end * shape.row()];
            for (sum, value) in rows.iter_mut().zip(of_prefix) {
                *sum += value;
            }
        }
    }
    tensor(of_qkv, [rows, shape.row()])
}

/// One segment on the way back.
struct Backward<'a> {
    shape: &'a AttentionShape,
    segment: &'a Segment,
    qkv: &'a [f32],
    gradient: &'a [f32],
}

impl Backward<'_> {
    /// Fills the gradient of the segment's own rows and returns that of its prefix's rows.
    fn run(&self, probabilities: &[f32], own: &mut [f32]) -> Vec<f32> {
        let Self { shape, segment, .. } = *self;
        let (tokens, prefix, seen) = lengths(segment);
        let mut of_prefix = vec![0.0; prefix * shape.row()];
        let mut of_scores = vec![0.0; tokens * seen];
        for (index, weights) in probabilities.chunks_exact(tokens * seen).enumerate() {
            let head = Head { shape, segment, qkv: self.qkv, head: index };
            self.scores(&head, weights, &mut of_scores);
            for (rows, column) in head.seen() {
                let dims = [tokens, rows.len()];
                let of_scores = Matrix::new(&of_scores, column, dims, seen);
                let weights = Matrix::new(weights, column, dims, seen);
                let queries = MatrixMut::new(own, index * shape.head_dim, [tokens, shape.head_dim], shape.row());
                multiply(queries, of_scores, head.keys(&rows), 1.0, column > 0, Cores::One);
                let target = if rows == segment.tokens { &mut *own } else { &mut of_prefix };
                let dims = [rows.len(), shape.head_dim];
                let keys = MatrixMut::new(target, key_column(shape, index), dims, shape.row());
                multiply(keys, of_scores.transposed(), head.queries(), 1.0, true, Cores::One);
                let values = MatrixMut::new(target, value_column(shape, index), dims, shape.row());
                multiply(values, weights.transposed(), self.outer(index), 1.0, true, Cores::One);
            }
        }
        of_prefix
    }

    /// The gradient of one head's mixed values.
    fn outer(&self, head: usize) -> Matrix<'_> {
        let width = self.shape.heads * self.shape.head_dim;
        let tokens = &self.segment.tokens;
        let start = tokens.start * width + head * self.shape.head_dim;
        Matrix::new(self.gradient, start, [tokens.len(), self.shape.head_dim], width)
    }

    /// The gradient of one head's scores, 0 above the diagonal.
    fn scores(&self, head: &Head<'_>, weights: &[f32], of_scores: &mut [f32]) {
        let (tokens, _, seen) = lengths(self.segment);
        for (rows, column) in head.seen() {
            let out = MatrixMut::new(of_scores, column, [tokens, rows.len()], seen);
            multiply(out, self.outer(head.head), head.values(&rows).transposed(), 1.0, false, Cores::One);
        }
        let factor = (self.shape.head_dim as f32).sqrt().recip();
        vectorised(
            #[inline(always)]
            || {
                for (row, weights) in of_scores.chunks_exact_mut(seen).zip(weights.chunks_exact(seen)) {
                    let along = dot(row, weights);
                    for (value, weight) in row.iter_mut().zip(weights) {
                        *value = (*value - along) * weight * factor;
                    }
                }
            },
        );
    }
}
