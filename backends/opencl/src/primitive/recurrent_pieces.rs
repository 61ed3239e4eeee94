//! What layers with a workspace and their gradients are made of: operands in strides, primitives of other kinds on them, and the kernel of the
//! steps between.

use anydnn_backend::op::{
    Activation, Cell, Direction, MatMul, Recurrent, Reduction, ReductionAlgorithm, Reorder,
};
use anydnn_backend::{Arg, Attributes, Blocking, DataType, Layout, MemoryDesc, PostOp, PrimitiveDesc};

use super::choice::Planned;
use super::embedded::{Scratch, embedded};
use super::panels;
use super::pointwise::is_wide;
use super::rows::{CPU_LANES, group_size, is_cpu};
use super::source::{Source, eltwise};
use super::space::{Binding, Index, Space};
use super::value::Value;
use crate::plan::{DeviceTraits, Launch, LaunchArg};

/// Sequences of a work-item on processors at least, so that weights are read for several at a time.
const FEW_SEQUENCES: usize = 4;
/// Steps for which it pays to copy weights into panels.
const PACKED_STEPS: usize = 4;
/// Vectors of sums that a register tile holds.
const TILE: usize = 16;

/// Bytes, and what they mean.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) at: LaunchArg,
    pub(super) desc: MemoryDesc,
}

/// The launches of a layer or its gradients in the making.
pub(super) struct Pieces<'a> {
    pub(super) desc: &'a PrimitiveDesc,
    pub(super) op: Recurrent,
    pub(super) device: &'a DeviceTraits,
    pub(super) value: Value,
    pub(super) steps: usize,
    pub(super) batch: usize,
    pub(super) inputs: usize,
    pub(super) hidden: usize,
    /// Units of a state.
    pub(super) units: usize,
    scratch: Scratch,
    launches: Vec<Launch>,
    /// Results in the making, and where they belong.
    stores: Vec<(Place, Arg)>,
}

/// How strides of a layout fit.
pub(super) type Fits = fn(&Pieces<'_>, &[usize]) -> bool;

impl<'a> Pieces<'a> {
    pub(super) fn new(op: Recurrent, desc: &'a PrimitiveDesc, device: &'a DeviceTraits) -> Option<Self> {
        let weights = desc.find(Recurrent::STATE_WEIGHTS)?.dims();
        let src = desc.src().dims();
        Some(Self {
            desc,
            op,
            device,
            value: Value::of(desc, false),
            steps: src[0],
            batch: src[1],
            inputs: src[2],
            hidden: weights[3],
            units: weights[1],
            scratch: Scratch::default(),
            launches: Vec::new(),
            stores: Vec::new(),
        })
    }

    pub(super) fn directions(&self) -> usize {
        self.op.direction.count()
    }

    pub(super) fn gates(&self) -> usize {
        self.op.cell.gates()
    }

    /// Steps of all sequences.
    pub(super) fn rows(&self) -> usize {
        self.steps * self.batch
    }

    pub(super) fn has(&self, arg: Arg) -> bool {
        self.desc.find(arg).is_some()
    }

    /// Working memory.
    pub(super) fn working(&mut self, dims: &[usize]) -> Place {
        self.working_as(dims, self.value.storage())
    }

    /// Working memory of another type.
    pub(super) fn working_as(&mut self, dims: &[usize], data_type: DataType) -> Place {
        self.taken(MemoryDesc::new(dims, data_type))
    }

    fn taken(&mut self, desc: MemoryDesc) -> Place {
        let offset = self.scratch.take(desc.size());
        Place { at: LaunchArg::Scratchpad { offset }, desc }
    }

    /// An operand in strides that fit, or a dense copy of it.
    pub(super) fn input(&mut self, arg: Arg, fits: Fits) -> Option<Place> {
        let given = Place { at: LaunchArg::Memory(arg), desc: self.desc.find(arg)?.clone() };
        let strides = given.desc.blocking().filter(|blocking| blocking.inner.is_empty());
        if strides.is_some_and(|blocking| fits(self, &blocking.strides)) {
            return Some(given);
        }
        let copy = self.taken(given.desc.to_row_major());
        self.reorder(&given, &copy)?;
        Some(copy)
    }

    /// A copy of weights with four dimensions, the last of which are units, in panels of `lanes` units: what a vector of them reads term by term
    /// are neighbours. None without lanes, and where steps are too few for a copy to pay.
    pub(super) fn in_panels(&mut self, given: &Place, lanes: usize) -> Option<Place> {
        if lanes == 1 || self.steps < PACKED_STEPS {
            return None;
        }
        let tag = format!("aDbc{lanes}d");
        let desc = MemoryDesc::with_tag(given.desc.dims().clone(), given.desc.data_type(), &tag).ok()?;
        let copy = self.taken(desc);
        self.reorder(given, &copy)?;
        Some(copy)
    }

    /// A result in strides that fit, or a dense one of which [`Pieces::planned`] makes it.
    pub(super) fn output(&mut self, arg: Arg, fits: Fits) -> Option<Place> {
        let given = Place { at: LaunchArg::Memory(arg), desc: self.desc.find(arg)?.clone() };
        let strides = given.desc.blocking().filter(|blocking| blocking.inner.is_empty());
        if strides.is_some_and(|blocking| fits(self, &blocking.strides)) {
            return Some(given);
        }
        let made = self.working(given.desc.dims());
        self.stores.push((made.clone(), arg));
        Some(made)
    }

    pub(super) fn reorder(&mut self, from: &Place, to: &Place) -> Option<()> {
        let builder = PrimitiveDesc::builder(Reorder).src(from.desc.clone()).dst(to.desc.clone());
        self.run(&builder.build().ok()?, from.at, from.at, to.at)
    }

    /// `c = a b`, or `c += a b`, of matrices with leading dimensions.
    pub(super) fn multiply(&mut self, a: &Place, b: &Place, c: &Place, adds: bool) -> Option<()> {
        if c.desc.elements() == 0 {
            return Some(());
        }
        let mut attributes = Attributes::default().with_fpmath(self.desc.attributes().fpmath);
        if adds {
            attributes = attributes.with_post_op(PostOp::sum(1.0));
        }
        let builder = PrimitiveDesc::builder(MatMul)
            .src(a.desc.clone())
            .weights(b.desc.clone())
            .dst(c.desc.clone())
            .attributes(attributes);
        self.run(&builder.build().ok()?, a.at, b.at, c.at)
    }

    /// The sums along dimensions that the result has not.
    pub(super) fn sum(&mut self, from: &Place, to: &Place) -> Option<()> {
        let op = Reduction::new(ReductionAlgorithm::Sum);
        let builder = PrimitiveDesc::builder(op).src(from.desc.clone()).dst(to.desc.clone());
        self.run(&builder.build().ok()?, from.at, from.at, to.at)
    }

    fn run(
        &mut self,
        desc: &PrimitiveDesc,
        src: LaunchArg,
        weights: LaunchArg,
        dst: LaunchArg,
    ) -> Option<()> {
        let launches = embedded(desc, self.device, &mut self.scratch, |arg| match arg {
            Arg::DST => dst,
            Arg::Weights => weights,
            _ => src,
        })?;
        self.launches.extend(launches);
        Some(())
    }

    /// Copies results to where they belong and ends the plan.
    pub(super) fn planned(mut self) -> Option<Planned> {
        for (from, arg) in std::mem::take(&mut self.stores) {
            let to = Place { at: LaunchArg::Memory(arg), desc: self.desc.find(arg)?.clone() };
            self.reorder(&from, &to)?;
        }
        Some(Planned { scratchpad: self.scratch.bytes, launches: self.launches })
    }
}

impl Place {
    /// Other dimensions, each with its extent and its distance in elements, from an element on.
    pub(super) fn seen(&self, from: usize, dims: &[(usize, usize)]) -> Option<Self> {
        let (extents, strides): (Vec<usize>, Vec<usize>) = dims.iter().copied().unzip();
        let own = self.desc.blocking()?;
        let blocking = Blocking { strides: strides.into(), offset: own.offset + from, ..own.clone() };
        let layout = Layout::Blocked(blocking);
        let desc = MemoryDesc::with_layout(extents, self.desc.data_type(), layout).ok()?;
        Some(Self { at: self.at, desc })
    }

    /// How many lanes of a vector of weights a kernel reads: all where panels are filled up, else those that it is left with.
    pub(super) fn lanes(&self) -> &'static str {
        if self.desc.blocking().is_some_and(|own| !own.inner.is_empty()) { "LANES" } else { "lanes" }
    }

    pub(super) fn strides(&self) -> Option<&[usize]> {
        Some(&self.desc.blocking()?.strides)
    }
}

/// Any strides.
pub(super) fn any(_: &Pieces<'_>, _: &[usize]) -> bool {
    true
}

/// Steps and sequences that are rows of one matrix.
pub(super) fn rows_merge(pieces: &Pieces<'_>, strides: &[usize]) -> bool {
    pieces.steps == 1 || pieces.batch == 1 || strides[0] == pieces.batch * strides[1]
}

/// Gates and units that are columns of one matrix.
pub(super) fn gates_merge(pieces: &Pieces<'_>, strides: &[usize]) -> bool {
    pieces.gates() == 1 || strides[2] == pieces.hidden * strides[3]
}

/// The distance between rows that merge.
pub(super) fn row(pieces: &Pieces<'_>, strides: &[usize]) -> usize {
    if pieces.batch == 1 { strides[0] } else { strides[1] }
}

/// The loop variables that the kernels of the steps name.
pub(super) struct Variables {
    pub(super) d: Index,
    pub(super) n: Index,
    pub(super) step: Index,
    pub(super) gate: Index,
    pub(super) k: Index,
    pub(super) turn: Index,
    pub(super) unit: Index,
    lane: usize,
    lanes: usize,
}

impl Variables {
    /// Variables in a new space, whose units come in vectors of so many.
    pub(super) fn new(pieces: &Pieces<'_>, lanes: usize) -> (Space, Self) {
        let mut space = Space::default();
        let block = space.push("block", pieces.hidden.div_ceil(lanes));
        let lane = space.push("lane", lanes);
        let unit = Index::sum(&[(block, lanes), (lane, 1)]);
        let mut of = |name: &str, extent: usize| Index::of(space.push(name, extent));
        let variables = Self {
            d: of("d", pieces.directions()),
            n: of("n", pieces.batch),
            step: of("step", pieces.steps),
            gate: of("gate", pieces.op.cell.rows()),
            k: of("k", pieces.hidden),
            turn: of("turn", 2),
            unit,
            lane,
            lanes,
        };
        (space, variables)
    }
}

/// Adds an operand under a name.
pub(super) fn operand(space: &mut Space, name: &str, place: &Place, index: &[&Index]) {
    let binding = match place.at {
        LaunchArg::Memory(arg) => Binding::Arg(arg),
        LaunchArg::Scratchpad { offset } => Binding::Scratchpad(offset),
    };
    let index: Vec<Index> = index.iter().map(|&index| index.clone()).collect();
    space.operand(name, binding, &place.desc, &index);
}

/// Adds another index of the operand of a name.
pub(super) fn alias(space: &mut Space, name: &str, of: &'static str, place: &Place, index: &[&Index]) {
    let index: Vec<Index> = index.iter().map(|&index| index.clone()).collect();
    space.operand(name, Binding::Alias(of), &place.desc, &index);
}

impl Pieces<'_> {
    /// The lanes to try, the best first.
    pub(super) fn lanes(&self) -> &'static [usize] {
        if is_cpu(self.device) && self.value == Value::F32 { &[CPU_LANES, 1] } else { &[1] }
    }

    /// The launch of a kernel of steps, in work-groups for each of `ways` directions; `sums` of a sequence stay in registers. None where
    /// an operand has no vectors.
    pub(super) fn steps(
        &mut self,
        (space, variables): (&Space, &Variables),
        (kernel, text): (&str, &'static str),
        (ways, sums): (usize, usize),
        define: impl FnOnce(&mut Source, usize),
    ) -> Option<()> {
        let Variables { lane, lanes, .. } = *variables;
        if lanes > 1 && !space.has_steps(lane, lanes) {
            return None;
        }
        let elements = [self.rows(), self.directions(), self.op.cell.rows(), self.hidden];
        let wide =
            is_wide(self.desc) || elements.into_iter().fold(1, usize::saturating_mul) > i32::MAX as usize;
        let along = (lanes > 1).then_some(lane);
        let mut source = Source::new(space, self.value, (lanes, along), wide, false);
        source.general().without_streams();
        self.define(&mut source, space);
        let (group, chain, tile) = if is_cpu(self.device) {
            let blocks = self.device.compute_units.max(1).div_ceil(ways);
            let chain = self.batch.div_ceil(blocks).max(FEW_SEQUENCES.min(self.batch)).max(1);
            (1, chain, panels::tile_rows(chain, (TILE / sums).max(1)))
        } else {
            (group_size(self.device).min(self.hidden.next_power_of_two()), 1, 1)
        };
        let each: Vec<String> = (0..tile).map(|i| format!("X({i})")).collect();
        source
            .define("TILE_N", tile)
            .define("EACH_N(X)", each.join(" "))
            .number_of("CHAIN_N", chain)
            .number_of("BATCH", self.batch)
            .number_of("STEPS", self.steps)
            .number_of("HIDDEN", self.hidden)
            .number_of("UNITS", self.units);
        define(&mut source, tile);
        let global = [group, self.batch.div_ceil(chain), ways];
        self.launches.push(source.launch(kernel, &[text], global, Some([group, 1, 1])));
        Some(())
    }

    /// The macros that depend on the cell, the direction and the operands there are.
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
        source
            .define("CELL", cell)
            .define("BACKWARD", backward)
            .define("GATES_COUNT", self.gates())
            .define("PROJECTS", i32::from(self.has(Recurrent::PROJECTION)));
        for name in OPTIONAL {
            let text = if space.find(name).is_some() { "text" } else { "" };
            source.define(format_args!("IF_{name}(text)"), text);
        }
        match self.op.cell {
            Cell::Vanilla(activation) => {
                let slope = match activation {
                    Activation::Relu => "(y > (V)(0) ? (V)(1) : (V)(0))".to_owned(),
                    Activation::LeakyRelu { alpha } => {
                        format!("(y > (V)(0) ? (V)(1) : (V)({}))", self.value.literal(alpha))
                    }
                    Activation::Tanh => "((V)(1) - (y) * (y))".to_owned(),
                    Activation::Logistic => "((y) * ((V)(1) - (y)))".to_owned(),
                };
                source
                    .define("ACTIVATION(x)", eltwise(self.value, activation.function(), "x"))
                    .define("SLOPE(y)", slope);
            }
            Cell::Lstm(order) => {
                let names = ["INPUT_GATE", "FORGET_GATE", "CANDIDATE_GATE", "OUTPUT_GATE"];
                for (name, place) in names.into_iter().zip(order.places()) {
                    source.define(name, place);
                }
                let names = ["INPUT_PEEPHOLE", "FORGET_PEEPHOLE", "OUTPUT_PEEPHOLE"];
                for (name, place) in names.into_iter().zip(order.peepholes()) {
                    source.define(name, place);
                }
            }
            Cell::Gru | Cell::GruLinearBeforeReset => {}
        }
    }
}

/// Operands without which kernels do.
const OPTIONAL: [&str; 22] = [
    "BIAS",
    "STATE_BIAS",
    "INITIAL_STATE",
    "INITIAL_CELL",
    "LENGTHS",
    "PEEPHOLES",
    "ATTENTION",
    "WEIGHTS_SCALES",
    "PROJECTION_SCALES",
    "LAST_STATE",
    "LAST_CELL",
    "WORKSPACE",
    "DIFF_LAST_STATE",
    "DIFF_LAST_CELL",
    "DIFF_INITIAL_STATE",
    "DIFF_INITIAL_CELL",
    "OF_CELL",
    "KEPT",
    "WHOLE",
    "OF_STATES",
    "OF_PEEPHOLES",
    "OF_ATTENTION",
];
