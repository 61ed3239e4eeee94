//! Layers of recurrent networks.

use super::choices::{Choices, Lean};
use super::operand::{FLOATS, Role, finished, operand};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::{Activation, Cell, Direction, GateOrder, Recurrent};
use crate::{Arg, DataType, PrimitiveDesc, Result};

pub(super) fn recurrent(choices: &mut Choices) -> Result<Trial> {
    let cell = choices.pick(&[
        Cell::Lstm(GateOrder::InputForgetCandidateOutput),
        Cell::Gru,
        Cell::GruLinearBeforeReset,
        Cell::Vanilla(Activation::Tanh),
        Cell::Lstm(GateOrder::InputOutputForgetCandidate),
        Cell::Vanilla(Activation::Logistic),
        Cell::Vanilla(Activation::Relu),
        Cell::Vanilla(Activation::LeakyRelu { alpha: 0.375 }),
    ])?;
    let ways = [Direction::LeftToRight, Direction::RightToLeft, Direction::Concat, Direction::Sum];
    let direction = choices.pick_often_first(&ways)?;
    let (d, g) = (direction.count(), cell.gates());
    let limits = choices.limits();
    let most = [(64, Lean::Any), (64, Lean::Few), (512, Lean::Any), (512, Lean::Any)];
    let sizes = choices.sizes_leaning(&most, |sizes| {
        let &[steps, batch, inputs, hidden] = sizes else { return true };
        let terms = d * g * hidden * (inputs + hidden);
        terms <= limits.elements && terms * steps * batch <= limits.work
    });
    let &[steps, batch, inputs, hidden] = &sizes[..] else {
        return Trial::of(PrimitiveDesc::builder(Recurrent::new(cell, direction)));
    };
    let own = choices.data_type(&FLOATS)?;
    let stored = if choices.one_in(4) { choices.data_type(&FLOATS)? } else { own };
    let shown = if direction == Direction::Sum { 1 } else { d };
    let mut builder = PrimitiveDesc::builder(Recurrent::new(cell, direction))
        .src(operand(choices, Role::Source, &[steps, batch, inputs], own)?)
        .src(operand(choices, Role::Weights, &[d, hidden, g, hidden], own)?)
        .weights(operand(choices, Role::Weights, &[d, inputs, g, hidden], own)?);
    let (states, biases) = ([d, batch, hidden], [d, g, hidden]);
    let mut optional = vec![
        (Arg::Bias, Role::Side, &biases[..]),
        (Recurrent::STATE_BIAS, Role::Side, &biases),
        (Recurrent::INITIAL_STATE, Role::Source, &states),
        (Recurrent::LAST_STATE, Role::Result, &states),
    ];
    let peepholes = [d, 3, hidden];
    if cell.is_lstm() {
        optional.extend([
            (Recurrent::INITIAL_CELL, Role::Source, &states[..]),
            (Recurrent::LAST_CELL, Role::Result, &states),
            (Recurrent::PEEPHOLES, Role::Side, &peepholes),
        ]);
    }
    for (arg, role, dims) in optional {
        if choices.one_in(2) {
            builder = builder.arg(arg, operand(choices, role, dims, own)?);
        }
    }
    let cut = choices.one_in(4);
    if cut {
        builder = builder.arg(Recurrent::LENGTHS, operand(choices, Role::Side, &[batch], DataType::S32)?);
    }
    builder = builder.dst(operand(choices, Role::Result, &[steps, batch, shown, hidden], stored)?);
    // States neither grow nor all reach the bounds of their functions.
    let most = if cell.is_rectifier() { 1.0 } else { 2.0 };
    let of_state = most / (hidden as f64).sqrt();
    let of_input = 2.0 / (inputs as f64).sqrt();
    let trial = finished(choices, builder)?
        .values(Recurrent::STATE_WEIGHTS, Values::Uniform(-of_state, of_state))
        .values(Arg::Weights, Values::Uniform(-of_input, of_input));
    Ok(if cut { trial.values(Recurrent::LENGTHS, Values::Integers(-1, steps as i64 + 1)) } else { trial })
}
