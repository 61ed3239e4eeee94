//! Folds of neighbours on many accumulators, so that none waits for another and errors stay small.

use anydnn_backend::op::ReductionAlgorithm;

use super::level::for_levels;

/// Accumulators: four vectors of the widest, or for short runs one.
const LANES: usize = 64;
const FEW_LANES: usize = 16;
/// Elements from which on many accumulators pay for being joined.
const LONG: usize = 256;

for_levels! {
    /// The largest; NaN if one is.
    pub(super) fn max(values: &[f32]) -> f32 = max_body
}

for_levels! {
    /// The sum.
    pub(super) fn sum(values: &[f32]) -> f32 = sum_body
}

for_levels! {
    /// The sum of the squares of the distances to a number.
    pub(super) fn squares(values: &[f32], from: f32) -> f32 = squares_body
}

for_levels! {
    /// What the elements fold into, before the last step of the algorithm.
    pub(super) fn fold(algorithm: ReductionAlgorithm, values: &[f32]) -> f32 = fold_body
}

for_levels! {
    /// Folds rows of elements, `stride` apart, into a row.
    pub(super) fn fold_rows(algorithm: ReductionAlgorithm, values: &[f32], rows: usize, stride: usize, into: &mut [f32]) = fold_rows_body
}

/// Whether partial folds are added.
pub(super) fn adds(algorithm: ReductionAlgorithm) -> bool {
    !matches!(algorithm, ReductionAlgorithm::Product | ReductionAlgorithm::Max | ReductionAlgorithm::Min)
}

/// Where a fold begins.
pub(super) fn start(algorithm: ReductionAlgorithm) -> f32 {
    match algorithm {
        ReductionAlgorithm::Product => 1.0,
        ReductionAlgorithm::Max => f32::NEG_INFINITY,
        ReductionAlgorithm::Min => f32::INFINITY,
        _ => 0.0,
    }
}

/// Two partial folds in one.
pub(super) fn join(algorithm: ReductionAlgorithm, a: f32, b: f32) -> f32 {
    match algorithm {
        ReductionAlgorithm::Product => a * b,
        ReductionAlgorithm::Max => larger(a, b),
        ReductionAlgorithm::Min => smaller(a, b),
        _ => a + b,
    }
}

/// The last step of a fold of so many elements.
pub(super) fn end(algorithm: ReductionAlgorithm, folded: f32, count: usize) -> f32 {
    match algorithm {
        ReductionAlgorithm::Mean => folded / count as f32,
        ReductionAlgorithm::NormL2 => folded.sqrt(),
        _ => folded,
    }
}

// A comparison with NaN is false, which keeps the NaN of either side.
#[inline(always)]
pub(super) fn larger(a: f32, b: f32) -> f32 {
    if b > a || b.is_nan() { b } else { a }
}

#[inline(always)]
fn smaller(a: f32, b: f32) -> f32 {
    if b < a || b.is_nan() { b } else { a }
}

/// Folds elements by lanes; `neutral` is an element that changes nothing.
#[inline(always)]
fn lanes(
    values: &[f32],
    start: f32,
    neutral: f32,
    add: impl Fn(f32, f32) -> f32,
    join: impl Fn(f32, f32) -> f32,
) -> f32 {
    if values.len() < LONG {
        so_many_lanes::<FEW_LANES>(values, start, neutral, add, join)
    } else {
        so_many_lanes::<LANES>(values, start, neutral, add, join)
    }
}

#[inline(always)]
fn so_many_lanes<const LANES: usize>(
    values: &[f32],
    start: f32,
    neutral: f32,
    add: impl Fn(f32, f32) -> f32,
    join: impl Fn(f32, f32) -> f32,
) -> f32 {
    let mut lanes = [start; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = add(*lane, value);
        }
    }
    if !rest.is_empty() {
        // A whole chunk takes as many instructions as a vector, a part of one as many as elements.
        let mut last = [neutral; LANES];
        last[..rest.len()].copy_from_slice(rest);
        for (lane, &value) in lanes.iter_mut().zip(&last) {
            *lane = add(*lane, value);
        }
    }
    joined(lanes, join)
}

/// Lanes in one, by halves.
#[inline(always)]
pub(super) fn joined<const LANES: usize>(mut lanes: [f32; LANES], join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        let (low, high) = lanes.split_at_mut(width);
        low.iter_mut().zip(&high[..width]).for_each(|(low, &high)| *low = join(*low, high));
    }
    lanes[0]
}

#[inline(always)]
fn max_body(values: &[f32]) -> f32 {
    lanes(values, f32::NEG_INFINITY, f32::NEG_INFINITY, larger, larger)
}

#[inline(always)]
fn sum_body(values: &[f32]) -> f32 {
    lanes(values, 0.0, 0.0, |a, x| a + x, |a, b| a + b)
}

#[inline(always)]
fn squares_body(values: &[f32], from: f32) -> f32 {
    lanes(values, 0.0, from, |a, x| a + (x - from) * (x - from), |a, b| a + b)
}

#[inline(always)]
fn fold_body(algorithm: ReductionAlgorithm, values: &[f32]) -> f32 {
    let plus = |a: f32, b: f32| a + b;
    match algorithm {
        ReductionAlgorithm::Product => lanes(values, 1.0, 1.0, |a, x| a * x, |a, b| a * b),
        ReductionAlgorithm::Max => max_body(values),
        ReductionAlgorithm::Min => lanes(values, f32::INFINITY, f32::INFINITY, smaller, smaller),
        ReductionAlgorithm::NormL1 => lanes(values, 0.0, 0.0, |a, x| a + x.abs(), plus),
        ReductionAlgorithm::NormL2 => lanes(values, 0.0, 0.0, |a, x| a + x * x, plus),
        _ => sum_body(values),
    }
}

#[inline(always)]
fn fold_rows_body(
    algorithm: ReductionAlgorithm,
    values: &[f32],
    rows: usize,
    stride: usize,
    into: &mut [f32],
) {
    let plus = |a: f32, b: f32| a + b;
    match algorithm {
        ReductionAlgorithm::Product => each_row(values, rows, stride, into, |x| x, |a, b| a * b),
        ReductionAlgorithm::Max => each_row(values, rows, stride, into, |x| x, larger),
        ReductionAlgorithm::Min => each_row(values, rows, stride, into, |x| x, smaller),
        ReductionAlgorithm::NormL1 => each_row(values, rows, stride, into, f32::abs, plus),
        ReductionAlgorithm::NormL2 => each_row(values, rows, stride, into, |x| x * x, plus),
        _ => each_row(values, rows, stride, into, |x| x, plus),
    }
}

/// Four rows at a time, so that the sums are read and written once for them.
#[inline(always)]
fn each_row(
    values: &[f32],
    rows: usize,
    stride: usize,
    into: &mut [f32],
    of: impl Fn(f32) -> f32,
    join: impl Fn(f32, f32) -> f32,
) {
    let whole = rows - rows % 4;
    for first in (0..whole).step_by(4) {
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| &values[(first + i) * stride..][..into.len()]);
        for ((((into, &a), &b), &c), &d) in into.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *into = join(*into, join(join(of(a), of(b)), join(of(c), of(d))));
        }
    }
    for number in whole..rows {
        let values = &values[number * stride..][..into.len()];
        into.iter_mut().zip(values).for_each(|(into, &value)| *into = join(*into, of(value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fast::level::Level;

    #[test]
    fn folds_meet_their_definitions_at_every_level() {
        let values: Vec<f32> = (0..301).map(|i| ((i * 37) % 19) as f32 / 16.0 - 0.5).collect();
        for &level in Level::available() {
            for algorithm in ReductionAlgorithm::ALL {
                let one = |x: f32| match algorithm {
                    ReductionAlgorithm::NormL1 => x.abs(),
                    ReductionAlgorithm::NormL2 => x * x,
                    _ => x,
                };
                for length in [0, 1, 63, 64, 301] {
                    let values = &values[..length];
                    let plain = values.iter().fold(start(algorithm), |a, &x| join(algorithm, a, one(x)));
                    let made = fold(level, algorithm, values);
                    let near = (made - plain).abs() <= 1e-4 * plain.abs().max(1.0);
                    assert!(near || made == plain, "{algorithm:?} of {length}: {made}, not {plain}");
                }
                for rows in [0, 1, 4, 7] {
                    let mut into = [start(algorithm); 21];
                    fold_rows(level, algorithm, &values, rows, 33, &mut into);
                    for (i, &made) in into.iter().enumerate() {
                        let column = (0..rows).map(|row| one(values[row * 33 + i]));
                        let plain = column.fold(start(algorithm), |a, x| join(algorithm, a, x));
                        assert!(
                            (made - plain).abs() <= 1e-5 || made == plain,
                            "{algorithm:?} of {rows} rows"
                        );
                    }
                }
            }
            assert!(max(level, &[0.0, f32::NAN, 1.0]).is_nan());
            assert_eq!((sum(level, &[1.0, 2.0]), squares(level, &[1.0, 4.0], 2.0)), (3.0, 5.0));
        }
    }
}
