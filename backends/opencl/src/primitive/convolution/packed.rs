//! Convolutions of operands of one or two bytes by the units of `units.rs` that multiply panels (`convolution/packed.cl`).

use anydnn_backend::{Arg, Layout, MemoryDesc};

use super::copies::GAP;
use super::items::Local;
use super::ways::{From, Run, Way};
use super::{Order, Shape};
use crate::plan::DeviceTraits;
use crate::primitive::choice::Planned;
use crate::primitive::rows::CPU_LANES;
use crate::primitive::source::Source;
use crate::primitive::space::{Address, Binding, Operand};
use crate::primitive::unit_panels::{Factors, MOST_ROOM, Unit, place, tag_of, weights_pointer};
use crate::primitive::value::Value;

const PACKED: &str = anydnn_kernels::text("convolution/packed.cl");
const GATHER: &str = anydnn_kernels::text("convolution/gather.cl");

/// Multiply-adds from which on copies of both operands take less time than the reference.
const COPYING_WORK: usize = 1 << 14;
/// Channels that are gathered as they are in less time than with those that fill them up, at the price of weights that are copied.
const MOST_LOOSE: usize = 8;
/// Places whose products with channels that fill up a step, as many as there are channels, take as long as copies of the weights in each
/// execution.
const FEW_PLACES: usize = 20 << 10;

impl Shape<'_> {
    /// The tag of weights `[O, C, kernel..]` in parts of 16 output channels, as packed.cl reads them in place.
    pub(super) fn parts_tag(&self, factors: Factors) -> String {
        let axes = (0..self.window.dst.len()).map(|dimension| self.along.axis(dimension));
        // Images have no taps.
        let taps: String = axes.filter(|&axis| axis > 0).map(|axis| char::from(b'a' + axis as u8)).collect();
        match taps.chars().last() {
            Some(last) if self.taps_share_steps(factors) => {
                let outer = taps.trim_end_matches(last);
                // What follows an output's first terms are those of the output beside it.
                let (lane, pixel) = (factors.lane(), self.shared_pixel(factors));
                let (lane_taps, lane_channels) = ((lane / pixel).max(1), lane.min(pixel));
                let beside = factors.step() / pixel;
                let blocks = [
                    (last, beside / lane_taps),
                    ('b', pixel / lane_channels),
                    ('a', CPU_LANES),
                    (last, lane_taps),
                    ('b', lane_channels),
                ];
                let inner = tag_of(blocks.into_iter().filter(|(_, count)| *count > 1));
                let b = if pixel == 1 { 'b' } else { 'B' };
                format!("A{outer}{}{b}{inner}", last.to_ascii_uppercase())
            }
            _ => format!("A{taps}B{}", factors.block_tag('a', 'b')),
        }
    }

    /// Whether terms that are multiplied at once are those of taps side by side, each of so few channels. Places that are gathered may have
    /// channels to fill up.
    pub(super) fn taps_share_steps(&self, factors: Factors) -> bool {
        let step = factors.step();
        let shares = if factors.unit.panels.repeats_rows {
            self.run_taps() > 1 && self.channels < step && step.is_multiple_of(self.channels.max(1))
        } else {
            let kernel = self.kernel();
            let pixel = self.channels.next_power_of_two();
            let fills = pixel == self.channels || self.channels > MOST_LOOSE;
            // A tile of places has to fit into local memory with all that their windows take.
            let place = self.place_bytes(Run::new(pixel, kernel[2], factors), factors);
            let fits = place * factors.unit.rows <= MOST_ROOM;
            kernel[2] > 1 && pixel < step && fills && fits && self.has_channels_last()
        };
        shares && !factors.as_words()
    }

    /// Channels of a place whose taps share steps.
    pub(super) fn shared_pixel(&self, factors: Factors) -> usize {
        if factors.unit.panels.repeats_rows { self.channels } else { self.channels.next_power_of_two() }
    }

    /// Taps whose places in the source follow each other.
    pub(super) fn run_taps(&self) -> usize {
        let taps = self.kernel()[2];
        if self.window.dilations.last().copied().unwrap_or(1) == 1 { taps } else { 1 }
    }

    /// The factors for which weights that the caller leaves open had better lie in parts of 16 channels, for lines as they are.
    pub(super) fn likes_parts(&self, device: &DeviceTraits) -> Option<Factors> {
        let factors = self.factors(device)?;
        let step = factors.step();
        let whole = self.groups == 1 || self.outputs.is_multiple_of(CPU_LANES);
        let taps = self.window.kernel.last().copied().unwrap_or(1);
        // Few channels fill a tile better together with those of the taps beside them, if there are places enough to copy weights for.
        let filled = self.channels.next_multiple_of(step);
        let fills = taps == 1
            || self.places() * (filled - self.channels) <= FEW_PLACES * self.channels
            || self.channels * 4 >= filled * 3
            || step <= CPU_LANES / 4
            || self.taps_share_steps(factors);
        (whole && fills).then_some(factors)
    }

    /// Whether weights that the caller leaves open had better lie with their output channels innermost, where they are copied.
    pub(super) fn likes_loose(&self, device: &DeviceTraits) -> bool {
        self.factors(device).is_some_and(|factors| {
            !factors.unit.panels.repeats_rows && self.has_channels_last() && self.groups == 1
        })
    }

    pub(super) fn factors(&self, device: &DeviceTraits) -> Option<Factors> {
        Unit::all(device).find_map(|unit| self.factors_of(unit, device))
    }

    pub(super) fn factors_of(&self, unit: Unit, device: &DeviceTraits) -> Option<Factors> {
        // A few terms, or outputs, leave most of a tile empty. Few outputs of all channels are worth it where there is work for more
        // launches; those of a channel each have vectors along them.
        let operations = self.desc.dst().elements().saturating_mul(self.terms());
        let pays = self.groups == 1 && operations >= COPYING_WORK;
        let few = self.outputs < CPU_LANES / 2;
        // Integers of few terms are multiplied as floats, which are finished in less time; bf16 is rounded by the unit.
        let enough = |f: &Factors| match (few, f.src.is_float()) {
            (true, _) => pays,
            (false, true) if f.unit.panels.repeats_rows => self.terms() >= 4,
            (false, _) if !f.unit.panels.repeats_rows => self.terms() >= 8,
            (false, _) => self.terms() >= 16,
        };
        Factors::of(self.desc, unit, device)
            .filter(|f| {
                enough(f)
                    && self.terms() <= f.most_terms(self.desc)
                    && !self.window.transposed
                    && (f.step() <= CPU_LANES / 4
                        || f.element() == 1
                        || self.channels >= 8
                        || self.has_channels_last())
            })
            .map(|factors| factors.for_result([self.groups, self.places(), self.outputs], device))
    }

    /// Places of the result, of all images.
    fn places(&self) -> usize {
        self.desc.dst().elements() / (self.outputs * self.groups).max(1)
    }

    /// Tiles of places along lines by panels of output channels, of operands in place or copied first.
    pub(super) fn packed_along(
        &self,
        factors: Factors,
        device: &DeviceTraits,
        packing: bool,
    ) -> Option<Planned> {
        let desc = self.desc;
        let (mut space, outer) = self.space(Order::Spatial(Some(CPU_LANES)));
        let [group, panel, lane, ow] = ["g", "panel", "lane", "ow"].map(|name| space.variable(name));
        let (group, panel, lane, ow) = (group?, panel?, lane?, ow?);
        let line = space.loops[ow].extent;
        let lines = space.count(0..ow);
        let all_loops = 0..space.loops.len();
        let still = |name: &str, loops: std::ops::Range<usize>| {
            space.find(name).is_none_or(|o| loops.into_iter().all(|v| o.address.step(v, 1) == Some(0)))
        };
        let steady = ["SCALE_SRC0", "SCALE_WEIGHTS", "ZERO_WEIGHTS"]
            .iter()
            .all(|name| still(name, outer..all_loops.end))
            && still("ZERO_SRC0", all_loops.clone());
        let others = |o: &&Operand| !matches!(o.name.as_str(), "SRC0" | "WEIGHTS");
        let vectors = space.operands.iter().filter(others).all(|o| o.address.step(lane, CPU_LANES).is_some());
        if !steady || !vectors || lines * line * self.terms() == 0 {
            return None;
        }

        let kernel = self.kernel();
        let Way { source, run, factors } = self.way(&space, factors, packing)?;
        let unit = factors.unit;
        let runs = [kernel[0], kernel[1], kernel[2] / run.taps];
        let part_bytes = run.part_bytes;
        let part_step = runs.iter().product::<usize>() * part_bytes;

        let mut planned = Planned { scratchpad: 0, launches: Vec::new() };
        // Borders hold the zero point, which another type might not fit.
        let fits = space.find("ZERO_SRC0").is_none_or(|zero| zero.data_type == factors.src);
        let is_in_place = matches!(source, From::InPlace(_));
        if !is_in_place && !fits && !self.window.is_unpadded() {
            return None;
        }
        let local = source.local();
        let gathers = local != Local::Nothing;
        // The channels of a single tap may end within what is multiplied at once.
        let run_terms = if is_in_place { self.channels * run.taps } else { run.terms() };
        let image = if let From::InPlace(image)
        | From::Gathered(image)
        | From::GatheredLines(image)
        | From::Held(image) = source
        {
            place(&mut space, "SRC0", Binding::Arg(Arg::SRC), image.address.clone());
            image
        } else {
            let (image, bytes, launch) = self.copy_image(&space, factors, run)?;
            planned.launches.push(launch);
            // Rows that are read past the last line.
            let spare = if unit.panels.repeats_rows { unit.rows } else { 1 };
            planned.scratchpad = (bytes + spare * image.place_step + GAP).next_multiple_of(GAP);
            place(&mut space, "SRC0", Binding::Scratchpad(0), image.address.clone());
            image
        };
        let panels = space.loops[panel].extent;
        let mut to = vec![0; space.loops.len()];
        to[panel] = part_step;
        to[group] = part_step * panels;
        let at = planned.scratchpad;
        let binding = if packing {
            let address = Address::linear(to.clone());
            planned.launches.push(self.copy_parts(&space, factors, run, &address, at)?);
            planned.scratchpad += part_step * panels * self.groups;
            Binding::Scratchpad(at)
        } else {
            let own = self.own_parts(factors)?;
            if own != part_step || !(self.groups == 1 || self.outputs.is_multiple_of(CPU_LANES)) {
                return None;
            }
            Binding::Arg(Arg::Weights)
        };
        place(&mut space, "WEIGHTS", binding, Address::linear(to));

        let parts = factors.panel() / CPU_LANES;
        let weights = (panels.div_ceil(parts), part_step * panels);
        let items = self.items((local, &image, run), factors, [lines, line], weights, device)?;
        let at_once = unit.tiles;
        let tile_rows = unit.tile_rows(items.rows()) / at_once;
        // Where the last terms of a place end, and the last place that has as many terms behind it in what it is read from.
        let end: usize = [0, 1, 2].iter().map(|&i| (runs[i] - 1) * image.run_steps[i]).sum();
        let room = if is_in_place { desc.src().size() } else { self.image_bytes(factors, run) };
        let last_byte = room.saturating_sub(end + run.steps(factors) * unit.step_bytes());
        let wide = self.wide || i32::try_from(planned.scratchpad).is_err();
        let mut text = Source::new(&space, Value::F32, (CPU_LANES, Some(lane)), wide, true);
        text.general()
            .declare("DECLARE_LINE", &space, 0..ow)
            .declare("DECLARE_GROUP", &space, group..group + 1)
            .define("EACH_M(X)", (0..tile_rows).map(|i| format!("X({i})")).collect::<Vec<_>>().join(" "))
            .define("PARTS", parts)
            .define("AT_ONCE", at_once)
            .define("TILE_ROWS", tile_rows)
            .define("RUNS_ON", i32::from(items.runs_on))
            .define("WEIGHTS_POINTER", weights_pointer(false))
            .define("SHARES_LINES", i32::from(local == Local::Taps))
            .define("HOLDS_LINES", i32::from(local == Local::Lines))
            .number_of("STRETCH_ITEMS", items.of_stretch())
            .number_of("STRETCH_LINES", image.run_lines)
            .define("GATHERS", i32::from(gathers))
            .number_of("ITEM_PANELS", items.item_panels)
            .number_of("LINE", space.loops[ow].extent)
            .number_of("TILES", items.tiles)
            .number_of("LINE_TILES", items.line_tiles)
            .number_of("TILE_LEAST", items.least)
            .number_of("TILES_MORE", items.more)
            .number_of("ITEM_TILES", items.item_tiles)
            .number_of("GROUP_OUTPUTS", self.outputs)
            .number_of("K_SIZE", self.terms())
            .number_of("A_STEP", image.place_step)
            .number_of("MOST_ROWS", items.rows())
            .number_of("LAST_BYTE", last_byte)
            .number_of("B_STEP", part_step);
        let steps = [0, 1, 2].map(|i| (runs[i], image.run_steps[i]));
        let ends_within = is_in_place
            || local == Local::Lines
            || (self.taps_share_steps(factors) && factors.src.is_float() && !gathers);
        factors.define(&mut text, &space, desc, device, (steps, run_terms, ends_within), ow)?;
        let terms: Vec<usize> = (outer..space.loops.len()).collect();
        self.define(&mut text, &space, &terms);
        if gathers {
            let strides = self.desc.src().strides()?;
            let dimensions = self.window.dst.len();
            let along = |back: usize| match dimensions.checked_sub(back + 1) {
                Some(dimension) => strides[self.along.axis(dimension)],
                None => 0,
            };
            let [line_step, place_step] = [1, 0].map(|back| along(back) * factors.element());
            text.define("PLACES_ROOM", items.room)
                .number_of("IS_RUN", i32::from(self.is_run(run)))
                .number_of("WIDTH", self.padded_size()[2])
                .number_of("PITCH", self.held_pitch(run, factors))
                .number_of("SRC_LINE_STEP", line_step)
                .number_of("SRC_PLACE_STEP", place_step)
                .number_of("PIXEL_TERMS", run.pixel)
                .number_of("SEGMENT", run.steps(factors) * factors.step());
        }
        let mut files = factors.files(PACKED).to_vec();
        if gathers {
            files.insert(files.len() - 1, GATHER);
        }
        planned.launches.push(text.launch(
            "convolution_packed",
            &files,
            items.global(self.groups),
            Some([1, 1, 1]),
        ));
        Some(planned)
    }

    /// Sizes of the window in three dimensions.
    pub(super) fn kernel(&self) -> [usize; 3] {
        three(self.window.kernel, 1)
    }

    /// Bytes from a part of 16 output channels to the next one, of weights that lie so and dense.
    fn own_parts(&self, factors: Factors) -> Option<usize> {
        let weights = self.weights;
        let tag = self.parts_tag(factors);
        let parts = MemoryDesc::with_tag(weights.dims().clone(), weights.data_type(), &tag).ok()?;
        let Layout::Blocked(blocking) = parts.layout() else { return None };
        parts.same_bytes(weights).then(|| blocking.strides[0] * factors.element())
    }
}

/// Up to three sizes as three, those that are missing first.
pub(super) fn three(sizes: &[usize], missing: usize) -> [usize; 3] {
    let mut all = [missing; 3];
    all[3 - sizes.len()..].copy_from_slice(sizes);
    all
}
