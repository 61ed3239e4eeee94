//! Convolution and pooling: windows over images.

use anydnn_backend::op::{self, PoolingAlgorithm};
use anydnn_backend::{Arg, Dims, Error, InvalidKind, MemoryDesc, Result};

use super::{Anchor, ToPrimitive, channels_first, input, is_channels_last};
use crate::compile::program::{Program, Value};
use crate::graph::{Op, OpKind, Window};

/// `Convolution` with images and weights in either format.
pub(super) fn convolution(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let (src, shape) = image(program, op, 0)?;
    let weights = input(program, op, 1)?;
    let rank = weights.desc.rank();
    let weights = match op.attrs.string("weights_format")? {
        "XIO" if rank >= 2 => {
            let order: Vec<usize> = [rank - 1, rank - 2].into_iter().chain(0..rank - 2).collect();
            weights.with_desc(weights.desc.permuted(&order)?)
        }
        _ => weights,
    };
    let kernel = Dims::new(weights.desc.dims().get(2..).unwrap_or_default());
    let window = Window::new(op, &src.desc.dims()[2..], &kernel)?;
    let primitive = op::Convolution {
        strides: window.strides,
        dilations: window.dilations,
        pads_begin: window.pads_begin,
        pads_end: window.pads_end,
        groups: count(op, "groups", op.attrs.s64("groups")?)?,
    };
    let mut args = vec![(Arg::SRC, src), (Arg::Weights, weights)];
    let (mut primitive, mut shape) = (primitive, shape);
    if let Some(order) = line_last(&args, &primitive) {
        let spatial = |list: &Dims| order[2..].iter().map(|&axis| list[axis - 2]).collect();
        primitive = op::Convolution {
            strides: spatial(&primitive.strides),
            dilations: spatial(&primitive.dilations),
            pads_begin: spatial(&primitive.pads_begin),
            pads_end: spatial(&primitive.pads_end),
            groups: primitive.groups,
        };
        for (_, value) in &mut args {
            *value = value.with_desc(value.desc.permuted(&order)?);
        }
        let own = shape.order.take();
        shape.order = Some(order.iter().map(|&axis| own.as_ref().map_or(axis, |own| own[axis])).collect());
    }
    if op.inputs.len() > 2 {
        // The graph may write it with ones around the channels.
        let bias = input(program, op, 2)?;
        let channels = bias.desc.reshaped([bias.desc.elements()])?;
        args.push((Arg::Bias, bias.with_desc(channels)));
    }
    Ok(Anchor { op: anydnn_backend::Op::Convolution(primitive), args, shape, extra: Vec::new() })
}

/// The order of dimensions that brings an axis with something to convolve to the end, where there is one and nothing is left to do along
/// the last: primitives take the positions of a line together. The operands are `[N, C, spatial..]` and `[O, I, spatial..]`.
fn line_last(args: &[(Arg, Value)], op: &op::Convolution) -> Option<Vec<usize>> {
    let [(_, src), (_, weights)] = args else { return None };
    let rank = src.desc.rank();
    let is_idle = |axis: usize| {
        let pads = [op.pads_begin[axis - 2], op.pads_end[axis - 2]];
        src.desc.dims()[axis] == 1 && weights.desc.dims()[axis] == 1 && pads == [0, 0]
    };
    let line = (2..rank).rev().find(|&axis| !is_idle(axis))?;
    (line + 1 < rank).then(|| (0..2).chain(line + 1..rank).chain(2..=line).collect())
}

/// `MaxPool` and `AvgPool`.
pub(super) fn pooling(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let (src, shape) = image(program, op, 0)?;
    let kernel: Dims =
        op.attrs.s64s("kernel")?.iter().map(|&k| count(op, "kernel", k)).collect::<Result<_>>()?;
    let algorithm = match op.kind {
        OpKind::MaxPool => PoolingAlgorithm::Max,
        _ if op.attrs.bool("exclude_pad")? => PoolingAlgorithm::AverageExcludePadding,
        _ => PoolingAlgorithm::AverageIncludePadding,
    };
    // Rounding up pads behind the source. An average that counts padding does not count that: the primitive rounds up itself then.
    let ceil = algorithm == PoolingAlgorithm::AverageIncludePadding && op.attrs.says("rounding_type", "ceil");
    let mut rounded_down = op.clone();
    if ceil {
        rounded_down.attrs.set("rounding_type", "floor");
    }
    let window = Window::new(&rounded_down, &src.desc.dims()[2..], &kernel)?;
    let primitive = op::Pooling {
        algorithm,
        kernel,
        strides: window.strides,
        dilations: window.dilations,
        pads_begin: window.pads_begin,
        pads_end: window.pads_end,
        ceil,
    };
    Ok(Anchor {
        op: anydnn_backend::Op::Pooling(primitive),
        args: vec![(Arg::SRC, src)],
        shape,
        extra: Vec::new(),
    })
}

/// An input as `[N, C, spatial..]`, and the way back for a result in the same format.
pub(super) fn image(program: &Program<'_>, op: &Op, i: usize) -> Result<(Value, ToPrimitive)> {
    let value = input(program, op, i)?;
    let desc = image_desc(op, &value.desc)?;
    let shape =
        if is_channels_last(op)? { ToPrimitive::channels_first(desc.rank()) } else { ToPrimitive::default() };
    Ok((value.with_desc(desc), shape))
}

/// An image's descriptor as `[N, C, spatial..]`.
pub(super) fn image_desc(op: &Op, desc: &MemoryDesc) -> Result<MemoryDesc> {
    let rank = desc.rank();
    if rank < 3 {
        let given = rank.to_string();
        return Err(Error::invalid_kind(
            InvalidKind::Shape,
            op.to_string(),
            "rank of an image",
            given,
            "at least 3",
        ));
    }
    if is_channels_last(op)? { desc.permuted(&channels_first(rank)) } else { Ok(desc.clone()) }
}

/// An attribute that counts something.
pub(super) fn count(op: &Op, name: &str, value: i64) -> Result<usize> {
    usize::try_from(value).map_err(|_| {
        Error::invalid_kind(
            InvalidKind::GraphOp,
            op.kind.to_string(),
            format!("attribute {name}"),
            value.to_string(),
            "not negative",
        )
    })
}
