//! Layers of recurrent networks, with the operands that ONNX gives them.

use anydnn_backend::op::{Activation, Cell, Direction, GateOrder, Recurrent};
use anydnn_backend::{Dims, Result};

use super::super::op::Op;
use super::{Shapes, bad_attr, bad_shape};

/// An input of a `Recurrent` behind the source and the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecurrentInput {
    /// `[D, 2 * G * H]`: those of the input, then those of the state.
    Bias,
    /// `[N]`
    Lengths,
    /// `[D, N, H]`
    InitialState,
    /// `[D, N, H]`
    InitialCell,
    /// `[D, 3 * H]`
    Peepholes,
}

/// The inputs of a `Recurrent` from the fourth on.
pub(crate) fn recurrent_inputs(op: &Op) -> Vec<RecurrentInput> {
    [
        ("bias", RecurrentInput::Bias),
        ("lengths", RecurrentInput::Lengths),
        ("initial_state", RecurrentInput::InitialState),
        ("initial_cell", RecurrentInput::InitialCell),
        ("peepholes", RecurrentInput::Peepholes),
    ]
    .into_iter()
    .filter(|(name, _)| op.attrs.bool(name).unwrap_or(false))
    .map(|(_, input)| input)
    .collect()
}

/// What a `Recurrent` computes.
pub(crate) fn recurrent_of(op: &Op) -> Result<Recurrent> {
    let cell = match op.attrs.string("cell")? {
        "relu" => Cell::Vanilla(Activation::Relu),
        "tanh" => Cell::Vanilla(Activation::Tanh),
        "logistic" => Cell::Vanilla(Activation::Logistic),
        "lstm" => Cell::Lstm(GateOrder::InputOutputForgetCandidate),
        "gru" => Cell::Gru,
        _ => Cell::GruLinearBeforeReset,
    };
    let direction = match op.attrs.string("direction")? {
        "forward" => Direction::LeftToRight,
        "reverse" => Direction::RightToLeft,
        _ => Direction::Concat,
    };
    Ok(Recurrent::new(cell, direction))
}

/// The states behind every step `[T, D, N, H]`, and those behind the last one `[D, N, H]`.
pub(super) fn layer(op: &Op, inputs: &[Dims]) -> Result<Shapes> {
    let layer = recurrent_of(op)?;
    let (directions, gates) = (layer.direction.count(), layer.cell.gates());
    let more = recurrent_inputs(op);
    if inputs.len() != 3 + more.len() {
        let expected = format!("one of each of {} further inputs", inputs.len() - 3);
        return Err(bad_attr(op, "bias, lengths, ..", format!("{} that are there", more.len()), expected));
    }
    let &[steps, batch, size] = &inputs[0][..] else {
        return Err(bad_shape(op, "src", &inputs[0], "[T, N, I]"));
    };
    if steps == 0 {
        return Err(bad_shape(op, "src", &inputs[0], "at least one step"));
    }
    let hidden = inputs[2].last().copied().unwrap_or(0);
    let rows = gates.saturating_mul(hidden);
    let states = vec![directions, batch, hidden];
    let mut wanted =
        vec![("weights", vec![directions, rows, size]), ("state_weights", vec![directions, rows, hidden])];
    wanted.extend(more.iter().map(|input| match input {
        RecurrentInput::Bias => ("bias", vec![directions, rows.saturating_mul(2)]),
        RecurrentInput::Lengths => ("lengths", vec![batch]),
        RecurrentInput::InitialState => ("initial_state", states.clone()),
        RecurrentInput::InitialCell => ("initial_cell", states.clone()),
        RecurrentInput::Peepholes => ("peepholes", vec![directions, hidden.saturating_mul(3)]),
    }));
    for ((name, wanted), given) in wanted.into_iter().zip(&inputs[1..]) {
        if **given != wanted[..] || hidden == 0 {
            return Err(bad_shape(op, name, given, Dims::from(wanted).to_string()));
        }
    }
    let states = Dims::from(states);
    Ok(Some(vec![Dims::from([steps, directions, batch, hidden]), states.clone(), states]))
}
