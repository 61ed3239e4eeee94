//! Partitions: operations that run as one.

use std::fmt;

use crate::formula::Scope;
use crate::graph::{Graph, OpKind, TensorId};

/// Operations that run as one.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// The position among the partitions.
    pub id: usize,
    /// The pattern that matched, `group/name`; `single_op` when there is nothing but the operation.
    pub pattern: &'static str,
    /// Indices into [`Graph::ops`], ascending.
    pub ops: Vec<usize>,
    /// The tensors that come from outside, in the order they are first read.
    pub inputs: Vec<TensorId>,
    /// The tensors that leave, in the order they are made.
    pub outputs: Vec<TensorId>,
    /// Whether this library can compute it: false where one of the operations is [`OpKind::Wildcard`] or [`OpKind::End`] alone.
    pub supported: bool,
    /// Why no more operations joined; none when the graph ends here.
    pub stopped: Option<Stop>,
}

/// Why no more operations joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The operation that was not taken, an index into [`Graph::ops`]; none when the reason is not one operation's.
    pub next: Option<usize>,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl Partition {
    /// The partition of any operations (indices into [`Graph::ops`]), whatever they are; its position and the reason for its end are
    /// left open.
    ///
    /// A tensor leaves when an operation outside reads it, when it is an output of the graph, or when [`OpKind::End`] marks it. All
    /// that a single operation makes leaves, and where nothing else does, what the last operation makes.
    pub fn of_ops(graph: &Graph, pattern: &'static str, ops: impl IntoIterator<Item = usize>) -> Self {
        let mut ops: Vec<usize> = ops.into_iter().collect();
        ops.sort_unstable();
        ops.dedup();
        let made: Vec<TensorId> = ops.iter().flat_map(|&op| &graph.ops()[op].outputs).copied().collect();
        let mut inputs: Vec<TensorId> = Vec::new();
        for &id in ops.iter().flat_map(|&op| &graph.ops()[op].inputs) {
            if !made.contains(&id) && !inputs.contains(&id) {
                inputs.push(id);
            }
        }
        let mut outputs = made;
        if ops.len() > 1 {
            outputs.retain(|&id| leaves(graph, &ops, id));
        }
        if let (true, Some(&last)) = (outputs.is_empty(), ops.last()) {
            outputs.clone_from(&graph.ops()[last].outputs);
        }
        let computes = |kind| !matches!(kind, OpKind::Wildcard | OpKind::End);
        let supported = ops.iter().any(|&op| computes(graph.ops()[op].kind))
            && !ops.iter().any(|&op| graph.ops()[op].kind == OpKind::Wildcard);
        Self { id: 0, pattern, ops, inputs, outputs, supported, stopped: None }
    }
}

/// Whether a tensor is seen outside these operations, which are ascending.
pub(super) fn leaves(graph: &Graph, ops: &[usize], tensor: TensorId) -> bool {
    graph.outputs().contains(&tensor)
        || graph
            .consumers(tensor)
            .iter()
            .any(|reader| ops.binary_search(reader).is_err() || graph.ops()[*reader].kind == OpKind::End)
}

/// A whole graph, less what other partitions have.
pub(super) struct Whole<'g> {
    pub(super) graph: &'g Graph,
    /// Operations that are not to be had.
    pub(super) taken: &'g [bool],
}

impl Scope for Whole<'_> {
    fn graph(&self) -> &Graph {
        self.graph
    }

    fn is_free(&self, op: usize) -> bool {
        !self.taken[op]
    }

    fn is_result(&self, tensor: TensorId) -> bool {
        self.graph.outputs().contains(&tensor)
    }

    fn leaves(&self, ops: &[usize], tensor: TensorId) -> bool {
        leaves(self.graph, ops, tensor)
    }
}
