//! Operators on one tensor, element by element.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use anydnn_backend::{DataType, Result};

use super::call::Call;
use super::numbers::{Numbers, ints};
use crate::model::HostTensor;

pub(in crate::onnx) fn unary(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let (dims, data_type) = (src.dims().clone(), src.data_type());
    if let (Some(values), Some(of)) = (ints(src), of_integer(call.operator())) {
        return call.made(dims, data_type, &Numbers::Ints(values.into_iter().map(of).collect()));
    }
    if data_type == DataType::U64 && ints(src).is_none() {
        return Err(call.unfit(src));
    }
    let made = if matches!(call.operator(), "IsNaN" | "IsInf") { DataType::Boolean } else { data_type };
    let of = of_float(call)?.ok_or_else(|| call.unfit(src))?;
    let values: Vec<f64> = src.to_f64s().into_iter().map(of).collect();
    call.output(dims, made, &values)
}

fn of_integer(operator: &str) -> Option<fn(i64) -> i64> {
    Some(match operator {
        "Neg" => i64::wrapping_neg,
        "Abs" => i64::wrapping_abs,
        "Sign" => i64::signum,
        "Not" => |value| i64::from(value == 0),
        "BitwiseNot" => |value| !value,
        "Relu" => |value| value.max(0),
        "Ceil" | "Floor" | "Round" => |value| value,
        _ => return None,
    })
}

type Function = Box<dyn Fn(f64) -> f64>;

/// The function of an operator with its attributes.
fn of_float(call: &Call) -> Result<Option<Function>> {
    let node = call.node;
    let number = |name: &str, absent: f32| node.float(name, absent).map(f64::from);
    Ok(Some(match call.operator() {
        "Abs" => Box::new(f64::abs),
        "Acos" => Box::new(f64::acos),
        "Acosh" => Box::new(f64::acosh),
        "Asin" => Box::new(f64::asin),
        "Asinh" => Box::new(f64::asinh),
        "Atan" => Box::new(f64::atan),
        "Atanh" => Box::new(f64::atanh),
        "Ceil" => Box::new(f64::ceil),
        "Celu" => {
            let alpha = number("alpha", 1.0)?;
            Box::new(move |x| x.max(0.0) + (alpha * (x / alpha).exp_m1()).min(0.0))
        }
        "Cos" => Box::new(f64::cos),
        "Cosh" => Box::new(f64::cosh),
        "Elu" => {
            let alpha = number("alpha", 1.0)?;
            Box::new(move |x| if x < 0.0 { alpha * x.exp_m1() } else { x })
        }
        "Erf" => Box::new(erf),
        "Exp" => Box::new(f64::exp),
        "Floor" => Box::new(f64::floor),
        "Gelu" => match node.word("approximate", "none")?.as_str() {
            "tanh" => {
                Box::new(|x| 0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044_715 * x * x * x)).tanh()))
            }
            _ => Box::new(|x| 0.5 * x * (1.0 + erf(x * FRAC_1_SQRT_2))),
        },
        "HardSigmoid" => {
            let (alpha, beta) = (number("alpha", 0.2)?, number("beta", 0.5)?);
            Box::new(move |x| (alpha * x + beta).clamp(0.0, 1.0))
        }
        "HardSwish" => Box::new(|x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0)),
        "IsInf" => {
            let (below, above) = (node.flag("detect_negative", true)?, node.flag("detect_positive", true)?);
            Box::new(move |x| f64::from(x.is_infinite() && if x > 0.0 { above } else { below }))
        }
        "IsNaN" => Box::new(|x| f64::from(x.is_nan())),
        "LeakyRelu" => {
            let alpha = number("alpha", 0.01)?;
            Box::new(move |x| if x < 0.0 { alpha * x } else { x })
        }
        "Log" => Box::new(f64::ln),
        "Mish" => Box::new(|x| x * softplus(x).tanh()),
        "Neg" => Box::new(|x| -x),
        "Reciprocal" => Box::new(|x| 1.0 / x),
        "Relu" => Box::new(|x| if x < 0.0 { 0.0 } else { x }),
        "Round" => Box::new(f64::round_ties_even),
        "Selu" => {
            let (alpha, gamma) = (number("alpha", 1.673_263_2)?, number("gamma", 1.050_701)?);
            Box::new(move |x| gamma * if x < 0.0 { alpha * x.exp_m1() } else { x })
        }
        "Shrink" => {
            let (bias, limit) = (number("bias", 0.0)?, number("lambd", 0.5)?);
            Box::new(move |x| {
                if x < -limit {
                    x + bias
                } else if x > limit {
                    x - bias
                } else {
                    0.0
                }
            })
        }
        "Sigmoid" => Box::new(sigmoid),
        "Sign" => Box::new(|x| if x == 0.0 || x.is_nan() { x } else { x.signum() }),
        "Sin" => Box::new(f64::sin),
        "Sinh" => Box::new(f64::sinh),
        "Softplus" => Box::new(softplus),
        "Softsign" => Box::new(|x| x / (1.0 + x.abs())),
        "Sqrt" => Box::new(f64::sqrt),
        "Swish" => {
            let alpha = number("alpha", 1.0)?;
            Box::new(move |x| x * sigmoid(alpha * x))
        }
        "Tan" => Box::new(f64::tan),
        "Tanh" => Box::new(f64::tanh),
        "ThresholdedRelu" => {
            let alpha = number("alpha", 1.0)?;
            Box::new(move |x| if x > alpha { x } else { 0.0 })
        }
        _ => return Ok(None),
    }))
}

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The logarithm of 1 + e^x without overflow.
pub(super) fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// The error function: its power series near zero, a continued fraction of the complement (Abramowitz and Stegun 7.1.6 and 7.1.14) farther
/// out.
pub(super) fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let size = x.abs();
    if size > 6.0 {
        return x.signum();
    }
    if size < 2.5 {
        let (mut term, mut sum) = (x, x);
        for n in 1..80 {
            term *= 2.0 * x * x / f64::from(2 * n + 1);
            sum += term;
        }
        return sum * 2.0 / PI.sqrt() * (-x * x).exp();
    }
    let fraction = (1..=60).rev().fold(0.0, |rest, n| f64::from(n) / 2.0 / (size + rest));
    let complement = (-size * size).exp() / PI.sqrt() / (size + fraction);
    x.signum() * (1.0 - complement)
}
