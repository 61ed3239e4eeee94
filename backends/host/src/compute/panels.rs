//! Products of few rows with a matrix that many of them meet, one after the other: its columns copied into panels, or as they lie.

use std::ops::Range;

use super::element::Float;
use super::gemm::{Matrix, multiply};

/// Columns whose sums registers hold.
pub(super) const PANEL: usize = 32;
/// Columns of a panel that a product of many rows takes: a multiple of those that its kernel has at a time.
pub(super) const WIDE_PANEL: usize = 96;

/// Some columns of a matrix in panels, each with the columns of a row side by side and the last one narrower than the others.
pub(super) struct Panels<T> {
    rows: usize,
    columns: usize,
    width: usize,
    data: Vec<T>,
}

impl<T: Float> Panels<T> {
    /// Copies pieces of the columns, one after the other.
    pub(super) fn new(of: &Matrix<'_, T>, pieces: &[Range<usize>], width: usize) -> Self {
        let columns = pieces.iter().map(Range::len).sum();
        let mut data = vec![T::ZERO; of.rows * columns];
        let mut row = Vec::with_capacity(columns);
        for k in 0..of.rows {
            row.clear();
            for piece in pieces {
                row.extend_from_slice(&of.data[k * of.row_stride..][piece.clone()]);
            }
            for (first, part) in row.chunks(width).enumerate().map(|(i, part)| (i * width, part)) {
                data[first * of.rows + k * part.len()..][..part.len()].copy_from_slice(part);
            }
        }
        Self { rows: of.rows, columns, width, data }
    }

    /// The products of so many rows; those of the result begin `stride` elements apart.
    pub(super) fn multiply(&self, rows: &[T], count: usize, out: &mut [T], stride: usize) {
        for first in (0..self.columns).step_by(self.width) {
            let columns = self.width.min(self.columns - first);
            let panel = &self.data[first * self.rows..][..self.rows * columns];
            if self.width > PANEL {
                let whole = Matrix {
                    data: rows,
                    rows: count,
                    columns: self.rows,
                    row_stride: self.rows,
                    column_stride: 1,
                };
                let by =
                    Matrix { data: panel, rows: self.rows, columns, row_stride: columns, column_stride: 1 };
                multiply(&whole, &by, &mut out[first..], stride, false);
                continue;
            }
            for (row, out) in rows.chunks_exact(self.rows).zip(out.chunks_mut(stride)) {
                row_by_panel(row, panel, &mut out[first..][..columns]);
            }
        }
    }
}

fn row_by_panel<T: Float>(row: &[T], panel: &[T], out: &mut [T]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has these instructions.
        unsafe { row_by_panel_of_avx2(row, panel, out) };
        return;
    }
    row_by_panel_of_any(row, panel, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn row_by_panel_of_avx2<T: Float>(row: &[T], panel: &[T], out: &mut [T]) {
    row_by_panel_of_any(row, panel, out);
}

#[expect(clippy::inline_always, reason = "with the instructions of its callers")]
#[inline(always)]
fn row_by_panel_of_any<T: Float>(row: &[T], panel: &[T], out: &mut [T]) {
    let mut sums = [[T::ZERO; PANEL]; 2];
    if out.len() == PANEL {
        let (pairs, last) = panel.as_chunks::<PANEL>().0.as_chunks::<2>();
        let (terms, last_term) = row.as_chunks::<2>();
        for (x, w) in terms.iter().zip(pairs) {
            for (i, sums) in sums.iter_mut().enumerate() {
                for (sum, &w) in sums.iter_mut().zip(&w[i]) {
                    *sum += x[i] * w;
                }
            }
        }
        for (&x, w) in last_term.iter().zip(last) {
            for (sum, &w) in sums[0].iter_mut().zip(w) {
                *sum += x * w;
            }
        }
    } else {
        for (&x, w) in row.iter().zip(panel.chunks_exact(out.len())) {
            for (sum, &w) in sums[0].iter_mut().zip(w) {
                *sum += x * w;
            }
        }
    }
    let [even, odd] = sums;
    for ((out, even), odd) in out.iter_mut().zip(even).zip(odd) {
        *out = even + odd;
    }
}

/// The products of a few rows with some columns of a row-major matrix. Rows of the result begin `stride` elements apart.
pub(super) fn rows_product<T: Float>(
    rows: &[T],
    by: &Matrix<'_, T>,
    columns: Range<usize>,
    out: &mut [T],
    stride: usize,
) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has these instructions.
        unsafe { rows_product_of_avx2(rows, by, columns, out, stride) };
        return;
    }
    rows_product_of_any(rows, by, columns, out, stride);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn rows_product_of_avx2<T: Float>(
    rows: &[T],
    by: &Matrix<'_, T>,
    columns: Range<usize>,
    out: &mut [T],
    stride: usize,
) {
    rows_product_of_any(rows, by, columns, out, stride);
}

/// Terms by which sums in the first-level cache grow at a time.
const AT_ONCE: usize = 8;

#[expect(clippy::inline_always, reason = "with the instructions of its callers")]
#[inline(always)]
fn rows_product_of_any<T: Float>(
    rows: &[T],
    by: &Matrix<'_, T>,
    columns: Range<usize>,
    out: &mut [T],
    stride: usize,
) {
    let terms = by.rows;
    let width = columns.len();
    let of = |k: usize| &by.data[k * by.row_stride + columns.start..][..width];
    for out in out.chunks_mut(stride) {
        out[..width].fill(T::ZERO);
    }
    let whole = terms - terms % AT_ONCE;
    for k in (0..whole).step_by(AT_ONCE) {
        let w: [&[T]; AT_ONCE] = std::array::from_fn(|i| of(k + i));
        for (x, out) in rows.chunks_exact(terms).zip(out.chunks_mut(stride)) {
            let x: [T; AT_ONCE] = std::array::from_fn(|i| x[k + i]);
            for (j, out) in out[..width].iter_mut().enumerate() {
                let low = x[0] * w[0][j] + x[1] * w[1][j] + (x[2] * w[2][j] + x[3] * w[3][j]);
                let high = x[4] * w[4][j] + x[5] * w[5][j] + (x[6] * w[6][j] + x[7] * w[7][j]);
                *out += low + high;
            }
        }
    }
    for k in whole..terms {
        for (x, out) in rows.chunks_exact(terms).zip(out.chunks_mut(stride)) {
            for (out, &w) in out[..width].iter_mut().zip(of(k)) {
                *out += x[k] * w;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_and_columns_in_place_give_the_same_products() {
        let (terms, columns, batch, stride) = (13, 150, 3, 160);
        let data: Vec<f64> = (0..terms * columns).map(|i| f64::from((i * 7 % 31) as u32) - 15.0).collect();
        let rows: Vec<f64> = (0..batch * terms).map(|i| f64::from((i * 5 % 17) as u32) - 8.0).collect();
        let of = Matrix { data: &data, rows: terms, columns, row_stride: columns, column_stride: 1 };
        let pieces = [3..50, 60..140];
        let column = |j: usize| if j < 47 { j + 3 } else { j + 13 };
        let expected = |n: usize, j: usize| -> f64 {
            (0..terms).map(|k| rows[n * terms + k] * data[k * columns + column(j)]).sum()
        };
        for width in [PANEL, WIDE_PANEL] {
            let mut out = vec![f64::NAN; batch * stride];
            Panels::new(&of, &pieces, width).multiply(&rows, batch, &mut out, stride);
            for (n, j) in (0..batch).flat_map(|n| (0..127).map(move |j| (n, j))) {
                let off = (out[n * stride + j] - expected(n, j)).abs();
                assert!(off < 1e-9, "row {n}, column {j}, panels of {width}");
            }
            assert!(out[127].is_nan(), "what lies between rows stays");
        }
        let mut out = vec![f64::NAN; batch * stride];
        rows_product(&rows, &of, 3..50, &mut out, stride);
        for (n, j) in (0..batch).flat_map(|n| (0..47).map(move |j| (n, j))) {
            assert!((out[n * stride + j] - expected(n, j)).abs() < 1e-9, "row {n}, column {j}");
        }
    }
}
