//! Nodes whose inputs are all there: computed by the host backend, with the graph that the importer makes of them.

use std::collections::HashMap;
use std::sync::OnceLock;

use anydnn_backend::{DataType, Engine, Error, Result, StreamDesc};
use anydnn_host::{Host, HostEngine};

use super::network::{Network, Value};
use super::node::Node;
use super::room::Room;
use crate::compile::{CompileOptions, CompiledGraph};
use crate::graph::TensorId;
use crate::model::HostTensor;

/// Makes a node's outputs.
pub(super) type Import = fn(&mut Network, &Node) -> Result<Vec<Value>>;

/// The inputs of a node, all known; none where one is left out.
pub(super) type Known<'a> = &'a [Option<&'a HostTensor>];

/// Computes a node's outputs. Elements of types that the graph does not compute with are computed as f64, and integers among the results
/// lose their fraction then. The node's own values are not looked at.
///
/// # Errors
/// Those of the importer; [`Error::Unsupported`] and [`Error::OutOfMemory`] for what there is no room for.
pub(super) fn computed(
    node: &Node,
    import: Import,
    inputs: Known,
    room: &mut Room,
) -> Result<Vec<HostTensor>> {
    let made = of_graph(node, import, inputs, room);
    let refused = matches!(&made, Err(error) if matches!(error.root(), Error::Unsupported { .. }));
    let Some(own) = inputs.first().copied().flatten().map(HostTensor::data_type) else { return made };
    let is_wide = |tensor: &HostTensor| {
        let data_type = tensor.data_type();
        data_type.is_host_only() || data_type == own && own.is_integer()
    };
    if !refused || !inputs.iter().flatten().any(|tensor| is_wide(tensor)) {
        return made;
    }
    let wide: Vec<Option<HostTensor>> = inputs
        .iter()
        .map(|input| {
            input.map(|tensor| if is_wide(tensor) { tensor.cast(DataType::F64) } else { tensor.clone() })
        })
        .collect();
    let wide: Vec<Option<&HostTensor>> = wide.iter().map(Option::as_ref).collect();
    let narrowed = |tensor: HostTensor| {
        if tensor.data_type() != DataType::F64 {
            return Ok(tensor);
        }
        let mut values = tensor.to_f64s();
        if own.is_integer() {
            for value in &mut values {
                *value = value.trunc();
            }
        }
        HostTensor::from_f64(tensor.dims().clone(), own, &values)
    };
    of_graph(node, import, &wide, room)?.into_iter().map(narrowed).collect()
}

/// Computes a node's outputs with its graph.
fn of_graph(node: &Node, import: Import, inputs: Known, room: &mut Room) -> Result<Vec<HostTensor>> {
    let mut network = Network::new(None);
    let values =
        inputs.iter().map(|input| input.map(|tensor| network.constant("", tensor.clone())).transpose());
    let node = node.given(values.collect::<Result<_>>()?);
    let made = import(&mut network, &node)?;
    evaluated(network, &node, &made, room)
}

/// The elements of values that follow from constants alone.
fn evaluated(
    mut network: Network,
    node: &Node,
    values: &[Value],
    room: &mut Room,
) -> Result<Vec<HostTensor>> {
    let mut made = Vec::with_capacity(values.len());
    for value in values {
        made.push(match network.known(value) {
            Some(known) => Made::Known(Box::new(known.clone())),
            None => Made::By(network.result(node.name(), value, None)?),
        });
    }
    let mut outputs = HashMap::new();
    if network.has_outputs() {
        let finished = network.finish()?;
        let (graph, constants) = (&finished.graph, finished.tensors()?);
        for tensor in graph.tensors().filter(|tensor| !constants.contains_key(&tensor.id)) {
            if let (Some(dims), Some(data_type)) = (tensor.known_dims(), tensor.data_type) {
                room.take(&dims, data_type)?;
            }
        }
        let engine = engine();
        let stream = engine.create_stream(&StreamDesc::default())?;
        let compiled = CompiledGraph::<Host>::new(graph, engine, &CompileOptions::default())?;
        let tensors = compiled.load_tensors(&stream, &constants)?.run(&stream, &[])?;
        outputs.extend(graph.outputs().iter().copied().zip(tensors));
    }
    let tensor = |made| match made {
        Made::Known(tensor) => Ok(*tensor),
        Made::By(id) => {
            outputs.get(&id).cloned().ok_or_else(|| node.invalid("output", id, "one of its graph"))
        }
    };
    made.into_iter().map(tensor).collect()
}

/// A result of a graph of constants.
enum Made {
    Known(Box<HostTensor>),
    By(TensorId),
}

/// The engine that computes them, on the threads of the process.
fn engine() -> &'static HostEngine {
    static ENGINE: OnceLock<HostEngine> = OnceLock::new();
    ENGINE.get_or_init(HostEngine::new)
}
