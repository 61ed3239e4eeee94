//! Shapes and orders of dimensions.

use anydnn_backend::{Dims, Result};

use super::super::axes::{marked, transpose_order};
use super::super::network::{Network, Value};
use super::super::node::Node;
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
    let copies_zero = !node.flag("allowzero", false)?;
    let wrong =
        |expected: &str| node.invalid("new dimensions", format!("{shape:?} of {}", src.dims), expected);
    let mut open = None;
    let mut dims = Vec::with_capacity(shape.len());
    for (i, &given) in shape.iter().enumerate() {
        dims.push(match given {
            -1 if open.replace(i).is_some() => return Err(wrong("at most one -1")),
            -1 => 1,
            0 if copies_zero => *src.dims.get(i).ok_or_else(|| wrong("no 0 beyond the dimensions"))?,
            given => usize::try_from(given).map_err(|_| wrong("no dimension below -1"))?,
        });
    }
    let mut dims = Dims::from(dims);
    if let Some(open) = open {
        let rest = src.dims.elements().checked_div(dims.elements());
        dims[open] = rest.ok_or_else(|| wrong("no -1 beside a dimension of 0"))?;
    }
    Ok(vec![network.reshape(node, src, dims)?])
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
    let rank = src.rank();
    let gone = match input_or_ints(network, node, 1, "axes")? {
        Some(axes) => marked(node, &axes, rank)?,
        None => src.dims.iter().map(|&dim| dim == 1).collect(),
    };
    if let Some(axis) = (0..rank).find(|&axis| gone[axis] && src.dims[axis] != 1) {
        return Err(node.invalid("axis", format!("{axis} of {}", src.dims), "a dimension of 1"));
    }
    let dims = (0..rank).filter(|&axis| !gone[axis]).map(|axis| src.dims[axis]).collect();
    Ok(vec![network.reshape(node, src, dims)?])
}

pub(super) fn unsqueeze(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = node.input(0)?;
    let axes = input_or_ints(network, node, 1, "axes")?;
    let axes = axes.ok_or_else(|| node.invalid("axes", "missing", "a list of integers"))?;
    let new = marked(node, &axes, src.rank().saturating_add(axes.len()))?;
    let mut old = src.dims.iter().copied();
    let dims = new.iter().map(|&new| if new { 1 } else { old.next().unwrap_or(1) }).collect();
    Ok(vec![network.reshape(node, src, dims)?])
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
