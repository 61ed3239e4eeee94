//! A case: what is measured, by whom, on which numbers.

use std::path::Path;

use anydnn::backend::{Error, Result};
use anydnn::graph::Graph;
use serde_json::{Value, json};

use super::data::Tensor;
use super::spec::Spec;
use super::{graphs, notation};
use crate::failure::Failure;

/// A primitive or a graph with its inputs.
#[derive(Debug)]
pub(crate) struct Case {
    /// As it was written.
    pub(crate) text: String,
    pub(crate) spec: Option<Spec>,
    pub(crate) graph: Graph,
    pub(crate) tensors: Vec<Tensor>,
    /// Floating-point operations.
    pub(crate) flops: f64,
    /// The least bytes that must move: every input, constant and output once.
    pub(crate) bytes: f64,
}

impl Case {
    /// Reads a case: the notation of a primitive, or a file with a graph.
    pub(crate) fn new(text: &str) -> std::result::Result<Self, Failure> {
        if Path::new(text).extension().is_some_and(|extension| extension == "json") {
            let graph = crate::run::load_graph(Path::new(text))?;
            return Ok(Self::of_graph(text, graph)?);
        }
        let spec = notation::parse(text)?;
        let none = || Error::unsupported("bench", "cases of integers");
        let graph = graphs::graph(&spec)?.ok_or_else(none)?;
        let mut case = Self::of_graph(text, graph)?;
        case.flops = spec.flops();
        case.spec = Some(spec);
        Ok(case)
    }

    fn of_graph(text: &str, graph: Graph) -> Result<Self> {
        let tensors = Tensor::of_graph(&graph)?;
        let mut bytes: usize = tensors.iter().map(Tensor::bytes).sum();
        for tensor in graph.outputs().iter().filter_map(|&id| graph.tensor(id)) {
            bytes += tensor.memory_desc()?.size();
        }
        Ok(Self { text: text.to_owned(), spec: None, graph, tensors, flops: 0.0, bytes: bytes as f64 })
    }

    /// What peers are told.
    pub(crate) fn json(&self, sets: usize) -> Value {
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
