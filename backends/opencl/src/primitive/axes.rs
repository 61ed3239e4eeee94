//! Loops over the dimensions of a result.

use anydnn_backend::{Dims, MemoryDesc};

use super::space::{Index, Space};

/// Adds loops `i0`, `i1`, .. over some dimensions of a result and sets their indices. A dimension that an operand holds in whole
/// blocks becomes a pair of loops, which makes the addresses linear. Operands are aligned at the last dimension.
pub(super) fn push_axes(
    space: &mut Space,
    axes: impl Iterator<Item = usize>,
    dims: &Dims,
    operands: &[&MemoryDesc],
    index: &mut [Index],
) {
    for axis in axes {
        let block = operands
            .iter()
            .find_map(|desc| {
                let own = (axis + desc.rank()).checked_sub(dims.len())?;
                let block = desc.blocking()?.block(own);
                (block > 1 && desc.dims()[own] == dims[axis]).then_some(block)
            })
            .filter(|block| dims[axis].is_multiple_of(*block) && dims[axis] > *block);
        index[axis] = match block {
            Some(block) => {
                let outer = space.push(format!("i{axis}"), dims[axis] / block);
                let inner = space.push(format!("i{axis}b"), block);
                Index::sum(&[(outer, block), (inner, 1)])
            }
            None => Index::of(space.push(format!("i{axis}"), dims[axis])),
        };
    }
}
