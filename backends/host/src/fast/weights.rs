//! From rows of scores to rows of weights: exponentials, which somebody else divides by their sums.

use super::level::for_levels;
use super::math::exp_negative;
use super::sink::WIDTH;
use super::sums::joined;

/// What a row of scores folds into.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Folds {
    /// The largest score.
    pub(super) max: f32,
    /// The sum of the exponentials, zero where all scores are minus infinity.
    pub(super) sum: f32,
}

impl Folds {
    /// The logarithm of the sum of the exponentials of the scores.
    pub(super) fn log_sum(self) -> f32 {
        self.max + self.sum.ln()
    }

    /// What the exponentials become weights by; of a row without any, which are zeros, the weights are NaN unless they stay.
    pub(super) fn factor(self, inf_as_zero: bool) -> f32 {
        match self.sum {
            0.0 if inf_as_zero => 1.0,
            0.0 => f32::NAN,
            sum => 1.0 / sum,
        }
    }
}

for_levels! {
    /// Replaces each score by `e^(x - max)`. The rows of `length` scores lie `next` numbers apart, a multiple of [`WIDTH`]; what is between them
    /// changes.
    pub(super) fn exponentials(rows: &mut [f32], next: usize, length: usize, folds: &mut [Folds]) = fused exponentials_body
}

for_levels! {
    pub(super) fn scale_row(row: &mut [f32], factor: f32) = scale_row_body
}

#[inline(always)]
fn scale_row_body(row: &mut [f32], factor: f32) {
    for x in row.iter_mut() {
        *x *= factor;
    }
}

#[inline(always)]
fn exponentials_body<const FUSED: bool>(rows: &mut [f32], next: usize, length: usize, folds: &mut [Folds]) {
    // All maxima first: those of different rows do not wait for one another.
    for (row, folds) in rows.chunks_exact_mut(next).zip(&mut *folds) {
        row[length..].fill(f32::NEG_INFINITY);
        let mut lanes = [f32::NEG_INFINITY; WIDTH];
        for chunk in row.as_chunks::<WIDTH>().0 {
            for (lane, &x) in lanes.iter_mut().zip(chunk) {
                // NaN is left out, and found again among the exponentials.
                *lane = if x > *lane { x } else { *lane };
            }
        }
        folds.max = joined(lanes, |a, b| if b > a { b } else { a });
    }
    for (row, folds) in rows.chunks_exact_mut(next).zip(folds) {
        let max = folds.max;
        if max == f32::NEG_INFINITY && !row.iter().any(|x| x.is_nan()) {
            row.fill(0.0);
            folds.sum = 0.0;
            continue;
        }
        let mut lanes = [0.0; WIDTH];
        for chunk in row.as_chunks_mut::<WIDTH>().0 {
            for (x, lane) in chunk.iter_mut().zip(&mut lanes) {
                let e = exp_negative::<FUSED>(*x - max);
                *x = e;
                *lane += e;
            }
        }
        folds.sum = joined(lanes, |a, b| a + b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fast::level::Level;

    #[test]
    fn rows_of_every_length_become_exponentials_with_their_sums() {
        let next = 3 * WIDTH;
        for (length, &level) in
            [1, 2, 31, 32, 33, 70, 96].iter().flat_map(|l| Level::available().iter().map(move |v| (*l, v)))
        {
            let given: Vec<f32> = (0..2 * next).map(|i| ((i * 37) % 23) as f32 / 2.0 - 3.0).collect();
            let (mut made, mut folds) = (given.clone(), [Folds::default(); 2]);
            exponentials(level, &mut made, next, length, &mut folds);
            for ((given, made), folds) in given.chunks(next).zip(made.chunks(next)).zip(folds) {
                let given = &given[..length];
                let max = given.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
                let of = |x: &f32| f64::from(x - max).exp();
                let sum: f64 = given.iter().map(of).sum();
                assert_eq!(folds.max, max);
                assert!((f64::from(folds.sum) - sum).abs() <= 2e-6 * sum, "{length} at {level:?}");
                let log_sum = f64::from(max) + sum.ln();
                assert!((f64::from(folds.log_sum()) - log_sum).abs() <= 4e-6 * log_sum.abs().max(1.0));
                for (given, made) in given.iter().zip(made) {
                    assert!((f64::from(*made) - of(given)).abs() <= 4e-7, "{length} at {level:?}");
                }
            }
        }
    }

    #[test]
    fn nan_and_infinities_spread_as_in_a_softmax() {
        let (low, nan) = (f32::NEG_INFINITY, f32::NAN);
        for &level in Level::available() {
            let weights = |scores: [f32; 3], inf_as_zero: bool| {
                let (mut row, mut folds) = ([7.0; WIDTH], [Folds::default()]);
                row[..3].copy_from_slice(&scores);
                exponentials(level, &mut row, WIDTH, 3, &mut folds);
                scale_row(level, &mut row, folds[0].factor(inf_as_zero));
                (row[0], row[1], row[2], folds[0].log_sum())
            };
            assert_eq!(weights([0.0, low, 0.0], false), (0.5, 0.0, 0.5, 2.0_f32.ln()));
            assert_eq!(weights([low; 3], true), (0.0, 0.0, 0.0, low));
            let all_nan = |(a, b, c, _): (f32, f32, f32, f32)| a.is_nan() && b.is_nan() && c.is_nan();
            assert!(all_nan(weights([low; 3], false)));
            for scores in [[nan, 1.0, 2.0], [1.0, nan, low], [low, low, nan], [1.0, f32::INFINITY, 2.0]] {
                assert!(all_nan(weights(scores, true)), "{scores:?}");
            }
        }
    }
}
