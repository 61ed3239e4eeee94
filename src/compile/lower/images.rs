//! Gradients of poolings, and images of other sizes.

use anydnn_backend::op::{self, PoolingAlgorithm, Resampling, ResamplingAlgorithm, ResamplingBackward};
use anydnn_backend::{Arg, Dims, Error, Result};

use super::Anchor;
use super::convolution::{count, image, image_desc};
use crate::compile::program::{Program, declared};
use crate::graph::{Op, OpKind, Window};

/// `MaxPoolBackward` and `AvgPoolBackward`.
pub(super) fn pooling_backward(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let is_max = op.kind == OpKind::MaxPoolBackward;
    let (diff, shape) = image(program, op, usize::from(is_max))?;
    let id = op.outputs.first().ok_or_else(|| Error::invalid(op.to_string(), "outputs", "none", "one"))?;
    let result = image_desc(op, &declared(program.graph, *id)?)?;
    let kernel: Dims =
        op.attrs.s64s("kernel")?.iter().map(|&k| count(op, "kernel", k)).collect::<Result<_>>()?;
    let algorithm = match is_max {
        true => PoolingAlgorithm::Max,
        false if op.attrs.bool("exclude_pad")? => PoolingAlgorithm::AverageExcludePadding,
        false => PoolingAlgorithm::AverageIncludePadding,
    };
    let spatial = &result.dims()[2..];
    let mut window = Window::new(op, spatial, &kernel)?;
    // A gradient does not say how the pooling rounded: the number of its windows does.
    let mut ceil = false;
    if *window.output != diff.desc.dims()[2..] {
        let mut rounded_up = op.clone();
        rounded_up.attrs.set("rounding_type", "ceil");
        let up = Window::new(&rounded_up, spatial, &kernel)?;
        ceil = *up.output == diff.desc.dims()[2..];
        // What rounding up pads counts in no average: the primitive rounds up itself then.
        if ceil && algorithm != PoolingAlgorithm::AverageIncludePadding {
            (window, ceil) = (up, false);
        }
    }
    let pooling = op::Pooling {
        algorithm,
        kernel,
        strides: window.strides,
        dilations: window.dilations,
        pads_begin: window.pads_begin,
        pads_end: window.pads_end,
        ceil,
    };
    let mut args = vec![(Arg::Src(0), diff)];
    if is_max {
        args.push((Arg::Src(1), image(program, op, 0)?.0));
    }
    let primitive = anydnn_backend::Op::PoolingBackward(op::PoolingBackward::new(pooling));
    Ok(Anchor { op: primitive, args, shape, extra: Vec::new() })
}

/// `Interpolate`. Its sizes are those of the result.
pub(super) fn interpolate(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let (src, shape) = image(program, op, 0)?;
    let primitive = anydnn_backend::Op::Resampling(resampling(op)?);
    Ok(Anchor { op: primitive, args: vec![(Arg::SRC, src)], shape, extra: Vec::new() })
}

/// `InterpolateBackward`. It needs the source's shape alone, which its result has.
pub(super) fn interpolate_backward(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let (diff, shape) = image(program, op, 1)?;
    let primitive = anydnn_backend::Op::ResamplingBackward(ResamplingBackward::new(resampling(op)?));
    Ok(Anchor { op: primitive, args: vec![(Arg::SRC, diff)], shape, extra: Vec::new() })
}

fn resampling(op: &Op) -> Result<Resampling> {
    let algorithm = match op.attrs.string("mode")? {
        "nearest" => ResamplingAlgorithm::Nearest,
        _ => ResamplingAlgorithm::Linear,
    };
    let aligned = op.attrs.string("coordinate_transformation_mode")? == "align_corners";
    Ok(Resampling::new(algorithm).with_align_corners(aligned))
}
