//! Transposed convolutions, and the gradients of convolutions of either kind.
//!
//! A transposed convolution is the gradient of a convolution for its source. So its own gradient for the source is that convolution, and
//! its gradient for the weights is that of the convolution with the roles of both images exchanged.
//!
//! Weights of a transposed convolution with groups are `[I / groups, O, kernel..]`, as oneDNN's documentation says, or
//! `[I, O / groups, kernel..]`, as its library and the frameworks on it have them. Channels tell which.

use anydnn_backend::op::Reorder;
use anydnn_backend::{Arg, Dims, MemoryDesc, Result, op};

use super::convolution::{count, image, image_desc};
use super::{Anchor, ToPrimitive, input, views};
use crate::compile::program::{Program, Value, declared};
use crate::graph::{Op, OpKind, TensorId, Window};

/// `ConvTranspose`.
pub(super) fn transposed(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let (src, shape) = image(program, op, 0)?;
    let weights = transposed_weights(program, op, |w| w[0] == src.desc.dims()[1])?;
    let window = Window::transposed(op, &src.desc.dims()[2..], &weights.desc.dims()[2..])?;
    deconvolution(program, op, src, weights, shape, window)
}

/// `ConvolutionBackwardData`.
pub(super) fn data(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let (diff, shape) = image(program, op, 0)?;
    let weights = weights(program, op)?;
    let result = image_desc(op, &declared(program.graph, result(op)?)?)?;
    let window = Window::new(op, &result.dims()[2..], &weights.desc.dims()[2..])?;
    deconvolution(program, op, diff, weights, shape, window)
}

/// `ConvTransposeBackwardData`.
pub(super) fn transposed_data(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let (diff, shape) = image(program, op, 0)?;
    let weights = transposed_weights(program, op, |w| w[1] < diff.desc.dims()[1])?;
    let window = Window::new(op, &diff.desc.dims()[2..], &weights.desc.dims()[2..])?;
    let primitive = anydnn_backend::Op::Convolution(convolution(op, window)?);
    let args = vec![(Arg::SRC, diff), (Arg::Weights, weights)];
    Ok(Anchor { op: primitive, args, shape, extra: Vec::new() })
}

/// `ConvolutionBackwardWeights` and `ConvTransposeBackwardWeights`.
pub(super) fn for_weights(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let transposed = op.kind == OpKind::ConvTransposeBackwardWeights;
    let (larger, smaller) = if transposed { (1, 0) } else { (0, 1) };
    let (src, diff) = (image(program, op, larger)?.0, image(program, op, smaller)?.0);
    let id = result(op)?;
    let wanted = declared(program.graph, id)?;
    let shape = ToPrimitive { order: outputs_first(op, wanted.rank())?, ..ToPrimitive::default() };
    let own = shape.apply(&wanted, wanted.rank())?;
    let window = Window::new(op, &src.desc.dims()[2..], &own.dims()[2..])?;
    let primitive = convolution(op, window)?;
    let groups = primitive.groups;
    let is_primitives = groups == 1 || !transposed || own.dims()[0] == diff.desc.dims()[1];
    let primitive = anydnn_backend::Op::ConvolutionWeights(op::ConvolutionWeights::new(primitive));
    let args = vec![(Arg::Src(0), src), (Arg::Src(1), diff)];
    if is_primitives {
        return Ok(Anchor { op: primitive, args, shape, extra: Vec::new() });
    }
    // `[I / groups, O, kernel..]` in the graph, `[I, O / groups, kernel..]` for the primitive: no view of each other.
    let ops = index(program, op);
    let [parts, apart] = grouped(own.dims(), groups);
    let dense = program.temp(MemoryDesc::new(apart.clone(), own.data_type()));
    let merged = dense.with_desc(dense.desc.reshaped(merge(&apart))?);
    let mut all = args;
    all.push((Arg::DST, merged));
    super::emit_simple(
        program,
        primitive,
        anydnn_backend::Attributes::default(),
        all,
        &op.name,
        ops.clone(),
    )?;
    let ordered = program.temp(MemoryDesc::new(parts, own.data_type()));
    let from = dense.with_desc(dense.desc.permuted(&swapped(apart.len()))?);
    views::copy(program, from, ordered.clone(), ops)?;
    let copy = ordered.with_desc(ordered.desc.reshaped(own.dims().clone())?);
    Ok(Anchor {
        op: anydnn_backend::Op::Reorder(Reorder),
        args: vec![(Arg::SRC, copy)],
        shape,
        extra: Vec::new(),
    })
}

/// Scales of a transposed convolution's weights in the order of the primitive's: `[I / groups, O, kernel..]` becomes
/// `[groups, O / groups, kernel..]`, which broadcasts by blocks to the primitive's weights `[I, O / groups, kernel..]`.
pub(super) fn grouped_scales(op: &Op, scales: MemoryDesc, weights: &[usize]) -> Result<MemoryDesc> {
    let groups = count(op, "groups", op.attrs.s64("groups")?)?;
    if op.kind != OpKind::ConvTranspose || groups == 1 || [1, weights[1]].contains(&scales.dims()[1]) {
        return Ok(scales);
    }
    let [parts, apart] = grouped(scales.dims(), groups);
    scales.reshaped(parts)?.permuted(&swapped(apart.len()))?.reshaped(merge(&apart))
}

fn deconvolution(
    program: &mut Program<'_>,
    op: &Op,
    src: Value,
    weights: Value,
    shape: ToPrimitive,
    window: Window,
) -> Result<Anchor> {
    let spatial = src.desc.rank() - 2;
    let mut primitive = op::Deconvolution::new(spatial)
        .with_strides(window.strides)
        .with_dilations(window.dilations)
        .with_pads(window.pads_begin, window.pads_end)
        .with_groups(count(op, "groups", op.attrs.s64("groups")?)?);
    if let Ok(more) = op.attrs.s64s("output_padding") {
        let more: Dims = more.iter().map(|&n| count(op, "output_padding", n)).collect::<Result<_>>()?;
        primitive = primitive.with_output_padding(more);
    }
    let mut args = vec![(Arg::SRC, src), (Arg::Weights, weights)];
    if op.kind == OpKind::ConvTranspose && op.inputs.len() > 2 {
        // The graph may write it with ones around the channels.
        let bias = input(program, op, 2)?;
        let channels = bias.desc.reshaped([bias.desc.elements()])?;
        args.push((Arg::Bias, bias.with_desc(channels)));
    }
    Ok(Anchor { op: anydnn_backend::Op::Deconvolution(primitive), args, shape, extra: Vec::new() })
}

fn convolution(op: &Op, window: Window) -> Result<op::Convolution> {
    Ok(op::Convolution {
        strides: window.strides,
        dilations: window.dilations,
        pads_begin: window.pads_begin,
        pads_end: window.pads_end,
        groups: count(op, "groups", op.attrs.s64("groups")?)?,
    })
}

/// The second input with the kernel last: `[O, C / groups, kernel..]`, where a transposed convolution's input channels are `O`.
fn weights(program: &mut Program<'_>, op: &Op) -> Result<Value> {
    let weights = input(program, op, 1)?;
    Ok(match outputs_first(op, weights.desc.rank())? {
        Some(order) => weights.with_desc(weights.desc.permuted(&order)?),
        None => weights,
    })
}

/// The second input of a transposed convolution as the convolution's weights `[I, O / groups, kernel..]`, which its dimensions may tell
/// that it is.
fn transposed_weights(
    program: &mut Program<'_>,
    op: &Op,
    is_primitives: impl FnOnce(&[usize]) -> bool,
) -> Result<Value> {
    let own = weights(program, op)?;
    let groups = count(op, "groups", op.attrs.s64("groups")?)?;
    if groups <= 1 || own.desc.rank() < 2 || is_primitives(own.desc.dims()) {
        return Ok(own);
    }
    // Groups stand before the output channels, and must come before the input channels: a copy.
    let [parts, apart] = grouped(own.desc.dims(), groups);
    let from = own.with_desc(own.desc.reshaped(parts)?.permuted(&swapped(apart.len()))?);
    let dense = program.temp(MemoryDesc::new(apart.clone(), own.desc.data_type()));
    let ops = index(program, op);
    views::copy(program, from, dense.clone(), ops)?;
    Ok(dense.with_desc(dense.desc.reshaped(merge(&apart))?))
}

/// The order of dimensions that brings weights with the kernel first to `[O, I, kernel..]` (`[I, O, kernel..]` of a transposed
/// convolution); none where they are in that order.
fn outputs_first(op: &Op, rank: usize) -> Result<Option<Vec<usize>>> {
    Ok(match op.attrs.string("weights_format")? {
        "XIO" | "XOI" if rank >= 2 => Some([rank - 1, rank - 2].into_iter().chain(0..rank - 2).collect()),
        _ => None,
    })
}

/// Dimensions `[I / groups, O, kernel..]` with the groups of their own: where they are, `[I / groups, groups, O / groups, kernel..]`, and
/// first.
fn grouped(dims: &[usize], groups: usize) -> [Vec<usize>; 2] {
    let parts = [&[dims[0], groups, dims[1] / groups], &dims[2..]].concat();
    let mut apart = parts.clone();
    apart.swap(0, 1);
    [parts, apart]
}

/// `[groups, I / groups, O / groups, kernel..]` with the first two as one.
fn merge(apart: &[usize]) -> Vec<usize> {
    [&[apart[0] * apart[1]], &apart[2..]].concat()
}

/// The order that exchanges the first two dimensions.
fn swapped(rank: usize) -> Vec<usize> {
    [1, 0].into_iter().chain(2..rank).collect()
}

fn result(op: &Op) -> Result<TensorId> {
    let none = || anydnn_backend::Error::invalid(op.to_string(), "outputs", "none", "one");
    op.outputs.first().copied().ok_or_else(none)
}

fn index(program: &Program<'_>, op: &Op) -> Vec<usize> {
    program.graph.ops().iter().position(|other| other.id == op.id).into_iter().collect()
}
