//! Convolutions of operands of one or two bytes by the units of `units.rs` that multiply panels (`convolution/packed.cl`).

use anydnn_backend::{Arg, Layout, MemoryDesc};

use super::{Order, Shape};
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::choice::Planned;
use crate::primitive::rows::CPU_LANES;
use crate::primitive::source::Source;
use crate::primitive::space::{Address, Binding, Index, Operand, Space};
use crate::primitive::unit_panels::{Factors, TERMS, Unit, copied, place, raw};
use crate::primitive::value::Value;

const PACKED: &str = anydnn_kernels::text("convolution/packed.cl");
const PACK: &str = anydnn_kernels::text("convolution/pack.cl");

/// Multiply-adds from which on copies of both operands take less time than the reference.
const COPYING_WORK: usize = 1 << 14;
/// Work-items for each core, so that none waits long for another one.
const ITEMS: usize = 8;
/// Bytes behind a line of the source's copy: a whole vector may be stored, or a tile read, from its last element on.
const GAP: usize = 64;

/// Where taps are in the source: as `[d, h, w]`, in bytes.
struct Image {
    address: Address,
    place_step: usize,
    run_steps: [usize; 3],
}

/// Terms of a place and of a run of taps.
#[derive(Clone, Copy)]
struct Run {
    /// Channels, with those that fill up a place.
    pixel: usize,
    /// Taps side by side that are one run.
    taps: usize,
    /// Bytes of the weights of a run, in parts of 16 channels.
    part_bytes: usize,
}

impl Run {
    fn terms(self) -> usize {
        self.pixel * self.taps
    }
}

impl Shape<'_> {
    /// The tag of weights `[O, C, kernel..]` in parts of 16 output channels, as packed.cl reads them in place.
    pub(super) fn parts_tag(&self, factors: Factors) -> String {
        let taps: String = (2..self.weights.rank()).map(|axis| char::from(b'a' + axis as u8)).collect();
        match taps.chars().last() {
            Some(last) if self.taps_share_steps(factors) => {
                let outer = taps.trim_end_matches(last);
                let beside = factors.step() / self.channels;
                let channels = if self.channels == 1 { String::new() } else { format!("{}b", self.channels) };
                let b = if self.channels == 1 { 'b' } else { 'B' };
                format!("A{outer}{}{b}{CPU_LANES}a{beside}{last}{channels}", last.to_ascii_uppercase())
            }
            _ => format!("A{taps}B{}", factors.block_tag('a', 'b')),
        }
    }

    /// Whether terms that are multiplied at once are those of taps side by side, each of so few channels.
    fn taps_share_steps(&self, factors: Factors) -> bool {
        factors.unit.panels.repeats_rows
            && !factors.as_words()
            && self.run_taps() > 1
            && self.channels < factors.step()
            && factors.step().is_multiple_of(self.channels.max(1))
    }

    /// Taps whose places in the source follow each other.
    fn run_taps(&self) -> usize {
        let taps = self.kernel()[2];
        if self.window.dilations.last().copied().unwrap_or(1) == 1 { taps } else { 1 }
    }

    /// The factors for which weights that the caller leaves open had better lie in parts of 16 channels.
    pub(super) fn likes_parts(&self, device: &DeviceTraits) -> Option<Factors> {
        let factors = self.factors(device)?;
        let step = factors.step();
        let whole = self.groups == 1 || self.outputs.is_multiple_of(CPU_LANES);
        let taps = self.window.kernel.last().copied().unwrap_or(1);
        // Few channels fill a tile better together with those of the taps beside them.
        let fills = taps == 1 || self.channels * 4 >= step * 3 || step <= CPU_LANES / 4;
        (whole && fills).then_some(factors)
    }

    fn factors(&self, device: &DeviceTraits) -> Option<Factors> {
        Unit::all(device).find_map(|unit| self.factors_of(unit, device))
    }

    fn factors_of(&self, unit: Unit, device: &DeviceTraits) -> Option<Factors> {
        // A few terms, or outputs, leave most of a tile empty. Few outputs of all channels are worth it where there is work for more
        // launches; those of a channel each have vectors along them.
        let operations = self.desc.dst().elements().saturating_mul(self.terms());
        let pays = self.groups == 1 && operations >= COPYING_WORK;
        let few = self.outputs < CPU_LANES / 2;
        // Integers of few terms are multiplied as floats, which are finished in less time; bf16 is rounded by the unit.
        let enough = |f: &Factors| match (few, f.src.is_float()) {
            (true, _) => pays && self.terms() >= 8,
            (false, true) if f.unit.panels.repeats_rows => self.terms() >= 4,
            (false, _) => self.terms() >= 16,
        };
        Factors::of(self.desc, unit, device)
            .filter(|f| {
                enough(f)
                    && !self.window.transposed
                    && (f.step() <= CPU_LANES / 4 || f.element() == 1 || self.channels >= 8)
            })
            .map(|factors| factors.for_columns(self.outputs))
    }

    /// Tiles of places by panels of output channels, of operands in place or copied first.
    pub(super) fn packed(&self, unit: Unit, device: &DeviceTraits, packing: bool) -> Option<Planned> {
        let factors = self.factors_of(unit, device)?;
        let unit = factors.unit;
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
        if !steady || !vectors || lines * line * self.terms() == 0 || self.terms() > factors.most_terms(desc)
        {
            return None;
        }

        let element = factors.element();
        let kernel = self.kernel();
        let taps = self.run_taps();
        let shares_steps = self.taps_share_steps(factors);
        // What lies behind a run meets weights of zero, which makes no difference to integers alone.
        let fill = match element {
            _ if shares_steps => 1,
            1 if packing => factors.step().min(4),
            _ => factors.step(),
        };
        let pixel = self.channels.next_multiple_of(fill);
        let part_bytes = factors.part_bytes(pixel * taps);
        let run = Run { pixel, taps, part_bytes };
        let runs = [kernel[0], kernel[1], kernel[2] / taps];
        let part_step = runs.iter().product::<usize>() * part_bytes;

        let mut planned = Planned { scratchpad: 0, launches: Vec::new() };
        let in_place = self.image_in_place(&space, run, factors);
        // The channels of a single tap may end within what is multiplied at once.
        let is_in_place = in_place.is_some();
        let run_terms = if is_in_place { self.channels * taps } else { run.terms() };
        let image = if let Some(image) = in_place {
            place(&mut space, "SRC0", Binding::Arg(Arg::SRC), image.address.clone());
            image
        } else {
            // The copy's borders hold the zero point, which another type might not fit.
            let fits = space.find("ZERO_SRC0").is_none_or(|zero| zero.data_type == factors.src);
            if !fits && !self.window.is_unpadded() {
                return None;
            }
            let (image, bytes, launch) = self.copy_image(&space, factors, run)?;
            planned.launches.push(launch);
            // Rows that are read past the last line.
            let spare = if unit.panels.repeats_rows { unit.rows } else { 0 };
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

        let (most, at_once) = (unit.rows, unit.panels.tiles);
        let line_tiles = line.div_ceil(most);
        let (least, more) = (line / line_tiles, line % line_tiles);
        let tile_rows = unit.tile_rows(least + usize::from(more > 0)) / at_once;
        let parts = factors.panel() / CPU_LANES;
        let blocks = panels.div_ceil(parts);
        let tiles = lines * line_tiles;
        let wanted = (device.compute_units * ITEMS).div_ceil(blocks * self.groups);
        let item_tiles = tiles.div_ceil(wanted).next_multiple_of(at_once);
        let wide = self.wide || i32::try_from(planned.scratchpad).is_err();
        let mut text = Source::new(&space, Value::F32, (CPU_LANES, Some(lane)), wide, true);
        text.general()
            .declare("DECLARE_LINE", &space, 0..ow)
            .declare("DECLARE_GROUP", &space, group..group + 1)
            .define("EACH_M(X)", (0..tile_rows).map(|i| format!("X({i})")).collect::<Vec<_>>().join(" "))
            .define("PARTS", parts)
            .define("AT_ONCE", at_once)
            .define("TILE_ROWS", tile_rows)
            .number_of("TILES", tiles)
            .number_of("LINE_TILES", line_tiles)
            .number_of("TILE_LEAST", least)
            .number_of("TILES_MORE", more)
            .number_of("ITEM_TILES", item_tiles)
            .number_of("GROUP_OUTPUTS", self.outputs)
            .number_of("K_SIZE", self.terms())
            .number_of("A_STEP", image.place_step)
            .number_of("B_STEP", part_step);
        let steps = [0, 1, 2].map(|i| (runs[i], image.run_steps[i]));
        let ends_within = is_in_place || (shares_steps && factors.src.is_float());
        factors.define(&mut text, &space, desc, device, (steps, run_terms, ends_within), ow)?;
        let terms: Vec<usize> = (outer..space.loops.len()).collect();
        self.define(&mut text, &space, &terms);
        let global = [blocks, tiles.div_ceil(item_tiles), self.groups];
        let files = factors.files(PACKED);
        planned.launches.push(text.launch("convolution_packed", &files, global, Some([1, 1, 1])));
        Some(planned)
    }

    /// Sizes of the window in three dimensions.
    fn kernel(&self) -> [usize; 3] {
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

    /// The source where it lies, if every tap is inside of it and runs are whole tiles.
    fn image_in_place(&self, space: &Space, run: Run, factors: Factors) -> Option<Image> {
        let element = factors.element();
        let step = |name: &str| space.coefficient("SRC0", space.variable(name)?);
        let Address::Linear { base, coefficients } = &space.find("SRC0")?.address else { return None };
        let whole =
            (run.pixel == self.channels || run.taps == 1) && factors.reads_in_place(self.channels * run.taps);
        let side_by_side = (self.channels == 1 || step("c") == Some(1))
            && (run.taps == 1 || step("kw") == Some(self.channels));
        if !whole || !side_by_side || !self.window.is_unpadded() {
            return None;
        }
        let bytes = coefficients.iter().map(|c| c * element).collect();
        Some(Image {
            address: Address::Linear { base: base * element as isize, coefficients: bytes },
            place_step: step("ow")? * element,
            run_steps: [step("kd")? * element, step("kh")? * element, step("kw")? * element],
        })
    }

    /// A copy of the source with its borders, and the launch that makes it.
    fn copy_image(&self, space: &Space, factors: Factors, run: Run) -> Option<(Image, usize, Launch)> {
        let term_bytes = factors.element() * if factors.as_words() { 2 } else { 1 };
        let [strides, dilations, dst] =
            [self.window.strides, self.window.dilations, self.window.dst].map(|sizes| three(sizes, 1));
        let kernel = self.kernel();
        let size = [0, 1, 2].map(|i| (dst[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1);
        let pixel = run.pixel * term_bytes;
        let line = size[2] * pixel + GAP;
        let plane = size[1] * line;
        let group = size[0] * plane;
        let image = group * self.groups;
        let images = self.desc.src().dims()[0];

        let mut copy = Space::default();
        let names = [("image", images), ("pd", size[0]), ("ph", size[1])];
        for (name, extent) in names {
            copy.push(name, extent);
        }
        let g = copy.push("g", self.groups);
        let pw = copy.push("pw", size[2]);
        let spatial: Vec<Index> = self.window.push_source(&mut copy);
        let c = copy.push("c", self.channels);
        let channel = Index::sum(&[(g, self.channels), (c, 1)]);
        let at: Vec<Index> = [Index::of(0), channel].into_iter().chain(spatial).collect();
        copy.operand("SRC0", Binding::Arg(Arg::SRC), self.desc.src(), &at);
        let mut to = vec![0; copy.loops.len()];
        (to[0], to[1], to[2], to[g], to[pw]) = (image, plane, line, group, pixel);
        copy.operands.push(copied("DST", Binding::Scratchpad(0), Address::linear(to)));
        if let Some(zero) = space.find("ZERO_SRC0") {
            let base = match &zero.address {
                Address::Linear { base, .. } => *base,
                Address::General { .. } => return None,
            };
            let address = Address::Linear { base, coefficients: vec![0; copy.loops.len()] };
            copy.operands.push(Operand { address, ..zero.clone() });
        }
        let bytes = image.checked_mul(images)?;
        let wide = self.wide || i32::try_from(bytes).is_err();
        let mut text = Source::new(&copy, Value::F32, (CPU_LANES, Some(c)), wide, true);
        let iw = copy.variable("iw")?;
        let load = raw(copy.find("SRC0")?, if self.channels == 1 { iw } else { c })?;
        let step = |v: usize| copy.coefficient("SRC0", v);
        let is_run = run.pixel == self.channels
            && step(iw) == Some(run.pixel)
            && (self.channels == 1 || step(c) == Some(1));
        factors.define_terms(&mut text);
        self.window.define(&mut text);
        text.general()
            .declare("DECLARE_LINE", &copy, 0..g)
            .declare("DECLARE_GROUP", &copy, g..g + 1)
            .define("RAW_SRC0(o, n)", load("o", "n"))
            .define("PACK_SOURCE", 1)
            .define("HAS_ZERO_SRC0", i32::from(copy.find("ZERO_SRC0").is_some()))
            .number_of("WIDTH", size[2])
            .number_of("IS_RUN", i32::from(is_run))
            .number_of(
                "SRC_ROOM",
                if step(c) == Some(1) { self.desc.src().size() / factors.element() } else { 0 },
            )
            .number_of("CHANNELS", self.channels)
            .number_of("PIXEL_TERMS", run.pixel);
        let global = [copy.count(0..g), self.groups, 1];
        let launch = text.launch("convolution_pack_source", &[TERMS, PACK], global, Some([1, 1, 1]));
        let address = |name: &str| space.variable(name);
        let mut coefficients = vec![0; space.loops.len()];
        for (name, step) in [
            ("image", image),
            ("g", group),
            ("od", strides[0] * plane),
            ("oh", strides[1] * line),
            ("ow", strides[2] * pixel),
        ] {
            coefficients[address(name)?] = step;
        }
        let made = Image {
            address: Address::linear(coefficients),
            place_step: strides[2] * pixel,
            run_steps: [dilations[0] * plane, dilations[1] * line, dilations[2] * pixel],
        };
        Some((made, bytes, launch))
    }

    /// The launch that copies the weights into parts of 16 output channels.
    fn copy_parts(
        &self,
        space: &Space,
        factors: Factors,
        run: Run,
        to: &Address,
        scratchpad: usize,
    ) -> Option<Launch> {
        let mut copy = Space { operands: vec![space.find("WEIGHTS")?.clone()], ..space.clone() };
        copy.operands.push(copied("DST", Binding::Scratchpad(scratchpad), to.clone()));
        let [group, panel, lane] = ["g", "panel", "lane"].map(|name| copy.variable(name));
        let (group, panel, lane) = (group?, panel?, lane?);
        let load = raw(copy.find("WEIGHTS")?, lane)?;
        let mut text = Source::new(&copy, Value::F32, (CPU_LANES, Some(lane)), self.wide, true);
        factors.define_terms(&mut text);
        self.window.define(&mut text);
        text.general()
            .declare("DECLARE_PARTS", &copy, group..panel + 1)
            .define("RAW_WEIGHTS(o, n)", load("o", "n"))
            .number_of("GROUP_OUTPUTS", self.outputs)
            .number_of("CHANNELS", self.channels)
            .number_of("PIXEL_TERMS", run.pixel)
            .number_of("RUN_TAPS", run.taps)
            .number_of("RUN_STEPS", run.part_bytes / factors.unit.part_bytes());
        let global = [copy.count(group..panel + 1), 1, 1];
        Some(text.launch("convolution_pack_weights", &[TERMS, PACK], global, Some([1, 1, 1])))
    }
}

/// Up to three sizes as three, those that are missing first.
fn three(sizes: &[usize], missing: usize) -> [usize; 3] {
    let mut all = [missing; 3];
    all[3 - sizes.len()..].copy_from_slice(sizes);
    all
}
