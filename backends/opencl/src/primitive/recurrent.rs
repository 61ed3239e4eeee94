//! Layers of recurrent networks: the products of all steps' inputs by one matrix product, then the steps.
//!
//! Variants: `single-group` (a work-group has a layer of few hidden units to itself: weights in registers, states in local memory), `resident` (NVIDIA's matrix units: one launch whose work-groups meet after each step), `resident-simt` (the same by ordinary
//! arithmetic), `panels` (CPUs: one launch for the whole sequence, whose work-groups share sequences by claiming panels of hidden units),
//! `looped` (a work-group for each sequence, whose work-items are the hidden units), `ref` (the same without the matrix product: any layout).
//! The length of the sequence comes with the launches.

mod panels;
mod resident;
mod single_group;
#[cfg(test)]
mod tests;

use anydnn_backend::op::{Cell, Direction, MatMul, Recurrent};
use anydnn_backend::{Arg, Attributes, Blocking, Dims, Layout, MemoryDesc, PrimitiveDesc, Result};

use super::choice::{Choice, Choices, Planned, Wanted};
use super::embedded::{Scratch, embedded};
use super::pointwise::{is_wide, padding};
use super::rows::{group_size, is_cpu};
use super::source::{Source, eltwise};
use super::space::{Binding, Index, Space};
use super::value::Value;
use super::{Planner, recurrent_training};
use crate::plan::{DeviceTraits, Launch, LaunchArg};

const REFERENCE: &str = anydnn_kernels::text("recurrent/reference.cl");
const CELLS: &str = anydnn_kernels::text("recurrent/cells.cl");

/// Sequences of a chain at least, so that weights are read for several at a time.
const FEW_SEQUENCES: usize = 4;
/// Bytes of weights that all steps read for which a launch of its own does not pay.
const SHORT: usize = 2 << 20;

impl Planner for Recurrent {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        let mut choices = Choices::new(desc, wanted);
        if recurrent_training::serves(desc) {
            if is_cpu(device) && recurrent_training::keeps_alone(desc) {
                choices.offer("panels", "one launch for the sequence, units in vectors", || {
                    Shape::new(*self, desc).panels(device)
                });
            }
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
        choices.offer("single-group", "few hidden units: a work-group holds the layer", || {
            shape.single_group(device)
        });
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
        let shape = Shape::new(*self, &desc);
        let states = open(Self::STATE_WEIGHTS).map(|weights| shape.in_panels(weights, device)).transpose()?;
        let inputs = open(Arg::Weights).map(|weights| {
            if shape.is_short() {
                shape.in_panels(weights, device).ok()
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

/// Sequences by tiles: the loops over tiles and their rows, and how many there are.
struct Tiles {
    tile: Index,
    row: Index,
    count: usize,
    rows: usize,
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

    /// Whether what gradients read is a result.
    fn keeps(&self) -> bool {
        self.desc.find(Recurrent::WORKSPACE).is_some()
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
        self.operands(&mut space, &variables, gates, None, scratch);
        if let Some(counts) = counts {
            resident::meet_at(&mut space, counts);
        }
        let mut source = Source::new(&space, self.value, (1, None), self.wide(), false);
        self.define(&mut source, &space);
        let group = if is_cpu(device) { 1 } else { group_size(device).min(self.hidden.next_power_of_two()) };
        let global = [group, self.batch, self.apart];
        source.launch("recurrent_reference", &[REFERENCE], global, Some([group, 1, 1]))
    }

    fn variables(&self, space: &mut Space, unit: Index) -> Variables {
        let mut of = |name: &str, extent: usize| Index::of(space.push(name, extent));
        Variables {
            d: of("d", self.count()),
            n: of("n", self.batch),
            step: of("step", self.steps),
            gate: of("gate", if self.keeps() { self.op.cell.rows() } else { self.op.cell.gates() }),
            k: of("k", self.hidden.max(self.inputs)),
            turn: of("turn", 2),
            unit,
        }
    }

    /// Arguments and working memory, in which the states of sequences lie by tiles or one after the other.
    fn operands(
        &self,
        space: &mut Space,
        variables: &Variables,
        gates: Option<usize>,
        tiles: Option<&Tiles>,
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
            ("WORKSPACE", Recurrent::WORKSPACE, list(&[d, step, n, gate, unit])),
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
        let by = |unit: &Index| match tiles {
            Some(Tiles { tile, row, .. }) => list(&[d, tile, unit, row]),
            None => list(&[d, n, unit]),
        };
        let of_states = match tiles {
            Some(tiles) => vec![count, tiles.count, hidden, tiles.rows],
            None => vec![count, batch, hidden],
        };
        let in_turns = |unit: &Index| [list(&[turn]), by(unit)].concat();
        let of_turns = working("STATES", None, &[&[2][..], &of_states[..]].concat(), &in_turns(unit));
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
            kept = Some(working("KEPT", None, &of_states, &by(unit)));
        }
        // The same memory by the unit of the state before.
        space.operand("STATES_K", Binding::Alias("STATES"), &of_turns, &in_turns(k));
        if let Some(kept) = kept {
            space.operand("KEPT_K", Binding::Alias("KEPT"), &kept, &by(k));
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
            "KEPT",
            "COUNTS",
            "WORKSPACE",
        ] {
            let is_there = space.find(name).is_some();
            source.define(format_args!("IF_{name}(text)"), if is_there { "text" } else { "" });
            if matches!(name, "GATES" | "WORKSPACE") {
                source.define(format_args!("IF_NO_{name}(text)"), if is_there { "" } else { "text" });
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
