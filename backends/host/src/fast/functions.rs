//! Functions of one and of two elements, vectors at a time.

use anydnn_backend::{BinaryAlgorithm, Eltwise};

use super::level::{Level, for_levels};
use super::math::{clamp, erfc, exp, expm1_negative, log, sigmoid, soft_plus, tanh, tanh_of_soft_plus};
use crate::compute::Real;

/// `x = f(x)` for each element.
pub(super) fn eltwise(level: Level, function: Eltwise, values: &mut [f32]) {
    if is_vectorised(function) { vectorised(level, function, values) } else { function.apply(values) }
}

/// `a = a op b` for each pair, `b op a` when reversed; a single `b` meets every `a`.
pub(super) fn binary(level: Level, algorithm: BinaryAlgorithm, a: &mut [f32], b: &[f32], reversed: bool) {
    if let [b] = *b {
        return with_one(level, algorithm, a, b, reversed);
    }
    with_all(level, algorithm, a, b, reversed);
}

for_levels! {
    fn vectorised(function: Eltwise, values: &mut [f32]) = fused eltwise_body
}

/// `to = f(from)` for each element.
pub(super) fn eltwise_of(level: Level, function: Eltwise, from: &[f32], to: &mut [f32]) {
    if is_vectorised(function) {
        vectorised_of(level, function, from, to);
    } else {
        to.copy_from_slice(from);
        function.apply(to);
    }
}

for_levels! {
    fn vectorised_of(function: Eltwise, from: &[f32], to: &mut [f32]) = fused eltwise_of_body
}

for_levels! {
    fn with_all(algorithm: BinaryAlgorithm, a: &mut [f32], b: &[f32], reversed: bool) = binary_body
}

for_levels! {
    fn with_one(algorithm: BinaryAlgorithm, a: &mut [f32], b: f32, reversed: bool) = binary_with_one_body
}

for_levels! {
    /// Adds a row to rows that are `stride` apart.
    pub(super) fn add_to_rows(row: &[f32], to: &mut [f32], stride: usize) = add_to_rows_body
}

#[inline(always)]
fn add_to_rows_body(row: &[f32], to: &mut [f32], stride: usize) {
    for to in to.chunks_mut(stride) {
        to.iter_mut().zip(row).for_each(|(to, &value)| *to += value);
    }
}

/// `to = a op b` for each pair.
pub(super) fn binary_of(level: Level, algorithm: BinaryAlgorithm, a: &[f32], b: &[f32], to: &mut [f32]) {
    if matches!(
        algorithm,
        BinaryAlgorithm::Add
            | BinaryAlgorithm::Multiply
            | BinaryAlgorithm::Subtract
            | BinaryAlgorithm::Divide
            | BinaryAlgorithm::Maximum
            | BinaryAlgorithm::Minimum
    ) {
        return of_both(level, algorithm, a, b, to);
    }
    to.copy_from_slice(a);
    with_all(level, algorithm, to, b, false);
}

for_levels! {
    fn of_both(algorithm: BinaryAlgorithm, a: &[f32], b: &[f32], to: &mut [f32]) = of_both_body
}

#[inline(always)]
fn of_both_body(algorithm: BinaryAlgorithm, a: &[f32], b: &[f32], to: &mut [f32]) {
    match algorithm {
        BinaryAlgorithm::Add => pairs_of(a, b, to, |a, b| a + b),
        BinaryAlgorithm::Multiply => pairs_of(a, b, to, |a, b| a * b),
        BinaryAlgorithm::Subtract => pairs_of(a, b, to, |a, b| a - b),
        BinaryAlgorithm::Divide => pairs_of(a, b, to, |a, b| a / b),
        BinaryAlgorithm::Maximum => pairs_of(a, b, to, larger),
        _ => pairs_of(a, b, to, smaller),
    }
}

for_levels! {
    /// `to = condition ? a : b` for each element.
    pub(super) fn select(condition: &[f32], a: &[f32], b: &[f32], to: &mut [f32]) = select_body
}

#[inline(always)]
fn select_body(condition: &[f32], a: &[f32], b: &[f32], to: &mut [f32]) {
    for (((to, &condition), &a), &b) in to.iter_mut().zip(condition).zip(a).zip(b) {
        *to = if condition == 0.0 { b } else { a };
    }
}

#[inline(always)]
fn pairs_of(a: &[f32], b: &[f32], to: &mut [f32], f: impl Fn(f32, f32) -> f32) {
    for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
        *to = f(a, b);
    }
}

/// Whether there is a formula of vectors.
fn is_vectorised(function: Eltwise) -> bool {
    match function {
        Eltwise::Abs
        | Eltwise::Ceil
        | Eltwise::Clamp { .. }
        | Eltwise::Elu { .. }
        | Eltwise::Exp
        | Eltwise::Floor
        | Eltwise::GeluErf
        | Eltwise::GeluTanh
        | Eltwise::HardSigmoid { .. }
        | Eltwise::HardSwish { .. }
        | Eltwise::LeakyRelu { .. }
        | Eltwise::Linear { .. }
        | Eltwise::Log
        | Eltwise::Mish
        | Eltwise::Reciprocal
        | Eltwise::Relu
        | Eltwise::Round
        | Eltwise::Sigmoid
        | Eltwise::Sign
        | Eltwise::SoftPlus { .. }
        | Eltwise::Sqrt
        | Eltwise::Square
        | Eltwise::Swish { .. }
        | Eltwise::Tanh
        | Eltwise::Truncate => true,
        Eltwise::Pow { beta, .. } => [2.0, 3.0, 1.0, -1.0].contains(&beta),
        _ => false,
    }
}

/// Elements that become what a function gives for them.
trait Elements {
    fn each(self, f: impl Fn(f32) -> f32);
}

impl Elements for &mut [f32] {
    #[inline(always)]
    fn each(self, f: impl Fn(f32) -> f32) {
        each(self, f);
    }
}

/// Of the first ones to the others.
struct FromTo<'a>(&'a [f32], &'a mut [f32]);

impl Elements for FromTo<'_> {
    #[inline(always)]
    fn each(self, f: impl Fn(f32) -> f32) {
        for (to, &x) in self.1.iter_mut().zip(self.0) {
            *to = f(x);
        }
    }
}

#[inline(always)]
fn eltwise_body<const FUSED: bool>(function: Eltwise, values: &mut [f32]) {
    applied::<FUSED>(function, values);
}

#[inline(always)]
fn eltwise_of_body<const FUSED: bool>(function: Eltwise, from: &[f32], to: &mut [f32]) {
    applied::<FUSED>(function, FromTo(from, to));
}

#[inline(always)]
fn applied<const FUSED: bool>(function: Eltwise, values: impl Elements) {
    match function {
        Eltwise::Abs => values.each(f32::abs),
        Eltwise::Ceil => values.each(f32::ceil),
        Eltwise::Clamp { min, max } => values.each(|x| clamp(x, min, max)),
        Eltwise::Elu { alpha } => {
            // The polynomial is for arguments of one sign.
            values.each(|x| {
                if x > 0.0 { x } else { alpha * expm1_negative::<FUSED>(if x > 0.0 { 0.0 } else { x }) }
            });
        }
        Eltwise::Exp => values.each(exp::<FUSED>),
        Eltwise::Floor => values.each(f32::floor),
        // The complementary function keeps the digits that 1 + erf loses for negative x.
        Eltwise::GeluErf => values.each(|x| 0.5 * x * erfc::<FUSED>(x * -std::f32::consts::FRAC_1_SQRT_2)),
        // 1 + tanh(u) is twice the logistic function of 2u.
        Eltwise::GeluTanh => {
            values.each(|x| x / (1.0 + exp::<FUSED>(-1.595_769_2 * (x + 0.044_715 * x * x * x))));
        }
        Eltwise::HardSigmoid { alpha, beta } => values.each(|x| clamp(alpha * x + beta, 0.0, 1.0)),
        Eltwise::HardSwish { alpha, beta } => values.each(|x| x * clamp(alpha * x + beta, 0.0, 1.0)),
        Eltwise::LeakyRelu { alpha } => values.each(|x| if x > 0.0 { x } else { alpha * x }),
        Eltwise::Linear { alpha, beta } => values.each(|x| alpha * x + beta),
        Eltwise::Log => values.each(log::<FUSED>),
        Eltwise::Mish => values.each(|x| x * tanh_of_soft_plus::<FUSED>(x)),
        Eltwise::Pow { alpha, beta: 2.0 } => values.each(|x| alpha * (x * x)),
        Eltwise::Pow { alpha, beta: 3.0 } => values.each(|x| alpha * (x * x * x)),
        Eltwise::Pow { alpha, beta: 1.0 } => values.each(|x| alpha * x),
        Eltwise::Pow { alpha, beta: -1.0 } => values.each(|x| alpha / x),
        Eltwise::Reciprocal => values.each(|x| 1.0 / x),
        Eltwise::Relu => values.each(|x| if x < 0.0 { 0.0 } else { x }),
        Eltwise::Round => values.each(f32::round_ties_even),
        Eltwise::Sigmoid => values.each(sigmoid::<FUSED>),
        Eltwise::Sign => {
            values.each(|x| {
                if x > 0.0 {
                    1.0
                } else if x < 0.0 {
                    -1.0
                } else {
                    x
                }
            });
        }
        Eltwise::SoftPlus { beta } => values.each(|x| soft_plus::<FUSED>(beta * x) / beta),
        Eltwise::Sqrt => values.each(f32::sqrt),
        Eltwise::Square => values.each(|x| x * x),
        Eltwise::Swish { alpha } => values.each(|x| x / (1.0 + exp::<FUSED>(-alpha * x))),
        Eltwise::Tanh => values.each(tanh::<FUSED>),
        Eltwise::Truncate => values.each(f32::trunc),
        _ => {}
    }
}

#[inline(always)]
fn each(values: &mut [f32], f: impl Fn(f32) -> f32) {
    for value in values {
        *value = f(*value);
    }
}

#[expect(clippy::float_cmp, reason = "equality of elements is exact by definition")]
#[inline(always)]
fn binary_body(algorithm: BinaryAlgorithm, a: &mut [f32], b: &[f32], reversed: bool) {
    match algorithm {
        BinaryAlgorithm::Add => pairs(a, b, |a, b| a + b),
        BinaryAlgorithm::Multiply => pairs(a, b, |a, b| a * b),
        BinaryAlgorithm::Subtract if reversed => pairs(a, b, |a, b| b - a),
        BinaryAlgorithm::Subtract => pairs(a, b, |a, b| a - b),
        BinaryAlgorithm::Divide if reversed => pairs(a, b, |a, b| b / a),
        BinaryAlgorithm::Divide => pairs(a, b, |a, b| a / b),
        BinaryAlgorithm::SquaredDifference => pairs(a, b, |a, b| (a - b) * (a - b)),
        BinaryAlgorithm::Maximum => pairs(a, b, larger),
        BinaryAlgorithm::Minimum => pairs(a, b, smaller),
        BinaryAlgorithm::GreaterEqual if !reversed => pairs(a, b, |a, b| truth(a >= b)),
        BinaryAlgorithm::Greater if !reversed => pairs(a, b, |a, b| truth(a > b)),
        BinaryAlgorithm::LessEqual if !reversed => pairs(a, b, |a, b| truth(a <= b)),
        BinaryAlgorithm::Less if !reversed => pairs(a, b, |a, b| truth(a < b)),
        BinaryAlgorithm::Equal => pairs(a, b, |a, b| truth(a == b)),
        BinaryAlgorithm::NotEqual => pairs(a, b, |a, b| truth(a != b)),
        BinaryAlgorithm::And => pairs(a, b, |a, b| truth(a != 0.0 && b != 0.0)),
        BinaryAlgorithm::Or => pairs(a, b, |a, b| truth(a != 0.0 || b != 0.0)),
        BinaryAlgorithm::Xor => pairs(a, b, |a, b| truth((a != 0.0) != (b != 0.0))),
        other => f32::binary(other, a, b, reversed),
    }
}

#[inline(always)]
fn binary_with_one_body(algorithm: BinaryAlgorithm, a: &mut [f32], b: f32, reversed: bool) {
    match algorithm {
        BinaryAlgorithm::Add => each(a, |a| a + b),
        BinaryAlgorithm::Multiply => each(a, |a| a * b),
        BinaryAlgorithm::Subtract if reversed => each(a, |a| b - a),
        BinaryAlgorithm::Subtract => each(a, |a| a - b),
        BinaryAlgorithm::Divide if reversed => each(a, |a| b / a),
        BinaryAlgorithm::Divide => each(a, |a| a / b),
        BinaryAlgorithm::SquaredDifference => each(a, |a| (a - b) * (a - b)),
        BinaryAlgorithm::Maximum => each(a, |a| larger(a, b)),
        BinaryAlgorithm::Minimum => each(a, |a| smaller(a, b)),
        other => {
            let b = [b; 64];
            for a in a.chunks_mut(b.len()) {
                binary_body(other, a, &b[..a.len()], reversed);
            }
        }
    }
}

#[inline(always)]
fn pairs(a: &mut [f32], b: &[f32], f: impl Fn(f32, f32) -> f32) {
    for (a, &b) in a.iter_mut().zip(b) {
        *a = f(*a, b);
    }
}

// A comparison with NaN is false, which keeps the NaN of either side.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

#[inline(always)]
fn smaller(a: f32, b: f32) -> f32 {
    if a < b || a.is_nan() { a } else { b }
}

#[inline(always)]
fn truth(value: bool) -> f32 {
    if value { 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use anydnn_backend::op::Domain;

    use super::*;

    /// Numbers around zero with the ends, more than two vectors and not a multiple of one.
    fn arguments() -> Vec<f32> {
        let mut all: Vec<f32> = (-40..=41).map(|i| i as f32 / 4.0).collect();
        all.extend([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 90.0, -90.0]);
        all
    }

    #[test]
    fn functions_meet_their_definitions_at_every_level() {
        for row in Eltwise::TABLE {
            let function = row.example;
            let within = |x: &f32| match row.domain {
                Domain::Between(low, high) if (low, high) != (-6.0, 6.0) => {
                    f64::from(*x) >= low && f64::from(*x) <= high
                }
                Domain::AwayFromZero(low, _) => f64::from(x.abs()) >= low,
                _ => true,
            };
            let given: Vec<f32> = arguments().into_iter().filter(within).collect();
            for &level in Level::available() {
                let mut made = given.clone();
                eltwise(level, function, &mut made);
                for (x, made) in given.iter().zip(made) {
                    let expected = function.reference(f64::from(*x)) as f32;
                    let is_near = (made - expected).abs() <= 2e-6 * expected.abs().max(1.0);
                    let is_same = made == expected || (made.is_nan() && expected.is_nan());
                    assert!(is_near || is_same, "{function:?} of {x} at {level:?}: {made}, not {expected}");
                }
            }
        }
    }

    #[test]
    fn functions_of_two_meet_the_plain_ones_at_every_level() {
        let given = arguments();
        let other: Vec<f32> = given.iter().rev().copied().collect();
        for (algorithm, reversed) in BinaryAlgorithm::ALL.into_iter().flat_map(|a| [(a, false), (a, true)]) {
            for &level in Level::available() {
                let same =
                    |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()));
                let (mut made, mut expected) = (given.clone(), given.clone());
                binary(level, algorithm, &mut made, &other, reversed);
                f32::binary(algorithm, &mut expected, &other, reversed);
                assert!(same(&made, &expected), "{algorithm:?} at {level:?}");
                if !reversed {
                    binary_of(level, algorithm, &given, &other, &mut made);
                    assert!(same(&made, &expected), "{algorithm:?} of both at {level:?}");
                }
                let (mut made, mut expected) = (given.clone(), given.clone());
                binary(level, algorithm, &mut made, &[0.75], reversed);
                f32::binary(algorithm, &mut expected, &vec![0.75; given.len()], reversed);
                assert!(same(&made, &expected), "{algorithm:?} with one at {level:?}");
            }
        }
    }
}
