//! Recurrent layers: one product for the inputs of all steps, then a product for the states of all sequences at each step. Directions have
//! threads of their own, and those of a large layer share the hidden units.

use std::borrow::Cow;
use std::ops::Range;

use anydnn_backend::op::{Cell, Direction, Recurrent};
use anydnn_backend::{Arg, Eltwise, PrimitiveDesc, Result, check_host_memory};

use super::Compute;
use super::element::Float;
use super::gemm::{Matrix, multiply};
use super::operands::{Operands, Results};
use super::pack::pack;
use super::panels::{PANEL, Panels, WIDE_PANEL, rows_product};
use super::parallel::parallel_map;
use super::recurrent_training;
use super::team::{Member, work_together};

/// Products of a step that pay for other threads, and of all steps.
const PARALLEL: usize = 1 << 16;
const PARALLEL_IN_ALL: usize = 1 << 22;
/// Hidden units that a thread has at least.
const LEAST_UNITS: usize = 16;
/// Rows that are multiplied with weights as they lie: a product of many rows packs them first.
const FEW: usize = 6;
/// Steps for which it pays to copy the weights into panels.
const PACKED_STEPS: usize = 8;

/// A layer's operands, dense and row-major.
struct Layer<'a, T: Float> {
    op: Recurrent,
    steps: usize,
    batch: usize,
    inputs: usize,
    hidden: usize,
    /// Columns of the weights: the hidden units of each gate.
    columns: usize,
    src: Cow<'a, [T]>,
    weights: Cow<'a, [T]>,
    state_weights: Cow<'a, [T]>,
    bias: Option<Cow<'a, [T]>>,
    state_bias: Option<Cow<'a, [T]>>,
    state: Option<Cow<'a, [T]>>,
    cell: Option<Cow<'a, [T]>>,
    peepholes: Option<Cow<'a, [T]>>,
    lengths: Vec<usize>,
}

/// What one direction makes: `[T, N, H]`, and `[N, H]` twice.
struct States<T> {
    all: Vec<T>,
    last: Vec<T>,
    cells: Vec<T>,
}

impl<'a, T: Float> Layer<'a, T> {
    fn new(op: Recurrent, operands: &Operands<'a>) -> Result<Self> {
        let desc = operands.desc;
        let (src, dst) = (desc.src().dims(), desc.dst().dims());
        let (steps, batch, inputs, hidden) = (src[0], src[1], src[2], dst[3]);
        let lengths = match operands.find_dense::<i64>(Recurrent::LENGTHS)? {
            None => vec![steps; batch],
            Some(lengths) => lengths.iter().map(|&length| length.clamp(0, steps as i64) as usize).collect(),
        };
        Ok(Self {
            op,
            steps,
            batch,
            inputs,
            hidden,
            columns: op.cell.gates() * hidden,
            src: operands.dense(Arg::SRC)?,
            weights: operands.dense(Arg::Weights)?,
            state_weights: operands.dense(Recurrent::STATE_WEIGHTS)?,
            bias: operands.find_dense(Arg::Bias)?,
            state_bias: operands.find_dense(Recurrent::STATE_BIAS)?,
            state: operands.find_dense(Recurrent::INITIAL_STATE)?,
            cell: operands.find_dense(Recurrent::INITIAL_CELL)?,
            peepholes: operands.find_dense(Recurrent::PEEPHOLES)?,
            lengths,
        })
    }

    /// Part `index` of a tensor whose first dimension are the directions.
    fn own<'s>(&self, tensor: &'s [T], index: usize) -> &'s [T] {
        let size = tensor.len() / self.op.direction.count();
        &tensor[index * size..][..size]
    }

    fn initial(&self, given: Option<&[T]>, index: usize) -> Vec<T> {
        given.map_or_else(|| vec![T::ZERO; self.batch * self.hidden], |all| self.own(all, index).to_vec())
    }

    /// What one direction makes, by so many threads that share the hidden units.
    fn direction(&self, index: usize, members: usize) -> States<T> {
        let Self { steps, batch, inputs, hidden, columns, .. } = *self;
        let mut gates = vec![T::ZERO; steps * batch * columns];
        let src = matrix(&self.src, steps * batch, inputs, inputs);
        let weights = matrix(self.own(&self.weights, index), inputs, columns, columns);
        if steps * batch <= FEW {
            rows_product(&self.src, &weights, 0..columns, &mut gates, columns);
        } else {
            multiply(&src, &weights, &mut gates, columns, true);
        }
        let bias = self.bias.as_deref().map(|bias| self.own(bias, index));
        let state_bias = self.state_bias.as_deref().map(|bias| self.own(bias, index));
        let early = self.early();
        for row in gates.chunks_exact_mut(columns) {
            if let Some(bias) = bias {
                add(row, bias);
            }
            if let Some(bias) = state_bias {
                add(&mut row[..early], &bias[..early]);
            }
        }
        let of = |number: usize| hidden * number / members..hidden * (number + 1) / members;
        let mut parts =
            work_together(members, &|member: Member<'_, T>| self.units(index, &gates, member, &of));
        if members == 1
            && let Some(part) = parts.pop()
        {
            return part;
        }
        let mut states = States {
            all: vec![T::ZERO; steps * batch * hidden],
            last: vec![T::ZERO; batch * hidden],
            cells: vec![T::ZERO; batch * hidden],
        };
        for (number, part) in parts.iter().enumerate() {
            for (to, from) in [
                (&mut states.all, &part.all),
                (&mut states.last, &part.last),
                (&mut states.cells, &part.cells),
            ] {
                place(from, to, hidden, of(number));
            }
        }
        states
    }

    /// Columns whose gates take the state's bias with the input's: the reset gate of one cell multiplies a bias.
    fn early(&self) -> usize {
        if self.op.cell == Cell::GruLinearBeforeReset { 2 * self.hidden } else { self.columns }
    }

    /// The units of one thread: rows of them alone, of the products `[T, N, G, H]` of all inputs with biases.
    fn units(
        &self,
        index: usize,
        gates: &[T],
        mut member: Member<'_, T>,
        of: &dyn Fn(usize) -> Range<usize>,
    ) -> States<T> {
        let Self { steps, batch, hidden, columns, .. } = *self;
        let units = of(member.number);
        let (first, w, count) = (units.start, units.len(), self.op.cell.gates());
        let own_part = |whole: &[T]| -> Vec<T> {
            whole.chunks_exact(hidden).flat_map(|row| &row[units.clone()]).copied().collect()
        };
        let mut before = self.initial(self.state.as_deref(), index);
        let mut states = States {
            all: vec![T::ZERO; steps * batch * w],
            last: own_part(&before),
            cells: own_part(&self.initial(self.cell.as_deref(), index)),
        };
        let late = self.state_bias.as_deref().filter(|_| self.early() < columns);
        let late = late.map(|bias| &self.own(bias, index)[self.early() + first..][..w]);
        let peepholes = self.peepholes.as_deref().map(|peepholes| &self.own(peepholes, index)[first..]);
        let mut sums = vec![T::ZERO; batch * count * w];
        let mut kept = vec![T::ZERO; batch * w];
        let mut all_kept = vec![T::ZERO; batch * hidden];
        let at_first = if self.op.cell == Cell::Gru { 2 } else { count };
        // The products of rows with this thread's columns of some gates.
        let whole = matrix(self.own(&self.state_weights, index), hidden, columns, columns);
        let few = batch <= FEW;
        let packed = (steps >= PACKED_STEPS).then(|| {
            let width = if few { PANEL } else { WIDE_PANEL };
            [0..at_first, at_first..count].map(|gates| {
                let pieces: Vec<_> =
                    gates.map(|gate| gate * hidden + first..gate * hidden + first + w).collect();
                Panels::new(&whole, &pieces, width)
            })
        });
        let products = |rows: &[T], phase: usize, sums: &mut [T]| {
            let gates = [0..at_first, at_first..count][phase].clone();
            let stride = count * w;
            if let Some(packed) = &packed {
                packed[phase].multiply(rows, batch, &mut sums[gates.start * w..], stride);
                return;
            }
            // All gates at once where they are neighbours.
            let joined = w == hidden;
            let pieces = if joined { gates.start..gates.start + 1 } else { gates.clone() };
            let width = if joined { gates.len() * w } else { w };
            for gate in pieces {
                let at = gate * hidden + first;
                let sums = &mut sums[gate * w..];
                if few {
                    rows_product(rows, &whole, at..at + width, sums, stride);
                } else {
                    let part = Matrix { data: &whole.data[at..], columns: width, ..whole };
                    multiply(&matrix(rows, batch, hidden, hidden), &part, sums, stride, false);
                }
            }
        };
        let longest = self.lengths.iter().copied().max().unwrap_or(0);
        for i in 0..longest {
            products(&before, 0, &mut sums);
            let place_of = |row: usize| {
                let left = self.lengths[row].checked_sub(i + 1)?;
                let step = if self.op.direction.is_backward(index) { left } else { i };
                Some(step * batch + row)
            };
            let given = |at: usize, gate: usize| &gates[at * columns + gate * hidden + first..][..w];
            if self.op.cell == Cell::Gru {
                // The product of the candidate needs the reset gate.
                for row in 0..batch {
                    let Some(at) = place_of(row) else { continue };
                    let sums = &mut sums[row * count * w..][..2 * w];
                    for (gate, sums) in sums.chunks_exact_mut(w).enumerate() {
                        add(sums, given(at, gate));
                    }
                    T::eltwise(Eltwise::Sigmoid, sums);
                    let parts = sums[w..].iter().zip(&states.last[row * w..]);
                    kept[row * w..][..w]
                        .iter_mut()
                        .zip(parts)
                        .for_each(|(kept, (&reset, &state))| *kept = reset * state);
                }
                place(&kept, &mut all_kept, hidden, units.clone());
                member.exchange(&kept, |number, part| place(part, &mut all_kept, hidden, of(number)));
                products(&all_kept, 1, &mut sums);
            }
            for row in 0..batch {
                let Some(at) = place_of(row) else { continue };
                let sums = &mut sums[row * count * w..][..count * w];
                let state = &mut states.last[row * w..][..w];
                let candidate = count - 1;
                let before_last = if self.op.cell == Cell::GruLinearBeforeReset { candidate } else { count };
                let from = if self.op.cell == Cell::Gru { candidate } else { 0 };
                for (gate, sums) in sums.chunks_exact_mut(w).enumerate().take(before_last).skip(from) {
                    add(sums, given(at, gate));
                }
                match self.op.cell {
                    Cell::Lstm(_) => self.lstm(sums, peepholes, state, &mut states.cells[row * w..][..w]),
                    Cell::Gru => gru(sums, state),
                    Cell::GruLinearBeforeReset => {
                        let (both, candidate) = sums.split_at_mut(2 * w);
                        T::eltwise(Eltwise::Sigmoid, both);
                        if let Some(bias) = late {
                            add(candidate, bias);
                        }
                        for ((candidate, &reset), &input) in
                            candidate.iter_mut().zip(&both[w..]).zip(given(at, 2))
                        {
                            *candidate = reset * *candidate + input;
                        }
                        gru(sums, state);
                    }
                    Cell::Vanilla(activation) => {
                        T::eltwise(activation.function(), sums);
                        state.copy_from_slice(sums);
                    }
                }
                states.all[at * w..][..w].copy_from_slice(state);
            }
            if i + 1 < longest {
                place(&states.last, &mut before, hidden, units.clone());
                member.exchange(&states.last, |number, part| place(part, &mut before, hidden, of(number)));
            }
        }
        states
    }

    /// The state and the cell behind a step, of the sums of the gates. `peepholes` begin with those of the first unit.
    fn lstm(&self, sums: &mut [T], peepholes: Option<&[T]>, state: &mut [T], cell: &mut [T]) {
        let Cell::Lstm(order) = self.op.cell else { return };
        let w = state.len();
        let [i, f, c, o] = order.places().map(|gate| gate * w);
        let [p_i, p_f, p_o] = order.peepholes().map(|place| place * self.hidden);
        let peep = |sums: &mut [T], gate: usize, place: usize, cell: &[T]| {
            let Some(peepholes) = peepholes else { return };
            for ((sum, &weight), &cell) in sums[gate..][..w].iter_mut().zip(&peepholes[place..]).zip(cell) {
                *sum += weight * cell;
            }
        };
        peep(sums, i, p_i, cell);
        peep(sums, f, p_f, cell);
        T::eltwise(Eltwise::Sigmoid, &mut sums[i..][..w]);
        T::eltwise(Eltwise::Sigmoid, &mut sums[f..][..w]);
        T::eltwise(Eltwise::Tanh, &mut sums[c..][..w]);
        for (unit, cell) in cell.iter_mut().enumerate() {
            *cell = sums[f + unit] * *cell + sums[i + unit] * sums[c + unit];
        }
        peep(sums, o, p_o, cell);
        T::eltwise(Eltwise::Sigmoid, &mut sums[o..][..w]);
        state.copy_from_slice(cell);
        T::eltwise(Eltwise::Tanh, state);
        state.iter_mut().zip(&sums[o..]).for_each(|(state, &output)| *state = output * *state);
    }

    /// Threads that share a direction's units, where a step has enough of them and there are steps enough.
    fn members(&self) -> usize {
        let products = self.batch.saturating_mul(self.hidden).saturating_mul(self.columns);
        if products < PARALLEL || products.saturating_mul(self.steps) < PARALLEL_IN_ALL {
            return 1;
        }
        let threads = rayon::current_num_threads() / self.op.direction.count();
        threads.min(self.hidden / LEAST_UNITS).max(1)
    }
}

/// Rows of some units where rows of all of them are.
fn place<T: Copy>(part: &[T], whole: &mut [T], hidden: usize, units: Range<usize>) {
    for (whole, part) in whole.chunks_exact_mut(hidden).zip(part.chunks_exact(units.len())) {
        whole[units.clone()].copy_from_slice(part);
    }
}

/// The state behind a step, of the update gate and the sums of the candidate.
fn gru<T: Float>(sums: &mut [T], state: &mut [T]) {
    let hidden = state.len();
    T::eltwise(Eltwise::Tanh, &mut sums[2 * hidden..]);
    let minus = T::from_f64(-1.0);
    for ((state, &update), &candidate) in state.iter_mut().zip(&sums[..hidden]).zip(&sums[2 * hidden..]) {
        *state = candidate + update * (*state + minus * candidate);
    }
}

fn add<T: Float>(to: &mut [T], from: &[T]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to += from);
}

fn matrix<T>(data: &[T], rows: usize, columns: usize, row_stride: usize) -> Matrix<'_, T> {
    Matrix { data, rows, columns, row_stride, column_stride: 1 }
}

impl Compute for Recurrent {
    fn implementation(&self, _desc: &PrimitiveDesc) -> &'static str {
        "host:gemm"
    }

    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        let others = [Self::WORKSPACE, Self::ATTENTION, Self::PROJECTION, Self::WEIGHTS_SCALES];
        if others.iter().any(|&arg| operands.desc.find(arg).is_some()) {
            return recurrent_training::forward::<T>(*self, operands, results);
        }
        let layer = Layer::<T>::new(*self, operands)?;
        let rows = layer.steps.saturating_mul(layer.batch);
        let gates = rows.saturating_mul(layer.columns).saturating_mul(self.direction.count());
        check_host_memory(gates.saturating_mul(size_of::<T>()), || "the gates of all steps".into())?;
        let members = layer.members();
        let made = parallel_map(self.direction.count(), &|index| layer.direction(index, members));
        let (desc, hidden) = (operands.desc, layer.hidden);
        let shown = desc.dst().dims()[2];
        let mut all = vec![T::ZERO; rows * shown * hidden];
        for (index, states) in made.iter().enumerate() {
            let place = if self.direction == Direction::Sum { 0 } else { index };
            for (all, states) in all.chunks_exact_mut(shown * hidden).zip(states.all.chunks_exact(hidden)) {
                add(&mut all[place * hidden..][..hidden], states);
            }
        }
        pack(desc.dst(), &all, results.dst()?)?;
        for (arg, of) in [
            (
                Recurrent::LAST_STATE,
                (|states: &States<T>| &*states.last) as for<'s> fn(&'s States<T>) -> &'s [T],
            ),
            (Recurrent::LAST_CELL, |states| &states.cells),
        ] {
            if let Some(last) = desc.find(arg)
                && let Some(bytes) = results.find(arg)
            {
                pack(last, &made.iter().flat_map(of).copied().collect::<Vec<T>>(), bytes)?;
            }
        }
        Ok(())
    }

    /// Integers of a quantised layer.
    fn sums_products(&self) -> bool {
        self.quantization.is_some()
    }

    fn uses_value_of(&self, arg: Arg) -> bool {
        arg != Self::LENGTHS
    }
}
