//! Wide integers, which f32 arithmetic does not serve.

use anydnn_backend::DataType;

use super::pointwise::binary_of;
use crate::graph::{Graph, OpKind, TensorId};

/// Whether an operation needs all digits of wide integers, which f32 does not hold, so that nothing is computed with it in one
/// go. Indices are small enough.
pub(super) fn is_exact(graph: &Graph, op: usize) -> bool {
    let op = &graph.ops()[op];
    let wide = |id: TensorId| {
        let data_type = graph.tensor(id).and_then(|tensor| tensor.data_type);
        matches!(data_type, Some(DataType::S32 | DataType::S64))
    };
    let exact = match op.kind {
        OpKind::TypeCast | OpKind::Reorder | OpKind::Select => true,
        kind => binary_of(kind).is_some(),
    };
    exact
        && op.inputs.iter().any(|&id| wide(id))
        && !op.inputs.iter().any(|&id| wide(id) && counts_indices(graph, id))
}

/// Whether a tensor is made of indices.
fn counts_indices(graph: &Graph, id: TensorId) -> bool {
    let mut open = vec![id];
    let mut seen = Vec::new();
    while let Some(id) = open.pop() {
        let Some(producer) = graph.producer(id).filter(|producer| !seen.contains(producer)) else { continue };
        seen.push(producer);
        let op = &graph.ops()[producer];
        match op.kind {
            OpKind::GenIndex => return true,
            OpKind::Add | OpKind::Subtract | OpKind::Maximum | OpKind::Minimum => open.extend(&op.inputs),
            _ => {}
        }
    }
    false
}
