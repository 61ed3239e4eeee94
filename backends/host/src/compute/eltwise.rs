//! Functions of one element.

use std::f64::consts::FRAC_1_SQRT_2;

use anydnn_backend::Eltwise;

/// `x = f(x)` for each element: in f32 where that is accurate, else in f64.
pub(crate) fn in_f32(function: Eltwise, values: &mut [f32]) {
    match function {
        Eltwise::Abs => map(values, f32::abs),
        Eltwise::Clamp { min, max } => map(values, |x| clamp(x, min, max)),
        Eltwise::LeakyRelu { alpha } => map(values, |x| if x > 0.0 { x } else { alpha * x }),
        Eltwise::Linear { alpha, beta } => map(values, |x| linear(x, alpha, beta) as f32),
        Eltwise::HardSigmoid { alpha, beta } => {
            map(values, |x| clamp(linear(x, alpha, beta), 0.0, 1.0) as f32);
        }
        Eltwise::HardSwish { alpha, beta } => {
            map(values, |x| (f64::from(x) * clamp(linear(x, alpha, beta), 0.0, 1.0)) as f32);
        }
        Eltwise::Ceil => map(values, f32::ceil),
        Eltwise::Floor => map(values, f32::floor),
        Eltwise::Truncate => map(values, f32::trunc),
        Eltwise::Reciprocal => map(values, |x| 1.0 / x),
        Eltwise::Relu => map(values, |x| if x < 0.0 { 0.0 } else { x }),
        Eltwise::Round => map(values, f32::round_ties_even),
        Eltwise::Sqrt => map(values, f32::sqrt),
        Eltwise::Square => map(values, |x| x * x),
        other => map(values, |x| in_f64(other, f64::from(x)) as f32),
    }
}

/// The definition, with formulas that do not cancel where its own would.
pub(crate) fn in_f64(function: Eltwise, x: f64) -> f64 {
    match function {
        Eltwise::Erf => libm::erf(x),
        Eltwise::GeluErf => 0.5 * x * libm::erfc(-x * FRAC_1_SQRT_2),
        // 1 + tanh(u) = 2 / (1 + e^(-2u))
        Eltwise::GeluTanh => {
            let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            x / (1.0 + (-2.0 * u).exp())
        }
        other => other.reference(x),
    }
}

fn map(values: &mut [f32], f: impl Fn(f32) -> f32) {
    for value in values {
        *value = f(*value);
    }
}

fn linear(x: f32, alpha: f32, beta: f32) -> f64 {
    f64::from(alpha) * f64::from(x) + f64::from(beta)
}

/// NaN stays, unlike with `min` and `max`.
fn clamp<T: PartialOrd>(x: T, low: T, high: T) -> T {
    if x < low {
        low
    } else if x > high {
        high
    } else {
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Eltwise; 38] = [
        Eltwise::Abs,
        Eltwise::Clamp { min: -1.0, max: 2.0 },
        Eltwise::Elu { alpha: 0.7 },
        Eltwise::Exp,
        Eltwise::GeluErf,
        Eltwise::GeluTanh,
        Eltwise::HardSigmoid { alpha: 0.2, beta: 0.5 },
        Eltwise::HardSwish { alpha: 1.0 / 6.0, beta: 0.5 },
        Eltwise::LeakyRelu { alpha: 0.01 },
        Eltwise::Linear { alpha: 2.0, beta: -3.0 },
        Eltwise::Log,
        Eltwise::Mish,
        Eltwise::Pow { alpha: 1.5, beta: 2.5 },
        Eltwise::Reciprocal,
        Eltwise::Relu,
        Eltwise::Round,
        Eltwise::Sigmoid,
        Eltwise::SoftPlus { beta: 2.0 },
        Eltwise::Sqrt,
        Eltwise::Square,
        Eltwise::Swish { alpha: 1.3 },
        Eltwise::Tanh,
        Eltwise::Acos,
        Eltwise::Acosh,
        Eltwise::Asin,
        Eltwise::Asinh,
        Eltwise::Atan,
        Eltwise::Atanh,
        Eltwise::Ceil,
        Eltwise::Cos,
        Eltwise::Cosh,
        Eltwise::Erf,
        Eltwise::Floor,
        Eltwise::Sign,
        Eltwise::Sin,
        Eltwise::Sinh,
        Eltwise::Tan,
        Eltwise::Truncate,
    ];

    #[test]
    fn functions_meet_their_definition_within_two_ulp() {
        for function in ALL {
            for i in -60..=60 {
                let x = i as f32 * 0.17 + 0.013;
                let mut actual = [x];
                in_f32(function, &mut actual);
                let expected = function.reference(f64::from(x));
                // The definition's own 1 + erf and 1 + tanh cancel for negative arguments.
                let slack = expected.abs() * 2.0 * f64::from(f32::EPSILON) + 1e-15;
                let close = (f64::from(actual[0]) - expected).abs() <= slack;
                assert!(
                    close || (actual[0].is_nan() && expected.is_nan()),
                    "{function:?}({x}) = {}, not {expected}",
                    actual[0]
                );
            }
        }
    }

    #[test]
    fn special_values_follow_the_definition() {
        for function in ALL {
            for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e30, -1e30] {
                let mut actual = [x];
                in_f32(function, &mut actual);
                let expected = function.reference(f64::from(x)) as f32;
                let same = actual[0] == expected
                    || (actual[0].is_nan() && expected.is_nan())
                    || (actual[0] - expected).abs() <= 2.0 * f32::EPSILON * expected.abs();
                assert!(same, "{function:?}({x}) = {}, not {expected}", actual[0]);
            }
        }
    }

    #[test]
    fn gelu_keeps_its_relative_accuracy_in_the_tail() {
        // Phi(-5) = 2.866515718791939e-7 (standard normal table).
        let mut x = [-5.0];
        in_f32(Eltwise::GeluErf, &mut x);
        assert!((f64::from(x[0]) / (-5.0 * 2.866_515_718_791_939e-7) - 1.0).abs() < 1e-6, "{}", x[0]);
    }
}
