//! The table of the functions of one element. A new function is a row here, and its formulas in OpenCL C in `kernels/common/eltwise.cl` and
//! `gradient.cl`; all else follows from the row.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use super::formulas::{clamp, gelu_inner, inside, sigmoid, sign, soft_plus};
use super::function::Parameter::{Always, Attribute};
use super::function::{Domain, Function, chosen, named, with};

const POSITIVE: Domain = Domain::Between(0.05, 6.0);
const INFINITIES: &[f64] = &[f64::INFINITY, f64::NEG_INFINITY];
const LARGE: &[f64] = &[100.0, -100.0];
const INFINITIES_AND_LARGE: &[f64] = &[f64::INFINITY, f64::NEG_INFINITY, 100.0, -100.0];
/// The slope between steps.
const FLAT: f64 = 0.0;

functions! {
    /// `|x|`
    Abs "abs" {
        value: |x| x.abs(),
        slope: |x| sign(x),
        specials: INFINITIES,
        is_exact: true,
        graph: Some(named("Abs")),
        onnx: Some(named("Abs")),
        onednn: &[0x24],
    }
    /// inverse cosine
    Acos "acos" {
        value: |x| x.acos(),
        slope: |x| -1.0 / ((1.0 - x) * (1.0 + x)).sqrt(),
        domain: Domain::Between(-1.0, 1.0),
        graph: Some(named("Acos")),
        onnx: Some(named("Acos")),
    }
    /// inverse hyperbolic cosine
    Acosh "acosh" {
        value: |x| x.acosh(),
        slope: |x| 1.0 / ((x - 1.0) * (x + 1.0)).sqrt(),
        domain: Domain::Between(1.0, 9.0),
        graph: Some(named("Acosh")),
        onnx: Some(named("Acosh")),
    }
    /// inverse sine
    Asin "asin" {
        value: |x| x.asin(),
        slope: |x| 1.0 / ((1.0 - x) * (1.0 + x)).sqrt(),
        domain: Domain::Between(-1.0, 1.0),
        graph: Some(named("Asin")),
        onnx: Some(named("Asin")),
    }
    /// inverse hyperbolic sine
    Asinh "asinh" {
        value: |x| x.asinh(),
        slope: |x| 1.0 / (x * x + 1.0).sqrt(),
        graph: Some(named("Asinh")),
        onnx: Some(named("Asinh")),
    }
    /// inverse tangent
    Atan "atan" {
        value: |x| x.atan(),
        slope: |x| 1.0 / (1.0 + x * x),
        graph: Some(named("Atan")),
        onnx: Some(named("Atan")),
    }
    /// inverse hyperbolic tangent
    Atanh "atanh" {
        value: |x| x.atanh(),
        slope: |x| 1.0 / ((1.0 - x) * (1.0 + x)),
        domain: Domain::Between(-0.99, 0.99),
        graph: Some(named("Atanh")),
        onnx: Some(named("Atanh")),
    }
    /// least integer that is not below
    Ceil "ceil" {
        value: |x| x.ceil(),
        slope: |_x| FLAT,
        domain: Domain::Quarters,
        is_exact: true,
        graph: Some(named("Ceil")),
        onnx: Some(named("Ceil")),
    }
    /// `min(max(x, min), max)`
    Clamp { min: -1.5, max: 3.0 } "clamp" {
        value: |x| clamp(x, min, max),
        slope: |x| inside(x > min && x < max, 1.0);
        of_result: |y| inside(y > min && y < max, 1.0),
        specials: INFINITIES,
        graph: Some(with("Clamp", &[Attribute("min", None), Attribute("max", None)])),
        onednn: &[0x2e, 0x2f, 0x106],
    }
    /// cosine
    Cos "cos" {
        value: |x| x.cos(),
        slope: |x| -x.sin(),
        graph: Some(named("Cos")),
        onnx: Some(named("Cos")),
    }
    /// hyperbolic cosine
    Cosh "cosh" {
        value: |x| x.cosh(),
        slope: |x| x.sinh(),
        graph: Some(named("Cosh")),
        onnx: Some(named("Cosh")),
    }
    /// `x` where positive, else `alpha * (e^x - 1)`
    Elu { alpha: 0.75 } "elu" {
        value: |x| if x > 0.0 { x } else { alpha * x.exp_m1() },
        slope: |x| if x > 0.0 { 1.0 } else { alpha * x.exp() };
        of_result: |y| if y > 0.0 { 1.0 } else { y + alpha },
        specials: INFINITIES,
        cancels: true,
        graph: Some(with("Elu", &[Attribute("alpha", None)])),
        onnx: Some(with("Elu", &[Attribute("alpha", Some(1.0))])),
        onednn: &[0x22, 0x102],
    }
    /// error function
    Erf "erf" {
        value: |x| libm::erf(x),
        slope: |x| 2.0 / PI.sqrt() * (-x * x).exp(),
        specials: INFINITIES,
        graph: Some(named("Erf")),
        onnx: Some(named("Erf")),
    }
    /// `e^x`
    Exp "exp" {
        value: |x| x.exp(),
        slope: |x| x.exp();
        of_result: |y| y,
        specials: INFINITIES_AND_LARGE,
        graph: Some(named("Exp")),
        onnx: Some(named("Exp")),
        onednn: &[0x2a, 0x105],
    }
    /// greatest integer that is not above
    Floor "floor" {
        value: |x| x.floor(),
        slope: |_x| FLAT,
        domain: Domain::Quarters,
        specials: INFINITIES,
        is_exact: true,
        graph: Some(named("Floor")),
        onnx: Some(named("Floor")),
    }
    /// `x/2 * (1 + erf(x / sqrt 2))`
    GeluErf "gelu_erf" {
        value: |x| 0.5 * x * libm::erfc(-x * FRAC_1_SQRT_2),
        slope: |x| 0.5 * libm::erfc(-x * FRAC_1_SQRT_2) + x * (-0.5 * x * x).exp() / (2.0 * PI).sqrt(),
        aliases: &["gelu"],
        cancels: true,
        graph: Some(chosen("GELU", "mode", "gelu_erf")),
        onnx: Some(chosen("Gelu", "approximate", "none")),
        onednn: &[0x31],
    }
    /// `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`
    GeluTanh "gelu_tanh" {
        value: |x| x / (1.0 + (-2.0 * gelu_inner(x)).exp()),
        slope: |x| {
            let t = gelu_inner(x).tanh();
            let inner = (2.0 / PI).sqrt() * (1.0 + 3.0 * 0.044_715 * x * x);
            0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner
        },
        cancels: true,
        graph: Some(chosen("GELU", "mode", "gelu_tanh")),
        onnx: Some(chosen("Gelu", "approximate", "tanh")),
        onednn: &[0x2b],
    }
    /// `min(max(alpha*x + beta, 0), 1)`
    HardSigmoid { alpha: 0.2, beta: 0.5 } "hard_sigmoid" {
        value: |x| clamp(alpha * x + beta, 0.0, 1.0),
        slope: |x| inside(alpha * x + beta > 0.0 && alpha * x + beta < 1.0, alpha),
        specials: INFINITIES,
        cancels: true,
        graph: Some(with("HardSigmoid", &[Attribute("alpha", None), Attribute("beta", None)])),
        onnx: Some(with("HardSigmoid", &[Attribute("alpha", Some(0.2)), Attribute("beta", Some(0.5))])),
        onednn: &[0x28],
    }
    /// `x * min(max(alpha*x + beta, 0), 1)`
    HardSwish { alpha: 1.0 / 6.0, beta: 0.5 } "hard_swish" {
        value: |x| x * clamp(alpha * x + beta, 0.0, 1.0),
        slope: |x| if alpha * x + beta >= 1.0 { 1.0 } else { inside(alpha * x + beta > 0.0, 2.0 * alpha * x + beta) },
        aliases: &["hardswish"],
        cancels: true,
        graph: Some(with("HardSwish", &[Always(1.0 / 6.0), Always(0.5)])),
        onnx: Some(with("HardSwish", &[Always(1.0 / 6.0), Always(0.5)])),
        onednn: &[0x34],
    }
    /// `x` where positive, else `alpha * x`
    LeakyRelu { alpha: 0.125 } "leaky_relu" {
        value: |x| if x > 0.0 { x } else { alpha * x },
        slope: |x| if x > 0.0 { 1.0 } else { alpha };
        of_result: |y| if y > 0.0 { 1.0 } else { alpha },
        specials: INFINITIES,
        graph: Some(with("LeakyReLU", &[Attribute("alpha", None)])),
        onnx: Some(with("LeakyRelu", &[Attribute("alpha", Some(0.01))])),
        onednn: &[0x20, 0x100],
    }
    /// `alpha*x + beta`
    Linear { alpha: -1.5, beta: 0.25 } "linear" {
        value: |x| alpha * x + beta,
        slope: |_x| alpha,
        specials: INFINITIES,
        cancels: true,
        onednn: &[0x26],
    }
    /// natural logarithm
    Log "log" {
        value: |x| x.ln(),
        slope: |x| 1.0 / x,
        domain: POSITIVE,
        specials: INFINITIES,
        cancels: true,
        graph: Some(named("Log")),
        onnx: Some(named("Log")),
        onednn: &[0x2d],
    }
    /// `x * tanh(ln(1 + e^x))`
    Mish "mish" {
        value: |x| x * soft_plus(x).tanh(),
        slope: |x| {
            let t = soft_plus(x).tanh();
            t + x * (1.0 - t * t) * sigmoid(x)
        },
        specials: LARGE,
        graph: Some(named("Mish")),
        onnx: Some(named("Mish")),
        onednn: &[0x33],
    }
    /// `alpha * x^beta`
    Pow { alpha: 1.5, beta: -0.7 } "pow" {
        value: |x| alpha * x.powf(beta),
        slope: |x| alpha * beta * x.powf(beta - 1.0),
        domain: POSITIVE,
        graph: Some(with("Pow", &[Always(1.0), Attribute("beta", None)])),
        onednn: &[0x30],
    }
    /// `1 / x`
    Reciprocal "reciprocal" {
        value: |x| 1.0 / x,
        slope: |x| -1.0 / (x * x),
        domain: Domain::AwayFromZero(0.1, 8.0),
        specials: INFINITIES,
        graph: Some(named("Reciprocal")),
        onnx: Some(named("Reciprocal")),
    }
    /// `max(x, 0)`
    Relu "relu" {
        value: |x| if x < 0.0 { 0.0 } else { x },
        slope: |x| inside(x > 0.0, 1.0);
        of_result: |y| inside(y > 0.0, 1.0),
        specials: INFINITIES,
        is_exact: true,
        graph: Some(named("ReLU")),
        onnx: Some(named("Relu")),
        onednn: &[0x20, 0x100],
    }
    /// nearest integer, ties to even
    Round "round" {
        value: |x| x.round_ties_even(),
        slope: |_x| FLAT,
        domain: Domain::Quarters,
        specials: INFINITIES,
        is_exact: true,
        graph: Some(named("Round")),
        onnx: Some(named("Round")),
        onednn: &[0x32],
    }
    /// `1 / (1 + e^-x)`
    Sigmoid "sigmoid" {
        value: |x| sigmoid(x),
        slope: |x| sigmoid(x) * (1.0 - sigmoid(x));
        of_result: |y| y * (1.0 - y),
        aliases: &["logistic"],
        specials: INFINITIES_AND_LARGE,
        graph: Some(named("Sigmoid")),
        onnx: Some(named("Sigmoid")),
        onednn: &[0x29, 0x104],
    }
    /// -1, 0 or 1
    Sign "sign" {
        value: |x| sign(x),
        slope: |_x| FLAT,
        domain: Domain::Quarters,
        specials: INFINITIES,
        is_exact: true,
        graph: Some(named("Sign")),
        onnx: Some(named("Sign")),
    }
    /// sine
    Sin "sin" {
        value: |x| x.sin(),
        slope: |x| x.cos(),
        graph: Some(named("Sin")),
        onnx: Some(named("Sin")),
    }
    /// hyperbolic sine
    Sinh "sinh" {
        value: |x| x.sinh(),
        slope: |x| x.cosh(),
        graph: Some(named("Sinh")),
        onnx: Some(named("Sinh")),
    }
    /// `ln(1 + e^(beta*x)) / beta`
    SoftPlus { beta: 1.5 } "soft_plus" {
        value: |x| soft_plus(beta * x) / beta,
        slope: |x| sigmoid(beta * x),
        aliases: &["softplus"],
        specials: LARGE,
        graph: Some(with("SoftPlus", &[Attribute("beta", None)])),
        onnx: Some(with("Softplus", &[Always(1.0)])),
        onednn: &[0x27],
    }
    /// square root
    Sqrt "sqrt" {
        value: |x| x.sqrt(),
        slope: |x| 0.5 / x.sqrt();
        of_result: |y| 0.5 / y,
        domain: POSITIVE,
        specials: INFINITIES,
        graph: Some(named("Sqrt")),
        onnx: Some(named("Sqrt")),
        onednn: &[0x25, 0x103],
    }
    /// `x^2`
    Square "square" {
        value: |x| x * x,
        slope: |x| 2.0 * x,
        specials: INFINITIES,
        graph: Some(named("Square")),
        onednn: &[0x23],
    }
    /// `x / (1 + e^(-alpha*x))`
    Swish { alpha: 1.5 } "swish" {
        value: |x| x * sigmoid(alpha * x),
        slope: |x| {
            let s = sigmoid(alpha * x);
            s + alpha * x * s * (1.0 - s)
        },
        aliases: &["silu"],
        specials: LARGE,
        onnx: Some(with("Swish", &[Attribute("alpha", Some(1.0))])),
        onednn: &[0x2c],
    }
    /// tangent
    Tan "tan" {
        value: |x| x.tan(),
        slope: |x| 1.0 + x.tan() * x.tan(),
        domain: Domain::Between(-1.5, 1.5),
        graph: Some(named("Tan")),
        onnx: Some(named("Tan")),
    }
    /// hyperbolic tangent
    Tanh "tanh" {
        value: |x| x.tanh(),
        slope: |x| 1.0 - x.tanh() * x.tanh();
        of_result: |y| 1.0 - y * y,
        specials: INFINITIES_AND_LARGE,
        graph: Some(named("Tanh")),
        onnx: Some(named("Tanh")),
        onednn: &[0x21, 0x101],
    }
    /// integer towards zero
    Truncate "truncate" {
        value: |x| x.trunc(),
        slope: |_x| FLAT,
        domain: Domain::Quarters,
        specials: INFINITIES,
        is_exact: true,
        graph: Some(named("Truncate")),
    }
}
