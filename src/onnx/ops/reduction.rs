//! Reductions.

use anydnn_backend::Result;

use super::super::axes::marked;
use super::super::network::{Network, Value};
use super::super::node::Node;
use super::{floats, input_or_ints};
use crate::graph::{Attrs, OpKind};

pub(super) fn reduce(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let axes = input_or_ints(network, node, 1, "axes")?.unwrap_or_default();
    let gone = if axes.is_empty() {
        vec![!node.flag("noop_with_empty_axes", false)?; src.rank()]
    } else {
        marked(node, &axes, src.rank())?
    };
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
