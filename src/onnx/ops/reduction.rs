//! Reductions.

use anydnn_backend::Result;

use super::super::axes::marked;
use super::super::network::{Network, Value};
use super::super::node::Node;
use super::{floats, input_or_ints};
use crate::graph::{Attrs, OpKind};

/// The axes of a reduction: which of all they are, and their list.
fn reduced(network: &mut Network, node: &Node, rank: usize) -> Result<(Vec<bool>, Vec<i64>)> {
    let axes = input_or_ints(network, node, 1, "axes")?.unwrap_or_default();
    let gone = if axes.is_empty() {
        vec![!node.flag("noop_with_empty_axes", false)?; rank]
    } else {
        marked(node, &axes, rank)?
    };
    let axes = (0..rank).filter(|&axis| gone[axis]).map(|axis| axis as i64).collect();
    Ok((gone, axes))
}

/// The logarithm of a sum of powers, which no power of itself is too large for: of those by how much numbers are below the largest one.
pub(super) fn log_sum_exp(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let (gone, axes) = reduced(network, node, src.rank())?;
    if src.dims.elements() == 0 {
        return Err(node.unsupported("no largest of no numbers"));
    }
    if axes.is_empty() {
        return Ok(vec![src.clone()]);
    }
    let attrs = || Attrs::new().with("axes", axes.clone()).with("keep_dims", true);
    let largest = network.op(node, OpKind::ReduceMax, &[src], attrs())?;
    // Infinite ones are not subtracted from themselves.
    let (zero, infinity) = (network.scalar(node, 0.0, src)?, network.scalar(node, f64::INFINITY, src)?);
    let size = network.op(node, OpKind::Abs, &[&largest], Attrs::new())?;
    let is_infinite = network.op(node, OpKind::Equal, &[&size, &infinity], Attrs::new())?;
    let largest = network.op(node, OpKind::Select, &[&is_infinite, &zero, &largest], Attrs::new())?;
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

pub(super) fn reduce(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let (gone, axes) = reduced(network, node, src.rank())?;
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
