use super::{Trials, dense, f32, gapped, strided};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::{Activation, Cell, Direction, GateOrder, Recurrent};
use crate::{Arg, DataType, MemoryDesc, PrimitiveDesc, PrimitiveDescBuilder, Result};

pub(super) const LSTM: Cell = Cell::Lstm(GateOrder::InputForgetCandidateOutput);
pub(super) const CELLS: [(&str, Cell); 8] = [
    ("relu", Cell::Vanilla(Activation::Relu)),
    ("leaky_relu", Cell::Vanilla(Activation::LeakyRelu { alpha: 0.375 })),
    ("tanh", Cell::Vanilla(Activation::Tanh)),
    ("logistic", Cell::Vanilla(Activation::Logistic)),
    ("lstm", LSTM),
    ("lstm_onnx", Cell::Lstm(GateOrder::InputOutputForgetCandidate)),
    ("gru", Cell::Gru),
    ("lbr_gru", Cell::GruLinearBeforeReset),
];
pub(super) const DIRECTIONS: [(&str, Direction); 4] = [
    ("l2r", Direction::LeftToRight),
    ("r2l", Direction::RightToLeft),
    ("concat", Direction::Concat),
    ("sum", Direction::Sum),
];

pub(super) fn trials(list: &mut Trials) {
    let thorough = list.is_thorough();
    for (name, cell) in CELLS {
        let main = matches!(name, "lstm" | "gru" | "lbr_gru" | "tanh");
        for (way, direction) in DIRECTIONS {
            if thorough || way == "concat" || way == "sum" && name == "lstm" {
                let op = Recurrent::new(cell, direction);
                list.add(format!("recurrent/{name}/{way}"), || whole(op, [4, 2, 5, 7]));
            }
        }
        let op = Recurrent::new(cell, Direction::LeftToRight);
        if thorough || main {
            list.add(format!("recurrent/{name}/bare"), || bounded(op, 21, layer(op, [3, 1, 4, 21])));
            list.add(format!("recurrent/{name}/past_a_tile"), || whole(op, [3, 9, 17, 67]));
        }
        if thorough {
            list.add(format!("recurrent/{name}/one_step"), || whole(op, [1, 3, 1, 1]));
        }
        // Enough weights for several work-groups of a device to share a sequence.
        if matches!(name, "gru" | "lbr_gru") || thorough && name == "lstm" {
            list.add(format!("recurrent/{name}/shared"), || whole(op, [14, 3, 2, 200]));
        }
    }
    if thorough {
        types(list);
    }
    for data_type in [DataType::F16, DataType::BF16] {
        list.add(format!("recurrent/{data_type}"), || {
            let op = Recurrent::new(LSTM, Direction::Concat);
            let desc = |dims: &[usize]| dense(dims, data_type);
            let builder = PrimitiveDesc::builder(op)
                .src(desc(&[5, 2, 9]))
                .src(desc(&[2, 12, 4, 12]))
                .weights(desc(&[2, 9, 4, 12]))
                .bias(desc(&[2, 4, 12]))
                .dst(desc(&[5, 2, 2, 12]))
                .arg(Recurrent::LAST_STATE, desc(&[2, 2, 12]));
            bounded(op, 12, builder)
        });
    }
    lengths(list);
    layouts(list);
}

/// Every cell in every direction, of 16 bits and of f64, with a result of the same type.
fn types(list: &mut Trials) {
    for data_type in [DataType::F16, DataType::BF16, DataType::F64] {
        for (name, cell) in CELLS {
            for (way, direction) in DIRECTIONS {
                list.add(format!("recurrent/{data_type}/{name}/{way}"), || {
                    let (op, [steps, batch, inputs, hidden]) =
                        (Recurrent::new(cell, direction), [4, 3, 5, 18]);
                    let (d, g) = (direction.count(), cell.gates());
                    let shown = if direction == Direction::Sum { 1 } else { d };
                    let desc = |dims: &[usize]| dense(dims, data_type);
                    let builder = PrimitiveDesc::builder(op)
                        .src(desc(&[steps, batch, inputs]))
                        .src(desc(&[d, hidden, g, hidden]))
                        .weights(desc(&[d, inputs, g, hidden]))
                        .bias(desc(&[d, g, hidden]))
                        .dst(desc(&[steps, batch, shown, hidden]))
                        .arg(Recurrent::INITIAL_STATE, desc(&[d, batch, hidden]))
                        .arg(Recurrent::LAST_STATE, desc(&[d, batch, hidden]));
                    bounded(op, hidden, builder)
                });
            }
        }
    }
}

fn lengths(list: &mut Trials) {
    for (name, cell) in [("lstm", LSTM), ("gru", Cell::Gru), ("lbr_gru", Cell::GruLinearBeforeReset)] {
        for (way, direction) in DIRECTIONS {
            if !list.is_thorough() && way != "concat" {
                continue;
            }
            list.add(format!("recurrent/lengths/{name}/{way}"), || {
                let op = Recurrent::new(cell, direction);
                let builder =
                    everything(op, [4, 6, 3, 5]).arg(Recurrent::LENGTHS, dense(&[6], DataType::S32));
                // None, some, all; beyond the sequence, and below zero.
                let lengths = Values::Listed(vec![2.0, 0.0, 4.0, 9.0, -3.0, 1.0]);
                Ok(bounded(op, 5, builder)?.values(Recurrent::LENGTHS, lengths))
            });
        }
    }
}

fn layouts(list: &mut Trials) {
    let op = Recurrent::new(LSTM, Direction::Concat);
    let [steps, batch, inputs, hidden] = [5, 3, 6, 10];
    list.add("recurrent/layout/batch_first", || {
        let float = DataType::F32;
        let src = strided(&[steps, batch, inputs], float, &[inputs, steps * inputs, 1], 0)?;
        let row = 2 * hidden;
        let dst = strided(&[steps, batch, 2, hidden], float, &[row, steps * row, hidden, 1], 0)?;
        let last = strided(&[2, batch, hidden], float, &[hidden, row, 1], 0)?;
        let builder = PrimitiveDesc::builder(op)
            .src(src)
            .src(f32(&[2, hidden, 4, hidden]))
            .weights(f32(&[2, inputs, 4, hidden]))
            .dst(dst)
            .arg(Recurrent::LAST_STATE, last.clone())
            .arg(Recurrent::INITIAL_CELL, last);
        bounded(op, hidden, builder)
    });
    // [D, G, H, I], as ONNX and ldgoi have them.
    list.add("recurrent/layout/gates_first", || {
        let of = |terms: usize| {
            let strides = [4 * hidden * terms, 1, hidden * terms, terms];
            strided(&[2, terms, 4, hidden], DataType::F32, &strides, 0)
        };
        // States of a direction after those of another, as ONNX has them.
        let strides = [2 * batch * hidden, hidden, batch * hidden, 1];
        let builder = PrimitiveDesc::builder(op)
            .src(f32(&[steps, batch, inputs]))
            .src(of(hidden)?)
            .weights(of(inputs)?)
            .dst(strided(&[steps, batch, 2, hidden], DataType::F32, &strides, 0)?);
        bounded(op, hidden, builder)
    });
    list.add("recurrent/layout/open", || {
        let any = |dims: &[usize]| MemoryDesc::any(dims, DataType::F32);
        let builder = PrimitiveDesc::builder(op)
            .src(any(&[steps, batch, inputs]))
            .src(any(&[2, hidden, 4, hidden]))
            .weights(any(&[2, inputs, 4, hidden]))
            .bias(any(&[2, 4, hidden]))
            .arg(Recurrent::LAST_CELL, any(&[2, batch, hidden]));
        bounded(op, hidden, builder)
    });
    list.add("recurrent/layout/gaps", || {
        let gap = |dims: &[usize]| gapped(dims, DataType::F32, 3, 2);
        let builder = PrimitiveDesc::builder(op)
            .src(gap(&[steps, batch, inputs])?)
            .src(gap(&[2, hidden, 4, hidden])?)
            .weights(gap(&[2, inputs, 4, hidden])?)
            .bias(gap(&[2, 4, hidden])?)
            .arg(Recurrent::PEEPHOLES, gap(&[2, 3, hidden])?)
            .arg(Recurrent::INITIAL_STATE, gap(&[2, batch, hidden])?)
            .arg(Recurrent::LAST_STATE, gap(&[2, batch, hidden])?)
            .dst(gap(&[steps, batch, 2, hidden])?);
        bounded(op, hidden, builder)
    });
    list.add("recurrent/no_batch", || whole(op, [2, 0, 3, 4]));
    list.add("recurrent/no_inputs", || whole(op, [3, 2, 0, 4]));
}

/// With all operands but lengths.
fn whole(op: Recurrent, sizes: [usize; 4]) -> Result<Trial> {
    bounded(op, sizes[3], everything(op, sizes))
}

/// With weights under which states neither grow nor all reach the bounds of their functions.
pub(super) fn bounded(op: Recurrent, hidden: usize, builder: PrimitiveDescBuilder) -> Result<Trial> {
    let most = if op.cell.is_rectifier() { 1.0 } else { 2.0 };
    let most = most / (hidden as f64).sqrt();
    let trial = Trial::of(builder)?.values(Recurrent::STATE_WEIGHTS, Values::Uniform(-most, most));
    Ok(trial.values(Arg::Weights, Values::Uniform(-0.5, 0.5)))
}

fn layer(op: Recurrent, [steps, batch, inputs, hidden]: [usize; 4]) -> PrimitiveDescBuilder {
    let (d, g) = (op.direction.count(), op.cell.gates());
    let shown = if op.direction == Direction::Sum { 1 } else { d };
    PrimitiveDesc::builder(op)
        .src(f32(&[steps, batch, inputs]))
        .src(f32(&[d, hidden, g, hidden]))
        .weights(f32(&[d, inputs, g, hidden]))
        .dst(f32(&[steps, batch, shown, hidden]))
}

pub(super) fn everything(op: Recurrent, sizes: [usize; 4]) -> PrimitiveDescBuilder {
    let [_, batch, _, hidden] = sizes;
    let (d, g) = (op.direction.count(), op.cell.gates());
    let states = f32(&[d, batch, hidden]);
    let builder = layer(op, sizes)
        .bias(f32(&[d, g, hidden]))
        .arg(Recurrent::STATE_BIAS, f32(&[d, g, hidden]))
        .arg(Recurrent::INITIAL_STATE, states.clone())
        .arg(Recurrent::LAST_STATE, states.clone());
    if !op.cell.is_lstm() {
        return builder;
    }
    builder
        .arg(Recurrent::INITIAL_CELL, states.clone())
        .arg(Recurrent::PEEPHOLES, f32(&[d, 3, hidden]))
        .arg(Recurrent::LAST_CELL, states)
}
