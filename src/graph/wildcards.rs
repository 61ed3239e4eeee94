//! The part of a graph that computes: without Wildcards and End.

use anydnn_backend::Result;
use indexmap::IndexSet;

use super::Graph;
use super::builder::GraphBuilder;
use super::finish::{self, Shapes};
use super::op::Op;
use super::op_kind::OpKind;
use super::tensor::{ByTensor, LogicalTensor, Property, TensorId, TensorLayout};
use super::topology::graph_error;

/// What [`Graph::without_wildcards`] cut out of a graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cut {
    /// The operations that are gone: [`OpKind::Wildcard`] and [`OpKind::End`].
    pub ops: Vec<Op>,
    /// The tensors that they made and that are given now: inputs, or constants where the graph says so.
    pub inputs: Vec<TensorId>,
    /// The tensors that they read and that are outputs only for that.
    pub outputs: Vec<TensorId>,
}

impl Graph {
    /// The operations that compute, as a graph of their own, and what was cut out.
    ///
    /// Frameworks put operations that oneDNN does not know into a graph as [`OpKind::Wildcard`], and mark results by [`OpKind::End`].
    /// What a Wildcard makes becomes an input; what a Wildcard or an End reads stays, or becomes, an output.
    ///
    /// # Errors
    /// [`Error::Invalid`](anydnn_backend::Error::Invalid) when nothing is left, or the shapes and types of what is left contradict each
    /// other; [`Error::Unsupported`](anydnn_backend::Error::Unsupported) where a shape follows from values.
    ///
    /// ```
    /// use anydnn::backend::DataType;
    /// use anydnn::graph::{Attrs, GraphBuilder, OpKind};
    ///
    /// let mut g = GraphBuilder::new();
    /// let x = g.input("x", DataType::F32, [8, 64]);
    /// let y = g.op("act", OpKind::ReLU, &[x], Attrs::new())?;
    /// g.op("twice", OpKind::Add, &[y, y], Attrs::new())?;
    /// g.op_multi("print", OpKind::Wildcard, &[y], Attrs::new(), 0)?;
    /// let (graph, cut) = g.build()?.without_wildcards()?;
    /// assert_eq!((graph.ops().len(), graph.outputs().len()), (2, 2));
    /// assert_eq!(cut.outputs, [y]);
    /// # Ok::<(), anydnn::backend::Error>(())
    /// ```
    pub fn without_wildcards(&self) -> Result<(Self, Cut)> {
        let computes = |op: &&Op| !matches!(op.kind, OpKind::Wildcard | OpKind::End);
        let (kept, gone): (Vec<&Op>, Vec<&Op>) = self.ops.iter().partition(computes);
        if kept.is_empty() && !gone.is_empty() {
            let given = format!("{} Wildcards and Ends", gone.len());
            return Err(graph_error("operations", given, "one that computes among them"));
        }
        let made: IndexSet<TensorId> = kept.iter().flat_map(|op| &op.outputs).copied().collect();
        let read: IndexSet<TensorId> = kept.iter().flat_map(|op| &op.inputs).copied().collect();
        let from_gone: IndexSet<TensorId> = gone.iter().flat_map(|op| &op.outputs).copied().collect();
        let inputs: Vec<TensorId> = read.iter().filter(|id| from_gone.contains(*id)).copied().collect();

        let mut outputs: IndexSet<TensorId> =
            self.outputs.iter().filter(|id| made.contains(*id)).copied().collect();
        let mut own_outputs = Vec::new();
        for &id in gone.iter().flat_map(|op| &op.inputs).filter(|id| made.contains(*id)) {
            if outputs.insert(id) {
                own_outputs.push(id);
            }
        }
        let cut = Cut { ops: gone.into_iter().cloned().collect(), inputs, outputs: own_outputs };

        let tensor = |id: &TensorId| {
            let mut tensor = self.tensors.get(id)?.clone();
            if from_gone.contains(id) {
                unsaid_rank(&mut tensor);
            }
            Some((*id, tensor))
        };
        let tensors: ByTensor<LogicalTensor> = self
            .tensors
            .keys()
            .filter(|id| made.contains(*id) || read.contains(*id))
            .filter_map(tensor)
            .collect();
        let mut builder = GraphBuilder::new();
        builder.ports = self.inputs.iter().filter(|id| read.contains(*id)).copied().collect();
        let given = cut.inputs.iter().filter(|id| tensors[*id].property != Property::Constant);
        builder.ports.extend(given.copied());
        builder.outputs = (!outputs.is_empty()).then(|| outputs.into_iter().collect());
        builder.ops = kept.into_iter().cloned().collect();
        builder.tensors = tensors;
        builder.fpmath = self.fpmath;
        builder.fpmath_apply_to_int = self.fpmath_apply_to_int;
        Ok((finish::finish(builder, Shapes::Inferred)?, cut))
    }
}

/// Dumps write a tensor of unknown rank with a single unknown dimension.
fn unsaid_rank(tensor: &mut LogicalTensor) {
    if tensor.dims.as_deref() == Some(&[None]) {
        tensor.dims = None;
        tensor.layout = TensorLayout::Undefined;
    }
}
