//! Operators on two and more tensors that broadcast, and conversions.

use anydnn_backend::{DataType, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::super::tensor;
use super::{check_floats, folding, is_whole, known_number, moved, numbers};
use crate::graph::{Attrs, OpKind};

pub(super) fn binary(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (a, b) = (numbers(node, 0)?, numbers(node, 1)?);
    if let Some(same) = without_neutral(network, node)? {
        return Ok(vec![same]);
    }
    if let Some(folded) = folding::of_channels(network, node)? {
        return Ok(vec![folded]);
    }
    let kind = match node.operator() {
        "Add" => OpKind::Add,
        "Sub" => OpKind::Subtract,
        "Mul" => OpKind::Multiply,
        _ if is_whole(a.data_type) => OpKind::Quotient,
        _ => OpKind::Divide,
    };
    if let Some(moved) = moved::before_views(network, node, kind)? {
        return Ok(vec![moved]);
    }
    if let Some(sum) = sum_of_sums(network, node, kind)? {
        return Ok(vec![sum]);
    }
    if kind != OpKind::Quotient && matches!(a.data_type, DataType::S8 | DataType::U8) {
        return wrapped(network, node, kind, [a, b]).map(|wrapped| vec![wrapped]);
    }
    Ok(vec![network.op(node, kind, &[a, b], Attrs::new())?])
}

/// Arithmetic of integers of eight bits, which goes on at the other end of its type where the graph's operations stay at this one.
fn wrapped(network: &mut Network, node: &Node, kind: OpKind, operands: [&Value; 2]) -> Result<Value> {
    let data_type = operands[0].data_type;
    // Floats of 32 bits have products of these, and all that follows, to the last digit.
    let mut value = network.op_to(node, kind, &operands, Attrs::new(), Some(DataType::F32))?;
    let lowest = if data_type == DataType::S8 { Some(network.scalar(node, -128.0, &value)?) } else { None };
    if let Some(lowest) = &lowest {
        value = network.op(node, OpKind::Subtract, &[&value, lowest], Attrs::new())?;
    }
    let (part, count) = (network.scalar(node, 1.0 / 256.0, &value)?, network.scalar(node, 256.0, &value)?);
    let turns = network.op(node, OpKind::Multiply, &[&value, &part], Attrs::new())?;
    let turns = network.op(node, OpKind::Floor, &[&turns], Attrs::new())?;
    let turns = network.op(node, OpKind::Multiply, &[&turns, &count], Attrs::new())?;
    value = network.op(node, OpKind::Subtract, &[&value, &turns], Attrs::new())?;
    if let Some(lowest) = &lowest {
        value = network.op(node, OpKind::Add, &[&value, lowest], Attrs::new())?;
    }
    network.converted(node, &value, data_type)
}

/// The other operand where one is a number that changes nothing, as exporters copy the states of loops. A zero keeps its sign.
fn without_neutral(network: &Network, node: &Node) -> Result<Option<Value>> {
    let (neutral, commutes) = match node.operator() {
        "Add" => (0.0, true),
        "Sub" => (0.0, false),
        "Mul" => (1.0, true),
        _ => (1.0, false),
    };
    for (at, other) in [(1, 0), (0, 1)].into_iter().take(if commutes { 2 } else { 1 }) {
        let (number, kept) = (node.input(at)?, node.input(other)?);
        let single = number.dims.elements() == 1 && number.rank() <= kept.rank();
        if single
            && number.data_type == kept.data_type
            && known_number(network, node, number)? == Some(neutral)
        {
            return Ok(Some(kept.clone()));
        }
    }
    Ok(None)
}

/// A sum of products of integers and others, as of a bias, which the device has as floats like the sum that it is part of: a bias, the scale and
/// a function go with the products then.
fn sum_of_sums(network: &mut Network, node: &Node, kind: OpKind) -> Result<Option<Value>> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    let are_32_bits = [a, b].iter().all(|value| value.data_type == DataType::S32);
    let is_of_sums = network.is_sum(a) || network.is_sum(b);
    if !matches!(kind, OpKind::Add | OpKind::Subtract) || !are_32_bits || !is_of_sums {
        return Ok(None);
    }
    let mut floats = |value: &Value| match network.as_floats(value) {
        Some(floats) => Ok(floats),
        None => network.converted(node, value, DataType::F32),
    };
    let (a, b) = (floats(a)?, floats(b)?);
    let sum = network.op(node, kind, &[&a, &b], Attrs::new())?;
    network.whole(node, &sum).map(Some)
}

/// Sum, mean, least and greatest of any number of tensors.
pub(super) fn variadic(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let inputs = node.all_inputs()?;
    for input in &inputs {
        if node.operator() == "Mean" || !is_whole(input.data_type) {
            check_floats(node, input)?;
        }
    }
    let kind = match node.operator() {
        "Max" => OpKind::Maximum,
        "Min" => OpKind::Minimum,
        _ => OpKind::Add,
    };
    let mut result = inputs[0].clone();
    for input in &inputs[1..] {
        result = network.op(node, kind, &[&result, input], Attrs::new())?;
    }
    if node.operator() == "Mean" && inputs.len() > 1 {
        let part = network.scalar(node, 1.0 / inputs.len() as f64, &result)?;
        result = network.op(node, OpKind::Multiply, &[&result, &part], Attrs::new())?;
    }
    Ok(vec![result])
}

/// Powers, with a known exponent or one for each element.
#[expect(clippy::float_cmp, reason = "only exactly these have a shorter form")]
pub(super) fn power(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (base, exponent) = (numbers(node, 0)?, numbers(node, 1)?);
    let single = exponent.dims.elements() == 1 && exponent.rank() <= base.rank();
    let number = if single { known_number(network, node, exponent)? } else { None };
    if is_whole(base.data_type) {
        return match number {
            Some(1.0) => Ok(vec![base.clone()]),
            Some(2.0) => Ok(vec![network.op(node, OpKind::Multiply, &[base, base], Attrs::new())?]),
            _ => Err(node.unsupported("of integers only squares are computed on a device")),
        };
    }
    let Some(number) = number else {
        let exponent = network.converted(node, exponent, base.data_type)?;
        return Ok(vec![network.op(node, OpKind::Power, &[base, &exponent], Attrs::new())?]);
    };
    Ok(vec![if number == 2.0 {
        network.op(node, OpKind::Square, &[base], Attrs::new())?
    } else if number == 1.0 {
        base.clone()
    } else {
        network.op(node, OpKind::Pow, &[base], Attrs::new().with("beta", number as f32))?
    }])
}

/// What a division leaves: with the sign of the divisor, or of the dividend where the node says so.
pub(super) fn remainder(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (a, b) = (numbers(node, 0)?, numbers(node, 1)?);
    let kind = if node.flag("fmod", false)? { OpKind::Remainder } else { OpKind::Modulo };
    Ok(vec![network.op(node, kind, &[a, b], Attrs::new())?])
}

pub(super) fn cast(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (src, to) = (node.input(0)?, cast_type(node)?);
    if src.data_type == to {
        return Ok(vec![src.clone()]);
    }
    if let Some(same) = network.as_floats(src).filter(|same| same.data_type == to) {
        return Ok(vec![same]);
    }
    let unlike = |why: &str| {
        let from = src.data_type;
        node.unsupported(format!("values given on execution are not converted from {from} to {to}: {why}"))
    };
    let result = match to {
        DataType::Boolean => {
            let zero = network.scalar(node, 0.0, src)?;
            network.op(node, OpKind::NotEqual, &[src, &zero], Attrs::new())?
        }
        to if to.is_float() && to.bits() > 8 => network.converted(node, src, to)?,
        DataType::S32 | DataType::S64 | DataType::S8 | DataType::U8 if src.data_type.is_float() => {
            // A conversion rounds; what is whole stays.
            let whole = network.op(node, OpKind::Truncate, &[src], Attrs::new())?;
            network.cut(node, &whole, to)?
        }
        DataType::S32 | DataType::S64 => network.converted(node, src, to)?,
        DataType::S8 | DataType::U8 if src.data_type == DataType::Boolean => {
            network.converted(node, src, to)?
        }
        _ => return Err(unlike("what the type does not hold would wrap around")),
    };
    Ok(vec![result])
}

/// The type that a conversion makes.
fn cast_type(node: &Node) -> Result<DataType> {
    if node.operator() == "CastLike" {
        return Ok(node.input(1)?.data_type);
    }
    tensor::data_type(i32::try_from(node.int("to", 0)?).unwrap_or(-1))
}
