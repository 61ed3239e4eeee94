//! A launch for the whole sequence on NVIDIA's devices, whose work-groups are all there at once and meet after each step.

use anydnn_backend::op::{Cell, Direction, Recurrent};
use anydnn_backend::{Arg, DataType, FpMath, MemoryDesc};

use super::{CELLS, Shape, panels};
use crate::capability::Feature;
use crate::plan::DeviceTraits;
use crate::primitive::choice::Planned;
use crate::primitive::embedded::Scratch;
use crate::primitive::rows::is_cpu;
use crate::primitive::source::Source;
use crate::primitive::space::{Address, Binding, Index, Space};
use crate::primitive::value::Value;

const RESIDENT: &str = anydnn_kernels::text("recurrent/resident.cl");
const MATRIX_UNITS: &str = anydnn_kernels::text("recurrent/resident_mma.cl");
const ORDINARY: &str = anydnn_kernels::text("recurrent/resident_simt.cl");

/// Work-items of a warp.
const WARP: usize = 32;
/// Words from one number that work-groups share to the next.
const APART: usize = 32;
/// Registers of a work-item for weights, sums and vectors of states; the rest of its 255 is for everything else.
const REGISTERS: usize = 210;

/// How work-groups multiply.
struct Form {
    file: &'static str,
    items: usize,
    /// Hidden units and sequences of a work-group.
    units: usize,
    sequences: usize,
    /// Words of a sequence's states.
    pitch: usize,
    defines: Vec<(&'static str, String)>,
}

/// How the warps of a work-group divide a product of matrix units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Warps {
    /// Warps that share the sequences, and blocks of sequences of each.
    along_n: usize,
    tiles: usize,
    /// Warps that share the terms, and blocks of terms of each.
    along_k: usize,
    blocks: usize,
}

impl Warps {
    /// Hidden units of a work-group: the columns of an instruction.
    const UNITS: usize = 8;
    /// Terms that a warp multiplies at a time, and sequences.
    const TERMS: usize = 32;
    const SEQUENCES: usize = 16;

    fn new(batch: usize, hidden: usize) -> Self {
        let along_k = if batch <= 2 * Self::SEQUENCES && hidden > 128 { 8 } else { 4 };
        let (along_n, tiles) = match batch.div_ceil(Self::SEQUENCES) {
            ..=1 => (1, 1),
            2 => (1, 2),
            _ => (2, 2),
        };
        Self { along_n, tiles, along_k, blocks: hidden.div_ceil(Self::TERMS * along_k) }
    }

    const fn sequences(self) -> usize {
        Self::SEQUENCES * self.tiles * self.along_n
    }

    const fn terms(self) -> usize {
        Self::TERMS * self.blocks * self.along_k
    }

    /// Blocks of terms whose states registers have room for; none if weights and sums alone take too many.
    fn ahead(self, gates: usize) -> Option<usize> {
        let kept = 4 * gates * (self.blocks + self.tiles);
        let ahead = REGISTERS.checked_sub(kept)? / (8 * self.tiles);
        (ahead > 0).then_some(ahead.min(self.blocks).min(4))
    }
}

impl Shape<'_> {
    /// By matrix units, for weights of 16 bits.
    pub(super) fn resident_by_units(&self, device: &DeviceTraits) -> Option<Planned> {
        let factor = self.desc.find(Recurrent::STATE_WEIGHTS)?.data_type();
        let instruction = Feature::NvidiaMma.instruction(factor, FpMath::Strict)?;
        // States are multiplied in this type: what they become is not expected to be more exact.
        let results = [Arg::DST, Recurrent::LAST_STATE, Recurrent::LAST_CELL];
        if results.iter().filter_map(|&arg| self.desc.find(arg)).any(|desc| desc.data_type() != factor) {
            return None;
        }
        let warps = Warps::new(self.batch, self.hidden);
        let ahead = warps.ahead(self.op.cell.gates())?;
        let form = Form {
            file: MATRIX_UNITS,
            items: WARP * warps.along_n * warps.along_k,
            units: Warps::UNITS,
            sequences: warps.sequences(),
            pitch: warps.terms() / 2,
            defines: vec![
                ("TYPE", format!("\"{}\"", instruction.factor.name())),
                ("WARPS_M", warps.along_n.to_string()),
                ("TILES_M", warps.tiles.to_string()),
                ("WARPS_K", warps.along_k.to_string()),
                ("BLOCKS_K", warps.blocks.to_string()),
                ("AHEAD", ahead.to_string()),
            ],
        };
        self.resident(&form, device)
    }

    /// By ordinary arithmetic in f32, for every type.
    pub(super) fn resident_by_items(&self, device: &DeviceTraits) -> Option<Planned> {
        const WARPS: usize = 8;
        const MOST_TERMS: usize = 128;
        const MOST_SEQUENCES: usize = 64;
        let terms = self.hidden.div_ceil(WARPS).next_multiple_of(4);
        if terms > MOST_TERMS {
            return None;
        }
        // A work-item for each column.
        let units = if self.op.cell.gates() == 1 { WARP } else { 8 };
        let chunk = WARPS * WARP / units;
        let chunks = self.batch.min(MOST_SEQUENCES).div_ceil(chunk).max(1);
        let form = Form {
            file: ORDINARY,
            items: WARPS * WARP,
            units,
            sequences: chunk * chunks,
            pitch: WARPS * terms,
            defines: vec![("TERMS_K", terms.to_string()), ("CHUNKS", chunks.to_string())],
        };
        self.resident(&form, device)
    }

    fn resident(&self, form: &Form, device: &DeviceTraits) -> Option<Planned> {
        let groups = self.hidden.div_ceil(form.units);
        let fits = !is_cpu(device)
            && self.value == Value::F32
            && self.batch > 0
            && device.max_work_group >= form.items
            && groups <= device.compute_units;
        // The instructions by which work-groups meet are as old as this unit.
        if !fits || !device.has(Feature::NvidiaMma) {
            return None;
        }
        let mut scratch = Scratch { bytes: 0 };
        let (gates, mut launches) = self.input_products(device, &mut scratch)?;
        let of_way = self.batch.div_ceil(form.sequences);
        let chains = of_way * self.count();
        let buffers = if self.op.cell == Cell::Gru { 3 } else { 2 };
        let words = (1 + chains) * APART + chains * buffers * form.sequences * form.pitch;
        let counts = scratch.take(words * size_of::<u32>());
        let numbers = MemoryDesc::new([words], DataType::S32);
        launches.push(panels::clear(&numbers, counts, words, device));
        // Those of a sum add to what the other direction has stored.
        let span = if self.op.direction == Direction::Sum { of_way } else { chains };
        let at_once = (device.compute_units / groups).clamp(1, span);
        let kept = scratch.bytes;
        for way in 0..chains / span {
            for first in (0..span).step_by(at_once) {
                // Every launch has the same working memory.
                scratch.bytes = kept;
                let mut space = Space::default();
                let unit = Index::of(space.push("unit", self.hidden));
                let variables = self.variables(&mut space, unit);
                self.operands(&mut space, &variables, Some(gates), None, &mut scratch);
                let in_registers = ["STATES", "STATES_K", "CELLS", "UPDATES", "KEPT", "KEPT_K"];
                space.operands.retain(|operand| !in_registers.contains(&&*operand.name));
                meet_at(&mut space, counts);
                let mut source = Source::new(&space, self.value, (1, None), self.wide(), false);
                self.define(&mut source, &space);
                for (name, text) in &form.defines {
                    source.define(name, text);
                }
                source
                    .define("GATES_COUNT", self.op.cell.gates())
                    .define("BUFFERS", buffers)
                    .number_of("BATCH", self.batch)
                    .number_of("CHAINS", chains)
                    .number_of("CHAINS_OF_WAY", of_way)
                    .number_of("FIRST_CHAIN", way * span + first);
                let global = [form.items * groups, at_once.min(span - first), 1];
                let local = Some([form.items, 1, 1]);
                launches.push(source.launch(
                    "recurrent_resident",
                    &[CELLS, form.file, RESIDENT],
                    global,
                    local,
                ));
            }
        }
        // Where work-groups gave up waiting for one another.
        launches.push(self.loop_over_steps(device, Some(gates), Some(counts), &mut scratch));
        Some(Planned { scratchpad: scratch.bytes, launches })
    }
}

/// Adds the numbers by which work-groups meet, the first of which counts those that gave up.
pub(super) fn meet_at(space: &mut Space, counts: usize) {
    let address = Address::linear(vec![0; space.loops.len()]);
    space.addressed("COUNTS", Binding::Scratchpad(counts), DataType::S32, address);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_hold_the_weights_of_a_thousand_units() {
        let of = |batch, hidden, gates| {
            let warps = Warps::new(batch, hidden);
            (warps.sequences(), warps.terms(), warps.ahead(gates))
        };
        assert_eq!(of(64, 1024, 4), (64, 1024, Some(3)));
        assert_eq!(of(1, 1000, 4), (16, 1024, Some(4)));
        assert_eq!(of(200, 100, 3), (64, 128, Some(1)));
        assert_eq!(of(64, 2048, 4).2, None);
        assert_eq!(of(20, 64, 1), (32, 128, Some(1)));
    }
}
