use std::f64::consts::{FRAC_1_SQRT_2, PI};

use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::primitive_desc::Operands;

/// A function of one element, computed in f32. [`Eltwise::reference`] is its definition.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the parameters' meaning is the formula beside each function")]
pub enum Eltwise {
    /// `|x|`
    Abs,
    /// inverse cosine
    Acos,
    /// inverse hyperbolic cosine
    Acosh,
    /// inverse sine
    Asin,
    /// inverse hyperbolic sine
    Asinh,
    /// inverse tangent
    Atan,
    /// inverse hyperbolic tangent
    Atanh,
    /// least integer that is not below
    Ceil,
    /// `min(max(x, min), max)`
    Clamp { min: f32, max: f32 },
    /// cosine
    Cos,
    /// hyperbolic cosine
    Cosh,
    /// `x` where positive, else `alpha * (e^x - 1)`
    Elu { alpha: f32 },
    /// error function
    Erf,
    /// `e^x`
    Exp,
    /// greatest integer that is not above
    Floor,
    /// `x/2 * (1 + erf(x / sqrt 2))`
    GeluErf,
    /// `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`
    GeluTanh,
    /// `min(max(alpha*x + beta, 0), 1)`
    HardSigmoid { alpha: f32, beta: f32 },
    /// `x * min(max(alpha*x + beta, 0), 1)`
    HardSwish { alpha: f32, beta: f32 },
    /// `x` where positive, else `alpha * x`
    LeakyRelu { alpha: f32 },
    /// `alpha*x + beta`
    Linear { alpha: f32, beta: f32 },
    /// natural logarithm
    Log,
    /// `x * tanh(ln(1 + e^x))`
    Mish,
    /// `alpha * x^beta`
    Pow { alpha: f32, beta: f32 },
    /// `1 / x`
    Reciprocal,
    /// `max(x, 0)`
    Relu,
    /// nearest integer, ties to even
    Round,
    /// `1 / (1 + e^-x)`
    Sigmoid,
    /// -1, 0 or 1
    Sign,
    /// sine
    Sin,
    /// hyperbolic sine
    Sinh,
    /// `ln(1 + e^(beta*x)) / beta`
    SoftPlus { beta: f32 },
    /// square root
    Sqrt,
    /// `x^2`
    Square,
    /// `x / (1 + e^(-alpha*x))`
    Swish { alpha: f32 },
    /// tangent
    Tan,
    /// hyperbolic tangent
    Tanh,
    /// integer towards zero
    Truncate,
}

impl Eltwise {
    /// The function's name, parameters not included.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Abs => "abs",
            Self::Acos => "acos",
            Self::Acosh => "acosh",
            Self::Asin => "asin",
            Self::Asinh => "asinh",
            Self::Atan => "atan",
            Self::Atanh => "atanh",
            Self::Ceil => "ceil",
            Self::Cos => "cos",
            Self::Cosh => "cosh",
            Self::Erf => "erf",
            Self::Floor => "floor",
            Self::Sign => "sign",
            Self::Sin => "sin",
            Self::Sinh => "sinh",
            Self::Tan => "tan",
            Self::Truncate => "truncate",
            Self::Clamp { .. } => "clamp",
            Self::Elu { .. } => "elu",
            Self::Exp => "exp",
            Self::GeluErf => "gelu_erf",
            Self::GeluTanh => "gelu_tanh",
            Self::HardSigmoid { .. } => "hard_sigmoid",
            Self::HardSwish { .. } => "hard_swish",
            Self::LeakyRelu { .. } => "leaky_relu",
            Self::Linear { .. } => "linear",
            Self::Log => "log",
            Self::Mish => "mish",
            Self::Pow { .. } => "pow",
            Self::Reciprocal => "reciprocal",
            Self::Relu => "relu",
            Self::Round => "round",
            Self::Sigmoid => "sigmoid",
            Self::SoftPlus { .. } => "soft_plus",
            Self::Sqrt => "sqrt",
            Self::Square => "square",
            Self::Swish { .. } => "swish",
            Self::Tanh => "tanh",
        }
    }

    /// The definition, in f64. NaN in gives NaN out.
    pub fn reference(self, x: f64) -> f64 {
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let soft_plus = |x: f64| if x > 30.0 { x } else { x.exp().ln_1p() };
        // `f64::min` and `max` drop NaN; comparisons in this form keep it.
        let clamp = |x: f64, low: f64, high: f64| {
            if x < low {
                low
            } else if x > high {
                high
            } else {
                x
            }
        };
        match self {
            Self::Abs => x.abs(),
            Self::Acos => x.acos(),
            Self::Acosh => x.acosh(),
            Self::Asin => x.asin(),
            Self::Asinh => x.asinh(),
            Self::Atan => x.atan(),
            Self::Atanh => x.atanh(),
            Self::Ceil => x.ceil(),
            Self::Cos => x.cos(),
            Self::Cosh => x.cosh(),
            Self::Erf => erf(x),
            Self::Floor => x.floor(),
            Self::Sign if x == 0.0 => 0.0,
            Self::Sign => x.signum(),
            Self::Sin => x.sin(),
            Self::Sinh => x.sinh(),
            Self::Tan => x.tan(),
            Self::Truncate => x.trunc(),
            Self::Clamp { min, max } => clamp(x, f64::from(min), f64::from(max)),
            Self::Elu { alpha } => {
                if x > 0.0 {
                    x
                } else {
                    f64::from(alpha) * x.exp_m1()
                }
            }
            Self::Exp => x.exp(),
            Self::GeluErf => 0.5 * x * (1.0 + erf(x * FRAC_1_SQRT_2)),
            Self::GeluTanh => 0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044_715 * x * x * x)).tanh()),
            Self::HardSigmoid { alpha, beta } => clamp(f64::from(alpha) * x + f64::from(beta), 0.0, 1.0),
            Self::HardSwish { alpha, beta } => x * clamp(f64::from(alpha) * x + f64::from(beta), 0.0, 1.0),
            Self::LeakyRelu { alpha } => {
                if x > 0.0 {
                    x
                } else {
                    f64::from(alpha) * x
                }
            }
            Self::Linear { alpha, beta } => f64::from(alpha) * x + f64::from(beta),
            Self::Log => x.ln(),
            Self::Mish => x * soft_plus(x).tanh(),
            Self::Pow { alpha, beta } => f64::from(alpha) * x.powf(f64::from(beta)),
            Self::Reciprocal => 1.0 / x,
            Self::Relu => {
                if x < 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Self::Round => x.round_ties_even(),
            Self::Sigmoid => sigmoid(x),
            Self::SoftPlus { beta } => soft_plus(f64::from(beta) * x) / f64::from(beta),
            Self::Sqrt => x.sqrt(),
            Self::Square => x * x,
            Self::Swish { alpha } => x * sigmoid(f64::from(alpha) * x),
            Self::Tanh => x.tanh(),
        }
    }

    /// The definition of the derivative times an incoming gradient, in f64; `at` is the argument, or with `of_result` the function's value.
    ///
    /// At a kink the derivative is that of the side towards zero: rectifiers give nothing at zero, a clamp nothing at its ends. Functions
    /// without a [gradient of the result](Eltwise::has_gradient_of_result) ignore `of_result`.
    pub fn gradient(self, of_result: bool, at: f64, diff: f64) -> f64 {
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let inside = |inside: bool, slope: f64| if inside { slope } else { 0.0 };
        let x = at;
        let derivative = match self {
            Self::Abs => match x {
                x if x > 0.0 => 1.0,
                x if x < 0.0 => -1.0,
                _ => 0.0,
            },
            Self::Acos => -1.0 / ((1.0 - x) * (1.0 + x)).sqrt(),
            Self::Acosh => 1.0 / ((x - 1.0) * (x + 1.0)).sqrt(),
            Self::Asin => 1.0 / ((1.0 - x) * (1.0 + x)).sqrt(),
            Self::Asinh => 1.0 / (x * x + 1.0).sqrt(),
            Self::Atan => 1.0 / (1.0 + x * x),
            Self::Atanh => 1.0 / ((1.0 - x) * (1.0 + x)),
            Self::Cos => -x.sin(),
            Self::Cosh => x.sinh(),
            Self::Erf => 2.0 / PI.sqrt() * (-x * x).exp(),
            Self::Sin => x.cos(),
            Self::Sinh => x.cosh(),
            Self::Tan => 1.0 + x.tan() * x.tan(),
            Self::Clamp { min, max } => inside(x > f64::from(min) && x < f64::from(max), 1.0),
            Self::Elu { alpha } => match (x > 0.0, of_result) {
                (true, _) => 1.0,
                (false, true) => x + f64::from(alpha),
                (false, false) => f64::from(alpha) * x.exp(),
            },
            Self::Exp => {
                if of_result {
                    x
                } else {
                    x.exp()
                }
            }
            Self::GeluErf => {
                0.5 * (1.0 + erf(x * FRAC_1_SQRT_2)) + x * (-0.5 * x * x).exp() / (2.0 * PI).sqrt()
            }
            Self::GeluTanh => {
                let t = ((2.0 / PI).sqrt() * (x + 0.044_715 * x * x * x)).tanh();
                let inner = (2.0 / PI).sqrt() * (1.0 + 3.0 * 0.044_715 * x * x);
                0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner
            }
            Self::HardSigmoid { alpha, beta } => {
                let v = f64::from(alpha) * x + f64::from(beta);
                inside(v > 0.0 && v < 1.0, f64::from(alpha))
            }
            Self::HardSwish { alpha, beta } => {
                let v = f64::from(alpha) * x + f64::from(beta);
                if v >= 1.0 { 1.0 } else { inside(v > 0.0, 2.0 * f64::from(alpha) * x + f64::from(beta)) }
            }
            Self::LeakyRelu { alpha } => {
                if x > 0.0 {
                    1.0
                } else {
                    f64::from(alpha)
                }
            }
            Self::Linear { alpha, .. } => f64::from(alpha),
            Self::Log => 1.0 / x,
            Self::Mish => {
                let t = Self::SoftPlus { beta: 1.0 }.reference(x).tanh();
                t + x * (1.0 - t * t) * sigmoid(x)
            }
            Self::Pow { alpha, beta } => f64::from(alpha) * f64::from(beta) * x.powf(f64::from(beta) - 1.0),
            Self::Reciprocal => -1.0 / (x * x),
            Self::Relu => inside(x > 0.0, 1.0),
            Self::Ceil | Self::Floor | Self::Round | Self::Sign | Self::Truncate => 0.0,
            Self::Sigmoid => {
                let s = if of_result { x } else { sigmoid(x) };
                s * (1.0 - s)
            }
            Self::SoftPlus { beta } => sigmoid(f64::from(beta) * x),
            Self::Sqrt => 0.5 / if of_result { x } else { x.sqrt() },
            Self::Square => 2.0 * x,
            Self::Swish { alpha } => {
                let s = sigmoid(f64::from(alpha) * x);
                s + f64::from(alpha) * x * s * (1.0 - s)
            }
            Self::Tanh => {
                let t = if of_result { x } else { x.tanh() };
                1.0 - t * t
            }
        };
        derivative * diff
    }

    /// Whether [`Eltwise::gradient`] can work from the function's value.
    pub const fn has_gradient_of_result(self) -> bool {
        matches!(
            self,
            Self::Clamp { .. }
                | Self::Elu { .. }
                | Self::Exp
                | Self::LeakyRelu { .. }
                | Self::Relu
                | Self::Sigmoid
                | Self::Sqrt
                | Self::Tanh
        )
    }

    pub(super) fn infer(self, operands: &Operands) -> Result<(Dims, DataType)> {
        let src = operands.only("eltwise", &[Arg::SRC], &[])?.required(Arg::SRC)?;
        Ok((src.dims().clone(), src.data_type()))
    }
}

/// The error function to f64 accuracy: the Maclaurin series near zero, the continued fraction of `erfc` (Abramowitz and Stegun
/// 7.1.14, evaluated from the back) further out.
fn erf(x: f64) -> f64 {
    let magnitude = x.abs();
    if magnitude < 2.5 {
        let (mut term, mut sum, mut n) = (x, x, 0.0_f64);
        while term.abs() > 1e-18 * sum.abs() {
            n += 1.0;
            term *= -x * x / n;
            sum += term / (2.0 * n + 1.0);
        }
        return sum * 2.0 / PI.sqrt();
    }
    if magnitude.is_nan() {
        return x;
    }
    let fraction = (1..=60).rev().fold(magnitude, |tail, k| magnitude + f64::from(k) / 2.0 / tail);
    (1.0 - (-magnitude * magnitude).exp() / (PI.sqrt() * fraction)).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_matches_published_values() {
        // Abramowitz and Stegun, table 7.1; and erfc(3) from NIST DLMF 7.
        for (x, expected) in [
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.0, 0.995_322_265_018_952_7),
            (3.0, 0.999_977_909_503_001_4),
        ] {
            assert!((erf(x) - expected).abs() < 1e-14, "{x}: {}", erf(x));
            assert!((erf(-x) + expected).abs() < 1e-14);
        }
        assert!((erf(2.5 - 1e-12) - erf(2.5 + 1e-12)).abs() < 1e-12);
        assert!((erf(0.0)).abs() < f64::MIN_POSITIVE);
    }

    #[test]
    fn functions_meet_known_points() {
        let at = |f: Eltwise, x: f64| f.reference(x);
        assert!((at(Eltwise::GeluErf, 1.0) - 0.841_344_746_068_542_9).abs() < 1e-12);
        assert!((at(Eltwise::HardSwish { alpha: 1.0 / 6.0, beta: 0.5 }, -3.1)).abs() < 1e-12);
        assert!((at(Eltwise::SoftPlus { beta: 2.0 }, 0.0) - 2f64.ln() / 2.0).abs() < 1e-12);
        assert!(
            (at(Eltwise::Round, 2.5) - 2.0).abs() < 1e-12 && (at(Eltwise::Round, -1.5) + 2.0).abs() < 1e-12
        );
        assert!((at(Eltwise::SoftPlus { beta: 1.0 }, 1000.0) - 1000.0).abs() < 1e-9);
    }

    #[test]
    fn nan_stays() {
        for f in [
            Eltwise::Relu,
            Eltwise::Clamp { min: 0.0, max: 6.0 },
            Eltwise::HardSigmoid { alpha: 1.0, beta: 0.0 },
            Eltwise::GeluErf,
        ] {
            assert!(f.reference(f64::NAN).is_nan(), "{f:?}");
        }
    }
}
