//! The gradients of recurrent layers, a sequence at a time, from its last step to its first.

use super::{Operands, Tensor, Tensors};
use crate::op::{Activation, Cell, Direction, Recurrent, RecurrentBackward as Backward};
use crate::{Arg, Dims};

pub(super) fn gradients(op: Recurrent, operands: &Operands) -> Tensors {
    let zeros = |dims: &[usize]| Tensor::from_fn(&Dims::new(dims), |_| 0.0);
    let alike = |arg| zeros(&operands.get(arg).dims);
    let dims = &operands.get(Arg::SRC).dims;
    let (steps, batch) = (dims[0], dims[1]);
    let (weights, state_weights) = (operands.get(Arg::Weights), operands.get(Recurrent::STATE_WEIGHTS));
    let (directions, gates, hidden) = (weights.dims[0], weights.dims[2], weights.dims[3]);
    let units = state_weights.dims[1];
    let biases = [directions, gates, hidden];
    let mut all = Tensors::from([
        (Arg::DST, alike(Arg::SRC)),
        (Backward::DIFF_INITIAL_STATE, zeros(&[directions, batch, units])),
        (Backward::DIFF_INITIAL_CELL, zeros(&[directions, batch, hidden])),
        (Backward::DIFF_WEIGHTS, alike(Arg::Weights)),
        (Backward::DIFF_STATE_WEIGHTS, alike(Recurrent::STATE_WEIGHTS)),
        (Backward::DIFF_BIAS, zeros(&biases)),
        (Backward::DIFF_STATE_BIAS, zeros(&biases)),
        (Backward::DIFF_PEEPHOLES, zeros(&[directions, 3, hidden])),
        (Backward::DIFF_ATTENTION, zeros(&[steps, batch, 1])),
        (Backward::DIFF_PROJECTION, zeros(&[directions, hidden, units])),
    ]);
    for d in 0..directions {
        for n in 0..batch {
            let length = operands
                .find(Recurrent::LENGTHS)
                .map_or(steps, |lengths| lengths.at(&[n]).clamp(0.0, steps as f64) as usize);
            let given = |arg, count: usize| -> Vec<f64> {
                (0..count).map(|unit| operands.find(arg).map_or(0.0, |t| t.at(&[d, n, unit]))).collect()
            };
            let mut of_state = given(Backward::DIFF_LAST_STATE, units);
            let mut of_cell = given(Backward::DIFF_LAST_CELL, hidden);
            for i in (0..length).rev() {
                let step = if op.direction.is_backward(d) { length - 1 - i } else { i };
                let shown = if op.direction == Direction::Sum { 0 } else { d };
                for (unit, value) in of_state.iter_mut().enumerate() {
                    *value += operands.get(Backward::DIFF_DST).at(&[step, n, shown, unit]);
                }
                let at = Place { cell: op.cell, operands, d, n, step, hidden, units };
                of_state = at.back(&of_state, &mut of_cell, &mut all);
            }
            for (arg, values) in
                [(Backward::DIFF_INITIAL_STATE, &of_state), (Backward::DIFF_INITIAL_CELL, &of_cell)]
            {
                for (unit, value) in values.iter().enumerate() {
                    add(&mut all, arg, &[d, n, unit], *value);
                }
            }
        }
    }
    all
}

fn add(all: &mut Tensors, arg: Arg, index: &[usize], value: f64) {
    if let Some(tensor) = all.get_mut(&arg) {
        tensor.add(index, value);
    }
}

/// A step of a sequence in one direction.
struct Place<'a> {
    cell: Cell,
    operands: &'a Operands<'a>,
    d: usize,
    n: usize,
    step: usize,
    hidden: usize,
    units: usize,
}

impl Place<'_> {
    /// The gradient by the state before the step, of that by the state behind it.
    fn back(&self, of_state: &[f64], of_cell: &mut [f64], all: &mut Tensors) -> Vec<f64> {
        match self.cell {
            Cell::Vanilla(activation) => {
                let sums: Vec<f64> = (0..self.hidden)
                    .map(|unit| {
                        let y = self.row(0, unit);
                        of_state[unit]
                            * match activation {
                                Activation::Relu => f64::from(y > 0.0),
                                Activation::LeakyRelu { alpha } if y <= 0.0 => f64::from(alpha),
                                Activation::LeakyRelu { .. } => 1.0,
                                Activation::Tanh => 1.0 - y * y,
                                Activation::Logistic => y * (1.0 - y),
                            }
                    })
                    .collect();
                self.collect(std::slice::from_ref(&sums), std::slice::from_ref(&sums), &[0.0], all)
            }
            Cell::Lstm(_) => self.lstm(of_state, of_cell, all),
            Cell::Gru | Cell::GruLinearBeforeReset => self.gru(of_state, all),
        }
    }

    fn row(&self, row: usize, unit: usize) -> f64 {
        self.operands.get(Backward::WORKSPACE).at(&[self.d, self.step, self.n, row, unit])
    }

    fn lstm(&self, of_state: &[f64], of_cell: &mut [f64], all: &mut Tensors) -> Vec<f64> {
        let Cell::Lstm(order) = self.cell else { return Vec::new() };
        let ([i, f, c, o], [p_i, p_f, p_o]) = (order.places(), order.peepholes());
        let d = self.d;
        let peephole =
            |place, unit| self.operands.find(Recurrent::PEEPHOLES).map_or(0.0, |p| p.at(&[d, place, unit]));
        let mut sums = vec![vec![0.0; self.hidden]; 4];
        for unit in 0..self.hidden {
            let [input, forget, candidate, output] = [i, f, c, o].map(|gate| self.row(gate, unit));
            let old = self.row(self.cell.state_row() + 1, unit);
            let cell = forget * old + input * candidate;
            let whole = output * cell.tanh();
            let of_whole = match self.operands.find(Recurrent::PROJECTION) {
                None => of_state[unit],
                Some(projection) => {
                    for (to, value) in of_state.iter().enumerate() {
                        add(all, Backward::DIFF_PROJECTION, &[d, unit, to], whole * value);
                    }
                    of_state.iter().enumerate().map(|(to, value)| value * projection.at(&[d, unit, to])).sum()
                }
            };
            let of_output = of_whole * cell.tanh() * output * (1.0 - output);
            let of_new = of_cell[unit]
                + of_whole * output * (1.0 - cell.tanh() * cell.tanh())
                + of_output * peephole(p_o, unit);
            let of_input = of_new * candidate * input * (1.0 - input);
            let of_forget = of_new * old * forget * (1.0 - forget);
            of_cell[unit] =
                of_new * forget + of_input * peephole(p_i, unit) + of_forget * peephole(p_f, unit);
            sums[i][unit] = of_input;
            sums[f][unit] = of_forget;
            sums[c][unit] = of_new * input * (1.0 - candidate * candidate);
            sums[o][unit] = of_output;
            for (place, value) in [(p_i, of_input * old), (p_f, of_forget * old), (p_o, of_output * cell)] {
                add(all, Backward::DIFF_PEEPHOLES, &[d, place, unit], value);
            }
        }
        self.collect(&sums, &sums, &vec![0.0; self.units], all)
    }

    fn gru(&self, of_state: &[f64], all: &mut Tensors) -> Vec<f64> {
        let (d, hidden) = (self.d, self.hidden);
        let linear = self.cell == Cell::GruLinearBeforeReset;
        let attention =
            self.operands.find(Recurrent::ATTENTION).map_or(0.0, |a| a.at(&[self.step, self.n, 0]));
        let state_weights = self.operands.get(Recurrent::STATE_WEIGHTS);
        let mut sums = vec![vec![0.0; hidden]; 3];
        // By the state directly, and by the product that the reset gate multiplies.
        let (mut direct, mut of_product) = (vec![0.0; hidden], vec![0.0; hidden]);
        for unit in 0..hidden {
            let [update, candidate] = [0, 2].map(|gate| self.row(gate, unit));
            let old = self.row(self.cell.state_row(), unit);
            let mixed = (1.0 - attention) * update;
            let of_mixed = of_state[unit] * (old - candidate);
            sums[0][unit] = of_mixed * (1.0 - attention) * update * (1.0 - update);
            sums[2][unit] = of_state[unit] * (1.0 - mixed) * (1.0 - candidate * candidate);
            direct[unit] = of_state[unit] * mixed;
            add(all, Backward::DIFF_ATTENTION, &[self.step, self.n, 0], -of_mixed * update);
        }
        for unit in 0..hidden {
            let reset = self.row(1, unit);
            let slope = reset * (1.0 - reset);
            if linear {
                sums[1][unit] = sums[2][unit] * self.row(self.cell.state_row() + 1, unit) * slope;
                of_product[unit] = sums[2][unit] * reset;
            } else {
                let of_kept: f64 = (0..hidden).map(|j| sums[2][j] * state_weights.at(&[d, unit, 2, j])).sum();
                sums[1][unit] = of_kept * self.row(self.cell.state_row(), unit) * slope;
                direct[unit] += of_kept * reset;
                of_product[unit] = sums[2][unit];
            }
        }
        let of_state = [sums[0].clone(), sums[1].clone(), of_product];
        self.collect(&sums, &of_state, &direct, all)
    }

    /// Adds what the gradients by the sums of the gates are to operands, `inputs` by those of the input's products and `states` by those
    /// of the state's.
    fn collect(
        &self,
        inputs: &[Vec<f64>],
        states: &[Vec<f64>],
        direct: &[f64],
        all: &mut Tensors,
    ) -> Vec<f64> {
        let Self { d, n, step, .. } = *self;
        let (src, weights) = (self.operands.get(Arg::SRC), self.operands.get(Arg::Weights));
        let state_weights = self.operands.get(Recurrent::STATE_WEIGHTS);
        let mut before: Vec<f64> = (0..self.units).map(|k| direct.get(k).copied().unwrap_or(0.0)).collect();
        for gate in 0..inputs.len() {
            // The candidate of this cell sees what the reset gate leaves, which has been followed already.
            let follows = !(self.cell == Cell::Gru && gate == 2);
            for unit in 0..self.hidden {
                let (input, state) = (inputs[gate][unit], states[gate][unit]);
                for k in 0..src.dims[2] {
                    add(all, Arg::DST, &[step, n, k], input * weights.at(&[d, k, gate, unit]));
                    add(all, Backward::DIFF_WEIGHTS, &[d, k, gate, unit], input * src.at(&[step, n, k]));
                }
                for (k, before) in before.iter_mut().enumerate() {
                    let mut seen = self.row(self.cell.state_row(), k);
                    if follows {
                        *before += state * state_weights.at(&[d, k, gate, unit]);
                    } else {
                        seen *= self.row(1, k);
                    }
                    add(all, Backward::DIFF_STATE_WEIGHTS, &[d, k, gate, unit], state * seen);
                }
                add(all, Backward::DIFF_BIAS, &[d, gate, unit], input);
                add(all, Backward::DIFF_STATE_BIAS, &[d, gate, unit], state);
            }
        }
        before
    }
}

#[cfg(test)]
mod tests;
