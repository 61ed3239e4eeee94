//! The layout of images between operations.
//!
//! Graphs of the other frameworks say `[N, C, spatial..]`. Temporaries of that meaning are laid out channels last all the same: kernels
//! then read and write the channels of a position together, which is what vectors on CPUs and matrix units want. What the user gives and
//! gets keeps its layout.

use std::collections::HashSet;

use anydnn_backend::MemoryDesc;

use super::lower::is_pointwise;
use crate::graph::{Graph, Op, OpKind, TensorId};

/// The tensors `[N, C, spatial..]` that convolutions make, and what is computed from them place by place.
pub(super) fn channels_last(graph: &Graph) -> HashSet<TensorId> {
    let mut found = HashSet::new();
    for op in graph.ops() {
        let Some(&result) = op.outputs.first() else { continue };
        let is_image = match op.kind {
            OpKind::Convolution | OpKind::ConvTranspose => is_channels_first(op),
            OpKind::MaxPool | OpKind::AvgPool | OpKind::Interpolate | OpKind::BatchNormInference => {
                is_channels_first(op) && op.inputs.first().is_some_and(|id| found.contains(id))
            }
            OpKind::Concat => op.inputs.iter().all(|id| found.contains(id)),
            OpKind::Reorder | OpKind::TypeCast | OpKind::Select | OpKind::PReLU | OpKind::BiasAdd => {
                continues(graph, &found, op, result)
            }
            kind => is_pointwise(kind) && continues(graph, &found, op, result),
        };
        if is_image {
            found.insert(result);
        }
    }
    found
}

/// A descriptor in that layout.
pub(super) fn to_channels_last(desc: &MemoryDesc) -> MemoryDesc {
    let taps: String = (2..desc.rank()).map(|axis| char::from(b'a' + axis as u8)).collect();
    let tag = format!("a{taps}b");
    // A tag fails for layouts of no rank that images have.
    MemoryDesc::with_tag(desc.dims().clone(), desc.data_type(), &tag).unwrap_or_else(|_| desc.to_row_major())
}

fn is_channels_first(op: &Op) -> bool {
    op.attrs.string("data_format").is_ok_and(|format| format == "NCX")
}

/// Whether a result has the shape of an image that it is computed from.
fn continues(graph: &Graph, found: &HashSet<TensorId>, op: &Op, result: TensorId) -> bool {
    let dims = |id: TensorId| graph.tensor(id).and_then(|tensor| tensor.known_dims());
    let own = dims(result);
    own.is_some() && op.inputs.iter().any(|id| found.contains(id) && dims(*id) == own)
}
