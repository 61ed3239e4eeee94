//! Matrix products of strided slices.

use super::element::Float;

/// A matrix in a slice, with distances in elements between rows and between columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) row_stride: usize,
    pub(crate) column_stride: usize,
}

impl<T> Matrix<'_, T> {
    /// Columns as rows.
    pub(super) fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            data: self.data,
        }
    }
}

/// `out = a * b` where element `(i, j)` of the result is `out[i * row_stride + j]`; the elements between rows stay.
///
/// The matrices fit their slices and each other; a mismatch is a defect of the caller and panics before memory is touched.
pub(crate) fn multiply<T: Float>(
    a: &Matrix<'_, T>,
    b: &Matrix<'_, T>,
    out: &mut [T],
    row_stride: usize,
    parallel: bool,
) {
    product(a, b, out, row_stride, parallel, false);
}

/// `out += a * b`, as [`multiply`].
pub(crate) fn multiply_add<T: Float>(
    a: &Matrix<'_, T>,
    b: &Matrix<'_, T>,
    out: &mut [T],
    row_stride: usize,
    parallel: bool,
) {
    product(a, b, out, row_stride, parallel, true);
}

fn product<T: Float>(
    a: &Matrix<'_, T>,
    b: &Matrix<'_, T>,
    out: &mut [T],
    row_stride: usize,
    parallel: bool,
    add: bool,
) {
    assert_eq!(a.columns, b.rows, "inner dimensions of a matrix product");
    let (rows, columns) = (a.rows, b.columns);
    if rows == 0 || columns == 0 {
        return;
    }
    assert!(columns <= row_stride || rows == 1, "rows of a product overlap");
    let out = &mut out[..(rows - 1) * row_stride + columns];
    if a.columns == 0 {
        if add {
            return;
        }
        out.chunks_mut(row_stride.max(columns)).for_each(|row| row[..columns].fill(T::ZERO));
        return;
    }
    let (a_data, b_data) = (a.used(), b.used());
    let parallelism = if parallel { gemm::Parallelism::Rayon(0) } else { gemm::Parallelism::None };
    // SAFETY: the slices `a_data`, `b_data` and `out` end at the last element that the strides reach, all strides are positive or
    // zero, `out` is borrowed mutably and its rows do not overlap, and T is f32 or f64, which gemm computes.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            a.columns,
            out.as_mut_ptr(),
            1,
            row_stride as isize,
            add,
            a_data.as_ptr(),
            a.column_stride as isize,
            a.row_stride as isize,
            b_data.as_ptr(),
            b.column_stride as isize,
            b.row_stride as isize,
            if add { T::ONE } else { T::ZERO },
            T::ONE,
            false,
            false,
            false,
            parallelism,
        );
    }
}

impl<'a, T> Matrix<'a, T> {
    /// The elements up to the last that the strides reach; the matrix has elements.
    fn used(&self) -> &'a [T] {
        &self.data[..=(self.rows - 1) * self.row_stride + (self.columns - 1) * self.column_stride]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_transpose_and_leave_gaps() {
        // a = [[1, 2], [3, 4], [5, 6]] stored by columns, b = [[1, 0, 2], [0, 1, 3]].
        let a = Matrix {
            data: &[1.0, 3.0, 5.0, 2.0, 4.0, 6.0],
            rows: 3,
            columns: 2,
            row_stride: 1,
            column_stride: 3,
        };
        let b = Matrix {
            data: &[1.0, 0.0, 2.0, 0.0, 1.0, 3.0],
            rows: 2,
            columns: 3,
            row_stride: 3,
            column_stride: 1,
        };
        let mut out = [-1.0_f32; 12];
        multiply(&a, &b, &mut out, 4, true);
        assert_eq!(out, [1.0, 2.0, 8.0, -1.0, 3.0, 4.0, 18.0, -1.0, 5.0, 6.0, 28.0, -1.0]);
        multiply_add(&a, &b, &mut out, 4, false);
        assert_eq!(out, [2.0, 4.0, 16.0, -1.0, 6.0, 8.0, 36.0, -1.0, 10.0, 12.0, 56.0, -1.0]);
    }

    #[test]
    fn an_empty_sum_is_zero() {
        let a = Matrix::<f64> { data: &[], rows: 2, columns: 0, row_stride: 0, column_stride: 1 };
        let b = Matrix { data: &[], rows: 0, columns: 2, row_stride: 2, column_stride: 1 };
        let mut out = [f64::NAN; 4];
        multiply(&a, &b, &mut out, 2, false);
        assert_eq!(out, [0.0; 4]);
    }
}
