//! Other meanings of the same bytes, and copies where strides do not allow them.

use anydnn_backend::{Arg, Attributes, Dims, Error, InvalidKind, Result};

use super::{emit_simple, input};
use crate::compile::program::{Program, Storage, Value, declared};
use crate::graph::{Op, normalize_axis};

/// `StaticReshape`: a view, or a dense copy where there is none.
pub(super) fn reshape(program: &mut Program<'_>, op: &Op, ops: &[usize]) -> Result<()> {
    let src = input(program, op, 0)?;
    let out = result_id(op)?;
    let dims: Dims = declared(program.graph, out)?.dims().clone();
    let view = match src.desc.reshaped(dims.clone()) {
        Ok(desc) => src.with_desc(desc),
        Err(Error::Unsupported { .. }) => {
            let dense = program.temp(src.desc.to_row_major());
            copy(program, src, dense.clone(), ops.to_vec())?;
            dense.with_desc(dense.desc.reshaped(dims)?)
        }
        Err(error) => return Err(error),
    };
    program.alias(out, view);
    Ok(())
}

/// `StaticTranspose`: always a view.
pub(super) fn transpose(program: &mut Program<'_>, op: &Op) -> Result<()> {
    let src = input(program, op, 0)?;
    let rank = src.desc.rank();
    let order: Vec<usize> =
        op.attrs.s64s("order")?.iter().map(|&a| normalize_axis(a, rank)).collect::<Result<_>>()?;
    let view = src.with_desc(src.desc.permuted(&order)?);
    program.alias(result_id(op)?, view);
    Ok(())
}

/// `Reorder` and `TypeCast` on their own. A reorder into an open layout is the value itself.
pub(super) fn reorder(program: &mut Program<'_>, op: &Op, ops: &[usize]) -> Result<()> {
    let src = input(program, op, 0)?;
    let out = result_id(op)?;
    let wanted = declared(program.graph, out)?;
    let is_output = program.graph.outputs().contains(&out);
    if !is_output && src.desc.data_type() == wanted.data_type() && matches!(src.storage, Storage::Temp(_)) {
        program.alias(out, src);
        return Ok(());
    }
    let dst = program.result(out)?;
    copy(program, src, dst, ops.to_vec())
}

/// Copies a value, changing layout and type.
pub(super) fn copy(program: &mut Program<'_>, from: Value, to: Value, ops: Vec<usize>) -> Result<()> {
    let label = ops.last().map_or_else(|| "copy".to_owned(), |&op| program.graph.ops()[op].name.clone());
    emit_simple(
        program,
        anydnn_backend::Op::Reorder,
        Attributes::default(),
        vec![(Arg::SRC, from), (Arg::DST, to)],
        &label,
        ops,
    )
}

fn result_id(op: &Op) -> Result<crate::graph::TensorId> {
    op.outputs
        .first()
        .copied()
        .ok_or_else(|| Error::invalid_kind(InvalidKind::GraphOp, "operation", "outputs", "none", "one"))
}
