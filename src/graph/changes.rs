//! The same graph with other types and shapes.

use anydnn_backend::{DataType, Dims, Error, InvalidKind, Result};
use indexmap::IndexSet;

use super::op::Op;
use super::op_kind::OpKind;
use super::schema::Schema;
use super::tensor::{ByTensor, LogicalTensor, TensorId, TensorLayout};
use super::{Graph, derive, finish, resize};

/// What to change in a graph.
///
/// ```
/// use anydnn::backend::{DataType, Dims};
/// use anydnn::graph::{Attrs, Changes, GraphBuilder, OpKind};
///
/// let mut g = GraphBuilder::new();
/// let x = g.input("x", DataType::F32, [8, 64]);
/// let y = g.op("softmax", OpKind::SoftMax, &[x], Attrs::new())?;
/// let changes = Changes { floats: Some(DataType::F16), dims: vec![(x, Dims::from([2, 3]))], ..Changes::default() };
/// let graph = g.build()?.with_changes(&changes)?;
/// assert_eq!(graph.tensor(y).unwrap().to_string(), "softmax:f16:2x3");
/// # Ok::<(), anydnn::backend::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// The type of every tensor of type f32, f16 or bf16, unless its place in an operation asks for f32: statistics, the parameters of
    /// batch normalisations, quantisation scales and probabilities keep theirs.
    pub floats: Option<DataType>,
    /// The types of single tensors.
    pub data_types: Vec<(TensorId, DataType)>,
    /// The dimensions of inputs and constants.
    pub dims: Vec<(TensorId, Dims)>,
}

impl Graph {
    /// The same graph with other types and shapes. Shapes and strides that follow from changed ones are inferred anew; unknown shapes of
    /// inputs and constants are taken from the results of their readers where these tell.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a tensor is none of the graph, or one to resize is made by an operation, or types and shapes do not fit
    /// the operations; [`Error::Unsupported`] where a shape follows from values.
    pub fn with_changes(&self, changes: &Changes) -> Result<Self> {
        let mut tensors = self.tensors.clone();
        self.retype(changes, &mut tensors)?;
        for (id, dims) in &changes.dims {
            match tensors.get_mut(id) {
                Some(tensor) if self.producer(*id).is_none() => resize::resize(tensor, dims)?,
                _ => return Err(no_tensor(self, *id, "an input or a constant of the graph")),
            }
        }
        for op in &self.ops {
            reinfer(self, op, &mut tensors)?;
        }
        while self.derive_inputs(&mut tensors) {
            for op in &self.ops {
                finish::infer(op, &mut tensors)?;
            }
        }
        Ok(Self { tensors, ..self.clone() })
    }

    fn retype(&self, changes: &Changes, tensors: &mut ByTensor<LogicalTensor>) -> Result<()> {
        let wide = [DataType::F32, DataType::F16, DataType::BF16].map(Some);
        if let Some(floats) = changes.floats {
            if !wide.contains(&Some(floats)) {
                let expected = "f32, f16 or bf16; other types are for single tensors";
                return Err(wrong("data type of all tensors", floats.name(), expected));
            }
            let fixed: IndexSet<TensorId> = self.ops.iter().flat_map(stays_f32).collect();
            for tensor in tensors.values_mut().filter(|tensor| !fixed.contains(&tensor.id)) {
                if wide.contains(&tensor.data_type) {
                    tensor.data_type = Some(floats);
                }
            }
        }
        for (id, data_type) in &changes.data_types {
            let tensor = tensors.get_mut(id).ok_or_else(|| no_tensor(self, *id, "a tensor of the graph"))?;
            tensor.data_type = Some(*data_type);
        }
        for op in self.ops.iter().filter(|op| moves(op.kind)) {
            let source = op.inputs.first().and_then(|id| tensors.get(id)?.data_type);
            for id in op.outputs.iter().filter(|id| !changes.data_types.iter().any(|(own, _)| own == *id)) {
                if let (Some(tensor), Some(source)) = (tensors.get_mut(id), source) {
                    tensor.data_type = Some(source);
                }
            }
        }
        Ok(())
    }

    /// Gives inputs and constants of unknown shape or type what their readers tell; whether that was anything.
    fn derive_inputs(&self, tensors: &mut ByTensor<LogicalTensor>) -> bool {
        let mut found = false;
        for op in &self.ops {
            for (input, id) in op.inputs.iter().enumerate() {
                let tensor = &tensors[id];
                if self.producer(*id).is_some() || tensor.known_dims().is_some() && tensor.data_type.is_some()
                {
                    continue;
                }
                let known =
                    |ids: &[TensorId]| ids.iter().map(|id| tensors[id].known_dims()).collect::<Vec<_>>();
                let dims = derive::input_dims(op, input, &known(&op.inputs), &known(&op.outputs));
                let mut types = op.inputs.iter().chain(&op.outputs).map(|id| tensors[id].data_type);
                let data_type = types.find(Option::is_some).flatten();
                if let Some(tensor) = tensors.get_mut(id) {
                    found |= complete(tensor, dims.as_ref(), data_type);
                }
            }
        }
        found
    }
}

/// Fills in what is unknown of a tensor; whether that was anything.
fn complete(tensor: &mut LogicalTensor, dims: Option<&Dims>, data_type: Option<DataType>) -> bool {
    let mut found = false;
    if tensor.data_type.is_none() && data_type.is_some() {
        tensor.data_type = data_type;
        found = true;
    }
    if let Some(dims) = dims.filter(|_| tensor.known_dims().is_none()) {
        let agrees = tensor.dims.as_ref().is_none_or(|said| {
            said.len() == dims.len()
                && said.iter().zip(dims.iter()).all(|(said, dim)| said.is_none_or(|said| said == *dim))
        });
        if agrees {
            tensor.dims = Some(dims.iter().copied().map(Some).collect());
            if tensor.layout != TensorLayout::Any {
                tensor.layout = TensorLayout::Undefined;
            }
            found = true;
        }
    }
    found
}

/// Infers the outputs of an operation, anew where its inputs' shapes changed.
fn reinfer(before: &Graph, op: &Op, tensors: &mut ByTensor<LogicalTensor>) -> Result<()> {
    if op.inputs.iter().any(|id| tensors[id].dims != before.tensors[id].dims) {
        for id in &op.outputs {
            if let Some(tensor) = tensors.get_mut(id) {
                tensor.dims = None;
                if tensor.layout != TensorLayout::Any {
                    tensor.layout = TensorLayout::Undefined;
                }
            }
        }
    }
    finish::infer(op, tensors)?;
    for id in &op.outputs {
        if let Some(tensor) = tensors.get_mut(id)
            && tensor.dims == before.tensors[id].dims
        {
            tensor.layout.clone_from(&before.tensors[id].layout);
        }
    }
    Ok(())
}

/// The tensors of an operation that are f32 whatever the type of its data.
fn stays_f32(op: &Op) -> Vec<TensorId> {
    let schema = Schema::of(op.kind);
    let batch_norm = matches!(
        op.kind,
        OpKind::BatchNormInference | OpKind::BatchNormForwardTraining | OpKind::BatchNormTrainingBackward
    );
    let fixed = |name: &str| {
        let parameter = ["gamma", "beta", "diff_gamma", "diff_beta"].contains(&name);
        let statistic = ["mean", "variance", "stats", "rrms", "scales", "probability"].contains(&name);
        statistic || name.starts_with("running_") || name.starts_with("batch_") || batch_norm && parameter
    };
    let of = |ids: &[TensorId], ports: &super::Ports| {
        let own = ids.iter().enumerate().filter(|(i, _)| fixed(ports.name(*i)));
        own.map(|(_, id)| *id).collect::<Vec<_>>()
    };
    [of(&op.inputs, &schema.inputs), of(&op.outputs, &schema.outputs)].concat()
}

/// Whether an operation's output has the type of its input.
const fn moves(kind: OpKind) -> bool {
    matches!(kind, OpKind::StaticReshape | OpKind::StaticTranspose | OpKind::MaxPool | OpKind::Concat)
}

fn no_tensor(graph: &Graph, id: TensorId, expected: &str) -> Error {
    wrong("tensor", graph.label(id), expected)
}

fn wrong(subject: &str, given: impl Into<String>, expected: &str) -> Error {
    Error::invalid_kind(InvalidKind::Graph, "graph with changes", subject, given, expected)
}
