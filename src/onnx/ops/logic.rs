//! Comparisons, truth values and choices by them.

use anydnn_backend::{DataType, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::floats;
use crate::graph::{Attrs, OpKind};

/// Comparisons and connections of two tensors that broadcast.
pub(super) fn truth(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    let kind = match node.operator() {
        "And" => OpKind::And,
        "Equal" => OpKind::Equal,
        "Greater" => OpKind::Greater,
        "GreaterOrEqual" => OpKind::GreaterEqual,
        "Less" => OpKind::Less,
        "LessOrEqual" => OpKind::LessEqual,
        "Or" => OpKind::Or,
        _ => OpKind::Xor,
    };
    Ok(vec![network.op(node, kind, &[a, b], Attrs::new())?])
}

pub(super) fn not(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = node.input(0)?;
    let no = network.scalar(node, 0.0, src)?;
    Ok(vec![network.op(node, OpKind::Equal, &[src, &no], Attrs::new())?])
}

/// Only what is no number differs from itself.
pub(super) fn is_nan(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    Ok(vec![network.op(node, OpKind::NotEqual, &[src, src], Attrs::new())?])
}

pub(super) fn is_infinite(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let (negative, positive) = (node.flag("detect_negative", true)?, node.flag("detect_positive", true)?);
    let infinity = if positive || !negative { f64::INFINITY } else { f64::NEG_INFINITY };
    let limit = network.scalar(node, infinity, src)?;
    if !negative && !positive {
        // Nothing is greater than infinity.
        return Ok(vec![network.op(node, OpKind::Greater, &[src, &limit], Attrs::new())?]);
    }
    let size =
        if negative && positive { network.op(node, OpKind::Abs, &[src], Attrs::new())? } else { src.clone() };
    Ok(vec![network.op(node, OpKind::Equal, &[&size, &limit], Attrs::new())?])
}

/// A choice between two inputs by a third.
pub(super) fn choose(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (condition, a, b) = (node.input(0)?, node.input(1)?, node.input(2)?);
    if condition.data_type != DataType::Boolean || a.data_type != b.data_type {
        let given = format!("{}, {} and {}", condition.data_type, a.data_type, b.data_type);
        return Err(node.invalid("types", given, "a truth value and two of the same type"));
    }
    Ok(vec![network.op(node, OpKind::Select, &[condition, a, b], Attrs::new())?])
}
