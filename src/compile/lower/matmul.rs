//! Matrix products.

use anydnn_backend::{Arg, MemoryDesc, Result, op};

use super::{Anchor, ToPrimitive, input};
use crate::compile::program::{Program, Value};
use crate::graph::Op;

/// `MatMul`: transposition is a view; one-dimensional operands get a dimension of one that the result drops again (numpy).
pub(super) fn anchor(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let (src, weights) = (input(program, op, 0)?, input(program, op, 1)?);
    let (src_rank, weights_rank) = (src.desc.rank(), weights.desc.rank());
    let rank = src_rank.max(weights_rank).max(2);
    let src_desc = matrix(&src.desc, op.attrs.bool("transpose_a")?, true, rank)?;
    let weights_desc = matrix(&weights.desc, op.attrs.bool("transpose_b")?, false, rank)?;
    let mut insert = Vec::new();
    if src_rank == 1 {
        insert.push(rank - 2);
    }
    if weights_rank == 1 {
        insert.push(rank - 1);
    }
    // Constant weights are packed once, in the layout that the implementation likes best.
    let weights = weights.with_desc(weights_desc);
    let shape = ToPrimitive { insert, ..ToPrimitive::default() };
    let mut args = vec![(Arg::SRC, src.with_desc(src_desc)), (Arg::Weights, weights)];
    if op.inputs.len() > 2 {
        let bias = input(program, op, 2)?;
        let desc = shape.apply(&bias.desc, rank - shape.insert.len())?;
        args.push((Arg::Bias, bias.with_desc(desc)));
    }
    Ok(Anchor { op: anydnn_backend::Op::MatMul(op::MatMul), args, shape, extra: Vec::new() })
}

/// The operand of a product of `rank` dimensions; a one-dimensional one is a row or a column.
pub(super) fn matrix(desc: &MemoryDesc, transpose: bool, row: bool, rank: usize) -> Result<MemoryDesc> {
    let desc = as_matrix(desc, transpose, row)?;
    let dims = desc.dims().padded_to_rank(rank);
    if desc.rank() == rank { Ok(desc) } else { desc.reshaped(dims) }
}

/// The operand as a (batch of) matrices with rows first.
fn as_matrix(desc: &MemoryDesc, transpose: bool, row: bool) -> Result<MemoryDesc> {
    let rank = desc.rank();
    if rank == 1 {
        let n = desc.dims()[0];
        return desc.reshaped(if row { [1, n] } else { [n, 1] });
    }
    if !transpose || rank < 2 {
        return Ok(desc.clone());
    }
    let order: Vec<usize> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
    desc.permuted(&order)
}

/// The weights with an open layout when they are constant, so that the implementation may choose.
pub(super) fn open_weights(program: &Program<'_>, weights: &Value) -> MemoryDesc {
    if program.is_constant(weights) { weights.desc.to_any() } else { weights.desc.clone() }
}
