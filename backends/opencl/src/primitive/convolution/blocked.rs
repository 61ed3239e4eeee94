//! Convolutions by register tiles along the width, of operands in f32 (`convolution/blocked.cl`).

use std::borrow::Cow;

use anydnn_backend::{Arg, DataType, MemoryDesc};

use super::line_tiles::Tiles;
use super::turned::{Along, flatten};
use super::{Order, Shape};
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::choice::Planned;
use crate::primitive::epilogue::{EPILOGUE, Epilogue};
use crate::primitive::numbers::{always, any_quotient};
use crate::primitive::opaque::GroupPanels;
use crate::primitive::panels::{self, Panels};
use crate::primitive::pointwise;
use crate::primitive::rows::CPU_LANES;
use crate::primitive::source::{Source, is_contiguous};
use crate::primitive::space::{Binding, Index, Space};
use crate::primitive::value::Value;
use crate::primitive::window::WINDOW;

const BLOCKED: &str = anydnn_kernels::text("convolution/blocked.cl");
const STORE: &str = anydnn_kernels::text("convolution/store.cl");
const TILE: &str = anydnn_kernels::text("convolution/tile.cl");

/// The positions of register tiles, by the number of vectors that each position has its sums in: what registers hold, and about half of
/// it. Most networks' lines are multiples of seven, and the taps beside the middle are not seen by one position of theirs.
const TILE_SIZES: [[usize; 3]; 4] = [[14, 13, 7], [14, 13, 7], [7, 6, 3], [7, 6, 3]];
/// The most positions of tiles that are cut for a line longer than those of wide panels.
const LARGEST: [usize; 4] = [14, 14, 8, 6];
/// The same of the tiles of one or two vectors that serve panels of every width; those of half a vector have the second size.
const VECTOR_SIZES: [usize; 2] = [14, 7];
/// The positions of tiles of one vector and of half a one where registers hold few sums.
const FEW_SIZES: [usize; 2] = [6, 4];
const FEW_HALF_SIZES: [usize; 2] = [12, 6];
/// The positions that such tiles may join into one, the best first, and those whose time even one of them takes.
const FEW_JOINT: [usize; 4] = [12, 16, 14, 10];
const LEAST_TIME: usize = 4;
/// The vectors of the widest panels.
const MOST_VECTORS: usize = 4;

/// Lanes of half a vector.
const HALF: usize = CPU_LANES / 2;
/// Terms up to which the first-level cache holds a wide panel beside its source.
const FEW_TERMS: usize = 64;
/// Widths of panels that end in half a vector, of which few registers hold enough sums.
const HALVED: [usize; 2] = [40, 24];
/// Bytes of a way of a first-level cache, 64 lines: what lies a multiple of that apart competes for the same few places.
const WAY_BYTES: usize = 4 << 10;
/// Work-items for each core, so that none waits long for another one, and as many as lines are cut for.
const ITEMS: usize = 48;
const PARTED: usize = 8;

impl Shape<'_> {
    /// Register tiles that read positions a constant distance apart, of weights in panels or packed into them first.
    pub(super) fn blocked_along(
        &self,
        value: Value,
        device: &DeviceTraits,
        packing: bool,
        width: usize,
    ) -> Option<Planned> {
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
        let width = own_panels.unwrap_or(width);
        let (mut space, outer) = self.space_of(Order::Spatial(Some(width)), source);
        let [group, panel, lane, channel] =
            ["g", "panel", "lane", "c"].map(|name| space.variable(name).unwrap_or(outer));
        let pays = !packing || is_contiguous(&space, "DST", lane) || self.pays_packed(outputs);
        if !space.has_steps(lane, CPU_LANES) || !pays {
            return None;
        }
        let mut positions = space.count(0..space.variable("ow")? + 1);
        if let Along::Flat(_, all) = self.along {
            positions = all;
            flatten(&mut space, group, self.window.dst[0], line)?;
        }
        let mut planned = Planned { scratchpad: 0, launches: Vec::new() };
        let in_place = own_panels.is_some() || outputs.is_multiple_of(width);
        let inner = [channel + 1, channel + 2, channel + 3, channel];
        let panels = Panels { panel, lane, columns: outputs, inner: &inner, batch: group..group + 1 };
        if GroupPanels::of(self.weights).is_some() {
            panels.address(&mut space, Binding::Arg(Arg::Weights))?;
        }
        if packing {
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
        // Taps as results have one element of the bias in common.
        let one_bias = space.coefficient("BIAS", lane) == Some(0);
        if one_bias {
            // The same text serves: by a number of the launch the kernel reads the first lane's alone.
            space.set_coefficient("BIAS", lane, 1);
        }
        self.complete_bias(&mut space, lane)?;
        let listed = Epilogue::of(self.desc, &mut space, lane);
        let is_listed = listed.is_some();
        let epilogue = listed.unwrap_or_else(|| Epilogue::none(self.desc, &mut space));
        space.complete = Some(lane);
        let [ow, kw, kh, kd] = ["ow", "kw", "kh", "kd"].map(|name| space.variable(name).unwrap_or(outer));
        let step = |name: &str, v: usize| space.coefficient(name, v);
        let (c_step, weights_step) = (step("SRC0", channel)?, step("WEIGHTS", channel)?);
        let (tap_step, weights_tap_step) = (step("SRC0", kw)?, step("WEIGHTS", kw)?);
        // The terms of taps side by side follow each other in both operands.
        let merged = (tap_step, weights_tap_step) == (c_step * self.channels, weights_step * self.channels);
        // Of taps and channels the more numerous are the inner loop, taps where they are as many: they lie side by side then.
        let taps = self.window.kernel.last().copied().unwrap_or(1);
        let along_taps = !merged && taps > 1 && taps >= self.channels;
        // Runs of terms and their length, by the number of taps and beside it.
        let channels = self.channels;
        let (terms_of, planes_of) = match (merged, along_taps) {
            (true, _) => ((channels, 0), (0, 1)),
            (false, true) => ((1, 0), (0, channels)),
            (false, false) => ((0, channels), (1, 0)),
        };
        let (inner, outside) = ((c_step, weights_step), (tap_step, weights_tap_step));
        let ((a_step, b_step), (a_plane, b_plane)) =
            if along_taps { (outside, inner) } else { (inner, outside) };
        let near = if along_taps { 0 } else { panels::terms_ahead(width, self.terms()) };
        let vectors = width.div_ceil(CPU_LANES);

        // Results lie as the register tiles have them, and few instructions come behind.
        let depth = self.window.kernel.len() == 3
            && (self.window.kernel[0] > 1 || self.window.pads_begin[0] + self.window.pads_end[0] > 0);
        let is_plain =
            is_listed && self.desc.dst().data_type() == DataType::F32 && is_contiguous(&space, "DST", lane);
        let at_once = is_plain && epilogue.is_short() && !depth;

        let (panels, lines) = (space.count(group..panel + 1), space.count(0..ow));
        let item_lines = (panels * lines / (device.compute_units * ITEMS)).clamp(1, lines.max(1));
        // A core waits long for another one where lines are few.
        let parts = (device.compute_units * PARTED / (panels * lines).max(1))
            .clamp(1, line.div_ceil(TILE_SIZES[0][0]));
        let items = lines.div_ceil(item_lines) * parts;
        let panels_inside = self.has_panels_inside();
        let inside = if panels_inside { panels } else { items };

        let dilation = self.window.dilations.iter().rev().nth(1).copied().unwrap_or(1);
        let steps = [
            ("A_STEP_M", step("SRC0", ow)?),
            ("A_STEP_K", a_step),
            ("A_STEP_PLANE", a_plane),
            ("A_STEP_ROW", step("SRC0", kh)?),
            ("A_STEP_KW", tap_step),
            ("A_STEP_KD", step("SRC0", kd)?),
            ("B_STEP_KW", weights_tap_step),
            ("B_STEP_KD", step("WEIGHTS", kd)?),
            ("B_STEP_K", b_step),
            ("B_STEP_PLANE", b_plane),
            ("B_STEP_ROW", step("WEIGHTS", kh)?),
        ];

        let source_elements = if widening { widened.size() } else { src.size() } / size_of::<f32>();
        // Of a vector or two a tile, which serves every width, or of all vectors of the panel. Both cut lines the same way, on which the order
        // of additions depends.
        let sizes = TILE_SIZES[vectors - 1];
        // The vectors of a last panel that has fewer than the others.
        let of_last = outputs.saturating_sub(1) % width / CPU_LANES + 1;
        let last_vectors = if of_last < vectors { of_last } else { 0 };
        let few = panels::widest(self.sums) == 1;
        let tile_size = match width {
            _ if !few => tile_size(line, sizes),
            HALF => FEW_HALF_SIZES[0],
            _ => few_tile_size(line),
        };
        let text = |&Tiles { size: tile_size, long, ref sizes }: &Tiles, of_all: bool| {
            let is_size: Vec<String> =
                sizes.iter().chain([&1]).map(|size| format!("(n) == {size}")).collect();
            let is_size = format!("({})", is_size.join(" || "));
            let most = if few { FEW_JOINT.into_iter().max() } else { sizes.iter().copied().max() };
            let whole = width / CPU_LANES;
            let each_size: Vec<String> = sizes
                .iter()
                .chain([&1])
                .zip(sizes.iter().chain([&1, &0]).skip(1))
                .map(|(size, least)| format!("X({size}, {least})"))
                .collect();
            let mut source = Source::new(&space, value, (CPU_LANES, Some(lane)), self.wide, true);
            source
                .declare("DECLARE_PANEL", &space, group..panel + 1)
                .declare("DECLARE_LINE", &space, 0..ow)
                .number_of("WHOLE_VECTORS", whole)
                .number_of("HALF_VECTORS", vectors - whole)
                .number_of("VECTORS", vectors)
                .define("ROOM", if of_all { vectors } else { MOST_VECTORS })
                .define("OF_ALL", i32::from(of_all))
                .define("LAST_VECTORS", if of_all { last_vectors } else { 0 })
                .define("FEW_SUMS", i32::from(few))
                .define("WITH_HALVES", i32::from(vectors > whole))
                .define("JOINS_TILES", i32::from(!few && !of_all))
                .number_of("PANEL", width)
                .number_of("INNER", inside)
                .define("BY_INNER(t)", any_quotient("(t)", inside))
                .number_of("PANELS_INSIDE", i32::from(panels_inside))
                .number_of("GROUP_OUTPUTS", outputs)
                .number_of("LINES", lines)
                .number_of("POSITIONS", positions)
                .number_of("ITEM_LINES", item_lines)
                .define("TERMS_OF(taps)", by_taps(terms_of))
                .define("PLANES_OF(taps)", by_taps(planes_of))
                .number_of("SRC_SIZE", source_elements)
                .number_of("DST_STEP", step("DST", ow).unwrap_or(0))
                .number_of("AT_ONCE", i32::from(at_once))
                .number_of("HAS_ADDEND", i32::from(epilogue.has_addend()))
                .number_of("ADDEND_STEP", step("EXTRA0", ow).unwrap_or(0))
                .number_of("PLAIN", i32::from(is_plain))
                .define("NEAR", format_args!("(idx){}", always(near * b_step)))
                .number_of("HAS_BIAS", i32::from(self.desc.find(Arg::Bias).is_some()))
                .number_of("ONE_BIAS", i32::from(one_bias))
                .define("BY_STRIDE_W(t)", any_quotient("(t)", stride))
                .define("BY_DILATION_H(t)", any_quotient("(t)", dilation))
                .number_of("TILES", line.div_ceil(tile_size))
                .number_of("PARTS", parts)
                .define("BY_PARTS(t)", any_quotient("(t)", parts))
                .number_of("PART_TILES", line.div_ceil(tile_size).div_ceil(parts))
                .number_of("TILE_SIZE", tile_size)
                .number_of("LONG_TILES", long)
                .define("TILE_MOST", most.unwrap_or(1))
                .define("IS_SIZE(n)", if of_all { is_size.as_str() } else { "1" });
            if of_all {
                source.define("EACH_SIZE(X)", each_size.join(" "));
            }
            for (name, number) in steps {
                source.define(name, format!("(idx){}", always(number)));
            }
            self.define_operands(&mut source, &space, &[]);
            if is_listed {
                source.no_post_ops();
            } else {
                source.post_ops(self.desc);
            }
            epilogue.define(&mut source, &space, ow);
            source
        };
        let mut source = text(&Tiles { size: tile_size, long: line, sizes: VECTOR_SIZES.to_vec() }, false);
        source.gains(10, 2 * self.desc.dst().elements() * self.terms());
        let global = [panels * items, 1, 1];
        if few {
            let one = FEW_SIZES.iter().chain([&1]).map(|&size| tile("tile", size, (1, 0)));
            let half = FEW_HALF_SIZES.iter().chain([&1]).map(|&size| tile("half", size, (0, 1)));
            let files = files_of(one.chain(half));
            planned.launches.push(source.launch("convolution_blocked", &files, global, Some([1, 1, 1])));
            return Some(planned);
        }
        let whole = width / CPU_LANES;
        let one = VECTOR_SIZES.iter().chain([&1]).map(|&size| tile("tile", size, (1, 0)));
        let two = VECTOR_SIZES.iter().map(|&size| tile("two", size, (2, 0))).chain([tile("four", 1, (4, 0))]);
        let half = VECTOR_SIZES.iter().chain([&1]).map(|&size| tile("half", size, (0, 1)));
        let half = half.take_while(|_| vectors > whole);
        let files = files_of(one.chain(two).chain(half));
        let special = || {
            // Lines are cut otherwise where the order of additions is the same in any tile.
            let own = if self.sees_all_across() {
                let largest = if line > TILE_SIZES[3][0] { LARGEST[vectors - 1] } else { TILE_SIZES[3][0] };
                Tiles::even(line, largest, matches!(self.along, Along::Flat(..)))
            } else {
                Tiles { size: tile_size, long: line, sizes: self.seen_sizes(tile_size, vectors, lines) }
            };
            let each = || own.sizes.iter().chain([&1]);
            let all = each().map(|&size| tile("tile", size, (whole, vectors - whole)));
            let last = each().map(|&size| tile("last", size, (last_vectors, 0)));
            (text(&own, true), files_of(all.chain(last.filter(|_| last_vectors > 0))))
        };
        planned.launches.push(source.launch_beside(
            "convolution_blocked",
            &files,
            (global, Some([1, 1, 1])),
            device,
            special,
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
        space.is_linear().then(|| pointwise::copy(space, Value::F32, wide, device))
    }
}

/// The positions of the tiles of a line: of these sizes that which computes the fewest positions, in whole register tiles.
fn tile_size(line: usize, sizes: [usize; 3]) -> usize {
    let computed = |size: usize| {
        let last = line - (line.div_ceil(size) - 1) * size;
        line - last + sizes.into_iter().rev().find(|&size| size >= last).unwrap_or(last)
    };
    // Smaller tiles read their weights more often; the largest of wide panels leave no register for anything else.
    let [large, _, small] = sizes;
    let crowded = large < 8 && line > large;
    let cost = |size: usize| computed(size) * if size == small || (size == large && crowded) { 9 } else { 8 };
    sizes.into_iter().min_by_key(|&size| cost(size)).unwrap_or(large)
}

/// The same of tiles of few sums.
pub(super) fn few_tile_size(line: usize) -> usize {
    let [large, small] = FEW_SIZES;
    let time = |positions: usize| match positions % large {
        0 => positions,
        rest if positions > large && rest <= 2 * small - large => positions - rest - large + 2 * small,
        rest if rest <= small => positions - rest + LEAST_TIME,
        rest => positions - rest + large,
    };
    let all = |size: &usize| line / size * time(*size) + time(line % size);
    FEW_JOINT.into_iter().min_by_key(all).unwrap_or(large)
}

/// The positions of the larger and the smaller tiles of one vector where registers hold so many vectors of sums; those that a line is best
/// a multiple of.
pub(super) fn vector_sizes(sums: usize) -> [usize; 2] {
    if panels::widest(sums) == 1 { FEW_HALF_SIZES } else { VECTOR_SIZES }
}

/// A number by that of taps, and beside it.
fn by_taps((each, beside): (usize, usize)) -> String {
    format!("((taps) * {} + {})", always(each), always(beside))
}

/// The width of the panels that suit a number of output channels. Where a line is long and so are sums, panels are narrow: tiles of more
/// positions read fewer weights from a cache for as many products. Not where positions `compete` for a cache's places: it has no more
/// than eight for them. The last vector of a panel may be half a one, where whole ones would leave half of it empty.
///
/// Where registers hold few vectors of sums tiles have one vector or half a one, whatever the width of a panel.
pub(super) fn panel_width(outputs: usize, line: usize, terms: usize, compete: bool, sums: usize) -> usize {
    let halves = outputs.next_multiple_of(HALF);
    if panels::widest(sums) == 1 {
        if halves <= MOST_VECTORS * CPU_LANES && !halves.is_multiple_of(CPU_LANES) {
            return halves;
        }
        let widths = [CPU_LANES, HALVED[1], HALVED[0]];
        return widths.into_iter().min_by_key(|&width| outputs.next_multiple_of(width)).unwrap_or(CPU_LANES);
    }
    // A program of its own, which pays where much is computed.
    if halves == HALF && terms > FEW_TERMS {
        return halves;
    }
    let widest = panels::width(outputs, sums);
    if line <= TILE_SIZES[3][0] || terms <= FEW_TERMS || compete || widest <= 2 * CPU_LANES {
        return widest;
    }
    // What is left over has a panel of as many vectors as it fills.
    if outputs <= 3 * CPU_LANES { widest } else { 2 * CPU_LANES }
}

/// Whether positions that are so many elements apart share places in a first-level cache.
pub(super) fn compete_at(step: usize) -> bool {
    step > 0 && (step * size_of::<f32>()).is_multiple_of(WAY_BYTES)
}

/// The register tile of this name and number of positions, each of so many whole vectors and halves (`convolution/tile.cl`).
fn tile(name: &str, positions: usize, (whole, half): (usize, usize)) -> [Cow<'static, str>; 3] {
    let names = format!(
        "#define TILE {name}_{positions}\n#define TILE_M {positions}\n#define TILE_WHOLE {whole}\n#define TILE_HALF {half}\n"
    );
    [names.into(), TILE.into(), "#undef TILE\n#undef TILE_M\n#undef TILE_WHOLE\n#undef TILE_HALF\n".into()]
}

/// The kernel's files around its tiles.
fn files_of(tiles: impl Iterator<Item = [Cow<'static, str>; 3]>) -> Vec<Cow<'static, str>> {
    let first = [WINDOW, EPILOGUE, STORE].map(Cow::from);
    first.into_iter().chain(tiles.flatten()).chain([BLOCKED.into()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_waste_little_of_a_line() {
        let sizes = |sizes| [1, 7, 10, 14, 20, 56].map(|line| tile_size(line, sizes));
        assert_eq!(sizes(TILE_SIZES[0]), [14, 14, 14, 14, 13, 14]);
        assert_eq!(sizes(TILE_SIZES[3]), [7, 7, 7, 6, 6, 6]);
    }
}
