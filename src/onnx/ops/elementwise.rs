//! Operators on two and more tensors that broadcast, and conversions.

use anydnn_backend::{DataType, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::super::tensor;
use super::{check_floats, floats, known_number};
use crate::graph::{Attrs, OpKind};

pub(super) fn binary(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (a, b) = (floats(node, 0)?, floats(node, 1)?);
    let kind = match node.operator() {
        "Add" => OpKind::Add,
        "Sub" => OpKind::Subtract,
        "Mul" => OpKind::Multiply,
        _ => OpKind::Divide,
    };
    Ok(vec![network.op(node, kind, &[a, b], Attrs::new())?])
}

/// Sum, mean, least and greatest of any number of tensors.
pub(super) fn variadic(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let inputs = node.all_inputs()?;
    for input in &inputs {
        check_floats(node, input)?;
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

/// Powers with a known exponent.
#[expect(clippy::float_cmp, reason = "only exactly these have a shorter form")]
pub(super) fn power(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (base, exponent) = (floats(node, 0)?, node.input(1)?);
    let single = exponent.dims.elements() == 1 && exponent.rank() <= base.rank();
    let number = if single { known_number(network, node, exponent)? } else { None };
    let Some(number) = number else {
        return Err(node.unsupported("only one exponent that is known when the model is imported is read"));
    };
    Ok(vec![if number == 2.0 {
        network.op(node, OpKind::Square, &[base], Attrs::new())?
    } else if number == 1.0 {
        base.clone()
    } else {
        network.op(node, OpKind::Pow, &[base], Attrs::new().with("beta", number as f32))?
    }])
}

pub(super) fn cast(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (src, to) = (node.input(0)?, cast_type(node)?);
    if src.data_type == to {
        return Ok(vec![src.clone()]);
    }
    if !to.is_float() || to.bits() == 8 {
        // TypeCast rounds to integers where ONNX cuts off, and ends in infinity where ONNX has the largest number of 8 bits.
        let why = format!("values given on execution are not converted from {} to {to}", src.data_type);
        return Err(node.unsupported(why));
    }
    Ok(vec![network.op_to(node, OpKind::TypeCast, &[src], Attrs::new(), Some(to))?])
}

/// The type that a conversion makes.
pub(in crate::onnx) fn cast_type(node: &Node) -> Result<DataType> {
    tensor::data_type(i32::try_from(node.int("to", 0)?).unwrap_or(-1))
}
