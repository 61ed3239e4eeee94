//! Softmax and layer normalisation of short rows: a row is some vectors in registers, and what they have beyond its end changes nothing.

use anydnn_backend::op::Softmax;

use super::level::for_levels;
use super::math::exp_negative;
use super::sums::joined;

/// The longest of short rows.
pub(super) const SHORTEST: usize = 128;

/// What rows are normalised by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Normalization<'a> {
    /// Whether the mean counts as zero.
    pub(super) rms: bool,
    pub(super) epsilon: f32,
    /// As long as a row.
    pub(super) scale: Option<&'a [f32]>,
    pub(super) shift: Option<&'a [f32]>,
}

/// Rows of `length` elements, the first of each `next` elements behind that of the one before. The last one may end where the rows end.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortRows<'a> {
    pub(super) data: &'a [f32],
    pub(super) next: usize,
    pub(super) length: usize,
    pub(super) count: usize,
}

for_levels! {
    /// Softmax of each row. The results lie one behind the other.
    pub(super) fn softmax(op: Softmax, rows: ShortRows<'_>, to: &mut [f32]) = fused softmax_body
}

for_levels! {
    /// Layer normalisation of each row; results as of [`softmax`].
    pub(super) fn normalize(by: Normalization<'_>, rows: ShortRows<'_>, to: &mut [f32]) = normalize_body
}

/// Calls a function with the numbers of a row's vectors as a constant.
macro_rules! by_vectors {
    ($length:expr, |$padded:ident| $call:expr) => {
        by_vectors!(@each $length, $padded, $call, 4 8 16 32 64 96)
    };
    (@each $length:expr, $padded:ident, $call:expr, $($count:literal)+) => {
        match $length {
            $(..=$count => {
                const $padded: usize = $count;
                $call
            })+
            _ => {
                const $padded: usize = SHORTEST;
                $call
            }
        }
    };
}

/// What is done to a row. A method, as closures of this length are not compiled into their caller.
trait Work<const PADDED: usize> {
    fn row(&self, x: [f32; PADDED]) -> [f32; PADDED];
}

struct SoftmaxOf<const FUSED: bool>(Softmax);

impl<const FUSED: bool, const PADDED: usize> Work<PADDED> for SoftmaxOf<FUSED> {
    #[inline(always)]
    fn row(&self, x: [f32; PADDED]) -> [f32; PADDED] {
        softmax_row::<FUSED, PADDED>(self.0, x)
    }
}

struct Normalized<const PADDED: usize> {
    rms: bool,
    epsilon: f32,
    length: usize,
    scale: [f32; PADDED],
    shift: [f32; PADDED],
}

impl<const PADDED: usize> Work<PADDED> for Normalized<PADDED> {
    #[inline(always)]
    fn row(&self, x: [f32; PADDED]) -> [f32; PADDED] {
        normalize_row(self, x)
    }
}

#[inline(always)]
fn softmax_body<const FUSED: bool>(op: Softmax, rows: ShortRows<'_>, to: &mut [f32]) {
    by_vectors!(rows.length, |PADDED| each_row::<PADDED>(
        rows,
        f32::NEG_INFINITY,
        to,
        &SoftmaxOf::<FUSED>(op)
    ));
}

#[inline(always)]
fn normalize_body(by: Normalization<'_>, rows: ShortRows<'_>, to: &mut [f32]) {
    by_vectors!(rows.length, |PADDED| {
        let mut own = Normalized {
            rms: by.rms,
            epsilon: by.epsilon,
            length: rows.length,
            scale: [1.0; PADDED],
            shift: [0.0; PADDED],
        };
        if let Some(scale) = by.scale {
            own.scale[..rows.length].copy_from_slice(scale);
        }
        if let Some(shift) = by.shift {
            own.shift[..rows.length].copy_from_slice(shift);
        }
        each_row::<PADDED>(rows, 0.0, to, &own);
    });
}

/// Computes every row from its elements, behind which `neutral` ones stand.
#[inline(always)]
fn each_row<const PADDED: usize>(
    rows: ShortRows<'_>,
    neutral: f32,
    to: &mut [f32],
    work: &impl Work<PADDED>,
) {
    for number in 0..rows.count {
        let from = &rows.data[number * rows.next..];
        let given = if let Some(whole) = from.first_chunk::<PADDED>() {
            *whole
        } else {
            let mut given = [neutral; PADDED];
            given[..rows.length].copy_from_slice(&from[..rows.length]);
            given
        };
        let made = work.row(masked(given, rows.length, neutral));
        let to = &mut to[number * rows.length..];
        // What lies beyond the row is overwritten by the next one.
        match to.first_chunk_mut::<PADDED>() {
            Some(to) => *to = made,
            None => to[..rows.length].copy_from_slice(&made[..rows.length]),
        }
    }
}

#[inline(always)]
fn masked<const PADDED: usize>(mut x: [f32; PADDED], length: usize, neutral: f32) -> [f32; PADDED] {
    let length = length as u32;
    for (i, x) in x.iter_mut().enumerate() {
        *x = if (i as u32) < length { *x } else { neutral };
    }
    x
}

/// Numbers in one, by vectors and then by halves.
#[inline(always)]
fn folded<const PADDED: usize>(x: &[f32; PADDED], start: f32, join: impl Fn(f32, f32) -> f32) -> f32 {
    if PADDED < 16 {
        return joined(*x, join);
    }
    let mut lanes = [start; 16];
    for chunk in x.as_chunks::<16>().0 {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = join(*lane, x);
        }
    }
    joined(lanes, join)
}

#[inline(always)]
fn softmax_row<const FUSED: bool, const PADDED: usize>(op: Softmax, mut x: [f32; PADDED]) -> [f32; PADDED] {
    // Without NaN, whose exponential is one: the compiler makes no single instruction of a maximum that keeps it.
    let max = folded(&x, f32::NEG_INFINITY, |a, b| if b > a { b } else { a });
    if op.inf_as_zero && max == f32::NEG_INFINITY && !x.iter().any(|x| x.is_nan()) {
        return [0.0; PADDED];
    }
    if op.log {
        let mut exponentials = x;
        for x in &mut exponentials {
            *x = exp_negative::<FUSED>(*x - max);
        }
        let log_sum = folded(&exponentials, 0.0, |a, b| a + b).ln();
        for x in &mut x {
            *x = (*x - max) - log_sum;
        }
        return x;
    }
    for x in &mut x {
        *x = exp_negative::<FUSED>(*x - max);
    }
    let factor = 1.0 / folded(&x, 0.0, |a, b| a + b);
    for x in &mut x {
        *x *= factor;
    }
    x
}

#[inline(always)]
fn normalize_row<const PADDED: usize>(by: &Normalized<PADDED>, mut x: [f32; PADDED]) -> [f32; PADDED] {
    let count = by.length as f32;
    let mean = if by.rms { 0.0 } else { folded(&x, 0.0, |a, b| a + b) / count };
    for x in &mut x {
        *x -= mean;
    }
    let mut squares = masked(x, by.length, 0.0);
    for x in &mut squares {
        *x *= *x;
    }
    let inverse = 1.0 / (folded(&squares, 0.0, |a, b| a + b) / count + by.epsilon).sqrt();
    for ((x, scale), shift) in x.iter_mut().zip(&by.scale).zip(&by.shift) {
        *x = *x * inverse * scale + shift;
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fast::level::Level;

    /// Some rows with gaps of NaN between them, and their elements in f64.
    fn rows(length: usize, next: usize, count: usize) -> (Vec<f32>, Vec<Vec<f64>>) {
        let mut data = vec![f32::NAN; (count - 1) * next + length];
        let mut plain = Vec::new();
        for row in 0..count {
            let own = &mut data[row * next..][..length];
            own.iter_mut().enumerate().for_each(|(i, x)| *x = ((i * 37 + row * 11) % 23) as f32 / 4.0 - 2.0);
            plain.push(own.iter().map(|&x| f64::from(x)).collect());
        }
        (data, plain)
    }

    fn assert_near(made: &[f32], expected: impl Iterator<Item = f64>, what: &str) {
        for (made, expected) in made.iter().zip(expected) {
            assert!((f64::from(*made) - expected).abs() <= 2e-6 * expected.abs().max(1.0), "{what}: {made}");
        }
    }

    #[test]
    fn short_rows_meet_the_definitions_at_every_length_and_level() {
        let count = 3;
        for (length, gap, &level) in (1..=SHORTEST)
            .flat_map(|length| [(length, 0), (length, 5)])
            .flat_map(|(length, gap)| Level::available().iter().map(move |level| (length, gap, level)))
        {
            let (data, plain) = rows(length, length + gap, count);
            let given = ShortRows { data: &data, next: length + gap, length, count };
            let mut made = vec![0.0; count * length];
            let what = format!("{length} with gaps of {gap} at {level:?}");
            for log in [false, true] {
                softmax(level, Softmax { axis: 1, log, inf_as_zero: false }, given, &mut made);
                for (row, made) in plain.iter().zip(made.chunks(length)) {
                    let sum: f64 = row.iter().map(|x| x.exp()).sum();
                    let of = |x: &f64| if log { x - sum.ln() } else { x.exp() / sum };
                    assert_near(made, row.iter().map(of), &what);
                }
            }
            let scale: Vec<f32> = (0..length).map(|i| i as f32 / 8.0).collect();
            let by = Normalization { rms: gap > 0, epsilon: 1e-3, scale: Some(&scale), shift: None };
            normalize(level, by, given, &mut made);
            for (row, made) in plain.iter().zip(made.chunks(length)) {
                let mean = if by.rms { 0.0 } else { row.iter().sum::<f64>() / length as f64 };
                let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / length as f64;
                let of = |(x, scale): (&f64, &f32)| {
                    (x - mean) / (variance + f64::from(by.epsilon)).sqrt() * f64::from(*scale)
                };
                assert_near(made, row.iter().zip(&scale).map(of), &what);
            }
        }
    }

    #[test]
    fn rows_without_a_finite_element_are_nan_or_zero() {
        for &level in Level::available() {
            let data = [f32::NEG_INFINITY; 6];
            let rows = ShortRows { data: &data, next: 3, length: 3, count: 2 };
            let mut made = [1.0; 6];
            softmax(level, Softmax { axis: 1, log: false, inf_as_zero: false }, rows, &mut made);
            assert!(made.iter().all(|x| x.is_nan()));
            softmax(level, Softmax { axis: 1, log: false, inf_as_zero: true }, rows, &mut made);
            assert_eq!(made, [0.0; 6]);
        }
    }
}
