//! Resampling and its gradient: each element of the result collects what it needs.

use super::choice::{Choice, Wanted, only};
use super::epilogue;
use super::{Planner, numbers};
use anydnn_backend::op::{Resampling, ResamplingAlgorithm, ResamplingBackward};
use anydnn_backend::{Arg, PrimitiveDesc, Result};

use super::pointwise::{is_wide, padding};
use super::rows::Rows;
use super::source::add_post_ops;
use super::space::{Binding, Index, Space};
use super::value::Value;
use crate::plan::{DeviceTraits, KernelPlan};

const POSITIONS: &str = anydnn_kernels::text("resampling/positions.cl");
const FORWARD: &str = anydnn_kernels::text("resampling/resampling.cl");
const BACKWARD: &str = anydnn_kernels::text("resampling/backward.cl");

/// Products of both sizes from which on positions need 64 bits.
const LARGEST: usize = 1 << 27;
/// Names of the last three spatial dimensions.
const NAMES: [&str; 3] = ["d", "h", "w"];

/// Plans a resampling.
pub(super) fn plan(desc: PrimitiveDesc, op: Resampling, device: &DeviceTraits) -> KernelPlan {
    collect(desc, op, false, device)
}

/// Plans the gradient of a resampling.
pub(super) fn plan_backward(desc: PrimitiveDesc, op: Resampling, device: &DeviceTraits) -> KernelPlan {
    collect(desc, op, true, device)
}

/// Loops `od`, `oh`, `ow` run over the resampled tensor and `sd`, `sh`, `sw` over the original one; those over the result are rows, the
/// others are the kernel's own.
fn collect(desc: PrimitiveDesc, op: Resampling, backward: bool, device: &DeviceTraits) -> KernelPlan {
    let nearest = op.algorithm == ResamplingAlgorithm::Nearest;
    let value = Value::of(&desc, nearest);
    let (src, dst) = (desc.src(), desc.dst());
    let (from, to) = if backward { (dst, src) } else { (src, dst) };
    let mut space = Space::default();
    let image = space.push("image", dst.dims()[0]);
    let channel = space.push("c", dst.dims()[1]);
    let place = |spatial: Vec<Index>| -> Vec<Index> {
        [Index::of(image), Index::of(channel)].into_iter().chain(spatial).collect()
    };
    let (own, other) = if backward { ("s", "o") } else { ("o", "s") };
    let result = place(push(&mut space, own, &dst.dims()[2..]));
    let outer = space.loops.len();
    let source = place(push(&mut space, other, &src.dims()[2..]));
    space.operand("SRC0", Binding::Arg(Arg::SRC), src, &source);
    space.operand("DST", Binding::Arg(Arg::DST), dst, &result);
    add_post_ops(&mut space, &desc, &result);
    let rows = Rows::outputs(space, outer, value, device, Some(("c", &["SRC0"]))).complete(device);
    let missing = 5 - src.rank();
    let extent = |dims: &[usize], i: usize| if i < missing { 1 } else { dims[i - missing + 2] };
    let ratios = (0..3)
        .map(|i| if backward { extent(to.dims(), i).div_ceil(extent(from.dims(), i).max(1)) } else { 1 });
    let work = ratios.product::<usize>().saturating_mul(16 * rows.lanes);
    let mut text = rows.source(value, is_wide(&desc), device, work);
    for (i, name) in NAMES.iter().enumerate() {
        let name = name.to_uppercase();
        let (from, to) = (extent(from.dims(), i), extent(to.dims(), i));
        // A position's fraction of whole numbers has this below.
        let below = if op.align_corners { to.saturating_sub(1).max(1) } else { to.max(1) };
        let below = below.saturating_mul(if nearest { 4 } else { 2 });
        text.number_of(format_args!("FROM_{name}"), from)
            .number_of(format_args!("TO_{name}"), to)
            .define(format_args!("OVER_{name}"), numbers::divisor(below));
    }
    // Positions are products of both sizes.
    let largest =
        (0..3).map(|i| extent(from.dims(), i).saturating_mul(extent(to.dims(), i))).max().unwrap_or(1);
    text.define("NEAREST", i32::from(nearest))
        .define("LARGE", i32::from(largest >= LARGEST))
        .define("ALIGNED", i32::from(op.align_corners))
        .define("whole", if largest < LARGEST { "int" } else { "long" });
    epilogue::define_all(&mut text, &desc, value, device);
    let (kernel, file) = if backward { ("resampling_backward", BACKWARD) } else { ("resampling", FORWARD) };
    let launch = rows.launch(text, kernel, &[POSITIONS, file], device, work);
    let launches = std::iter::once(launch).chain(padding(dst, Arg::DST, device)).collect();
    let shape = if rows.lanes > 1 { "vertical" } else { "ref" };
    let implementation = format!("ocl:{}:{shape}", desc.op().name());
    KernelPlan { implementation, scratchpad: 0, launches, desc }
}

/// Adds loops over up to three spatial dimensions; those that the tensor lacks have one step.
fn push(space: &mut Space, prefix: &str, extents: &[usize]) -> Vec<Index> {
    let missing = 3 - extents.len();
    let mut index = Vec::new();
    for (i, name) in NAMES.iter().enumerate() {
        let extent = i.checked_sub(missing).map_or(1, |j| extents[j]);
        let variable = space.push(format!("{prefix}{name}"), extent);
        if i >= missing {
            index.push(Index::of(variable));
        }
    }
    index
}

impl Planner for Resampling {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        Ok(only(plan(desc.clone(), *self, device), wanted))
    }
}

impl Planner for ResamplingBackward {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        Ok(only(plan_backward(desc.clone(), self.resampling, device), wanted))
    }
}
