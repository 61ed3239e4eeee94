//! Recurrent layers: one product for the inputs of all steps, then a product for the states of all sequences at each step. Threads share
//! the directions and the hidden units, each with its part of the weights in panels, and meet after every step.

use anydnn_backend::op::{Cell, Direction, Recurrent as Op};
use anydnn_backend::{Arg, DataType, MemoryDesc, PrimitiveDesc};
use smallvec::SmallVec;

use super::call::{Call, Rooms};
use super::cells;
use super::crew::Meeting;
use super::panels::Plain;
use super::places::{Places, strides_of};
use super::sink::WIDTH;
use super::tile::{self, ROWS, Run, Tile};
use super::units::Part;
use super::{Fast, Shared};

/// Products of a step that pay for other threads.
const SHARED: usize = 1 << 15;
/// Products of all inputs that pay for other threads.
const ALONE: usize = 1 << 16;
/// Tiles of rows from which on weights are copied into panels.
const PACKED_TILES: usize = 3;
/// Hidden units that a thread has at least.
const LEAST_UNITS: usize = 16;

#[derive(Debug)]
pub(super) struct Recurrent {
    pub(super) op: Op,
    pub(super) steps: usize,
    pub(super) batch: usize,
    inputs: usize,
    pub(super) hidden: usize,
    src: Strided,
    weights: Strided,
    pub(super) state_weights: Strided,
    bias: Option<Strided>,
    pub(super) state_bias: Option<Strided>,
    pub(super) state: Option<Strided>,
    pub(super) cell: Option<Strided>,
    pub(super) peepholes: Option<Strided>,
    pub(super) has_lengths: bool,
    pub(super) dst: Strided,
    pub(super) last_state: Option<Strided>,
    pub(super) last_cell: Option<Strided>,
    rooms: Rooms,
}

/// A tensor of up to four dimensions.
#[derive(Clone, Debug)]
pub(super) struct Strided {
    first: usize,
    pub(super) strides: SmallVec<[usize; 4]>,
}

impl Strided {
    fn new(desc: &MemoryDesc) -> Option<Self> {
        let (strides, first) = strides_of(desc, desc.dims())?;
        Some(Self { first, strides: SmallVec::from_slice(&strides) })
    }

    pub(super) fn at(&self, index: &[usize]) -> usize {
        self.first + self.strides.iter().zip(index).map(|(stride, index)| stride * index).sum::<usize>()
    }
}

impl Recurrent {
    pub(super) fn new(op: &Op, desc: &PrimitiveDesc) -> Option<Self> {
        let others = [Op::WORKSPACE, Op::ATTENTION, Op::PROJECTION, Op::WEIGHTS_SCALES];
        let no_form = op.quantization.is_some()
            || others.iter().any(|&arg| desc.find(arg).is_some())
            || !desc.attributes().post_ops.is_empty()
            || desc.dst().elements() == 0
            || desc.src().elements() == 0;
        if no_form {
            return None;
        }
        let required = |arg: Arg| Strided::new(desc.find(arg)?);
        let optional = |arg: Arg| match desc.find(arg) {
            None => Some(None),
            Some(found) => Strided::new(found).map(Some),
        };
        let lengths = desc.find(Op::LENGTHS);
        if lengths.is_some_and(|lengths| lengths.data_type() != DataType::S32 || !lengths.is_row_major()) {
            return None;
        }
        let (src, dst) = (desc.src().dims(), desc.dst().dims());
        Some(Self {
            op: *op,
            steps: src[0],
            batch: src[1],
            inputs: src[2],
            hidden: dst[3],
            src: required(Arg::SRC)?,
            weights: required(Arg::Weights)?,
            state_weights: required(Op::STATE_WEIGHTS)?,
            bias: optional(Arg::Bias)?,
            state_bias: optional(Op::STATE_BIAS)?,
            state: optional(Op::INITIAL_STATE)?,
            cell: optional(Op::INITIAL_CELL)?,
            peepholes: optional(Op::PEEPHOLES)?,
            has_lengths: lengths.is_some(),
            dst: required(Arg::DST)?,
            last_state: optional(Op::LAST_STATE)?,
            last_cell: optional(Op::LAST_CELL)?,
            rooms: Rooms::default(),
        })
    }

    pub(super) fn gates(&self) -> usize {
        self.op.cell.gates()
    }

    fn columns(&self) -> usize {
        self.gates() * self.hidden
    }

    /// Gates that take the state's bias with the input's: the reset gate of one cell multiplies a bias.
    pub(super) fn early(&self) -> usize {
        if self.op.cell == Cell::GruLinearBeforeReset { 2 } else { self.gates() }
    }

    /// Threads that share the layer.
    fn members(&self, call: &Call<'_>) -> usize {
        let directions = self.op.direction.count();
        let products = self.batch.saturating_mul(self.hidden).saturating_mul(self.columns());
        let has_products = self.steps > 1 || self.state.is_some();
        let units = if products < SHARED || !has_products { 1 } else { (self.hidden / LEAST_UNITS).max(1) };
        let wanted = (directions * units).min(call.crew.threads());
        // Every direction has as many.
        if wanted > directions { wanted / directions * directions } else { wanted }
    }

    /// The products of all inputs with biases: `[T, N, G, H]` of each direction.
    fn given(&self, call: &Call<'_>, given: &mut [f32]) {
        let (rows, columns) = (self.steps * self.batch, self.columns());
        let directions = self.op.direction.count();
        let src = call.input(Arg::SRC);
        let weights = call.input(Arg::Weights);
        let step = self.src.strides[2];
        let reach = (self.inputs - 1) * step + 1;
        let panels_of_gate = self.hidden.div_ceil(WIDTH);
        let panels = self.gates() * panels_of_gate;
        let tiles = rows.div_ceil(tile::most_rows(call.level));
        let terms = Places::new([(self.inputs, self.weights.strides[1])]);
        let shared = Shared::new(given);
        let products = rows * columns * self.inputs;
        let threads = if products * directions < ALONE { 1 } else { 4 * call.crew.threads() };
        let row_blocks = threads.div_ceil(directions * panels).min(tiles.div_ceil(4)).max(1);
        let work = |task: usize| {
            let (rest, block) = (task / row_blocks, task % row_blocks);
            let (direction, panel) = (rest / panels, rest % panels);
            let (gate, first) = (panel / panels_of_gate, panel % panels_of_gate * WIDTH);
            let count = WIDTH.min(self.hidden - first);
            let data = &weights[self.weights.at(&[direction, 0, gate, 0])..];
            let plain = Plain { data, terms: &terms, column: self.weights.strides[3] };
            let mut biases = [0.0; WIDTH];
            self.biases(call, direction, gate, first, &mut biases[..count]);
            super::call::with_own_room(self.inputs * WIDTH, |room| {
                let in_place = tiles < PACKED_TILES;
                let (panel, stride) = plain.panel(call.level, first..first + count, WIDTH, in_place, room);
                for i in tiles * block / row_blocks..tiles * (block + 1) / row_blocks {
                    let (start, end) = (rows * i / tiles, rows * (i + 1) / tiles);
                    let pointers: SmallVec<[*const f32; ROWS]> = (start..end)
                        .map(|row| {
                            src[self.src.at(&[row / self.batch, row % self.batch, 0])..][..reach].as_ptr()
                        })
                        .collect();
                    let tile = Tile {
                        runs: &[Run { first: 0, terms: self.inputs }],
                        rows: &pointers,
                        step,
                        panel,
                        stride,
                        columns: count,
                    };
                    let mut sums = [0.0; ROWS * WIDTH];
                    // SAFETY: every row reaches its terms, and the panel holds all of them.
                    unsafe { tile::multiply(call.level, end - start, &tile, &mut sums, false) };
                    for (row, sums) in (start..end).zip(sums.chunks_exact_mut(WIDTH)) {
                        cells::add(call.level, &mut sums[..count], &biases[..count]);
                        let place = ((direction * rows + row) * self.gates() + gate) * self.hidden + first;
                        // SAFETY: every task has rows and columns of its own.
                        let to = unsafe { shared.part(place, count) };
                        to.copy_from_slice(&sums[..count]);
                    }
                }
            });
        };
        call.crew.run(directions * panels * row_blocks, &work);
    }

    fn biases(&self, call: &Call<'_>, direction: usize, gate: usize, first: usize, to: &mut [f32]) {
        let with_state = gate < self.early();
        for (bias, arg) in [(&self.bias, Arg::Bias), (&self.state_bias, Op::STATE_BIAS)] {
            if let Some(bias) = bias.as_ref().filter(|_| arg == Arg::Bias || with_state) {
                let data = call.input(arg);
                for (i, to) in to.iter_mut().enumerate() {
                    *to += data[bias.at(&[direction, gate, first + i])];
                }
            }
        }
    }
}

impl Fast for Recurrent {
    fn name(&self) -> &'static str {
        "host:team"
    }

    fn run(&self, call: &Call<'_>) {
        let directions = self.op.direction.count();
        let given = directions * self.steps * self.batch * self.columns();
        let adds = self.op.direction == Direction::Sum;
        if adds || self.has_lengths {
            self.clear(call);
        }
        self.rooms.with(given + directions * 3 * self.batch * self.hidden, |room| {
            let (given, states) = room.split_at_mut(given);
            self.given(call, given);
            let (given, states) = (&*given, Shared::new(states));
            let meetings: SmallVec<[Meeting; 2]> = (0..directions).map(|_| Meeting::default()).collect();
            // States that add up are computed by one thread after the other.
            let members = if adds { 1 } else { self.members(call) };
            call.crew.run_together(members, &|number, members| {
                // Several threads share a direction, or one has several.
                let of_each = (members / directions).max(1);
                let part = if members > directions { number / directions } else { 0 };
                for direction in (number % directions..directions).step_by(members.min(directions)) {
                    let units = self.hidden * part / of_each..self.hidden * (part + 1) / of_each;
                    let member = meetings[direction].join(of_each);
                    self.units(&mut Part { call, direction, units, member, given, states, adds });
                }
            });
        });
    }
}

impl Recurrent {
    /// Zeros where no state is shown.
    fn clear(&self, call: &Call<'_>) {
        let shown = if self.op.direction == Direction::Sum { 1 } else { self.op.direction.count() };
        let zeros = vec![0.0; self.hidden];
        for (step, row) in (0..self.steps).flat_map(|step| (0..self.batch).map(move |row| (step, row))) {
            for place in 0..shown {
                let at = self.dst.at(&[step, row, place, 0]);
                write(call.output(Arg::DST), at, self.dst.strides[3], &zeros);
            }
        }
    }
}

/// Writes neighbours, `stride` apart. No other thread writes them, or reads them before the next meeting.
pub(super) fn write(to: Shared<'_>, first: usize, stride: usize, from: &[f32]) {
    let Some(last) = from.len().checked_sub(1) else { return };
    let to = to.pointer(first, last * stride + 1);
    for (i, value) in from.iter().enumerate() {
        // SAFETY: the place is inside, and units and rows of the caller's own are nobody else's.
        unsafe { *to.add(i * stride) = *value };
    }
}
