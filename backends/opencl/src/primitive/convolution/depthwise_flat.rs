//! Depthwise convolutions of few channels by vectors of positions and channels alike (`convolution/depthwise_flat.cl`).

use std::borrow::Cow;

use anydnn_backend::Arg;

use super::{Order, Shape};
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::epilogue::{EPILOGUE, Finish};
use crate::primitive::quantized;
use crate::primitive::rows::CPU_LANES;
use crate::primitive::source::Source;
use crate::primitive::space::{Address, Space};
use crate::primitive::value::Value;
use crate::primitive::window::WINDOW;

const DEPTHWISE_FLAT: &str = anydnn_kernels::text("convolution/depthwise_flat.cl");

/// Channels up to which vectors along them alone would stay empty for the most part, and what a tap may reach: rows' ends take longer.
const FEW_GROUPS: usize = 6;
const MOST_REACH: usize = 30;
/// Elements from which a result does not stay in the caches, so that its vectors had better be whole lines of them.
const MANY: usize = 1 << 20;
/// Floats in local memory: the weights as the lanes of vectors have them, which stay in the first-level cache beside the source.
const ROOM: usize = 8192;
/// Work-items for each core: few, as each writes the weights out.
const ITEMS: usize = 6;
/// Elements of a part of a row, at least: several times as many as weights that are written out.
const LEAST_PIECE: usize = 4096;

impl Shape<'_> {
    /// Whether rows of positions and their channels are vectors of a filter a channel, wherever they lie.
    pub(super) fn suits_flat(&self) -> bool {
        let window = &self.window;
        let last = window.src.len() - 1;
        let (taps, phases) = (self.terms(), phases(self.groups));
        let few = self.groups <= FEW_GROUPS && self.groups * window.kernel[last] <= MOST_REACH;
        let large = taps == 1 && phases > 1 && self.desc.dst().elements() >= MANY;
        (self.outputs, self.channels) == (1, 1)
            && (few || large)
            && window.strides[last] == 1
            && !window.transposed
            && (taps + 1) * phases * CPU_LANES <= ROOM
            && self.desc.src().elements() >= CPU_LANES
            && window.dst[last] * self.groups >= CPU_LANES
    }

    /// Lanes along rows of positions and their channels, where vectors along the channels alone would stay empty in part.
    pub(super) fn depthwise_flat(&self, value: Value, device: &DeviceTraits) -> Option<Launch> {
        let (taps, phases) = (self.terms(), phases(self.groups));
        if value != Value::F32 || !self.suits_flat() {
            return None;
        }
        let window = &self.window;
        let last = window.src.len() - 1;
        let elements = self.desc.src().size() * 8 / self.desc.src().data_type().bits();
        let (mut space, _) = self.space(Order::Spatial(None));
        space.remove(space.variable("og")?);
        space.remove(space.variable("c")?);
        let (group, ow) = (space.variable("g")?, space.variable("ow")?);
        let everywhere: Vec<usize> = (0..space.loops.len()).collect();
        if quantized::varies(&space, "SRC0", &everywhere) {
            return None;
        }
        join_channels(&mut space, group, ow)?;
        if taps == 1 && window.pads_begin.iter().chain(window.pads_end.iter()).all(|&pad| pad == 0) {
            join_rows(&mut space, ow);
        }
        let (length, lines) = (space.loops[ow].extent, space.count(0..ow));
        let joined = length / (window.dst[last] * self.groups);
        let src_length = joined * window.src[last] * self.groups;
        // The kernel has places of a row in 32 bits.
        i32::try_from(src_length.max(length)).ok()?;
        let wanted = device.compute_units * ITEMS;
        let sequence = phases * CPU_LANES;
        let piece =
            length.div_ceil(wanted.div_ceil(lines.max(1))).max(LEAST_PIECE).next_multiple_of(sequence);
        let pieces = length.div_ceil(piece);
        let item_lines = (lines * pieces).div_ceil(wanted).clamp(1, lines.max(1));
        let finish = Finish::of(self.desc, &mut space);
        space.complete = Some(ow);
        let mut source = Source::new(&space, value, (CPU_LANES, Some(ow)), self.wide, true);
        let bias = self.desc.find(Arg::Bias).map_or("0.0f", |_| "LD1_BIAS(OFF_BIAS)");
        source
            .declare("DECLARE_LINE", &space, 0..ow)
            .define("ROOM", ROOM)
            .define("BIAS_OF_GROUP", bias)
            .number_of("GROUPS", self.groups)
            .number_of("PHASES", phases)
            .number_of("LENGTH", length)
            .number_of("SRC_LENGTH", src_length)
            .number_of("SRC_SIZE", elements)
            .number_of("PIECES", pieces)
            .number_of("PIECE", piece)
            .number_of("LINES", lines)
            .number_of("ITEM_LINES", item_lines);
        self.define_operands(&mut source, &space, &[]);
        finish.define(&mut source, self.desc, false);
        let files = [WINDOW, EPILOGUE, DEPTHWISE_FLAT].map(Cow::from).to_vec();
        let global = [pieces * lines.div_ceil(item_lines), 1, 1];
        Some(source.launch("convolution_depthwise_flat", &files, global, Some([1, 1, 1])))
    }
}

/// What is of a channel, and written out for the lanes of vectors.
const OF_CHANNELS: [&str; 4] = ["WEIGHTS", "SCALE_WEIGHTS", "ZERO_WEIGHTS", "BIAS"];

/// Vectors until the channels in their lanes are the same again.
fn phases(groups: usize) -> usize {
    groups >> groups.trailing_zeros().min(CPU_LANES.trailing_zeros())
}

/// Makes a row of positions and their channels one loop in place of that over positions; none where some operand does not have them in a row.
fn join_channels(space: &mut Space, group: usize, ow: usize) -> Option<()> {
    let (groups, positions) = (space.loops[group].extent, space.loops[ow].extent);
    for operand in &mut space.operands {
        let Address::Linear { coefficients, .. } = &mut operand.address else { return None };
        if OF_CHANNELS.contains(&&*operand.name) {
            continue;
        }
        let (of_group, of_position) = (coefficients[group], coefficients[ow]);
        if (of_group, of_position) != (0, 0) {
            let beside = groups == 1 || of_group == 1;
            let in_row = positions == 1 || of_position == groups;
            if !beside || !in_row {
                return None;
            }
            coefficients[ow] = 1;
            coefficients[group] = 0;
        }
    }
    space.set_extent(ow, groups * positions);
    Some(())
}

/// Makes rows that follow one another in all operands one.
fn join_rows(space: &mut Space, ow: usize) {
    let mut length = space.loops[ow].extent;
    for v in (0..ow).rev().filter(|&v| space.loops[v].extent > 1).collect::<Vec<_>>() {
        let follows = |coefficients: &[usize]| {
            (coefficients[ow], coefficients[v]) == (0, 0)
                || (coefficients[ow], coefficients[v]) == (1, length)
        };
        let all = space.operands.iter().all(|operand| match &operand.address {
            Address::Linear { coefficients, .. } => follows(coefficients),
            Address::General { .. } => false,
        });
        if !all {
            break;
        }
        length *= space.loops[v].extent;
        space.loops[v].extent = 1;
    }
    space.set_extent(ow, length);
}
