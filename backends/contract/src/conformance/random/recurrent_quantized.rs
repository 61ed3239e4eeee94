//! Layers of recurrent networks in integers.

use super::choices::{Choices, Lean};
use super::operand::{FLOATS, Role, finished, operand};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::{Cell, Direction, GateOrder, Recurrent};
use crate::{Arg, DataType, PrimitiveDesc, Result};

pub(super) fn quantized(choices: &mut Choices) -> Result<Trial> {
    let cell = choices.pick(&[
        Cell::Lstm(GateOrder::InputForgetCandidateOutput),
        Cell::Gru,
        Cell::Lstm(GateOrder::InputOutputForgetCandidate),
    ])?;
    let ways = [Direction::LeftToRight, Direction::RightToLeft, Direction::Concat, Direction::Sum];
    let (scale, shift) = choices.pick(&[(60.0, 64.0), (100.0, 128.0), (31.5, 40.25), (50.0, 0.0)])?;
    let op = Recurrent::new(cell, choices.pick_often_first(&ways)?).with_quantization(scale, shift);
    let (d, g) = (op.direction.count(), cell.gates());
    let limits = choices.limits();
    let most = [(32, Lean::Any), (64, Lean::Few), (256, Lean::Any), (256, Lean::Any)];
    let sizes = choices.sizes_leaning(&most, |sizes| {
        let &[steps, batch, inputs, hidden] = sizes else { return true };
        let terms = d * g * hidden * (inputs + hidden);
        terms <= limits.elements && 2 * terms * steps * batch <= limits.work
    });
    let of = |i: usize| sizes.get(i).copied().unwrap_or(1);
    let (steps, batch, inputs, hidden) = (of(0), of(1), of(2), of(3));
    let units = if cell.is_lstm() && choices.one_in(4) { hidden - choices.below(hidden) } else { hidden };
    let own = choices.data_type(&[DataType::U8, DataType::S8])?;
    let float = choices.data_type(&FLOATS)?;
    let shown = if choices.one_in(3) { float } else { own };
    let side = if op.direction == Direction::Sum { 1 } else { d };
    let some = |choices: &mut Choices, dim: usize| if choices.one_in(2) { 1 } else { dim };
    let scales = [some(choices, d), some(choices, g), some(choices, hidden)];
    let mut builder = PrimitiveDesc::builder(op)
        .src(operand(choices, Role::Source, &[steps, batch, inputs], own)?)
        .src(operand(choices, Role::Weights, &[d, units, g, hidden], DataType::S8)?)
        .weights(operand(choices, Role::Weights, &[d, inputs, g, hidden], DataType::S8)?)
        .arg(Recurrent::WEIGHTS_SCALES, operand(choices, Role::Side, &scales, float)?);
    let (biases, states, cells) = ([d, g, hidden], [d, batch, units], [d, batch, hidden]);
    let peepholes = [d, 3, hidden];
    let mut optional = vec![
        (Arg::Bias, Role::Side, &biases[..], float),
        (Recurrent::STATE_BIAS, Role::Side, &biases, float),
        (Recurrent::INITIAL_STATE, Role::Source, &states, shown),
        (Recurrent::LAST_STATE, Role::Result, &states, shown),
    ];
    if cell.is_lstm() {
        optional.extend([
            (Recurrent::INITIAL_CELL, Role::Source, &cells[..], float),
            (Recurrent::LAST_CELL, Role::Result, &cells, float),
            (Recurrent::PEEPHOLES, Role::Side, &peepholes, float),
        ]);
    }
    for (arg, role, dims, data_type) in optional {
        if choices.one_in(2) {
            builder = builder.arg(arg, operand(choices, role, dims, data_type)?);
        }
    }
    if units < hidden {
        let projection = operand(choices, Role::Weights, &[d, hidden, units], DataType::S8)?;
        let scales = [some(choices, d), some(choices, units)];
        let scales = operand(choices, Role::Side, &scales, float)?;
        builder = builder.arg(Recurrent::PROJECTION, projection).arg(Recurrent::PROJECTION_SCALES, scales);
    }
    let cut = choices.one_in(4);
    if cut {
        builder = builder.arg(Recurrent::LENGTHS, operand(choices, Role::Side, &[batch], DataType::S32)?);
    }
    builder = builder.dst(operand(choices, Role::Result, &[steps, batch, side, units], shown)?);
    // A state that was rounded the other way moves those of later steps by less.
    let (of_all, middle) = (90.0 * ((inputs + units) as f64).sqrt(), shift as i64);
    let of_states = Values::Integers(middle - 40, middle + 60);
    let mut trial = finished(choices, builder)?
        .values(Arg::SRC, of_states.clone())
        .values(Arg::Weights, Values::Integers(-100, 100))
        .values(Recurrent::STATE_WEIGHTS, Values::Integers(-100, 100))
        .values(Recurrent::PROJECTION, Values::Integers(-100, 100))
        .values(Recurrent::WEIGHTS_SCALES, Values::Uniform(of_all, 2.0 * of_all))
        .values(Recurrent::PROJECTION_SCALES, Values::Uniform(of_all, 2.0 * of_all));
    if !shown.is_float() {
        trial = trial.values(Recurrent::INITIAL_STATE, of_states);
    }
    Ok(if cut { trial.values(Recurrent::LENGTHS, Values::Integers(-1, steps as i64 + 1)) } else { trial })
}
