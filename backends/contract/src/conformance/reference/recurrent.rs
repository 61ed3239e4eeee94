use super::{Operands, Tensor, Tensors};
use crate::op::{Activation, Cell, Direction, Recurrent};
use crate::{Arg, Dims};

/// A quantised layer computes with the numbers that integers stand for, and rounds states to such.
pub(super) fn recurrent(op: Recurrent, operands: &Operands) -> Tensors {
    let Some(quantization) = op.quantization else { return real(op, operands, &|x| x) };
    let integers = operands.desc.src().data_type();
    let numbers = |arg: Arg, tensor: &Tensor, of: &dyn Fn(f64) -> f64| {
        let is_integer = operands.desc.find(arg).is_some_and(|desc| !desc.data_type().is_float());
        let values = tensor.values.iter().map(|&x| if is_integer { of(x) } else { x });
        Tensor { dims: tensor.dims.clone(), values: values.collect() }
    };
    let rounded = |x: f64| quantization.dequantize(quantization.quantize(x, integers));
    let mut seen = operands.inputs.clone();
    for (&arg, tensor) in &mut seen {
        match arg {
            Arg::SRC | Recurrent::INITIAL_STATE => {
                *tensor = numbers(arg, tensor, &|q| quantization.dequantize(q));
            }
            Arg::Weights | Recurrent::STATE_WEIGHTS => {
                let scales = operands.get(Recurrent::WEIGHTS_SCALES);
                *tensor = Tensor::from_fn(&tensor.dims, |i| {
                    tensor.at(i) / scales.broadcast_at(&[i[0], i[2], i[3]])
                });
            }
            Recurrent::PROJECTION => {
                let scales = operands.get(Recurrent::PROJECTION_SCALES);
                *tensor =
                    Tensor::from_fn(&tensor.dims, |i| tensor.at(i) / scales.broadcast_at(&[i[0], i[2]]));
            }
            _ => {}
        }
    }
    let mut made = real(op, &Operands { inputs: &seen, ..*operands }, &rounded);
    for (arg, tensor) in &mut made {
        let integer = operands.desc.find(*arg).filter(|desc| !desc.data_type().is_float());
        if let Some(desc) = integer {
            let quantized = |x: &mut f64| *x = quantization.quantize(*x, desc.data_type());
            tensor.values.iter_mut().for_each(quantized);
        }
    }
    made
}

/// With numbers, each state behind `rounded`.
fn real(op: Recurrent, operands: &Operands, rounded: &dyn Fn(f64) -> f64) -> Tensors {
    let dst_dims = operands.dst_dims();
    let (steps, batch, units) = (dst_dims[0], dst_dims[1], dst_dims[3]);
    let hidden = operands.get(Arg::Weights).dims[3];
    let directions = op.direction.count();
    let initial = |arg, count| {
        let zeros = || Tensor::from_fn(&Dims::from([directions, batch, count]), |_| 0.0);
        operands.find(arg).cloned().unwrap_or_else(zeros)
    };
    let mut dst = Tensor::from_fn(dst_dims, |_| 0.0);
    let mut workspace =
        Tensor::from_fn(&Dims::from([directions, steps, batch, op.cell.rows(), hidden]), |_| 0.0);
    let mut states = initial(Recurrent::INITIAL_STATE, units);
    states.values.iter_mut().for_each(|x| *x = rounded(*x));
    let mut cells = initial(Recurrent::INITIAL_CELL, hidden);
    for direction in 0..directions {
        for row in 0..batch {
            let length = operands
                .find(Recurrent::LENGTHS)
                .map_or(steps, |lengths| lengths.at(&[row]).clamp(0.0, steps as f64) as usize);
            for i in 0..length {
                let step = if op.direction.is_backward(direction) { length - 1 - i } else { i };
                let mut made = next(op.cell, operands, [direction, row, step], (&states, &cells), rounded);
                made.state.iter_mut().for_each(|x| *x = rounded(*x));
                let shown = if op.direction == Direction::Sum { 0 } else { direction };
                for (unit, value) in made.state.iter().enumerate() {
                    dst.add(&[step, row, shown, unit], *value);
                }
                for (place, values) in made.rows.iter().enumerate() {
                    for (unit, value) in values.iter().enumerate() {
                        workspace.add(&[direction, step, row, place, unit], *value);
                    }
                }
                replace(&mut states, direction, row, &made.state);
                replace(&mut cells, direction, row, &made.cell);
            }
        }
    }
    Tensors::from([
        (Arg::DST, dst),
        (Recurrent::LAST_STATE, states),
        (Recurrent::LAST_CELL, cells),
        (Recurrent::WORKSPACE, workspace),
    ])
}

/// What a step makes.
struct Made {
    state: Vec<f64>,
    cell: Vec<f64>,
    /// Those of the workspace.
    rows: Vec<Vec<f64>>,
}

fn replace(states: &mut Tensor, direction: usize, row: usize, values: &[f64]) {
    let first = (direction * states.dims[1] + row) * states.dims[2];
    states.values[first..][..values.len()].copy_from_slice(values);
}

fn next(
    cell: Cell,
    operands: &Operands,
    [d, n, step]: [usize; 3],
    (states, cells): (&Tensor, &Tensor),
    rounded: &dyn Fn(f64) -> f64,
) -> Made {
    let (src, weights) = (operands.get(Arg::SRC), operands.get(Arg::Weights));
    let state_weights = operands.get(Recurrent::STATE_WEIGHTS);
    let (hidden, units) = (weights.dims[3], states.dims[2]);
    let bias = |arg, gate, unit| operands.find(arg).map_or(0.0, |bias| bias.at(&[d, gate, unit]));
    // The products of the input and of a state, each with its bias.
    let of_input = |gate: usize, unit: usize| -> f64 {
        let terms = (0..src.dims[2]).map(|k| src.at(&[step, n, k]) * weights.at(&[d, k, gate, unit]));
        terms.sum::<f64>() + bias(Arg::Bias, gate, unit)
    };
    let of_state = |state: &dyn Fn(usize) -> f64, gate: usize, unit: usize| -> f64 {
        let terms = (0..units).map(|k| state(k) * state_weights.at(&[d, k, gate, unit]));
        terms.sum::<f64>() + bias(Recurrent::STATE_BIAS, gate, unit)
    };
    let state = |unit: usize| states.at(&[d, n, unit]);
    let sum = |gate: usize, unit: usize| of_input(gate, unit) + of_state(&state, gate, unit);
    let old_cell = |unit: usize| cells.at(&[d, n, unit]);
    let all = |of: &dyn Fn(usize) -> f64| (0..hidden).map(of).collect::<Vec<f64>>();
    let state_row = (0..units).map(state).collect::<Vec<f64>>();
    match cell {
        Cell::Vanilla(activation) => {
            let apply = |x: f64| match activation {
                Activation::Relu => x.max(0.0),
                Activation::LeakyRelu { alpha } if x <= 0.0 => f64::from(alpha) * x,
                Activation::LeakyRelu { .. } => x,
                Activation::Tanh => x.tanh(),
                Activation::Logistic => logistic(x),
            };
            let state = all(&|unit| apply(sum(0, unit)));
            Made { state: state.clone(), cell: all(&old_cell), rows: vec![state, state_row] }
        }
        Cell::Lstm(order) => {
            let ([i, f, c, o], [p_i, p_f, p_o]) = (order.places(), order.peepholes());
            let peep = |place: usize, unit: usize, cell: f64| {
                operands.find(Recurrent::PEEPHOLES).map_or(0.0, |p| p.at(&[d, place, unit]) * cell)
            };
            let old = all(&old_cell);
            let input = all(&|unit| logistic(sum(i, unit) + peep(p_i, unit, old[unit])));
            let forget = all(&|unit| logistic(sum(f, unit) + peep(p_f, unit, old[unit])));
            let candidate = all(&|unit| sum(c, unit).tanh());
            let cells = all(&|unit| forget[unit] * old[unit] + input[unit] * candidate[unit]);
            let output = all(&|unit| logistic(sum(o, unit) + peep(p_o, unit, cells[unit])));
            let whole = all(&|unit| output[unit] * cells[unit].tanh());
            let state = match operands.find(Recurrent::PROJECTION) {
                None => whole,
                Some(projection) => (0..units)
                    .map(|to| {
                        (0..hidden).map(|unit| rounded(whole[unit]) * projection.at(&[d, unit, to])).sum()
                    })
                    .collect(),
            };
            let mut rows = vec![Vec::new(); 4];
            for (place, gate) in [(i, input), (f, forget), (c, candidate), (o, output)] {
                rows[place] = gate;
            }
            rows.extend([state_row, old]);
            Made { state, cell: cells, rows }
        }
        Cell::Gru | Cell::GruLinearBeforeReset => {
            let reset = all(&|unit| logistic(sum(1, unit)));
            let update = all(&|unit| logistic(sum(0, unit)));
            let kept = |unit: usize| rounded(reset[unit] * state(unit));
            let product = all(&|unit| of_state(&state, 2, unit));
            let candidate = all(&|unit| {
                let of_state =
                    if cell == Cell::Gru { of_state(&kept, 2, unit) } else { reset[unit] * product[unit] };
                (of_input(2, unit) + of_state).tanh()
            });
            let attention = operands.find(Recurrent::ATTENTION).map_or(0.0, |a| a.at(&[step, n, 0]));
            let next = all(&|unit| {
                let update = (1.0 - attention) * update[unit];
                update * state(unit) + (1.0 - update) * candidate[unit]
            });
            let mut rows = vec![update, reset, candidate, state_row];
            rows.extend((cell == Cell::GruLinearBeforeReset).then_some(product));
            Made { state: next, cell: all(&old_cell), rows }
        }
    }
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}
