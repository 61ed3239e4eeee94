//! Depthwise convolutions by rows of the result, channels last (`convolution/depthwise_rows.cl`).

use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};

use anydnn_backend::{MemoryDesc, PostOp};

use super::{Order, Shape};
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::epilogue::{EPILOGUE, Finish};
use crate::primitive::numbers::always;
use crate::primitive::panels;
use crate::primitive::quantized;
use crate::primitive::rows::CPU_LANES;
use crate::primitive::source::{Source, is_contiguous};
use crate::primitive::sums::define_bias;
use crate::primitive::value::Value;
use crate::primitive::window::WINDOW;

const DEPTHWISE_ROWS: &str = anydnn_kernels::text("convolution/depthwise_rows.cl");

/// Lanes of the shortest vectors.
const LEAST_LANES: usize = 4;
/// Taps side by side whose weights fit into registers beside the sums.
const MOST_TAPS: usize = 11;
/// Positions that go together: as many sums as two instructions a clock take that wait four for each other, of these what a line wastes least
/// of, and fewer for short lines.
const LONG_TILES: RangeInclusive<usize> = 8..=10;
const TILES: [usize; 2] = [6, 4];
/// The same of the program for every shape.
const GENERAL_TILE: usize = 4;
/// The same where registers hold few sums: those of the taps have to fit beside them.
const FEW_TAPS: usize = 3;
const FEW_TILES: [usize; 2] = [4, 2];
const FEW_GENERAL_TILE: usize = 6;
/// Positions of tiles that do not see all taps, the same where registers hold few sums, and how many such tiles a program has; a line of
/// so many tiles has no others.
const EDGE_TILE: usize = 8;
const FEW_EDGE_TILE: usize = 4;
const MOST_EDGES: usize = 4;
const WHOLE_LINES: usize = 2;
/// Weights of a work-item, which stay in the first-level cache beside the source.
const NEAR_FACTORS: usize = 2048;
/// Taps whose windows a first-level cache does not hold for a whole line, and bytes of source and result that the second ones hold.
const MANY_TAPS: usize = 49;
const CACHED_BYTES: usize = 4 << 20;
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
        // Positions share the place of the first one's source.
        if !along || !space.has_steps(group, lanes) || quantized::varies(&space, "SRC0", &[ow, kw]) {
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
        // Tiles of lines one below the other share what they see in the first-level cache; lines as a whole are in the order of memory.
        let bytes = self.desc.src().size() + self.desc.dst().size();
        let downwards = self.terms() >= MANY_TAPS || bytes <= CACHED_BYTES;
        let lines_at_once = if downwards { item_lines } else { 1 };
        let elements = |desc: &MemoryDesc| desc.size() * 8 / desc.data_type().bits();
        // What is stored once more, or replaced, is not read.
        let mut post_ops = self.desc.attributes().post_ops.iter();
        let alone = post_ops.all(|post_op| matches!(post_op, PostOp::Eltwise(_)));
        let narrow = self.groups < lanes;
        let flat = alone && space.coefficient("DST", ow) == Some(self.groups);
        let finish = Finish::of(self.desc, &mut space);
        space.complete = Some(group);
        let few = panels::widest(self.sums) == 1;
        let text = |tile: usize, known: Option<(String, Edges)>| {
            let (columns, edges) =
                known.map_or_else(Default::default, |(columns, edges)| (Some(columns), edges));
            let known = columns.is_some();
            let edge_tile = if edges.size > 0 { edges.size } else { tile };
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
                .number_of("LINES_AT_ONCE", lines_at_once)
                .define("TILE", tile)
                .define("W_STEP", format_args!("(idx){}", always(step)))
                .define("KNOWN_TAPS", i32::from(known))
                .define("COLUMNS", columns.unwrap_or_default())
                .define("EDGES", i32::from(edges.size > 0))
                .define("EACH_EDGE", edges.text)
                .define("ALL_EDGES", i32::from(edges.all))
                .define("EDGE_TILE", edge_tile)
                .define("MOST_TILE", edge_tile.max(tile))
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
        let long = LONG_TILES.filter(|&tile| !few && tile <= full);
        let tile = long.min_by_key(|tile| full.div_ceil(*tile) * (tile + 1));
        let tile = tile.or_else(|| tiles.into_iter().find(|&tile| tile <= full)).unwrap_or(1);
        let global = [parts * lines.div_ceil(item_lines), 1, 1];
        let files = [WINDOW, EPILOGUE, DEPTHWISE_ROWS].map(Cow::from).to_vec();
        let items = (global, Some([1, 1, 1]));
        if taps > most_taps {
            return Some(source.launch("convolution_depthwise_rows", &files, items.0, items.1));
        }
        let special = || {
            let line = Line { taps, stride, dilation, pad, source: self.window.src[last], width };
            let whole = (0, usize::MAX);
            let columns = line.columns(0..tile, whole).1;
            let most = if few { FEW_EDGE_TILE } else { EDGE_TILE };
            (text(tile, Some((columns, line.edges(tile, full, most)))), files.clone())
        };
        Some(source.launch_beside("convolution_depthwise_rows", &files, items, device, special))
    }
}

/// A line of the result: its length, that of the source, and the taps side by side.
#[derive(Clone, Copy, Debug)]
struct Line {
    taps: usize,
    stride: usize,
    dilation: usize,
    pad: usize,
    source: usize,
    width: usize,
}

/// The positions of a line that do not see all taps, in tiles of up to so many.
#[derive(Debug, Default)]
struct Edges {
    size: usize,
    text: String,
    /// Whether they are the whole line.
    all: bool,
}

impl Line {
    /// For each column that some of these positions see those that see it, and by which tap; of the columns in this range, counted from the
    /// first one that the line's first position would see. Which taps these are comes first.
    fn columns(&self, positions: Range<usize>, (first, end): (usize, usize)) -> (Vec<usize>, String) {
        let &Self { taps, stride, dilation, .. } = self;
        let reach = (taps - 1) * dilation + 1;
        let mut used = vec![false; taps];
        let mut column = |x: usize| {
            let seen: Vec<String> = positions
                .clone()
                .flat_map(|i| (0..taps).map(move |k| (i, k)))
                .filter(|(i, k)| i * stride + k * dilation == x)
                .map(|(i, k)| {
                    used[k] = true;
                    format!("FEED({}, {k}, {x})", i - positions.start)
                })
                .collect();
            if seen.is_empty() { String::new() } else { format!("COLUMN({x}) {}", seen.join(" ")) }
        };
        let last = positions.end.saturating_sub(1) * stride + reach;
        let columns = (positions.start * stride).max(first)..last.min(end);
        let text = columns.map(&mut column).collect::<Vec<_>>().join(" ");
        ((0..taps).filter(|&k| used[k]).collect(), text)
    }

    /// The tiles of up to `most` positions that do not see all taps, where as many as `full` do, and these go together in tiles of `tile`.
    fn edges(&self, tile: usize, full: usize, most: usize) -> Edges {
        let few = full < tile || (full < most && self.width <= MOST_EDGES * most);
        let all = few || self.width <= WHOLE_LINES * most;
        let first_full = self.pad.div_ceil(self.stride).min(self.width);
        // A line that is an end as a whole has no other one.
        let parts = if all { [0..self.width, 0..0] } else { [0..first_full, first_full + full..self.width] };
        let longest = parts.iter().map(Range::len).max().unwrap_or(0);
        let size = longest.div_ceil(longest.div_ceil(most).max(1));
        let tiles: Vec<Range<usize>> = parts
            .into_iter()
            .flat_map(|part| {
                part.clone().step_by(size.max(1)).map(move |start| start..(start + size).min(part.end))
            })
            .collect();
        if tiles.is_empty() || tiles.len() > MOST_EDGES {
            return Edges::default();
        }
        let text = tiles.into_iter().map(|positions| {
            let (start, count) = (positions.start, positions.len());
            let (taps, columns) = self.columns(positions, (self.pad, self.pad + self.source));
            let taps = taps.into_iter().map(|k| format!("TAP({k}) ")).collect::<Vec<_>>().concat();
            format!("EDGE({start}, {count}, {taps}, {columns})")
        });
        Edges { size, text: text.collect::<Vec<_>>().join(" "), all }
    }
}

/// `X(0)` to `X(count - 1)`.
fn each(count: usize) -> String {
    (0..count).map(|i| format!("X({i})")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Line = Line { taps: 3, stride: 1, dilation: 1, pad: 1, source: 30, width: 30 };

    #[test]
    fn ends_see_a_part_of_the_taps() {
        let edges = LINE.edges(8, 28, 8);
        let first = "EDGE(0, 1, TAP(1) TAP(2) , COLUMN(1) FEED(0, 1, 1) COLUMN(2) FEED(0, 2, 2))";
        let last = "EDGE(29, 1, TAP(0) TAP(1) , COLUMN(29) FEED(0, 0, 29) COLUMN(30) FEED(0, 1, 30))";
        assert_eq!((edges.size, edges.all, edges.text), (1, false, format!("{first} {last}")));
    }

    #[test]
    fn short_lines_are_ends() {
        let of = |line: Line, full: usize| {
            let edges = line.edges(8, full, 8);
            (edges.size, edges.all, edges.text.matches("EDGE(").count())
        };
        assert_eq!(of(Line { source: 13, width: 13, ..LINE }, 11), (7, true, 2));
        // Too many places that do not see all taps, and none.
        assert_eq!(of(Line { taps: 61, pad: 30, source: 61, width: 61, ..LINE }, 1), (0, false, 0));
        assert_eq!(of(Line { pad: 0, width: 28, ..LINE }, 28), (0, false, 0));
    }
}
