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

/// `a * b + c`, in one instruction where there is one.
#[inline(always)]
pub(super) fn plus<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// The value at `x` of a polynomial, whose coefficients begin with that of the highest power.
#[inline(always)]
fn polynomial<const FUSED: bool, const COUNT: usize>(x: f32, coefficients: [f32; COUNT]) -> f32 {
    let mut value = coefficients[0];
    for &coefficient in &coefficients[1..] {
        value = plus::<FUSED>(value, x, coefficient);
    }
    value
}

/// `x` without the multiple `n` of the logarithm of two next to it, and `n` in the lowest bits of the second number.
#[inline(always)]
fn reduced<const FUSED: bool>(x: f32) -> (f32, f32) {
    let t = plus::<FUSED>(x, std::f32::consts::LOG2_E, ROUNDER);
    let n = t - ROUNDER;
    (plus::<FUSED>(n, -LN_2_LOW, plus::<FUSED>(n, -LN_2_HIGH, x)), t)
}

/// `e^r - 1` for `|r| <= ln(2) / 2`.
#[inline(always)]
fn expm1_reduced<const FUSED: bool>(r: f32) -> f32 {
    let rest =
        polynomial::<FUSED, 4>(r, [8.312_501_429e-3, 4.189_033_179e-2, 1.666_711_539e-1, 4.999_923_031e-1]);
    plus::<FUSED>(rest, r * r, r)
}

/// Two to the power of the integer in the lowest bits.
#[inline(always)]
fn power_of_two(t: f32) -> f32 {
    f32::from_bits((t.to_bits() << 23).wrapping_add(0x3f80_0000))
}

#[inline(always)]
pub(super) fn exp<const FUSED: bool>(x: f32) -> f32 {
    let (r, t) = reduced::<FUSED>(x);
    let p = expm1_reduced::<FUSED>(r) + 1.0;
    let y = f32::from_bits(p.to_bits().wrapping_add(t.to_bits() << 23));
    let small = if x < SMALLEST { 0.0 } else { y };
    if x <= LARGEST { small } else { x * f32::INFINITY }
}

/// [`exp`] where `x` is at most zero, or NaN.
#[inline(always)]
pub(super) fn exp_negative<const FUSED: bool>(x: f32) -> f32 {
    let (r, t) = reduced::<FUSED>(x);
    let y = (expm1_reduced::<FUSED>(r) + 1.0) * power_of_two(t);
    if x < SMALLEST { 0.0 } else { y }
}

/// `e^x - 1` where `x` is at most zero, or NaN.
#[inline(always)]
pub(super) fn expm1_negative<const FUSED: bool>(x: f32) -> f32 {
    let c = if x < -87.0 { -87.0 } else { x };
    let (r, t) = reduced::<FUSED>(c);
    let scale = power_of_two(t);
    plus::<FUSED>(expm1_reduced::<FUSED>(r), scale, scale - 1.0)
}

#[inline(always)]
pub(super) fn sigmoid<const FUSED: bool>(x: f32) -> f32 {
    1.0 / (1.0 + exp::<FUSED>(-x))
}

/// `x` times a quotient of polynomials of `x^2`, up to where the tangent rounds to one.
#[inline(always)]
pub(super) fn tanh<const FUSED: bool>(x: f32) -> f32 {
    let c = clamp(x, -9.02, 9.02);
    let z = c * c;
    let p = polynomial::<FUSED, 5>(
        z,
        [1.331_889_754e-8, 2.058_335_245e-5, 3.494_026_719e-3, 1.337_971_137e-1, 9.999_999_790e-1],
    );
    let q =
        polynomial::<FUSED, 5>(z, [7.761_947_017e-7, 3.283_08e-4, 2.587_104_346e-2, 4.671_302_662e-1, 1.0]);
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
fn twice_atanh<const FUSED: bool>(s: f32) -> f32 {
    let (z, d) = (s * s, s + s);
    let p =
        polynomial::<FUSED, 4>(z, [1.400_599_219e-1, 1.400_090_290e-1, 2.001_076_360e-1, 3.333_320_814e-1]);
    plus::<FUSED>(p * z, d, d)
}

#[inline(always)]
pub(super) fn log<const FUSED: bool>(x: f32) -> f32 {
    let is_tiny = x < f32::MIN_POSITIVE;
    let bits = (if is_tiny { x * 8_388_608.0 } else { x }).to_bits().cast_signed();
    let exponent = bits.wrapping_sub(0x3f35_04f3) >> 23;
    let m = f32::from_bits(bits.wrapping_sub(exponent << 23).cast_unsigned());
    let n = exponent as f32 - if is_tiny { 23.0 } else { 0.0 };
    let rest = plus::<FUSED>(n, LN_2_LOW, twice_atanh::<FUSED>((m - 1.0) / (m + 1.0)));
    let y = plus::<FUSED>(n, LN_2_HIGH, rest);
    let finite = if x < f32::INFINITY { y } else { x };
    let other = if x == 0.0 { f32::NEG_INFINITY } else { f32::NAN };
    if x > 0.0 { finite } else { other }
}

/// The logarithm of `1 + e^x`.
#[inline(always)]
pub(super) fn soft_plus<const FUSED: bool>(x: f32) -> f32 {
    let e = exp_negative::<FUSED>(-x.abs());
    (if x < 0.0 { 0.0 } else { x }) + twice_atanh::<FUSED>(e / (e + 2.0))
}

/// The hyperbolic tangent of the logarithm of `1 + e^x` is a quotient of polynomials of `e^x`.
#[inline(always)]
pub(super) fn tanh_of_soft_plus<const FUSED: bool>(x: f32) -> f32 {
    let e = exp::<FUSED>(if x > 20.0 { 20.0 } else { x });
    let w = e * (e + 2.0);
    w / (w + 2.0)
}

/// By a polynomial of `1 / (1 + 0.4 |x|)`, which times `e^(-x^2)` is near enough for all `|x|` with a normal result.
#[inline(always)]
pub(super) fn erfc<const FUSED: bool>(x: f32) -> f32 {
    let a = x.abs();
    let t = 1.0 / plus::<FUSED>(a, 0.4, 1.0);
    let p = polynomial::<FUSED, 9>(
        t,
        [
            4.026_747_830e-2,
            -1.354_710_015e-1,
            7.384_196_598e-2,
            9.972_977_455e-2,
            7.150_818_457e-2,
            1.969_630_735e-1,
            2.009_585_730e-1,
            2.265_757_111e-1,
            2.256_262_981e-1,
        ],
    );
    let y = p * t * exp_negative::<FUSED>(-a * a);
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
        within_units::<false>();
        within_units::<true>();
    }

    fn within_units<const FUSED: bool>() {
        assert!(worst((-87.0, 88.7), exp::<FUSED>, f64::exp) < 4.0);
        assert!(worst((-87.0, 0.0), exp_negative::<FUSED>, f64::exp) < 4.0);
        assert!(worst((-30.0, -1e-6), expm1_negative::<FUSED>, f64::exp_m1) < 8.0);
        assert!(worst((-20.0, 20.0), tanh::<FUSED>, f64::tanh) < 8.0);
        assert!(worst((1e-30, 1e4), log::<FUSED>, f64::ln) < 8.0);
        assert!(worst((0.5, 2.0), log::<FUSED>, f64::ln) < 8.0);
        assert!(worst((-80.0, 80.0), sigmoid::<FUSED>, |x| 1.0 / (1.0 + (-x).exp())) < 8.0);
        assert!(worst((-20.0, 30.0), soft_plus::<FUSED>, |x| x.exp().ln_1p()) < 16.0);
        assert!(worst((-20.0, 20.0), tanh_of_soft_plus::<FUSED>, |x| x.exp().ln_1p().tanh()) < 16.0);
        assert!(worst((-6.0, 3.0), erfc::<FUSED>, libm::erfc) < 16.0);
    }

    #[test]
    fn the_ends_are_as_usual() {
        ends::<false>();
        ends::<true>();
    }

    fn ends<const FUSED: bool>() {
        let infinity = f32::INFINITY;
        assert_eq!(
            [exp::<FUSED>(infinity), exp::<FUSED>(-infinity), exp::<FUSED>(89.0), exp::<FUSED>(-104.0)],
            [infinity, 0.0, infinity, 0.0]
        );
        assert_eq!([exp_negative::<FUSED>(-infinity), expm1_negative::<FUSED>(-infinity)], [0.0, -1.0]);
        assert_eq!([tanh::<FUSED>(infinity), tanh::<FUSED>(-infinity), tanh::<FUSED>(0.0)], [1.0, -1.0, 0.0]);
        assert_eq!([log::<FUSED>(infinity), log::<FUSED>(0.0)], [infinity, -infinity]);
        assert_eq!([sigmoid::<FUSED>(infinity), sigmoid::<FUSED>(-infinity)], [1.0, 0.0]);
        assert_eq!([erfc::<FUSED>(infinity), erfc::<FUSED>(-infinity)], [0.0, 2.0]);
        assert_eq!([soft_plus::<FUSED>(infinity), soft_plus::<FUSED>(-infinity)], [infinity, 0.0]);
        let all = [
            exp::<FUSED>,
            exp_negative::<FUSED>,
            expm1_negative::<FUSED>,
            tanh::<FUSED>,
            log::<FUSED>,
            sigmoid::<FUSED>,
            erfc::<FUSED>,
            soft_plus::<FUSED>,
            tanh_of_soft_plus::<FUSED>,
        ];
        for f in all {
            assert!(f(f32::NAN).is_nan());
        }
        assert!(log::<FUSED>(-1.0).is_nan());
    }
}
