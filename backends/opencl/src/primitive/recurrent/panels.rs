//! A launch for the whole sequence on processors: units in panels of vectors, whose products with a tile of sequences stay in registers.

use std::cmp::Reverse;

use anydnn_backend::op::{Cell, Recurrent, Reorder};
use anydnn_backend::{Arg, Attributes, DataType, MemoryDesc, PrimitiveDesc, Result};

use super::{FEW_SEQUENCES, Shape, Tiles, Variables};
use crate::plan::{DeviceTraits, Launch, LaunchArg};
use crate::primitive::choice::Planned;
use crate::primitive::embedded::{Scratch, embedded};
use crate::primitive::rows::{CPU_LANES, items};
use crate::primitive::source::Source;
use crate::primitive::space::{Address, Binding, Index, Space};
use crate::primitive::value::Value;

const PANELS: &str = anydnn_kernels::text("recurrent/panels.cl");
const CLEAR: &str = anydnn_kernels::text("recurrent/clear.cl");

/// Registers of sums that keep the units busy that multiply: a sum waits for what was added before.
const BUSY_SUMS: usize = 8;
/// Multiplications in the time in which a vector of weights comes from the second level of the cache, fetched ahead.
const FAR_LOAD: usize = 4;
/// Sequences of a tile at most.
const MOST_SEQUENCES: usize = 32;
/// Bytes of weights that the first level of the cache keeps beside states.
const NEAR_BYTES: usize = 24 << 10;
/// More terms than a product has.
const ALL_TERMS: usize = 1 << 30;
/// Bytes of weights that a work-group reads at each step which its core's cache keeps.
const KEPT_BYTES: usize = 1 << 20;
/// Bytes of weights that a step reads for which it pays that work-groups wait for each other.
const SHARED_BYTES: usize = 256 << 10;
/// The same of all steps together.
const SHARED_IN_ALL: usize = 4 << 20;
/// Bytes of weights of a single step for which it pays that work-groups divide its units.
const APART_BYTES: usize = 128 << 10;
/// Bytes of a line of the cache, in which a number that work-groups share is alone.
const LINE: usize = 64;

/// What multiplies the states, as the kernel reads it: panels of units, in which those of all gates that one phase needs are neighbours.
fn in_panels(cell: Cell, weights: &MemoryDesc, vectors: usize) -> Result<MemoryDesc> {
    let order = if cell == Cell::Gru { "aDcb" } else { "aDbc" };
    let tag = format!("{order}{}d", vectors * CPU_LANES);
    MemoryDesc::with_tag(weights.dims().clone(), weights.data_type(), &tag)
}

/// The sums that registers hold: of some vectors with some of a tile's sequences, each in parts that do not wait for one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tile {
    /// Sequences whose states are neighbours.
    sequences: usize,
    /// Those of one set of registers.
    rows: usize,
    vectors: usize,
    apart: usize,
    /// Terms after which the next rows read the same weights.
    near: usize,
}

impl Tile {
    /// The fastest for some sequences and the numbers of vectors of each phase. A vector takes one register, or two of `narrow` ones.
    fn new(sequences: usize, phases: &[usize], narrow: bool) -> Self {
        let (most, registers, halves) = if narrow { (6, 8, 2) } else { (24, 32, 1) };
        let widths = (1..=most).filter(|vectors| phases.iter().all(|phase| phase.is_multiple_of(*vectors)));
        let tiles = widths.flat_map(|vectors| (1..=sequences.min(most)).map(move |rows| (rows, vectors)));
        // Weights of a single row are read where they are multiplied.
        let tiles = tiles.filter(|&(rows, vectors)| {
            rows * vectors <= most && (rows == 1 || rows * vectors + vectors < registers)
        });
        // Multiplications, or loads of weights and numbers of sequences: two of each at a time.
        let time = |&(rows, vectors): &(usize, usize)| {
            let (times, loads) = (sequences.div_ceil(rows), vectors * halves);
            let one = (rows * loads).max(rows + loads).max(loads * FAR_LOAD / times) + 1;
            (times * one * most / vectors, Reverse(vectors), Reverse(rows))
        };
        let (rows, vectors) = tiles.min_by_key(time).unwrap_or((1, 1));
        let apart = BUSY_SUMS.div_ceil(rows * vectors * halves).next_power_of_two();
        let times = sequences.div_ceil(rows).min((MOST_SEQUENCES / rows).max(1));
        let widest = phases.iter().max().copied().unwrap_or(1);
        let near = if times > 1 { NEAR_BYTES / (widest * CPU_LANES * size_of::<f32>()) } else { ALL_TERMS };
        Self {
            sequences: times * rows,
            rows,
            vectors,
            apart: apart.min((most / (rows * vectors)).max(1)),
            near,
        }
    }
}

/// How work-groups divide the sequences and units of a layer.
struct Division {
    /// Sequences of a chain.
    chain: usize,
    chains: usize,
    /// Work-groups that share a chain.
    helpers: usize,
}

impl Shape<'_> {
    /// Weights in the panels that this layer reads on a device.
    pub(super) fn in_panels(&self, weights: &MemoryDesc, device: &DeviceTraits) -> Result<MemoryDesc> {
        in_panels(self.op.cell, weights, self.vectors(device))
    }

    /// Vectors of a panel for each gate: as many as keep the units busy that multiply. Narrow panels of a layer whose second phase waits for
    /// the first divide it more evenly between work-groups.
    fn vectors(&self, device: &DeviceTraits) -> usize {
        match self.op.cell {
            Cell::Vanilla(_) if self.shares_steps(device) => {
                let vectors = self.hidden.div_ceil(CPU_LANES);
                // What the work-group with most panels computes; wide panels are read with fewer numbers of sequences.
                let most = |wide: usize| vectors.div_ceil(wide).div_ceil(device.compute_units.max(1)) * wide;
                if most(2) < most(4) { 2 } else { 4 }
            }
            Cell::Vanilla(_) => 4,
            Cell::Gru if !self.shares_steps(device) => 2,
            Cell::Gru | Cell::Lstm(_) | Cell::GruLinearBeforeReset => 1,
        }
    }

    /// Whether work-groups share the units of a step for which they wait.
    fn shares_steps(&self, device: &DeviceTraits) -> bool {
        let of_states =
            (self.op.cell.gates() * size_of::<f32>()).saturating_mul(self.hidden).saturating_mul(self.hidden);
        let panels = self.hidden.div_ceil(CPU_LANES);
        self.steps > 1 && self.division(device, of_states, false, panels).helpers > 1
    }

    /// Panels of units in registers, shared by work-groups.
    pub(super) fn panels(&self, device: &DeviceTraits) -> Option<Planned> {
        let mut scratch = Scratch { bytes: 0 };
        let of_inputs = self.desc.find(Arg::Weights)?;
        let fused = self.is_short() && of_inputs.same_bytes(&self.in_panels(of_inputs, device).ok()?);
        let (gates, mut launches) = if fused {
            (None, Vec::new())
        } else {
            let (at, launches) = self.input_products(device, &mut scratch)?;
            (Some(at), launches)
        };
        let weights = self.desc.find(Recurrent::STATE_WEIGHTS)?;
        let packed = self.in_panels(weights, device).ok()?;
        let own = (!weights.same_bytes(&packed)).then(|| scratch.take(packed.size()));
        if let Some(own) = own {
            launches.extend(self.pack(weights, &packed, own, device, &mut scratch)?);
        }
        let vectors = self.vectors(device);
        let width = vectors * CPU_LANES;
        let count = self.hidden.div_ceil(width);
        let initial = self.desc.find(Recurrent::INITIAL_STATE);
        // No unit of a single step waits for the states of others, but for those that a reset gate left.
        let one_step = self.steps == 1 && (self.op.cell != Cell::Gru || initial.is_none());
        let of_states = packed.size() / self.count();
        let step_bytes = if one_step {
            let read = if initial.is_none() { 0 } else { of_states };
            read + if fused { of_inputs.size() / self.count() } else { 0 }
        } else {
            of_states
        };
        let division = self.division(device, step_bytes, one_step, count);
        let (chain, chains) = (division.chain, division.chains);
        let cooperates = division.helpers > 1 && !one_step;
        let gates_count = self.op.cell.gates();
        let first_phase = vectors * if self.op.cell == Cell::Gru { 2 } else { gates_count };
        let narrow = device.float_lanes < CPU_LANES;
        let tile = Tile::new(chain, &[first_phase, gates_count * vectors - first_phase], narrow);
        let of_chain = chain.div_ceil(tile.sequences);

        let mut space = Space::default();
        let panel = space.push("panel", count);
        let part = space.push("part", vectors);
        let lane = space.push("lane", CPU_LANES);
        let tiles = Tiles {
            tile: Index::of(space.push("tile", chains * of_chain)),
            row: Index::of(space.push("row", tile.sequences)),
            count: chains * of_chain,
            rows: tile.sequences,
        };
        let unit = Index::sum(&[(panel, width), (part, CPU_LANES), (lane, 1)]);
        let variables = self.variables(&mut space, unit);
        self.operands(&mut space, &variables, gates, Some(&tiles), &mut scratch);
        // The weights where they lie in panels.
        let at = space.operands.iter().position(|operand| operand.name == "STATE_WEIGHTS")?;
        let Variables { d, n, gate, k, unit, .. } = &variables;
        let index = [d.clone(), k.clone(), gate.clone(), unit.clone()];
        space.operands[at].address = space.address(&packed, &index);
        if let Some(own) = own {
            space.operands[at].binding = Binding::Scratchpad(own);
        }
        if !space.has_steps(lane, CPU_LANES) {
            return None;
        }
        if let Some(initial) = initial.filter(|_| one_step) {
            let index = [d.clone(), n.clone(), k.clone()];
            space.operand("INITIAL_STATE_K", Binding::Alias("INITIAL_STATE"), initial, &index);
        }
        let k = space.variable("k")?;
        if cooperates {
            let words = chains * self.apart * (division.helpers + 1) * LINE / size_of::<i32>();
            let claimed = scratch.take(words * size_of::<i32>());
            let numbers = MemoryDesc::new([words], DataType::S32);
            launches.push(clear(&numbers, claimed, words, device));
            let address = Address::linear(vec![0; space.loops.len()]);
            space.addressed("CLAIMED", Binding::Scratchpad(claimed), numbers.data_type(), address);
        }
        let mut source = Source::new(&space, self.value, (CPU_LANES, Some(lane)), self.wide(), false);
        self.define(&mut source, &space);
        source
            .define("COOPERATE", i32::from(cooperates))
            .define("ONE_STEP", i32::from(one_step))
            .define("MULTIPLIES_STATES", i32::from(!one_step || initial.is_some()))
            .define("GATES_COUNT", gates_count)
            .define("VECTORS", vectors)
            .define("FIRST_PHASE", first_phase)
            .define("KEPT_ROWS", self.op.cell.rows())
            .number_of("PANELS", count)
            .number_of("CHAIN_N", chain)
            .number_of("CHAIN_TILES", of_chain)
            .number_of("BATCH", self.batch);
        tile.define(&mut source);
        // The same of every shape, so that terms lie at distances that a compiler knows.
        let gates_apart = self.op.cell == Cell::Gru;
        source
            .define("GATES_APART", i32::from(gates_apart))
            .define("STEP_PANELS", if gates_apart { width } else { gates_count * width });
        for name in ["STATE_WEIGHTS", "WEIGHTS", "GATES"] {
            if let Some(operand) = space.operands.iter().find(|operand| operand.name == name) {
                source.define(format_args!("BYTES_{name}"), operand.data_type.bytes_for(1));
            }
        }
        for name in ["SRC0", "INITIAL_STATE_K"] {
            if space.find(name).is_some() {
                source.number_of(format_args!("STEP_{name}"), space.coefficient(name, k)?);
            }
        }
        let global = [division.helpers, chains, self.apart];
        launches.push(source.launch("recurrent_panels", &[PANELS], global, Some([1, 1, 1])));
        Some(Planned { scratchpad: scratch.bytes, launches })
    }

    /// Copies the weights of states into panels.
    fn pack(
        &self,
        weights: &MemoryDesc,
        packed: &MemoryDesc,
        own: usize,
        device: &DeviceTraits,
        scratch: &mut Scratch,
    ) -> Option<Vec<Launch>> {
        let reorder = PrimitiveDesc::builder(Reorder)
            .src(weights.clone())
            .dst(packed.clone())
            .attributes(Attributes::default().with_once(true));
        embedded(&reorder.build().ok()?, device, scratch, |arg| match arg {
            Arg::DST => LaunchArg::Scratchpad { offset: own },
            _ => LaunchArg::Memory(Recurrent::STATE_WEIGHTS),
        })
    }

    /// Work-groups have sequences of their own as far as caches keep the weights that each of them reads, and share units beyond that.
    fn division(&self, device: &DeviceTraits, step_bytes: usize, one_step: bool, panels: usize) -> Division {
        let units = device.compute_units.max(1);
        let pays = if one_step {
            step_bytes >= APART_BYTES
        } else {
            step_bytes >= SHARED_BYTES && step_bytes.saturating_mul(self.steps) >= SHARED_IN_ALL
        };
        let groups = units.div_ceil(self.apart);
        let most = if pays && step_bytes > KEPT_BYTES {
            // As many chains as there are groups whose caches keep the weights together.
            (groups / step_bytes.div_ceil(KEPT_BYTES)).max(1)
        } else {
            groups
        };
        let chain = self.batch.div_ceil(most).max(FEW_SEQUENCES.min(self.batch)).max(1);
        let chains = self.batch.div_ceil(chain);
        let helpers = if pays { (units / (chains * self.apart).max(1)).clamp(1, panels) } else { 1 };
        Division { chain, chains, helpers }
    }
}

impl Tile {
    /// The repetitions over sequences, vectors and parts of sums.
    fn define(&self, source: &mut Source) {
        let each =
            |count: usize, call: &dyn Fn(usize) -> String| (0..count).map(call).collect::<Vec<_>>().join(" ");
        source
            .define("TILE_N", self.sequences)
            .define("ROWS", self.rows)
            .define("NEAR_TERMS", self.near)
            .define("AT_ONCE", self.vectors)
            .define("APART", self.apart)
            .define("EACH_N(X, a)", each(self.rows, &|i| format!("X({i}, a)")))
            .define("EACH_V(X, i, a)", each(self.vectors, &|v| format!("X(i, {v}, a)")))
            .define("EACH_APART(X)", each(self.apart, &|a| format!("X({a})")));
    }
}

/// Sets the numbers to zero by which work-groups share sequences.
pub(super) fn clear(numbers: &MemoryDesc, claimed: usize, words: usize, device: &DeviceTraits) -> Launch {
    let mut space = Space::default();
    let i = Index::of(space.push("i", words));
    space.operand("CLAIMED", Binding::Scratchpad(claimed), numbers, &[i]);
    let mut source = Source::new(&space, Value::F32, (1, None), false, true);
    source.general().number_of("WORDS", words);
    let (global, local) = items(device, words);
    source.launch("recurrent_clear", &[CLEAR], global, local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_fill_registers_without_rows_that_nobody_reads() {
        let tile = |sequences, phases: &[usize], narrow| {
            let Tile { sequences, rows, vectors, apart, near } = Tile::new(sequences, phases, narrow);
            [sequences, rows, vectors, apart, near]
        };
        assert_eq!(tile(1, &[4, 0], false), [1, 1, 4, 2, ALL_TERMS]);
        assert_eq!(tile(1, &[4, 2], false), [1, 1, 2, 4, ALL_TERMS]);
        assert_eq!(tile(4, &[4, 0], false), [4, 4, 4, 1, ALL_TERMS]);
        assert_eq!(tile(4, &[3, 0], false), [4, 4, 3, 1, ALL_TERMS]);
        assert_eq!(tile(7, &[3, 0], false), [7, 7, 3, 1, ALL_TERMS]);
        assert_eq!(tile(32, &[4, 0], false), [32, 4, 4, 1, 96]);
        assert_eq!(tile(100, &[4, 2], false), [30, 10, 2, 1, 96]);
        assert_eq!(tile(9, &[4, 0], true), [9, 3, 1, 2, 96]);
    }
}
