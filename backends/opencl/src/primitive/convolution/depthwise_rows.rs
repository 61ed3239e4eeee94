//! Depthwise convolutions by rows of the result, channels last (`convolution/depthwise_rows.cl`).

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

use anydnn_backend::{DataType, MemoryDesc, PostOp};

use super::{Order, Shape};
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::epilogue::{EPILOGUE, Finish};
use crate::primitive::numbers::always;
use crate::primitive::panels;
use crate::primitive::quantized;
use crate::primitive::rows::{CPU_LANES, is_cpu};
use crate::primitive::source::{Source, is_contiguous};
use crate::primitive::sums::define_bias;
use crate::primitive::value::Value;
use crate::primitive::window::WINDOW;

const DEPTHWISE_ROWS: &str = anydnn_kernels::text("convolution/depthwise_rows.cl");

/// Lanes of the shortest vectors.
const LEAST_LANES: usize = 4;
/// The channels of groups whose vectors hold several of them. Panels of one group are as fast for eight.
const MEMBERS: [usize; 2] = [2, 4];
/// Positions that go together where the program knows which columns their taps see: so many sums are nearly what two instructions a clock take
/// that wait four for each other, and lines of common networks are multiples of seven. No line has a size of its own in programs for every
/// shape, as a new line would be compiled for then; those for one shape have what its line wastes least of.
const GENERAL_TILE: usize = 7;
const TILES: [usize; 9] = [1, 2, 3, 4, 5, 6, 7, 8, 9];
/// The same of programs for any taps, which four registers slide over.
const SLIDING_TILE: usize = 4;
/// The same where registers hold few sums.
const FEW_TILES: [usize; 4] = [1, 2, 3, 4];
const FEW_GENERAL_TILE: usize = 4;
const FEW_SLIDING_TILE: usize = 6;
/// Taps side by side that fit into registers beside the sums, the same where registers hold few of these, and the strides of taps that lie
/// side by side for which each number of taps has a program.
const MOST_TAPS: usize = 11;
const MOST_FEW_TAPS: usize = 3;
const USUAL_STRIDES: RangeInclusive<usize> = 1..=2;
/// What a program for one shape saves of the time of the one for every shape: a fifth at most, and half where it alone knows its taps.
const GAIN: u64 = 5;
const TAPS_GAIN: u64 = 2;
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
        self.rows_of_groups(1, value, device)
    }

    /// The same of groups of few channels and as many outputs: lanes along the channels.
    pub(super) fn grouped_rows(&self, value: Value, device: &DeviceTraits) -> Option<Launch> {
        if !self.suits_rows_of_groups(device) {
            return None;
        }
        let channels = Shape { groups: self.groups * self.outputs, outputs: 1, channels: 1, ..*self };
        channels.rows_of_groups(self.channels, value, device)
    }

    /// The tag of weights whose outputs lie side by side, where rows of groups of few channels read them.
    pub(super) fn grouped_rows_tag(&self, device: &DeviceTraits) -> Option<String> {
        let taps: String = (2..self.weights.rank()).map(|axis| char::from(b'a' + axis as u8)).collect();
        (self.suits_rows_of_groups(device) && self.has_channels_last()).then(|| format!("{taps}ba"))
    }

    fn suits_rows_of_groups(&self, device: &DeviceTraits) -> bool {
        let is_f32 = |operand: &MemoryDesc| operand.data_type() == DataType::F32;
        is_cpu(device)
            && panels::widest(self.sums) > 1
            && self.desc.attributes().dequantize.is_empty()
            && [self.desc.src(), self.weights, self.desc.dst()].into_iter().all(is_f32)
            && self.outputs == self.channels
            && MEMBERS.contains(&self.channels)
            && self.groups * self.channels >= CPU_LANES
            && !self.window.transposed
            && self.knows_taps(MOST_TAPS)
    }

    /// Whether each number of taps side by side has a program for every shape.
    fn knows_taps(&self, most: usize) -> bool {
        let last = |values: &[usize]| values.last().copied().unwrap_or(1);
        let window = &self.window;
        last(window.kernel) <= most
            && USUAL_STRIDES.contains(&last(window.strides))
            && last(window.dilations) == 1
    }

    fn rows_of_groups(&self, members: usize, value: Value, device: &DeviceTraits) -> Option<Launch> {
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
        let (stride, dilation) = (self.window.strides[last], self.window.dilations[last]);
        let step = match space.coefficient("SRC0", kw)? {
            0 => space.coefficient("SRC0", ow)? / stride,
            step => step / dilation,
        };
        let tap_step = space.coefficient("WEIGHTS", kw)?;
        let member_step = if members > 1 { self.weights.strides()?[1] } else { 0 };
        let lines = space.count(0..ow);
        let blocks = self.groups.div_ceil(lanes);
        let wanted = device.compute_units * ITEMS;
        let near = (NEAR_FACTORS / (self.terms() * members * lanes).max(1)).clamp(1, blocks);
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
        let text = |knows_taps: bool, special: bool| {
            let tiles: &[usize] = match (knows_taps, special, few) {
                (true, true, false) => &TILES,
                (true, true, true) => &FEW_TILES,
                (true, false, false) => &[GENERAL_TILE],
                (true, false, true) => &[FEW_GENERAL_TILE],
                (false, _, false) => &[SLIDING_TILE],
                (false, _, true) => &[FEW_SLIDING_TILE],
            };
            let tile = *tiles.iter().min_by_key(|tile| width.div_ceil(**tile) * (*tile + 1)).unwrap_or(&1);
            let columns = if knows_taps { columns(tile, taps, stride, dilation) } else { String::new() };
            let mut source = Source::new(&space, value, (lanes, Some(group)), self.wide, true);
            source
                .declare("DECLARE_LINE", &space, 0..ow)
                .number_of("GROUPS", self.groups)
                .number_of("SRC_SIZE", elements(self.desc.src()))
                .number_of("WEIGHTS_SIZE", elements(self.weights))
                .define("NARROW", i32::from(narrow))
                .define("MEMBERS", members)
                .define("MEMBER_STEP", format_args!("(idx){}", always(member_step)))
                .number_of("FLAT", i32::from(flat))
                .number_of("AGAIN", i32::from(alone && !narrow))
                .number_of("PARTS", parts)
                .number_of("ITEM_GROUPS", item_groups)
                .number_of("LINES", lines)
                .number_of("ITEM_LINES", item_lines)
                .number_of("LINES_AT_ONCE", lines_at_once)
                .define("TILE", tile)
                .define("W_STEP", format_args!("(idx){}", always(step)))
                .define("TAP_STEP", format_args!("(idx){}", always(tap_step)))
                .define("SRC_BYTES", self.desc.src().data_type().bits() / 8)
                .define("WEIGHTS_BYTES", self.weights.data_type().bits() / 8)
                .define("KNOWN_TAPS", i32::from(knows_taps))
                .define("COLUMNS(load, first, middle, last, any)", columns)
                .define("SLIDES", i32::from(!few))
                .define("EACH_TAP(X)", if knows_taps { each(taps) } else { String::new() });
            self.define_operands(&mut source, &space, &[]);
            define_bias(&mut source, self.desc);
            finish.define(&mut source, self.desc, special);
            source
        };
        // Taps and columns are reached by bytes.
        let most_taps = match [self.desc.src(), self.weights].iter().any(|desc| desc.data_type().bits() < 8) {
            true => 0,
            false if few => MOST_FEW_TAPS,
            false => MOST_TAPS,
        };
        let knows_taps = self.knows_taps(most_taps);
        let mut source = text(knows_taps, false);
        let operations = 2 * self.desc.dst().elements() * self.terms() * members;
        let knows_alone = taps <= most_taps && !knows_taps;
        source.gains(if knows_alone { TAPS_GAIN } else { GAIN }, operations);
        let global = [parts * lines.div_ceil(item_lines), 1, 1];
        let files = [WINDOW, EPILOGUE, DEPTHWISE_ROWS].map(Cow::from).to_vec();
        let items = (global, Some([1, 1, 1]));
        if taps > most_taps {
            return Some(source.launch("convolution_depthwise_rows", &files, items.0, items.1));
        }
        let special = || (text(true, true), files.clone());
        Some(source.launch_beside("convolution_depthwise_rows", &files, items, device, special))
    }
}

/// For each column that the positions of a tile see those that see it, and by which tap. Only the first and the last ones, which not all taps
/// of a position see at an end of a line, may lie beside the source where the tile has no position too many.
fn columns(tile: usize, taps: usize, stride: usize, dilation: usize) -> String {
    let (last, reach) = ((tile - 1) * stride, (taps - 1) * dilation);
    let mut text = String::new();
    for x in 0..=last + reach {
        let place = match (x < reach, x > last) {
            (true, true) => "any",
            (true, false) => "first",
            (false, true) => "last",
            (false, false) => "middle",
        };
        let before = text.len();
        let _ = write!(text, "{place}({x}, COLUMN({x}, load)");
        let head = text.len();
        for i in 0..tile {
            let distance = x.checked_sub(i * stride).filter(|distance| distance.is_multiple_of(dilation));
            if let Some(tap) = distance.map(|distance| distance / dilation).filter(|tap| *tap < taps) {
                let _ = write!(text, " FEED({i}, {tap})");
            }
        }
        if text.len() > head {
            text += ") ";
        } else {
            text.truncate(before);
        }
    }
    text
}

/// `X(0)` to `X(count - 1)`.
fn each(count: usize) -> String {
    (0..count).map(|i| format!("X({i})")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_feed_the_positions_that_see_them() {
        let two = "first(0, COLUMN(0, load) FEED(0, 0)) middle(1, COLUMN(1, load) FEED(0, 1) FEED(1, 0)) \
                   last(2, COLUMN(2, load) FEED(1, 1)) ";
        assert_eq!(columns(2, 2, 1, 1), two);
        // No position sees the column between them.
        let apart = "middle(0, COLUMN(0, load) FEED(0, 0)) middle(2, COLUMN(2, load) FEED(1, 0)) ";
        assert_eq!(columns(2, 1, 2, 1), apart);
        let places = |taps: usize| {
            let text = columns(7, taps, 1, 1);
            ["first(", "middle(", "last(", "any("].map(|place| text.matches(place).count())
        };
        assert_eq!((places(5), places(11)), ([4, 3, 4, 0], [7, 0, 7, 3]));
    }
}
