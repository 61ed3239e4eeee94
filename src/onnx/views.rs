//! Dimensions under which the elements of a tensor are another one, as `Reshape`, `Squeeze` and `Unsqueeze` say them.

use anydnn_backend::{Dims, Result};

use super::axes::marked;
use super::node::Node;

/// The dimensions that `Reshape` makes of others.
pub(super) fn reshaped(node: &Node, src: &Dims, shape: &[i64]) -> Result<Dims> {
    let copies_zero = !node.flag("allowzero", false)?;
    let wrong = |expected: &str| node.invalid("new dimensions", format!("{shape:?} of {src}"), expected);
    let mut open = None;
    let mut dims = Vec::with_capacity(shape.len());
    for (i, &given) in shape.iter().enumerate() {
        dims.push(match given {
            -1 if open.replace(i).is_some() => return Err(wrong("at most one -1")),
            -1 => 1,
            0 if copies_zero => *src.get(i).ok_or_else(|| wrong("no 0 beyond the dimensions"))?,
            given => usize::try_from(given).map_err(|_| wrong("no dimension below -1"))?,
        });
    }
    let mut dims = Dims::from(dims);
    if let Some(open) = open {
        let rest = src.elements().checked_div(dims.elements());
        dims[open] = rest.ok_or_else(|| wrong("no -1 beside a dimension of 0"))?;
    }
    Ok(dims)
}

/// The dimensions without some of one element each; without all of those if none are named.
pub(super) fn squeezed(node: &Node, src: &Dims, axes: Option<&[i64]>) -> Result<Dims> {
    let rank = src.len();
    let gone = match axes {
        Some(axes) => marked(node, axes, rank)?,
        None => src.iter().map(|&dim| dim == 1).collect(),
    };
    if let Some(axis) = (0..rank).find(|&axis| gone[axis] && src[axis] != 1) {
        return Err(node.invalid("axis", format!("{axis} of {src}"), "a dimension of 1"));
    }
    Ok((0..rank).filter(|&axis| !gone[axis]).map(|axis| src[axis]).collect())
}

/// The dimensions with others of one element among them.
pub(super) fn unsqueezed(node: &Node, src: &Dims, axes: Option<&[i64]>) -> Result<Dims> {
    let axes = axes.ok_or_else(|| node.invalid("axes", "missing", "a list of integers"))?;
    let new = marked(node, axes, src.len().saturating_add(axes.len()))?;
    let mut old = src.iter().copied();
    Ok(new.iter().map(|&new| if new { 1 } else { old.next().unwrap_or(1) }).collect())
}
