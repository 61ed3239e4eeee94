//! Convolutions with few outputs, by vectors along the channels (`convolution/dots.cl`).

use std::borrow::Cow;

use anydnn_backend::DataType;

use super::{Order, Shape};
use crate::capability::Feature;
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::epilogue::{EPILOGUE, Finish};
use crate::primitive::numbers::always;
use crate::primitive::panels;
use crate::primitive::rows::{CPU_LANES, is_cpu};
use crate::primitive::source::{Source, is_contiguous};
use crate::primitive::sums::define_bias;
use crate::primitive::value::Value;
use crate::primitive::window::WINDOW;

const DOTS: &str = anydnn_kernels::text("convolution/dots.cl");

/// Outputs up to which their lanes would leave most of a vector empty, and terms for which adding lanes together at the end takes little time.
const MOST_OUTPUTS: usize = 6;
const LEAST_TERMS: usize = 4 * CPU_LANES;
/// The same of bf16, which units multiply in pairs.
const MOST_OF_PAIRS: usize = 4;
const LEAST_OF_PAIRS: usize = 8 * CPU_LANES;
/// Lanes of finished results, for up to so many outputs and for more.
const LANES: usize = 4;
const MORE_LANES: usize = 8;
/// Outputs and positions whose sums are in registers, for one output and for more; more than these have as many positions.
const OF_ONE: [usize; 2] = [1, 8];
const OF_MORE: [usize; 2] = [4, 4];
/// Work-items for each core, so that none waits long for another one.
const ITEMS: usize = 16;

impl Shape<'_> {
    /// Whether there are few outputs of many channels that lie side by side.
    pub(super) fn likes_dots(&self, device: &DeviceTraits) -> bool {
        let src = self.desc.src();
        let (most_outputs, least_terms) = match src.data_type() {
            DataType::F32 => (MOST_OUTPUTS, LEAST_TERMS),
            // Beside matrix units it was not measured.
            DataType::BF16 if !device.has(Feature::Amx) => (MOST_OF_PAIRS, LEAST_OF_PAIRS),
            _ => return false,
        };
        let plain =
            self.weights.data_type() == src.data_type() && self.desc.attributes().dequantize.is_empty();
        is_cpu(device)
            && panels::widest(self.sums) > 1
            && plain
            && self.has_channels_last()
            && (!self.window.transposed || self.window.dilations.last().is_none_or(|&dilation| dilation == 1))
            && self.outputs <= most_outputs
            && self.channels >= CPU_LANES
            && self.terms() >= least_terms
    }

    /// Sums of several positions and outputs by vectors of channels.
    pub(super) fn dots(&self, value: Value, device: &DeviceTraits) -> Option<Launch> {
        if value != Value::F32 || !self.likes_dots(device) {
            return None;
        }
        let (mut space, _) = self.space(Order::Spatial(None));
        let [group, output, channel, ow, kw] = ["g", "og", "c", "ow", "kw"].map(|name| space.variable(name));
        let (group, output, channel, ow, kw) = (group?, output?, channel?, ow?, kw?);
        let [outs, positions] = match self.outputs {
            1 => OF_ONE,
            outputs => [outputs.max(OF_MORE[0]), OF_MORE[1]],
        };
        let lanes = if outs > LANES { MORE_LANES } else { LANES };
        let side_by_side = ["SRC0", "WEIGHTS"].iter().all(|name| is_contiguous(&space, name, channel));
        if !side_by_side || !space.has_steps(output, lanes) {
            return None;
        }
        let step = |name: &str, v: usize| space.coefficient(name, v);
        // Of a transposed one the kernel goes through the taps of a turn, from one source to the one before it.
        let along = if self.window.transposed { space.variable("IN_WIDTH")? } else { ow };
        let a_step = if self.window.transposed { 0 } else { step("SRC0", kw)? };
        let b_step = step("WEIGHTS", kw)?;
        let merged = (a_step, b_step) == (self.channels, self.channels);
        let numbers = [
            ("A_STEP_M", step("SRC0", along)?),
            ("A_STEP_KW", a_step),
            ("B_STEP_KW", b_step),
            ("B_STEP_O", step("WEIGHTS", output)?),
        ];
        let lines = space.count(0..ow);
        let item_lines = lines.div_ceil(device.compute_units * ITEMS).max(1);
        let finish = Finish::of(self.desc, &mut space);
        space.complete = Some(output);
        let mut source = Source::new(&space, value, (lanes, Some(output)), self.wide, true);
        source
            .declare("DECLARE_LINE", &space, 0..ow)
            .define("OUTS", outs)
            .define("ELEMENT_BYTES", self.desc.src().data_type().bits() / 8)
            .define("POSITIONS", positions)
            .number_of("GROUPS", space.loops[group].extent)
            .number_of("OUTPUTS", self.outputs)
            .number_of("BLOCKS", self.outputs.div_ceil(outs))
            .number_of("LINES", lines)
            .number_of("ITEM_LINES", item_lines)
            .number_of("MERGED", i32::from(merged));
        for (name, number) in numbers {
            source.define(name, format!("(idx){}", always(number)));
        }
        self.define_operands(&mut source, &space, &[]);
        define_bias(&mut source, self.desc);
        finish.define(&mut source, self.desc, false);
        let files = [WINDOW, EPILOGUE, DOTS].map(Cow::from).to_vec();
        let global = [lines.div_ceil(item_lines), 1, 1];
        Some(source.launch("convolution_dots", &files, global, Some([1, 1, 1])))
    }
}
