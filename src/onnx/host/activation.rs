//! Operators on one tensor, element by element.

use anydnn_backend::{MemoryDesc, Result};

use super::call::Call;
use super::numbers::{Numbers, ints};
use super::whole;
use crate::model::HostTensor;

pub(in crate::onnx) fn unary(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let (dims, data_type) = (src.dims().clone(), src.data_type());
    if let Some(bytes) = whole::unary(call.operator(), src) {
        call.take(&dims, data_type)?;
        return Ok(vec![HostTensor::new(MemoryDesc::new(dims, data_type), bytes)?]);
    }
    if let (Some(values), Some(of)) = (ints(src), of_integer(call.operator())) {
        return call.made(dims, data_type, &Numbers::Ints(values.into_iter().map(of).collect()));
    }
    let of = of_float(call)?.ok_or_else(|| call.unfit(src))?;
    let values: Vec<f64> = src.to_f64s().into_iter().map(of).collect();
    call.output(dims, data_type, &values)
}

fn of_integer(operator: &str) -> Option<fn(i64) -> i64> {
    Some(match operator {
        "Sign" => i64::signum,
        "Ceil" | "Floor" | "Round" => |value| value,
        _ => return None,
    })
}

type Scalar = Box<dyn Fn(f64) -> f64>;

/// The function of an operator that the graph does not have.
fn of_float(call: &Call) -> Result<Option<Scalar>> {
    let number = |name: &str, absent: f32| call.node.float(name, absent).map(f64::from);
    Ok(Some(match call.operator() {
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
