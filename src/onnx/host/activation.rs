//! Operators on one tensor, element by element.

use anydnn_backend::op::{EltwiseAttributes, Function};
use anydnn_backend::{DataType, Error, Result};

use super::call::Call;
use super::numbers::{Numbers, ints};
use crate::model::HostTensor;
use crate::onnx::node::Node;

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

type Scalar = Box<dyn Fn(f64) -> f64>;

/// The function of an operator with its attributes.
fn of_float(call: &Call) -> Result<Option<Scalar>> {
    let node = call.node;
    if let Some(function) = Function::of_onnx(call.operator(), node)? {
        return Ok(Some(Box::new(move |x| function.reference(x))));
    }
    let number = |name: &str, absent: f32| node.float(name, absent).map(f64::from);
    Ok(Some(match call.operator() {
        "Celu" => {
            let alpha = number("alpha", 1.0)?;
            Box::new(move |x| x.max(0.0) + (alpha * (x / alpha).exp_m1()).min(0.0))
        }
        "IsInf" => {
            let (below, above) = (node.flag("detect_negative", true)?, node.flag("detect_positive", true)?);
            Box::new(move |x| f64::from(x.is_infinite() && if x > 0.0 { above } else { below }))
        }
        "IsNaN" => Box::new(|x| f64::from(x.is_nan())),
        "Neg" => Box::new(|x| -x),
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
        "Softsign" => Box::new(|x| x / (1.0 + x.abs())),
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

impl EltwiseAttributes<Error> for Node<'_> {
    fn number(&self, name: &str, absent: Option<f32>) -> Result<f32> {
        // Every parameter of an operator has a value of its own.
        self.float(name, absent.unwrap_or_default())
    }

    fn is(&self, name: &str, word: &str) -> bool {
        self.word(name, "none").is_ok_and(|given| given == word)
    }
}
