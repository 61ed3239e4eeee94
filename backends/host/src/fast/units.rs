//! The steps of a recurrent layer: some hidden units of one direction, with what a thread keeps from step to step.

use std::ops::Range;

use anydnn_backend::Arg;
use anydnn_backend::op::{Cell, Direction, Recurrent as Op};
use smallvec::SmallVec;

use super::call::{Call, with_own_room};
use super::crew::Member;
use super::panels::Plain;
use super::places::Places;
use super::recurrent::{Recurrent, Strided, write};
use super::sink::WIDTH;
use super::tile::{self, ROWS, Run, Tile};
use super::{Shared, cells};

/// Steps for which it pays to copy the weights into panels.
const PACKED_STEPS: usize = 4;

/// What one thread does in one direction.
pub(super) struct Part<'a, 'c> {
    pub(super) call: &'a Call<'c>,
    pub(super) direction: usize,
    pub(super) units: Range<usize>,
    pub(super) member: Member<'a>,
    pub(super) given: &'a [f32],
    /// Three times the states of all sequences: before and behind a step, and what a reset gate keeps.
    pub(super) states: Shared<'a>,
    /// Whether states of the directions add up.
    pub(super) adds: bool,
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

/// A panel of the weights: its first column, and the numbers between its terms.
type Panel = (*const f32, usize);

impl Recurrent {
    /// The units of one thread in one direction, through all steps.
    pub(super) fn units(&self, part: &mut Part<'_, '_>) {
        let (batch, gates, w) = (self.batch, self.gates(), part.units.len());
        let panels = gates * w.div_ceil(WIDTH) * self.hidden * WIDTH;
        with_own_room((2 + gates) * batch * w + 5 * w + panels, |room| {
            let (state, room) = room.split_at_mut(batch * w);
            let (cell, room) = room.split_at_mut(batch * w);
            let (sums, room) = room.split_at_mut(batch * gates * w);
            let (kept, room) = room.split_at_mut(w);
            let (late, room) = room.split_at_mut(w);
            let (peepholes, panels) = room.split_at_mut(3 * w);
            let panels = self.panels(part, panels);
            for row in 0..batch {
                let at = [part.direction, row];
                self.load(part, self.state.as_ref(), Op::INITIAL_STATE, &at, &mut state[row * w..][..w]);
                self.load(part, self.cell.as_ref(), Op::INITIAL_CELL, &at, &mut cell[row * w..][..w]);
                part.write_state(0, row, &state[row * w..][..w], batch, self.hidden);
            }
            let at = [part.direction, self.early()];
            let bias = self.state_bias.as_ref().filter(|_| self.early() < gates);
            self.load(part, bias, Op::STATE_BIAS, &at, late);
            for (place, peepholes) in peepholes.chunks_exact_mut(w).enumerate() {
                let at = [part.direction, place];
                self.load(part, self.peepholes.as_ref(), Op::PEEPHOLES, &at, peepholes);
            }
            let peepholes = self.peepholes.is_some().then_some(&*peepholes);
            let late = bias.is_some().then_some(&*late);
            self.steps(part, &panels, Own { state, cell, sums, kept, late, peepholes });
        });
    }

    fn steps(&self, part: &mut Part<'_, '_>, panels: &[Panel], own: Own<'_>) {
        let Self { batch, hidden, .. } = *self;
        let (call, gates, w) = (part.call, self.gates(), part.units.len());
        let (index, first) = (part.direction, part.units.start);
        let at_first = if self.op.cell == Cell::Gru { 2 } else { gates };
        let Own { state, cell, sums, kept, late, peepholes } = own;
        // Lengths may lie at any address.
        let lengths = call.bytes(Op::LENGTHS).as_chunks::<4>().0;
        let length = |row: usize| match lengths.get(row).filter(|_| self.has_lengths) {
            None => self.steps,
            Some(&length) => usize::try_from(i32::from_ne_bytes(length)).unwrap_or(0).min(self.steps),
        };
        let longest = (0..batch).map(length).max().unwrap_or(0);
        let all_given = part.given;
        let given_at = |row: usize, step: usize| {
            let rows = self.steps * batch;
            &all_given[((index * rows + step * batch + row) * gates) * hidden + first..]
        };
        part.member.meet();
        for i in 0..longest {
            let step_of = |row: usize| {
                let left = length(row).checked_sub(i + 1)?;
                Some(if self.op.direction.is_backward(index) { left } else { i })
            };
            let now = i % 2;
            // Without an initial state the first products are zero.
            let is_zero = i == 0 && self.state.is_none();
            if is_zero {
                sums.fill(0.0);
            } else {
                self.multiply(part, (now, now), panels, 0..at_first, sums);
            }
            if self.op.cell == Cell::Gru {
                // The product of the candidate needs the reset gate.
                for row in 0..batch {
                    let own = &mut sums[row * gates * w..][..2 * w];
                    if let Some(step) = step_of(row) {
                        let given = given_at(row, step);
                        for (gate, own) in own.chunks_exact_mut(w).enumerate() {
                            cells::gate(call.level, own, &given[gate * hidden..][..w]);
                        }
                    }
                    kept.copy_from_slice(&own[w..]);
                    kept.iter_mut().zip(&state[row * w..]).for_each(|(kept, state)| *kept *= state);
                    part.write_state(2, row, kept, batch, hidden);
                }
                part.member.meet();
                if !is_zero {
                    self.multiply(part, (2, now), panels, at_first..gates, sums);
                }
            }
            for row in 0..batch {
                let own_state = &mut state[row * w..][..w];
                if let Some(step) = step_of(row) {
                    let given = given_at(row, step);
                    let sums = &mut sums[row * gates * w..][..gates * w];
                    match self.op.cell {
                        Cell::Lstm(order) => {
                            let lstm = cells::Lstm { order, sums, given, peepholes, hidden };
                            cells::lstm(call.level, &lstm, own_state, &mut cell[row * w..][..w]);
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
                            if let Some(late) = late {
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
            let last =
                [(&self.last_state, Op::LAST_STATE, &*state), (&self.last_cell, Op::LAST_CELL, &*cell)];
            for (target, arg, of) in last {
                if let Some(target) = target {
                    let place = target.at(&[index, row, first]);
                    write(call.output(arg), place, target.strides[2], &of[row * w..][..w]);
                }
            }
        }
    }

    /// An operand's numbers for this thread's units, its last dimension; zeros without one.
    fn load(
        &self,
        part: &Part<'_, '_>,
        operand: Option<&Strided>,
        arg: Arg,
        at: &[usize; 2],
        to: &mut [f32],
    ) {
        let Some(operand) = operand else { return to.fill(0.0) };
        let data = part.call.input(arg);
        for (i, to) in to.iter_mut().enumerate() {
            *to = data[operand.at(&[at[0], at[1], part.units.start + i])];
        }
    }

    /// The weights of the units, gate by gate: as they lie where they are read a few times, else copied into the room.
    fn panels(&self, part: &Part<'_, '_>, room: &mut [f32]) -> SmallVec<[Panel; 16]> {
        let data = part.call.input(Op::STATE_WEIGHTS);
        let terms = Places::new([(self.hidden, self.state_weights.strides[1])]);
        let of_gate = part.units.len().div_ceil(WIDTH);
        let in_place = self.steps < PACKED_STEPS;
        let mut panels = SmallVec::new();
        for (number, room) in room.chunks_exact_mut(self.hidden * WIDTH).enumerate() {
            let (gate, first) = (number / of_gate, number % of_gate * WIDTH);
            let data = &data[self.state_weights.at(&[part.direction, 0, gate, part.units.start])..];
            let plain = Plain { data, terms: &terms, column: self.state_weights.strides[3] };
            let columns = first..(first + WIDTH).min(part.units.len());
            panels.push(plain.panel(part.call.level, columns, WIDTH, in_place, room));
        }
        panels
    }

    /// The products of all sequences' states with the panels of some gates. Every other turn begins with the last panel, which the cache
    /// still has.
    fn multiply(
        &self,
        part: &Part<'_, '_>,
        (states, turn): (usize, usize),
        panels: &[Panel],
        gates: Range<usize>,
        sums: &mut [f32],
    ) {
        let (level, w) = (part.call.level, part.units.len());
        let of_gate = w.div_ceil(WIDTH);
        let tiles = self.batch.div_ceil(tile::most_rows(level));
        let some = gates.start * of_gate..gates.end * of_gate;
        for i in some.clone() {
            let number = if turn == 0 { i } else { some.end - 1 - (i - some.start) };
            let (panel, stride) = panels[number];
            let (gate, first) = (number / of_gate, number % of_gate * WIDTH);
            let columns = WIDTH.min(w - first);
            for i in 0..tiles {
                let (start, end) = (self.batch * i / tiles, self.batch * (i + 1) / tiles);
                let rows: SmallVec<[*const f32; 16]> = (start..end)
                    .map(|row| part.state(states, row, self.batch, self.hidden).cast_const())
                    .collect();
                let runs = [Run { first: 0, terms: self.hidden }];
                let tile = Tile { runs: &runs, rows: &rows, step: 1, panel, stride, columns };
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

/// What a thread keeps of its units: rows of the sequences.
struct Own<'o> {
    state: &'o mut [f32],
    cell: &'o mut [f32],
    /// For each gate.
    sums: &'o mut [f32],
    /// What a reset gate keeps of a state.
    kept: &'o mut [f32],
    late: Option<&'o [f32]>,
    peepholes: Option<&'o [f32]>,
}
