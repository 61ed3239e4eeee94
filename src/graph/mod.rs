//! Graphs: operations connected by logical tensors.
//!
//! A [`Graph`] comes from a [`GraphBuilder`] or from graph JSON. Once built it is immutable, checked, sorted topologically, and every
//! shape that can be known is known.

#[cfg(feature = "onnx")]
mod alike;
mod builder;
mod changes;
mod derive;
mod finish;
mod infer;
mod json;
mod layouts;
mod op;
mod op_kind;
mod replace;
mod resize;
mod schema;
mod subgraph;
mod tensor;
mod text;
mod topology;
mod wildcards;

pub use builder::GraphBuilder;
pub use changes::Changes;
pub(crate) use infer::{
    RecurrentInput, exchanges_last_axes, gather_of, infer_types, is_truth, order_of, recurrent_inputs,
    recurrent_of, remap_of,
};
pub use infer::{Window, normalize_axis};
pub use op::{AttrValue, Attrs, Op, OpId};
pub use op_kind::OpKind;
pub(crate) use schema::complete;
pub use schema::{Absent, AttrSpec, AttrType, Ports, Schema};
pub(crate) use tensor::ByTensor;
pub use tensor::{LogicalTensor, Property, TensorId, TensorLayout};
pub use wildcards::Cut;

use anydnn_backend::{Error, FpMath, InvalidKind, Result};

/// A checked graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    ops: Vec<Op>,
    tensors: ByTensor<LogicalTensor>,
    inputs: Vec<TensorId>,
    outputs: Vec<TensorId>,
    producers: ByTensor<usize>,
    consumers: ByTensor<topology::Readers>,
    fpmath: FpMath,
    fpmath_apply_to_int: bool,
}

impl Graph {
    /// The operations, every one after those it depends on.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// All tensors.
    pub fn tensors(&self) -> impl Iterator<Item = &LogicalTensor> {
        self.tensors.values()
    }

    /// A tensor of this graph.
    pub fn tensor(&self, id: TensorId) -> Option<&LogicalTensor> {
        self.tensors.get(&id)
    }

    /// The first tensor with a name.
    pub fn tensor_named(&self, name: &str) -> Option<&LogicalTensor> {
        self.tensors.values().find(|tensor| tensor.name.as_deref() == Some(name))
    }

    /// A tensor's name, or else its identity in words.
    pub fn label(&self, id: TensorId) -> String {
        self.tensor(id).map_or_else(|| id.to_string(), LogicalTensor::label)
    }

    /// The tensors given on every execution, in port order; constants are not among them.
    pub fn inputs(&self) -> &[TensorId] {
        &self.inputs
    }

    /// The tensors that an execution makes, in port order.
    pub fn outputs(&self) -> &[TensorId] {
        &self.outputs
    }

    /// The tensors given once, before the first execution.
    pub fn constants(&self) -> impl Iterator<Item = &LogicalTensor> {
        self.tensors
            .values()
            .filter(|t| t.property == Property::Constant && !self.producers.contains_key(&t.id))
    }

    /// The index in [`Graph::ops`] of the operation that makes a tensor; none for inputs and constants.
    pub fn producer(&self, id: TensorId) -> Option<usize> {
        self.producers.get(&id).copied()
    }

    /// The indices in [`Graph::ops`] of the operations that read a tensor, ascending, once for each reading input.
    pub fn consumers(&self, id: TensorId) -> &[usize] {
        self.consumers.get(&id).map_or(&[], |readers| readers)
    }

    /// Which narrower arithmetic f32 work may use.
    pub fn fpmath(&self) -> FpMath {
        self.fpmath
    }

    /// Whether integer work may use the arithmetic of [`Graph::fpmath`] too.
    pub fn fpmath_apply_to_int(&self) -> bool {
        self.fpmath_apply_to_int
    }

    /// The same graph with a name on a tensor.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the graph has no such tensor.
    pub fn with_name(mut self, id: TensorId, name: impl AsRef<str>) -> Result<Self> {
        let name = name.as_ref();
        let Some(tensor) = self.tensors.get_mut(&id) else {
            let (subject, given) = (format!("tensor of name {name:?}"), id.to_string());
            return Err(Error::invalid_kind(InvalidKind::Graph, "graph", subject, given, "a tensor of it"));
        };
        tensor.name = Some(name.into());
        Ok(self)
    }
}
