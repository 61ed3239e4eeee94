//! Convolutions by register tiles along the width, of operands in f32 (`convolution/blocked.cl`).

use std::borrow::Cow;

use anydnn_backend::op::Eltwise;
use anydnn_backend::{Arg, DataType, MemoryDesc, PostOp};

use super::{Order, Shape};
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::choice::Planned;
use crate::primitive::panels::{self, Panels};
use crate::primitive::pointwise;
use crate::primitive::rows::CPU_LANES;
use crate::primitive::source::{Source, is_contiguous};
use crate::primitive::space::{Binding, Index, Space};
use crate::primitive::value::Value;
use crate::primitive::window::WINDOW;

const BLOCKED: &str = anydnn_kernels::text("convolution/blocked.cl");
const TILE: &str = anydnn_kernels::text("convolution/tile.cl");

/// The most positions of a register tile, by the number of vectors that each has its sums in.
const MOST_POSITIONS: [usize; 4] = [14, 14, 9, 7];
/// The most positions of a tile of four vectors where more would fit into a line: registers are left for the operands.
const SPARING_POSITIONS: usize = 6;
/// Terms up to which the first-level cache holds a wide panel beside its source.
const FEW_TERMS: usize = 64;
/// Widths of panels that end in half a vector, of which registers hold enough sums.
const HALVED: [usize; 2] = [40, 24];
/// Bytes of a way of a first-level cache, 64 lines: what lies a multiple of that apart competes for the same few places.
const WAY_BYTES: usize = 4 << 10;
/// The most terms of a sum where finishing it takes long enough to save its way through memory.
const AT_ONCE_TERMS: usize = 512;
/// The most register tiles of a program: compilers take their time for each.
const MOST_SIZES: usize = 4;
/// Work-items for each core, so that none waits long for another one.
const ITEMS: usize = 48;

impl Shape<'_> {
    /// Register tiles that read positions a constant distance apart, of weights in panels or packed into them first.
    pub(super) fn blocked(&self, value: Value, device: &DeviceTraits, packing: bool) -> Option<Planned> {
        let src = self.desc.src();
        // Copying the source, too, is worth it for conversions alone.
        let widening = packing && matches!(src.data_type(), DataType::F16 | DataType::BF16);
        let plain =
            (src.data_type() == DataType::F32 || widening) && self.desc.attributes().dequantize.is_empty();
        let line = self.window.dst.last().copied().unwrap_or(1);
        if value != Value::F32 || !plain || self.window.transposed || line * self.terms() == 0 {
            return None;
        }
        let outputs = self.columns();
        let own_panels = self.panel_width(CPU_LANES / 2);
        let widened = self.widened(src)?;
        let source = if widening { &widened } else { src };
        let stride = self.window.strides.last().copied().unwrap_or(1);
        let width =
            own_panels.unwrap_or_else(|| panel_width(outputs, line, self.terms(), compete(source, stride)));
        let (mut space, outer) = self.space_of(Order::Spatial(Some(width)), source);
        let [group, panel, lane, channel] =
            ["g", "panel", "lane", "c"].map(|name| space.variable(name).unwrap_or(outer));
        if !space.has_steps(lane, CPU_LANES) {
            return None;
        }
        let mut planned = Planned { scratchpad: 0, launches: Vec::new() };
        let in_place = own_panels.is_some() || outputs.is_multiple_of(width);
        if packing {
            let inner = [channel + 1, channel + 2, channel + 3, channel];
            let panels = Panels { panel, lane, columns: outputs, inner: &inner, batch: group..group + 1 };
            let packed = panels.pack(&mut space, self.wide, device)?;
            planned = Planned { scratchpad: packed.bytes, launches: packed.launches };
            if widening {
                let at = packed.bytes.next_multiple_of(64);
                planned.launches.push(self.widen(&widened, at, device)?);
                planned.scratchpad = at + widened.size();
                let operand = space.operands.iter_mut().find(|operand| operand.name == "SRC0")?;
                operand.binding = Binding::Scratchpad(at);
            }
        } else if !in_place
            || !is_contiguous(&space, "WEIGHTS", lane)
            || self.weights.data_type() != DataType::F32
        {
            return None;
        }
        let [ow, kw, kh] = ["ow", "kw", "kh"].map(|name| space.variable(name).unwrap_or(outer));
        let step = |name: &str, v: usize| space.coefficient(name, v);
        let (c_step, weights_step) = (step("SRC0", channel)?, step("WEIGHTS", channel)?);
        let (tap_step, weights_tap_step) = (step("SRC0", kw)?, step("WEIGHTS", kw)?);
        // The terms of taps side by side follow each other in both operands.
        let merged = (tap_step, weights_tap_step) == (c_step * self.channels, weights_step * self.channels);
        // Of taps and channels the more numerous are the inner loop, taps where they are as many: they lie side by side then.
        let taps = self.window.kernel.last().copied().unwrap_or(1);
        let along_taps = !merged && taps > 1 && taps >= self.channels;
        let (terms_of, planes_of) = match (merged, along_taps) {
            (true, _) => ("((taps) * CHANNELS)", "1"),
            (false, true) => ("(taps)", "CHANNELS"),
            (false, false) => ("CHANNELS", "(taps)"),
        };
        let (inner, outside) = ((c_step, weights_step), (tap_step, weights_tap_step));
        let ((a_step, b_step), (a_plane, b_plane)) =
            if along_taps { (outside, inner) } else { (inner, outside) };
        let near = if along_taps { 0 } else { panels::terms_ahead(width, self.terms()) };
        let vectors = width.div_ceil(CPU_LANES);
        let most = MOST_POSITIONS[vectors - 1];
        let tiles = line.div_ceil(if vectors == 4 && line > most { SPARING_POSITIONS } else { most });
        let (least, more) = (line / tiles, line % tiles);
        let most = least + usize::from(more > 0);
        let sizes = self.tile_sizes(line, tiles);

        // Repeated for each sum of a tile, which no long text should be.
        let brief =
            self.desc.attributes().post_ops.iter().all(|op| matches!(op, PostOp::Eltwise(Eltwise::Relu)));
        let one_tap = self.window.kernel.iter().all(|&size| size == 1) && self.window.is_unpadded();
        let whole = outputs.is_multiple_of(width) && self.desc.dst().data_type() == DataType::F32;
        let at_once = brief && one_tap && whole && self.channels <= AT_ONCE_TERMS;

        let (panels, lines) = (space.count(group..panel + 1), space.count(0..ow));
        let item_lines = (panels * lines / (device.compute_units * ITEMS)).clamp(1, lines.max(1));
        let items = lines.div_ceil(item_lines);
        // Work-items one after another share the weights, or the source, whichever is larger.
        let (panel_of, item_of) = if self.weights.elements() > self.desc.src().elements() {
            (format!("((t) / {items})"), format!("((t) % {items})"))
        } else {
            (format!("((t) % {panels})"), format!("((t) / {panels})"))
        };

        let each_size: Vec<String> = sizes.iter().map(|size| format!("X({size})")).collect();
        let mut source = Source::new(&space, value, (CPU_LANES, Some(lane)), self.wide, true);
        source
            .declare("DECLARE_PANEL", &space, group..panel + 1)
            .declare("DECLARE_LINE", &space, 0..ow)
            .define("WHOLE_VECTORS", width / CPU_LANES)
            .define("HALF_VECTORS", vectors - width / CPU_LANES)
            .define("VECTORS", vectors)
            .define("EACH_SIZE(X)", each_size.join(" "))
            .define("PANEL", width)
            .define("PANEL_OF(t)", panel_of)
            .define("ITEM_OF(t)", item_of)
            .define("GROUP_OUTPUTS", outputs)
            .define("LINES", lines)
            .define("ITEM_LINES", item_lines)
            .define("TERMS(taps)", terms_of)
            .define("PLANES(taps)", planes_of)
            .define("FINISH_AT_ONCE", i32::from(at_once))
            .define("NEAR", near)
            .define("TILES", tiles)
            .define("TILES_MORE", more)
            .define("TILE_LEAST", least)
            .define("TILE_MOST", most)
            .define("A_STEP_M", format!("(idx){}", step("SRC0", ow)?))
            .define("A_STEP_K", format!("(idx){a_step}"))
            .define("A_STEP_PLANE", format!("(idx){a_plane}"))
            .define("A_STEP_ROW", format!("(idx){}", step("SRC0", kh)?))
            .define("B_STEP_K", format!("(idx){b_step}"))
            .define("B_STEP_PLANE", format!("(idx){b_plane}"))
            .define("B_STEP_ROW", format!("(idx){}", step("WEIGHTS", kh)?));
        self.define(&mut source, &space, &[]);
        let mut files: Vec<Cow<'static, str>> = vec![WINDOW.into()];
        files.extend(sizes.iter().flat_map(|&size| tile(size)));
        if !at_once && !sizes.contains(&1) {
            files.extend(tile(1));
        }
        files.push(BLOCKED.into());
        planned.launches.push(source.launch(
            "convolution_blocked",
            &files,
            [panels * items, 1, 1],
            Some([1, 1, 1]),
        ));
        Some(planned)
    }

    /// The source in f32 with its channels innermost.
    fn widened(&self, src: &MemoryDesc) -> Option<MemoryDesc> {
        let taps: String = (2..src.rank()).map(|axis| char::from(b'a' + axis as u8)).collect();
        MemoryDesc::with_tag(src.dims().clone(), DataType::F32, &format!("a{taps}b")).ok()
    }

    /// Copies the source as that, to these bytes of the scratchpad.
    fn widen(&self, widened: &MemoryDesc, scratchpad: usize, device: &DeviceTraits) -> Option<Launch> {
        let src = self.desc.src();
        let mut space = Space::default();
        let mut index = vec![Index::default(); src.rank()];
        for axis in std::iter::once(0).chain(2..src.rank()).chain([1]) {
            index[axis] = Index::of(space.push(format!("d{axis}"), src.dims()[axis]));
        }
        space.operand("SRC0", Binding::Arg(Arg::SRC), src, &index);
        space.operand("DST", Binding::Scratchpad(scratchpad), widened, &index);
        let wide = self.wide || i32::try_from(scratchpad + widened.size()).is_err();
        space
            .is_linear()
            .then(|| pointwise::launch(space, Value::F32, None, "LD_SRC0(OFF_SRC0, n)", wide, device).0)
    }

    /// The numbers of positions that a register tile is worth, of all that see a tap in one of the tiles of a line.
    fn tile_sizes(&self, line: usize, tiles: usize) -> Vec<usize> {
        let last = self.window.src.len() - 1;
        let (stride, dilation) = (self.window.strides[last], self.window.dilations[last]);
        let (pad, extent) = (self.window.pads_begin[last], self.window.src[last]);
        let (least, more) = (line / tiles, line % tiles);
        let start = |tile: usize| tile * least + tile.min(more);
        // How often each number occurs.
        let mut counts = vec![0; least + 2];
        for tile in 0..tiles {
            for kw in 0..self.window.kernel[last] {
                let first = pad.saturating_sub(kw * dilation).div_ceil(stride);
                let behind = (extent + pad).saturating_sub(kw * dilation).div_ceil(stride);
                let seeing = behind.min(start(tile + 1)).saturating_sub(first.max(start(tile)));
                counts[seeing] += 1;
            }
        }
        let mut sizes: Vec<usize> = (1..counts.len()).filter(|&size| counts[size] > 0).collect();
        sizes.sort_by_key(|&size| std::cmp::Reverse(size * counts[size]));
        sizes.truncate(MOST_SIZES);
        sizes
    }
}

/// The width of the panels that suit a number of output channels. Where a line is long and so are sums, panels are narrow: tiles of more
/// positions read fewer weights from a cache for as many products. Not where positions `compete` for a cache's places: it has no more
/// than eight for them. The last vector of a panel may be half a one, where whole ones would leave half of it empty.
pub(super) fn panel_width(outputs: usize, line: usize, terms: usize, compete: bool) -> usize {
    let halves = outputs.next_multiple_of(CPU_LANES / 2);
    if HALVED.contains(&halves) {
        return halves;
    }
    let widest = panels::width(outputs);
    if line <= MOST_POSITIONS[3] || terms <= FEW_TERMS || compete || widest <= 2 * CPU_LANES {
        return widest;
    }
    let widths = [2 * CPU_LANES, 3 * CPU_LANES].into_iter().chain(HALVED);
    widths.min_by_key(|&width| outputs.next_multiple_of(width)).unwrap_or(widest)
}

/// Whether the positions of a line that a window reads with this stride share places in a first-level cache.
pub(super) fn compete(src: &MemoryDesc, stride: usize) -> bool {
    let step = src.strides().and_then(|strides| strides.last()).map_or(1, |step| step * stride);
    step > 0 && (step * src.data_type().bits() / 8).is_multiple_of(WAY_BYTES)
}

/// The register tile of this number of positions (`convolution/tile.cl`).
fn tile(positions: usize) -> [Cow<'static, str>; 3] {
    let names = format!("#define TILE tile_{positions}\n#define TILE_M {positions}\n");
    [names.into(), TILE.into(), "#undef TILE\n#undef TILE_M\n".into()]
}
