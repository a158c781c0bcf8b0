//! Matrix products on slices, with a checked interface: the only unsafe code of the learner.

use gemm::Parallelism;

/// A matrix inside a slice.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// Row-major, its first value at `start`, a row every `stride` values.
    ///
    /// # Panics
    /// The matrix does not lie within `values`.
    pub(super) fn new(values: &'a [f32], start: usize, [rows, columns]: [usize; 2], stride: usize) -> Self {
        let values = &values[start..start + extent(rows, columns, stride)];
        Self { values, rows, columns, row_stride: stride, column_stride: 1 }
    }

    /// The same values with rows and columns exchanged.
    pub(super) fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }
}

/// A row-major matrix inside a slice, to be written.
pub(super) struct MatrixMut<'a> {
    values: &'a mut [f32],
    rows: usize,
    columns: usize,
    stride: usize,
}

impl<'a> MatrixMut<'a> {
    /// As [`Matrix::new`].
    pub(super) fn new(values: &'a mut [f32], start: usize, [rows, columns]: [usize; 2], stride: usize) -> Self {
        assert!(columns <= stride || rows <= 1, "rows would overlap");
        let values = &mut values[start..start + extent(rows, columns, stride)];
        Self { values, rows, columns, stride }
    }
}

/// Values from the first to the last of a matrix.
fn extent(rows: usize, columns: usize, stride: usize) -> usize {
    if rows == 0 || columns == 0 { 0 } else { (rows - 1) * stride + columns }
}

/// Who takes part in a product.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cores {
    /// Every core, for a large product.
    All,
    /// The calling one, for a product within a task.
    One,
}

/// `out = factor · lhs · rhs`, or `out += …` with `accumulate`.
///
/// # Panics
/// The shapes do not fit.
pub(super) fn multiply(
    out: MatrixMut<'_>,
    lhs: Matrix<'_>,
    rhs: Matrix<'_>,
    factor: f32,
    accumulate: bool,
    cores: Cores,
) {
    assert!(out.rows == lhs.rows && out.columns == rhs.columns && lhs.columns == rhs.rows, "shapes of a product");
    // SAFETY: `out` was cut to its matrix's extent, and it is borrowed mutably, so it overlaps neither operand.
    unsafe { call(out.values.as_mut_ptr(), out.stride, lhs, rhs, factor, accumulate, cores) };
}

/// `lhs · rhs` on every core, row-major.
///
/// # Panics
/// The shapes do not fit.
pub(super) fn product(lhs: Matrix<'_>, rhs: Matrix<'_>) -> Vec<f32> {
    assert_eq!(lhs.columns, rhs.rows, "shapes of a product");
    let length = lhs.rows * rhs.columns;
    if lhs.columns == 0 {
        return vec![0.0; length];
    }
    let mut out = Vec::with_capacity(length);
    // SAFETY: the vector has room for `length` values, the product writes each of them without reading any, and only then
    // does the vector own them. Zeroing them first would cost a pass over memory for every product.
    unsafe {
        call(out.as_mut_ptr(), rhs.columns, lhs, rhs, 1.0, false, Cores::All);
        out.set_len(length);
    }
    out
}

/// # Safety
/// `out` must be valid for writes of `lhs.rows` rows of `rhs.columns` values, `stride` apart, which overlap neither each other
/// nor the operands; with `accumulate`, they must be initialised. `lhs.columns` must equal `rhs.rows`.
unsafe fn call(
    out: *mut f32,
    stride: usize,
    lhs: Matrix<'_>,
    rhs: Matrix<'_>,
    factor: f32,
    accumulate: bool,
    cores: Cores,
) {
    let parallelism = match cores {
        Cores::All => Parallelism::Rayon(0),
        Cores::One => Parallelism::None,
    };
    // SAFETY: the constructors cut each operand's slice to exactly its matrix's extent, so every address that the strides
    // reach lies within it; the caller answers for `out`.
    unsafe {
        gemm::gemm(
            lhs.rows,
            rhs.columns,
            lhs.columns,
            out,
            1,
            stride as isize,
            accumulate,
            lhs.values.as_ptr(),
            lhs.column_stride as isize,
            lhs.row_stride as isize,
            rhs.values.as_ptr(),
            rhs.column_stride as isize,
            rhs.row_stride as isize,
            1.0,
            factor,
            false,
            false,
            false,
            parallelism,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_parts_and_transposes() {
        // A 2×3 matrix inside rows of 4, times the transpose of a 2×3 matrix.
        let left = [1.0, 2.0, 3.0, 9.0, 4.0, 5.0, 6.0];
        let right = [1.0, 0.0, 2.0, 0.0, 1.0, 1.0];
        let mut out = [1.0; 4];
        let lhs = Matrix::new(&left, 0, [2, 3], 4);
        let rhs = Matrix::new(&right, 0, [2, 3], 3).transposed();
        multiply(MatrixMut::new(&mut out, 0, [2, 2], 2), lhs, rhs, 2.0, true, Cores::One);
        assert_eq!(out, [15.0, 11.0, 33.0, 23.0]);
        multiply(MatrixMut::new(&mut out, 0, [2, 2], 2), lhs, rhs, 1.0, false, Cores::All);
        assert_eq!(out, [7.0, 5.0, 16.0, 11.0]);
    }

    #[test]
    #[should_panic(expected = "range")]
    fn a_matrix_beyond_its_slice_is_refused() {
        let _ = Matrix::new(&[0.0; 5], 0, [2, 3], 3);
    }
}
