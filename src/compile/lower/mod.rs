//! Lowering: what primitives compute a partition.
//!
//! A partition is a set of operations, whatever pattern put them together. [Units](units) are found in it: attention, gated products,
//! operations that have primitives of their own with their dequantised operands and the chain behind them as post-operations. All other
//! operations become [expressions](expression), as few as their folds allow. Views (reshape, transpose) become other descriptors of the
//! same bytes and cost nothing where strides allow. What nothing depends on is not computed.

mod attention;
mod chain;
mod concat;
mod convolution;
mod exact;
mod expression;
mod gated;
mod gather;
mod gradients;
mod images;
mod matmul;
mod normalization;
mod operand;
mod pointwise;
mod post_ops;
mod quantization;
mod recurrent;
mod reduction;
mod region;
mod softmax;
mod summed;
#[cfg(test)]
mod tests;
mod units;
mod views;

use anydnn_backend::{
    Arg, Dims, Error, InvalidKind, MemoryDesc, PrimitiveDesc, Quantized, Result, ResultExt,
};

use self::post_ops::Dequantized;
use self::region::Region;
use self::units::{AnchorUnit, Item, Kind};
use super::program::{Program, Storage, Value, declared};
use crate::fusion::Partition;
use crate::graph::{Op, OpKind, TensorId};

/// Adds the steps that compute a partition.
pub(super) fn partition(program: &mut Program<'_>, partition: &Partition) -> Result<()> {
    let region = Region::new(program, partition);
    for item in units::plan(&region) {
        let first = match &item {
            Item::Unit(unit) => unit.ops.first(),
            Item::Group { ops, .. } => ops.first(),
        };
        let name = || first.map_or_else(String::new, |&op| region.op(op).to_string());
        emit(program, &region, &item).at(name)?;
    }
    Ok(())
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

/// Emits what comes next.
fn emit(program: &mut Program<'_>, region: &Region<'_>, item: &Item) -> Result<()> {
    match item {
        Item::Group { ops, results } => match units::as_anchor(region, ops) {
            Some(unit) => emit_anchor(program, region, &unit, ops.clone()),
            None => expression::lower_ops(program, ops, results),
        },
        Item::Unit(unit) => {
            let ops = unit.ops.clone();
            match &unit.kind {
                Kind::Attention(attention) => attention.emit(program, region, ops),
                Kind::Gated(gated) => gated.emit(program, region, ops),
                Kind::Concat(concat) => concat.emit(program, region, ops),
                Kind::Summed(summed) => summed.emit(program, region, ops),
                Kind::Anchor(anchor) => emit_anchor(program, region, anchor, ops),
            }
        }
    }
}

/// Emits an operation with its operands as they are read and the chain behind it.
fn emit_anchor(
    program: &mut Program<'_>,
    region: &Region<'_>,
    unit: &AnchorUnit,
    ops: Vec<usize>,
) -> Result<()> {
    let op = region.op(unit.op);
    match op.kind {
        OpKind::StaticReshape | OpKind::StaticTranspose => return views::view(program, unit.op),
        OpKind::Remap => return views::remap(program, op, &ops),
        OpKind::Reorder | OpKind::TypeCast if unit.chain.ops.is_empty() => {
            return views::reorder(program, op, &ops);
        }
        _ => {}
    }
    let reads = unit
        .operands
        .iter()
        .map(|(i, operand)| Ok((*i, operand.read(program)?)))
        .collect::<Result<Vec<_>>>()?;
    // For the anchor the operands are what is read; for everything else they stay what they are.
    let mut before = Vec::new();
    for (i, read) in &reads {
        before.push((op.inputs[*i], program.rebind(op.inputs[*i], Some(read.value.clone()))));
    }
    let anchor = anchor(program, op);
    for (id, value) in before.into_iter().rev() {
        program.rebind(id, value);
    }
    let anchor = anchor?;
    let (mut dequantized, mut of_result) = (Vec::new(), None);
    for (i, read) in reads {
        let Some(scales) = read.scales else { continue };
        if !dequantizes(op.kind, i) {
            of_result = Some(scales);
            continue;
        }
        let operand = if i == 0 { Quantized::Src(0) } else { Quantized::Weights };
        let own = anchor.args.iter().find(|(arg, _)| *arg == operand.arg());
        let dims = own.map_or_else(|| vec![1; 2], |(_, value)| value.desc.dims().to_vec());
        let element = read.value.desc.data_type();
        let rank = dims.len();
        let scales = scales.viewed(|desc| operand_view(op, i, desc, &dims))?;
        let zero_point = scales.zero_point(program, rank, element);
        let fpmath = Dequantized::permitted(declared(program.graph, op.inputs[i])?.data_type());
        let scale = scales.scale(program, rank);
        dequantized.push(Dequantized { operand, scale, zero_point, fpmath });
    }
    post_ops::emit(program, anchor, dequantized, of_result.as_ref(), &unit.chain, ops)
}

/// Whether an operation's primitive dequantises an input as it reads it.
fn dequantizes(kind: OpKind, input: usize) -> bool {
    let products = matches!(
        kind,
        OpKind::MatMul | OpKind::Convolution | OpKind::ConvTranspose | OpKind::ConvolutionBackwardData
    );
    products && input < 2
}

/// Whether an operation of quantised elements, dequantised behind, is the same as of dequantised ones.
fn commutes_with_scale(op: &Op) -> bool {
    // An average that counts padding counts zeros, which are not the zero point.
    op.kind == OpKind::MaxPool || op.kind == OpKind::AvgPool && op.attrs.bool("exclude_pad").unwrap_or(false)
}

/// The scales of an input in the order of dimensions of the primitive's operand, which has these.
fn operand_view(op: &Op, input: usize, desc: &MemoryDesc, dims: &[usize]) -> Result<MemoryDesc> {
    let rank = dims.len();
    if desc.elements() == 1 {
        return desc.reshaped(vec![1; rank]);
    }
    if op.kind == OpKind::MatMul {
        let transposed = op.attrs.bool(if input == 0 { "transpose_a" } else { "transpose_b" })?;
        return matmul::matrix(desc, transposed, input == 0, rank);
    }
    let order: Vec<usize> = match input {
        0 if is_channels_last(op)? => channels_first(rank),
        0 => return Ok(desc.clone()),
        _ => match op.attrs.string("weights_format")? {
            "XIO" | "XOI" => [rank - 1, rank - 2].into_iter().chain(0..rank - 2).collect(),
            _ => return gradients::grouped_scales(op, desc.clone(), dims),
        },
    };
    let desc = desc.permuted(&order)?;
    if input == 0 { Ok(desc) } else { gradients::grouped_scales(op, desc, dims) }
}

/// Whether an operation makes each of its elements from one of each input.
pub(super) fn is_function(kind: OpKind) -> bool {
    matches!(kind, OpKind::BiasAdd | OpKind::Select | OpKind::TypeCast)
        || pointwise::binary_of(kind).is_some()
        || pointwise::is_unary(kind)
}

/// Whether a primitive other than an expression computes an operation.
fn has_primitive(region: &Region<'_>, index: usize) -> bool {
    let op = region.op(index);
    let second = op.outputs.get(1).is_some_and(|&id| region.is_read(id));
    match op.kind {
        OpKind::SoftMax | OpKind::LogSoftmax | OpKind::RMSNorm => !second,
        OpKind::LayerNorm
        | OpKind::GroupNorm
        | OpKind::BatchNormInference
        | OpKind::BiasAdd
        | OpKind::Select
        | OpKind::TypeCast
        | OpKind::Reorder => true,
        kind if reduction::reduction_of(kind).is_some() => op.inputs.len() == 1,
        kind => pointwise::binary_of(kind).is_some() || pointwise::is_unary(kind),
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
        OpKind::ConvTranspose => gradients::transposed(program, op),
        OpKind::ConvolutionBackwardData => gradients::data(program, op),
        OpKind::ConvTransposeBackwardData => gradients::transposed_data(program, op),
        OpKind::ConvolutionBackwardWeights | OpKind::ConvTransposeBackwardWeights => {
            gradients::for_weights(program, op)
        }
        OpKind::MaxPool | OpKind::AvgPool => convolution::pooling(program, op),
        OpKind::MaxPoolBackward | OpKind::AvgPoolBackward => images::pooling_backward(program, op),
        OpKind::Interpolate => images::interpolate(program, op),
        OpKind::InterpolateBackward => images::interpolate_backward(program, op),
        OpKind::LayerNorm | OpKind::RMSNorm => normalization::layer(program, op),
        OpKind::BatchNormInference => normalization::batch(program, op),
        OpKind::GroupNorm => normalization::group(program, op),
        OpKind::SoftMax | OpKind::LogSoftmax => softmax::softmax(program, op),
        OpKind::Concat => concat::concat(program, op),
        OpKind::Gather => gather::gather(program, op),
        OpKind::Recurrent => recurrent::layer(program, op),
        OpKind::Select => pointwise::select(program, op),
        OpKind::BiasAdd => pointwise::bias_add(program, op),
        kind if reduction::reduction_of(kind).is_some() => reduction::reduction(program, op),
        kind if pointwise::binary_of(kind).is_some() => pointwise::binary(program, op),
        _ => pointwise::unary(program, op),
    }
}

/// How a tensor shaped like a graph operation's result becomes shaped like its primitive's: ones put in at the operation's dropped
/// dimensions, then the dimensions brought into the primitive's order, then rows taken apart. All are views.
#[derive(Clone, Debug, Default)]
pub(super) struct ToPrimitive {
    /// Dimensions of one to insert, positions in the primitive's rank, ascending.
    pub(super) insert: Vec<usize>,
    /// The primitive's dimension `i` is dimension `order[i]`; none keeps the order.
    pub(super) order: Option<Vec<usize>>,
    /// What the rows of a matrix are in the primitive's dimensions, where it has them apart.
    pub(super) rows: Option<Dims>,
}

impl ToPrimitive {
    /// Channels-last results.
    pub(super) fn channels_first(rank: usize) -> Self {
        Self { order: Some(channels_first(rank)), ..Self::default() }
    }

    /// The view of a tensor of the result's rank, or of fewer dimensions that broadcast to it (numpy).
    pub(super) fn apply(&self, desc: &MemoryDesc, result_rank: usize) -> Result<MemoryDesc> {
        let mut dims = desc.dims().padded_to_rank(result_rank).to_vec();
        for &at in &self.insert {
            dims.insert(at.min(dims.len()), 1);
        }
        let desc = if dims == **desc.dims() { desc.clone() } else { desc.reshaped(dims)? };
        let desc = match &self.order {
            Some(order) => desc.permuted(order)?,
            None => desc,
        };
        match &self.rows {
            Some(rows) => {
                let columns = &desc.dims()[desc.rank().saturating_sub(1)..];
                desc.reshaped(Dims::new(&[rows, columns].concat()))
            }
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
        if !matches!(arg, Arg::PostOp(_) | Arg::PostOpOther(_)) {
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
