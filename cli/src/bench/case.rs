//! A case: what is measured, by whom, on which numbers.

use std::path::Path;

use anydnn::backend::{DataType, Result};
use anydnn::graph::{Graph, LogicalTensor, OpKind};
use serde_json::{Value, json};

use super::data::Tensor;
use super::networks::network;
use super::spec::Spec;
use super::{graphs, notation};
use crate::failure::Failure;

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
}

impl Case {
    /// Reads a case: the notation of a primitive, the name of a network with a type, or a file with a graph.
    pub(crate) fn new(text: &str) -> std::result::Result<Self, Failure> {
        if Path::new(text).extension().is_some_and(|extension| extension == "json") {
            let graph = crate::run::load_graph(Path::new(text), &[])?;
            return Ok(Self::of_graph(text, graph, None)?);
        }
        let (name, data_type) = text.split_once(' ').unwrap_or((text, "f32"));
        let floats = [DataType::F32, DataType::F16, DataType::BF16];
        if let Some(data_type) = data_type.parse().ok().filter(|data_type| floats.contains(data_type))
            && let Some(graph) = network(name, data_type)
        {
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
        Ok(Self { text: text.to_owned(), graph, tensors, flops, bytes: bytes as f64 })
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
