//! A case: what is measured, by whom, on which numbers.

use std::path::{Path, PathBuf};

use anydnn::backend::{DataType, Dims, Error, Result, ResultExt};
use anydnn::graph::{Attrs, Graph, GraphBuilder, LogicalTensor, OpKind, TensorId};
use anydnn::model::HostTensor;
use anydnn::onnx;
use indexmap::IndexMap;
use serde_json::{Value, json};

use super::data::Tensor;
use super::networks::network;
use super::peers::ModelFile;
use super::spec::Spec;
use super::{graphs, notation, patterns};
use crate::failure::Failure;
use crate::plausible::plausible;

/// A primitive or a graph with its inputs.
#[derive(Debug)]
pub(crate) struct Case {
    /// As it was written.
    pub(crate) text: String,
    pub(crate) graph: Graph,
    pub(crate) tensors: Vec<Tensor>,
    /// Floating-point operations of products and convolutions, two for each product that is summed.
    pub(crate) flops: f64,
    /// The least bytes that must move: every input, constant and output once.
    pub(crate) bytes: f64,
    /// The file and the weights of an ONNX model.
    model: Option<Model>,
}

/// What an ONNX file adds to its graph.
#[derive(Debug)]
struct Model {
    file: PathBuf,
    constants: IndexMap<TensorId, HostTensor>,
    outputs: Vec<String>,
    /// The model and its dimensions where no single graph says it.
    stages: Option<(onnx::Model, Vec<(String, usize)>)>,
}

/// A case as peers are told; files that belong to it go with it.
#[derive(Debug)]
pub(crate) enum Told {
    Graph(Value),
    Model(ModelFile),
}

impl Told {
    pub(crate) fn json(&self) -> &Value {
        match self {
            Self::Graph(value) => value,
            Self::Model(file) => file.json(),
        }
    }
}

impl Case {
    /// Reads a case: the notation of a primitive, the name of a network with a type, that of a fusion pattern with a size, or a file with a
    /// graph or an ONNX model.
    pub(crate) fn new(text: &str, dims: &[(String, usize)]) -> std::result::Result<Self, Failure> {
        if Path::new(text).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("onnx")) {
            return Ok(Self::of_onnx(text, dims)?);
        }
        if Path::new(text).extension().is_some_and(|extension| extension == "json") {
            let graph = crate::model::load_graph(Path::new(text), &[])?;
            return Ok(Self::of_graph(text, graph, None)?);
        }
        let (name, data_type) = text.split_once(' ').unwrap_or((text, "f32"));
        let floats = [DataType::F32, DataType::F16, DataType::BF16];
        if let Some(data_type) = data_type.parse().ok().filter(|data_type| floats.contains(data_type))
            && let Some(graph) = network(name, data_type)
        {
            return Ok(Self::of_graph(text, graph?, None)?);
        }
        if let Some(graph) = patterns::graph(text) {
            return Ok(Self::of_graph(text, graph?, None)?);
        }
        let spec = notation::parse(text)?;
        let graph = graphs::graph(&spec)?;
        Ok(Self::of_graph(text, graph, Some(&spec))?)
    }

    fn of_graph(text: &str, graph: Graph, spec: Option<&Spec>) -> Result<Self> {
        let tensors = Tensor::of_graph(&graph)?;
        let mut bytes: usize = tensors.iter().map(Tensor::bytes).sum();
        for tensor in graph.outputs().iter().filter_map(|&id| graph.tensor(id)) {
            bytes += tensor.memory_desc()?.size();
        }
        let flops = spec.map_or_else(|| flops(&graph), Spec::flops);
        Ok(Self { text: text.to_owned(), graph, tensors, flops, bytes: bytes as f64, model: None })
    }

    fn of_onnx(text: &str, dims: &[(String, usize)]) -> Result<Self> {
        let model = onnx::Model::load(text)?;
        let inputs: Vec<_> = model.inputs()?.into_iter().flat_map(|input| input.dims).collect();
        let own = |name: &str| inputs.iter().any(|dim| matches!(dim, onnx::Dim::Open(open) if open == name));
        // Other files of the same run may have other dimensions.
        let dims: Vec<_> = dims.iter().filter(|(name, _)| own(name)).map(|(n, v)| (n.as_str(), *v)).collect();
        let outputs = model.outputs()?.into_iter().map(|output| output.name).collect();
        let (graph, constants, stages) = match model.graph(&dims) {
            Err(error) if matches!(error.root(), Error::Unsupported { .. }) => {
                let graph = ports(&model, &dims)?;
                let dims = dims.iter().map(|&(name, extent)| (name.to_owned(), extent)).collect();
                (graph, IndexMap::new(), Some((model, dims)))
            }
            imported => {
                let imported = imported?;
                (imported.graph, imported.constants, None)
            }
        };
        let mut case = Self::of_graph(text, graph, None)?;
        if stages.is_some() {
            // What a session reads and writes nobody knows before it runs.
            case.bytes = 0.0;
        }
        Ok(Self { model: Some(Model { file: text.into(), constants, outputs, stages }), ..case })
    }

    /// The model and its dimensions where it runs in stages.
    pub(crate) fn stages(&self) -> Option<(&onnx::Model, &[(String, usize)])> {
        let (model, dims) = self.model.as_ref()?.stages.as_ref()?;
        Some((model, dims))
    }

    /// The values of a tensor in a set of inputs.
    pub(crate) fn values(&self, tensor: &Tensor, set: usize) -> Result<HostTensor> {
        let Some(model) = &self.model else { return tensor.values(set) };
        if let Some(constant) = model.constants.get(&TensorId(tensor.id)) {
            return Ok(constant.clone());
        }
        plausible(&tensor.name, tensor.values(set)?)
    }

    /// What peers are told.
    pub(crate) fn told(&self, sets: usize) -> Result<Told> {
        let Some(model) = &self.model else { return Ok(Told::Graph(self.json(sets))) };
        let set = |set: usize| {
            let inputs = self.tensors.iter().filter(|tensor| !tensor.constant);
            inputs
                .map(|tensor| Ok((tensor.name.clone(), self.values(tensor, set)?)))
                .collect::<Result<Vec<_>>>()
        };
        let sets = (0..sets).map(set).collect::<Result<Vec<_>>>()?;
        ModelFile::new(&model.file, &model.outputs, &sets).map(Told::Model)
    }

    fn json(&self, sets: usize) -> Value {
        let graph: Value = serde_json::from_str(&self.graph.to_json()).unwrap_or_default();
        json!({
            "case": self.text,
            "graph": graph,
            "tensors": self.tensors.iter().map(|tensor| tensor.json(sets)).collect::<Vec<_>>(),
            "outputs": self.graph.outputs().iter().map(|id| id.0).collect::<Vec<_>>(),
            "sets": sets,
        })
    }
}

/// A graph that copies a model's inputs, which says what they are.
fn ports(model: &onnx::Model, dims: &[(&str, usize)]) -> Result<Graph> {
    let mut g = GraphBuilder::new();
    for input in model.inputs()? {
        let extents = input.dims.iter().map(|dim| dim.extent(dims)).collect::<Result<Dims>>();
        let id = g.input(&input.name, input.data_type, extents.at(|| "--dim")?);
        g.op(&format!("{} as it is", input.name), OpKind::Reorder, &[id], Attrs::new())?;
    }
    g.build()
}

/// Operations of the products and convolutions of a graph.
fn flops(graph: &Graph) -> f64 {
    let dims = |id| graph.tensor(id).and_then(LogicalTensor::known_dims).unwrap_or_default();
    let of = |op: &anydnn::graph::Op| {
        let result: usize = op.outputs.first().map_or(0, |&id| dims(id).iter().product());
        let second = op.inputs.get(1).map(|&id| dims(id)).unwrap_or_default();
        let summed: usize = match op.kind {
            OpKind::MatMul => {
                let first = op.inputs.first().map(|&id| dims(id)).unwrap_or_default();
                let transposed = op.attrs.bool("transpose_a").unwrap_or(false);
                let rank = first.len();
                if rank < 2 { first.iter().product() } else { first[rank - if transposed { 2 } else { 1 }] }
            }
            OpKind::Convolution => {
                let outputs = match op.attrs.string("weights_format") {
                    Ok("XIO") => second.last().copied(),
                    _ => second.first().copied(),
                };
                second.iter().product::<usize>() / outputs.unwrap_or(1).max(1)
            }
            _ => 0,
        };
        2.0 * result as f64 * summed as f64
    };
    graph.ops().iter().map(of).sum()
}
