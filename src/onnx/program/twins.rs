//! Steps that say the same of the same values are one: what an exporter wrote once for each layer, or each turn of a loop, is computed once.

use std::collections::HashMap;
use std::sync::Arc;

use prost::Message;

use super::{Program, Step, StepKind, TensorProto, ValueId, key};

/// Bytes of weights that are compared with others.
const SMALL_BYTES: usize = 1 << 10;

/// Operators that cost nothing where they are a part of what reads them, as long as nothing else does.
const VIEWS: [&str; 11] = [
    "Cast",
    "DequantizeLinear",
    "Expand",
    "Flatten",
    "Identity",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
];

/// Whether the results of a step's operator differ from one node to the next.
pub(super) type Ask = fn(&Step) -> bool;

/// What two steps have in common that make the same.
#[derive(PartialEq, Eq, Hash)]
struct Meaning<'a> {
    operator: (&'a str, &'a str),
    opset: i64,
    attributes: Vec<Vec<u8>>,
    inputs: Vec<Option<ValueId>>,
    outputs: Vec<bool>,
}

/// Leaves one of the steps that make the same, and hands its results to the readers of the others. Outputs of the program stay apart, and
/// so do views as far as anything else than such steps reads them.
pub(super) fn unite(program: &mut Program, is_random: Ask) {
    let same = same_values(program, is_random);
    let is_twin = |step: &Step| {
        let mut outputs = step.outputs.iter().flatten();
        outputs.any(|&output| same[output] != output)
    };
    let is_view = |step: &Step| VIEWS.contains(&key_of(step).1);
    let leaves = |step: &Step| step.outputs.iter().flatten().any(|output| program.outputs.contains(output));
    let mut goes: Vec<bool> =
        program.steps.iter().map(|step| is_twin(step) && !is_view(step) && !leaves(step)).collect();
    let twins: Vec<usize> = (0..program.steps.len()).filter(|&at| is_twin(&program.steps[at])).collect();
    if twins.is_empty() {
        return;
    }
    let mut read_as: Vec<ValueId> = (0..program.names.len()).collect();
    for (step, _) in program.steps.iter().zip(&goes).filter(|(_, goes)| **goes) {
        step.outputs.iter().flatten().for_each(|&output| read_as[output] = same[output]);
    }
    for step in &mut program.steps {
        step.inputs.iter_mut().flatten().for_each(|value| *value = read_as[*value]);
        match &mut step.kind {
            StepKind::Plain => {}
            StepKind::If(branches) => {
                branches.iter_mut().flatten().for_each(|value| *value = read_as[*value]);
            }
            StepKind::Repeat(body) => {
                body.captures.iter_mut().for_each(|(_, outer)| *outer = read_as[*outer]);
            }
        }
    }
    // Views in front of steps that went are read by nobody now, the last of them first.
    let mut readings = vec![0_usize; program.names.len()];
    let stay = program.steps.iter().zip(&goes).filter(|(_, goes)| !**goes);
    let values = stay.flat_map(|(step, _)| step.reads()).chain(program.outputs.iter().copied());
    values.for_each(|value| readings[value] += 1);
    for &at in twins.iter().rev().filter(|&&at| is_view(&program.steps[at])) {
        let step = &program.steps[at];
        if step.outputs.iter().flatten().all(|&output| readings[output] == 0) {
            goes[at] = true;
            step.reads().for_each(|value| readings[value] -= 1);
        }
    }
    let mut goes = goes.into_iter();
    program.steps.retain(|_| !goes.next().unwrap_or(false));
    program.producers.fill(None);
    for (at, step) in program.steps.iter().enumerate() {
        step.outputs.iter().flatten().for_each(|&output| program.producers[output] = Some(at));
    }
}

/// For each value the first one that is the same.
fn same_values(program: &Program, is_random: Ask) -> Vec<ValueId> {
    let mut same: Vec<ValueId> = (0..program.names.len()).collect();
    let mut weights: HashMap<Vec<u8>, ValueId> = HashMap::new();
    for (value, weight) in program.weights.iter().enumerate() {
        if let Some(bytes) = weight.as_ref().and_then(small) {
            same[value] = *weights.entry(bytes).or_insert(value);
        }
    }
    let mut steps: HashMap<Meaning<'_>, usize> = HashMap::new();
    for (at, step) in program.steps.iter().enumerate() {
        if !matches!(step.kind, StepKind::Plain) || is_random(step) {
            continue;
        }
        let meaning = Meaning {
            operator: key_of(step),
            opset: step.opset,
            attributes: step.proto.attribute.iter().map(Message::encode_to_vec).collect(),
            inputs: step.inputs.iter().map(|input| input.map(|value| same[value])).collect(),
            outputs: step.outputs.iter().map(Option::is_some).collect(),
        };
        let first = *steps.entry(meaning).or_insert(at);
        for (&own, &of_first) in
            step.outputs.iter().flatten().zip(program.steps[first].outputs.iter().flatten())
        {
            same[own] = same[of_first];
        }
    }
    same
}

pub(super) fn key_of(step: &Step) -> (&str, &str) {
    key(step.proto.domain.as_deref(), step.proto.op_type.as_deref())
}

/// The bytes of a small weight that the file itself has, whatever its name.
fn small(tensor: &Arc<TensorProto>) -> Option<Vec<u8>> {
    if !tensor.external_data.is_empty() || tensor.encoded_len() > SMALL_BYTES {
        return None;
    }
    Some(TensorProto { name: None, ..TensorProto::clone(tensor) }.encode_to_vec())
}
