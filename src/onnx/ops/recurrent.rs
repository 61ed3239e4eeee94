//! Recurrent layers, as one operation whatever the number of steps.

use anydnn_backend::{DataType, Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::floats;
use crate::graph::{Attrs, OpKind};

/// `LSTM`, `GRU` and `RNN`.
pub(super) fn layer(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let layer = Layer::of(network, node)?;
    let attrs = Attrs::new().with("cell", layer.cell).with("direction", layer.direction);
    let batch_first = layer.batch_first;
    let turned = |network: &mut Network, value: &Value| -> Result<Value> {
        if batch_first { transposed(network, node, value, [1, 0, 2].to_vec()) } else { Ok(value.clone()) }
    };
    let src = turned(network, node.input(0)?)?;
    let mut inputs = vec![src, node.input(1)?.clone(), node.input(2)?.clone()];
    let mut attrs = attrs;
    for (index, name) in
        [(3, "bias"), (4, "lengths"), (5, "initial_state"), (6, "initial_cell"), (7, "peepholes")]
    {
        if let Some(value) = node.optional(index) {
            inputs.push(if matches!(index, 5 | 6) { turned(network, value)? } else { value.clone() });
            attrs.set(name, true);
        }
    }
    let outputs = if layer.cell == "lstm" { 3 } else { 2 };
    let inputs: Vec<&Value> = inputs.iter().collect();
    let mut made = network.ops(node, OpKind::Recurrent, &inputs, attrs, outputs)?;
    if batch_first {
        made[0] = transposed(network, node, &made[0], [2, 0, 1, 3].to_vec())?;
        for states in &mut made[1..] {
            *states = turned(network, states)?;
        }
    }
    Ok(made)
}

/// `DynamicQuantizeLSTM`: weights of scaled integers `[directions, inputs, rows]`, which become floats when the model is imported. Sources and
/// states stay floats.
pub(super) fn quantized(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let mut inputs = node.inputs().to_vec();
    for (index, parameters) in [(1, 8), (2, 10)] {
        inputs[index] = Some(dequantized(network, node, index, parameters)?);
    }
    inputs.truncate(8);
    layer(network, &node.given(inputs))
}

/// The floats of weights `[directions, inputs, rows]` as `[directions, rows, inputs]`, with one scale and zero point for each direction or for
/// each row of it.
fn dequantized(network: &mut Network, node: &Node, index: usize, parameters: usize) -> Result<Value> {
    let known = |index: usize| {
        let value = node.input(index)?;
        let why =
            || node.unsupported("weights, scales and zero points that are given on execution are not read");
        network.known(value).ok_or_else(why)
    };
    let weights = known(index)?;
    let [directions, size, rows] = weights.dims()[..] else {
        return Err(node.invalid("weights", weights.desc(), "[directions, inputs, rows]"));
    };
    let (scales, points) = (known(parameters)?.to_f64s(), known(parameters + 1)?.to_f64s());
    for given in [scales.len(), points.len()] {
        if given != directions && given != directions * rows {
            let expected = format!("{directions}, or {rows} for each");
            return Err(node.invalid("scales and zero points", given, expected));
        }
    }
    let values = weights.to_f64s();
    let of = |numbers: &[f64], direction: usize, row: usize| {
        numbers[if numbers.len() == directions { direction } else { direction * rows + row }]
    };
    let mut made = Vec::with_capacity(values.len());
    for direction in 0..directions {
        for row in 0..rows {
            let (scale, point) = (of(&scales, direction, row), of(&points, direction, row));
            let column = (0..size).map(|at| values[(direction * size + at) * rows + row]);
            made.extend(column.map(|value| ((value - point) * scale) as f32));
        }
    }
    network.computed(&format!("{}/weights.{index}", node.name()), Dims::from([directions, rows, size]), &made)
}

/// What a layer computes.
struct Layer {
    cell: &'static str,
    direction: &'static str,
    batch_first: bool,
}

impl Layer {
    fn of(network: &Network, node: &Node) -> Result<Self> {
        let (direction, directions) = match node.word("direction", "forward")?.as_str() {
            "forward" => ("forward", 1),
            "reverse" => ("reverse", 1),
            "bidirectional" => ("bidirectional", 2),
            other => {
                return Err(node.invalid("attribute direction", other, "forward, reverse or bidirectional"));
            }
        };
        if node.has("clip") || node.flag("input_forget", false)? {
            return Err(node.unsupported("limits and coupled gates are not computed on a device"));
        }
        let cell = cell(node, directions)?;
        let gates = match cell {
            "lstm" => 4,
            "gru" | "linear_gru" => 3,
            _ => 1,
        };
        let batch_first = node.flag("layout", false)?;
        let (src, weights, recurrent) = (floats(node, 0)?, floats(node, 1)?, floats(node, 2)?);
        let ([first, second, size], [_, _, hidden]) = (&src.dims[..], &recurrent.dims[..]) else {
            let given = format!("{} and {}", src.dims, recurrent.dims);
            return Err(node.invalid("dimensions of X and R", given, "three each"));
        };
        let (steps, batch) = if batch_first { (*second, *first) } else { (*first, *second) };
        let rows = hidden.saturating_mul(gates);
        let state = if batch_first { [batch, directions, *hidden] } else { [directions, batch, *hidden] };
        for (index, dims) in [
            (1, vec![directions, rows, *size]),
            (2, vec![directions, rows, *hidden]),
            (3, vec![directions, rows.saturating_mul(2)]),
            (4, vec![batch]),
            (5, state.to_vec()),
            (6, state.to_vec()),
            (7, vec![directions, hidden.saturating_mul(3)]),
        ] {
            if let Some(value) = node.optional(index)
                && *value.dims != dims[..]
            {
                let expected = Dims::from(dims).to_string();
                return Err(node.invalid(&format!("dimensions of input {index}"), &value.dims, expected));
            }
        }
        if weights.data_type != src.data_type || recurrent.data_type != src.data_type {
            return Err(node.unsupported("inputs and weights of different types are not read on a device"));
        }
        if src.dims.contains(&0) || *hidden == 0 {
            return Err(node.unsupported(format!("a layer of {hidden} units over {} has no steps", src.dims)));
        }
        if let Some(lengths) = node.optional(4) {
            check_lengths(network, node, lengths, steps)?;
        }
        Ok(Self { cell, direction, batch_first })
    }
}

/// The lengths of sequences, as far as they are known.
fn check_lengths(network: &Network, node: &Node, lengths: &Value, steps: usize) -> Result<()> {
    if lengths.data_type != DataType::S32 {
        let given = lengths.data_type.name();
        return Err(node.unsupported(format!("lengths of {given} are not read on a device, int32 are")));
    }
    let known = network.known(lengths).map(crate::model::HostTensor::to_f64s);
    match known.iter().flatten().find(|&&length| length < 0.0 || length > steps as f64) {
        Some(length) => Err(node.invalid("input 4 (sequence_lens)", length, format!("0 to {steps}"))),
        None => Ok(()),
    }
}

/// The graph's name of a cell, if it has all the functions of a node.
fn cell(node: &Node, directions: usize) -> Result<&'static str> {
    let functions: Option<Vec<String>> =
        node.words("activations")?.map(|names| names.iter().map(|name| name.to_ascii_lowercase()).collect());
    let all =
        |wanted: &[&str]| functions.as_ref().is_none_or(|functions| *functions == wanted.repeat(directions));
    let found = match node.operator() {
        "LSTM" | "DynamicQuantizeLSTM" => all(&["sigmoid", "tanh", "tanh"]).then_some("lstm"),
        "GRU" if node.flag("linear_before_reset", false)? => {
            all(&["sigmoid", "tanh"]).then_some("linear_gru")
        }
        "GRU" => all(&["sigmoid", "tanh"]).then_some("gru"),
        _ if all(&["tanh"]) => Some("tanh"),
        _ if all(&["relu"]) => Some("relu"),
        _ => all(&["sigmoid"]).then_some("logistic"),
    };
    found.ok_or_else(|| node.unsupported("these functions of a layer are not computed on a device"))
}

fn transposed(network: &mut Network, node: &Node, value: &Value, order: Vec<i64>) -> Result<Value> {
    network.op(node, OpKind::StaticTranspose, &[value], Attrs::new().with("order", order))
}
