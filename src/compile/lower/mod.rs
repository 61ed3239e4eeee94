//! Lowering: what primitives compute a partition.
//!
//! Each anchor becomes one primitive; the links of its chain become the primitive's post-operations. Views (reshape, transpose) become
//! other descriptors of the same bytes and cost nothing where strides allow.

mod convolution;
mod expression;
mod matmul;
mod normalization;
mod pointwise;
mod rows;
mod tail;
mod views;

use anydnn_backend::{Arg, Error, InvalidKind, MemoryDesc, PrimitiveDesc, Result, ResultExt};

use super::program::{Program, Storage, Value};
use crate::fusion::Partition;
use crate::graph::{Op, OpKind, TensorId};

/// Adds the steps that compute a partition.
pub(super) fn partition(program: &mut Program<'_>, partition: &Partition) -> Result<()> {
    let anchor = &program.graph.ops()[partition.links[0].op];
    lower(program, partition, anchor).at(|| anchor.to_string())
}

/// Adds the steps that copy inputs, constants and views to the outputs that nothing else has written.
pub(super) fn copy_outputs(program: &mut Program<'_>) -> Result<()> {
    for (port, &id) in program.graph.outputs().iter().enumerate() {
        let value = program.value(id)?;
        if value.storage == Storage::Output(port) {
            continue;
        }
        let desc = super::program::declared(program.graph, id)?;
        let ops = program.graph.producer(id).into_iter().collect();
        views::copy(program, value, Value { storage: Storage::Output(port), desc }, ops)?;
    }
    Ok(())
}

fn lower(program: &mut Program<'_>, partition: &Partition, op: &Op) -> Result<()> {
    match op.kind {
        OpKind::StaticReshape => views::reshape(program, op, &partition.ops),
        OpKind::StaticTranspose => views::transpose(program, op),
        OpKind::Reorder | OpKind::TypeCast => views::reorder(program, op, &partition.ops),
        // Marks an output and computes nothing.
        OpKind::End => Ok(()),
        _ if partition.links.len() == 1 && expression::stands_alone(op) => {
            expression::lower_ops(program, &partition.ops, &partition.outputs)
        }
        _ => {
            let anchor = anchor(program, op)?;
            tail::emit(program, partition, op, anchor)
        }
    }
}

/// The primitive at the head of a chain, before its post-operations.
#[derive(Debug)]
pub(super) struct Anchor {
    pub(super) op: anydnn_backend::Op,
    pub(super) args: Vec<(Arg, Value)>,
    /// How a tensor shaped like the operation's result becomes shaped like the primitive's.
    pub(super) shape: ToPrimitive,
    /// Results beside the first, with their descriptors for the primitive.
    pub(super) extra: Vec<(Arg, Value)>,
}

impl Anchor {
    /// A primitive that works on the graph's own shapes and has one result.
    pub(super) fn plain(op: anydnn_backend::Op, args: Vec<(Arg, Value)>) -> Self {
        Self { op, args, shape: ToPrimitive::default(), extra: Vec::new() }
    }
}

fn anchor(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    match op.kind {
        OpKind::MatMul => matmul::anchor(program, op),
        OpKind::Convolution => convolution::convolution(program, op),
        OpKind::MaxPool | OpKind::AvgPool => convolution::pooling(program, op),
        OpKind::LayerNorm | OpKind::RMSNorm => normalization::layer(program, op),
        OpKind::BatchNormInference => normalization::batch(program, op),
        OpKind::GroupNorm => normalization::group(program, op),
        OpKind::SoftMax | OpKind::LogSoftmax => rows::softmax(program, op),
        OpKind::Concat => rows::concat(program, op),
        OpKind::Select => pointwise::select(program, op),
        OpKind::BiasAdd => pointwise::bias_add(program, op),
        kind if rows::reduction_of(kind).is_some() => rows::reduction(program, op),
        kind if pointwise::binary_of(kind).is_some() => pointwise::binary(program, op),
        _ => pointwise::unary(program, op),
    }
}

/// How a tensor shaped like a graph operation's result becomes shaped like its primitive's: ones put in at the operation's dropped
/// dimensions, then the dimensions brought into the primitive's order. Both are views.
#[derive(Clone, Debug, Default)]
pub(super) struct ToPrimitive {
    /// Dimensions of one to insert, positions in the primitive's rank, ascending.
    pub(super) insert: Vec<usize>,
    /// The primitive's dimension `i` is dimension `order[i]`; none keeps the order.
    pub(super) order: Option<Vec<usize>>,
}

impl ToPrimitive {
    /// Channels-last results.
    pub(super) fn channels_first(rank: usize) -> Self {
        Self { insert: Vec::new(), order: Some(channels_first(rank)) }
    }

    /// The view of a tensor of the result's rank, or of fewer dimensions that broadcast to it (numpy).
    pub(super) fn apply(&self, desc: &MemoryDesc, result_rank: usize) -> Result<MemoryDesc> {
        let mut dims = desc.dims().padded_to_rank(result_rank).to_vec();
        for &at in &self.insert {
            dims.insert(at.min(dims.len()), 1);
        }
        let desc = if dims == **desc.dims() { desc.clone() } else { desc.reshaped(dims)? };
        match &self.order {
            Some(order) => desc.permuted(order),
            None => Ok(desc),
        }
    }
}

/// The order of dimensions that brings `[N, spatial.., C]` to `[N, C, spatial..]`.
pub(super) fn channels_first(rank: usize) -> Vec<usize> {
    [0, rank - 1].into_iter().chain(1..rank - 1).collect()
}

/// The `i`-th input's value.
pub(super) fn input(program: &Program<'_>, op: &Op, i: usize) -> Result<Value> {
    let id = *op.inputs.get(i).ok_or_else(|| {
        Error::invalid_kind(
            InvalidKind::GraphOp,
            "operation",
            "inputs",
            op.inputs.len().to_string(),
            format!("at least {}", i + 1),
        )
    })?;
    program.value(id)
}

/// The channel dimension of a tensor by the operation's `data_format`.
pub(super) fn channel_axis(op: &Op, rank: usize) -> Result<usize> {
    Ok(if is_channels_last(op)? { rank.saturating_sub(1) } else { 1.min(rank.saturating_sub(1)) })
}

pub(super) fn is_channels_last(op: &Op) -> Result<bool> {
    match op.attrs.string("data_format")? {
        "NXC" => Ok(true),
        "NCX" => Ok(false),
        other => Err(Error::invalid_kind(
            InvalidKind::GraphOp,
            "operation",
            "attribute data_format",
            format!("{other:?}"),
            "\"NXC\" or \"NCX\"",
        )),
    }
}

/// Emits a primitive that writes one value, with no chain behind it.
pub(super) fn emit_simple(
    program: &mut Program<'_>,
    op: anydnn_backend::Op,
    attributes: anydnn_backend::Attributes,
    args: Vec<(Arg, Value)>,
    label: &str,
    ops: Vec<usize>,
) -> Result<()> {
    let mut builder = PrimitiveDesc::builder(op).attributes(attributes).label(label);
    for (arg, value) in &args {
        if !matches!(arg, Arg::PostOp(_)) {
            builder = builder.arg(*arg, value.desc.clone());
        }
    }
    let desc = builder.build()?;
    program.emit(desc, args, ops);
    Ok(())
}

/// The name of a tensor for labels.
pub(super) fn tensor_name(program: &Program<'_>, id: TensorId) -> String {
    program.graph.label(id)
}
