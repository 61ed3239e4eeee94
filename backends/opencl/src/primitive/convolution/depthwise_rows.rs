//! Depthwise convolutions by rows of the result, channels last (`convolution/depthwise_rows.cl`).

use std::borrow::Cow;

use anydnn_backend::{MemoryDesc, PostOp};

use super::{Order, Shape};
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::epilogue::{EPILOGUE, Finish};
use crate::primitive::numbers::always;
use crate::primitive::panels;
use crate::primitive::rows::CPU_LANES;
use crate::primitive::source::{Source, is_contiguous};
use crate::primitive::sums::define_bias;
use crate::primitive::value::Value;
use crate::primitive::window::WINDOW;

const DEPTHWISE_ROWS: &str = anydnn_kernels::text("convolution/depthwise_rows.cl");

/// Lanes of the shortest vectors.
const LEAST_LANES: usize = 4;
/// Taps side by side whose weights fit into registers.
const MOST_TAPS: usize = 7;
/// Positions that go together: as many as most lines have without waste, and fewer for short ones.
const TILES: [usize; 2] = [6, 4];
/// The same of the program for every shape.
const GENERAL_TILE: usize = 4;
/// The same where registers hold few sums: those of the taps have to fit beside them.
const FEW_TAPS: usize = 3;
const FEW_TILES: [usize; 2] = [4, 2];
const FEW_GENERAL_TILE: usize = 6;
/// Weights of a work-item, which stay in the first-level cache beside the source.
const NEAR_FACTORS: usize = 4096;
/// Work-items for each core: few, as small results are computed in the time that a runtime takes for some of them.
const ITEMS: usize = 6;

impl Shape<'_> {
    /// Lanes along the groups and several positions at once, where groups are contiguous.
    pub(super) fn depthwise_rows(&self, value: Value, device: &DeviceTraits) -> Option<Launch> {
        if self.window.transposed || value != Value::F32 {
            return None;
        }
        let (mut space, _) = self.space(Order::Spatial(None));
        space.remove(space.variable("og")?);
        space.remove(space.variable("c")?);
        let [group, ow, kw] = ["g", "ow", "kw"].map(|name| space.variable(name));
        let (group, ow, kw) = (group?, ow?, kw?);
        let along = ["SRC0", "WEIGHTS", "DST"].iter().all(|name| is_contiguous(&space, name, group));
        // Few groups fill a shorter vector.
        let lanes = self.groups.next_power_of_two().clamp(LEAST_LANES, CPU_LANES);
        if !along || !space.has_steps(group, lanes) {
            return None;
        }
        let last = self.window.src.len() - 1;
        let (taps, width) = (self.window.kernel[last], self.window.dst[last]);
        let (stride, dilation, pad) =
            (self.window.strides[last], self.window.dilations[last], self.window.pads_begin[last]);
        let reach = (taps - 1) * dilation + 1;
        let full = (self.window.src[last] + pad).checked_sub(reach).map_or(0, |room| room / stride + 1);
        let full = full.min(width).saturating_sub(pad.div_ceil(stride));
        let step = match space.coefficient("SRC0", kw)? {
            0 => space.coefficient("SRC0", ow)? / stride,
            step => step / dilation,
        };
        let lines = space.count(0..ow);
        let blocks = self.groups.div_ceil(lanes);
        let wanted = device.compute_units * ITEMS;
        let near = (NEAR_FACTORS / (self.terms() * lanes).max(1)).clamp(1, blocks);
        let item_groups = blocks.div_ceil(wanted.div_ceil(lines.max(1)).clamp(1, blocks)).min(near) * lanes;
        let parts = self.groups.div_ceil(item_groups);
        let item_lines = (lines * parts).div_ceil(wanted).clamp(1, lines.max(1));
        let elements = |desc: &MemoryDesc| desc.size() * 8 / desc.data_type().bits();
        // What is stored once more, or replaced, is not read.
        let mut post_ops = self.desc.attributes().post_ops.iter();
        let alone = post_ops.all(|post_op| matches!(post_op, PostOp::Eltwise(_)));
        let narrow = self.groups < lanes;
        let flat = alone && space.coefficient("DST", ow) == Some(self.groups);
        let finish = Finish::of(self.desc, &mut space);
        space.complete = Some(group);
        let few = panels::widest(self.sums) == 1;
        let text = |tile: usize, columns: Option<String>| {
            let known = columns.is_some();
            let mut source = Source::new(&space, value, (lanes, Some(group)), self.wide, true);
            source
                .declare("DECLARE_LINE", &space, 0..ow)
                .number_of("GROUPS", self.groups)
                .number_of("SRC_SIZE", elements(self.desc.src()))
                .number_of("WEIGHTS_SIZE", elements(self.weights))
                .define("NARROW", i32::from(narrow))
                .number_of("FLAT", i32::from(flat))
                .number_of("AGAIN", i32::from(alone && !narrow))
                .number_of("PARTS", parts)
                .number_of("ITEM_GROUPS", item_groups)
                .number_of("LINES", lines)
                .number_of("ITEM_LINES", item_lines)
                .define("TILE", tile)
                .define("W_STEP", format_args!("(idx){}", always(step)))
                .define("KNOWN_TAPS", i32::from(known))
                .define("COLUMNS", columns.unwrap_or_default())
                .define("SLIDES", i32::from(!few))
                .define("EACH_TAP(X)", if known { each(taps) } else { String::new() });
            self.define_operands(&mut source, &space, &[]);
            define_bias(&mut source, self.desc);
            finish.define(&mut source, self.desc, known);
            source
        };
        let (general, tiles, most_taps) =
            if few { (FEW_GENERAL_TILE, FEW_TILES, FEW_TAPS) } else { (GENERAL_TILE, TILES, MOST_TAPS) };
        let mut source = text(general, None);
        source.gains(5, 2 * self.desc.dst().elements() * self.terms());
        let tile = tiles.into_iter().find(|&tile| tile <= full).unwrap_or(1);
        let global = [parts * lines.div_ceil(item_lines), 1, 1];
        let files = [WINDOW, EPILOGUE, DEPTHWISE_ROWS].map(Cow::from).to_vec();
        let items = (global, Some([1, 1, 1]));
        if taps > most_taps {
            return Some(source.launch("convolution_depthwise_rows", &files, items.0, items.1));
        }
        let special = || (text(tile, Some(columns(tile, taps, stride, dilation))), files.clone());
        Some(source.launch_beside("convolution_depthwise_rows", &files, items, device, special))
    }
}

/// For each column of the source that some positions see those that see it, and by which tap.
fn columns(tile: usize, taps: usize, stride: usize, dilation: usize) -> String {
    let column = |x: usize| {
        let seen: Vec<String> = (0..tile)
            .flat_map(|i| (0..taps).map(move |k| (i, k)))
            .filter(|(i, k)| i * stride + k * dilation == x)
            .map(|(i, k)| format!("FEED({i}, {k}, {x})"))
            .collect();
        if seen.is_empty() { String::new() } else { format!("COLUMN({x}) {}", seen.join(" ")) }
    };
    let reach = (taps - 1) * dilation + 1;
    (0..(tile - 1) * stride + reach).map(column).collect::<Vec<_>>().join(" ")
}

/// `X(0)` to `X(count - 1)`.
fn each(count: usize) -> String {
    (0..count).map(|i| format!("X({i})")).collect::<Vec<_>>().join(" ")
}
