//! The gradient of a convolution for its weights.
//!
//! Variants: `vector` (CPUs: tiles of weights as vectors along channels, or along the width where channels are far apart), `group`
//! (other devices: a work-group adds up a weight's terms) and `ref` (anything).

use super::choice::{Choice, Wanted, only};
use anydnn_backend::op::{Convolution, ConvolutionWeights};
use anydnn_backend::{Arg, DataType, PrimitiveDesc, Result};

use super::pointwise::{is_wide, padding};
use super::rows::{CPU_LANES, Mode, Rows, group_size, is_cpu, items};
use super::source::{Source, add_post_ops, is_contiguous};
use super::space::{Binding, Index, Space};
use super::value::Value;
use super::window::{WINDOW, Window};
use super::{Planner, panels};
use crate::plan::{DeviceTraits, KernelPlan, Launch};

const REFERENCE: &str = anydnn_kernels::text("convolution/weights.cl");
const VECTOR: &str = anydnn_kernels::text("convolution/weights_vector.cl");

/// Neighbours that a work-item computes together: as many accumulators leave registers for what they are made of.
const TILE: usize = 8;

/// Plans a gradient whose layouts are resolved.
pub(super) fn plan(desc: PrimitiveDesc, op: &Convolution, device: &DeviceTraits) -> KernelPlan {
    let value = Value::of(&desc, true);
    let diff = desc.find(Arg::Src(1)).unwrap_or(desc.src());
    let window = Window {
        src: &desc.src().dims()[2..],
        dst: &diff.dims()[2..],
        kernel: &desc.dst().dims()[2..],
        strides: &op.strides,
        dilations: &op.dilations,
        pads_begin: &op.pads_begin,
        pads_end: &op.pads_end,
        transposed: false,
    };
    let (space, outer) = space(&desc, op.groups, &window);
    let (implementation, launch) = match vector(&desc, &window, &space, outer, value, device) {
        Some(launch) => ("vector", launch),
        None => reference(&desc, &window, space, outer, value, device),
    };
    let launches = std::iter::once(launch).chain(padding(desc.dst(), Arg::DST, device)).collect();
    let implementation = format!("ocl:{}:{implementation}", desc.op().name());
    KernelPlan { implementation, scratchpad: 0, launches, desc }
}

/// The loops `g`, `og`, `c`, `kd`, `kh`, `kw` over the weights, and `image`, `od`, `oh`, `ow` over the terms of a sum; the number of the
/// former.
fn space(desc: &PrimitiveDesc, groups: usize, window: &Window<'_>) -> (Space, usize) {
    let (src, dst) = (desc.src(), desc.dst());
    let (outputs, channels) = (dst.dims()[0] / groups, dst.dims()[1]);
    let mut space = Space::default();
    let group = space.push("g", groups);
    let output = space.push("og", outputs);
    let channel = space.push("c", channels);
    let taps = window.push_taps(&mut space);
    let outer = space.loops.len();
    let image = space.push("image", src.dims()[0]);
    let result = window.push_result(&mut space);
    let at = |channel: Index, spatial: &[Index]| -> Vec<Index> {
        [Index::of(image), channel].into_iter().chain(spatial.iter().cloned()).collect()
    };
    let output = Index::sum(&[(group, outputs), (output, 1)]);
    let source = window.source_index(&mut space, &result, &taps);
    let source = at(Index::sum(&[(group, channels), (channel, 1)]), &source);
    space.operand("SRC0", Binding::Arg(Arg::Src(0)), src, &source);
    if let Some(diff) = desc.find(Arg::Src(1)) {
        space.operand("SRC1", Binding::Arg(Arg::Src(1)), diff, &at(output.clone(), &result));
    }
    let mut weight = vec![output, Index::of(channel)];
    weight.extend(taps);
    space.operand("DST", Binding::Arg(Arg::DST), dst, &weight);
    add_post_ops(&mut space, desc, &weight);
    (space, outer)
}

fn reference(
    desc: &PrimitiveDesc,
    window: &Window<'_>,
    space: Space,
    outer: usize,
    value: Value,
    device: &DeviceTraits,
) -> (&'static str, Launch) {
    let terms = space.count(outer..space.loops.len());
    let (name, mode) = match is_cpu(device) {
        true => ("ref", Mode::Item),
        false if terms >= 32 && group_size(device) >= 32 => ("group", Mode::Group),
        false => ("ref", Mode::Lane),
    };
    let rows = Rows { space, outer, mode, lanes: 1, lane: None, overlaps: false };
    let mut source = rows.source(value, is_wide(desc), device, terms);
    window.define(&mut source);
    source.post_ops(desc);
    (name, rows.launch(source, "convolution_weights", &[WINDOW, REFERENCE], device, terms))
}

/// What the lanes of a vector run along, and what it is multiplied by.
struct Shape {
    /// The loop of the lanes.
    lane: &'static str,
    /// The loop of the weights that a tile runs along.
    tiled: &'static str,
    /// The operand that is loaded once for a tile, and the other one.
    vector: &'static str,
    other: &'static str,
}

/// Channels of one operand side by side, then those of groups with one channel, then the width.
const SHAPES: [Shape; 4] = [
    Shape { lane: "og", tiled: "c", vector: "SRC1", other: "SRC0" },
    Shape { lane: "c", tiled: "og", vector: "SRC0", other: "SRC1" },
    Shape { lane: "g", tiled: "c", vector: "SRC1", other: "SRC0" },
    Shape { lane: "ow", tiled: "og", vector: "SRC0", other: "SRC1" },
];

fn vector(
    desc: &PrimitiveDesc,
    window: &Window<'_>,
    space: &Space,
    outer: usize,
    value: Value,
    device: &DeviceTraits,
) -> Option<Launch> {
    let real = |arg: Arg| {
        desc.find(arg)
            .is_some_and(|d| matches!(d.data_type(), DataType::F32 | DataType::F16 | DataType::BF16))
    };
    let fits = is_cpu(device) && value == Value::F32 && space.is_linear();
    if !fits || !real(Arg::Src(0)) || !real(Arg::Src(1)) || desc.dst().elements() == 0 {
        return None;
    }
    let shape = SHAPES.iter().find(|shape| {
        space.variable(shape.lane).is_some_and(|lane| {
            let own = if shape.lane == "ow" { shape.other } else { shape.vector };
            let both = shape.lane != "g" || is_contiguous(space, shape.other, lane);
            space.loops[lane].extent >= CPU_LANES / 2 && is_contiguous(space, own, lane) && both
        })
    })?;
    let (lane, tiled) = (space.variable(shape.lane)?, space.variable(shape.tiled)?);
    let size = space.loops[tiled].extent;
    let tile = TILE.min(size);
    // Work-items count tiles instead of the loop's steps.
    let mut items_of = space.clone();
    items_of.loops[tiled].name = "tile".into();
    items_of.loops[tiled].extent = size.div_ceil(tile);
    let mut count = items_of.count(0..outer);
    if lane < outer {
        let extent = space.loops[lane].extent;
        count = count / extent * extent.div_ceil(CPU_LANES);
    }
    let mut source = Source::new(space, value, (CPU_LANES, Some(lane)), is_wide(desc), true);
    panels::repetitions(&mut source, tile, 1);
    let Shape { vector, other, .. } = shape;
    let single = matches!(shape.lane, "og" | "c");
    let load = if single { format!("LD1_{other}(o)") } else { format!("LD_{other}(o, n)") };
    source
        .declare("DECLARE_ROW", &items_of, 0..outer)
        .define("ITEMS", count)
        .define("TILED", shape.tiled)
        .define("TILED_SIZE", format_args!("(idx){size}"))
        .define("ALONG_WIDTH", i32::from(shape.lane == "ow"))
        .define("IMAGES", desc.src().dims()[0])
        .define("VECTOR(n)", format_args!("LD_{vector}(OFF_{vector}, n)"))
        .define("OFF_OTHER", format_args!("OFF_{other}"))
        .define("OTHER(o, n)", load)
        .define("OTHER_STEP", space.coefficient(other, tiled)?)
        .post_ops(desc);
    window.define(&mut source);
    let (global, local) = items(device, count);
    Some(source.launch("convolution_weights_vector", &[WINDOW, VECTOR], global, local))
}

impl Planner for ConvolutionWeights {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        Ok(only(plan(desc.clone(), &self.convolution, device), wanted))
    }
}
