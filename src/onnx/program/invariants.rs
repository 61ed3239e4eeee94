//! What a loop computes alike in every round is computed once in front of it, as what a decoder makes of the states of an encoder.

use std::collections::{HashMap, HashSet};

use super::twins::{Ask, key_of};
use super::{Program, Step, StepKind, ValueId};

/// Operators that take longer than reading what they make: a loop without them reads their results instead. All of them work with floats, so
/// that no round waits for a number that the plans of its body are made for.
const WORK: [&str; 33] = [
    "Attention",
    "BatchNormalization",
    "Conv",
    "ConvInteger",
    "ConvTranspose",
    "Einsum",
    "Elu",
    "Erf",
    "Exp",
    "GRU",
    "Gelu",
    "Gemm",
    "GroupNormalization",
    "HardSigmoid",
    "HardSwish",
    "InstanceNormalization",
    "LSTM",
    "LayerNormalization",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "MatMul",
    "MatMulInteger",
    "PRelu",
    "QLinearConv",
    "QLinearMatMul",
    "RNN",
    "Relu",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Sqrt",
    "Tanh",
];

/// Operators that take no longer than that, and come along behind such.
const BEHIND: [&str; 9] = ["Add", "Cast", "Clip", "Div", "Mul", "Reshape", "Squeeze", "Sub", "Transpose"];

/// What is known of a value of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The same in every execution.
    Constant,
    /// The same in every round.
    Alike,
    /// The same, and made by what takes long.
    Worked,
}

/// Takes the steps out of a body that do the same in every round of each execution that has one, for the graph around it. `seen` are values
/// of the body with those of that graph that they are; what the body reads of the steps is added.
pub(super) fn take(
    body: &mut Program,
    around: &mut Program,
    seen: &mut Vec<(ValueId, ValueId)>,
    is_random: Ask,
    name: &str,
) -> Vec<Step> {
    let mut goes = chosen(body, &kinds(body, around, seen, is_random));
    if !goes.contains(&true) {
        return Vec::new();
    }
    goes.reverse();
    let (mut taken, staying): (Vec<Step>, Vec<Step>) =
        std::mem::take(&mut body.steps).into_iter().partition(|_| goes.pop().unwrap_or(false));
    body.steps = staying;
    body.producers.fill(None);
    for (at, step) in body.steps.iter().enumerate() {
        step.outputs.iter().flatten().for_each(|&output| body.producers[output] = Some(at));
    }
    let read: HashSet<ValueId> =
        body.steps.iter().flat_map(Step::reads).chain(body.outputs.iter().copied()).collect();
    let mut outer: HashMap<ValueId, ValueId> = seen.iter().copied().collect();
    let mut moved = |value: ValueId| {
        *outer.entry(value).or_insert_with(|| {
            let moved = around.value(&format!("{name}/{}", body.names[value]));
            around.weights[moved].clone_from(&body.weights[value]);
            moved
        })
    };
    for step in &mut taken {
        step.inputs.iter_mut().flatten().for_each(|value| *value = moved(*value));
        for value in step.outputs.iter_mut().flatten() {
            let inner = std::mem::replace(value, moved(*value));
            if read.contains(&inner) {
                seen.push((inner, *value));
            }
        }
    }
    taken
}

/// What is known of the values of a body, where anything is.
fn kinds(body: &Program, around: &Program, seen: &[(ValueId, ValueId)], is_random: Ask) -> Vec<Option<Kind>> {
    let mut kinds: Vec<Option<Kind>> =
        body.weights.iter().map(|weight| weight.as_ref().map(|_| Kind::Constant)).collect();
    for &(inner, outer) in seen {
        let is_constant = around.weights[outer].is_some();
        kinds[inner] = Some(if is_constant { Kind::Constant } else { Kind::Alike });
    }
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); body.names.len()];
    for (at, step) in body.steps.iter().enumerate() {
        step.inputs.iter().flatten().for_each(|&value| readers[value].push(at));
    }
    // Whoever reads a value may stand before the step that makes it.
    let mut open: Vec<usize> = (0..body.steps.len()).rev().collect();
    while let Some(at) = open.pop() {
        let step = &body.steps[at];
        let is_new = step.outputs.iter().flatten().all(|&output| kinds[output].is_none());
        let known = step.inputs.iter().flatten().map(|&value| kinds[value]).collect::<Option<Vec<_>>>();
        let (true, Some(known)) = (is_new && is_plain(step) && !is_random(step), known) else { continue };
        let Some(kind) = made(step, &known) else { continue };
        for &output in step.outputs.iter().flatten() {
            kinds[output] = Some(kind);
            open.extend(&readers[output]);
        }
    }
    kinds
}

/// What a step makes of values of these kinds.
fn made(step: &Step, known: &[Kind]) -> Option<Kind> {
    let (domain, operator) = key_of(step);
    // Shapes are known where they are read: what follows from them is better there.
    if known.is_empty() || domain.is_empty() && matches!(operator, "Shape" | "Size") {
        return None;
    }
    let is_behind = known.contains(&Kind::Worked) && BEHIND.contains(&operator);
    if known.iter().all(|&kind| kind == Kind::Constant) {
        Some(Kind::Constant)
    } else if domain.is_empty() && (WORK.contains(&operator) || is_behind) {
        Some(Kind::Worked)
    } else {
        Some(Kind::Alike)
    }
}

/// The steps that every round takes and that make what takes long, and those in front of them.
fn chosen(body: &Program, kinds: &[Option<Kind>]) -> Vec<bool> {
    let is_known = |step: &Step| step.outputs.iter().flatten().all(|&output| kinds[output].is_some());
    let is_work =
        |step: &Step| step.outputs.iter().flatten().any(|&output| kinds[output] == Some(Kind::Worked));
    let (mut is_taken, mut goes) = (vec![false; body.steps.len()], vec![false; body.steps.len()]);
    // Branches are not looked into: a round may have the other one.
    let mut open: Vec<(ValueId, bool)> = body.outputs.iter().map(|&output| (output, false)).collect();
    while let Some((value, is_before)) = open.pop() {
        let Some(at) = body.producers[value] else { continue };
        let step = &body.steps[at];
        let went = is_before || is_work(step) && is_known(step);
        if std::mem::replace(&mut is_taken[at], true) && (goes[at] || !went) {
            continue;
        }
        goes[at] |= went;
        open.extend(step.needs().map(|value| (value, went)));
    }
    goes
}

fn is_plain(step: &Step) -> bool {
    matches!(step.kind, StepKind::Plain)
}
