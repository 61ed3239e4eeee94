use super::{Operands, Tensor, Tensors};
use crate::op::{Activation, Cell, Direction, Recurrent};
use crate::{Arg, Dims};

pub(super) fn recurrent(op: Recurrent, operands: &Operands) -> Tensors {
    let dst_dims = operands.dst_dims();
    let (steps, batch) = (dst_dims[0], dst_dims[1]);
    let state_dims = Dims::from([op.direction.count(), batch, dst_dims[3]]);
    let initial = |arg| operands.find(arg).cloned().unwrap_or_else(|| Tensor::from_fn(&state_dims, |_| 0.0));
    let mut dst = Tensor::from_fn(dst_dims, |_| 0.0);
    let (mut states, mut cells) = (initial(Recurrent::INITIAL_STATE), initial(Recurrent::INITIAL_CELL));
    for direction in 0..op.direction.count() {
        for row in 0..batch {
            let length = operands
                .find(Recurrent::LENGTHS)
                .map_or(steps, |lengths| lengths.at(&[row]).clamp(0.0, steps as f64) as usize);
            for i in 0..length {
                let step = if op.direction.is_backward(direction) { length - 1 - i } else { i };
                let (state, cell) = next(op.cell, operands, [direction, row, step], &states, &cells);
                let shown = if op.direction == Direction::Sum { 0 } else { direction };
                for (unit, value) in state.iter().enumerate() {
                    dst.add(&[step, row, shown, unit], *value);
                }
                replace(&mut states, direction, row, &state);
                replace(&mut cells, direction, row, &cell);
            }
        }
    }
    Tensors::from([(Arg::DST, dst), (Recurrent::LAST_STATE, states), (Recurrent::LAST_CELL, cells)])
}

fn replace(states: &mut Tensor, direction: usize, row: usize, values: &[f64]) {
    let first = (direction * states.dims[1] + row) * states.dims[2];
    states.values[first..][..values.len()].copy_from_slice(values);
}

/// The state and the cell behind a step.
fn next(
    cell: Cell,
    operands: &Operands,
    [d, n, step]: [usize; 3],
    states: &Tensor,
    cells: &Tensor,
) -> (Vec<f64>, Vec<f64>) {
    let (src, weights) = (operands.get(Arg::SRC), operands.get(Arg::Weights));
    let state_weights = operands.get(Recurrent::STATE_WEIGHTS);
    let hidden = states.dims[2];
    let bias = |arg, gate, unit| operands.find(arg).map_or(0.0, |bias| bias.at(&[d, gate, unit]));
    // The products of the input and of a state, each with its bias.
    let of_input = |gate: usize, unit: usize| -> f64 {
        let terms = (0..src.dims[2]).map(|k| src.at(&[step, n, k]) * weights.at(&[d, k, gate, unit]));
        terms.sum::<f64>() + bias(Arg::Bias, gate, unit)
    };
    let of_state = |state: &dyn Fn(usize) -> f64, gate: usize, unit: usize| -> f64 {
        let terms = (0..hidden).map(|k| state(k) * state_weights.at(&[d, k, gate, unit]));
        terms.sum::<f64>() + bias(Recurrent::STATE_BIAS, gate, unit)
    };
    let state = |unit: usize| states.at(&[d, n, unit]);
    let sum = |gate: usize, unit: usize| of_input(gate, unit) + of_state(&state, gate, unit);
    let old_cell = |unit: usize| cells.at(&[d, n, unit]);
    match cell {
        Cell::Vanilla(activation) => {
            let apply = |x: f64| match activation {
                Activation::Relu => x.max(0.0),
                Activation::Tanh => x.tanh(),
                Activation::Logistic => logistic(x),
            };
            let state = (0..hidden).map(|unit| apply(sum(0, unit))).collect();
            (state, (0..hidden).map(old_cell).collect())
        }
        Cell::Lstm(order) => {
            let ([i, f, c, o], [p_i, p_f, p_o]) = (order.places(), order.peepholes());
            let peep = |place: usize, unit: usize, cell: f64| {
                operands.find(Recurrent::PEEPHOLES).map_or(0.0, |p| p.at(&[d, place, unit]) * cell)
            };
            let cells: Vec<f64> = (0..hidden)
                .map(|unit| {
                    let old = old_cell(unit);
                    logistic(sum(f, unit) + peep(p_f, unit, old)) * old
                        + logistic(sum(i, unit) + peep(p_i, unit, old)) * sum(c, unit).tanh()
                })
                .collect();
            let state = cells
                .iter()
                .enumerate()
                .map(|(unit, &cell)| logistic(sum(o, unit) + peep(p_o, unit, cell)) * cell.tanh());
            (state.collect(), cells.clone())
        }
        Cell::Gru | Cell::GruLinearBeforeReset => {
            let reset: Vec<f64> = (0..hidden).map(|unit| logistic(sum(1, unit))).collect();
            let kept = |unit: usize| reset[unit] * state(unit);
            let next = (0..hidden).map(|unit| {
                let update = logistic(sum(0, unit));
                let of_state = if cell == Cell::Gru {
                    of_state(&kept, 2, unit)
                } else {
                    reset[unit] * of_state(&state, 2, unit)
                };
                update * state(unit) + (1.0 - update) * (of_input(2, unit) + of_state).tanh()
            });
            (next.collect(), (0..hidden).map(old_cell).collect())
        }
    }
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}
