//! Gradients of recurrent layers: from the last step to the first, a product for the states of all sequences at each step, then one product
//! of all steps for each of the weights and the source.

use std::borrow::Cow;

use anydnn_backend::op::{Activation, Cell, Direction, Recurrent, RecurrentBackward};
use anydnn_backend::{Arg, PrimitiveDesc, Result};

use super::Compute;
use super::element::Float;
use super::gemm::{Matrix, multiply, multiply_add};
use super::operands::{Operands, Results};
use super::pack::pack;
use super::parallel::parallel_map;
use super::recurrent_training::{PARALLEL, Sizes, add, matrix};

/// The operands, dense and row-major.
struct Gradient<'a, T: Float> {
    sizes: Sizes,
    src: Cow<'a, [T]>,
    weights: Cow<'a, [T]>,
    state_weights: Cow<'a, [T]>,
    peepholes: Option<Cow<'a, [T]>>,
    attention: Option<Cow<'a, [T]>>,
    projection: Option<Cow<'a, [T]>>,
    diff_dst: Cow<'a, [T]>,
    workspace: Cow<'a, [T]>,
    last_state: Option<Cow<'a, [T]>>,
    last_cell: Option<Cow<'a, [T]>>,
}

/// What the steps of one direction make, beside the gradients before the first step.
struct Sums<T> {
    /// By the sums of the gates, `[T, N, G, H]`, of the input's products and of the state's where they differ.
    inputs: Vec<T>,
    states: Option<Vec<T>>,
    /// What the candidate's product has read of a gated recurrent unit, `[T, N, H]`.
    kept: Vec<T>,
    /// The states before a projection, `[T, N, H]`, and the gradients by those behind it, `[T, N, S]`.
    whole: Vec<T>,
    of_states: Vec<T>,
    state: Vec<T>,
    cell: Vec<T>,
    peepholes: Vec<T>,
    /// `[T, N]`.
    attention: Vec<T>,
}

/// All gradients of one direction.
struct Made<T>(Vec<(Arg, Vec<T>)>);

impl Compute for RecurrentBackward {
    fn implementation(&self, _desc: &PrimitiveDesc) -> &'static str {
        "host:gemm"
    }

    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        let op = self.forward;
        let sizes = Sizes::new(op, operands)?;
        sizes.check::<T>()?;
        let gradient = Gradient::<T> {
            src: operands.dense(Arg::SRC)?,
            weights: operands.dense(Arg::Weights)?,
            state_weights: operands.dense(Recurrent::STATE_WEIGHTS)?,
            peepholes: operands.find_dense(Recurrent::PEEPHOLES)?,
            attention: operands.find_dense(Recurrent::ATTENTION)?,
            projection: operands.find_dense(Recurrent::PROJECTION)?,
            diff_dst: operands.dense(Self::DIFF_DST)?,
            workspace: operands.dense(Self::WORKSPACE)?,
            last_state: operands.find_dense(Self::DIFF_LAST_STATE)?,
            last_cell: operands.find_dense(Self::DIFF_LAST_CELL)?,
            sizes,
        };
        let wants = |arg| operands.desc.find(arg).is_some();
        let made = parallel_map(op.direction.count(), &|index| gradient.direction(index, &wants));
        for operand in operands.desc.args() {
            let Some(bytes) = results.find(operand.arg) else { continue };
            let parts = made.iter().flat_map(|made| made.0.iter().filter(|(arg, _)| *arg == operand.arg));
            let parts = parts.map(|(_, values)| values);
            // What all directions read has the sum of their gradients.
            let values = if matches!(operand.arg, Arg::DST | Self::DIFF_ATTENTION) {
                let mut total = vec![T::ZERO; operand.desc.elements()];
                parts.for_each(|part| add(&mut total, part));
                total
            } else {
                parts.flatten().copied().collect()
            };
            pack(&operand.desc, &values, bytes)?;
        }
        Ok(())
    }

    fn uses_value_of(&self, arg: Arg) -> bool {
        arg != Recurrent::LENGTHS
    }
}

impl<T: Float> Gradient<'_, T> {
    fn direction(&self, index: usize, wants: &(dyn Fn(Arg) -> bool + Sync)) -> Made<T> {
        use RecurrentBackward as B;
        let sums = self.steps(index);
        let sizes = &self.sizes;
        let Sizes { op, steps, batch, inputs, hidden, units, columns, .. } = *sizes;
        let rows = steps * batch;
        let parallel = op.direction.count() == 1;
        let by_states = sums.states.as_ref().unwrap_or(&sums.inputs);
        let mut made = Vec::new();
        let mut product =
            |arg, size: usize, parts: &[(Matrix<'_, T>, Matrix<'_, T>, usize)], stride: usize| {
                let mut out = vec![T::ZERO; size];
                for (a, b, from) in parts {
                    if rows > 0 && size > 0 {
                        multiply(a, b, &mut out[*from..], stride, parallel);
                    }
                }
                made.push((arg, out));
            };
        let weights = matrix(sizes.own(&self.weights, index), inputs, columns, columns);
        let of_inputs = matrix(&sums.inputs, rows, columns, columns);
        product(Arg::DST, rows * inputs, &[(of_inputs, weights.transposed(), 0)], inputs);
        if wants(B::DIFF_WEIGHTS) {
            let src = matrix(&self.src, rows, inputs, inputs).transposed();
            product(B::DIFF_WEIGHTS, inputs * columns, &[(src, of_inputs, 0)], columns);
        }
        if wants(B::DIFF_STATE_WEIGHTS) {
            let workspace = sizes.own(&self.workspace, index);
            let first = if op.cell == Cell::Gru { 2 * hidden } else { columns };
            let before = workspace.get(columns..).unwrap_or_default();
            let before = matrix(before, rows, units, sizes.kept()).transposed();
            let mut parts = vec![(before, matrix(by_states, rows, first, columns), 0)];
            if first < columns {
                let kept = matrix(&sums.kept, rows, hidden, hidden).transposed();
                let candidates = by_states.get(first..).unwrap_or_default();
                parts.push((kept, matrix(candidates, rows, hidden, columns), first));
            }
            product(B::DIFF_STATE_WEIGHTS, units * columns, &parts, columns);
        }
        if wants(B::DIFF_PROJECTION) {
            let whole = matrix(&sums.whole, rows, hidden, hidden).transposed();
            let of_states = matrix(&sums.of_states, rows, units, units);
            product(B::DIFF_PROJECTION, hidden * units, &[(whole, of_states, 0)], units);
        }
        for (arg, of) in [(B::DIFF_BIAS, &sums.inputs), (B::DIFF_STATE_BIAS, by_states)] {
            if wants(arg) {
                let mut total = vec![T::ZERO; columns];
                of.chunks_exact(columns).for_each(|row| add(&mut total, row));
                made.push((arg, total));
            }
        }
        made.extend([
            (B::DIFF_INITIAL_STATE, sums.state),
            (B::DIFF_INITIAL_CELL, sums.cell),
            (B::DIFF_PEEPHOLES, sums.peepholes),
            (B::DIFF_ATTENTION, sums.attention),
        ]);
        Made(made)
    }

    /// From the last step to the first.
    fn steps(&self, index: usize) -> Sums<T> {
        let sizes = &self.sizes;
        let Sizes { op, steps, batch, hidden, units, columns, .. } = *sizes;
        let rows = steps * batch;
        let zeros = |count: usize| vec![T::ZERO; count];
        let initial = |given: Option<&Cow<'_, [T]>>, count: usize| {
            sizes.find(given, index).map_or_else(|| zeros(batch * count), <[T]>::to_vec)
        };
        let projection = sizes.find(self.projection.as_ref(), index);
        let is_linear = op.cell == Cell::GruLinearBeforeReset;
        let projected = if projection.is_some() { rows } else { 0 };
        let mut sums = Sums {
            inputs: zeros(rows * columns),
            states: is_linear.then(|| zeros(rows * columns)),
            kept: zeros(if op.cell == Cell::Gru { rows * hidden } else { 0 }),
            whole: zeros(projected * hidden),
            of_states: zeros(projected * units),
            state: initial(self.last_state.as_ref(), units),
            cell: initial(self.last_cell.as_ref(), hidden),
            peepholes: zeros(3 * hidden),
            attention: zeros(rows),
        };
        let state_weights =
            matrix(sizes.own(&self.state_weights, index), units, columns, columns).transposed();
        let parallel = op.direction.count() == 1 && batch * units * columns >= PARALLEL;
        let shown = if op.direction == Direction::Concat { 2 } else { 1 };
        let side = if op.direction == Direction::Concat { index } else { 0 };
        // By the sums of this step; by the states before a projection; by what the reset gate leaves.
        let (mut own, mut whole, mut of_kept) =
            (zeros(batch * columns), zeros(batch * hidden), zeros(batch * hidden));
        for i in (0..sizes.longest()).rev() {
            own.fill(T::ZERO);
            for row in 0..batch {
                let Some(at) = sizes.place(index, i, row) else { continue };
                let state = &mut sums.state[row * units..][..units];
                add(state, &self.diff_dst[(at * shown + side) * units..][..units]);
                match projection {
                    Some(_) => sums.of_states[at * units..][..units].copy_from_slice(state),
                    None => whole[row * hidden..][..hidden].copy_from_slice(state),
                }
            }
            if let Some(projection) = projection {
                let of_states = matrix(&sums.state, batch, units, units);
                let projection = matrix(projection, hidden, units, units).transposed();
                multiply(&of_states, &projection, &mut whole, hidden, parallel);
            }
            for row in 0..batch {
                let Some(at) = sizes.place(index, i, row) else { continue };
                self.back(index, row, at, &whole[row * hidden..][..hidden], &mut own, &mut sums);
            }
            if op.cell == Cell::Gru {
                let candidates = matrix(&own[2 * hidden..], batch, hidden, columns);
                let rest = Matrix { data: &state_weights.data[2 * hidden..], rows: hidden, ..state_weights };
                multiply(&candidates, &rest, &mut of_kept, hidden, parallel);
                for row in 0..batch {
                    let Some(at) = sizes.place(index, i, row) else { continue };
                    self.back_reset(index, row, at, &of_kept[row * hidden..][..hidden], &mut own, &mut sums);
                }
            }
            let terms = if op.cell == Cell::Gru { 2 * hidden } else { columns };
            let own = matrix(&own, batch, terms, columns);
            let state_weights = Matrix { rows: terms, ..state_weights };
            multiply_add(&own, &state_weights, &mut sums.state, units, parallel);
        }
        sums
    }

    /// Leaves the gradients by the sums of the gates in `own`, as the state's products see them, and in `sums`, and the gradient by the state
    /// before the step, as far as it does not go through those products, in `sums.state`.
    fn back(&self, index: usize, row: usize, at: usize, of_state: &[T], own: &mut [T], sums: &mut Sums<T>) {
        let sizes = &self.sizes;
        let Sizes { op, hidden, units, columns, .. } = *sizes;
        let kept = &sizes.own(&self.workspace, index)[at * sizes.kept()..][..sizes.kept()];
        let own = &mut own[row * columns..][..columns];
        let inputs = &mut sums.inputs[at * columns..][..columns];
        let state = &mut sums.state[row * units..][..units];
        let cell = &mut sums.cell[row * hidden..][..hidden];
        let of = |row: usize, unit: usize| kept[row * hidden + unit].to_f64();
        let attention = self.attention.as_ref().map_or(0.0, |attention| attention[at].to_f64());
        let peepholes = sizes.find(self.peepholes.as_ref(), index);
        state.fill(T::ZERO);
        for unit in 0..hidden {
            let by = of_state[unit].to_f64();
            match op.cell {
                Cell::Vanilla(activation) => {
                    let y = of(0, unit);
                    let slope = match activation {
                        Activation::Relu => f64::from(y > 0.0),
                        Activation::LeakyRelu { alpha } if y <= 0.0 => f64::from(alpha),
                        Activation::LeakyRelu { .. } => 1.0,
                        Activation::Tanh => 1.0 - y * y,
                        Activation::Logistic => y * (1.0 - y),
                    };
                    inputs[unit] = T::from_f64(by * slope);
                }
                Cell::Lstm(order) => {
                    let (places, peeps) = (order.places(), order.peepholes());
                    let [input, forget, candidate, output] = places.map(|gate| of(gate, unit));
                    let [w_i, w_f, w_o] =
                        peeps.map(|p| peepholes.map_or(0.0, |all| all[p * hidden + unit].to_f64()));
                    let old = of(op.cell.state_row() + 1, unit);
                    let new = forget * old + input * candidate;
                    let bent = new.tanh();
                    if let Some(whole) = sums.whole.get_mut(at * hidden + unit) {
                        *whole = T::from_f64(output * bent);
                    }
                    let of_output = by * bent * output * (1.0 - output);
                    let of_new = cell[unit].to_f64() + by * output * (1.0 - bent * bent) + of_output * w_o;
                    let of_input = of_new * candidate * input * (1.0 - input);
                    let of_forget = of_new * old * forget * (1.0 - forget);
                    let of_candidate = of_new * input * (1.0 - candidate * candidate);
                    cell[unit] = T::from_f64(of_new * forget + of_input * w_i + of_forget * w_f);
                    for (place, value) in
                        places.into_iter().zip([of_input, of_forget, of_candidate, of_output])
                    {
                        inputs[place * hidden + unit] = T::from_f64(value);
                    }
                    for (place, value) in
                        peeps.into_iter().zip([of_input * old, of_forget * old, of_output * new])
                    {
                        sums.peepholes[place * hidden + unit] += T::from_f64(value);
                    }
                }
                Cell::Gru | Cell::GruLinearBeforeReset => {
                    let [update, reset, candidate, old] = [0, 1, 2, 3].map(|row| of(row, unit));
                    let mixed = (1.0 - attention) * update;
                    let of_mixed = by * (old - candidate);
                    let of_candidate = by * (1.0 - mixed) * (1.0 - candidate * candidate);
                    inputs[unit] = T::from_f64(of_mixed * (1.0 - attention) * update * (1.0 - update));
                    inputs[2 * hidden + unit] = T::from_f64(of_candidate);
                    state[unit] = T::from_f64(by * mixed);
                    sums.attention[at] += T::from_f64(-of_mixed * update);
                    if op.cell == Cell::Gru {
                        sums.kept[at * hidden + unit] = T::from_f64(reset * old);
                    } else {
                        inputs[hidden + unit] =
                            T::from_f64(of_candidate * of(4, unit) * reset * (1.0 - reset));
                    }
                }
            }
        }
        own.copy_from_slice(inputs);
        if let Some(states) = &mut sums.states {
            for (unit, value) in own[2 * hidden..].iter_mut().enumerate() {
                *value = *value * kept[hidden + unit];
            }
            states[at * columns..][..columns].copy_from_slice(own);
        }
    }

    /// The same of the reset gate, of the gradient by what it leaves of the state.
    fn back_reset(
        &self,
        index: usize,
        row: usize,
        at: usize,
        of_kept: &[T],
        own: &mut [T],
        sums: &mut Sums<T>,
    ) {
        let sizes = &self.sizes;
        let Sizes { hidden, columns, .. } = *sizes;
        let kept = &sizes.own(&self.workspace, index)[at * sizes.kept()..][..sizes.kept()];
        for (unit, by) in of_kept.iter().enumerate() {
            let (reset, old) = (kept[hidden + unit].to_f64(), kept[3 * hidden + unit].to_f64());
            let value = T::from_f64(by.to_f64() * old * reset * (1.0 - reset));
            own[row * columns + hidden + unit] = value;
            sums.inputs[at * columns + hidden + unit] = value;
            sums.state[row * hidden + unit] += *by * kept[hidden + unit];
        }
    }
}
