//! The manifest of a model directory.

use std::path::Path;

use anydnn_backend::{Error, Result};
use indexmap::IndexMap;
use serde::Deserialize;

use super::files::shown;

/// `model.json`: which files a model is made of, and names for the tensors of its graph.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    pub(super) graph: String,
    pub(super) weights: Option<String>,
    #[serde(default)]
    pub(super) constants: IndexMap<String, u64>,
    #[serde(default)]
    pub(super) inputs: IndexMap<String, u64>,
    #[serde(default)]
    pub(super) outputs: IndexMap<String, u64>,
    pub(super) dataset: Option<DatasetManifest>,
    pub(super) task: Option<String>,
    #[serde(default)]
    pub(super) classes: Vec<String>,
}

/// Where a model's examples are.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DatasetManifest {
    pub(super) file: String,
    /// The tensor of the file for each input of the model.
    #[serde(default)]
    pub(super) inputs: IndexMap<String, String>,
    pub(super) labels: Option<String>,
}

impl Manifest {
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| {
            Error::invalid(shown(path), "manifest", error.to_string(), "the fields of a model manifest")
        })
    }

    /// Whether a JSON text is a manifest rather than a graph: its graph is a file name.
    pub(super) fn is_manifest(text: &str) -> bool {
        #[derive(Deserialize)]
        struct Probe {
            graph: Option<serde_json::Value>,
        }
        serde_json::from_str::<Probe>(text)
            .is_ok_and(|probe| probe.graph.is_some_and(|graph| graph.is_string()))
    }
}
