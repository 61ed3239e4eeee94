//! Depthwise convolutions by strips of the width, channels last, on devices that want many work-items (`convolution/depthwise_strip.cl`).

use super::{Order, Shape};
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::epilogue;
use crate::primitive::numbers::{always, any_quotient};
use crate::primitive::quantized;
use crate::primitive::rows::{Rows, group_size, is_cpu};
use crate::primitive::source::Source;
use crate::primitive::sums::define_bias;
use crate::primitive::value::Value;
use crate::primitive::window::WINDOW;

const DEPTHWISE_STRIP: &str = anydnn_kernels::text("convolution/depthwise_strip.cl");

/// Positions of a strip, the longest first: their sums stay in registers.
const TILES: [usize; 2] = [4, 2];
/// Taps side by side whose weights fit into registers.
const MOST_TAPS: usize = 7;
/// Work-items for each compute unit below which a strip is too long.
const ITEMS: usize = 256;
/// Channels of less than 32 bits that go together, half of what one access takes of 16 bits: sums of more leave registers for half of the
/// work-items. On an H200 one of f32 at a time takes 28 us for 5 x 5 taps and four together 60 us, as neighbours load neighbours either way.
const LANES_OF_FEW_BITS: usize = 4;
/// Work-items of a group: registers of smaller ones fill a compute unit better.
const GROUP: usize = 128;
/// What it gains by a program of its own, as a part of its time.
const GAIN: u64 = 5;

impl Shape<'_> {
    /// Channels of a work-item. Vectors that lie across a row's end would come one by one, four channels apart from those of the next work-item.
    fn strip_lanes(&self, lanes: usize, device: &DeviceTraits) -> usize {
        let few = lanes.min(LANES_OF_FEW_BITS);
        match self.desc.src().data_type().bits() {
            16 if is_cpu(device) => few,
            _ if is_cpu(device) => lanes,
            32.. => 1,
            _ if self.groups.is_multiple_of(few) => few,
            _ => 1,
        }
    }

    /// Strips of vectors along the groups, where these are contiguous and there are enough positions.
    pub(super) fn depthwise_strip(&self, value: Value, device: &DeviceTraits) -> Option<Launch> {
        let (mut space, mut outer) = self.space(Order::Spatial(None));
        space.remove(space.variable("og")?);
        space.remove(space.variable("c")?);
        outer -= 1;
        let mut rows = Rows::vectors_of_outputs(space, outer, ("g", &["SRC0"]))?.complete(device);
        rows.lanes = self.strip_lanes(rows.lanes, device);
        let (space, lanes, group) = (&rows.space, rows.lanes, rows.lane?);
        let [ow, kw] = ["ow", "kw"].map(|name| space.variable(name));
        let (ow, kw) = (ow?, kw?);
        // Positions share the place of the first one's source.
        if quantized::varies(space, "SRC0", &[ow, kw]) {
            return None;
        }
        if self.window.transposed || ow + 1 != group || !space.has_steps(group, lanes) {
            return None;
        }
        let last = self.window.src.len() - 1;
        let (taps, width) = (self.window.kernel[last], self.window.dst[last]);
        let (stride, dilation) = (self.window.strides[last], self.window.dilations[last]);
        let step = match space.coefficient("SRC0", kw)? {
            0 => space.coefficient("SRC0", ow)? / stride,
            step => step / dilation,
        };
        let (lines, vectors) = (space.count(0..ow), self.groups.div_ceil(lanes));
        let count = |tile: usize| lines * width.div_ceil(tile) * vectors;
        let is_enough = |&tile: &usize| width >= tile && count(tile) >= ITEMS * device.compute_units;
        let tile = TILES.into_iter().find(is_enough).filter(|_| taps <= MOST_TAPS)?;
        let strips = width.div_ceil(tile);
        let mut source = Source::new(space, value, (lanes, Some(group)), self.wide, true);
        source
            .declare("DECLARE_LINE", space, 0..ow)
            .define("TILE", tile)
            .define("TAPS", taps)
            .define("STEP", stride)
            .define("SPREAD", dilation)
            .define("W_STEP", format_args!("(idx){}", always(step)))
            .number_of("GROUPS", self.groups)
            .number_of("VECTORS", vectors)
            .number_of("STRIPS", strips)
            .define("PER_VECTORS(x)", any_quotient("(x)", vectors))
            .define("PER_STRIPS(x)", any_quotient("(x)", strips))
            .number_of("ITEMS", count(tile))
            .define_whole()
            .gains(GAIN, 2 * self.desc.dst().elements() * self.terms());
        if self.groups.is_multiple_of(lanes) {
            source.define("WHOLE_VECTORS", 1).require_whole();
        }
        self.define_operands(&mut source, space, &[]);
        epilogue::define_all(&mut source, self.desc, value, device);
        define_bias(&mut source, self.desc);
        let group = if is_cpu(device) { 1 } else { group_size(device).min(GROUP) };
        let (global, local) = ([count(tile).next_multiple_of(group), 1, 1], Some([group, 1, 1]));
        Some(source.launch("convolution_depthwise_strip", &[WINDOW, DEPTHWISE_STRIP], global, local))
    }
}
