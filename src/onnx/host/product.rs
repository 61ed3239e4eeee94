//! Products of matrices and of more.

use anydnn_backend::{DataType, Dims, Result};

use super::call::Call;
use super::numbers::{Numbers, ints, places};
use super::quantization::{requantized, zero_points};
use super::scatter::spread;
use crate::model::HostTensor;

/// A product of stacks of matrices of integers by numpy's rules.
pub(in crate::onnx) fn matmul(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    let sizes = Sizes::of(call, a.dims(), b.dims())?;
    call.take(&sizes.result, a.data_type())?;
    let (Some(a_values), Some(b_values)) = (ints(a), ints(b)) else { return Err(call.unfit(a)) };
    let made = sizes.multiplied(&a_values, &b_values, 0, |sum, a, b| sum.wrapping_add(a.wrapping_mul(b)));
    call.made(sizes.result, a.data_type(), &Numbers::Ints(made))
}

/// Integers without their zero points, to s32.
pub(in crate::onnx) fn matmul_integer(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    let sizes = Sizes::of(call, a.dims(), b.dims())?;
    let (a, b) = (centred(call, a, 2, false)?, centred(call, b, 3, true)?);
    let made = sizes.multiplied(&a, &b, 0.0, |sum, a, b| sum + a * b);
    let made = made.into_iter().map(|value| value as i64).collect();
    call.made(sizes.result, DataType::S32, &Numbers::Ints(made))
}

/// Scaled integers to scaled integers.
pub(in crate::onnx) fn quantized_matmul(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (a, b) = (call.tensor(0)?, call.tensor(3)?);
    let sizes = Sizes::of(call, a.dims(), b.dims())?;
    let (a_scale, b_scale) = (call.tensor(1)?, call.tensor(4)?);
    let scaled = |values: Vec<f64>, dims: &Dims, scale: &HostTensor, columns: bool| -> Result<Vec<f64>> {
        let scales = by_line(call, dims, scale, columns)?;
        Ok(values.into_iter().zip(scales).map(|(value, scale)| value * scale).collect())
    };
    let left = scaled(centred(call, a, 2, false)?, a.dims(), a_scale, false)?;
    let right = scaled(centred(call, b, 5, true)?, b.dims(), b_scale, true)?;
    let made = sizes.multiplied(&left, &right, 0.0, |sum, a, b| sum + a * b);
    requantized(call, sizes.result, &made, 6)
}

/// The values of a matrix without its zero points, which are one, or one for each row or column.
fn centred(call: &Call, src: &HostTensor, index: usize, columns: bool) -> Result<Vec<f64>> {
    let Some(points) = call.optional(index) else { return Ok(src.to_f64s()) };
    let points = by_line(call, src.dims(), points, columns)?;
    Ok(src.to_f64s().into_iter().zip(points).map(|(value, point)| value - point).collect())
}

/// One number, one for each row or column, or what broadcasts, for each element.
fn by_line(call: &Call, dims: &Dims, given: &HostTensor, columns: bool) -> Result<Vec<f64>> {
    let rows = !columns && given.dims().len() == 1 && given.dims().elements() > 1;
    let own = if rows { Dims::from([given.dims().elements(), 1]) } else { given.dims().clone() };
    if given.dims().elements() != 1 && !own.broadcasts_to(dims) {
        return Err(call.invalid(
            "scale or zero point",
            given.desc(),
            format!("one for each line of {dims}"),
        ));
    }
    if given.dims().elements() == 1 {
        return Ok(vec![given.to_f64s()[0]; dims.elements()]);
    }
    Ok(spread(&given.clone().reshaped(own)?, dims))
}

/// What a product of stacks of matrices multiplies.
struct Sizes {
    rows: usize,
    inner: usize,
    columns: usize,
    /// Which matrix of either side goes into each of the result.
    pairs: Vec<(usize, usize)>,
    result: Dims,
}

impl Sizes {
    fn of(call: &Call, a: &Dims, b: &Dims) -> Result<Self> {
        let wrong = || call.invalid("inputs", format!("{a} and {b}"), "matrices that can be multiplied");
        if a.is_empty() || b.is_empty() {
            return Err(wrong());
        }
        // A vector is a row on the left and a column on the right, and is none of the result's dimensions.
        let left = if a.len() == 1 { Dims::from([1, a[0]]) } else { a.clone() };
        let right = if b.len() == 1 { Dims::from([b[0], 1]) } else { b.clone() };
        let (m, n) = (left.len(), right.len());
        let (rows, inner, columns) = (left[m - 2], left[m - 1], right[n - 1]);
        if right[n - 2] != inner {
            return Err(wrong());
        }
        let (first, second) = (Dims::new(&left[..m - 2]), Dims::new(&right[..n - 2]));
        let stack = first.broadcast(&second)?;
        let pairs = places(&first, &stack).into_iter().zip(places(&second, &stack)).collect();
        let mut result = stack.to_vec();
        result.extend((a.len() > 1).then_some(rows));
        result.extend((b.len() > 1).then_some(columns));
        Ok(Self { rows, inner, columns, pairs, result: result.into() })
    }

    fn multiplied<T: Copy>(&self, a: &[T], b: &[T], zero: T, of: impl Fn(T, T, T) -> T) -> Vec<T> {
        let mut made = vec![zero; self.pairs.len() * self.rows * self.columns];
        let sizes = (self.rows * self.inner, self.inner * self.columns);
        let mut lines = made.chunks_mut(self.columns.max(1));
        for &(i, j) in &self.pairs {
            for row in 0..self.rows {
                let Some(line) = lines.next() else { break };
                for k in 0..self.inner {
                    let factor = a[i * sizes.0 + row * self.inner + k];
                    let others = &b[j * sizes.1 + k * self.columns..][..self.columns];
                    line.iter_mut().zip(others).for_each(|(sum, &other)| *sum = of(*sum, factor, other));
                }
            }
        }
        made
    }
}

/// Determinants of stacks of matrices, by elimination.
pub(in crate::onnx) fn determinant(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let rank = src.dims().len();
    if rank < 2 || src.dims()[rank - 1] != src.dims()[rank - 2] {
        return Err(call.invalid("input 0", src.desc(), "square matrices"));
    }
    let n = src.dims()[rank - 1];
    let dims = Dims::new(&src.dims()[..rank - 2]);
    let mut made = Vec::with_capacity(dims.elements());
    let mut values = src.to_f64s();
    if n == 0 {
        made.resize(dims.elements(), 1.0);
    }
    for matrix in values.chunks_mut((n * n).max(1)) {
        let mut determinant = 1.0;
        for column in 0..n {
            let size = |row: &usize| matrix[row * n + column].abs();
            let pivot = (column..n).max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or(column);
            if pivot != column {
                (0..n).for_each(|k| matrix.swap(pivot * n + k, column * n + k));
                determinant = -determinant;
            }
            let head = matrix[column * n + column];
            determinant *= head;
            if head == 0.0 {
                break;
            }
            for row in column + 1..n {
                let factor = matrix[row * n + column] / head;
                (column..n).for_each(|k| matrix[row * n + k] -= factor * matrix[column * n + k]);
            }
        }
        made.push(determinant);
    }
    call.output(dims, src.data_type(), &made)
}

/// Inverses of stacks of matrices, by elimination; infinite or no numbers where there is none.
pub(in crate::onnx) fn inverse(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let rank = src.dims().len();
    if rank < 2 || src.dims()[rank - 1] != src.dims()[rank - 2] {
        return Err(call.invalid("input 0", src.desc(), "square matrices"));
    }
    let n = src.dims()[rank - 1];
    let mut made = vec![0.0; src.dims().elements()];
    let mut values = src.to_f64s();
    for (matrix, own) in values.chunks_mut((n * n).max(1)).zip(made.chunks_mut((n * n).max(1))) {
        (0..n).for_each(|i| own[i * n + i] = 1.0);
        for column in 0..n {
            let size = |row: &usize| matrix[row * n + column].abs();
            let pivot = (column..n).max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or(column);
            for part in [&mut *matrix, &mut *own] {
                (0..n).filter(|_| pivot != column).for_each(|k| part.swap(pivot * n + k, column * n + k));
            }
            let head = matrix[column * n + column];
            for part in [&mut *matrix, &mut *own] {
                (0..n).for_each(|k| part[column * n + k] /= head);
            }
            for row in (0..n).filter(|row| *row != column) {
                let factor = matrix[row * n + column];
                for part in [&mut *matrix, &mut *own] {
                    (0..n).for_each(|k| part[row * n + k] -= factor * part[column * n + k]);
                }
            }
        }
    }
    call.output(src.dims().clone(), src.data_type(), &made)
}

/// The zero points of an input for a number of channels, zero without.
pub(super) fn points(call: &Call, index: usize, channels: usize) -> Result<Vec<f64>> {
    zero_points(call, index, channels)
}
