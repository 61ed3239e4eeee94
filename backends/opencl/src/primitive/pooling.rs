//! Pooling.

use anydnn_backend::op::{Pooling, PoolingAlgorithm};
use anydnn_backend::{Arg, Error, PrimitiveDesc, Result};

use super::pointwise::{is_wide, padding};
use super::rows::Rows;
use super::source::add_post_ops;
use super::space::{Binding, Index, Space};
use super::value::Value;
use super::window::{WINDOW, Window};
use crate::plan::{DeviceTraits, KernelPlan};

const POOLING: &str = include_str!("../../../../kernels/pooling/pooling.cl");

/// Plans a pooling.
pub(super) fn plan(desc: PrimitiveDesc, op: &Pooling, device: &DeviceTraits) -> Result<KernelPlan> {
    let value = Value::of(&desc, op.algorithm == PoolingAlgorithm::Max);
    let (src, dst) = (desc.src(), desc.dst());
    let window = Window {
        src: &src.dims()[2..],
        dst: &dst.dims()[2..],
        kernel: &op.kernel,
        strides: &op.strides,
        dilations: &op.dilations,
        pads_begin: &op.pads_begin,
        pads_end: &op.pads_end,
    };
    let least = if value == Value::I64 { "LONG_MIN" } else { "(-INFINITY)" };
    let (start, join, average, count_padding) = match op.algorithm {
        PoolingAlgorithm::Max => (least, "LARGER(a, b)", 0, 0),
        PoolingAlgorithm::AverageExcludePadding => ("0", "PLUS(a, b)", 1, 0),
        PoolingAlgorithm::AverageIncludePadding => ("0", "PLUS(a, b)", 1, 1),
        _ => return Err(Error::unsupported(desc.name(), "no kernel for this kind of pooling")),
    };
    let mut space = Space::default();
    let image = space.push("image", src.dims()[0]);
    let channel = space.push("c", src.dims()[1]);
    let result = window.push_result(&mut space);
    let outer = space.loops.len();
    let taps = window.push_taps(&mut space);
    let place = |spatial: Vec<Index>| -> Vec<Index> {
        [Index::of(image), Index::of(channel)].into_iter().chain(spatial).collect()
    };
    space.operand("SRC0", Binding::Arg(Arg::SRC), src, &place(window.source_index(&result, &taps)));
    let result = place(result);
    space.operand("DST", Binding::Arg(Arg::DST), dst, &result);
    add_post_ops(&mut space, &desc, &result);
    let rows = Rows::outputs(space, outer, value, device, Some(("c", &["SRC0"])));
    let work = op.kernel.iter().product::<usize>() * 4 * rows.lanes;
    let mut source = rows.source(value, is_wide(&desc), device, work);
    window.define(&mut source);
    source
        .define("START", start)
        .define("JOIN(a, b)", join)
        .define("AVERAGE", average)
        .define("COUNT_PADDING", count_padding)
        .post_ops(&desc);
    let launch = rows.launch(source, "pooling", &[WINDOW, POOLING], device, work);
    let launches = std::iter::once(launch).chain(padding(dst, Arg::DST, device)).collect();
    let shape = if rows.lanes > 1 { "vertical" } else { "ref" };
    Ok(KernelPlan { implementation: format!("ocl:pooling:{shape}"), scratchpad: 0, launches, desc })
}
