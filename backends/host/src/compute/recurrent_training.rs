//! Recurrent layers that keep what gradients need, with attention and projections, and those of integers: a product for the inputs of all steps,
//! then one for the states of all sequences at each step.

use std::borrow::Cow;

use anydnn_backend::op::{Cell, Direction, Recurrent, StateQuantization};
use anydnn_backend::{Arg, DataType, Eltwise, MemoryDesc, Result, check_host_memory};

use super::element::Float;
use super::gemm::{Matrix, multiply};
use super::operands::{Operands, Results};
use super::pack::pack;
use super::parallel::parallel_map;
use super::view::View;

/// Products of a step that pay for waking other threads.
pub(super) const PARALLEL: usize = 1 << 19;

/// The sizes of a layer.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    pub(super) op: Recurrent,
    pub(super) steps: usize,
    pub(super) batch: usize,
    pub(super) inputs: usize,
    pub(super) hidden: usize,
    /// Units of a state.
    pub(super) units: usize,
    /// Columns of the weights: the hidden units of each gate.
    pub(super) columns: usize,
    pub(super) lengths: Vec<usize>,
}

impl Sizes {
    pub(super) fn new(op: Recurrent, operands: &Operands<'_>) -> Result<Self> {
        let (src, _) = operands.required(Arg::SRC)?;
        let (weights, _) = operands.required(Recurrent::STATE_WEIGHTS)?;
        let (steps, batch, inputs) = (src.dims()[0], src.dims()[1], src.dims()[2]);
        let (units, hidden) = (weights.dims()[1], weights.dims()[3]);
        let lengths = match operands.find_dense::<i64>(Recurrent::LENGTHS)? {
            None => vec![steps; batch],
            Some(lengths) => lengths.iter().map(|&length| length.clamp(0, steps as i64) as usize).collect(),
        };
        Ok(Self { op, steps, batch, inputs, hidden, units, columns: op.cell.gates() * hidden, lengths })
    }

    /// Part `index` of a tensor whose first dimension are the directions.
    pub(super) fn own<'s, T>(&self, tensor: &'s [T], index: usize) -> &'s [T] {
        let size = tensor.len() / self.op.direction.count();
        &tensor[index * size..][..size]
    }

    /// Part `index` of an operand that may be absent.
    pub(super) fn find<'s, T: Clone>(
        &self,
        tensor: Option<&'s Cow<'_, [T]>>,
        index: usize,
    ) -> Option<&'s [T]> {
        tensor.map(|tensor| self.own(tensor, index))
    }

    /// Where the inputs of a sequence's `i`-th step lie in one direction; none behind its length.
    pub(super) fn place(&self, index: usize, i: usize, row: usize) -> Option<usize> {
        let left = self.lengths[row].checked_sub(i + 1)?;
        let step = if self.op.direction.is_backward(index) { left } else { i };
        Some(step * self.batch + row)
    }

    /// Steps of the longest sequence.
    pub(super) fn longest(&self) -> usize {
        self.lengths.iter().copied().max().unwrap_or(0)
    }

    /// The number of elements that a step of a sequence has in the workspace.
    pub(super) fn kept(&self) -> usize {
        self.op.cell.rows() * self.hidden
    }

    /// Refuses a computation that would need more memory than there is.
    pub(super) fn check<T>(&self) -> Result<()> {
        let rows = self.steps.saturating_mul(self.batch).saturating_mul(self.op.direction.count());
        let bytes = rows.saturating_mul(2 * self.kept() + self.columns).saturating_mul(size_of::<T>());
        check_host_memory(bytes, || "the gates of all steps".into())
    }
}

/// A layer's operands, dense and row-major.
struct Layer<'a, T: Float> {
    sizes: Sizes,
    src: Cow<'a, [T]>,
    weights: Cow<'a, [T]>,
    state_weights: Cow<'a, [T]>,
    bias: Option<Cow<'a, [T]>>,
    state_bias: Option<Cow<'a, [T]>>,
    state: Option<Cow<'a, [T]>>,
    cell: Option<Cow<'a, [T]>>,
    peepholes: Option<Cow<'a, [T]>>,
    attention: Option<Cow<'a, [T]>>,
    projection: Option<Cow<'a, [T]>>,
    /// How states are stored, and as what.
    states: Option<(StateQuantization, DataType)>,
}

/// What one direction makes: `[T, N, S]`, `[T, N, K, H]`, `[N, S]`, `[N, H]`.
struct Made<T> {
    all: Vec<T>,
    workspace: Vec<T>,
    states: Vec<T>,
    cells: Vec<T>,
}

pub(super) fn forward<T: Float>(
    op: Recurrent,
    operands: &Operands<'_>,
    results: &mut Results<'_, '_>,
) -> Result<()> {
    let sizes = Sizes::new(op, operands)?;
    sizes.check::<T>()?;
    let mut layer = Layer::<T> {
        src: operands.dense(Arg::SRC)?,
        weights: operands.dense(Arg::Weights)?,
        state_weights: operands.dense(Recurrent::STATE_WEIGHTS)?,
        bias: operands.find_dense(Arg::Bias)?,
        state_bias: operands.find_dense(Recurrent::STATE_BIAS)?,
        state: operands.find_dense(Recurrent::INITIAL_STATE)?,
        cell: operands.find_dense(Recurrent::INITIAL_CELL)?,
        peepholes: operands.find_dense(Recurrent::PEEPHOLES)?,
        attention: operands.find_dense(Recurrent::ATTENTION)?,
        projection: operands.find_dense(Recurrent::PROJECTION)?,
        states: op.quantization.map(|own| (own, operands.desc.src().data_type())),
        sizes,
    };
    if let Some((own, _)) = layer.states {
        layer.in_numbers(own, operands)?;
    }
    let Sizes { steps, batch, units, .. } = layer.sizes;
    let made = parallel_map(op.direction.count(), &|index| layer.direction(index));
    let shown = operands.desc.dst().dims()[2];
    let mut all = vec![T::ZERO; steps * batch * shown * units];
    for (index, states) in made.iter().enumerate() {
        let place = if op.direction == Direction::Sum { 0 } else { index };
        for (all, states) in all.chunks_exact_mut(shown * units).zip(states.all.chunks_exact(units)) {
            add(&mut all[place * units..][..units], states);
        }
    }
    // Integers stand for numbers in results, too.
    let stored = |desc: &MemoryDesc, values: &mut [T]| {
        let Some((own, _)) = layer.states.filter(|_| !desc.data_type().is_float()) else { return };
        for x in values {
            *x = T::from_f64(own.quantize(x.to_f64(), desc.data_type()));
        }
    };
    stored(operands.desc.dst(), &mut all);
    pack(operands.desc.dst(), &all, results.dst()?)?;
    let mut store = |arg, of: &dyn Fn(&Made<T>) -> Vec<T>| {
        let (Some(desc), Some(bytes)) = (operands.desc.find(arg), results.find(arg)) else { return Ok(()) };
        let mut values = made.iter().flat_map(of).collect::<Vec<T>>();
        stored(desc, &mut values);
        pack(desc, &values, bytes)
    };
    store(Recurrent::LAST_STATE, &|made| made.states.clone())?;
    store(Recurrent::LAST_CELL, &|made| made.cells.clone())?;
    store(Recurrent::WORKSPACE, &|made| made.workspace.clone())
}

impl<T: Float> Layer<'_, T> {
    /// Puts the numbers that integers stand for in their place.
    fn in_numbers(&mut self, own: StateQuantization, operands: &Operands<'_>) -> Result<()> {
        let numbers = |values: &mut Cow<'_, [T]>| {
            values.to_mut().iter_mut().for_each(|x| *x = T::from_f64(own.dequantize(x.to_f64())));
        };
        numbers(&mut self.src);
        let initial = operands.desc.find(Recurrent::INITIAL_STATE);
        if let (Some(state), Some(desc)) = (&mut self.state, initial)
            && !desc.data_type().is_float()
        {
            numbers(state);
        }
        // Factors differ by direction and column, not by row.
        let divide = |values: &mut Cow<'_, [T]>, columns: usize, factors: Arg| -> Result<()> {
            let (desc, bytes) = operands.required(factors)?;
            let Sizes { op, hidden, units, .. } = self.sizes;
            let whole = match factors {
                Recurrent::WEIGHTS_SCALES => vec![op.direction.count(), op.cell.gates(), hidden],
                _ => vec![op.direction.count(), units],
            };
            let mut all = vec![T::ZERO; whole.iter().product()];
            View::broadcast(desc, bytes, &whole)?.load(0, &mut all);
            let size = values.len() / self.sizes.op.direction.count();
            for (rows, factors) in values.to_mut().chunks_mut(size.max(1)).zip(all.chunks(columns)) {
                for row in rows.chunks_mut(columns) {
                    let pairs = row.iter_mut().zip(factors);
                    pairs.for_each(|(x, factor)| *x = T::from_f64(x.to_f64() / factor.to_f64()));
                }
            }
            Ok(())
        };
        divide(&mut self.weights, self.sizes.columns, Recurrent::WEIGHTS_SCALES)?;
        divide(&mut self.state_weights, self.sizes.columns, Recurrent::WEIGHTS_SCALES)?;
        if let Some(projection) = &mut self.projection {
            divide(projection, self.sizes.units, Recurrent::PROJECTION_SCALES)?;
        }
        Ok(())
    }

    /// What is left of states when they have been stored.
    fn round(&self, states: &mut [T]) {
        let Some((own, data_type)) = self.states else { return };
        let rounded = |x: &mut T| *x = T::from_f64(own.dequantize(own.quantize(x.to_f64(), data_type)));
        states.iter_mut().for_each(rounded);
    }

    fn direction(&self, index: usize) -> Made<T> {
        let sizes = &self.sizes;
        let Sizes { op, steps, batch, hidden, units, columns, .. } = *sizes;
        let mut gates = self.input_products(index);
        // The reset gate of this cell multiplies a bias.
        let state_bias = sizes.find(self.state_bias.as_ref(), index);
        let early = if op.cell == Cell::GruLinearBeforeReset { 2 * hidden } else { columns };
        let late = state_bias.filter(|_| early < columns).map(|bias| &bias[early..]);
        for row in gates.chunks_exact_mut(columns) {
            if let Some(bias) = sizes.find(self.bias.as_ref(), index) {
                add(row, bias);
            }
            if let Some(bias) = state_bias {
                add(&mut row[..early], &bias[..early]);
            }
        }
        let initial = |given: Option<&Cow<'_, [T]>>, count: usize| {
            sizes.find(given, index).map_or_else(|| vec![T::ZERO; batch * count], <[T]>::to_vec)
        };
        let mut made = Made {
            all: vec![T::ZERO; steps * batch * units],
            workspace: vec![T::ZERO; steps * batch * sizes.kept()],
            states: initial(self.state.as_ref(), units),
            cells: initial(self.cell.as_ref(), hidden),
        };
        self.round(&mut made.states);
        let state_weights = sizes.own(&self.state_weights, index);
        let peepholes = sizes.find(self.peepholes.as_ref(), index);
        let projection = sizes.find(self.projection.as_ref(), index);
        let (mut sums, mut whole) = (vec![T::ZERO; batch * columns], vec![T::ZERO; batch * hidden]);
        let parallel = op.direction.count() == 1 && batch * units * columns >= PARALLEL;
        let first = if op.cell == Cell::Gru { 2 * hidden } else { columns };
        for i in 0..sizes.longest() {
            let of_state = matrix(&made.states, batch, units, units);
            multiply(&of_state, &matrix(state_weights, units, first, columns), &mut sums, columns, parallel);
            if op.cell == Cell::Gru {
                // The product of the candidate needs the reset gate.
                for row in 0..batch {
                    let Some(at) = sizes.place(index, i, row) else { continue };
                    let sums = &mut sums[row * columns..][..2 * hidden];
                    add(sums, &gates[at * columns..][..2 * hidden]);
                    T::eltwise(Eltwise::Sigmoid, sums);
                    let parts = sums[hidden..].iter().zip(&made.states[row * hidden..]);
                    whole[row * hidden..][..hidden]
                        .iter_mut()
                        .zip(parts)
                        .for_each(|(kept, (&reset, &state))| *kept = reset * state);
                }
                self.round(&mut whole);
                let candidate = matrix(&state_weights[first..], hidden, hidden, columns);
                let kept = matrix(&whole, batch, hidden, hidden);
                multiply(&kept, &candidate, &mut sums[first..], columns, parallel);
            }
            for row in 0..batch {
                let Some(at) = sizes.place(index, i, row) else { continue };
                let kept = &mut made.workspace[at * sizes.kept()..][..sizes.kept()];
                let (own, behind) = kept.split_at_mut(columns);
                behind[..units].copy_from_slice(&made.states[row * units..][..units]);
                own.copy_from_slice(&sums[row * columns..][..columns]);
                let inputs = &gates[at * columns..][..columns];
                let state = &mut whole[row * hidden..][..hidden];
                match op.cell {
                    Cell::Vanilla(activation) => {
                        add(own, inputs);
                        T::eltwise(activation.function(), own);
                        state.copy_from_slice(own);
                    }
                    Cell::Lstm(_) => {
                        let cell = &mut made.cells[row * hidden..][..hidden];
                        behind[hidden..].copy_from_slice(cell);
                        add(own, inputs);
                        self.lstm(own, peepholes, state, cell);
                    }
                    Cell::Gru => {
                        add(&mut own[first..], &inputs[first..]);
                        T::eltwise(Eltwise::Tanh, &mut own[first..]);
                        self.gru(own, &behind[..hidden], at, state);
                    }
                    Cell::GruLinearBeforeReset => {
                        let product = &mut behind[hidden..];
                        product.copy_from_slice(&own[early..]);
                        if let Some(bias) = late {
                            add(product, bias);
                        }
                        let (both, candidate) = own.split_at_mut(early);
                        add(both, &inputs[..early]);
                        T::eltwise(Eltwise::Sigmoid, both);
                        for (unit, candidate) in candidate.iter_mut().enumerate() {
                            *candidate = both[hidden + unit] * product[unit] + inputs[early + unit];
                        }
                        T::eltwise(Eltwise::Tanh, candidate);
                        self.gru(own, &behind[..hidden], at, state);
                    }
                }
            }
            self.round(&mut whole);
            if let Some(projection) = projection {
                let of_whole = matrix(&whole, batch, hidden, hidden);
                multiply(&of_whole, &matrix(projection, hidden, units, units), &mut sums, units, parallel);
                self.round(&mut sums[..batch * units]);
            }
            for row in 0..batch {
                let Some(at) = sizes.place(index, i, row) else { continue };
                let state = if projection.is_some() { &sums } else { &whole };
                let state = &state[row * units..][..units];
                made.states[row * units..][..units].copy_from_slice(state);
                made.all[at * units..][..units].copy_from_slice(state);
            }
        }
        made
    }

    fn input_products(&self, index: usize) -> Vec<T> {
        let Sizes { steps, batch, inputs, columns, op, .. } = self.sizes;
        let mut gates = vec![T::ZERO; steps * batch * columns];
        let src = matrix(&self.src, steps * batch, inputs, inputs);
        let weights = matrix(self.sizes.own(&self.weights, index), inputs, columns, columns);
        multiply(&src, &weights, &mut gates, columns, op.direction.count() == 1);
        gates
    }

    /// The gates, the state and the cell behind a step, of the sums of the gates.
    fn lstm(&self, sums: &mut [T], peepholes: Option<&[T]>, state: &mut [T], cell: &mut [T]) {
        let Cell::Lstm(order) = self.sizes.op.cell else { return };
        let hidden = self.sizes.hidden;
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

    /// The state behind a step, of the gates and the state before.
    fn gru(&self, gates: &[T], old: &[T], at: usize, state: &mut [T]) {
        let hidden = self.sizes.hidden;
        let minus = T::from_f64(-1.0);
        let factor = self.attention.as_ref().map_or(T::ONE, |attention| T::ONE + minus * attention[at]);
        for (unit, state) in state.iter_mut().enumerate() {
            let (update, candidate) = (factor * gates[unit], gates[2 * hidden + unit]);
            *state = candidate + update * (old[unit] + minus * candidate);
        }
    }
}

pub(super) fn add<T: Float>(to: &mut [T], from: &[T]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to += from);
}

pub(super) fn matrix<T>(data: &[T], rows: usize, columns: usize, row_stride: usize) -> Matrix<'_, T> {
    Matrix { data, rows, columns, row_stride, column_stride: 1 }
}
