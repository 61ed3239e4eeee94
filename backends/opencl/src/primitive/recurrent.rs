//! Layers of recurrent networks: the products of all steps' inputs by one matrix product, then the steps.
//!
//! Variants: `resident` (NVIDIA's matrix units: one launch whose work-groups meet after each step), `resident-simt` (the same by ordinary
//! arithmetic), `panels` (CPUs: one launch for the whole sequence, whose work-groups share sequences by claiming panels of hidden units),
//! `looped` (a work-group for each sequence, whose work-items are the hidden units), `ref` (the same without the matrix product: any layout).
//! The length of the sequence comes with the launches.

mod resident;
#[cfg(test)]
mod tests;

use anydnn_backend::op::{Cell, Direction, MatMul, Recurrent, Reorder};
use anydnn_backend::{Arg, Attributes, Blocking, DataType, Dims, Layout, MemoryDesc, PrimitiveDesc, Result};

use super::choice::{Choice, Choices, Planned, Wanted};
use super::embedded::{Scratch, embedded};
use super::pointwise::{is_wide, padding};
use super::rows::{CPU_LANES, group_size, is_cpu, items};
use super::source::{Source, eltwise};
use super::space::{Address, Binding, Index, Space};
use super::value::Value;
use super::{Planner, panels, recurrent_training};
use crate::plan::{DeviceTraits, Launch, LaunchArg};

const REFERENCE: &str = anydnn_kernels::text("recurrent/reference.cl");
const PANELS: &str = anydnn_kernels::text("recurrent/panels.cl");
const CLEAR: &str = anydnn_kernels::text("recurrent/clear.cl");

/// Vectors of sums that a register tile holds.
const TILE: usize = 24;
/// The same where a vector takes two registers, of which there are half as many.
const NARROW_TILE: usize = 6;
/// Sequences of a chain at least, so that weights are read for several at a time.
const FEW_SEQUENCES: usize = 4;
/// Bytes of weights that a step reads for which it pays that work-groups wait for each other.
const SHARED_BYTES: usize = 256 << 10;
/// The same of all steps together.
const SHARED_IN_ALL: usize = 4 << 20;
/// Bytes of weights of a single step for which it pays that work-groups divide its units.
const APART_BYTES: usize = 128 << 10;
/// Bytes of weights that all steps read for which a launch of its own does not pay.
const SHORT: usize = 2 << 20;
/// Bytes of a line of the cache, in which a number that work-groups share is alone.
const LINE: usize = 64;

impl Planner for Recurrent {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        let mut choices = Choices::new(desc, wanted);
        if recurrent_training::serves(desc) {
            choices.offer("training", "keeps what gradients read", || {
                recurrent_training::plan(*self, desc, device)
            });
            return Ok(choices.followed_by(|| {
                let results = desc.args().iter().filter(|operand| operand.access.writes());
                results.filter_map(|one| padding(&one.desc, one.arg, device)).collect::<Vec<_>>()
            }));
        }
        let shape = Shape::new(*self, desc);
        if is_cpu(device) {
            choices.offer("panels", "one launch for the sequence, units in vectors", || shape.panels(device));
        }
        choices.offer("resident", "weights stay in registers for the sequence", || {
            shape.resident_by_units(device)
        });
        choices.offer("resident-simt", "the same without matrix units", || shape.resident_by_items(device));
        choices.offer("looped", "one launch for the sequence", || shape.looped(device, true));
        choices.offer("ref", "serves every layout and type", || shape.looped(device, false));
        Ok(choices.followed_by(|| {
            let results = [Arg::DST, Self::LAST_STATE, Self::LAST_CELL];
            results.into_iter().filter_map(|arg| padding(desc.find(arg)?, arg, device)).collect::<Vec<_>>()
        }))
    }

    fn resolve(&self, desc: PrimitiveDesc, device: &DeviceTraits) -> Result<PrimitiveDesc> {
        if !is_cpu(device) || recurrent_training::serves(&desc) {
            return Ok(desc);
        }
        let open = |arg| desc.find(arg).filter(|weights| weights.is_any());
        let states = open(Self::STATE_WEIGHTS).map(|weights| in_panels(self.cell, weights)).transpose()?;
        let inputs = open(Arg::Weights).map(|weights| {
            let shape = Shape::new(*self, &desc);
            if shape.is_short() {
                in_panels(self.cell, weights).ok()
            } else {
                shape.product_layout(weights, device)
            }
        });
        let mut resolved = desc.clone();
        if let Some(layout) = states {
            resolved = resolved.resolved(Self::STATE_WEIGHTS, layout)?;
        }
        if let Some(layout) = inputs.flatten() {
            resolved = resolved.resolved(Arg::Weights, layout)?;
        }
        Ok(resolved)
    }
}

/// Vectors of a panel for each gate: as many as keep the units busy that multiply.
const fn vectors(cell: Cell) -> usize {
    match cell {
        Cell::Vanilla(_) => 4,
        Cell::Gru => 2,
        Cell::Lstm(_) | Cell::GruLinearBeforeReset => 1,
    }
}

/// What multiplies the states, as the kernel reads it: panels of units, in which those of all gates that one phase needs are neighbours.
fn in_panels(cell: Cell, weights: &MemoryDesc) -> Result<MemoryDesc> {
    let order = if cell == Cell::Gru { "aDcb" } else { "aDbc" };
    let tag = format!("{order}{}d", vectors(cell) * CPU_LANES);
    MemoryDesc::with_tag(weights.dims().clone(), weights.data_type(), &tag)
}

/// A layer and its sizes.
struct Shape<'a> {
    op: Recurrent,
    desc: &'a PrimitiveDesc,
    value: Value,
    steps: usize,
    batch: usize,
    inputs: usize,
    hidden: usize,
    /// Directions that run on their own; those of a sum run one after the other.
    apart: usize,
}

/// The loop variables that kernels name.
struct Variables {
    d: Index,
    n: Index,
    step: Index,
    gate: Index,
    k: Index,
    turn: Index,
    unit: Index,
}

impl<'a> Shape<'a> {
    fn new(op: Recurrent, desc: &'a PrimitiveDesc) -> Self {
        let (src, dst) = (desc.src().dims(), desc.dst().dims());
        let apart = if op.direction == Direction::Sum { 1 } else { op.direction.count() };
        let value = Value::of(desc, false);
        Self { op, desc, value, steps: src[0], batch: src[1], inputs: src[2], hidden: dst[3], apart }
    }

    fn count(&self) -> usize {
        self.op.direction.count()
    }

    /// Whether the products of the inputs are made step by step on processors.
    fn is_short(&self) -> bool {
        let weights = self.count() * self.inputs * self.op.cell.gates() * self.hidden * size_of::<f32>();
        weights.saturating_mul(self.steps).saturating_mul(self.batch.div_ceil(FEW_SEQUENCES)) <= SHORT
    }

    fn wide(&self) -> bool {
        let gates = self.count() * self.op.cell.gates() * self.hidden;
        is_wide(self.desc) || gates.saturating_mul(self.steps).saturating_mul(self.batch) > i32::MAX as usize
    }

    /// A work-group for each sequence; the products of the inputs come before, or element by element.
    fn looped(&self, device: &DeviceTraits, product: bool) -> Option<Planned> {
        let mut scratch = Scratch { bytes: 0 };
        let (gates, mut launches) = if product {
            let (at, launches) = self.input_products(device, &mut scratch)?;
            (Some(at), launches)
        } else {
            (None, Vec::new())
        };
        launches.push(self.loop_over_steps(device, gates, None, &mut scratch));
        Some(Planned { scratchpad: scratch.bytes, launches })
    }

    /// The launch of a work-group for each sequence. With `counts` it runs only where the first of these is not zero.
    fn loop_over_steps(
        &self,
        device: &DeviceTraits,
        gates: Option<usize>,
        counts: Option<usize>,
        scratch: &mut Scratch,
    ) -> Launch {
        let mut space = Space::default();
        let unit = Index::of(space.push("unit", self.hidden));
        let variables = self.variables(&mut space, unit);
        self.operands(&mut space, &variables, gates, scratch);
        if let Some(counts) = counts {
            resident::meet_at(&mut space, counts);
        }
        let mut source = Source::new(&space, self.value, (1, None), self.wide(), false);
        self.define(&mut source, &space);
        let group = if is_cpu(device) { 1 } else { group_size(device).min(self.hidden.next_power_of_two()) };
        let global = [group, self.batch, self.apart];
        source.launch("recurrent_reference", &[REFERENCE], global, Some([group, 1, 1]))
    }

    /// Panels of units in registers, shared by work-groups.
    fn panels(&self, device: &DeviceTraits) -> Option<Planned> {
        let mut scratch = Scratch { bytes: 0 };
        let of_inputs = self.desc.find(Arg::Weights)?;
        let fused = self.is_short() && of_inputs.same_bytes(&in_panels(self.op.cell, of_inputs).ok()?);
        let (gates, mut launches) = if fused {
            (None, Vec::new())
        } else {
            let (at, launches) = self.input_products(device, &mut scratch)?;
            (Some(at), launches)
        };
        let weights = self.desc.find(Recurrent::STATE_WEIGHTS)?;
        let packed = in_panels(self.op.cell, weights).ok()?;
        let own = (!weights.same_bytes(&packed)).then(|| scratch.take(packed.size()));
        if let Some(own) = own {
            let reorder = PrimitiveDesc::builder(Reorder)
                .src(weights.clone())
                .dst(packed.clone())
                .attributes(Attributes::default().with_once(true));
            launches.extend(embedded(&reorder.build().ok()?, device, &mut scratch, |arg| match arg {
                Arg::DST => LaunchArg::Scratchpad { offset: own },
                _ => LaunchArg::Memory(Recurrent::STATE_WEIGHTS),
            })?);
        }
        let vectors = vectors(self.op.cell);
        let width = vectors * CPU_LANES;
        let count = self.hidden.div_ceil(width);
        let mut space = Space::default();
        let panel = space.push("panel", count);
        let part = space.push("part", vectors);
        let lane = space.push("lane", CPU_LANES);
        let unit = Index::sum(&[(panel, width), (part, CPU_LANES), (lane, 1)]);
        let variables = self.variables(&mut space, unit);
        self.operands(&mut space, &variables, gates, &mut scratch);
        // The weights where they lie in panels.
        let at = space.operands.iter().position(|operand| operand.name == "STATE_WEIGHTS")?;
        let Variables { d, gate, k, unit, .. } = &variables;
        let index = [d.clone(), k.clone(), gate.clone(), unit.clone()];
        space.operands[at].address = space.address(&packed, &index);
        if let Some(own) = own {
            space.operands[at].binding = Binding::Scratchpad(own);
        }
        let k = space.variable("k")?;
        if !space.has_steps(lane, CPU_LANES) {
            return None;
        }
        let units = device.compute_units.max(1);
        let blocks = units.div_ceil(self.apart);
        let chain = self.batch.div_ceil(blocks).max(FEW_SEQUENCES.min(self.batch)).max(1);
        let chains = self.batch.div_ceil(chain) * self.apart;
        let step_bytes = packed.size() / self.count();
        let pays = step_bytes >= SHARED_BYTES && step_bytes.saturating_mul(self.steps) >= SHARED_IN_ALL;
        let initial = self.desc.find(Recurrent::INITIAL_STATE);
        // No unit of a single step waits for the states of others, but for those that a reset gate left.
        let one_step = self.steps == 1 && (self.op.cell != Cell::Gru || initial.is_none());
        let step_bytes = if one_step && initial.is_none() { 0 } else { step_bytes }
            + if fused { of_inputs.size() / self.count() } else { 0 };
        let pays = if one_step { step_bytes >= APART_BYTES } else { pays };
        let helpers = if pays { (units / chains.max(1)).clamp(1, count) } else { 1 };
        let cooperates = helpers > 1 && !one_step;
        if let Some(initial) = initial.filter(|_| one_step) {
            let Variables { d, n, k, .. } = &variables;
            let index = [d.clone(), n.clone(), k.clone()];
            space.operand("INITIAL_STATE_K", Binding::Alias("INITIAL_STATE"), initial, &index);
        }
        let gates_count = self.op.cell.gates();
        let in_a_phase = if self.op.cell == Cell::Gru { 2 } else { gates_count };
        // Registers of half a vector hold one vector of several sequences, and so every sequence is read again for the next one.
        let narrow = chain > 1 && device.vector_floats().is_some_and(|floats| floats < CPU_LANES);
        let tile = panels::tile_rows(chain, if narrow { NARROW_TILE } else { TILE / (in_a_phase * vectors) });
        if cooperates {
            let words = chains * (count + 1) * LINE / size_of::<i32>();
            let claimed = scratch.take(words * size_of::<i32>());
            let numbers = MemoryDesc::new([words], DataType::S32);
            launches.push(self.clear(&numbers, claimed, words, device));
            let address = Address::linear(vec![0; space.loops.len()]);
            space.addressed("CLAIMED", Binding::Scratchpad(claimed), numbers.data_type(), address);
        }
        let mut source = Source::new(&space, self.value, (CPU_LANES, Some(lane)), self.wide(), false);
        self.define(&mut source, &space);
        let each = |from: usize, to: usize, suffix: &str| {
            (from..to).map(|i| format!("X({suffix}{i})")).collect::<Vec<_>>().join(" ")
        };
        source
            .define("COOPERATE", i32::from(cooperates))
            .define("ONE_STEP", i32::from(one_step))
            .define("MULTIPLIES_STATES", i32::from(!one_step || initial.is_some()))
            .define("GATES_COUNT", gates_count)
            .define("VECTORS", vectors)
            .define("NARROW", i32::from(narrow))
            .define("TILE_N", tile)
            .define("EACH_NV(X, v)", (0..tile).map(|i| format!("X({i}, v)")).collect::<Vec<_>>().join(" "))
            .define("EACH_N(X)", each(0, tile, ""))
            .define("FIRST_V(X, i)", each(0, in_a_phase * vectors, "i, "))
            .define("SECOND_V(X, i)", each(in_a_phase * vectors, gates_count * vectors, "i, "))
            .number_of("PANELS", count)
            .number_of("CHAIN_N", chain)
            .number_of("BATCH", self.batch);
        for name in ["STATE_WEIGHTS", "WEIGHTS", "SRC0", "INITIAL_STATE_K"] {
            if space.find(name).is_some() {
                source.number_of(format!("STEP_{name}"), space.coefficient(name, k)?);
            }
        }
        let global = [helpers, self.batch.div_ceil(chain), self.apart];
        launches.push(source.launch("recurrent_panels", &[PANELS], global, Some([1, 1, 1])));
        Some(Planned { scratchpad: scratch.bytes, launches })
    }

    /// Sets the numbers to zero by which work-groups share sequences.
    fn clear(&self, numbers: &MemoryDesc, claimed: usize, words: usize, device: &DeviceTraits) -> Launch {
        let mut space = Space::default();
        let i = Index::of(space.push("i", words));
        space.operand("CLAIMED", Binding::Scratchpad(claimed), numbers, &[i]);
        let mut source = Source::new(&space, Value::F32, (1, None), false, true);
        source.general().number_of("WORDS", words);
        let (global, local) = items(device, words);
        source.launch("recurrent_clear", &[CLEAR], global, local)
    }

    fn variables(&self, space: &mut Space, unit: Index) -> Variables {
        let mut of = |name: &str, extent: usize| Index::of(space.push(name, extent));
        Variables {
            d: of("d", self.count()),
            n: of("n", self.batch),
            step: of("step", self.steps),
            gate: of("gate", self.op.cell.gates()),
            k: of("k", self.hidden.max(self.inputs)),
            turn: of("turn", 2),
            unit,
        }
    }

    /// Arguments and working memory.
    fn operands(
        &self,
        space: &mut Space,
        variables: &Variables,
        gates: Option<usize>,
        scratch: &mut Scratch,
    ) {
        let Variables { d, n, step, gate, k, turn, unit } = variables;
        let list = |index: &[&Index]| index.iter().map(|&index| index.clone()).collect::<Vec<_>>();
        let states = list(&[d, n, unit]);
        let shown = if self.op.direction == Direction::Sum { &Index::default() } else { d };
        let mut arguments = vec![
            ("STATE_WEIGHTS", Recurrent::STATE_WEIGHTS, list(&[d, k, gate, unit])),
            ("BIAS", Arg::Bias, list(&[d, gate, unit])),
            ("STATE_BIAS", Recurrent::STATE_BIAS, list(&[d, gate, unit])),
            ("INITIAL_STATE", Recurrent::INITIAL_STATE, states.clone()),
            ("INITIAL_CELL", Recurrent::INITIAL_CELL, states.clone()),
            ("LENGTHS", Recurrent::LENGTHS, list(&[n])),
            ("PEEPHOLES", Recurrent::PEEPHOLES, list(&[d, gate, unit])),
            ("LAST_STATE", Recurrent::LAST_STATE, states.clone()),
            ("LAST_CELL", Recurrent::LAST_CELL, states.clone()),
            ("DST", Arg::DST, list(&[step, n, shown, unit])),
        ];
        if gates.is_none() {
            arguments.push(("SRC0", Arg::SRC, list(&[step, n, k])));
            arguments.push(("WEIGHTS", Arg::Weights, list(&[d, k, gate, unit])));
        }
        for (name, arg, index) in arguments {
            if let Some(desc) = self.desc.find(arg) {
                space.operand(name, Binding::Arg(arg), desc, &index);
            }
        }
        let (count, batch, hidden) = (self.count(), self.batch, self.hidden);
        let mut working = |name: &'static str, at: Option<usize>, dims: &[usize], index: &[Index]| {
            let desc = MemoryDesc::new(dims, self.value.storage());
            let at = at.unwrap_or_else(|| scratch.take(desc.size()));
            space.operand(name, Binding::Scratchpad(at), &desc, index);
            desc
        };
        // States before a step and behind it change places.
        let of_turns = working("STATES", None, &[2, count, batch, hidden], &list(&[turn, d, n, unit]));
        if let Some(at) = gates {
            working("GATES", Some(at), &self.gates_dims(), &list(&[d, step, n, gate, unit]));
        }
        let one = [count, batch, hidden];
        if self.op.cell.is_lstm() {
            working("CELLS", None, &one, &states);
        }
        if self.op.direction == Direction::Sum {
            working("TOTALS", None, &[self.steps, batch, hidden], &list(&[step, n, unit]));
        }
        let mut kept = None;
        if self.op.cell == Cell::Gru {
            working("UPDATES", None, &one, &states);
            kept = Some(working("KEPT", None, &one, &states));
        }
        // The same memory by the unit of the state before.
        space.operand("STATES_K", Binding::Alias("STATES"), &of_turns, &list(&[turn, d, n, k]));
        if let Some(kept) = kept {
            space.operand("KEPT_K", Binding::Alias("KEPT"), &kept, &list(&[d, n, k]));
        }
    }

    /// The macros that the kernels have in common.
    fn define(&self, source: &mut Source, space: &Space) {
        let cell = match self.op.cell {
            Cell::Vanilla(_) => "VANILLA",
            Cell::Lstm(_) => "LSTM",
            Cell::Gru => "GRU",
            Cell::GruLinearBeforeReset => "LINEAR_GRU",
        };
        let backward = match self.op.direction {
            Direction::LeftToRight => "0",
            Direction::RightToLeft => "1",
            Direction::Concat | Direction::Sum => "(d == 1)",
        };
        let adds_up = self.op.direction == Direction::Sum;
        source
            .general()
            .without_streams()
            .define("CELL", cell)
            .define("BACKWARD", backward)
            .define("ADDS_UP", i32::from(adds_up))
            .define("WAYS", if adds_up { 2 } else { 1 })
            .number_of("STEPS", self.steps)
            .number_of("INPUTS", self.inputs)
            .number_of("HIDDEN", self.hidden);
        for name in [
            "GATES",
            "BIAS",
            "STATE_BIAS",
            "INITIAL_STATE",
            "INITIAL_CELL",
            "LENGTHS",
            "PEEPHOLES",
            "LAST_STATE",
            "LAST_CELL",
            "CELLS",
            "COUNTS",
        ] {
            let is_there = space.find(name).is_some();
            source.define(format!("IF_{name}(text)"), if is_there { "text" } else { "" });
            if name == "GATES" {
                source.define("IF_NO_GATES(text)", if is_there { "" } else { "text" });
            }
        }
        match self.op.cell {
            Cell::Vanilla(activation) => {
                source.define("ACTIVATION(x)", eltwise(self.value, activation.function(), "x"));
            }
            Cell::Lstm(order) => {
                let [input, forget, candidate, output] = order.places();
                source
                    .define("INPUT_GATE", input)
                    .define("FORGET_GATE", forget)
                    .define("CANDIDATE_GATE", candidate)
                    .define("OUTPUT_GATE", output);
                let [input, forget, output] = order.peepholes();
                source
                    .define("INPUT_PEEPHOLE", input)
                    .define("FORGET_PEEPHOLE", forget)
                    .define("OUTPUT_PEEPHOLE", output);
            }
            Cell::Gru | Cell::GruLinearBeforeReset => {}
        }
    }

    /// The matrix product of all steps' inputs, `[D, T, N, G, H]` in the scratchpad: where, and its launches. None where the operands have
    /// blocks that a product does not have.
    fn input_products(&self, device: &DeviceTraits, scratch: &mut Scratch) -> Option<(usize, Vec<Launch>)> {
        let product = self.product(self.desc.find(Arg::Weights)?)?;
        let at = scratch.take(self.value.storage().bytes_for(self.gates_dims().elements()));
        let launches = embedded(&product, device, scratch, |arg| match arg {
            Arg::DST => LaunchArg::Scratchpad { offset: at },
            other => LaunchArg::Memory(other),
        })?;
        Some((at, launches))
    }

    /// The layout of weights that suits this product, where they are open.
    fn product_layout(&self, weights: &MemoryDesc, device: &DeviceTraits) -> Option<MemoryDesc> {
        let product = super::resolved(self.product(weights)?, device).ok()?;
        let own = product.find(Arg::Weights)?.blocking()?;
        // Behind a dimension for the directions and one for sequences, if there are any: [G, I, H].
        let last = own.strides.len() - 1;
        let inner = own.inner.iter().map(|&(axis, block)| (axis == last).then_some((3, block)));
        let strides = [
            if self.count() > 1 { own.strides[0] } else { 0 },
            own.strides[last - 1],
            own.strides[usize::from(self.count() > 1)],
            own.strides[last],
        ];
        let blocking = Blocking { strides: strides.into(), inner: inner.collect::<Option<_>>()?, offset: 0 };
        let layout = Layout::Blocked(blocking);
        MemoryDesc::with_layout(weights.dims().clone(), weights.data_type(), layout).ok()
    }

    fn gates_dims(&self) -> Dims {
        [self.count(), self.steps, self.batch, self.op.cell.gates(), self.hidden].into()
    }

    /// The matrix product of all steps' inputs with weights in any layout that a product has; those that are open stay it.
    fn product(&self, weights: &MemoryDesc) -> Option<PrimitiveDesc> {
        let src =
            if self.desc.src().is_any() { self.desc.src().to_row_major() } else { self.desc.src().clone() };
        let from = src.blocking().filter(|blocking| blocking.inner.is_empty())?;
        let open = weights.is_any();
        let row_major = weights.to_row_major();
        let by = if open { &row_major } else { weights }.blocking()?;
        let in_blocks = !by.inner.is_empty();
        let inner: Option<Vec<usize>> =
            by.inner.iter().map(|&(axis, block)| (axis == 3).then_some(block)).collect();
        let inner = inner?;
        let (gates, hidden) = (self.op.cell.gates(), self.hidden);
        let (steps, batch) = (self.steps, self.batch);
        let to = self.gates_dims().row_major_strides();
        // Extents with strides of source, weights and result; where an operand lacks a dimension it has no stride.
        let mut outer: Vec<(usize, [Option<usize>; 3])> = Vec::new();
        if self.count() > 1 {
            outer.push((self.count(), [None, Some(by.strides[0]), Some(to[0])]));
        }
        let merges = gates == 1 || by.strides[2] == hidden * by.strides[3];
        let columns = if merges && !open && !in_blocks {
            gates * hidden
        } else {
            outer.push((gates, [None, Some(by.strides[2]), Some(to[3])]));
            hidden
        };
        let (rows, row, to_row) = if batch == 1 {
            (steps, from.strides[0], to[1])
        } else if steps == 1 || from.strides[0] == batch * from.strides[1] {
            (steps * batch, from.strides[1], to[2])
        } else {
            outer.push((batch, [Some(from.strides[1]), None, Some(to[2])]));
            (steps, from.strides[0], to[1])
        };
        let desc = |operand: usize, matrix: [(usize, usize); 2], data_type, offset, blocks: &[usize]| {
            let outer = outer.iter().map(|&(extent, strides)| match strides[operand] {
                Some(stride) => (extent, stride),
                None => (1, 0),
            });
            let (dims, strides): (Vec<usize>, Vec<usize>) = outer.chain(matrix).unzip();
            let last = dims.len() - 1;
            let inner = blocks.iter().map(|&block| (last, block)).collect();
            let blocking = Blocking { strides: strides.into(), inner, offset };
            MemoryDesc::with_layout(dims, data_type, Layout::Blocked(blocking)).ok()
        };
        let inputs = self.inputs;
        let matrix = [(inputs, by.strides[1]), (columns, by.strides[3])];
        let factor = desc(1, matrix, weights.data_type(), by.offset, &inner)?;
        PrimitiveDesc::builder(MatMul)
            .src(desc(0, [(rows, row), (inputs, from.strides[2])], src.data_type(), from.offset, &[])?)
            .weights(if open { factor.to_any() } else { factor })
            .dst(desc(2, [(rows, to_row), (columns, 1)], self.value.storage(), 0, &[])?)
            .attributes(Attributes::default().with_fpmath(self.desc.attributes().fpmath))
            .build()
            .ok()
    }
}
