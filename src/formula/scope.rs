//! Where formulas are looked for.

use crate::graph::{Graph, TensorId};

/// A graph, what of it is to be had, and who sees what.
pub(crate) trait Scope {
    /// The graph.
    fn graph(&self) -> &Graph;

    /// Whether an operation (an index into [`Graph::ops`]) is to be had.
    fn is_free(&self, op: usize) -> bool;

    /// Whether a tensor is seen outside whatever operations are matched.
    fn is_result(&self, tensor: TensorId) -> bool;

    /// Whether a tensor is seen outside these operations, which are ascending.
    fn leaves(&self, ops: &[usize], tensor: TensorId) -> bool;

    /// The tensors whose elements an operation reads.
    fn reads(&self, op: usize) -> &[TensorId] {
        &self.graph().ops()[op].inputs
    }

    /// The one element of a tensor, where it is known.
    fn number(&self, _tensor: TensorId) -> Option<f64> {
        None
    }
}
