//! The gradient of a step, summed over micro-batches.

use burn::tensor::Tensor;

use super::kernels::Kernels;

/// One flat tensor per parameter, in slot order; `None` until a micro-batch has added to it.
#[derive(Debug)]
pub(super) struct Gradient<B: Kernels> {
    slots: Vec<Option<Tensor<B, 1>>>,
}

impl<B: Kernels> Gradient<B> {
    /// The zero gradient of `slots` parameters.
    pub(super) fn zero(slots: usize) -> Self {
        Self { slots: vec![None; slots] }
    }

    /// Adds to one parameter's gradient.
    pub(super) fn add(&mut self, slot: usize, gradient: Tensor<B, 1>) {
        let sum = match self.slots[slot].take() {
            Some(sum) => sum + gradient,
            None => gradient,
        };
        self.slots[slot] = Some(sum);
    }

    /// Adds `lhsᵀ · rhs` to a matrix parameter's gradient.
    pub(super) fn add_product(&mut self, slot: usize, lhs: &Tensor<B, 2>, rhs: &Tensor<B, 2>) {
        let sum = self.slots[slot].take();
        self.slots[slot] = Some(B::add_product(sum, lhs, rhs));
    }

    /// Adds row i of `values` to row `rows[i]` of a matrix parameter's gradient of shape `dims`.
    pub(super) fn add_rows(&mut self, slot: usize, dims: [usize; 2], rows: &[usize], values: Tensor<B, 2>) {
        let sum = match self.slots[slot].take() {
            Some(sum) => sum.reshape(dims),
            None => Tensor::zeros(dims, &values.device()),
        };
        self.slots[slot] = Some(B::add_rows(sum, rows, values).flatten::<1>(0, 1));
    }

    /// The L2 norm over all parameters.
    ///
    /// # Errors
    /// What the backend says when a value cannot be read.
    pub(super) fn norm(&self) -> Result<f64, String> {
        let squares = self.slots.iter().flatten().map(B::sum_of_squares).collect::<Result<Vec<_>, _>>()?;
        Ok(squares.iter().sum::<f64>().sqrt())
    }

    /// The parameters' gradients in slot order.
    pub(super) fn into_slots(self) -> Vec<Option<Tensor<B, 1>>> {
        self.slots
    }
}
