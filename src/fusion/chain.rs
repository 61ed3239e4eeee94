//! Partitions that are a chain: an operation and those that ride on its result one after another.

use super::patterns::words::{BINARY, UNARY};
use crate::graph::{Graph, OpKind, TensorId};

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

/// The links of these operations (ascending); none when they are more than a chain.
pub(super) fn links(graph: &Graph, ops: &[usize]) -> Vec<Link> {
    let Some((&anchor, others)) = ops.split_first() else { return Vec::new() };
    let mut links = vec![Link { role: Role::Anchor, op: anchor }];
    let (mut left, mut op) = (others.len(), anchor);
    while left > 0 {
        let Some(&tensor) = graph.ops()[op].outputs.first() else { return Vec::new() };
        let Some((link, taken)) = next(graph, tensor, others) else { return Vec::new() };
        op = link.op;
        left = left.saturating_sub(taken);
        if left > 0 && link.role == Role::Cast {
            return Vec::new();
        }
        links.push(link);
    }
    let starts = !matches!(
        graph.ops()[anchor].kind,
        OpKind::TypeCast | OpKind::Reorder | OpKind::StaticReshape | OpKind::StaticTranspose
    );
    if starts || others.is_empty() { links } else { Vec::new() }
}

/// The link that reads a tensor, and how many operations it is.
fn next(graph: &Graph, tensor: TensorId, within: &[usize]) -> Option<(Link, usize)> {
    let ops = graph.ops();
    let inside = |id: TensorId| graph.producer(id).is_some_and(|op| within.contains(&op));
    match graph.consumers(tensor) {
        &[op] if within.contains(&op) => {
            let role = match ops[op].kind {
                OpKind::BiasAdd if ops[op].inputs[0] == tensor && !inside(ops[op].inputs[1]) => Role::Bias,
                OpKind::BatchNormInference if ops[op].inputs[0] == tensor => Role::BatchNorm,
                OpKind::TypeCast => Role::Cast,
                kind if UNARY.contains(&kind) => Role::Unary,
                kind if BINARY.contains(&kind) => {
                    let chain_input = usize::from(ops[op].inputs[0] != tensor);
                    // Another link may make the chain, but nothing else of the partition.
                    let other = ops[op].inputs[1 - chain_input];
                    let foreign = graph.producer(other).is_none_or(|maker| !within.contains(&maker));
                    foreign.then_some(Role::Binary { chain_input })?
                }
                _ => return None,
            };
            Some((Link { role, op }, 1))
        }
        &[a, b] if within.contains(&a) && within.contains(&b) => {
            let (sigmoid, multiply) = if ops[a].kind == OpKind::Sigmoid { (a, b) } else { (b, a) };
            let gate = *ops[sigmoid].outputs.first()?;
            let fits = ops[sigmoid].kind == OpKind::Sigmoid
                && ops[multiply].kind == OpKind::Multiply
                && ops[multiply].inputs.contains(&gate)
                && graph.consumers(gate) == [multiply];
            fits.then_some((Link { role: Role::Swish, op: multiply }, 2))
        }
        _ => None,
    }
}
