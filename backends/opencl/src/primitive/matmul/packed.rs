//! Products of operands of one or two bytes by the units of `units.rs` that multiply panels (`matmul/packed.cl`).

use anydnn_backend::{Arg, Layout, MemoryDesc};

use super::Shape;
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::choice::Planned;
use crate::primitive::rows::CPU_LANES;
use crate::primitive::source::Source;
use crate::primitive::space::{Address, Binding, Operand, Space};
use crate::primitive::unit_panels::{
    Factors, MOST_ROOM, ROOMS, TERMS, Unit, copied, place, raw, weights_pointer,
};
use crate::primitive::value::Value;

const PACKED: &str = anydnn_kernels::text("matmul/packed.cl");
const PACK: &str = anydnn_kernels::text("matmul/pack.cl");
const PACK_PART: &str = anydnn_kernels::text("matmul/pack_part.cl");

/// Bytes where copies begin.
const ALIGNMENT: usize = 64;
/// Bytes of the source that a work-item goes through for every panel.
const BLOCK_BYTES: usize = 512 << 10;
/// Work-items for each core, so that none waits long for another one.
const ITEMS: usize = 8;
/// Rows that a work-item copies.
const PACK_ROWS: usize = 16;

/// The tag of a matrix of weights `[.., K, N]` in parts of 16 columns, as packed.cl reads them in place.
pub(super) fn layout_tag(rank: usize, factors: Factors) -> String {
    let letter = |axis: usize| char::from(b'a' + axis as u8);
    let (k, n) = (letter(rank - 2), letter(rank - 1));
    let batch: String = (0..rank - 2).map(letter).collect();
    format!("{batch}{}{}{}", n.to_ascii_uppercase(), k.to_ascii_uppercase(), factors.block_tag(n, k))
}

/// Bytes from a part of 16 columns to the next one, and all strides, of weights that lie so.
fn own_parts(weights: &MemoryDesc, factors: Factors) -> Option<(usize, &[usize], usize)> {
    let Layout::Blocked(blocking) = weights.layout() else { return None };
    let rank = weights.rank();
    let (k, n) = (rank - 2, rank - 1);
    let element = factors.element();
    let strides = &blocking.strides;
    let fits = blocking.inner.as_slice() == factors.blocks(n, k)
        && strides[k] * element == factors.unit.part_bytes();
    fits.then_some((strides[n] * element, strides, blocking.offset * element))
}

impl Shape<'_> {
    /// Blocks of rows by panels of columns, of operands in place or copied first; none for other types and layouts that are not linear.
    pub(super) fn packed(&self, unit: Unit, device: &DeviceTraits, packing: bool) -> Option<Planned> {
        let (desc, weights) = (self.desc, self.weights);
        let n = weights.dims()[weights.rank() - 1];
        let result = desc.dst().dims();
        let rows = result[result.len() - 2];
        let batch = result[..result.len() - 2].iter().product();
        let factors = Factors::of(desc, unit, device).filter(|_| self.gate.is_none())?;
        let mut factors = factors.for_result([batch, rows, n], device);
        if packing {
            factors = factors.within(weights.dims()[weights.rank() - 2], MOST_ROOM);
        }
        let unit = factors.unit;
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
        if rows * n * terms * batch == 0 || terms > factors.most_terms(desc) || !names.into_iter().all(steady)
        {
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

        let tile_rows = unit.tile_rows(rows);
        let wanted = (device.compute_units * ITEMS).div_ceil(panels * batch);
        let most = (BLOCK_BYTES / row_step.max(1)).clamp(tile_rows, 1024.max(tile_rows));
        let item_rows = rows.div_ceil(wanted).min(most).next_multiple_of(tile_rows);
        let part_step;
        let mut to = vec![0; space.loops.len()];
        let own_bytes = factors.part_bytes(terms) * parts;
        // What nobody else reads need not pass through memory.
        let room = ROOMS.into_iter().find(|room| own_bytes <= *room);
        let room = room.filter(|_| packing && !factors.as_words() && item_rows >= rows);
        let mut copied = None;
        if room.is_some() {
            part_step = factors.part_bytes(terms);
            copied = Some(WeightsCopy::of(&space, (lane, k))?);
        } else if packing {
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

        let mut text = Source::new(&space, Value::F32, (CPU_LANES, Some(lane)), wide, true);
        text.general()
            .declare("DECLARE_BATCH", &space, 0..m)
            .define("EACH_M(X)", (0..tile_rows).map(|i| format!("X({i})")).collect::<Vec<_>>().join(" "))
            .define("TILE_ROWS", tile_rows)
            .number_of("ITEM_ROWS", item_rows)
            .number_of("M_SIZE", rows)
            .number_of("N_SIZE", n)
            .number_of("K_SIZE", terms)
            .number_of("A_STEP", row_step)
            .number_of("B_STEP", part_step)
            .define("PACKS", i32::from(room.is_some()))
            .define("WEIGHTS_POINTER", weights_pointer(room.is_some()));
        let mut files = factors.files(PACKED).to_vec();
        if let (Some(room), Some(copied)) = (room, copied) {
            factors.define_terms(text.define("PACKS_ROOM", room));
            copied.define(&mut text);
            files.insert(0, TERMS);
            files.insert(1, PACK_PART);
        }
        factors.define(&mut text, &space, desc, device, ([(1, 0); 3], terms, in_place), m)?;
        self.define(&mut text, &space, Value::F32, &[k]);
        let global = [panels, rows.div_ceil(item_rows), batch];
        planned.launches.push(text.launch("matmul_packed", &files, global, Some([1, 1, 1])));
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
        let copied = WeightsCopy::of(&copy, (lane, k))?;
        let along = if copied.along_k { k } else { lane };
        let n = self.weights.dims()[self.weights.rank() - 1];
        let mut text = Source::new(&copy, Value::F32, (CPU_LANES, Some(along)), wide, true);
        factors.define_terms(&mut text);
        text.general()
            .declare("DECLARE_BATCH", &copy, 0..panel)
            .declare("DECLARE_PARTS", &copy, panel..part + 1)
            .define("COLUMN", format_args!("((panel * {} + part) * 16)", copy.loops[part].extent))
            .number_of("N_SIZE", n)
            .number_of("K_SIZE", terms)
            .number_of("K_STEPS", terms.div_ceil(factors.step()));
        copied.define(&mut text);
        let global = [copy.count(panel..part + 1), copy.count(0..panel), 1];
        Some(text.launch("matmul_pack_weights", &[TERMS, PACK_PART, PACK], global, Some([1, 1, 1])))
    }
}

/// How weights are read that are copied into parts: vectors along their columns, or along their terms.
struct WeightsCopy {
    along_k: bool,
    load: String,
}

impl WeightsCopy {
    fn of(space: &Space, (lane, k): (usize, usize)) -> Option<Self> {
        let weights = space.find("WEIGHTS")?;
        if !matches!(weights.address, Address::Linear { .. })
            && weights.address.step(lane, CPU_LANES).is_none()
        {
            return None;
        }
        let along_k = weights.address.step(k, CPU_LANES) == Some(1);
        let load = raw(weights, if along_k { k } else { lane })?;
        Some(Self { along_k, load: load("o", "n") })
    }

    fn define(&self, text: &mut Source) {
        text.define("RAW_WEIGHTS(o, n)", &self.load).define("ALONG_K", i32::from(self.along_k));
    }
}
