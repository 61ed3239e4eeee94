use super::recurrent::{CELLS, DIRECTIONS, LSTM, bounded, everything};
use super::{Trials, dense, f32, strided, tagged};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::{Cell, Direction, Recurrent, RecurrentBackward as Backward};
use crate::{Arg, DataType, PrimitiveDesc, PrimitiveDescBuilder, Result};

/// What a layer is given besides.
#[derive(Clone, Copy, Debug, Default)]
struct With {
    projection: Option<usize>,
    attention: bool,
    lengths: bool,
}

pub(super) fn trials(list: &mut Trials) {
    let thorough = list.is_thorough();
    for (name, cell) in CELLS {
        for (way, direction) in DIRECTIONS {
            let op = Recurrent::new(cell, direction);
            if thorough || way == "concat" && !matches!(name, "relu" | "lstm_onnx") {
                list.add(format!("recurrent/workspace/{name}/{way}"), || {
                    forward(op, [4, 3, 5, 7], With::default())
                });
            }
            if thorough || way == "concat" || way == "sum" && name == "gru" {
                list.add(format!("recurrent_backward/{name}/{way}"), || {
                    gradients(op, [4, 3, 5, 7], With::default())
                });
            }
        }
        let op = Recurrent::new(cell, Direction::LeftToRight);
        if thorough || matches!(name, "lstm" | "gru" | "lbr_gru") {
            let with = With { lengths: true, ..With::default() };
            list.add(format!("recurrent/workspace/{name}/past_a_tile"), || forward(op, [3, 6, 17, 37], with));
            list.add(format!("recurrent_backward/{name}/past_a_tile"), || {
                gradients(op, [3, 6, 17, 37], with)
            });
            list.add(format!("recurrent_backward/{name}/bare"), || {
                let builder = gradient_operands(op, [2, 1, 3, 5], 5).arg(Arg::DST, f32(&[2, 1, 3]));
                judged(op, 5, builder)
            });
        }
    }
    for (name, cell) in [("gru", Cell::Gru), ("lbr_gru", Cell::GruLinearBeforeReset)] {
        let (op, with) =
            (Recurrent::new(cell, Direction::Concat), With { attention: true, ..With::default() });
        list.add(format!("recurrent/attention/{name}"), || forward(op, [4, 3, 5, 7], with));
        list.add(format!("recurrent_backward/attention/{name}"), || gradients(op, [4, 3, 5, 7], with));
    }
    for (way, direction) in DIRECTIONS {
        if thorough || matches!(way, "concat" | "sum") {
            let (op, with) = (
                Recurrent::new(LSTM, direction),
                With { projection: Some(3), lengths: true, ..With::default() },
            );
            list.add(format!("recurrent/projection/{way}"), || forward(op, [4, 6, 5, 18], with));
            list.add(format!("recurrent_backward/projection/{way}"), || gradients(op, [4, 6, 5, 18], with));
        }
    }
    list.add("recurrent/projection/inference", || {
        let op = Recurrent::new(LSTM, Direction::LeftToRight);
        let builder = PrimitiveDesc::builder(op)
            .src(f32(&[3, 2, 4]))
            .src(f32(&[1, 2, 4, 6]))
            .weights(f32(&[1, 4, 4, 6]))
            .arg(Recurrent::PROJECTION, f32(&[1, 6, 2]))
            .dst(f32(&[3, 2, 1, 2]));
        bounded(op, 6, builder)
    });
    if thorough {
        types(list);
    }
    for data_type in [DataType::F16, DataType::BF16] {
        list.add(format!("recurrent_backward/{data_type}"), || {
            let op = Recurrent::new(LSTM, Direction::Concat);
            let desc = |dims: &[usize]| dense(dims, data_type);
            let builder = PrimitiveDesc::builder(Backward::new(op))
                .src(desc(&[5, 2, 9]))
                .src(desc(&[2, 12, 4, 12]))
                .weights(desc(&[2, 9, 4, 12]))
                .arg(Backward::DIFF_DST, f32(&[5, 2, 2, 12]))
                .arg(Backward::WORKSPACE, f32(&[2, 5, 2, 6, 12]))
                .dst(desc(&[5, 2, 9]))
                .arg(Backward::DIFF_WEIGHTS, f32(&[2, 9, 4, 12]))
                .arg(Backward::DIFF_STATE_WEIGHTS, desc(&[2, 12, 4, 12]))
                .arg(Backward::DIFF_BIAS, desc(&[2, 4, 12]));
            judged(op, 12, builder)
        });
    }
    layouts(list);
}

/// Every cell in every direction with operands of 16 bits.
fn types(list: &mut Trials) {
    for data_type in [DataType::F16, DataType::BF16] {
        for (name, cell) in CELLS {
            for (way, direction) in DIRECTIONS {
                let (op, [steps, batch, inputs, hidden]) = (Recurrent::new(cell, direction), [4, 3, 5, 12]);
                let (d, g) = (direction.count(), cell.gates());
                let shown = if direction == Direction::Sum { 1 } else { d };
                let workspace = f32(&[d, steps, batch, cell.rows(), hidden]);
                let desc = |dims: &[usize]| dense(dims, data_type);
                let layer = |builder: PrimitiveDescBuilder| {
                    builder
                        .src(desc(&[steps, batch, inputs]))
                        .src(desc(&[d, hidden, g, hidden]))
                        .weights(desc(&[d, inputs, g, hidden]))
                };
                list.add(format!("recurrent/workspace/{data_type}/{name}/{way}"), || {
                    let builder = layer(PrimitiveDesc::builder(op))
                        .bias(desc(&[d, g, hidden]))
                        .dst(desc(&[steps, batch, shown, hidden]))
                        .arg(Recurrent::LAST_STATE, desc(&[d, batch, hidden]))
                        .arg(Recurrent::WORKSPACE, workspace.clone());
                    bounded(op, hidden, builder)
                });
                list.add(format!("recurrent_backward/{data_type}/{name}/{way}"), || {
                    let builder = layer(PrimitiveDesc::builder(Backward::new(op)))
                        .arg(Backward::DIFF_DST, f32(&[steps, batch, shown, hidden]))
                        .arg(Backward::WORKSPACE, workspace.clone())
                        .dst(desc(&[steps, batch, inputs]))
                        .arg(Backward::DIFF_WEIGHTS, f32(&[d, inputs, g, hidden]))
                        .arg(Backward::DIFF_STATE_WEIGHTS, f32(&[d, hidden, g, hidden]))
                        .arg(Backward::DIFF_BIAS, desc(&[d, g, hidden]));
                    judged(op, hidden, builder)
                });
            }
        }
    }
}

fn layouts(list: &mut Trials) {
    let op = Recurrent::new(Cell::GruLinearBeforeReset, Direction::Concat);
    let [steps, batch, inputs, hidden] = [4, 3, 6, 10];
    // [N, T, C] and [D, G, H, I], as a transposed product reads them.
    let by_gates = |terms: usize| {
        let strides = [3 * hidden * terms, 1, hidden * terms, terms];
        strided(&[2, terms, 3, hidden], DataType::F32, &strides, 0)
    };
    let batch_first = |dims: [usize; 3]| strided(&dims, DataType::F32, &[dims[2], dims[0] * dims[2], 1], 2);
    list.add("recurrent_backward/layout/strided", || {
        let row = 2 * hidden;
        let diff = strided(&[steps, batch, 2, hidden], DataType::F32, &[row, steps * row, hidden, 1], 0)?;
        let builder = PrimitiveDesc::builder(Backward::new(op))
            .src(batch_first([steps, batch, inputs])?)
            .src(by_gates(hidden)?)
            .weights(by_gates(inputs)?)
            .arg(Backward::DIFF_DST, diff)
            .arg(Backward::WORKSPACE, f32(&[2, steps, batch, 5, hidden]))
            .dst(batch_first([steps, batch, inputs])?)
            .arg(Backward::DIFF_WEIGHTS, by_gates(inputs)?)
            .arg(Backward::DIFF_STATE_WEIGHTS, by_gates(hidden)?)
            .arg(Backward::DIFF_STATE_BIAS, f32(&[2, 3, hidden]));
        judged(op, hidden, builder)
    });
    list.add("recurrent_backward/layout/blocked", || {
        let blocked = |dims: &[usize]| tagged(dims, DataType::F32, "aBcd4b");
        let builder = gradient_operands(op, [steps, batch, inputs, hidden], hidden)
            .dst(tagged(&[steps, batch, inputs], DataType::F32, "aBc4b")?)
            .arg(Backward::DIFF_WEIGHTS, blocked(&[2, inputs, 3, hidden])?)
            .arg(Backward::DIFF_STATE_WEIGHTS, blocked(&[2, hidden, 3, hidden])?);
        judged(op, hidden, builder)
    });
    list.add("recurrent/workspace/layout", || {
        let op = Recurrent::new(Cell::Gru, Direction::Sum);
        let blocked = |dims: &[usize]| tagged(dims, DataType::F32, "aBcd4b");
        let builder = PrimitiveDesc::builder(op)
            .src(batch_first([steps, batch, inputs])?)
            .src(by_gates(hidden)?)
            .weights(blocked(&[2, inputs, 3, hidden])?)
            .dst(tagged(&[steps, batch, 1, hidden], DataType::F32, "aBcd4b")?)
            .arg(Recurrent::WORKSPACE, f32(&[2, steps, batch, 4, hidden]));
        bounded(op, hidden, builder)
    });
    list.add("recurrent_backward/no_batch", || {
        gradients(Recurrent::new(LSTM, Direction::Concat), [2, 0, 3, 4], With::default())
    });
    list.add("recurrent_backward/no_inputs", || {
        gradients(Recurrent::new(Cell::Gru, Direction::Concat), [2, 2, 0, 4], With::default())
    });
}

/// The layer with its workspace.
fn forward(op: Recurrent, sizes: [usize; 4], with: With) -> Result<Trial> {
    let [steps, batch, inputs, hidden] = sizes;
    let (d, g) = (op.direction.count(), op.cell.gates());
    let mut builder = match with.projection {
        None => everything(op, sizes),
        Some(units) => {
            let shown = if op.direction == Direction::Sum { 1 } else { d };
            PrimitiveDesc::builder(op)
                .src(f32(&[steps, batch, inputs]))
                .src(f32(&[d, units, g, hidden]))
                .weights(f32(&[d, inputs, g, hidden]))
                .bias(f32(&[d, g, hidden]))
                .dst(f32(&[steps, batch, shown, units]))
                .arg(Recurrent::PROJECTION, f32(&[d, hidden, units]))
                .arg(Recurrent::INITIAL_STATE, f32(&[d, batch, units]))
                .arg(Recurrent::INITIAL_CELL, f32(&[d, batch, hidden]))
                .arg(Recurrent::LAST_STATE, f32(&[d, batch, units]))
                .arg(Recurrent::LAST_CELL, f32(&[d, batch, hidden]))
        }
    };
    builder = builder.arg(Recurrent::WORKSPACE, f32(&[d, steps, batch, op.cell.rows(), hidden]));
    if with.attention {
        builder = builder.arg(Recurrent::ATTENTION, f32(&[steps, batch, 1]));
    }
    if with.lengths {
        builder = builder.arg(Recurrent::LENGTHS, dense(&[batch], DataType::S32));
    }
    let trial = bounded(op, hidden, builder)?.values(Recurrent::ATTENTION, Values::Uniform(0.0, 1.0));
    Ok(if with.lengths { trial.values(Recurrent::LENGTHS, cut(steps)) } else { trial })
}

/// All gradients of the layer.
fn gradients(op: Recurrent, sizes: [usize; 4], with: With) -> Result<Trial> {
    let [steps, batch, inputs, hidden] = sizes;
    let (d, g) = (op.direction.count(), op.cell.gates());
    let units = with.projection.unwrap_or(hidden);
    let (biases, states) = (f32(&[d, g, hidden]), f32(&[d, batch, units]));
    let mut builder = gradient_operands(op, sizes, units)
        .dst(f32(&[steps, batch, inputs]))
        .arg(Backward::DIFF_LAST_STATE, states.clone())
        .arg(Backward::DIFF_INITIAL_STATE, states)
        .arg(Backward::DIFF_WEIGHTS, f32(&[d, inputs, g, hidden]))
        .arg(Backward::DIFF_STATE_WEIGHTS, f32(&[d, units, g, hidden]))
        .arg(Backward::DIFF_BIAS, biases.clone())
        .arg(Backward::DIFF_STATE_BIAS, biases);
    if op.cell.is_lstm() {
        let (cells, peepholes) = (f32(&[d, batch, hidden]), f32(&[d, 3, hidden]));
        builder = builder
            .arg(Backward::DIFF_LAST_CELL, cells.clone())
            .arg(Backward::DIFF_INITIAL_CELL, cells)
            .arg(Recurrent::PEEPHOLES, peepholes.clone())
            .arg(Backward::DIFF_PEEPHOLES, peepholes);
    }
    if with.projection.is_some() {
        let projection = f32(&[d, hidden, units]);
        builder =
            builder.arg(Recurrent::PROJECTION, projection.clone()).arg(Backward::DIFF_PROJECTION, projection);
    }
    if with.attention {
        let attention = f32(&[steps, batch, 1]);
        builder =
            builder.arg(Recurrent::ATTENTION, attention.clone()).arg(Backward::DIFF_ATTENTION, attention);
    }
    if with.lengths {
        builder = builder.arg(Recurrent::LENGTHS, dense(&[batch], DataType::S32));
    }
    let trial = judged(op, hidden, builder)?;
    Ok(if with.lengths { trial.values(Recurrent::LENGTHS, cut(steps)) } else { trial })
}

/// What every gradient needs.
fn gradient_operands(op: Recurrent, sizes: [usize; 4], units: usize) -> PrimitiveDescBuilder {
    let [steps, batch, inputs, hidden] = sizes;
    let (d, g) = (op.direction.count(), op.cell.gates());
    let shown = if op.direction == Direction::Sum { 1 } else { d };
    PrimitiveDesc::builder(Backward::new(op))
        .src(f32(&[steps, batch, inputs]))
        .src(f32(&[d, units, g, hidden]))
        .weights(f32(&[d, inputs, g, hidden]))
        .arg(Backward::DIFF_DST, f32(&[steps, batch, shown, units]))
        .arg(Backward::WORKSPACE, f32(&[d, steps, batch, op.cell.rows(), hidden]))
}

/// With gates as their functions give them, and weights under which gradients do not grow.
pub(in crate::conformance) fn judged(
    op: Recurrent,
    hidden: usize,
    builder: PrimitiveDescBuilder,
) -> Result<Trial> {
    let most = 1.0 / (hidden as f64).sqrt();
    let gates = if matches!(op.cell, Cell::Vanilla(_)) {
        Values::Uniform(-0.9, 0.9)
    } else {
        Values::Uniform(0.0, 0.9)
    };
    let trial = Trial::of(builder)?
        .values(Recurrent::STATE_WEIGHTS, Values::Uniform(-most, most))
        .values(Recurrent::PROJECTION, Values::Uniform(-most, most))
        .values(Recurrent::PEEPHOLES, Values::Uniform(-0.5, 0.5))
        .values(Recurrent::ATTENTION, Values::Uniform(0.0, 1.0))
        .values(Backward::WORKSPACE, gates);
    Ok(trial.values(Arg::Weights, Values::Uniform(-0.5, 0.5)))
}

/// None, some, all; beyond the sequence, and below zero.
fn cut(steps: usize) -> Values {
    Values::Listed(vec![2.0, 0.0, steps as f64, 9.0, -3.0, 1.0])
}
