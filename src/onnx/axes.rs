//! Attributes that name dimensions.

use anydnn_backend::Result;

use super::node::Node;
use crate::graph::normalize_axis;

/// The order of dimensions that a transposition makes: the reverse unless the node says it.
pub(super) fn transpose_order(node: &Node, rank: usize) -> Result<Vec<usize>> {
    let Some(order) = node.ints("perm")? else { return Ok((0..rank).rev().collect()) };
    let axes: Option<Vec<usize>> =
        order.iter().map(|&axis| usize::try_from(axis).ok().filter(|axis| *axis < rank)).collect();
    axes.filter(|axes| axes.len() == rank && (0..rank).all(|axis| axes.contains(&axis))).ok_or_else(|| {
        node.invalid("attribute perm", format!("{order:?}"), format!("a permutation of {rank} dimensions"))
    })
}

/// Which of `rank` dimensions a list of axes names.
pub(super) fn marked(node: &Node, axes: &[i64], rank: usize) -> Result<Vec<bool>> {
    if rank > anydnn_backend::MAX_DIMS {
        return Err(node.invalid("number of dimensions", rank, "at most 12"));
    }
    let mut marked = vec![false; rank];
    for &axis in axes {
        let index = normalize_axis(axis, rank)?;
        if std::mem::replace(&mut marked[index], true) {
            return Err(node.invalid("axes", format!("{axis} again"), "different axes"));
        }
    }
    Ok(marked)
}
