//! Element by element.

use anydnn_backend::{DataType, Dims, Result};

use super::super::network::Room;
use super::super::node::Node;
use super::{Known, ints, known, of_ints, one_output, unfit};
use crate::model::HostTensor;

/// Two inputs that broadcast.
pub(in crate::onnx) fn binary(node: &Node, inputs: Known, room: &mut Room) -> Result<Vec<HostTensor>> {
    if inputs.len() != 2 {
        return Err(node.unsupported("it is computed of two inputs"));
    }
    let (a, b) = (known(node, inputs, 0)?, known(node, inputs, 1)?);
    let dims = a.dims().broadcast(b.dims())?;
    let data_type = a.data_type();
    if data_type.bits() < 8 || b.data_type() != data_type {
        return Err(unfit(node, a));
    }
    room.take(&dims, data_type)?;
    let compares = matches!(
        node.operator(),
        "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" | "And" | "Or" | "Xor"
    );
    let result = if compares { DataType::Boolean } else { data_type };
    if let (Some(a_values), Some(b_values)) = (ints(a), ints(b)) {
        let values: Option<Vec<i64>> = pairs(a.dims(), b.dims(), &dims)
            .map(|(i, j)| of_integers(node, a_values[i], b_values[j]))
            .collect();
        let values = values.ok_or_else(|| unfit(node, a))?;
        return of_ints(dims, result, &values).map(one_output);
    }
    let (a_values, b_values) = (a.to_f64s(), b.to_f64s());
    let values: Option<Vec<f64>> =
        pairs(a.dims(), b.dims(), &dims).map(|(i, j)| of_floats(node, a_values[i], b_values[j])).collect();
    HostTensor::from_f64(dims, result, &values.ok_or_else(|| unfit(node, a))?).map(one_output)
}

fn of_integers(node: &Node, a: i64, b: i64) -> Option<i64> {
    Some(match node.operator() {
        "Add" => a.wrapping_add(b),
        "Sub" => a.wrapping_sub(b),
        "Mul" => a.wrapping_mul(b),
        "Div" => a.checked_div(b)?,
        // The remainder has the sign of the divisor, unless `fmod` asks for that of the dividend.
        "Mod" if node.int("fmod", 0).ok()? == 0 => {
            let rest = a.checked_rem(b)?;
            if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
        }
        "Mod" => a.checked_rem(b)?,
        "Min" => a.min(b),
        "Max" => a.max(b),
        "Pow" => a.checked_pow(u32::try_from(b).ok()?)?,
        "Equal" => i64::from(a == b),
        "Less" => i64::from(a < b),
        "LessOrEqual" => i64::from(a <= b),
        "Greater" => i64::from(a > b),
        "GreaterOrEqual" => i64::from(a >= b),
        "And" => i64::from(a != 0 && b != 0),
        "Or" => i64::from(a != 0 || b != 0),
        "Xor" => i64::from((a != 0) != (b != 0)),
        _ => return None,
    })
}

/// Twice the precision of f32, so that rounding to f32 afterwards gives what f32 would.
#[expect(clippy::float_cmp, reason = "the operator compares for equality")]
fn of_floats(node: &Node, a: f64, b: f64) -> Option<f64> {
    Some(match node.operator() {
        "Add" => a + b,
        "Sub" => a - b,
        "Mul" => a * b,
        "Div" => a / b,
        "Min" if !a.is_nan() && !b.is_nan() => a.min(b),
        "Max" if !a.is_nan() && !b.is_nan() => a.max(b),
        "Equal" => f64::from(a == b),
        "Less" => f64::from(a < b),
        "LessOrEqual" => f64::from(a <= b),
        "Greater" => f64::from(a > b),
        "GreaterOrEqual" => f64::from(a >= b),
        _ => return None,
    })
}

/// One input.
pub(in crate::onnx) fn unary(node: &Node, inputs: Known, room: &mut Room) -> Result<Vec<HostTensor>> {
    let src = known(node, inputs, 0)?;
    if src.data_type().bits() < 8 {
        return Err(unfit(node, src));
    }
    room.take(src.dims(), src.data_type())?;
    if let Some(values) = ints(src) {
        let of = |value: i64| {
            Some(match node.operator() {
                "Neg" => value.wrapping_neg(),
                "Abs" => value.wrapping_abs(),
                "Not" => i64::from(value == 0),
                _ => return None,
            })
        };
        let values: Option<Vec<i64>> = values.into_iter().map(of).collect();
        let values = values.ok_or_else(|| unfit(node, src))?;
        return of_ints(src.dims().clone(), src.data_type(), &values).map(one_output);
    }
    let of = |value: f64| {
        Some(match node.operator() {
            "Neg" => -value,
            "Abs" => value.abs(),
            "Sqrt" => value.sqrt(),
            "Reciprocal" => 1.0 / value,
            "Floor" => value.floor(),
            "Ceil" => value.ceil(),
            "Round" => value.round_ties_even(),
            _ => return None,
        })
    };
    let values: Option<Vec<f64>> = src.to_f64s().into_iter().map(of).collect();
    let values = values.ok_or_else(|| unfit(node, src))?;
    HostTensor::from_f64(src.dims().clone(), src.data_type(), &values).map(one_output)
}

/// Conversion to another type. Floats lose their fraction on the way to integers.
pub(in crate::onnx) fn cast(node: &Node, inputs: Known, room: &mut Room) -> Result<Vec<HostTensor>> {
    let src = known(node, inputs, 0)?;
    let to = super::super::ops::cast_type(node)?;
    room.take(src.dims(), to)?;
    if let Some(values) = ints(src) {
        return of_ints(src.dims().clone(), to, &values).map(one_output);
    }
    let (values, limited) = (src.to_f64s(), node.flag("saturate", true)?);
    let values: Vec<f64> = match to {
        DataType::Boolean => values.into_iter().map(|value| f64::from(value != 0.0)).collect(),
        to if to.is_integer() => values.into_iter().map(f64::trunc).collect(),
        DataType::F8E4M3 if limited => values.into_iter().map(|value| value.clamp(-448.0, 448.0)).collect(),
        DataType::F8E5M2 if limited => {
            values.into_iter().map(|value| value.clamp(-57344.0, 57344.0)).collect()
        }
        _ => values,
    };
    HostTensor::from_f64(src.dims().clone(), to, &values).map(one_output)
}

/// A choice between two inputs by a third.
pub(in crate::onnx) fn choose(node: &Node, inputs: Known, room: &mut Room) -> Result<Vec<HostTensor>> {
    let (condition, a, b) = (known(node, inputs, 0)?, known(node, inputs, 1)?, known(node, inputs, 2)?);
    let dims = condition.dims().broadcast(&a.dims().broadcast(b.dims())?)?;
    let (Some(choices), Some(a_values), Some(b_values)) = (ints(condition), ints(a), ints(b)) else {
        return Err(unfit(node, a));
    };
    room.take(&dims, a.data_type())?;
    let of_a = pairs(condition.dims(), a.dims(), &dims);
    let of_b = pairs(condition.dims(), b.dims(), &dims);
    let values: Vec<i64> = of_a
        .zip(of_b)
        .map(|((c, i), (_, j))| if choices[c] != 0 { a_values[i] } else { b_values[j] })
        .collect();
    of_ints(dims, a.data_type(), &values).map(one_output)
}

/// The places in two tensors of each element of what they broadcast to.
fn pairs(a: &Dims, b: &Dims, dims: &Dims) -> impl Iterator<Item = (usize, usize)> + use<> {
    places(a, dims).zip(places(b, dims))
}

/// The place in a tensor of each element of what it broadcasts to.
pub(super) fn places(from: &Dims, to: &Dims) -> impl Iterator<Item = usize> + use<> {
    let from = from.padded_to_rank(to.len());
    let strides = from.row_major_strides();
    to.indices().map(move |index| {
        let parts = index.iter().zip(strides.iter()).zip(from.iter());
        parts.map(|((&i, &stride), &dim)| if dim == 1 { 0 } else { i * stride }).sum()
    })
}
