//! Shapes and orders of dimensions.

use anydnn_backend::{Dims, Result};

use super::super::axes::transpose_order;
use super::super::network::{Network, Value};
use super::super::node::Node;
use super::super::views;
use super::source::axis;
use super::{input_or_ints, known_ints};
use crate::graph::{Attrs, OpKind, normalize_axis};

pub(super) fn concat(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let inputs = node.all_inputs()?;
    let axis = axis(node, 1, inputs[0].rank())?;
    if let [only] = &inputs[..] {
        return Ok(vec![only.clone()]);
    }
    let inputs: Vec<&Value> = inputs.iter().collect();
    let attrs = Attrs::new().with("axis", axis as i64);
    Ok(vec![network.op(node, OpKind::Concat, &inputs, attrs)?])
}

pub(super) fn reshape(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = node.input(0)?;
    let shape = known_ints(network, node, node.input(1)?, "the new dimensions")?;
    Ok(vec![network.reshape(node, src, views::reshaped(node, &src.dims, &shape)?)?])
}

/// Two dimensions: those before an axis and the others.
pub(super) fn flatten(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = node.input(0)?;
    let rank = src.rank();
    // The axis may be the end.
    let given = node.int("axis", 1)?;
    let axis = if given == rank as i64 { rank } else { normalize_axis(given, rank)? };
    Ok(vec![network.reshape(node, src, flat(&src.dims, axis))?])
}

/// The dimensions before an axis as one, and the others as one.
pub(super) fn flat(dims: &Dims, axis: usize) -> Dims {
    Dims::from([Dims::new(&dims[..axis]).elements(), Dims::new(&dims[axis..]).elements()])
}

pub(super) fn squeeze(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = node.input(0)?;
    let axes = input_or_ints(network, node, 1, "axes")?;
    Ok(vec![network.reshape(node, src, views::squeezed(node, &src.dims, axes.as_deref())?)?])
}

pub(super) fn unsqueeze(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = node.input(0)?;
    let axes = input_or_ints(network, node, 1, "axes")?;
    Ok(vec![network.reshape(node, src, views::unsqueezed(node, &src.dims, axes.as_deref())?)?])
}

pub(super) fn transpose(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = node.input(0)?;
    let order = transpose_order(node, src.rank())?;
    if order.is_sorted() {
        return Ok(vec![src.clone()]);
    }
    let order: Vec<i64> = order.into_iter().map(|axis| axis as i64).collect();
    Ok(vec![network.op(node, OpKind::StaticTranspose, &[src], Attrs::new().with("order", order))?])
}
