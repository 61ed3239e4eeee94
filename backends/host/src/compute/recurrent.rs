//! Recurrent layers: one product for the inputs of all steps, then a product for the states of all sequences at each step.

use std::borrow::Cow;

use anydnn_backend::op::{Activation, Cell, Direction, Recurrent};
use anydnn_backend::{Arg, Eltwise, PrimitiveDesc, Result, check_host_memory};

use super::Compute;
use super::element::Float;
use super::gemm::{Matrix, multiply};
use super::operands::{Operands, Results};
use super::pack::pack;
use super::parallel::parallel_map;

/// Products of a step that pay for waking other threads.
const PARALLEL: usize = 1 << 19;

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

    fn direction(&self, index: usize) -> States<T> {
        let Self { steps, batch, inputs, hidden, columns, .. } = *self;
        let alone = self.op.direction.count() == 1;
        let mut gates = vec![T::ZERO; steps * batch * columns];
        let src = matrix(&self.src, steps * batch, inputs, inputs);
        let weights = matrix(self.own(&self.weights, index), inputs, columns, columns);
        multiply(&src, &weights, &mut gates, columns, true);
        let bias = self.bias.as_deref().map(|bias| self.own(bias, index));
        let state_bias = self.state_bias.as_deref().map(|bias| self.own(bias, index));
        // The reset gate of this cell multiplies a bias.
        let early = if self.op.cell == Cell::GruLinearBeforeReset { 2 * hidden } else { columns };
        let late = state_bias.filter(|_| early < columns).map(|bias| &bias[early..]);
        for row in gates.chunks_exact_mut(columns) {
            if let Some(bias) = bias {
                add(row, bias);
            }
            if let Some(bias) = state_bias {
                add(&mut row[..early], &bias[..early]);
            }
        }
        let state_weights = self.own(&self.state_weights, index);
        let mut states = States {
            all: vec![T::ZERO; steps * batch * hidden],
            last: self.initial(self.state.as_deref(), index),
            cells: self.initial(self.cell.as_deref(), index),
        };
        let peepholes = self.peepholes.as_deref().map(|peepholes| self.own(peepholes, index));
        let mut sums = vec![T::ZERO; batch * columns];
        let mut kept = vec![T::ZERO; batch * hidden];
        let parallel = alone && batch * hidden * columns >= PARALLEL;
        let first = if self.op.cell == Cell::Gru { 2 * hidden } else { columns };
        for i in 0..self.lengths.iter().copied().max().unwrap_or(0) {
            let of_state = matrix(&states.last, batch, hidden, hidden);
            multiply(&of_state, &matrix(state_weights, hidden, first, columns), &mut sums, columns, parallel);
            let place = |row: usize| {
                let left = self.lengths[row].checked_sub(i + 1)?;
                let step = if self.op.direction.is_backward(index) { left } else { i };
                Some(step * batch + row)
            };
            if self.op.cell == Cell::Gru {
                // The product of the candidate needs the reset gate.
                for row in 0..batch {
                    let Some(at) = place(row) else { continue };
                    let sums = &mut sums[row * columns..][..2 * hidden];
                    add(sums, &gates[at * columns..][..2 * hidden]);
                    T::eltwise(Eltwise::Sigmoid, sums);
                    let parts = sums[hidden..].iter().zip(&states.last[row * hidden..]);
                    kept[row * hidden..][..hidden]
                        .iter_mut()
                        .zip(parts)
                        .for_each(|(kept, (&reset, &state))| *kept = reset * state);
                }
                let candidate = matrix(&state_weights[first..], hidden, hidden, columns);
                let kept = matrix(&kept, batch, hidden, hidden);
                multiply(&kept, &candidate, &mut sums[first..], columns, parallel);
            }
            for row in 0..batch {
                let Some(at) = place(row) else { continue };
                let sums = &mut sums[row * columns..][..columns];
                let gates = &gates[at * columns..][..columns];
                let state = &mut states.last[row * hidden..][..hidden];
                match self.op.cell {
                    Cell::Lstm(_) => {
                        let cell = &mut states.cells[row * hidden..][..hidden];
                        add(sums, gates);
                        self.lstm(sums, peepholes, state, cell);
                    }
                    Cell::Gru => {
                        add(&mut sums[first..], &gates[first..]);
                        gru(sums, state);
                    }
                    Cell::GruLinearBeforeReset => {
                        let (both, candidate) = sums.split_at_mut(early);
                        add(both, &gates[..early]);
                        T::eltwise(Eltwise::Sigmoid, both);
                        if let Some(bias) = late {
                            add(candidate, bias);
                        }
                        for ((candidate, &reset), &input) in
                            candidate.iter_mut().zip(&both[hidden..]).zip(&gates[early..])
                        {
                            *candidate = reset * *candidate + input;
                        }
                        gru(sums, state);
                    }
                    Cell::Vanilla(activation) => {
                        add(sums, gates);
                        T::eltwise(function(activation), sums);
                        state.copy_from_slice(sums);
                    }
                }
                states.all[at * hidden..][..hidden].copy_from_slice(state);
            }
        }
        states
    }

    /// The state and the cell behind a step, of the sums of the gates.
    fn lstm(&self, sums: &mut [T], peepholes: Option<&[T]>, state: &mut [T], cell: &mut [T]) {
        let Cell::Lstm(order) = self.op.cell else { return };
        let hidden = self.hidden;
        let [i, f, c, o] = order.places().map(|gate| gate * hidden);
        let [p_i, p_f, p_o] = order.peepholes().map(|place| place * hidden);
        let peep = |sums: &mut [T], gate: usize, place: usize, cell: &[T]| {
            let Some(peepholes) = peepholes else { return };
            for ((sum, &weight), &cell) in
                sums[gate..][..hidden].iter_mut().zip(&peepholes[place..]).zip(cell)
            {
                *sum += weight * cell;
            }
        };
        peep(sums, i, p_i, cell);
        peep(sums, f, p_f, cell);
        T::eltwise(Eltwise::Sigmoid, &mut sums[i..][..hidden]);
        T::eltwise(Eltwise::Sigmoid, &mut sums[f..][..hidden]);
        T::eltwise(Eltwise::Tanh, &mut sums[c..][..hidden]);
        for (unit, cell) in cell.iter_mut().enumerate() {
            *cell = sums[f + unit] * *cell + sums[i + unit] * sums[c + unit];
        }
        peep(sums, o, p_o, cell);
        T::eltwise(Eltwise::Sigmoid, &mut sums[o..][..hidden]);
        state.copy_from_slice(cell);
        T::eltwise(Eltwise::Tanh, state);
        state.iter_mut().zip(&sums[o..]).for_each(|(state, &output)| *state = output * *state);
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

fn function(activation: Activation) -> Eltwise {
    match activation {
        Activation::Relu => Eltwise::Relu,
        Activation::Logistic => Eltwise::Sigmoid,
        Activation::Tanh => Eltwise::Tanh,
    }
}

fn matrix<T>(data: &[T], rows: usize, columns: usize, row_stride: usize) -> Matrix<'_, T> {
    Matrix { data, rows, columns, row_stride, column_stride: 1 }
}

impl Compute for Recurrent {
    fn implementation(&self, _desc: &PrimitiveDesc) -> &'static str {
        "host:gemm"
    }

    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        let layer = Layer::<T>::new(*self, operands)?;
        let rows = layer.steps.saturating_mul(layer.batch);
        let gates = rows.saturating_mul(layer.columns).saturating_mul(self.direction.count());
        check_host_memory(gates.saturating_mul(size_of::<T>()), || "the gates of all steps".into())?;
        let made = parallel_map(self.direction.count(), &|index| layer.direction(index));
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

    fn uses_value_of(&self, arg: Arg) -> bool {
        arg != Self::LENGTHS
    }
}
