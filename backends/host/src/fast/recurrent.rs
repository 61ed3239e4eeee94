//! Recurrent layers: one product for the inputs of all steps, then a product for the states of all sequences at each step. Threads share
//! the directions and the hidden units, each with its part of the weights in panels, and meet after every step.

use std::ops::Range;

use anydnn_backend::op::{Cell, Direction, Recurrent as Op};
use anydnn_backend::{Arg, DataType, MemoryDesc, PrimitiveDesc};
use smallvec::SmallVec;

use super::call::{Call, Rooms};
use super::cells;
use super::crew::{Meeting, Member};
use super::panels::Plain;
use super::places::{Places, strides_of};
use super::tile::{self, ROWS, Run, Tile, WIDTH};
use super::{Fast, Shared};

/// Products of a step that pay for other threads.
const SHARED: usize = 1 << 15;
/// Products of all inputs that pay for other threads.
const ALONE: usize = 1 << 16;
/// Hidden units that a thread has at least.
const LEAST_UNITS: usize = 16;

#[derive(Debug)]
pub(super) struct Recurrent {
    op: Op,
    steps: usize,
    batch: usize,
    inputs: usize,
    hidden: usize,
    src: Strided,
    weights: Strided,
    state_weights: Strided,
    bias: Option<Strided>,
    state_bias: Option<Strided>,
    state: Option<Strided>,
    cell: Option<Strided>,
    peepholes: Option<Strided>,
    has_lengths: bool,
    dst: Strided,
    last_state: Option<Strided>,
    last_cell: Option<Strided>,
    rooms: Rooms,
}

/// A tensor of up to four dimensions.
#[derive(Clone, Debug)]
struct Strided {
    first: usize,
    strides: SmallVec<[usize; 4]>,
}

impl Strided {
    fn new(desc: &MemoryDesc) -> Option<Self> {
        let (strides, first) = strides_of(desc, desc.dims())?;
        Some(Self { first, strides: SmallVec::from_slice(&strides) })
    }

    fn at(&self, index: &[usize]) -> usize {
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

    fn gates(&self) -> usize {
        self.op.cell.gates()
    }

    fn columns(&self) -> usize {
        self.gates() * self.hidden
    }

    /// Gates that take the state's bias with the input's: the reset gate of one cell multiplies a bias.
    fn early(&self) -> usize {
        if self.op.cell == Cell::GruLinearBeforeReset { 2 } else { self.gates() }
    }

    /// Threads that share the layer.
    fn members(&self, call: &Call<'_>) -> usize {
        let directions = self.op.direction.count();
        let products = self.batch.saturating_mul(self.hidden).saturating_mul(self.columns());
        let units = if products < SHARED { 1 } else { (self.hidden / LEAST_UNITS).max(1) };
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
                plain.pack(call.level, first, count, WIDTH, room);
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
                        panel: room.as_ptr(),
                        stride: WIDTH,
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

    /// The units of one thread in one direction, through all steps.
    fn units(&self, part: &mut Part<'_, '_>) {
        let Self { batch, hidden, .. } = *self;
        let call = part.call;
        let gates = self.gates();
        let (first, w) = (part.units.start, part.units.len());
        let index = part.direction;
        let at_first = if self.op.cell == Cell::Gru { 2 } else { gates };
        let own_vector = |operand: &Option<Strided>, arg: Arg, at: &[usize]| -> Vec<f32> {
            let data = call.input(arg);
            let index =
                |i: usize| -> SmallVec<[usize; 4]> { at.iter().copied().chain([first + i]).collect() };
            operand
                .as_ref()
                .map_or_else(|| vec![0.0; w], |operand| (0..w).map(|i| data[operand.at(&index(i))]).collect())
        };
        let mut cell: Vec<f32> =
            (0..batch).flat_map(|row| own_vector(&self.cell, Op::INITIAL_CELL, &[index, row])).collect();
        let state: Vec<f32> =
            (0..batch).flat_map(|row| own_vector(&self.state, Op::INITIAL_STATE, &[index, row])).collect();
        for (row, state) in state.chunks_exact(w).enumerate() {
            part.write_state(0, row, state, batch, hidden);
        }
        let late = (self.state_bias.is_some() && self.early() < gates)
            .then(|| own_vector(&self.state_bias, Op::STATE_BIAS, &[index, self.early()]));
        let peepholes: Option<Vec<f32>> = self.peepholes.as_ref().map(|peepholes| {
            let data = call.input(Op::PEEPHOLES);
            (0..3)
                .flat_map(|place| (0..w).map(move |i| (place, i)))
                .map(|(place, i)| data[peepholes.at(&[index, place, first + i])])
                .collect()
        });
        let mut state = state;
        let mut sums = vec![0.0; batch * gates * w];
        let mut given_row = vec![0.0; gates * w];
        let phases = [0..at_first, at_first..gates];
        let panels: [Vec<f32>; 2] = phases.clone().map(|gates| self.panels(call, index, gates, &part.units));
        let lengths: &[i32] = if self.has_lengths {
            bytemuck::try_cast_slice(&call.bytes(Op::LENGTHS)[..4 * batch]).unwrap_or(&[])
        } else {
            &[]
        };
        let length = |row: usize| {
            lengths
                .get(row)
                .map_or(self.steps, |&length| usize::try_from(length).unwrap_or(0).min(self.steps))
        };
        let longest = (0..batch).map(length).max().unwrap_or(0);
        part.member.meet();
        for i in 0..longest {
            let place_of = |row: usize| {
                let left = length(row).checked_sub(i + 1)?;
                Some(if self.op.direction.is_backward(index) { left } else { i })
            };
            let now = i % 2;
            self.multiply(part, now, &panels[0], phases[0].clone(), &mut sums);
            let given_at = |row: usize, step: usize| {
                let rows = self.steps * batch;
                &part.given[((index * rows + step * batch + row) * gates) * hidden + first..]
            };
            if self.op.cell == Cell::Gru {
                // The product of the candidate needs the reset gate.
                for row in 0..batch {
                    let own = &mut sums[row * gates * w..][..2 * w];
                    if let Some(step) = place_of(row) {
                        let given = given_at(row, step);
                        for (gate, own) in own.chunks_exact_mut(w).enumerate() {
                            cells::gate(call.level, own, &given[gate * hidden..][..w]);
                        }
                    }
                    let kept: &mut [f32] = &mut given_row[..w];
                    kept.copy_from_slice(&own[w..]);
                    let of_row = &state[row * w..][..w];
                    kept.iter_mut().zip(of_row).for_each(|(kept, state)| *kept *= state);
                    part.write_state(2, row, kept, batch, hidden);
                }
                part.member.meet();
                self.multiply(part, 2, &panels[1], phases[1].clone(), &mut sums);
            }
            for row in 0..batch {
                let own_state = &mut state[row * w..][..w];
                if let Some(step) = place_of(row) {
                    let rows = self.steps * batch;
                    let given = &part.given[((index * rows + step * batch + row) * gates) * hidden + first..];
                    let sums = &mut sums[row * gates * w..][..gates * w];
                    match self.op.cell {
                        Cell::Lstm(order) => {
                            let lstm =
                                cells::Lstm { order, sums, given, peepholes: peepholes.as_deref(), hidden };
                            cells::lstm(call.level, lstm, own_state, &mut cell[row * w..][..w]);
                        }
                        Cell::Gru => {
                            let (both, candidate) = sums.split_at_mut(2 * w);
                            cells::add(call.level, candidate, &given[2 * hidden..][..w]);
                            cells::gru(call.level, &both[..w], candidate, own_state);
                        }
                        Cell::GruLinearBeforeReset => {
                            let (both, candidate) = sums.split_at_mut(2 * w);
                            for (gate, own) in both.chunks_exact_mut(w).enumerate() {
                                cells::gate(call.level, own, &given[gate * hidden..][..w]);
                            }
                            if let Some(late) = &late {
                                cells::add(call.level, candidate, late);
                            }
                            cells::reset(call.level, candidate, &both[w..], &given[2 * hidden..][..w]);
                            cells::gru(call.level, &both[..w], candidate, own_state);
                        }
                        Cell::Vanilla(activation) => {
                            cells::add(call.level, sums, &given[..w]);
                            cells::vanilla(call.level, activation, sums);
                            own_state.copy_from_slice(sums);
                        }
                    }
                    part.show(self, step, row, own_state);
                }
                part.write_state(1 - now, row, own_state, batch, hidden);
            }
            part.member.meet();
        }
        for row in 0..batch {
            for (target, arg, of) in
                [(&self.last_state, Op::LAST_STATE, &state), (&self.last_cell, Op::LAST_CELL, &cell)]
            {
                if let Some(target) = target {
                    let place = target.at(&[index, row, first]);
                    write(call.output(arg), place, target.strides[2], &of[row * w..][..w]);
                }
            }
        }
    }

    /// The weights of some gates' units, in panels.
    fn panels(
        &self,
        call: &Call<'_>,
        direction: usize,
        gates: Range<usize>,
        units: &Range<usize>,
    ) -> Vec<f32> {
        let data = call.input(Op::STATE_WEIGHTS);
        let terms = Places::new([(self.hidden, self.state_weights.strides[1])]);
        let size = self.hidden * WIDTH;
        let panels = units.len().div_ceil(WIDTH);
        let mut all = vec![0.0; gates.len() * panels * size];
        for (number, panel) in all.chunks_exact_mut(size).enumerate() {
            let (gate, first) = (gates.start + number / panels, number % panels * WIDTH);
            let data = &data[self.state_weights.at(&[direction, 0, gate, units.start])..];
            let plain = Plain { data, terms: &terms, column: self.state_weights.strides[3] };
            plain.pack(call.level, first, WIDTH.min(units.len() - first), WIDTH, panel);
        }
        all
    }

    /// The products of all sequences' states with the panels of some gates.
    fn multiply(
        &self,
        part: &Part<'_, '_>,
        states: usize,
        panels: &[f32],
        gates: Range<usize>,
        sums: &mut [f32],
    ) {
        let (level, w) = (part.call.level, part.units.len());
        let size = self.hidden * WIDTH;
        let of_gate = w.div_ceil(WIDTH);
        let tiles = self.batch.div_ceil(tile::most_rows(level));
        for (number, panel) in panels.chunks_exact(size).enumerate() {
            let (gate, first) = (gates.start + number / of_gate, number % of_gate * WIDTH);
            let columns = WIDTH.min(w - first);
            for i in 0..tiles {
                let (start, end) = (self.batch * i / tiles, self.batch * (i + 1) / tiles);
                let rows: SmallVec<[*const f32; ROWS]> = (start..end)
                    .map(|row| part.state(states, row, self.batch, self.hidden).cast_const())
                    .collect();
                let tile = Tile {
                    runs: &[Run { first: 0, terms: self.hidden }],
                    rows: &rows,
                    step: 1,
                    panel: panel.as_ptr(),
                    stride: WIDTH,
                    columns,
                };
                let mut made = [0.0; ROWS * WIDTH];
                // SAFETY: every state has all hidden units, and the panel all of their terms. Nobody writes these states before the next
                // meeting.
                unsafe { tile::multiply(level, end - start, &tile, &mut made, false) };
                for (row, made) in (start..end).zip(made.chunks_exact(WIDTH)) {
                    let to = (row * self.gates() + gate) * w + first;
                    sums[to..][..columns].copy_from_slice(&made[..columns]);
                }
            }
        }
    }
}

/// What one thread does in one direction.
struct Part<'a, 'c> {
    call: &'a Call<'c>,
    direction: usize,
    units: Range<usize>,
    member: Member<'a>,
    given: &'a [f32],
    /// Three times the states of all sequences: before and behind a step, and what a reset gate keeps.
    states: Shared<'a>,
    adds: bool,
}

impl Part<'_, '_> {
    fn state(&self, which: usize, row: usize, batch: usize, hidden: usize) -> *mut f32 {
        let place = ((self.direction * 3 + which) * batch + row) * hidden;
        self.states.pointer(place, hidden)
    }

    fn write_state(&self, which: usize, row: usize, own: &[f32], batch: usize, hidden: usize) {
        let place = ((self.direction * 3 + which) * batch + row) * hidden + self.units.start;
        write(self.states, place, 1, own);
    }

    /// Writes a state into the result.
    fn show(&self, plan: &Recurrent, step: usize, row: usize, state: &[f32]) {
        let place = if plan.op.direction == Direction::Sum { 0 } else { self.direction };
        let at = plan.dst.at(&[step, row, place, self.units.start]);
        let target = self.call.output(Arg::DST);
        if self.adds {
            let stride = plan.dst.strides[3];
            for (i, value) in state.iter().enumerate() {
                // SAFETY: the result was cleared, and one thread computes all directions.
                let to = unsafe { target.part(at + i * stride, 1) };
                to[0] += value;
            }
            return;
        }
        write(target, at, plan.dst.strides[3], state);
    }
}

/// Writes neighbours, `stride` apart. No other thread writes them, or reads them before the next meeting.
fn write(to: Shared<'_>, first: usize, stride: usize, from: &[f32]) {
    let Some(last) = from.len().checked_sub(1) else { return };
    let to = to.pointer(first, last * stride + 1);
    for (i, value) in from.iter().enumerate() {
        // SAFETY: the place is inside, and units and rows of the caller's own are nobody else's.
        unsafe { *to.add(i * stride) = *value };
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
                let of_each = (members / directions).max(1);
                for direction in (0..directions).filter(|direction| {
                    direction % members.min(directions) == number % members.min(directions)
                }) {
                    let number = if members > directions { number / directions } else { 0 };
                    let units = self.hidden * number / of_each..self.hidden * (number + 1) / of_each;
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
