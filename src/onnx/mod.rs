//! Models in the ONNX format, opset 6 to 28.
//!
//! [`Model::load`] reads a file, [`Model::graph`] imports it for given dimensions: operators become operations of a [`Graph`], weights its
//! constants, and what follows from shapes and constants alone is computed there and then. An operator that has no counterpart is an
//! error that names the node.
//!
//! ```no_run
//! use anydnn::onnx::Model;
//! let model = Model::load("resnet.onnx")?.graph(&[("batch", 4)])?;
//! println!("{} operations, {} constants", model.graph.ops().len(), model.constants.len());
//! # Ok::<(), anydnn::backend::Error>(())
//! ```
//!
//! [`Graph`]: crate::graph::Graph

mod axes;
mod constant;
mod files;
mod host;
mod import;
mod known;
mod large;
mod network;
mod node;
mod ops;
mod pool;
mod program;
mod proto;
mod room;
mod session;
mod tensor;
#[cfg(test)]
mod tests;
mod value;
mod views;
mod window;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anydnn_backend::{DataType, Dims, Error, InvalidKind, Result, ResultExt};
use prost::Message;
use prost::bytes::Bytes;

use self::files::Origin;
pub use self::pool::{Named, SessionPool};
use self::program::Program;
pub use self::session::{
    Cancel, MemoryReport, NodeInfo, Output, PlanMemory, Precision, Session, SessionOptions, StageInfo,
    Startup, StepTime,
};
use crate::model::{self, HostTensor};
use proto::{ModelProto, TensorShapeProto, ValueInfoProto};

/// The opsets that are read; the newest is that of ONNX 1.23.
const OPSETS: std::ops::RangeInclusive<i64> = 6..=28;
/// Operators that opsets before those have in the same meaning.
const UNCHANGED: [&str; 18] = [
    "ArgMax",
    "ArgMin",
    "Constant",
    "DepthToSpace",
    "Flatten",
    "Gather",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "Identity",
    "LRN",
    "Not",
    "Shape",
    "Size",
    "Softmax",
    "Softplus",
    "Softsign",
    "SpaceToDepth",
    "Transpose",
];

/// A model as its file says it: dimensions may be open.
#[derive(Clone)]
pub struct Model {
    proto: Arc<ModelProto>,
    opset: i64,
    name: String,
    origin: Origin,
}

/// An input of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The name.
    pub name: String,
    /// The type.
    pub data_type: DataType,
    /// The dimensions.
    pub dims: Vec<Dim>,
}

/// A dimension of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// Always the same.
    Fixed(usize),
    /// Chosen by the name when the model is imported. One without a name in the file has that of its input, a dot and its position,
    /// such as `x.0`.
    Open(String),
}

/// What a file says of itself; empty where it says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About<'m> {
    /// The program that wrote it.
    pub producer: &'m str,
    /// The maker's domain, as `com.example`.
    pub domain: &'m str,
    /// The maker's version of the model.
    pub version: i64,
    /// What the model is for.
    pub description: &'m str,
    /// The name of the graph.
    pub graph: &'m str,
    /// What the graph is for.
    pub graph_description: &'m str,
    /// What the maker wrote by keys, such as a list of labels, in the order of the file.
    pub metadata: Vec<(String, String)>,
}

impl Dim {
    /// The extent among the `dims` that are given by their names.
    ///
    /// # Errors
    /// [`Error::Invalid`] for one that is open and not given.
    pub fn extent<S: AsRef<str>>(&self, dims: &[(S, usize)]) -> Result<usize> {
        let name = match self {
            Self::Fixed(extent) => return Ok(*extent),
            Self::Open(name) => name,
        };
        let given = dims.iter().find(|(given, _)| given.as_ref() == name).map(|(_, extent)| *extent);
        let expected = "an extent for each open dimension";
        given.ok_or_else(|| Error::invalid("dimensions", format!("dimension {name:?}"), "missing", expected))
    }
}

impl Model {
    /// Reads a model from a file. It stays mapped as long as the model is there, and its external data while it is imported: nobody may
    /// change or shorten these files meanwhile.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be read, [`Error::Invalid`] when it is no ONNX model,
    /// [`Error::Unsupported`] when its opset is not read here.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let (origin, bytes) = Origin::open(path)?;
        Self::decode(bytes, name, origin).at(|| path.display().to_string())
    }

    /// Reads a model from bytes. It can have no external data.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self> {
        Self::decode(Bytes::from(bytes.into()), "model".into(), Origin::default())
    }

    /// The inputs that an execution needs, in the order of the file.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for an input that is no tensor or has a type that anydnn has not, [`Error::Invalid`] for wrong dimensions.
    pub fn inputs(&self) -> Result<Vec<Input>> {
        let Some(graph) = &self.proto.graph else { return Ok(Vec::new()) };
        let initialized: std::collections::HashSet<_> =
            graph.initializer.iter().filter_map(|tensor| tensor.name.as_deref()).collect();
        let given = |input: &&ValueInfoProto| !initialized.contains(input.name.as_deref().unwrap_or(""));
        graph.input.iter().filter(given).map(input).collect()
    }

    /// The outputs in the order of the file, with what it says of them.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for an output of a type that anydnn has not.
    pub fn outputs(&self) -> Result<Vec<Output>> {
        let Some(graph) = &self.proto.graph else { return Ok(Vec::new()) };
        let read = |info: &ValueInfoProto| {
            let name = info.name.clone().unwrap_or_default();
            let Some(tensor) = info.r#type.as_ref().and_then(|of| of.tensor_type.as_ref()) else {
                return Ok(Output { name, data_type: None, dims: None });
            };
            let number = tensor.elem_type.filter(|&number| number != 0);
            let data_type = number.map(tensor::data_type).transpose().at(|| format!("output {name:?}"))?;
            let dims = tensor.shape.as_ref().map(|shape| open_dims(&name, shape));
            Ok(Output { name, data_type, dims })
        };
        graph.output.iter().map(read).collect()
    }

    /// The operators of the model's nodes, in the order of the file.
    pub fn operators(&self) -> impl Iterator<Item = &str> {
        let nodes = self.proto.graph.iter().flat_map(|graph| &graph.node);
        nodes.map(|node| node.op_type.as_deref().unwrap_or(""))
    }

    /// The opset of the standard operators.
    pub fn opset(&self) -> i64 {
        self.opset
    }

    /// What the model's maker wrote under a key, such as a list of labels.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        let entry = self.proto.metadata_props.iter().find(|entry| entry.key.as_deref() == Some(key));
        entry.and_then(|entry| entry.value.as_deref())
    }

    /// What the file says of itself.
    pub fn about(&self) -> About<'_> {
        let (proto, graph) = (&*self.proto, self.proto.graph.as_ref());
        let entry = |entry: &'_ proto::StringStringEntryProto| -> Option<(String, String)> {
            Some((entry.key.clone()?, entry.value.clone().unwrap_or_default()))
        };
        About {
            producer: proto.producer_name.as_deref().unwrap_or(""),
            domain: proto.domain.as_deref().unwrap_or(""),
            version: proto.model_version.unwrap_or(0),
            description: proto.doc_string.as_deref().unwrap_or(""),
            graph: graph.and_then(|graph| graph.name.as_deref()).unwrap_or(""),
            graph_description: graph.and_then(|graph| graph.doc_string.as_deref()).unwrap_or(""),
            metadata: proto.metadata_props.iter().filter_map(entry).collect(),
        }
    }

    /// Imports the model for the given values of its [open dimensions](Dim::Open), in any order. Inputs that no output needs are left
    /// out.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a dimension that is missing or unknown, and where the file contradicts itself;
    /// [`Error::Unsupported`] for an operator or type that is not read here, with the node's name;
    /// [`Error::OutOfMemory`] when the host has not as much memory as the constants need.
    pub fn graph(&self, dims: &[(&str, usize)]) -> Result<model::Model> {
        self.import(dims).at(|| self.name.clone())
    }

    fn import(&self, dims: &[(&str, usize)]) -> Result<model::Model> {
        self.check_dims(dims)?;
        let program = self.program()?;
        let mut given = Vec::new();
        for (input, &value) in self.inputs()?.iter().zip(&program.inputs) {
            let place = || format!("input {:?}", input.name);
            let extents =
                input.dims.iter().map(|dim| extent(dim, dims)).collect::<Result<Dims>>().at(place)?;
            tensor::check_size(&extents, input.data_type).at(place)?;
            given.push((value, input.data_type, extents));
        }
        let request = import::Request {
            program: &program,
            origin: &self.origin,
            narrow: None,
            specialises: false,
            repeats: false,
            calls_are_free: false,
            kept_back: &[],
        };
        let finished = import::whole(request, given)?;
        let constants = finished.tensors()?;
        Ok(model::Model {
            name: self.name.clone(),
            description: description(&self.proto, self.opset),
            graph: Arc::unwrap_or_clone(finished.graph),
            constants,
            dataset: None,
            task: None,
            classes: Vec::new(),
            cut: crate::graph::Cut::default(),
        })
    }

    /// The graph as steps.
    fn program(&self) -> Result<Arc<Program>> {
        Program::of(&self.proto, ops::is_random).map(Arc::new)
    }

    /// Checks that all dimensions are open ones of the inputs.
    fn check_dims(&self, dims: &[(&str, usize)]) -> Result<()> {
        let mut names: Vec<String> = Vec::new();
        for input in self.inputs()? {
            names.extend(input.dims.into_iter().filter_map(|dim| match dim {
                Dim::Open(name) => Some(name),
                Dim::Fixed(_) => None,
            }));
        }
        if let Some((name, _)) = dims.iter().find(|(name, _)| !names.iter().any(|own| own == name)) {
            names.dedup();
            names.truncate(32);
            let expected =
                if names.is_empty() { "none, since all are fixed".into() } else { names.join(", ") };
            let expected = format!("an open dimension of the model's inputs: {expected}");
            return Err(Error::invalid("dimensions", "name", format!("{name:?}"), expected));
        }
        Ok(())
    }

    fn decode(bytes: Bytes, name: String, origin: Origin) -> Result<Self> {
        let proto = ModelProto::decode(bytes)
            .map_err(|error| Error::invalid("ONNX model", "content", error.to_string(), "a ModelProto"))?;
        if proto.graph.is_none() {
            return Err(Error::invalid("ONNX model", "graph", "missing", "a ModelProto with a graph"));
        }
        let standard = proto.opset_import.iter().find(|set| is_standard(set.domain.as_deref()));
        // Files that name no operator set mean the first; those that name others alone have no standard operators.
        let absent = if proto.opset_import.is_empty() { 1 } else { *OPSETS.end() };
        let opset = standard.map_or(absent, |set| set.version.unwrap_or(1));
        if !OPSETS.contains(&opset) && !is_unchanged(&proto, opset) {
            let why = format!("opsets {} to {} are read", OPSETS.start(), OPSETS.end());
            return Err(Error::unsupported(format!("ONNX opset {opset}"), why));
        }
        Ok(Self { proto: Arc::new(proto), opset, name, origin })
    }
}

/// Reads a tensor from a file that holds a `TensorProto`, as the test data of ONNX's models are stored (`input_0.pb`).
///
/// # Errors
/// [`Error::Io`] when the file cannot be read, [`Error::Invalid`] when it is no tensor, [`Error::Unsupported`] for a type that anydnn has
/// not.
pub fn read_tensor(path: impl AsRef<Path>) -> Result<HostTensor> {
    let path = path.as_ref();
    let read = || {
        let (origin, bytes) = Origin::open(path)?;
        let proto = proto::TensorProto::decode(bytes)
            .map_err(|error| Error::invalid("ONNX tensor", "content", error.to_string(), "a TensorProto"))?;
        tensor::host_tensor(&proto, &mut files::ExternalData::new(&origin))
    };
    read().at(|| path.display().to_string())
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.proto.graph.as_ref().map_or(0, |graph| graph.node.len());
        f.debug_struct("Model")
            .field("name", &self.name)
            .field("opset", &self.opset)
            .field("nodes", &nodes)
            .finish_non_exhaustive()
    }
}

fn extent(dim: &Dim, dims: &[(&str, usize)]) -> Result<usize> {
    let name = match dim {
        Dim::Fixed(extent) => return Ok(*extent),
        Dim::Open(name) => name,
    };
    dims.iter().find(|(given, _)| given == name).map(|(_, extent)| *extent).ok_or_else(|| {
        let expected = "a value for each open dimension";
        let subject = format!("dimension {name:?}");
        Error::invalid_kind(InvalidKind::Shape, "dimensions", subject, "missing", expected)
    })
}

/// Whether a model of an older opset has only operators that mean the same since.
fn is_unchanged(proto: &ModelProto, opset: i64) -> bool {
    let nodes = || proto.graph.iter().flat_map(|graph| &graph.node);
    let same = |node: &proto::NodeProto| {
        is_standard(node.domain.as_deref())
            && node.op_type.as_deref().is_some_and(|name| UNCHANGED.contains(&name))
    };
    (1..*OPSETS.start()).contains(&opset) && proto.functions.is_empty() && nodes().all(same)
}

/// Whether a domain is that of the standard operators, which has two names.
fn is_standard(domain: Option<&str>) -> bool {
    matches!(domain, None | Some("" | "ai.onnx"))
}

fn description(proto: &ModelProto, opset: i64) -> String {
    match proto.producer_name.as_deref() {
        Some(producer) if !producer.is_empty() => format!("ONNX opset {opset}, by {producer}"),
        _ => format!("ONNX opset {opset}"),
    }
}

/// An input with the names of its open dimensions.
fn input(proto: &ValueInfoProto) -> Result<Input> {
    let name = proto.name.clone().unwrap_or_default();
    let place = || format!("input {name:?}");
    let tensor = proto.r#type.as_ref().and_then(|of| of.tensor_type.as_ref());
    let Some(tensor) = tensor else {
        return Err(Error::unsupported(place(), "only tensors are read, no sequences, maps or optionals"));
    };
    let data_type = tensor::data_type(tensor.elem_type.unwrap_or(0)).at(place)?;
    let Some(shape) = &tensor.shape else {
        return Err(Error::unsupported(place(), "its number of dimensions is not said"));
    };
    let dims = open_dims(&name, shape);
    Ok(Input { name, data_type, dims })
}

/// The dimensions of a value; an open one without a name has that of the value and its position.
fn open_dims(name: &str, shape: &TensorShapeProto) -> Vec<Dim> {
    let dims = shape.dim.iter().enumerate().map(|(i, dim)| match (dim.dim_value, dim.dim_param.as_deref()) {
        (Some(value), _) if value >= 0 => {
            usize::try_from(value).map_or_else(|_| Dim::Fixed(usize::MAX), Dim::Fixed)
        }
        // Some exporters write a question mark for any dimension that they do not know.
        (_, Some(param)) if !matches!(param, "" | "?") => Dim::Open(param.to_owned()),
        _ => Dim::Open(format!("{name}.{i}")),
    });
    dims.collect()
}
