//! Exponentials and what is made of them, without branches, so that loops over them become vectors.
//!
//! The formulas are those of `kernels/common/math.cl`: range reductions and minimax polynomials, within a few units in the last place.
//! Results below the smallest normal number are zero.

#![expect(clippy::excessive_precision, reason = "coefficients as they were fitted")]

/// Adding it rounds to an integer, which is then in the lowest bits.
const ROUNDER: f32 = 12_582_912.0;
/// The logarithm of two in two parts, of which the first has few digits.
const LN_2_HIGH: f32 = 0.693_359_375;
const LN_2_LOW: f32 = -2.121_944_40e-4;
/// Exponents beyond these overflow, or give less than the smallest normal number.
const LARGEST: f32 = 88.722_832;
const SMALLEST: f32 = -87.336_544;

/// `x` without the multiple `n` of the logarithm of two next to it, and `n` in the lowest bits of the second number.
#[inline(always)]
fn reduced(x: f32) -> (f32, f32) {
    let t = x * std::f32::consts::LOG2_E + ROUNDER;
    let n = t - ROUNDER;
    ((x - n * LN_2_HIGH) - n * LN_2_LOW, t)
}

/// `e^r - 1` for `|r| <= ln(2) / 2`.
#[inline(always)]
fn expm1_reduced(r: f32) -> f32 {
    let rest = ((r * 8.312_501_429e-3 + 4.189_033_179e-2) * r + 1.666_711_539e-1) * r + 4.999_923_031e-1;
    rest * (r * r) + r
}

/// Two to the power of the integer in the lowest bits.
#[inline(always)]
fn power_of_two(t: f32) -> f32 {
    f32::from_bits((t.to_bits() << 23).wrapping_add(0x3f80_0000))
}

#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    let (r, t) = reduced(x);
    let p = expm1_reduced(r) + 1.0;
    let y = f32::from_bits(p.to_bits().wrapping_add(t.to_bits() << 23));
    let small = if x < SMALLEST { 0.0 } else { y };
    if x <= LARGEST { small } else { x * f32::INFINITY }
}

/// [`exp`] where `x` is at most zero, or NaN.
#[inline(always)]
pub(super) fn exp_negative(x: f32) -> f32 {
    let (r, t) = reduced(x);
    let y = (expm1_reduced(r) + 1.0) * power_of_two(t);
    if x < SMALLEST { 0.0 } else { y }
}

/// `e^x - 1` where `x` is at most zero, or NaN.
#[inline(always)]
pub(super) fn expm1_negative(x: f32) -> f32 {
    let c = if x < -87.0 { -87.0 } else { x };
    let (r, t) = reduced(c);
    let scale = power_of_two(t);
    expm1_reduced(r) * scale + (scale - 1.0)
}

#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// `x` times a quotient of polynomials of `x^2`, up to where the tangent rounds to one.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let c = clamp(x, -9.02, 9.02);
    let z = c * c;
    let p = z * 1.331_889_754e-8 + 2.058_335_245e-5;
    let p = ((p * z + 3.494_026_719e-3) * z + 1.337_971_137e-1) * z + 9.999_999_790e-1;
    let q = z * 7.761_947_017e-7 + 3.283_08e-4;
    let q = ((q * z + 2.587_104_346e-2) * z + 4.671_302_662e-1) * z + 1.0;
    let y = clamp(c * p / q, -1.0, 1.0);
    let above = if x >= 9.02 { 1.0 } else { y };
    if x <= -9.02 { -1.0 } else { above }
}

/// A bound below and one above; NaN stays.
#[inline(always)]
pub(super) fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let at_least = if x < low { low } else { x };
    if at_least > high { high } else { at_least }
}

/// The logarithm of `(1 + s) / (1 - s)` for `|s| <= 1/3`.
#[inline(always)]
fn twice_atanh(s: f32) -> f32 {
    let (z, d) = (s * s, s + s);
    let p = ((z * 1.400_599_219e-1 + 1.400_090_290e-1) * z + 2.001_076_360e-1) * z + 3.333_320_814e-1;
    p * z * d + d
}

#[inline(always)]
pub(super) fn log(x: f32) -> f32 {
    let is_tiny = x < f32::MIN_POSITIVE;
    let bits = (if is_tiny { x * 8_388_608.0 } else { x }).to_bits().cast_signed();
    let exponent = bits.wrapping_sub(0x3f35_04f3) >> 23;
    let m = f32::from_bits(bits.wrapping_sub(exponent << 23).cast_unsigned());
    let n = exponent as f32 - if is_tiny { 23.0 } else { 0.0 };
    let y = n * LN_2_HIGH + (twice_atanh((m - 1.0) / (m + 1.0)) + n * LN_2_LOW);
    let finite = if x < f32::INFINITY { y } else { x };
    let other = if x == 0.0 { f32::NEG_INFINITY } else { f32::NAN };
    if x > 0.0 { finite } else { other }
}

/// The logarithm of `1 + e^x`.
#[inline(always)]
pub(super) fn soft_plus(x: f32) -> f32 {
    let e = exp_negative(-x.abs());
    (if x < 0.0 { 0.0 } else { x }) + twice_atanh(e / (e + 2.0))
}

/// The hyperbolic tangent of the logarithm of `1 + e^x` is a quotient of polynomials of `e^x`.
#[inline(always)]
pub(super) fn tanh_of_soft_plus(x: f32) -> f32 {
    let e = exp(if x > 20.0 { 20.0 } else { x });
    let w = e * (e + 2.0);
    w / (w + 2.0)
}

/// By a polynomial of `1 / (1 + 0.4 |x|)`, which times `e^(-x^2)` is near enough for all `|x|` with a normal result.
#[inline(always)]
pub(super) fn erfc(x: f32) -> f32 {
    let a = x.abs();
    let t = 1.0 / (a * 0.4 + 1.0);
    let p = t * 4.026_747_830e-2 - 1.354_710_015e-1;
    let p = ((p * t + 7.384_196_598e-2) * t + 9.972_977_455e-2) * t + 7.150_818_457e-2;
    let p = ((p * t + 1.969_630_735e-1) * t + 2.009_585_730e-1) * t + 2.265_757_111e-1;
    let y = (p * t + 2.256_262_981e-1) * t * exp_negative(-a * a);
    if x < 0.0 { 2.0 - y } else { y }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units in the last place between a result and the reference, over a grid of arguments.
    fn worst(range: (f64, f64), f: fn(f32) -> f32, reference: fn(f64) -> f64) -> f64 {
        let steps = 200_000;
        let (low, high) = range;
        (0..=steps).fold(0.0, |worst: f64, i| {
            let x = (low + (high - low) * f64::from(i) / f64::from(steps)) as f32;
            let expected = reference(f64::from(x));
            let unit = f64::from((expected as f32).abs().max(f32::MIN_POSITIVE)) * 2f64.powi(-23);
            worst.max((f64::from(f(x)) - expected).abs() / unit)
        })
    }

    #[test]
    fn functions_are_within_units_in_the_last_place() {
        assert!(worst((-87.0, 88.7), exp, f64::exp) < 4.0);
        assert!(worst((-87.0, 0.0), exp_negative, f64::exp) < 4.0);
        assert!(worst((-30.0, -1e-6), expm1_negative, f64::exp_m1) < 8.0);
        assert!(worst((-20.0, 20.0), tanh, f64::tanh) < 8.0);
        assert!(worst((1e-30, 1e4), log, f64::ln) < 8.0);
        assert!(worst((0.5, 2.0), log, f64::ln) < 8.0);
        assert!(worst((-80.0, 80.0), sigmoid, |x| 1.0 / (1.0 + (-x).exp())) < 8.0);
        assert!(worst((-20.0, 30.0), soft_plus, |x| x.exp().ln_1p()) < 16.0);
        assert!(worst((-20.0, 20.0), tanh_of_soft_plus, |x| x.exp().ln_1p().tanh()) < 16.0);
        assert!(worst((-6.0, 3.0), erfc, libm::erfc) < 16.0);
    }

    #[test]
    fn the_ends_are_as_usual() {
        let infinity = f32::INFINITY;
        assert_eq!([exp(infinity), exp(-infinity), exp(89.0), exp(-104.0)], [infinity, 0.0, infinity, 0.0]);
        assert_eq!([exp_negative(-infinity), expm1_negative(-infinity)], [0.0, -1.0]);
        assert_eq!([tanh(infinity), tanh(-infinity), tanh(0.0)], [1.0, -1.0, 0.0]);
        assert_eq!([log(infinity), log(0.0)], [infinity, -infinity]);
        assert_eq!([sigmoid(infinity), sigmoid(-infinity)], [1.0, 0.0]);
        assert_eq!([erfc(infinity), erfc(-infinity)], [0.0, 2.0]);
        assert_eq!([soft_plus(infinity), soft_plus(-infinity)], [infinity, 0.0]);
        for f in [exp, exp_negative, expm1_negative, tanh, log, sigmoid, erfc, soft_plus, tanh_of_soft_plus] {
            assert!(f(f32::NAN).is_nan());
        }
        assert!(log(-1.0).is_nan());
    }
}
