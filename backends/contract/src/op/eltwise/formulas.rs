//! What formulas of the table share. NaN in gives NaN out.

use std::f64::consts::PI;

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The logarithm of `1 + e^x`, without overflow.
pub(super) fn soft_plus(x: f64) -> f64 {
    if x > 30.0 { x } else { x.exp().ln_1p() }
}

/// `f64::min` and `max` drop NaN; comparisons in this form keep it.
pub(super) fn clamp(x: f64, low: f64, high: f64) -> f64 {
    if x < low {
        low
    } else if x > high {
        high
    } else {
        x
    }
}

/// Also of zero, which `f64::signum` takes for one.
pub(super) fn sign(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x.signum() }
}

/// A slope that is zero outside.
pub(super) fn inside(inside: bool, slope: f64) -> f64 {
    if inside { slope } else { 0.0 }
}

/// The argument of the hyperbolic tangent in the approximation of GELU.
pub(super) fn gelu_inner(x: f64) -> f64 {
    (2.0 / PI).sqrt() * (x + 0.044_715 * x * x * x)
}
