//! Models on disk: a graph with its weights, names and examples.
//!
//! A model is a folder with a manifest `model.json`, or a graph JSON file alone, which then has no weights.

mod dataset;
mod files;
mod fill;
mod host_tensor;
mod manifest;
mod npy;

pub use dataset::Dataset;
pub use files::{read_bytes, read_safetensors, read_text, write_safetensors};
pub use fill::random_input;
pub use host_tensor::HostTensor;
pub use npy::read_npy;

use std::path::Path;

use anydnn_backend::{DataType, Error, Result, ResultExt};
use indexmap::IndexMap;

use crate::graph::{Changes, Cut, Graph, LogicalTensor, TensorId};
use crate::rewrite::simplify;
#[cfg(feature = "onnx")]
pub(crate) use files::native_order;
use files::{beside, shown};
use manifest::Manifest;

/// A graph with what belongs to it.
#[derive(Clone, Debug)]
pub struct Model {
    /// A short name.
    pub name: String,
    /// What the model does, in a sentence.
    pub description: String,
    /// The graph; the manifest's names are on its tensors.
    pub graph: Graph,
    /// The values of the graph's constants.
    pub constants: IndexMap<TensorId, HostTensor>,
    /// Examples.
    pub dataset: Option<Dataset>,
    /// What the outputs mean, for instance `classification`.
    pub task: Option<String>,
    /// The names of the classes of a classification.
    pub classes: Vec<String>,
    /// What a graph JSON file holds that computes nothing.
    pub cut: Cut,
}

impl Model {
    /// Reads a model: a folder with a manifest `model.json`, such a manifest, or a graph JSON file. Of a file without a manifest
    /// [the part that computes](Graph::without_wildcards) is read.
    ///
    /// # Errors
    /// [`Error::Io`] when a file cannot be read; [`Error::Invalid`] when one is malformed, or weights are missing, left over or of
    /// another shape or type than the graph says. The message names the file and the tensor.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let path = if path.is_dir() { path.join("model.json") } else { path.to_owned() };
        let text = read_text(&path)?;
        if Manifest::is_manifest(&text) {
            let manifest = Manifest::parse(&path, &text)?;
            return Self::from_manifest(&path, manifest).at(|| shown(&path));
        }
        let graph = Graph::from_json_open(&text).and_then(|graph| graph.without_wildcards());
        let (graph, cut) = graph.at(|| shown(&path))?;
        let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        Ok(Self {
            name,
            description: String::new(),
            graph,
            constants: IndexMap::new(),
            dataset: None,
            task: None,
            classes: Vec::new(),
            cut,
        })
    }

    /// The constants that have no value yet.
    pub fn missing_constants(&self) -> Vec<&LogicalTensor> {
        self.graph.constants().filter(|tensor| !self.constants.contains_key(&tensor.id)).collect()
    }

    /// The tensor with a name, or with an identity written as `t5` or `5`.
    pub fn tensor(&self, name: &str) -> Option<&LogicalTensor> {
        self.graph.tensor_named(name).or_else(|| {
            let number = name.strip_prefix('t').unwrap_or(name).parse().ok()?;
            self.graph.tensor(TensorId(number))
        })
    }

    /// Changes types and shapes of the graph, and with them the types of the constants' values.
    ///
    /// # Errors
    /// As [`Graph::with_changes`]; also [`Error::Invalid`] when a constant that has values would change its shape.
    pub fn change(&mut self, changes: &Changes) -> Result<()> {
        let graph = self.graph.with_changes(changes)?;
        let mut constants = self.constants.clone();
        for (id, value) in &mut constants {
            let Some(desc) = graph.tensor(*id).map(LogicalTensor::memory_desc).transpose()? else { continue };
            if desc.dims() != value.dims() {
                let (subject, expected) =
                    (format!("shape of constant {}", graph.label(*id)), value.dims().to_string());
                let expected = format!("{expected}, the shape of its values");
                return Err(Error::invalid("model", subject, desc.dims().to_string(), expected));
            }
            *value = value.cast(desc.data_type()).labelled(&graph.label(*id));
        }
        (self.graph, self.constants) = (graph, constants);
        Ok(())
    }

    /// [Rewrites](simplify) what the graph writes out of functions, by the values of its constants. Constants that nothing reads any more
    /// are gone.
    ///
    /// # Errors
    /// As [`simplify`].
    pub fn simplify(&mut self) -> Result<()> {
        self.graph = simplify(&self.graph, &|id| self.constants.get(&id)?.number())?;
        self.constants.retain(|id, _| self.graph.tensor(*id).is_some());
        Ok(())
    }

    fn from_manifest(path: &Path, manifest: Manifest) -> Result<Self> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let graph_path = beside(folder, &manifest.graph)?;
        let graph = Graph::from_json(&read_text(&graph_path)?).at(|| shown(&graph_path))?;
        let constant_ids: Vec<_> = graph.constants().map(|tensor| tensor.id).collect();
        let mut graph = named(graph, "constants", &manifest.constants, &constant_ids)?;
        for (role, names) in [("inputs", &manifest.inputs), ("outputs", &manifest.outputs)] {
            let ids = if role == "inputs" { graph.inputs() } else { graph.outputs() }.to_vec();
            graph = named(graph, role, names, &ids)?;
        }
        let constants = match &manifest.weights {
            Some(weights) => load_weights(&beside(folder, weights)?, &graph, &manifest.constants)?,
            None => IndexMap::new(),
        };
        let dataset = match &manifest.dataset {
            Some(dataset) => {
                if let Some(unknown) = dataset.inputs.keys().find(|name| !manifest.inputs.contains_key(*name))
                {
                    let expected = "an input of the model";
                    return Err(Error::invalid(
                        "model manifest",
                        "dataset input",
                        format!("{unknown:?}"),
                        expected,
                    ));
                }
                Some(Dataset::load(folder, dataset)?)
            }
            None => None,
        };
        let Manifest { name, description, task, classes, .. } = manifest;
        Ok(Self { name, description, graph, constants, dataset, task, classes, cut: Cut::default() })
    }
}

/// Puts the manifest's names on tensors that must be among `allowed`.
fn named(mut graph: Graph, role: &str, names: &IndexMap<String, u64>, allowed: &[TensorId]) -> Result<Graph> {
    for (name, &id) in names {
        if !allowed.contains(&TensorId(id)) {
            let ids: Vec<_> = allowed.iter().take(32).map(|id| id.0.to_string()).collect();
            let expected = format!("one of the {role} of the graph: {}", ids.join(", "));
            return Err(Error::invalid("model manifest", format!("{role}.{name}"), id.to_string(), expected));
        }
        graph = graph.with_name(TensorId(id), name)?;
    }
    Ok(graph)
}

fn load_weights(
    path: &Path,
    graph: &Graph,
    names: &IndexMap<String, u64>,
) -> Result<IndexMap<TensorId, HostTensor>> {
    let mut weights = read_safetensors(path)?;
    let mut constants = IndexMap::new();
    for tensor in graph.constants() {
        let name = names.iter().find(|(_, id)| **id == tensor.id.0).map(|(name, _)| name);
        let name = name.ok_or_else(|| {
            let subject = format!("name of constant {}", tensor.id);
            Error::invalid("model manifest", subject, "missing", "an entry in constants")
        })?;
        let wrong = |subject: &str, given: String, expected: String| {
            Error::invalid(shown(path), format!("{subject}tensor {name:?}"), given, expected)
        };
        let weight = weights
            .shift_remove(name)
            .ok_or_else(|| wrong("", "missing".into(), format!("{tensor}, a constant of the graph")))?;
        let desc = tensor.memory_desc()?;
        if weight.dims() != desc.dims() {
            return Err(wrong(
                "shape of ",
                weight.dims().to_string(),
                format!("{}, as in the graph", desc.dims()),
            ));
        }
        let weight = match (weight.data_type(), desc.data_type()) {
            (given, wanted) if given == wanted => weight,
            // The file format has no 4-bit types; their values lie in bytes.
            (DataType::S8 | DataType::U8, wanted) if wanted.bits() == 4 => weight.cast(wanted),
            (given, wanted) => {
                return Err(wrong("type of ", given.to_string(), format!("{wanted}, as in the graph")));
            }
        };
        constants.insert(tensor.id, weight.labelled(name));
    }
    match weights.keys().next() {
        Some(name) => {
            let expected = "only constants of the graph that the manifest names";
            Err(Error::invalid(shown(path), "tensor", format!("{name:?}, which is left over"), expected))
        }
        None => Ok(constants),
    }
}
