//! Operations as expressions: functions of elements, normalisations, reductions, quantisation and their gradients, as few launches as
//! their folds allow.
//!
//! An operation is one or two *parts*, each with a [layout](layout::Layout): the indices it works over and how its tensors lie in them.
//! Parts [translate](translate) to nodes of a [draft](draft::Draft); a [plan](plan::Plan) is the expression of parts that go together,
//! and [groups](group) are found by trying.

mod draft;
mod group;
mod layout;
mod normalizations;
mod plan;
mod rows;
#[cfg(test)]
mod tests;
mod translate;

use anydnn_backend::op::{Expression, Node};
use anydnn_backend::{Arg, Attributes, Dims, Error, Result, ResultExt};

use self::draft::{Draft, Operand, Source, Space};
use self::group::Group;
use self::layout::{Part, Side};
use super::{Anchor, normalization, pointwise, reduction, softmax, views};
use crate::compile::program::{Program, Value, declared};
use crate::graph::{Op, OpKind as K, TensorId};

/// Whether an operation becomes nodes of an expression.
pub(super) fn expressible(op: &Op) -> bool {
    translate::expressible(op.kind)
}

/// Computes operations, given in topological order and all [expressible], by few launches. `results` are the tensors that others read.
pub(super) fn lower_ops(program: &mut Program<'_>, ops: &[usize], results: &[TensorId]) -> Result<()> {
    let graph = program.graph;
    for group in group::group(graph, ops, results)? {
        match group.parts[..] {
            [Part { op, side: Side::Main }] if has_primitive(&graph.ops()[op]) => primitive(program, op)?,
            _ => emit(program, &group)?,
        }
    }
    Ok(())
}

/// Adds the nodes of pointwise operations, in topological order, that lead from the tensor `input` to `output`; returns the node of the
/// latter. The expression's space is that of `input`, which is its source 0; source `i + 1` is `operands[i]`, where others are added.
///
/// # Errors
/// [`Error::Unsupported`] when an operation is not pointwise, or its tensors do not lie along the space.
pub(super) fn score_nodes(
    program: &mut Program<'_>,
    expression: &mut Expression,
    ops: &[usize],
    input: TensorId,
    output: TensorId,
    operands: &mut Vec<Value>,
) -> Result<usize> {
    let graph = program.graph;
    let space = Space { dims: expression.dims.clone(), ..Space::default() };
    let mut draft = Draft::new(graph, space);
    draft.nodes = std::mem::take(&mut expression.nodes);
    draft.first = operands.len() + 1;
    let scores = draft.push(Node::Operand(0));
    draft.define(input, declared(graph, input)?.dims().clone(), scores);
    let parts: Vec<Part> = ops.iter().map(|&op| Part { op, side: Side::Main }).collect();
    let extended = plan::extend(&mut draft, &parts);
    expression.nodes = std::mem::take(&mut draft.nodes);
    extended?;
    let node = draft.node_of(output).ok_or_else(|| {
        Error::invalid("expression", "operations", format!("{ops:?}"), format!("leading to tensor {output}"))
    })?;
    for operand in &draft.operands {
        let value = operand_value(program, operand, ops)?;
        operands.push(value);
    }
    Ok(node)
}

/// Emits one expression.
fn emit(program: &mut Program<'_>, group: &Group) -> Result<()> {
    let graph = program.graph;
    let mut ops: Vec<usize> = group.parts.iter().map(|part| part.op).collect();
    ops.dedup();
    let label = ops.iter().map(|&op| graph.ops()[op].name.as_str()).collect::<Vec<_>>().join("+");
    let plan = &group.plan;
    let mut args: Vec<(Arg, Value)> = Vec::new();
    for (i, operand) in plan.operands.iter().enumerate() {
        let value = operand_value(program, operand, &ops).at(|| label.clone())?;
        args.push((Arg::Src(i as u16), value));
    }
    // Results that cannot be seen under the expression's dimensions are written densely first.
    let mut copies = Vec::new();
    for (i, (id, view)) in plan.results.iter().enumerate() {
        let result = program.result(*id)?;
        let written = match result.desc.reshaped(view.clone()) {
            Ok(desc) => result.with_desc(desc),
            Err(Error::Unsupported { .. }) => {
                let dense = program.temp(result.desc.to_row_major());
                copies.push((dense.clone(), result));
                dense.with_desc(dense.desc.reshaped(view.clone())?)
            }
            Err(error) => return Err(error),
        };
        args.push((Arg::Dst(i as u16), written));
    }
    let op = anydnn_backend::Op::Expression(plan.expression.clone());
    super::emit_simple(program, op, attributes(program), args, &label, ops.clone())?;
    for (dense, result) in copies {
        views::copy(program, dense, result, ops.clone())?;
    }
    Ok(())
}

/// The value of an operand under the dimensions by which it broadcasts; a dense copy where its strides allow no such view.
fn operand_value(program: &mut Program<'_>, operand: &Operand, ops: &[usize]) -> Result<Value> {
    let value = match &operand.source {
        Source::Tensor(id) => program.value(*id)?,
        Source::Literal(values) => program.literal(Dims::from([values.len()]), values),
    };
    match value.desc.reshaped(operand.view.clone()) {
        Ok(desc) => Ok(value.with_desc(desc)),
        Err(Error::Unsupported { .. }) => {
            let dense = program.temp(value.desc.to_row_major());
            views::copy(program, value, dense.clone(), ops.to_vec())?;
            Ok(dense.with_desc(dense.desc.reshaped(operand.view.clone())?))
        }
        Err(error) => Err(error),
    }
}

/// Whether a primitive of its own computes all of an operation.
fn has_primitive(op: &Op) -> bool {
    match op.kind {
        K::SoftMax | K::LogSoftmax | K::RMSNorm => op.outputs.len() == 1,
        K::LayerNorm
        | K::GroupNorm
        | K::BatchNormInference
        | K::BiasAdd
        | K::Select
        | K::TypeCast
        | K::Reorder => true,
        kind if rows::is_reduction(kind) => op.inputs.len() == 1,
        kind => pointwise::binary_of(kind).is_some() || pointwise::eltwise_of(op).is_ok(),
    }
}

/// Computes one operation by the primitive of its kind.
fn primitive(program: &mut Program<'_>, index: usize) -> Result<()> {
    let op = &program.graph.ops()[index];
    let anchor = match op.kind {
        K::TypeCast | K::Reorder => return views::reorder(program, op, &[index]),
        K::SoftMax | K::LogSoftmax => softmax::softmax(program, op)?,
        K::LayerNorm | K::RMSNorm => normalization::layer(program, op)?,
        K::GroupNorm => normalization::group(program, op)?,
        K::BatchNormInference => normalization::batch(program, op)?,
        K::BiasAdd => pointwise::bias_add(program, op)?,
        K::Select => pointwise::select(program, op)?,
        kind if rows::is_reduction(kind) => reduction::reduction(program, op)?,
        kind if pointwise::binary_of(kind).is_some() => pointwise::binary(program, op)?,
        _ => pointwise::unary(program, op)?,
    };
    let Anchor { op: operation, mut args, shape, mut extra } = anchor;
    let out = op.outputs.first().copied();
    let out = out.ok_or_else(|| Error::invalid("operation", "outputs", "none", "one"))?;
    let result = program.result(out)?;
    let dst = result.with_desc(shape.apply(&result.desc, result.desc.rank())?);
    args.append(&mut extra);
    args.push((Arg::DST, dst));
    super::emit_simple(program, operation, attributes(program), args, &op.name, vec![index])
}

fn attributes(program: &Program<'_>) -> Attributes {
    Attributes::default().with_fpmath(program.graph.fpmath())
}
