//! Recurrent layers, unrolled: one product for the inputs of all steps, then a product and functions of elements for each step.

use anydnn_backend::{Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::floats;
use super::indexing::part;
use crate::graph::{Attrs, OpKind};

/// Steps that are unrolled at most; more would make a long program.
const MOST_STEPS: usize = 128;

/// `LSTM`, `GRU` and `RNN`.
pub(super) fn layer(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let layer = Layer::of(node)?;
    let directions: Vec<States> =
        (0..layer.directions).map(|i| layer.direction(network, node, i)).collect::<Result<_>>()?;
    let join = |network: &mut Network, pick: fn(&States) -> &Value, axis: usize| {
        joined(network, node, &directions.iter().map(pick).collect::<Vec<_>>(), axis)
    };
    let mut outputs = vec![join(network, |states| &states.all, 1)?, join(network, |states| &states.last, 0)?];
    if layer.kind == Kind::Lstm {
        outputs.push(join(network, |states| &states.cell, 0)?);
    }
    Ok(outputs)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lstm,
    Gru,
    Rnn,
}

/// A layer's sizes and what it does.
struct Layer {
    kind: Kind,
    steps: usize,
    batch: usize,
    hidden: usize,
    /// Rows of the weights: the hidden size for each gate.
    rows: usize,
    directions: usize,
    reverse: bool,
    linear_before_reset: bool,
}

/// What one direction makes: `[steps, 1, batch, hidden]`, and `[1, batch, hidden]` twice.
struct States {
    all: Value,
    last: Value,
    cell: Value,
}

/// What a step works with: the recurrent weights, their biases and the gates' inputs of all steps, `[steps, batch, rows]`.
struct Weights {
    recurrent: Value,
    bias: Option<Value>,
    inputs: Value,
}

impl Layer {
    fn of(node: &Node) -> Result<Self> {
        let (kind, gates) = match node.operator() {
            "LSTM" => (Kind::Lstm, 4),
            "GRU" => (Kind::Gru, 3),
            _ => (Kind::Rnn, 1),
        };
        let (directions, reverse) = match node.word("direction", "forward")?.as_str() {
            "forward" => (1, false),
            "reverse" => (1, true),
            "bidirectional" => (2, false),
            other => {
                return Err(node.invalid("attribute direction", other, "forward, reverse or bidirectional"));
            }
        };
        let plain = [4, 7].iter().all(|&index| node.optional(index).is_none())
            && !node.has("clip")
            && !node.has("activations")
            && !node.flag("input_forget", false)?
            && !node.flag("layout", false)?;
        if !plain {
            let why = "lengths, peepholes, limits, other functions and layouts are not unrolled on a device";
            return Err(node.unsupported(why));
        }
        let (src, weights, recurrent) = (floats(node, 0)?, floats(node, 1)?, floats(node, 2)?);
        let ([steps, batch, size], [_, _, hidden]) = (&src.dims[..], &recurrent.dims[..]) else {
            let given = format!("{} and {}", src.dims, recurrent.dims);
            return Err(node.invalid("dimensions of X and R", given, "three each"));
        };
        let (steps, batch, hidden) = (*steps, *batch, *hidden);
        let rows = hidden.saturating_mul(gates);
        let state = vec![directions, batch, hidden];
        for (index, dims) in [
            (1, vec![directions, rows, *size]),
            (2, vec![directions, rows, hidden]),
            (3, vec![directions, rows.saturating_mul(2)]),
            (5, state.clone()),
            (6, state),
        ] {
            if let Some(value) = node.optional(index)
                && *value.dims != dims[..]
            {
                let expected = Dims::from(dims).to_string();
                return Err(node.invalid(&format!("dimensions of input {index}"), &value.dims, expected));
            }
        }
        if weights.data_type != src.data_type || recurrent.data_type != src.data_type {
            return Err(node.unsupported("inputs and weights of different types are not unrolled"));
        }
        if !(1..=MOST_STEPS).contains(&steps) || src.dims.contains(&0) || hidden == 0 {
            return Err(node.unsupported(format!("{steps} steps are not unrolled, 1 to {MOST_STEPS} are")));
        }
        let linear_before_reset = node.flag("linear_before_reset", false)?;
        Ok(Self { kind, steps, batch, hidden, rows, directions, reverse, linear_before_reset })
    }

    fn direction(&self, network: &mut Network, node: &Node, direction: usize) -> Result<States> {
        let Self { steps, batch, hidden, .. } = *self;
        let weights = self.weights(network, node, direction)?;
        let mut state = self.initial(network, node, direction, 5)?;
        let mut cell = self.initial(network, node, direction, 6)?;
        let mut states: Vec<Option<Value>> = vec![None; steps];
        let backwards = self.reverse || direction == 1;
        for i in 0..steps {
            let at = if backwards { steps - 1 - i } else { i };
            let inputs = part(network, node, &weights.inputs, 0, at, 1)?;
            let inputs = network.reshape(node, &inputs, [batch, self.rows].into())?;
            (state, cell) = self.step(network, node, &weights, &inputs, &state, &cell)?;
            states[at] = Some(network.reshape(node, &state, [1, 1, batch, hidden].into())?);
        }
        let all = joined(network, node, &states.iter().flatten().collect::<Vec<_>>(), 0)?;
        let last = network.reshape(node, &state, [1, batch, hidden].into())?;
        let cell = network.reshape(node, &cell, [1, batch, hidden].into())?;
        Ok(States { all, last, cell })
    }

    fn weights(&self, network: &mut Network, node: &Node, direction: usize) -> Result<Weights> {
        let Self { steps, batch, hidden, rows, .. } = *self;
        let src = node.input(0)?;
        let size = src.dims[2];
        let own = |network: &mut Network, index: usize, dims: [usize; 2]| -> Result<Value> {
            let value = part(network, node, node.input(index)?, 0, direction, 1)?;
            network.reshape(node, &value, dims.into())
        };
        let input_weights = own(network, 1, [rows, size])?;
        let recurrent = own(network, 2, [rows, hidden])?;
        let flat = network.reshape(node, src, [steps * batch, size].into())?;
        let mut operands = vec![flat, input_weights];
        let mut bias = None;
        if node.optional(3).is_some() {
            let both = own(network, 3, [2, rows])?;
            let first = part(network, node, &both, 0, 0, 1)?;
            operands.push(network.reshape(node, &first, [rows].into())?);
            let second = part(network, node, &both, 0, 1, 1)?;
            bias = Some(network.reshape(node, &second, [rows].into())?);
        }
        let operands: Vec<&Value> = operands.iter().collect();
        let attrs = Attrs::new().with("transpose_b", true);
        let inputs = network.op(node, OpKind::MatMul, &operands, attrs)?;
        let inputs = network.reshape(node, &inputs, [steps, batch, rows].into())?;
        Ok(Weights { recurrent, bias, inputs })
    }

    /// A state before the first step, `[batch, hidden]`: zeros where it is not given.
    fn initial(&self, network: &mut Network, node: &Node, direction: usize, index: usize) -> Result<Value> {
        let dims = Dims::from([self.batch, self.hidden]);
        let Some(given) = node.optional(index) else {
            let zeros = crate::model::HostTensor::zeros(dims, node.input(0)?.data_type)?;
            return network.constant(&format!("{}/start", node.name()), zeros);
        };
        let own = part(network, node, given, 0, direction, 1)?;
        network.reshape(node, &own, dims)
    }

    /// The state and the cell after a step.
    fn step(
        &self,
        network: &mut Network,
        node: &Node,
        weights: &Weights,
        inputs: &Value,
        state: &Value,
        cell: &Value,
    ) -> Result<(Value, Value)> {
        let hidden = self.hidden;
        let gate =
            |network: &mut Network, of: &Value, i: usize| part(network, node, of, 1, i * hidden, hidden);
        let unary =
            |network: &mut Network, kind: OpKind, x: &Value| network.op(node, kind, &[x], Attrs::new());
        let binary = |network: &mut Network, kind: OpKind, a: &Value, b: &Value| {
            network.op(node, kind, &[a, b], Attrs::new())
        };
        let recurrent = product(network, node, state, &weights.recurrent, weights.bias.as_ref())?;
        if self.kind == Kind::Gru {
            let first = part(network, node, inputs, 1, 0, 2 * hidden)?;
            let second = part(network, node, &recurrent, 1, 0, 2 * hidden)?;
            let both = binary(network, OpKind::Add, &first, &second)?;
            let both = unary(network, OpKind::Sigmoid, &both)?;
            let (update, reset) = (gate(network, &both, 0)?, gate(network, &both, 1)?);
            let new = gate(network, inputs, 2)?;
            let old = if self.linear_before_reset {
                let old = gate(network, &recurrent, 2)?;
                binary(network, OpKind::Multiply, &reset, &old)?
            } else {
                let kept = binary(network, OpKind::Multiply, &reset, state)?;
                let matrix = part(network, node, &weights.recurrent, 0, 2 * hidden, hidden)?;
                let bias = match &weights.bias {
                    Some(bias) => Some(part(network, node, bias, 0, 2 * hidden, hidden)?),
                    None => None,
                };
                product(network, node, &kept, &matrix, bias.as_ref())?
            };
            let candidate = binary(network, OpKind::Add, &new, &old)?;
            let candidate = unary(network, OpKind::Tanh, &candidate)?;
            // (1 - z) * candidate + z * state = candidate + z * (state - candidate)
            let difference = binary(network, OpKind::Subtract, state, &candidate)?;
            let moved = binary(network, OpKind::Multiply, &update, &difference)?;
            let state = binary(network, OpKind::Add, &candidate, &moved)?;
            return Ok((state.clone(), state));
        }
        let gates = binary(network, OpKind::Add, &recurrent, inputs)?;
        if self.kind == Kind::Rnn {
            let state = unary(network, OpKind::Tanh, &gates)?;
            return Ok((state.clone(), state));
        }
        let mut parts = Vec::with_capacity(4);
        for (i, kind) in
            [OpKind::Sigmoid, OpKind::Sigmoid, OpKind::Sigmoid, OpKind::Tanh].into_iter().enumerate()
        {
            let own = gate(network, &gates, i)?;
            parts.push(unary(network, kind, &own)?);
        }
        let kept = binary(network, OpKind::Multiply, &parts[2], cell)?;
        let added = binary(network, OpKind::Multiply, &parts[0], &parts[3])?;
        let cell = binary(network, OpKind::Add, &kept, &added)?;
        let shown = unary(network, OpKind::Tanh, &cell)?;
        Ok((binary(network, OpKind::Multiply, &parts[1], &shown)?, cell))
    }
}

/// A product with transposed weights, and its bias.
fn product(
    network: &mut Network,
    node: &Node,
    a: &Value,
    weights: &Value,
    bias: Option<&Value>,
) -> Result<Value> {
    let operands: Vec<&Value> = [a, weights].into_iter().chain(bias).collect();
    network.op(node, OpKind::MatMul, &operands, Attrs::new().with("transpose_b", true))
}

fn joined(network: &mut Network, node: &Node, parts: &[&Value], axis: usize) -> Result<Value> {
    match parts {
        [only] => Ok((*only).clone()),
        _ => network.op(node, OpKind::Concat, parts, Attrs::new().with("axis", axis as i64)),
    }
}
