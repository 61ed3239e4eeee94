//! Which operations matter: those that outputs of the graph depend on.

use crate::graph::{Graph, Op, OpKind, TensorId};

/// Whether the graph's outputs depend on each operation.
pub(super) fn live(graph: &Graph) -> Vec<bool> {
    let mut live = vec![false; graph.ops().len()];
    let mut open: Vec<TensorId> = graph.outputs().to_vec();
    while let Some(id) = open.pop() {
        if let Some(op) = graph.producer(id)
            && !std::mem::replace(&mut live[op], true)
        {
            open.extend(data_inputs(&graph.ops()[op]));
        }
    }
    live
}

/// The tensors whose elements an operation reads: an index generator wants the shape alone, and the mark of an output nothing.
pub(super) fn data_inputs(op: &Op) -> &[TensorId] {
    match op.kind {
        OpKind::GenIndex | OpKind::End => &[],
        _ => &op.inputs,
    }
}
