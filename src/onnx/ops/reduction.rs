//! Reductions.

use anydnn_backend::{DataType, Result};

use super::super::axes::marked;
use super::super::network::{Network, Value};
use super::super::node::Node;
use super::{floats, input_or_ints};
use crate::graph::{Attrs, OpKind};

/// Which axes a reduction has.
fn reduced(network: &mut Network, node: &Node, rank: usize) -> Result<Vec<bool>> {
    let axes = input_or_ints(network, node, 1, "axes")?.unwrap_or_default();
    if axes.is_empty() {
        return Ok(vec![!node.flag("noop_with_empty_axes", false)?; rank]);
    }
    marked(node, &axes, rank)
}

/// The logarithm of a sum of powers, which no power of itself is too large for: of those by how much numbers are below the largest one.
pub(super) fn log_sum_exp(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let gone = reduced(network, node, src.rank())?;
    let axes: Vec<i64> = (0..src.rank()).filter(|&axis| gone[axis]).map(|axis| axis as i64).collect();
    if src.dims.elements() == 0 {
        return Err(node.unsupported("no largest of no numbers"));
    }
    if axes.is_empty() {
        return Ok(vec![src.clone()]);
    }
    let attrs = || Attrs::new().with("axes", axes.clone()).with("keep_dims", true);
    // Infinite ones are not subtracted from themselves.
    let most = largest(src.data_type);
    let (most, least) = (network.scalar(node, most, src)?, network.scalar(node, -most, src)?);
    let largest = network.op(node, OpKind::ReduceMax, &[src], attrs())?;
    let largest = network.op(node, OpKind::Minimum, &[&largest, &most], Attrs::new())?;
    let largest = network.op(node, OpKind::Maximum, &[&largest, &least], Attrs::new())?;
    let below = network.op(node, OpKind::Subtract, &[src, &largest], Attrs::new())?;
    let powers = network.op(node, OpKind::Exp, &[&below], Attrs::new())?;
    let sum = network.op(node, OpKind::ReduceSum, &[&powers], attrs())?;
    let logarithm = network.op(node, OpKind::Log, &[&sum], Attrs::new())?;
    let result = network.op(node, OpKind::Add, &[&logarithm, &largest], Attrs::new())?;
    if node.flag("keepdims", true)? {
        return Ok(vec![result]);
    }
    let dims = (0..src.rank()).filter(|&axis| !gone[axis]).map(|axis| src.dims[axis]).collect();
    Ok(vec![network.reshape(node, &result, dims)?])
}

/// The largest finite number of a type.
fn largest(data_type: DataType) -> f64 {
    match data_type {
        DataType::F16 => f64::from(half::f16::MAX),
        DataType::BF16 => f64::from(half::bf16::MAX),
        DataType::F64 => f64::MAX,
        _ => f64::from(f32::MAX),
    }
}

pub(super) fn reduce(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let gone = reduced(network, node, src.rank())?;
    let axes: Vec<i64> = (0..src.rank()).filter(|&axis| gone[axis]).map(|axis| axis as i64).collect();
    let (kind, squared, logarithm) = match node.operator() {
        "ReduceL1" => (OpKind::ReduceL1, false, false),
        "ReduceL2" => (OpKind::ReduceL2, false, false),
        "ReduceMax" => (OpKind::ReduceMax, false, false),
        "ReduceMean" => (OpKind::ReduceMean, false, false),
        "ReduceMin" => (OpKind::ReduceMin, false, false),
        "ReduceProd" => (OpKind::ReduceProd, false, false),
        "ReduceSumSquare" => (OpKind::ReduceSum, true, false),
        "ReduceLogSum" => (OpKind::ReduceSum, false, true),
        _ => (OpKind::ReduceSum, false, false),
    };
    let mut result = src.clone();
    if squared {
        result = network.op(node, OpKind::Square, &[&result], Attrs::new())?;
    }
    // A fold of single elements is the elements; those of norms are without their signs.
    let is_norm = kind == OpKind::ReduceL1 || kind == OpKind::ReduceL2;
    let is_view = !is_norm && axes.iter().all(|&axis| src.dims[axis as usize] == 1);
    if is_view && !axes.is_empty() {
        let keeps = node.flag("keepdims", true)?;
        let left = (0..src.rank()).filter(|&axis| keeps || !gone[axis]);
        let dims = left.map(|axis| src.dims[axis]).collect();
        result = network.reshape(node, &result, dims)?;
    } else if !axes.is_empty() || is_norm {
        let attrs = Attrs::new().with("axes", axes).with("keep_dims", node.flag("keepdims", true)?);
        result = network.op(node, kind, &[&result], attrs)?;
    }
    if logarithm {
        result = network.op(node, OpKind::Log, &[&result], Attrs::new())?;
    }
    Ok(vec![result])
}
