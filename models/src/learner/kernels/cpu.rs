//! The building blocks fused for the CPU: one pass over memory each, rows shared among cores, exponentials vectorised.
//!
//! Every sum has a fixed order whatever the cores do, so that equal steps give equal bits.

mod attention;
mod elementwise;
mod loss;
mod matrix;
mod optimizer;
mod vector;

use burn::tensor::{Tensor, TensorData, TensorPrimitive};
use burn_flex::{Flex, FlexTensor};
use rayon::prelude::*;

use self::matrix::{Matrix, MatrixMut};
use super::{AdamStep, AttentionShape, Kernels, RowStatistics, Updated};
use crate::decoder::Rotation;

/// A tensor's values, readable as a slice.
struct Values(FlexTensor);

impl Values {
    /// Copies only what is not contiguous.
    fn of<const D: usize>(tensor: &Tensor<Flex, D>) -> Self {
        Self(tensor.clone().into_primitive().tensor().to_contiguous())
    }

    fn as_slice(&self) -> &[f32] {
        let start = self.0.layout().start_offset();
        &self.0.storage::<f32>()[start..start + self.0.layout().num_elements()]
    }
}

/// A tensor whose values may be changed in place: nobody else holds them, or a copy was made.
struct ValuesMut(FlexTensor);

impl ValuesMut {
    fn of<const D: usize>(tensor: Tensor<Flex, D>) -> Self {
        Self(tensor.into_primitive().tensor().to_contiguous())
    }

    fn as_mut_slice(&mut self) -> &mut [f32] {
        let start = self.0.layout().start_offset();
        let count = self.0.layout().num_elements();
        &mut self.0.storage_mut::<f32>()[start..start + count]
    }

    fn into_tensor<const D: usize>(self) -> Tensor<Flex, D> {
        Tensor::from_primitive(TensorPrimitive::Float(self.0))
    }
}

/// A tensor around `values`, without a copy.
fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> Tensor<Flex, D> {
    Tensor::from_data(TensorData::new(values, shape), &Default::default())
}

/// Rows handled by one task: large enough to pay for its hand-over.
const ROWS_PER_TASK: usize = 16;

impl Kernels for Flex {
    fn rms_norm(x: &Tensor<Self, 2>, scale: &Tensor<Self, 1>, epsilon: f64) -> Tensor<Self, 2> {
        elementwise::rms_norm(x, scale, epsilon as f32)
    }

    fn rms_norm_backward(
        x: &Tensor<Self, 2>,
        scale: &Tensor<Self, 1>,
        epsilon: f64,
        gradient: Tensor<Self, 2>,
    ) -> (Tensor<Self, 2>, Tensor<Self, 1>) {
        elementwise::rms_norm_backward(x, scale, epsilon as f32, gradient)
    }

    fn swiglu(gate_up: &Tensor<Self, 2>) -> Tensor<Self, 2> {
        elementwise::swiglu(gate_up)
    }

    fn swiglu_backward(gate_up: &Tensor<Self, 2>, gradient: &Tensor<Self, 2>) -> (Tensor<Self, 2>, Tensor<Self, 2>) {
        elementwise::swiglu_backward(gate_up, gradient)
    }

    fn rotate(qkv: Tensor<Self, 2>, shape: &AttentionShape, rotation: &Rotation<Self>) -> Tensor<Self, 2> {
        elementwise::rotate(qkv, shape, rotation)
    }

    fn packed_attention(qkv: &Tensor<Self, 2>, shape: &AttentionShape) -> (Tensor<Self, 2>, Vec<Tensor<Self, 3>>) {
        attention::forward(qkv, shape)
    }

    fn packed_attention_backward(
        qkv: &Tensor<Self, 2>,
        shape: &AttentionShape,
        probabilities: Vec<Tensor<Self, 3>>,
        gradient: &Tensor<Self, 2>,
    ) -> Tensor<Self, 2> {
        attention::backward(qkv, shape, &probabilities, gradient)
    }

    fn row_statistics(
        logits: &Tensor<Self, 2>,
        targets: &[u32],
        temperature: f32,
    ) -> Result<Vec<RowStatistics>, String> {
        Ok(loss::row_statistics(logits, targets, temperature))
    }

    fn logits_backward(
        logits: Tensor<Self, 2>,
        targets: &[u32],
        temperature: f32,
        statistics: &[RowStatistics],
        gradient: &[f64],
    ) -> Tensor<Self, 2> {
        loss::logits_backward(logits, targets, temperature, statistics, gradient)
    }

    fn add_rows(into: Tensor<Self, 2>, rows: &[usize], values: Tensor<Self, 2>) -> Tensor<Self, 2> {
        let width = into.dims()[1];
        let (mut into, values) = (ValuesMut::of(into), Values::of(&values));
        let sums = into.as_mut_slice();
        for (&row, values) in rows.iter().zip(values.as_slice().chunks_exact(width)) {
            for (sum, value) in sums[row * width..(row + 1) * width].iter_mut().zip(values) {
                *sum += value;
            }
        }
        into.into_tensor()
    }

    fn product(lhs: &Tensor<Self, 2>, rhs: &Tensor<Self, 2>) -> Tensor<Self, 2> {
        let ([rows, inner], [_, columns]) = (lhs.dims(), rhs.dims());
        let (lhs, rhs) = (Values::of(lhs), Values::of(rhs));
        let lhs = Matrix::new(lhs.as_slice(), 0, [rows, inner], inner);
        let rhs = Matrix::new(rhs.as_slice(), 0, [inner, columns], columns);
        tensor(matrix::product(lhs, rhs), [rows, columns])
    }

    fn product_transposed(lhs: &Tensor<Self, 2>, rhs: &Tensor<Self, 2>) -> Tensor<Self, 2> {
        let ([rows, inner], [columns, _]) = (lhs.dims(), rhs.dims());
        let (lhs, rhs) = (Values::of(lhs), Values::of(rhs));
        let lhs = Matrix::new(lhs.as_slice(), 0, [rows, inner], inner);
        let rhs = Matrix::new(rhs.as_slice(), 0, [columns, inner], inner).transposed();
        tensor(matrix::product(lhs, rhs), [rows, columns])
    }

    fn add_product(into: Option<Tensor<Self, 1>>, lhs: &Tensor<Self, 2>, rhs: &Tensor<Self, 2>) -> Tensor<Self, 1> {
        let ([rows, height], [_, width]) = (lhs.dims(), rhs.dims());
        let accumulate = into.is_some();
        let mut into =
            into.map_or_else(|| ValuesMut::of(tensor(vec![0.0; height * width], [height * width])), ValuesMut::of);
        let (lhs, rhs) = (Values::of(lhs), Values::of(rhs));
        matrix::multiply(
            MatrixMut::new(into.as_mut_slice(), 0, [height, width], width),
            Matrix::new(lhs.as_slice(), 0, [rows, height], height).transposed(),
            Matrix::new(rhs.as_slice(), 0, [rows, width], width),
            1.0,
            accumulate,
            matrix::Cores::All,
        );
        into.into_tensor()
    }

    fn sum_of_squares(x: &Tensor<Self, 1>) -> Result<f64, String> {
        let x = Values::of(x);
        let sums: Vec<f64> = x.as_slice().par_chunks(1 << 16).map(vector::sum_of_squares).collect();
        Ok(sums.iter().sum())
    }

    fn adamw(
        parameter: Tensor<Self, 1>,
        gradient: Tensor<Self, 1>,
        first_moment: Tensor<Self, 1>,
        second_moment: Tensor<Self, 1>,
        step: &AdamStep,
    ) -> Updated<Self> {
        optimizer::adamw(&parameter, &gradient, first_moment, second_moment, step)
    }
}
