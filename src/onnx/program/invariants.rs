//! What a loop computes alike in every round is computed once in front of it, as what a decoder makes of the states of an encoder.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::twins::{Ask, key_of};
use super::{Body, Program, Step, StepKind, TensorProto, ValueId};

/// Operators that take long by a weight of enough elements. All of them make floats, or sums that become some, so that no round waits for a
/// number that the plans of its body are made for.
const WORK: [&str; 13] = [
    "Conv",
    "ConvInteger",
    "ConvTranspose",
    "Einsum",
    "FusedMatMul",
    "GRU",
    "Gemm",
    "LSTM",
    "MatMul",
    "MatMulInteger",
    "QLinearConv",
    "QLinearMatMul",
    "RNN",
];

/// The fewest elements of such a weight: what takes less is done sooner in each round than launched by itself, and brought to where the
/// rounds run.
const LEAST: usize = 4096;

/// Operators that come along behind such.
const BEHIND: [&str; 25] = [
    "Add",
    "BatchNormalization",
    "Cast",
    "Clip",
    "Div",
    "Elu",
    "Erf",
    "Exp",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "LayerNormalization",
    "LeakyRelu",
    "Log",
    "Mul",
    "Relu",
    "Reshape",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Sqrt",
    "Squeeze",
    "Sub",
    "Tanh",
    "Transpose",
];

/// What is known of a value of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The same in every execution, made of weights of which the largest has so many elements.
    Constant(usize),
    /// The same in every round.
    Alike,
    /// The same, and made by what takes long.
    Worked,
}

/// Gives the bodies of loops the weights of the graphs around them, and takes out of them what they compute alike in every round.
pub(super) fn settle(program: &mut Program, is_random: Ask) {
    for at in 0..program.steps.len() {
        if !matches!(program.steps[at].kind, StepKind::Repeat(_)) {
            continue;
        }
        let kind = std::mem::replace(&mut program.steps[at].kind, StepKind::Plain);
        let StepKind::Repeat(Body { program: mut body, mut captures }) = kind else { continue };
        // A body has one owner until the model is built.
        if let Some(body) = Arc::get_mut(&mut body) {
            let is_weight = |&(_, outer): &(ValueId, ValueId)| program.weights[outer].is_some();
            for &(inner, outer) in captures.iter().filter(|seen| is_weight(seen)) {
                body.weights[inner].clone_from(&program.weights[outer]);
            }
            settle(body, is_random);
            let name = program.steps[at].name().to_owned();
            let taken = take(body, program, &mut captures, is_random, &name);
            for step in taken {
                program.push(step);
            }
        }
        captures.retain(|&(_, outer)| program.weights[outer].is_none());
        program.steps[at].kind = StepKind::Repeat(Body { program: body, captures });
    }
}

/// Takes the steps out of a body that do the same in every round of each execution that has one, for the graph around it. `seen` are values
/// of the body with those of that graph that they are; what the body reads of the steps is added.
fn take(
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
    let constant = |weight: &Option<Arc<TensorProto>>| {
        let extents = weight.as_ref()?.dims.iter().map(|&extent| usize::try_from(extent).unwrap_or(0));
        Some(Kind::Constant(extents.fold(1, usize::saturating_mul)))
    };
    let mut kinds: Vec<Option<Kind>> = body.weights.iter().map(constant).collect();
    for &(inner, outer) in seen {
        kinds[inner] = constant(&around.weights[outer]).or(Some(Kind::Alike));
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
    let sizes =
        known.iter().filter_map(|kind| if let Kind::Constant(size) = kind { Some(*size) } else { None });
    let (count, most) = (sizes.clone().count(), sizes.max().unwrap_or(0));
    let is_work = most >= LEAST && WORK.contains(&operator);
    let is_behind = known.contains(&Kind::Worked) && BEHIND.contains(&operator);
    if count == known.len() {
        Some(Kind::Constant(most))
    } else if domain.is_empty() && (is_work || is_behind) {
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
