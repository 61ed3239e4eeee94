//! The types that kernels compute in.

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Mul};

use anydnn_backend::{BinaryAlgorithm, DataType, Eltwise};
use bytemuck::Pod;

/// A type that dense working tensors have: conversions from and to every storage type.
pub(crate) trait Element: Pod + Debug + PartialEq + Send + Sync {
    /// The storage type with the same representation.
    const DATA_TYPE: DataType;
    const ZERO: Self;

    fn from_f32(value: f32) -> Self;
    fn from_f64(value: f64) -> Self;
    fn from_i32(value: i32) -> Self;
    fn from_i64(value: i64) -> Self;
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;
    /// The nearest integer, ties to even, saturated; NaN becomes zero.
    fn to_i32(self) -> i32;
    /// As [`Element::to_i32`].
    fn to_i64(self) -> i64;

    /// Whether the value is true: anything but zero.
    fn is_nonzero(self) -> bool {
        self != Self::ZERO
    }

    /// The value in f32 on the way to a narrower float. It is rounded such that rounding once more gives the nearest narrow value.
    fn to_f32_for_narrowing(self) -> f32 {
        self.to_f32()
    }
}

/// A type with elementwise arithmetic.
pub(crate) trait Real: Element {
    /// `x = f(x)` for each element.
    fn eltwise(function: Eltwise, values: &mut [Self]);

    /// `a = a op b` for each pair, `b op a` when reversed.
    fn binary(algorithm: BinaryAlgorithm, a: &mut [Self], b: &[Self], reversed: bool);
}

/// A type with sums of products and everything built on them.
pub(crate) trait Float:
    Real + PartialOrd + Add<Output = Self> + Mul<Output = Self> + AddAssign
{
    const ONE: Self;
}

impl Element for f32 {
    const DATA_TYPE: DataType = DataType::F32;
    const ZERO: Self = 0.0;

    fn from_f32(value: f32) -> Self {
        value
    }

    fn from_f64(value: f64) -> Self {
        value as Self
    }

    fn from_i32(value: i32) -> Self {
        value as Self
    }

    fn from_i64(value: i64) -> Self {
        value as Self
    }

    fn to_f32(self) -> f32 {
        self
    }

    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    fn to_i32(self) -> i32 {
        // Adding 1.5 * 2^23 leaves no fraction bits, so the addition itself rounds; much faster than a call where the instruction
        // is missing.
        const SHIFT: f32 = 12_582_912.0;
        if self.abs() < 4_194_304.0 { ((self + SHIFT) - SHIFT) as i32 } else { self.round_ties_even() as i32 }
    }

    fn to_i64(self) -> i64 {
        self.round_ties_even() as i64
    }
}

impl Element for f64 {
    const DATA_TYPE: DataType = DataType::F64;
    const ZERO: Self = 0.0;

    fn from_f32(value: f32) -> Self {
        Self::from(value)
    }

    fn from_f64(value: f64) -> Self {
        value
    }

    fn from_i32(value: i32) -> Self {
        Self::from(value)
    }

    fn from_i64(value: i64) -> Self {
        value as Self
    }

    fn to_f32(self) -> f32 {
        self as f32
    }

    fn to_f64(self) -> f64 {
        self
    }

    fn to_i32(self) -> i32 {
        self.round_ties_even() as i32
    }

    fn to_i64(self) -> i64 {
        self.round_ties_even() as i64
    }

    fn to_f32_for_narrowing(self) -> f32 {
        round_to_odd(self)
    }
}

impl Element for i64 {
    const DATA_TYPE: DataType = DataType::S64;
    const ZERO: Self = 0;

    fn from_f32(value: f32) -> Self {
        value.to_i64()
    }

    fn from_f64(value: f64) -> Self {
        value.to_i64()
    }

    fn from_i32(value: i32) -> Self {
        Self::from(value)
    }

    fn from_i64(value: i64) -> Self {
        value
    }

    fn to_f32(self) -> f32 {
        self as f32
    }

    fn to_f64(self) -> f64 {
        self as f64
    }

    fn to_i32(self) -> i32 {
        self.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
    }

    fn to_i64(self) -> i64 {
        self
    }
}

impl Real for f32 {
    fn eltwise(function: Eltwise, values: &mut [Self]) {
        function.apply(values);
    }

    fn binary(algorithm: BinaryAlgorithm, a: &mut [Self], b: &[Self], reversed: bool) {
        match algorithm {
            BinaryAlgorithm::Add => zip(a, b, reversed, |a, b| a + b),
            BinaryAlgorithm::Subtract => zip(a, b, reversed, |a, b| a - b),
            BinaryAlgorithm::Multiply => zip(a, b, reversed, |a, b| a * b),
            BinaryAlgorithm::Divide => zip(a, b, reversed, |a, b| a / b),
            BinaryAlgorithm::SquaredDifference => zip(a, b, reversed, |a, b| (a - b) * (a - b)),
            // A comparison with NaN is false, which keeps the NaN of either side.
            BinaryAlgorithm::Maximum => zip(a, b, reversed, |a, b| if a > b || a.is_nan() { a } else { b }),
            BinaryAlgorithm::Minimum => zip(a, b, reversed, |a, b| if a < b || a.is_nan() { a } else { b }),
            other => {
                zip(a, b, reversed, |a, b| other.reference(f64::from(a), f64::from(b)) as f32);
            }
        }
    }
}

impl Real for f64 {
    fn eltwise(function: Eltwise, values: &mut [Self]) {
        for value in values {
            *value = function.reference(*value);
        }
    }

    fn binary(algorithm: BinaryAlgorithm, a: &mut [Self], b: &[Self], reversed: bool) {
        zip(a, b, reversed, |a, b| algorithm.reference(a, b));
    }
}

impl Real for i64 {
    fn eltwise(function: Eltwise, values: &mut [Self]) {
        for value in values {
            *value = function.reference(value.to_f64()).to_i64();
        }
    }

    fn binary(algorithm: BinaryAlgorithm, a: &mut [Self], b: &[Self], reversed: bool) {
        match algorithm {
            BinaryAlgorithm::Add => zip(a, b, reversed, i64::saturating_add),
            BinaryAlgorithm::Subtract => zip(a, b, reversed, i64::saturating_sub),
            BinaryAlgorithm::Multiply => zip(a, b, reversed, i64::saturating_mul),
            BinaryAlgorithm::Maximum => zip(a, b, reversed, i64::max),
            BinaryAlgorithm::Minimum => zip(a, b, reversed, i64::min),
            BinaryAlgorithm::GreaterEqual => zip(a, b, reversed, |a, b| i64::from(a >= b)),
            BinaryAlgorithm::Greater => zip(a, b, reversed, |a, b| i64::from(a > b)),
            BinaryAlgorithm::LessEqual => zip(a, b, reversed, |a, b| i64::from(a <= b)),
            BinaryAlgorithm::Less => zip(a, b, reversed, |a, b| i64::from(a < b)),
            BinaryAlgorithm::Equal => zip(a, b, reversed, |a, b| i64::from(a == b)),
            BinaryAlgorithm::NotEqual => zip(a, b, reversed, |a, b| i64::from(a != b)),
            BinaryAlgorithm::Quotient => {
                zip(a, b, reversed, |a, b| if b == 0 { 0 } else { a.saturating_div(b) });
            }
            BinaryAlgorithm::Remainder => zip(a, b, reversed, remainder),
            BinaryAlgorithm::Modulo => zip(a, b, reversed, |a, b| {
                let rest = remainder(a, b);
                if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
            }),
            BinaryAlgorithm::And => zip(a, b, reversed, |a, b| i64::from(a != 0 && b != 0)),
            BinaryAlgorithm::Or => zip(a, b, reversed, |a, b| i64::from(a != 0 || b != 0)),
            BinaryAlgorithm::Xor => zip(a, b, reversed, |a, b| i64::from((a != 0) != (b != 0))),
            other => zip(a, b, reversed, |a, b| other.reference(a as f64, b as f64).to_i64()),
        }
    }
}

impl Float for f32 {
    const ONE: Self = 1.0;
}

impl Float for f64 {
    const ONE: Self = 1.0;
}

/// What a division towards zero leaves; nothing of a division by zero.
fn remainder(a: i64, b: i64) -> i64 {
    if b == 0 { 0 } else { a.wrapping_rem(b) }
}

fn zip<T: Copy>(a: &mut [T], b: &[T], reversed: bool, f: impl Fn(T, T) -> T) {
    if reversed {
        a.iter_mut().zip(b).for_each(|(a, &b)| *a = f(b, *a));
    } else {
        a.iter_mut().zip(b).for_each(|(a, &b)| *a = f(*a, b));
    }
}

/// Rounds to f32 such that a second rounding to a type at least two bits narrower is correct: an inexact result gets an odd last bit
/// (Boldo and Melquiond, *Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd*, 2008).
fn round_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let error = value - f64::from(nearest);
    if error == 0.0 || !error.is_finite() || nearest.to_bits() & 1 == 1 {
        return nearest;
    }
    if error > 0.0 { nearest.next_up() } else { nearest.next_down() }
}

#[cfg(test)]
mod tests {
    use anydnn_backend::{DataType, TensorValues};
    use approx::abs_diff_eq;

    use super::*;

    #[test]
    fn integers_round_to_even_and_saturate() {
        for (value, expected) in [
            (0.5_f32, 0),
            (1.5, 2),
            (2.5, 2),
            (-0.5, 0),
            (-1.5, -2),
            (-2.5, -2),
            (4_194_303.5, 4_194_304),
            (4_194_304.5, 4_194_304),
            (3e9, i32::MAX),
            (-3e9, i32::MIN),
            (f32::INFINITY, i32::MAX),
            (f32::NAN, 0),
        ] {
            assert_eq!(value.to_i32(), expected, "{value}");
            assert_eq!(f64::from(value).to_i32(), expected, "{value}");
        }
        assert_eq!((i64::from(i32::MAX) + 1).to_i32(), i32::MAX);
    }

    #[test]
    fn narrowing_from_f64_rounds_once() {
        // Just above the middle between two f16 values: rounding to f32 first would land on the middle, and then on the even one.
        let above_middle = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        let narrow = half::f16::from_f32(above_middle.to_f32_for_narrowing());
        assert_eq!(narrow.to_bits(), half::f16::ONE.to_bits() + 1);
        assert_eq!(half::f16::from_f32((1.0 + 2f64.powi(-11)).to_f32_for_narrowing()), half::f16::ONE);
        assert!(f64::NAN.to_f32_for_narrowing().is_nan());
        assert!(f64::INFINITY.to_f32_for_narrowing().is_infinite());
    }

    #[test]
    fn arithmetic_meets_the_definition() {
        let pairs = [(3.0, 2.0), (-1.5, 2.0), (2.0, 2.0), (0.0, -4.0), (f64::NAN, 1.0), (1.0, f64::NAN)];
        for algorithm in BinaryAlgorithm::ALL {
            for reversed in [false, true] {
                let reference =
                    |(a, b)| if reversed { algorithm.reference(b, a) } else { algorithm.reference(a, b) };
                let narrow = pairs.map(|(a, b)| {
                    let mut made = [a as f32];
                    f32::binary(algorithm, &mut made, &[b as f32], reversed);
                    made[0]
                });
                let wide = pairs.map(|(a, b)| {
                    let mut made = [a];
                    f64::binary(algorithm, &mut made, &[b], reversed);
                    made[0]
                });
                let expected = TensorValues::list(DataType::F64, pairs.map(reference));
                let made =
                    [TensorValues::list(DataType::F32, narrow), TensorValues::list(DataType::F64, wide)];
                for made in made {
                    let close = abs_diff_eq!(made, expected, epsilon = 1e-6);
                    assert!(close, "{algorithm:?}, reversed {reversed}: {made:?} instead of {expected:?}");
                }
            }
        }
    }

    #[test]
    fn long_integers_stay_exact() {
        let big = (1_i64 << 53) + 1;
        let mut sum = [big];
        i64::binary(BinaryAlgorithm::Add, &mut sum, &[0], false);
        assert_eq!(sum, [big]);
        i64::binary(BinaryAlgorithm::Multiply, &mut sum, &[i64::MAX], false);
        assert_eq!(sum, [i64::MAX]);
    }
}
