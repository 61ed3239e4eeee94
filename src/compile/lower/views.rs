//! Other meanings of the same bytes, and copies where strides do not allow them.

use anydnn_backend::op::{Border, Remap, Reorder};
use anydnn_backend::{Arg, Attributes, Blocking, Dims, Error, InvalidKind, Layout, MemoryDesc, Result};

use super::{emit_simple, input};
use crate::compile::program::{Program, Storage, Value, declared};
use crate::graph::{Op, OpKind, TensorId, order_of, remap_of};

/// `StaticReshape` or `StaticTranspose`, an index into the graph's operations.
pub(super) fn view(program: &mut Program<'_>, index: usize) -> Result<()> {
    let op = &program.graph.ops()[index];
    match op.kind {
        OpKind::StaticTranspose => transpose(program, op),
        _ => reshape(program, op, index),
    }
}

/// The view of a view's result in the dimensions of its source.
pub(super) fn unviewed(op: &Op, desc: &MemoryDesc, before: Dims) -> Result<MemoryDesc> {
    if op.kind != OpKind::StaticTranspose {
        return desc.reshaped(before);
    }
    let order = order_of(op, desc.rank())?;
    let mut inverse = vec![0; order.len()];
    for (i, &axis) in order.iter().enumerate() {
        inverse[axis] = i;
    }
    desc.permuted(&inverse)
}

/// `StaticReshape`: a view, or a dense copy where there is none.
fn reshape(program: &mut Program<'_>, op: &Op, index: usize) -> Result<()> {
    let src = input(program, op, 0)?;
    let out = result_id(op)?;
    let wanted = declared(program.graph, out)?;
    if let Err(Error::Unsupported { .. }) = src.desc.reshaped(wanted.dims().clone())
        && let Ok(desc) = unviewed(op, &wanted, src.desc.dims().clone())
    {
        // The copy that is needed anyway is the result.
        let result = program.result(out)?;
        let desc =
            if result.desc == wanted { desc } else { unviewed(op, &result.desc, src.desc.dims().clone())? };
        return copy(program, src, result.with_desc(desc), vec![index]);
    }
    let view = reshaped(program, src, &wanted.dims().clone(), index)?;
    program.alias(out, view);
    Ok(())
}

/// The value under other dimensions, copied where strides do not allow a view.
pub(super) fn reshaped(program: &mut Program<'_>, src: Value, dims: &Dims, index: usize) -> Result<Value> {
    match src.desc.reshaped(dims.clone()) {
        Ok(desc) => Ok(src.with_desc(desc)),
        Err(Error::Unsupported { .. }) => {
            let dense = program.temp(src.desc.to_row_major());
            copy(program, src, dense.clone(), vec![index])?;
            Ok(dense.with_desc(dense.desc.reshaped(dims.clone())?))
        }
        Err(error) => Err(error),
    }
}

/// `StaticTranspose`: always a view.
fn transpose(program: &mut Program<'_>, op: &Op) -> Result<()> {
    let src = input(program, op, 0)?;
    let view = src.with_desc(src.desc.permuted(&order_of(op, src.desc.rank())?)?);
    program.alias(result_id(op)?, view);
    Ok(())
}

/// `Remap`: a view where every element lies a constant step from the next, else a copy.
pub(super) fn remap(program: &mut Program<'_>, op: &Op, ops: &[usize]) -> Result<()> {
    let src = input(program, op, 0)?;
    let out = result_id(op)?;
    let map = remap_of(op)?;
    if let Some(view) = strided(&map, &src.desc)? {
        program.alias(out, src.with_desc(view));
        return Ok(());
    }
    let mut args = vec![(Arg::SRC, src)];
    if op.inputs.len() > 1 {
        args.push((Arg::Src(1), input(program, op, 1)?));
    }
    args.push((Arg::DST, program.result(out)?));
    let label = op.name.clone();
    let remap = anydnn_backend::Op::Remap(map);
    emit_simple(program, remap, Attributes::default(), args, &label, ops.to_vec())
}

/// The elements that a map takes as a view.
fn strided(map: &Remap, src: &MemoryDesc) -> Result<Option<MemoryDesc>> {
    let Some(blocking) = src.blocking().filter(|blocking| blocking.inner.is_empty()) else { return Ok(None) };
    let (mut strides, mut offset) = (blocking.strides.clone(), blocking.offset);
    for (axis, &extent) in src.dims().iter().enumerate() {
        let (start, step) = (map.starts[axis], map.steps[axis]);
        if map.border == Border::Wrap && extent == 1 {
            strides[axis] = 0;
        } else if map.dims[axis] > 0 && map.is_inside(axis, extent) && (step > 0 || map.dims[axis] == 1) {
            offset += start as usize * strides[axis];
            strides[axis] *= step.max(1) as usize;
        } else {
            return Ok(None);
        }
    }
    let layout = Layout::Blocked(Blocking { strides, inner: blocking.inner.clone(), offset });
    MemoryDesc::with_layout(map.dims.clone(), src.data_type(), layout).map(Some)
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
        anydnn_backend::Op::Reorder(Reorder),
        Attributes::default(),
        vec![(Arg::SRC, from), (Arg::DST, to)],
        &label,
        ops,
    )
}

fn result_id(op: &Op) -> Result<TensorId> {
    op.outputs
        .first()
        .copied()
        .ok_or_else(|| Error::invalid_kind(InvalidKind::GraphOp, "operation", "outputs", "none", "one"))
}
