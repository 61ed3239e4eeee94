//! Convolution and pooling: windows over images.

use anydnn_backend::op::{self, PoolingAlgorithm};
use anydnn_backend::{Arg, Dims, Error, InvalidKind, Result};

use super::{Anchor, ToPrimitive, channels_first, input, is_channels_last};
use crate::compile::program::{Program, Value};
use crate::graph::{Op, OpKind};

/// `Convolution` with images and weights in either format.
pub(super) fn convolution(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let (src, shape) = image(program, op)?;
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
    let window = Window::of(op, &src, &kernel)?;
    let primitive = op::Convolution {
        strides: window.strides,
        dilations: window.dilations,
        pads_begin: window.pads_begin,
        pads_end: window.pads_end,
        groups: non_negative(op, "groups", op.attrs.s64("groups")?)?,
    };
    let mut args = vec![(Arg::SRC, src), (Arg::Weights, weights)];
    if op.inputs.len() > 2 {
        args.push((Arg::Bias, input(program, op, 2)?));
    }
    Ok(Anchor { op: anydnn_backend::Op::Convolution(primitive), args, shape, extra: Vec::new() })
}

/// `MaxPool` and `AvgPool`.
pub(super) fn pooling(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let (src, shape) = image(program, op)?;
    let kernel = sizes(op, "kernel")?;
    let window = Window::of(op, &src, &kernel)?;
    let algorithm = match op.kind {
        OpKind::MaxPool => PoolingAlgorithm::Max,
        _ if op.attrs.bool("exclude_pad")? => PoolingAlgorithm::AverageExcludePadding,
        _ => PoolingAlgorithm::AverageIncludePadding,
    };
    let primitive = op::Pooling {
        algorithm,
        kernel,
        strides: window.strides,
        dilations: window.dilations,
        pads_begin: window.pads_begin,
        pads_end: window.pads_end,
        ceil: op.attrs.string("rounding_type").is_ok_and(|r| r == "ceil"),
    };
    Ok(Anchor {
        op: anydnn_backend::Op::Pooling(primitive),
        args: vec![(Arg::SRC, src)],
        shape,
        extra: Vec::new(),
    })
}

/// The source as `[N, C, spatial..]`, and the way back for the result.
fn image(program: &Program<'_>, op: &Op) -> Result<(Value, ToPrimitive)> {
    let src = input(program, op, 0)?;
    let rank = src.desc.rank();
    if rank < 3 {
        return Err(Error::invalid_kind(
            InvalidKind::Shape,
            "operation",
            "rank of the source",
            rank.to_string(),
            "at least 3",
        ));
    }
    if !is_channels_last(op)? {
        return Ok((src, ToPrimitive::default()));
    }
    let desc = src.desc.permuted(&channels_first(rank))?;
    Ok((src.with_desc(desc), ToPrimitive::channels_first(rank)))
}

/// The steps and padding of a window.
struct Window {
    strides: Dims,
    dilations: Dims,
    pads_begin: Dims,
    pads_end: Dims,
}

impl Window {
    fn of(op: &Op, src: &Value, kernel: &Dims) -> Result<Self> {
        let spatial = src.desc.rank() - 2;
        let strides = sizes(op, "strides")?;
        let dilations =
            if op.attrs.get("dilations").is_some() { sizes(op, "dilations")? } else { Dims::default() };
        let ones: Dims = std::iter::repeat_n(1, spatial).collect();
        let dilations = if dilations.is_empty() { ones } else { dilations };
        let auto_pad = op.attrs.string("auto_pad").unwrap_or("None");
        if strides.len() != spatial || kernel.len() != spatial || dilations.len() != spatial {
            // The primitive's own check names the parameter.
            return Ok(Self { strides, dilations, pads_begin: Dims::default(), pads_end: Dims::default() });
        }
        let (pads_begin, pads_end) = match auto_pad {
            "SAME_UPPER" | "SAME_LOWER" => {
                let total = |i: usize| {
                    let (input, stride) = (src.desc.dims()[i + 2], strides[i].max(1));
                    let reach = kernel[i].saturating_sub(1) * dilations[i] + 1;
                    ((input.div_ceil(stride).max(1) - 1) * stride + reach).saturating_sub(input)
                };
                let small: Dims = (0..spatial).map(|i| total(i) / 2).collect();
                let large: Dims = (0..spatial).map(|i| total(i).div_ceil(2)).collect();
                if auto_pad == "SAME_UPPER" { (small, large) } else { (large, small) }
            }
            "VALID" => {
                let none: Dims = std::iter::repeat_n(0, spatial).collect();
                (none.clone(), none)
            }
            _ => (sizes(op, "pads_begin")?, sizes(op, "pads_end")?),
        };
        Ok(Self { strides, dilations, pads_begin, pads_end })
    }
}

/// A list of sizes, none negative.
fn sizes(op: &Op, name: &str) -> Result<Dims> {
    op.attrs.s64s(name)?.iter().map(|&v| non_negative(op, name, v)).collect()
}

fn non_negative(op: &Op, name: &str, value: i64) -> Result<usize> {
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
