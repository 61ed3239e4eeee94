//! Grows a chain from its anchor as far as the pattern and the graph allow.

use super::pattern::Pattern;
use super::patterns::{BINARY, UNARY};
use super::{Partition, Policy, Stop};
use crate::graph::{Graph, LogicalTensor, OpKind, TensorId};

/// One link of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// What the link does for the chain.
    pub role: Role,
    /// The operation, an index into [`Graph::ops`]; the last one of a link of several.
    pub op: usize,
}

/// What a link does for its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The operation whose result the others ride on.
    Anchor,
    /// A bias along the channels.
    Bias,
    /// A batch normalisation by given statistics: a factor and a summand for each channel.
    BatchNorm,
    /// A function of the element.
    Unary,
    /// `x * sigmoid(x)`, two operations.
    Swish,
    /// A function of the element and another tensor's; the chain is input `chain_input` of the operation.
    Binary {
        /// Which input of the operation the chain is.
        chain_input: usize,
    },
    /// A change of the element type, always last.
    Cast,
}

/// The chain that starts at `anchor`; none when nothing rides on it.
pub(super) fn grow(graph: &Graph, pattern: &Pattern, anchor: usize, taken: &[bool]) -> Option<Partition> {
    let ops = graph.ops();
    let mut links = vec![Link { role: Role::Anchor, op: anchor }];
    let mut members = vec![anchor];
    let mut walk = pattern.walk();
    let mut tensor = *ops[anchor].outputs.first()?;
    let stopped = if let Some(stop) = anchor_stop(graph, anchor) {
        Some(stop)
    } else {
        loop {
            let step = match next(graph, tensor, taken) {
                Ok(Some(step)) => step,
                Ok(None) => break None,
                Err(stop) => break Some(stop),
            };
            let Step { link, members: added } = step;
            // A swish counts as one unary operation.
            let kind = if link.role == Role::Swish { OpKind::Sigmoid } else { ops[link.op].kind };
            if !walk.accept(kind) {
                let reason = format!("{} has no place for {} here", pattern.name, ops[link.op]);
                break Some(Stop { next: Some(link.op), reason });
            }
            tensor = ops[link.op].outputs[0];
            members.extend(added);
            links.push(link);
        }
    };
    if links.len() == 1 {
        return None;
    }
    Some(Partition { links, stopped, ..Partition::of_ops(graph, pattern.name, members) })
}

/// A partition of one operation.
pub(super) fn single(graph: &Graph, op: usize, policy: Policy) -> Partition {
    let outputs = &graph.ops()[op].outputs;
    let stopped = match policy {
        Policy::Debug => {
            Some(Stop { next: None, reason: "the policy is debug: every operation stands alone".into() })
        }
        Policy::Fusion => anchor_stop(graph, op).or_else(|| {
            match outputs.first().map(|&out| next(graph, out, &vec![false; graph.ops().len()])) {
                Some(Err(stop)) => Some(stop),
                Some(Ok(Some(step))) => {
                    let (own, other) = (&graph.ops()[op], &graph.ops()[step.link.op]);
                    Some(Stop {
                        next: Some(step.link.op),
                        reason: format!("no pattern starts with {} and goes on with {}", own.kind, other),
                    })
                }
                _ => None,
            }
        }),
    };
    let links = vec![Link { role: Role::Anchor, op }];
    Partition { links, stopped, ..Partition::of_ops(graph, "single_op", [op]) }
}

/// One link to add, with the operations it takes.
struct Step {
    link: Link,
    members: Vec<usize>,
}

/// What stands directly behind a tensor and can ride on the operation that makes it; none at the end of the graph.
fn next(graph: &Graph, tensor: TensorId, taken: &[bool]) -> Result<Option<Step>, Stop> {
    let ops = graph.ops();
    let label = || graph.label(tensor);
    let consumers = graph.consumers(tensor);
    if graph.outputs().contains(&tensor) {
        if consumers.is_empty() {
            return Ok(None);
        }
        return Err(Stop {
            next: consumers.first().copied(),
            reason: format!("{} is also an output of the graph", label()),
        });
    }
    if let Some(step) = swish(graph, tensor, taken) {
        return Ok(Some(step));
    }
    let &[op] = consumers else {
        if consumers.is_empty() {
            return Ok(None);
        }
        let readers: Vec<_> = consumers.iter().map(|&c| ops[c].name.as_str()).collect();
        return Err(Stop {
            next: None,
            reason: format!("{} is read {} times (by {})", label(), consumers.len(), readers.join(", ")),
        });
    };
    let stop = |reason: String| Err(Stop { next: Some(op), reason });
    if taken[op] {
        return stop(format!("{} is already part of another chain", ops[op]));
    }
    let role = match ops[op].kind {
        OpKind::BiasAdd if ops[op].inputs[0] == tensor => Role::Bias,
        OpKind::BatchNormInference if ops[op].inputs[0] == tensor => Role::BatchNorm,
        OpKind::TypeCast => Role::Cast,
        kind if UNARY.contains(&kind) => Role::Unary,
        kind if BINARY.contains(&kind) => {
            let chain_input = usize::from(ops[op].inputs[0] != tensor);
            let other = ops[op].inputs[1 - chain_input];
            let dims = |id| graph.tensor(id).and_then(LogicalTensor::known_dims);
            match (dims(tensor), dims(other), dims(ops[op].outputs[0])) {
                (Some(own), Some(_), Some(result)) if own != result => {
                    return stop(format!("{} stretches {own} to {result}", ops[op]));
                }
                (Some(_), Some(_), Some(_)) => {}
                _ => return stop(format!("the shapes around {} are not known", ops[op])),
            }
            Role::Binary { chain_input }
        }
        _ => return stop(format!("{} cannot ride on another operation", ops[op])),
    };
    Ok(Some(Step { link: Link { role, op }, members: vec![op] }))
}

/// `x * sigmoid(x)` behind a tensor: it is read twice, by a sigmoid and by the multiplication with it.
fn swish(graph: &Graph, tensor: TensorId, taken: &[bool]) -> Option<Step> {
    let ops = graph.ops();
    let &[a, b] = graph.consumers(tensor) else { return None };
    let (sigmoid, multiply) = if ops[a].kind == OpKind::Sigmoid { (a, b) } else { (b, a) };
    let gate = *ops[sigmoid].outputs.first()?;
    let fits = ops[sigmoid].kind == OpKind::Sigmoid
        && ops[multiply].kind == OpKind::Multiply
        && ops[multiply].inputs.contains(&gate)
        && graph.consumers(gate) == [multiply]
        && !graph.outputs().contains(&gate)
        && !taken[sigmoid]
        && !taken[multiply];
    fits.then(|| Step { link: Link { role: Role::Swish, op: multiply }, members: vec![sigmoid, multiply] })
}

/// Why nothing can ride on an anchor at all.
fn anchor_stop(graph: &Graph, anchor: usize) -> Option<Stop> {
    let op = &graph.ops()[anchor];
    let used = op
        .outputs
        .iter()
        .skip(1)
        .find(|&&id| !graph.consumers(id).is_empty() || graph.outputs().contains(&id))?;
    let label = graph.label(*used);
    Some(Stop { next: None, reason: format!("{op} has a second result in use, {label}") })
}
