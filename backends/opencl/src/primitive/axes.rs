//! Loops over the dimensions of a result.

use anydnn_backend::{Dims, MemoryDesc};

use super::space::{Index, Space};

/// Adds loops `i0`, `i1`, .. over some dimensions of a result and sets their indices. A dimension that an operand holds in whole
/// blocks, or to which it broadcasts by blocks, becomes several loops, which makes the addresses linear. Operands are aligned at the
/// last dimension.
pub(super) fn push_axes(
    space: &mut Space,
    axes: impl Iterator<Item = usize>,
    dims: &Dims,
    operands: &[&MemoryDesc],
    index: &mut [Index],
) {
    for axis in axes {
        let mut rest = dims[axis];
        let mut terms = Vec::new();
        for (suffix, block) in [""].into_iter().chain(SUFFIXES).zip(blocks(axis, dims, operands)) {
            terms.push((space.push(format!("i{axis}{suffix}"), rest / block), block));
            rest = block;
        }
        let suffix = terms.len().checked_sub(1).map_or("", |i| SUFFIXES[i]);
        terms.push((space.push(format!("i{axis}{suffix}"), rest), 1));
        index[axis] = Index::sum(&terms);
    }
}

/// What tells the loops of one dimension apart.
const SUFFIXES: [&str; 3] = ["b", "c", "d"];

/// The sizes of the blocks that operands have along an axis, each a multiple of the next. Sizes that do not fit the first ones stay
/// out: such operands have general addresses.
fn blocks(axis: usize, dims: &Dims, operands: &[&MemoryDesc]) -> Vec<usize> {
    let extent = dims[axis];
    let mut blocks: Vec<usize> = Vec::new();
    for desc in operands {
        let Some(own) = (axis + desc.rank()).checked_sub(dims.len()) else { continue };
        let block = match desc.dims()[own] {
            dim if dim == extent => desc.blocking().map_or(1, |blocking| blocking.block(own)),
            0 | 1 => 1,
            dim if extent.is_multiple_of(dim) => extent / dim,
            _ => 1,
        };
        let fits = |other: &usize| block.is_multiple_of(*other) || other.is_multiple_of(block);
        let is_new = 1 < block && block < extent && extent.is_multiple_of(block) && !blocks.contains(&block);
        if is_new && blocks.iter().all(fits) && blocks.len() < SUFFIXES.len() {
            blocks.push(block);
        }
    }
    blocks.sort_unstable_by(|a, b| b.cmp(a));
    blocks
}
