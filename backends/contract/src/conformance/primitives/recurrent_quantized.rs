use super::recurrent::{DIRECTIONS, LSTM};
use super::{Trials, dense, f32, strided, tagged};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::{Cell, Direction, Recurrent};
use crate::{Arg, DataType, MemoryDesc, PrimitiveDesc, PrimitiveDescBuilder, Result};

const GRU: Cell = Cell::Gru;

pub(super) fn trials(list: &mut Trials) {
    // No state is so near to the middle of two integers that the accuracy of a function decides.
    for (name, cell) in [("lstm", LSTM), ("gru", GRU)] {
        list.add(format!("recurrent/quantized/{name}"), || {
            let op = layer(cell, Direction::Concat);
            Ok(within(op, operands(op, [4, 3, 5, 7], DataType::U8, DataType::U8))?.exact())
        });
        if list.is_thorough() {
            list.add(format!("recurrent/quantized/{name}/past_a_tile"), || {
                let op = layer(cell, Direction::RightToLeft);
                within(op, operands(op, [3, 9, 17, 67], DataType::U8, DataType::U8))
            });
        }
    }
    if list.is_thorough() {
        directions(list);
    }
    list.add("recurrent/quantized/floats", || {
        let op = Recurrent::new(LSTM, Direction::RightToLeft).with_quantization(50.0, -3.0);
        within(op, operands(op, [3, 9, 17, 67], DataType::S8, DataType::F32))
    });
    list.add("recurrent/quantized/sum", || {
        let op = layer(GRU, Direction::Sum);
        let builder = operands(op, [4, 6, 5, 18], DataType::U8, DataType::U8);
        let lengths = Values::Listed(vec![2.0, 0.0, 4.0, 9.0, -3.0, 1.0]);
        let trial = within(op, builder.arg(Recurrent::LENGTHS, dense(&[6], DataType::S32)))?;
        Ok(trial.values(Recurrent::LENGTHS, lengths))
    });
    list.add("recurrent/quantized/projection", || {
        let (op, [steps, batch, inputs, hidden, units]) = (layer(LSTM, Direction::Concat), [4, 3, 6, 18, 5]);
        let states = dense(&[2, batch, units], DataType::U8);
        let builder = PrimitiveDesc::builder(op)
            .src(dense(&[steps, batch, inputs], DataType::U8))
            .src(dense(&[2, units, 4, hidden], DataType::S8))
            .weights(dense(&[2, inputs, 4, hidden], DataType::S8))
            .bias(f32(&[2, 4, hidden]))
            .arg(Recurrent::WEIGHTS_SCALES, f32(&[1, 1, 1]))
            .arg(Recurrent::PROJECTION, dense(&[2, hidden, units], DataType::S8))
            .arg(Recurrent::PROJECTION_SCALES, f32(&[1, units]))
            .arg(Recurrent::INITIAL_STATE, states.clone())
            .arg(Recurrent::LAST_STATE, states)
            .dst(dense(&[steps, batch, 2, units], DataType::U8));
        within(op, builder)
    });
    list.add("recurrent/quantized/layout", || {
        let (op, [steps, batch, inputs, hidden]) = (layer(LSTM, Direction::Concat), [4, 3, 6, 20]);
        let gates_first = [4 * hidden * inputs, 1, hidden * inputs, inputs];
        let row = 2 * hidden;
        let builder = PrimitiveDesc::builder(op)
            .src(strided(&[steps, batch, inputs], DataType::U8, &[inputs, steps * inputs, 1], 1)?)
            .src(tagged(&[2, hidden, 4, hidden], DataType::S8, "aBcd4b")?)
            .weights(strided(&[2, inputs, 4, hidden], DataType::S8, &gates_first, 0)?)
            .arg(Recurrent::WEIGHTS_SCALES, f32(&[2, 1, hidden]))
            .arg(Recurrent::LAST_STATE, MemoryDesc::any([2, batch, hidden], DataType::U8))
            .dst(strided(&[steps, batch, 2, hidden], DataType::U8, &[row, steps * row, hidden, 1], 0)?);
        within(op, builder)
    });
}

/// Both cells in every direction: u8 with states of the same type, u8 with floats, and s8, whose zero is zero.
fn directions(list: &mut Trials) {
    for (name, cell) in [("lstm", LSTM), ("gru", GRU)] {
        for (way, direction) in DIRECTIONS {
            for (own, shown) in
                [(DataType::U8, DataType::U8), (DataType::U8, DataType::F32), (DataType::S8, DataType::S8)]
            {
                list.add(format!("recurrent/quantized/{name}/{way}/{own}_to_{shown}"), || {
                    let shift = if own == DataType::S8 { 0.0 } else { 64.0 };
                    let op = Recurrent::new(cell, direction).with_quantization(50.0, shift);
                    within(op, operands(op, [4, 3, 5, 18], own, shown))
                });
            }
        }
    }
}

fn layer(cell: Cell, direction: Direction) -> Recurrent {
    Recurrent::new(cell, direction).with_quantization(50.0, 64.0)
}

/// All operands but lengths and a projection, `[T, N, I, H]`, with states of type `shown`.
fn operands(
    op: Recurrent,
    [steps, batch, inputs, hidden]: [usize; 4],
    own: DataType,
    shown: DataType,
) -> PrimitiveDescBuilder {
    let (d, g) = (op.direction.count(), op.cell.gates());
    let side = if op.direction == Direction::Sum { 1 } else { d };
    let states = dense(&[d, batch, hidden], shown);
    let builder = PrimitiveDesc::builder(op)
        .src(dense(&[steps, batch, inputs], own))
        .src(dense(&[d, hidden, g, hidden], DataType::S8))
        .weights(dense(&[d, inputs, g, hidden], DataType::S8))
        .arg(Recurrent::WEIGHTS_SCALES, f32(&[1, g, hidden]))
        .bias(f32(&[d, g, hidden]))
        .arg(Recurrent::INITIAL_STATE, states.clone())
        .arg(Recurrent::LAST_STATE, states)
        .dst(dense(&[steps, batch, side, hidden], shown));
    if !op.cell.is_lstm() {
        return builder;
    }
    builder
        .arg(Recurrent::INITIAL_CELL, f32(&[d, batch, hidden]))
        .arg(Recurrent::PEEPHOLES, f32(&[d, 3, hidden]))
}

/// With integers of both signs around the shift, and weights under which states keep away from the bounds of their functions.
fn within(op: Recurrent, builder: PrimitiveDescBuilder) -> Result<Trial> {
    let trial = Trial::of(builder)?;
    let desc = trial.desc();
    let terms = desc.src().dims()[2] + desc.find(Recurrent::STATE_WEIGHTS).map_or(1, |desc| desc.dims()[1]);
    let shift = op.quantization.map_or(0.0, |own| f64::from(own.shift)) as i64;
    let states = Values::Integers(shift - 60, shift + 60);
    let is_float = desc.find(Recurrent::INITIAL_STATE).is_some_and(|desc| desc.data_type().is_float());
    let least = 40.0 * (terms as f64).sqrt();
    let mut trial = trial
        .values(Arg::SRC, states.clone())
        .values(Arg::Weights, Values::Integers(-90, 90))
        .values(Recurrent::STATE_WEIGHTS, Values::Integers(-90, 90))
        .values(Recurrent::PROJECTION, Values::Integers(-90, 90))
        .values(Recurrent::WEIGHTS_SCALES, Values::Uniform(least, 2.0 * least))
        .values(Recurrent::PROJECTION_SCALES, Values::Uniform(least, 2.0 * least));
    if !is_float {
        trial = trial.values(Recurrent::INITIAL_STATE, states);
    }
    Ok(trial)
}
