//! Resampling and its gradient: each element of the result collects what it needs.

mod lines;
#[cfg(test)]
mod tests;

use anydnn_backend::op::{Resampling, ResamplingAlgorithm, ResamplingBackward};
use anydnn_backend::{Arg, Dims, PrimitiveDesc, Result};

use super::choice::{Choice, Choices, Wanted};
use super::pointwise::{is_wide, padding};
use super::rows::Rows;
use super::source::{Source, add_post_ops};
use super::space::{Binding, Index, Space};
use super::value::Value;
use super::{Planner, epilogue, numbers};
use crate::plan::{DeviceTraits, Launch};

const POSITIONS: &str = anydnn_kernels::text("resampling/positions.cl");
const FORWARD: &str = anydnn_kernels::text("resampling/resampling.cl");
const BACKWARD: &str = anydnn_kernels::text("resampling/backward.cl");

/// Products of both sizes from which on positions need 64 bits.
const LARGEST: usize = 1 << 27;
/// Names of the last three spatial dimensions.
const NAMES: [&str; 3] = ["d", "h", "w"];

/// Loops `od`, `oh`, `ow` run over the resampled tensor and `sd`, `sh`, `sw` over the original one; those over the result are rows, the
/// others are the kernel's own. None where vectors of channels are wanted and there are none, or the other way round.
fn collect(
    desc: &PrimitiveDesc,
    op: Resampling,
    backward: bool,
    vertical: bool,
    device: &DeviceTraits,
) -> Option<Launch> {
    let nearest = op.algorithm == ResamplingAlgorithm::Nearest;
    let value = Value::of(desc, nearest);
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
    add_post_ops(&mut space, desc, &result);
    let rows = Rows::outputs(space, outer, value, device, Some(("c", &["SRC0"]))).complete(device);
    if vertical != (rows.lanes > 1) {
        return None;
    }
    let ratios = (0..3)
        .map(|i| if backward { extent(to.dims(), i).div_ceil(extent(from.dims(), i).max(1)) } else { 1 });
    let work = ratios.product::<usize>().saturating_mul(16 * rows.lanes);
    let mut text = rows.source(value, is_wide(desc), device, work);
    define_positions(&mut text, value, op, from.dims(), to.dims());
    epilogue::define_all(&mut text, desc, value, device);
    let (kernel, file) = if backward { ("resampling_backward", BACKWARD) } else { ("resampling", FORWARD) };
    Some(rows.launch(text, kernel, &[POSITIONS, file], device, work))
}

/// The extent of one of three spatial dimensions, which a tensor may lack.
fn extent(dims: &Dims, i: usize) -> usize {
    let missing = 5 - dims.len();
    if i < missing { 1 } else { dims[i - missing + 2] }
}

/// What `resampling/positions.cl` is written against, of a tensor of dimensions `to` that was one of `from`.
fn define_positions(text: &mut Source, value: Value, op: Resampling, from: &Dims, to: &Dims) {
    let nearest = op.algorithm == ResamplingAlgorithm::Nearest;
    for (i, name) in NAMES.iter().enumerate() {
        let name = name.to_uppercase();
        let (from, to) = (extent(from, i), extent(to, i));
        // A position's fraction of whole numbers has this below.
        let below = if op.align_corners { to.saturating_sub(1).max(1) } else { to.max(1) };
        let below = below.saturating_mul(if nearest { 4 } else { 2 });
        text.number_of(format_args!("FROM_{name}"), from).number_of(format_args!("TO_{name}"), to).define(
            format_args!("OVER_{name}"),
            format_args!("{}, {}", numbers::divisor(below), value.number(1.0 / below as f32)),
        );
    }
    // As the same product in every program: a compiler that knows the divisor may divide another way.
    let share = match value {
        Value::F32 => "((R)(x) * (inverse))",
        _ => "((R)(x) / (R)(below))",
    };
    // Positions are products of both sizes.
    let largest = (0..3).map(|i| extent(from, i).saturating_mul(extent(to, i))).max().unwrap_or(1);
    text.define("SHARE(x, below, inverse)", share)
        .define("NEAREST", i32::from(nearest))
        .define("LARGE", i32::from(largest >= LARGEST))
        .define("ALIGNED", i32::from(op.align_corners))
        .define("whole", if largest < LARGEST { "int" } else { "long" });
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
        let mut choices = Choices::new(desc, wanted);
        let collected = |vertical: bool| collect(desc, *self, false, vertical, device);
        choices.offer("vertical", "the channels lie last", || collected(true));
        choices.offer("lines", "lines lie side by side", || lines::plan(desc, *self, device));
        choices.offer("ref", "serves every layout and type", || collected(false));
        Ok(choices.followed_by(|| padding(desc.dst(), Arg::DST, device)))
    }
}

impl Planner for ResamplingBackward {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        let mut choices = Choices::new(desc, wanted);
        let collected = |vertical: bool| collect(desc, self.resampling, true, vertical, device);
        choices.offer("vertical", "the channels lie last", || collected(true));
        choices.offer("ref", "serves every layout and type", || collected(false));
        Ok(choices.followed_by(|| padding(desc.dst(), Arg::DST, device)))
    }
}
