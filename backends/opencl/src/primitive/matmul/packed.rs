//! Products of operands of one or two bytes by the units of `units.rs` that multiply panels (`matmul/packed.cl`).

use anydnn_backend::{Arg, DataType, Layout, MemoryDesc, PrimitiveDesc};

use super::Shape;
use crate::capability::instruction::Multiplicand;
use crate::capability::units::{Feature, Panels};
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::choice::Planned;
use crate::primitive::numbers::always;
use crate::primitive::panels::{sums, widest};
use crate::primitive::rows::{CPU_LANES, is_cpu};
use crate::primitive::source::Source;
use crate::primitive::space::{Address, Binding, Operand, Space};
use crate::primitive::value::{Value, storage};

const PACKED: &str = anydnn_kernels::text("matmul/packed.cl");
const FINISH: &str = anydnn_kernels::text("matmul/finish.cl");
pub(in crate::primitive) const TERMS: &str = anydnn_kernels::text("matmul/terms.cl");
const PACK: &str = anydnn_kernels::text("matmul/pack.cl");

/// Bytes of terms in a tile of a unit that has tiles of its own, and of those that others multiply at once.
const TILE_BYTES: usize = 64;
const LANE_BYTES: usize = 4;
/// Bytes where copies begin.
const ALIGNMENT: usize = 64;
/// Terms whose products of bytes fit 31 bits.
pub(in crate::primitive) const MOST_TERMS: usize = 33_000;
/// Bytes of the source that a work-item goes through for every panel.
const BLOCK_BYTES: usize = 512 << 10;
/// Work-items for each core, so that none waits long for another one.
const ITEMS: usize = 8;
/// Rows of a tile where registers hold few sums: products of words are vectors before they are added.
const FEW_ROWS: usize = 5;
/// What a panel of so many parts costs: narrow ones read a row for fewer products.
const PART_COSTS: [usize; 4] = [140, 220, 310, 400];
/// Rows that a work-item copies.
const PACK_ROWS: usize = 16;

/// A unit that multiplies panels.
#[derive(Clone, Copy, Debug)]
pub(in crate::primitive) struct Unit {
    feature: Feature,
    pub(in crate::primitive) panels: &'static Panels,
    /// Rows of a tile, and columns of a panel.
    pub(in crate::primitive) rows: usize,
    pub(in crate::primitive) columns: usize,
}

impl Unit {
    /// Every unit that multiplies panels, best first.
    pub(in crate::primitive) fn all(device: &DeviceTraits) -> impl Iterator<Item = Self> {
        let few = widest(sums(device)) == 1;
        Feature::of_panels().map(move |(feature, panels)| {
            // Units without registers of their own have their sums in those of the processor.
            let (rows, columns) = if few && panels.repeats_rows {
                (panels.rows.min(FEW_ROWS), CPU_LANES)
            } else {
                (panels.rows, panels.columns)
            };
            Self { feature, panels, rows, columns }
        })
    }

    /// Bytes of terms that are multiplied at once, of which copies are a multiple.
    pub(in crate::primitive) fn step_bytes(self) -> usize {
        if self.panels.repeats_rows { LANE_BYTES } else { TILE_BYTES }
    }

    /// Bytes of a part of 16 columns for these.
    pub(in crate::primitive) fn part_bytes(self) -> usize {
        self.step_bytes() * CPU_LANES
    }

    /// The rows of a tile that has so many at most.
    fn tile_rows(self, rows: usize) -> usize {
        let most = self.rows * self.panels.tiles;
        if self.panels.repeats_rows { most.min(rows) } else { most }
    }
}

/// The factors of a product that units take.
#[derive(Clone, Copy, Debug)]
pub(in crate::primitive) struct Factors {
    pub(in crate::primitive) src: DataType,
    pub(in crate::primitive) weights: DataType,
    pub(in crate::primitive) unit: Unit,
    factor: Multiplicand,
}

impl Factors {
    /// The factors of a description, if a unit of the device takes them.
    pub(in crate::primitive) fn of(desc: &PrimitiveDesc, unit: Unit, device: &DeviceTraits) -> Option<Self> {
        let (src, weights) = (desc.src().data_type(), desc.find(Arg::Weights)?.data_type());
        let fpmath = desc.attributes().fpmath;
        let instruction = unit.feature.instruction(src, fpmath)?;
        let exact_sums = !instruction.sum.is_float() || desc.attributes().dequantize.is_empty();
        let takes = instruction.factor.takes(weights, fpmath) && exact_sums;
        let whole =
            |zero: &MemoryDesc| matches!(zero.data_type(), DataType::S8 | DataType::U8 | DataType::S32);
        let zeros = desc.attributes().dequantize.iter().filter_map(|d| d.zero_point.as_ref());
        let exact = zeros.into_iter().all(whole);
        // Zero points alone may be wide integers, and make no wider results.
        let narrow = matches!(desc.dst().data_type(), DataType::S32 | DataType::S8 | DataType::U8);
        let value = match Value::of(desc, true) {
            Value::F32 => true,
            Value::I64 => narrow && desc.find(Arg::Bias).is_none(),
            Value::F64 => false,
        };
        let fits = takes && exact && is_cpu(device) && value;
        let works = || unit.panels.is_optional || device.has(unit.feature);
        (fits && works()).then_some(Self { src, weights, unit, factor: instruction.factor })
    }

    /// With panels of which so many columns leave least empty, for units that multiply parts of 16 of them one after the other.
    pub(in crate::primitive) fn for_columns(mut self, columns: usize) -> Self {
        if self.unit.panels.repeats_rows {
            let parts = columns.max(1).div_ceil(CPU_LANES);
            let widest = self.unit.columns / CPU_LANES;
            let cost = |own: &usize| parts.div_ceil(*own) * PART_COSTS[own - 1];
            self.unit.columns = (1..=widest.min(parts)).rev().min_by_key(cost).unwrap_or(1) * CPU_LANES;
        }
        self
    }

    /// Bytes of an element.
    pub(in crate::primitive) fn element(self) -> usize {
        self.src.bits() / 8
    }

    /// Terms that are multiplied at once.
    pub(in crate::primitive) fn step(self) -> usize {
        self.unit.step_bytes() / self.element()
    }

    /// Whether runs of so many terms are multiplied where they lie, beside others.
    pub(in crate::primitive) fn reads_in_place(self, terms: usize) -> bool {
        let ends_within = self.unit.panels.repeats_rows && terms * self.element() >= LANE_BYTES;
        !self.as_words() && (ends_within || terms.is_multiple_of(self.step()))
    }

    /// Bytes of a part of 16 columns of so many terms.
    pub(in crate::primitive) fn part_bytes(self, terms: usize) -> usize {
        terms.div_ceil(self.step()) * self.unit.part_bytes()
    }

    /// The blocks of a tag for columns and terms of these letters.
    pub(in crate::primitive) fn blocks(self, column: char, term: char) -> String {
        let lane = LANE_BYTES / self.element();
        match self.step() / lane {
            1 => format!("16{column}{lane}{term}"),
            lanes => format!("{lanes}{term}16{column}{lane}{term}"),
        }
    }

    /// Defines what copies are made by.
    pub(in crate::primitive) fn define_terms(self, text: &mut Source) {
        text.define("ELEMENT", self.element())
            .define("STEP_QUADS", self.unit.step_bytes() / LANE_BYTES)
            .define("AS_WORDS", i32::from(self.as_words()))
            .define("SRC0_SIGNED", i32::from(self.src == DataType::S8));
    }

    /// Whether the source has to be copied as words.
    pub(in crate::primitive) fn as_words(self) -> bool {
        self.factor == Multiplicand::Words
    }

    /// Columns of a panel.
    pub(in crate::primitive) fn panel(self) -> usize {
        self.unit.columns
    }

    /// A kernel's text behind [`Factors::define`].
    pub(in crate::primitive) fn files(self, kernel: &'static str) -> [&'static str; 3] {
        [self.unit.panels.text, FINISH, kernel]
    }

    /// Defines the unit's macros, and those that its sums are finished by. `runs` are the numbers of taps in the three dimensions and how
    /// many bytes they are apart in the source; each has as many terms, and zeros up to a whole step unless it lies in place.
    pub(in crate::primitive) fn define(
        self,
        text: &mut Source,
        space: &Space,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        (runs, terms, in_place): ([(usize, usize); 3], usize, bool),
    ) -> Option<()> {
        let signed = |t: DataType| t == DataType::S8;
        let real = self.src.is_float();
        let run_steps = terms.div_ceil(self.step());
        let parts: Vec<String> = (0..self.panel() / CPU_LANES).map(|j| format!("X(i, {j})")).collect();
        let kind = storage(self.src).1;
        text.define("EACH_V(X, i)", parts.join(" "))
            .define("PANEL", self.panel())
            .define("SUM", if real { "float" } else { "int" })
            .define("SUMS", if real { "float16" } else { "int16" })
            .define("SUM_IS_FLOAT", i32::from(real))
            .define("HAS_INSTRUCTION", i32::from(device.has(self.unit.feature)))
            .define("SRC0_SIGNED", i32::from(signed(self.src)))
            .define("WEIGHTS_SIGNED", i32::from(signed(self.weights)))
            .define("UNPACK_SRC0(n)", format!("unpack_{kind}_##n"))
            .define("PART_BYTES", self.unit.part_bytes())
            .number_of("RUN_STEPS", run_steps)
            .define("REST_BYTES", if in_place { terms * self.element() % LANE_BYTES } else { 0 })
            .number_of("RUN_TERMS", terms);
        let count: usize = runs.iter().map(|(count, _)| count).product();
        text.number_of("K_STEPS", run_steps * count).define("RUN_ROOM", count.next_power_of_two());
        for ((count, step), name) in runs.into_iter().zip(["D", "H", "W"]) {
            text.number_of(format!("RUNS_{name}"), count).number_of(format!("RUN_STEP_{name}"), step);
        }
        for (name, has) in [("ZERO_SRC0", "HAS_ZERO_SRC0"), ("ZERO_WEIGHTS", "HAS_ZERO_WEIGHTS")] {
            text.define(has, i32::from(space.find(name).is_some()));
        }
        let lane = space.variable("lane")?;
        if let Some(zero) = space.find("ZERO_WEIGHTS") {
            let raw = raw(zero, lane)?;
            let kind = storage(zero.data_type).1;
            text.define("ZERO_OF_WEIGHTS(n)", format!("unpack_{kind}_16({})", raw("OFF_ZERO_WEIGHTS", "n")));
        }
        let dst = space.find("DST")?;
        let plain = !real
            && dst.data_type == DataType::S32
            && desc.attributes().post_ops.is_empty()
            && desc.find(Arg::Bias).is_none()
            && ["SCALE_SRC0", "SCALE_WEIGHTS"].iter().all(|name| space.find(name).is_none());
        let step = dst.address.step(lane, CPU_LANES).filter(|_| plain);
        text.define("EXACT", i32::from(step.is_some()));
        match step {
            Some(1) => text.define("STORE_EXACT(x, n)", "store_32_16(dst, OFF_DST, n, x)"),
            Some(step) => text
                .define("STORE_EXACT(x, n)", format!("scatter_32_16(dst, OFF_DST, {}, n, x)", always(step))),
            None => text,
        };
        Some(())
    }
}

/// How to load the raw bits of 16 elements of an operand along a loop, from an offset and their number on.
pub(in crate::primitive) fn raw(operand: &Operand, along: usize) -> Option<impl Fn(&str, &str) -> String> {
    let bits = storage(operand.data_type).0;
    let pointer = operand.name.to_lowercase();
    let step = operand.address.step(along, CPU_LANES)?;
    Some(move |offset: &str, n: &str| match step {
        1 => format!("load_{bits}_16({pointer}, {offset}, {n})"),
        _ => format!("gather_{bits}_16({pointer}, {offset}, {}, {n})", always(step)),
    })
}

/// The tag of a matrix of weights `[.., K, N]` in parts of 16 columns, as packed.cl reads them in place.
pub(super) fn layout_tag(rank: usize, factors: Factors) -> String {
    let letter = |axis: usize| char::from(b'a' + axis as u8);
    let (k, n) = (letter(rank - 2), letter(rank - 1));
    let batch: String = (0..rank - 2).map(letter).collect();
    format!("{batch}{}{}{}", n.to_ascii_uppercase(), k.to_ascii_uppercase(), factors.blocks(n, k))
}

/// Bytes from a part of 16 columns to the next one, and all strides, of weights that lie so.
fn own_parts(weights: &MemoryDesc, factors: Factors) -> Option<(usize, &[usize], usize)> {
    let Layout::Blocked(blocking) = weights.layout() else { return None };
    let rank = weights.rank();
    let (k, n) = (rank - 2, rank - 1);
    let element = factors.element();
    let (lane, tiles) = (LANE_BYTES / element, factors.step() * element / LANE_BYTES);
    let inner = [(k, tiles), (n, CPU_LANES), (k, lane)];
    let inner = if tiles == 1 { &inner[1..] } else { &inner };
    let strides = &blocking.strides;
    let fits = blocking.inner.as_slice() == inner && strides[k] * element == factors.unit.part_bytes();
    fits.then_some((strides[n] * element, strides, blocking.offset * element))
}

impl Shape<'_> {
    /// Blocks of rows by panels of columns, of operands in place or copied first; none for other types and layouts that are not linear.
    pub(super) fn packed(&self, unit: Unit, device: &DeviceTraits, packing: bool) -> Option<Planned> {
        let (desc, weights) = (self.desc, self.weights);
        let n = weights.dims()[weights.rank() - 1];
        let factors = Factors::of(desc, unit, device).filter(|_| self.gate.is_none())?.for_columns(n);
        let element = factors.element();
        let parts = factors.panel() / CPU_LANES;
        let mut space = self.space(Some((CPU_LANES, parts)));
        let [panel, part, lane, k] = ["panel", "part", "lane", "k"].map(|name| space.variable(name));
        let (panel, part, lane, k) = (panel?, part?, lane?, k?);
        let m = panel.checked_sub(1)?;
        let [rows, panels, terms] = [m, panel, k].map(|v| space.loops[v].extent);
        let batch = space.count(0..m);
        let steady = |name: &str| {
            space
                .find(name)
                .is_none_or(|o| o.address.step(k, 1) == Some(0) && o.address.step(lane, CPU_LANES).is_some())
        };
        let names = ["SCALE_SRC0", "ZERO_SRC0", "SCALE_WEIGHTS", "ZERO_WEIGHTS", "DST", "BIAS"];
        if rows * n * terms * batch == 0 || terms > MOST_TERMS || !names.into_iter().all(steady) {
            return None;
        }
        let others = |o: &&Operand| o.name != "WEIGHTS";
        if !space.operands.iter().filter(others).all(|o| o.address.step(lane, CPU_LANES).is_some()) {
            return None;
        }

        let mut planned = Planned { scratchpad: 0, launches: Vec::new() };
        let src = space.find("SRC0")?.clone();
        let Address::Linear { base, coefficients } = &src.address else { return None };
        let in_place = coefficients[k] == 1 && factors.reads_in_place(terms);
        let mut wide = self.wide;
        let row_step = if in_place {
            let bytes = coefficients.iter().map(|c| c * element).collect();
            let address = Address::Linear { base: base * element as isize, coefficients: bytes };
            place(&mut space, "SRC0", src.binding, address);
            coefficients[m] * element
        } else {
            // Tiles that repeat their code for every row read whole ones.
            let spare = if unit.panels.repeats_rows { unit.rows } else { 1 };
            // Copies are made by vectors.
            let row_terms = terms.next_multiple_of(factors.step().max(CPU_LANES));
            let row_step = row_terms * element * if factors.as_words() { 2 } else { 1 };
            let mut to = vec![0; space.loops.len()];
            let mut stride = row_step;
            for v in (0..=m).rev().filter(|&v| v == m || coefficients[v] != 0) {
                to[v] = stride;
                let count = if v == m { rows.next_multiple_of(spare) } else { space.loops[v].extent };
                stride = stride.checked_mul(count)?;
            }
            wide |= i32::try_from(stride).is_err();
            let address = Address::linear(to);
            let launch = self.pack_source(&space, factors, &address, (m, k), wide, row_step)?;
            planned.launches.push(launch);
            place(&mut space, "SRC0", Binding::Scratchpad(0), address);
            planned.scratchpad = stride.next_multiple_of(ALIGNMENT);
            row_step
        };

        let part_step;
        let mut to = vec![0; space.loops.len()];
        if packing {
            let source = space.find("WEIGHTS")?.address.clone();
            part_step = factors.part_bytes(terms);
            (to[part], to[panel]) = (part_step, part_step * parts);
            let mut stride = part_step * parts * panels;
            for v in (0..m).rev().filter(|&v| source.step(v, 1) != Some(0)) {
                to[v] = stride;
                stride = stride.checked_mul(space.loops[v].extent)?;
            }
            wide |= i32::try_from(stride).is_err();
            let at = planned.scratchpad;
            let address = Address::linear(to);
            let loops = (panel, part, lane, k);
            planned.launches.push(self.pack_weights(&space, factors, &address, loops, at, wide)?);
            place(&mut space, "WEIGHTS", Binding::Scratchpad(at), address);
            planned.scratchpad += stride;
        } else {
            let (step, strides, offset) = own_parts(weights, factors)?;
            part_step = step;
            (to[part], to[panel]) = (step, step * parts);
            // Batches of weights keep their loops; those that they lack were merged.
            let lead = weights.rank() - 2;
            for (v, step) in to.iter_mut().enumerate().take(m) {
                let name = &space.loops[v].name;
                let axis = name.strip_prefix('b').and_then(|text| text.parse::<usize>().ok())?;
                if weights.dims()[..lead][axis] > 1 {
                    *step = strides[axis] * element;
                }
            }
            let address = Address::Linear { base: offset as isize, coefficients: to };
            place(&mut space, "WEIGHTS", Binding::Arg(Arg::Weights), address);
        }

        let tile_rows = unit.tile_rows(rows);
        let wanted = (device.compute_units * ITEMS).div_ceil(panels * batch);
        let most = (BLOCK_BYTES / row_step.max(1)).clamp(tile_rows, 1024.max(tile_rows));
        let item_rows = rows.div_ceil(wanted).min(most).next_multiple_of(tile_rows);
        let mut text = Source::new(&space, Value::F32, (CPU_LANES, Some(lane)), wide, true);
        text.general()
            .declare("DECLARE_BATCH", &space, 0..m)
            .define("EACH_M(X)", (0..tile_rows).map(|i| format!("X({i})")).collect::<Vec<_>>().join(" "))
            .define("ROWS", tile_rows)
            .number_of("ITEM_ROWS", item_rows)
            .number_of("M_SIZE", rows)
            .number_of("N_SIZE", n)
            .number_of("K_SIZE", terms)
            .number_of("A_STEP", row_step)
            .number_of("B_STEP", part_step);
        factors.define(&mut text, &space, desc, device, ([(1, 0); 3], terms, in_place))?;
        self.define(&mut text, &space, Value::F32, &[k]);
        let global = [panels, rows.div_ceil(item_rows), batch];
        planned.launches.push(text.launch("matmul_packed", &factors.files(PACKED), global, Some([1, 1, 1])));
        Some(planned)
    }

    /// Copies the source into rows of whole tiles.
    fn pack_source(
        &self,
        space: &Space,
        factors: Factors,
        to: &Address,
        (m, k): (usize, usize),
        wide: bool,
        row_step: usize,
    ) -> Option<Launch> {
        let mut copy = Space { operands: vec![space.find("SRC0")?.clone()], ..space.clone() };
        copy.operands.push(copied("DST", Binding::Scratchpad(0), to.clone()));
        let [rows, terms] = [m, k].map(|v| copy.loops[v].extent);
        for v in (0..copy.loops.len()).rev() {
            if v != m && v != k && copy.coefficient("DST", v) == Some(0) {
                copy.remove(v);
            }
        }
        let k = copy.loops.len() - 1;
        let mut text = Source::new(&copy, Value::F32, (CPU_LANES, Some(k)), wide, true);
        let load = raw(copy.find("SRC0")?, k)?;
        factors.define_terms(&mut text);
        text.general()
            .declare("DECLARE_BATCH", &copy, 0..k - 1)
            .define("RAW_SRC0(o, n)", load("o", "n"))
            .define("PACK_SOURCE", 1)
            .define("PACK_ROWS", PACK_ROWS)
            .number_of("ROW_TERMS", row_step / factors.element() / if factors.as_words() { 2 } else { 1 })
            .number_of("M_SIZE", rows)
            .number_of("K_SIZE", terms);
        let global = [rows.div_ceil(PACK_ROWS), copy.count(0..k - 1), 1];
        Some(text.launch("matmul_pack_source", &[TERMS, PACK], global, Some([1, 1, 1])))
    }

    /// Copies the weights into parts of 16 columns.
    fn pack_weights(
        &self,
        space: &Space,
        factors: Factors,
        to: &Address,
        (panel, part, lane, k): (usize, usize, usize, usize),
        scratchpad: usize,
        wide: bool,
    ) -> Option<Launch> {
        let mut copy = Space { operands: vec![space.find("WEIGHTS")?.clone()], ..space.clone() };
        copy.operands.push(copied("DST", Binding::Scratchpad(scratchpad), to.clone()));
        let terms = copy.loops[k].extent;
        let mut gone = 0;
        for v in (0..panel).rev() {
            if copy.coefficient("DST", v) == Some(0) {
                copy.remove(v);
                gone += 1;
            }
        }
        let [panel, part, lane, k] = [panel, part, lane, k].map(|v| v - gone);
        let weights = copy.find("WEIGHTS")?;
        if !matches!(weights.address, Address::Linear { .. })
            && weights.address.step(lane, CPU_LANES).is_none()
        {
            return None;
        }
        let along_k = weights.address.step(k, CPU_LANES) == Some(1);
        let along = if along_k { k } else { lane };
        let load = raw(weights, along)?;
        let n = self.weights.dims()[self.weights.rank() - 1];
        let mut text = Source::new(&copy, Value::F32, (CPU_LANES, Some(along)), wide, true);
        factors.define_terms(&mut text);
        text.general()
            .declare("DECLARE_BATCH", &copy, 0..panel)
            .declare("DECLARE_PARTS", &copy, panel..part + 1)
            .define("COLUMN", format!("((panel * {} + part) * 16)", copy.loops[part].extent))
            .define("RAW_WEIGHTS(o, n)", load("o", "n"))
            .define("ALONG_K", i32::from(along_k))
            .number_of("N_SIZE", n)
            .number_of("K_SIZE", terms)
            .number_of("K_STEPS", terms.div_ceil(factors.step()));
        let global = [copy.count(panel..part + 1), copy.count(0..panel), 1];
        Some(text.launch("matmul_pack_weights", &[TERMS, PACK], global, Some([1, 1, 1])))
    }
}

/// An operand of bytes.
pub(in crate::primitive) fn copied(name: &str, binding: Binding, address: Address) -> Operand {
    Operand { name: name.into(), binding, data_type: DataType::U8, address }
}

/// Lets an operand's bytes come from elsewhere.
pub(in crate::primitive) fn place(space: &mut Space, name: &str, binding: Binding, address: Address) {
    if let Some(operand) = space.operands.iter_mut().find(|o| o.name == name) {
        *operand = copied(name, binding, address);
    }
}
