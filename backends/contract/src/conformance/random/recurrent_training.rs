//! Layers of recurrent networks with their workspaces, and their gradients.

use super::choices::{Choices, Lean};
use super::operand::{FLOATS, Role, finished, operand};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::{Activation, Cell, Direction, GateOrder, Recurrent, RecurrentBackward as Backward};
use crate::{Arg, DataType, PrimitiveDesc, Result};

/// A layer and its sizes.
struct Shape {
    op: Recurrent,
    steps: usize,
    batch: usize,
    inputs: usize,
    hidden: usize,
    units: usize,
    attention: bool,
    cut: bool,
    own: DataType,
}

impl Shape {
    fn choose(choices: &mut Choices) -> Result<Self> {
        let cell = choices.pick(&[
            Cell::Vanilla(Activation::Tanh),
            Cell::Lstm(GateOrder::InputForgetCandidateOutput),
            Cell::Gru,
            Cell::GruLinearBeforeReset,
            Cell::Lstm(GateOrder::InputOutputForgetCandidate),
            Cell::Vanilla(Activation::Logistic),
            Cell::Vanilla(Activation::Relu),
            Cell::Vanilla(Activation::LeakyRelu { alpha: 0.375 }),
        ])?;
        let ways = [Direction::LeftToRight, Direction::RightToLeft, Direction::Concat, Direction::Sum];
        let op = Recurrent::new(cell, choices.pick_often_first(&ways)?);
        let limits = choices.limits();
        let most = [(32, Lean::Any), (64, Lean::Few), (256, Lean::Any), (256, Lean::Any)];
        let sizes = choices.sizes_leaning(&most, |sizes| {
            let &[steps, batch, inputs, hidden] = sizes else { return true };
            let terms = op.direction.count() * cell.gates() * hidden * (inputs + hidden);
            terms <= limits.elements && 4 * terms * steps * batch <= limits.work
        });
        let of = |i: usize| sizes.get(i).copied().unwrap_or(1);
        let (steps, batch, inputs, hidden) = (of(0), of(1), of(2), of(3));
        let units = if cell.is_lstm() && choices.one_in(4) { hidden - choices.below(hidden) } else { hidden };
        let attention = cell.is_gru() && choices.one_in(3);
        let cut = choices.one_in(4);
        let own = choices.data_type(&FLOATS)?;
        Ok(Self { op, steps, batch, inputs, hidden, units, attention, cut, own })
    }

    fn directions(&self) -> usize {
        self.op.direction.count()
    }

    fn shown(&self) -> usize {
        if self.op.direction == Direction::Sum { 1 } else { self.directions() }
    }

    fn weights(&self) -> [usize; 4] {
        [self.directions(), self.inputs, self.op.cell.gates(), self.hidden]
    }

    fn state_weights(&self) -> [usize; 4] {
        [self.directions(), self.units, self.op.cell.gates(), self.hidden]
    }

    fn workspace(&self) -> [usize; 5] {
        [self.directions(), self.steps, self.batch, self.op.cell.rows(), self.hidden]
    }

    fn working(&self) -> DataType {
        if self.own == DataType::F64 { DataType::F64 } else { DataType::F32 }
    }
}

pub(super) fn forward(choices: &mut Choices) -> Result<Trial> {
    let shape = Shape::choose(choices)?;
    let Shape { op, steps, batch, inputs, hidden, units, own, .. } = shape;
    let d = shape.directions();
    let mut builder = PrimitiveDesc::builder(op)
        .src(operand(choices, Role::Source, &[steps, batch, inputs], own)?)
        .src(operand(choices, Role::Weights, &shape.state_weights(), own)?)
        .weights(operand(choices, Role::Weights, &shape.weights(), own)?)
        .arg(Recurrent::WORKSPACE, operand(choices, Role::Result, &shape.workspace(), shape.working())?);
    let biases = [d, op.cell.gates(), hidden];
    let (states, cells, peepholes) = ([d, batch, units], [d, batch, hidden], [d, 3, hidden]);
    let mut optional = vec![
        (Arg::Bias, Role::Side, &biases[..]),
        (Recurrent::STATE_BIAS, Role::Side, &biases),
        (Recurrent::INITIAL_STATE, Role::Source, &states),
        (Recurrent::LAST_STATE, Role::Result, &states),
    ];
    if op.cell.is_lstm() {
        optional.extend([
            (Recurrent::INITIAL_CELL, Role::Source, &cells[..]),
            (Recurrent::LAST_CELL, Role::Result, &cells),
            (Recurrent::PEEPHOLES, Role::Side, &peepholes),
        ]);
    }
    for (arg, role, dims) in optional {
        if choices.one_in(2) {
            builder = builder.arg(arg, operand(choices, role, dims, own)?);
        }
    }
    if units < hidden {
        builder =
            builder.arg(Recurrent::PROJECTION, operand(choices, Role::Weights, &[d, hidden, units], own)?);
    }
    if shape.attention {
        builder = builder.arg(Recurrent::ATTENTION, operand(choices, Role::Source, &[steps, batch, 1], own)?);
    }
    if shape.cut {
        builder = builder.arg(Recurrent::LENGTHS, operand(choices, Role::Side, &[batch], DataType::S32)?);
    }
    builder = builder.dst(operand(choices, Role::Result, &[steps, batch, shape.shown(), units], own)?);
    let of_state = if op.cell.is_rectifier() { 1.0 } else { 2.0 } / (hidden as f64).sqrt();
    let of_input = 2.0 / (inputs as f64).sqrt();
    let trial = finished(choices, builder)?
        .values(Recurrent::STATE_WEIGHTS, Values::Uniform(-of_state, of_state))
        .values(Recurrent::PROJECTION, Values::Uniform(-of_state, of_state))
        .values(Recurrent::ATTENTION, Values::Uniform(0.0, 1.0))
        .values(Arg::Weights, Values::Uniform(-of_input, of_input));
    Ok(cut(trial, &shape))
}

pub(super) fn backward(choices: &mut Choices) -> Result<Trial> {
    let shape = Shape::choose(choices)?;
    let Shape { op, steps, batch, inputs, hidden, units, own, .. } = shape;
    let (d, working) = (shape.directions(), shape.working());
    // Gradients of half floats are mostly single ones.
    let of_gradients = if choices.one_in(2) { own } else { working };
    let mut builder = PrimitiveDesc::builder(Backward::new(op))
        .src(operand(choices, Role::Source, &[steps, batch, inputs], own)?)
        .src(operand(choices, Role::Weights, &shape.state_weights(), own)?)
        .weights(operand(choices, Role::Weights, &shape.weights(), own)?)
        .arg(
            Backward::DIFF_DST,
            operand(choices, Role::Source, &[steps, batch, shape.shown(), units], of_gradients)?,
        )
        .arg(Backward::WORKSPACE, operand(choices, Role::Source, &shape.workspace(), working)?);
    let (weights, state_weights) = (shape.weights(), shape.state_weights());
    let biases = [d, op.cell.gates(), hidden];
    let (states, cells) = ([d, batch, units], [d, batch, hidden]);
    let mut optional = vec![
        (Backward::DIFF_LAST_STATE, Role::Source, &states[..]),
        (Backward::DIFF_INITIAL_STATE, Role::Result, &states),
        (Backward::DIFF_WEIGHTS, Role::Result, &weights),
        (Backward::DIFF_STATE_WEIGHTS, Role::Result, &state_weights),
        (Backward::DIFF_BIAS, Role::Side, &biases),
        (Backward::DIFF_STATE_BIAS, Role::Side, &biases),
    ];
    if op.cell.is_lstm() {
        optional.extend([
            (Backward::DIFF_LAST_CELL, Role::Source, &cells[..]),
            (Backward::DIFF_INITIAL_CELL, Role::Result, &cells),
        ]);
    }
    for (arg, role, dims) in optional {
        if choices.one_in(2) {
            builder = builder.arg(arg, operand(choices, role, dims, of_gradients)?);
        }
    }
    // What the layer may have beside its weights, each with its gradient.
    let (peepholes, attention, projection) = ([d, 3, hidden], [steps, batch, 1], [d, hidden, units]);
    for (there, arg, gradient, dims) in [
        (op.cell.is_lstm(), Recurrent::PEEPHOLES, Backward::DIFF_PEEPHOLES, peepholes),
        (shape.attention, Recurrent::ATTENTION, Backward::DIFF_ATTENTION, attention),
        (units < hidden, Recurrent::PROJECTION, Backward::DIFF_PROJECTION, projection),
    ] {
        if !there || arg == Recurrent::PEEPHOLES && !choices.one_in(2) {
            continue;
        }
        builder = builder.arg(arg, operand(choices, Role::Side, &dims, own)?);
        if choices.one_in(2) {
            builder = builder.arg(gradient, operand(choices, Role::Side, &dims, of_gradients)?);
        }
    }
    if shape.cut {
        builder = builder.arg(Recurrent::LENGTHS, operand(choices, Role::Side, &[batch], DataType::S32)?);
    }
    builder = builder.dst(operand(choices, Role::Result, &[steps, batch, inputs], of_gradients)?);
    // Gates as their functions give them, and weights under which gradients do not grow.
    let of_state = 1.0 / (hidden as f64).sqrt();
    let gates = if matches!(op.cell, Cell::Vanilla(_)) { -0.9 } else { 0.0 };
    let trial = finished(choices, builder)?
        .values(Recurrent::STATE_WEIGHTS, Values::Uniform(-of_state, of_state))
        .values(Recurrent::PROJECTION, Values::Uniform(-of_state, of_state))
        .values(Recurrent::PEEPHOLES, Values::Uniform(-0.5, 0.5))
        .values(Recurrent::ATTENTION, Values::Uniform(0.0, 1.0))
        .values(Backward::WORKSPACE, Values::Uniform(gates, 0.9));
    Ok(cut(trial, &shape))
}

fn cut(trial: Trial, shape: &Shape) -> Trial {
    if !shape.cut {
        return trial;
    }
    trial.values(Recurrent::LENGTHS, Values::Integers(-1, shape.steps as i64 + 1))
}
