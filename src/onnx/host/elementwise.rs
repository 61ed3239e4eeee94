//! Operators on two and more tensors that broadcast.

use anydnn_backend::{DataType, Dims, MemoryDesc, Result};

use super::call::Call;
use super::numbers::{Numbers, cells, ints, of_cells, places, unsigned};
use super::whole;
use crate::model::HostTensor;

/// Two inputs.
pub(in crate::onnx) fn binary(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    let dims = a.dims().broadcast(b.dims())?;
    pair(call, a, b, dims)
}

/// Any number of inputs, from the first on.
pub(in crate::onnx) fn variadic(call: &mut Call) -> Result<Vec<HostTensor>> {
    let inputs = call.all()?;
    let mut dims = Dims::default();
    for input in &inputs {
        dims = dims.broadcast(input.dims())?;
    }
    let mut result = inputs[0].clone();
    if *result.dims() != dims {
        result = super::numbers::picked(&result, dims.clone(), places(inputs[0].dims(), &dims))?;
    }
    for input in &inputs[1..] {
        result = pair(call, &result, input, dims.clone())?.remove(0);
    }
    Ok(vec![result])
}

fn pair(call: &mut Call, a: &HostTensor, b: &HostTensor, dims: Dims) -> Result<Vec<HostTensor>> {
    let operator = call.operator();
    let data_type = a.data_type();
    // Only powers have an exponent of a type of its own.
    if b.data_type() != data_type && operator != "Pow" {
        return Err(call.invalid("inputs", format!("{} and {}", a.desc(), b.desc()), "one type"));
    }
    let compares = orders(operator) || matches!(operator, "And" | "Or" | "Xor");
    let result = if compares { DataType::Boolean } else { data_type };
    call.take(&dims, result)?;
    let fmod = call.node.int("fmod", 0)? != 0;
    let whole = (b.data_type() == data_type).then(|| whole::binary(operator, fmod, a, b, &dims));
    if let Some(bytes) = whole.flatten() {
        return Ok(vec![HostTensor::new(MemoryDesc::new(dims, result), bytes)?]);
    }
    let pairs = places(a.dims(), &dims).into_iter().zip(places(b.dims(), &dims));
    let leftwards = call.node.word("direction", "")? == "LEFT";
    if let (Some(a_values), Some(b_values)) = (unsigned(a), unsigned(b)) {
        let values: Option<Vec<u64>> =
            pairs.map(|(i, j)| of_words(operator, leftwards, a_values[i], b_values[j])).collect();
        return call.made(dims, result, &Numbers::Words(values.ok_or_else(|| call.unfit(a))?));
    }
    if let (Some(a_values), Some(b_values)) = (ints(a), ints(b)) {
        let values: Option<Vec<i64>> =
            pairs.map(|(i, j)| of_integers(operator, leftwards, a_values[i], b_values[j])).collect();
        let values = values.ok_or_else(|| call.unfit(a))?;
        return call.made(dims, result, &Numbers::Ints(values));
    }
    if orders(operator) && a.data_type().is_float() {
        let (a_values, b_values) = (a.to_f64s(), b.to_f64s());
        let values = pairs.map(|(i, j)| i64::from(of_floats(operator, a_values[i], b_values[j])));
        return call.made(dims, result, &Numbers::Ints(values.collect()));
    }
    if is_arithmetic(operator) && a.data_type().is_float() && a.data_type().bits() <= 32 {
        let (a_values, b_values) = (a.to_f64s(), b.to_f64s());
        let values: Vec<f64> = pairs.map(|(i, j)| arithmetic(operator, a_values[i], b_values[j])).collect();
        return call.output(dims, result, &values);
    }
    Err(call.unfit(b))
}

/// Whether an operator is arithmetic that f64 rounds to what narrower floats are rounded to at once.
pub(in crate::onnx) fn is_arithmetic(operator: &str) -> bool {
    matches!(operator, "Add" | "Sub" | "Mul" | "Div")
}

fn arithmetic(operator: &str, a: f64, b: f64) -> f64 {
    match operator {
        "Add" => a + b,
        "Sub" => a - b,
        "Mul" => a * b,
        _ => a / b,
    }
}

/// Whether an operator tells which of two numbers is larger.
pub(in crate::onnx) fn orders(operator: &str) -> bool {
    matches!(operator, "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual")
}

/// NaN is not in any order with a number.
fn of_floats(operator: &str, a: f64, b: f64) -> bool {
    let Some(order) = a.partial_cmp(&b) else { return false };
    match operator {
        "Equal" => order.is_eq(),
        "Less" => order.is_lt(),
        "LessOrEqual" => order.is_le(),
        "Greater" => order.is_gt(),
        _ => order.is_ge(),
    }
}

/// What is left by [`whole::binary`]; none for a division by zero. `leftwards` says where shifts go.
fn of_integers(operator: &str, leftwards: bool, a: i64, b: i64) -> Option<i64> {
    let shift = || u32::try_from(b).ok().filter(|&b| b < 64);
    Some(match operator {
        "Pow" if b < 0 => match a {
            1 => 1,
            -1 => 1 - 2 * (b & 1),
            _ => 0,
        },
        "Pow" => a.wrapping_pow(u32::try_from(b).ok()?),
        // Of truth values.
        "Equal" => i64::from(a == b),
        "BitShift" if leftwards => shift().map_or(0, |b| a.wrapping_shl(b)),
        "BitShift" => shift().map_or(0, |b| a.wrapping_shr(b)),
        "PRelu" => {
            if a < 0 {
                a.wrapping_mul(b)
            } else {
                a
            }
        }
        _ => return None,
    })
}

/// Integers without sign of 64 bits: what is not the same with a sign.
fn of_words(operator: &str, leftwards: bool, a: u64, b: u64) -> Option<u64> {
    Some(match operator {
        "Pow" => a.wrapping_pow(u32::try_from(b).ok()?),
        "BitShift" if !leftwards => u32::try_from(b).ok().and_then(|b| a.checked_shr(b)).unwrap_or(0),
        "PRelu" => a,
        _ => of_integers(operator, leftwards, a as i64, b as i64)? as u64,
    })
}

/// Limits in attributes, or since opset 11 in inputs, each of which may be absent.
pub(in crate::onnx) fn clip(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let (dims, data_type) = (src.dims().clone(), src.data_type());
    let mut values = ints(src).ok_or_else(|| call.unfit(src))?;
    let (low, high) = (call.int(1)?.unwrap_or(i64::MIN), call.int(2)?.unwrap_or(i64::MAX));
    values.iter_mut().for_each(|value| *value = (*value).max(low).min(high));
    call.made(dims, data_type, &Numbers::Ints(values))
}

/// A choice between two inputs by a third.
pub(in crate::onnx) fn choose(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (condition, a, b) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    if a.data_type() != b.data_type() {
        return Err(call.invalid("inputs", format!("{} and {}", a.desc(), b.desc()), "one type"));
    }
    let dims = condition.dims().broadcast(&a.dims().broadcast(b.dims())?)?;
    let choices = call.ints(0)?;
    call.take(&dims, a.data_type())?;
    let (a_cells, b_cells) = (cells(a), cells(b));
    let mut bytes = Vec::with_capacity(dims.elements().saturating_mul(a_cells.size));
    let pairs = places(a.dims(), &dims).into_iter().zip(places(b.dims(), &dims));
    for (at, (i, j)) in places(condition.dims(), &dims).into_iter().zip(pairs) {
        bytes.extend_from_slice(if choices[at] != 0 { a_cells.at(i) } else { b_cells.at(j) });
    }
    Ok(vec![of_cells(dims, a.data_type(), bytes)?])
}
