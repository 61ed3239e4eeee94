//! From the nodes of a file to a graph, in the order in which the outputs need them.

use std::collections::{HashMap, HashSet};

use anydnn_backend::{Dims, Error, InvalidKind, Result, ResultExt};
use indexmap::IndexMap;

use super::files::ExternalData;
use super::network::{Network, Value};
use super::node::Node;
use super::proto::{GraphProto, NodeProto, TensorProto};
use super::{Dim, Model, is_standard, ops, tensor};
use crate::graph::{Graph, TensorId};
use crate::model::HostTensor;

/// Imports a graph for the given dimensions. Nodes that no output needs are not looked at.
pub(super) fn import(
    proto: &GraphProto,
    model: &Model,
    dims: &[(&str, usize)],
) -> Result<(Graph, IndexMap<TensorId, HostTensor>)> {
    let names = Names::of(proto)?;
    let outputs: Vec<&str> = proto.output.iter().map(|output| output.name.as_deref().unwrap_or("")).collect();
    let order = names.order(proto, &outputs)?;
    let mut network = Network::new();
    let mut values: HashMap<&str, Value> = HashMap::new();
    for info in &proto.input {
        let name = info.name.as_deref().unwrap_or("");
        if names.initializers.contains_key(name) {
            continue;
        }
        let place = || format!("input {name:?}");
        let input = super::input(info)?;
        let extents = input.dims.iter().map(|dim| extent(dim, dims)).collect::<Result<Dims>>().at(place)?;
        tensor::check_size(&extents, input.data_type).at(place)?;
        values.insert(name, network.input(name, input.data_type, extents));
    }
    let mut external = ExternalData::new(model.folder.as_deref());
    for index in order {
        let node = &proto.node[index];
        for name in node.input.iter().filter(|name| !name.is_empty()) {
            if !values.contains_key(name.as_str()) {
                let value = names.initializer(proto, name, &mut network, &mut external)?;
                values.insert(name, value);
            }
        }
        let made = import_node(node, model.opset, &values, &mut network)?;
        for (name, value) in node.output.iter().zip(made).filter(|(name, _)| !name.is_empty()) {
            network.name(&value, name);
            values.insert(name, value);
        }
    }
    for name in outputs {
        if !values.contains_key(name) {
            let value = names.initializer(proto, name, &mut network, &mut external)?;
            values.insert(name, value);
        }
        let value = &values[name];
        network.output(name, value).at(|| format!("output {name:?}"))?;
    }
    network.finish()
}

/// What one node makes.
fn import_node(
    proto: &NodeProto,
    opset: i64,
    values: &HashMap<&str, Value>,
    network: &mut Network,
) -> Result<Vec<Value>> {
    // An input without a name is left out.
    let given = |name: &String| values.get(name.as_str()).filter(|_| !name.is_empty()).cloned();
    let inputs = proto.input.iter().map(given).collect();
    let node = Node::new(proto, opset, inputs);
    if !is_standard(proto.domain.as_deref()) {
        let domain = proto.domain.as_deref().unwrap_or("");
        return Err(node.unsupported(format!("operators of the domain {domain:?} are not read")));
    }
    ops::import(network, &node).map_err(|error| node.place(error))
}

fn extent(dim: &Dim, dims: &[(&str, usize)]) -> Result<usize> {
    let name = match dim {
        Dim::Fixed(extent) => return Ok(*extent),
        Dim::Open(name) => name,
    };
    dims.iter().find(|(given, _)| given == name).map(|(_, extent)| *extent).ok_or_else(|| {
        let expected = "a value for each open dimension";
        Error::invalid_kind(
            InvalidKind::Shape,
            "dimensions",
            format!("dimension {name:?}"),
            "missing",
            expected,
        )
    })
}

/// Who makes the values of a graph.
struct Names<'a> {
    initializers: HashMap<&'a str, &'a TensorProto>,
    inputs: HashSet<&'a str>,
    /// The index of the node that makes a value.
    producers: HashMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    fn of(proto: &'a GraphProto) -> Result<Self> {
        let twice = |what: &str, name: &str| {
            let given = format!("{name:?}, which is there already");
            Err(wrong(what, given, "a name of its own for every value"))
        };
        let mut initializers = HashMap::new();
        for tensor in &proto.initializer {
            let name = tensor.name.as_deref().unwrap_or("");
            if initializers.insert(name, tensor).is_some() {
                return twice("initializer", name);
            }
        }
        let mut inputs = HashSet::new();
        for input in &proto.input {
            let name = input.name.as_deref().unwrap_or("");
            if !inputs.insert(name) {
                return twice("input", name);
            }
        }
        let mut producers = HashMap::new();
        for (index, node) in proto.node.iter().enumerate() {
            for name in node.output.iter().map(String::as_str).filter(|name| !name.is_empty()) {
                let taken = inputs.contains(name) || initializers.contains_key(name);
                if taken || producers.insert(name, index).is_some() {
                    return twice("output of a node", name);
                }
            }
        }
        Ok(Self { initializers, inputs, producers })
    }

    /// The nodes that the outputs need, every one after those it reads from.
    fn order(&self, proto: &'a GraphProto, outputs: &[&'a str]) -> Result<Vec<usize>> {
        let mut states = vec![State::New; proto.node.len()];
        let mut order = Vec::new();
        // A node is entered with the number of inputs of it that were followed.
        let mut path: Vec<(usize, usize)> = Vec::new();
        for output in outputs {
            path.extend(self.enter(output, &mut states, "an output of the graph", proto)?);
            while let Some((index, followed)) = path.pop() {
                let node = &proto.node[index];
                if let Some(name) = node.input.get(followed) {
                    path.push((index, followed + 1));
                    if !name.is_empty() {
                        path.extend(self.enter(name, &mut states, &described(node), proto)?);
                    }
                } else {
                    states[index] = State::Done;
                    order.push(index);
                }
            }
        }
        Ok(order)
    }

    /// The node that makes a value, if it was not followed yet.
    fn enter(
        &self,
        name: &str,
        states: &mut [State],
        reader: &str,
        proto: &GraphProto,
    ) -> Result<Option<(usize, usize)>> {
        let Some(&index) = self.producers.get(name) else {
            if self.inputs.contains(name) || self.initializers.contains_key(name) {
                return Ok(None);
            }
            let expected = "an input, an initializer or an output of a node";
            return Err(wrong(reader, format!("{name:?}, which nothing makes"), expected));
        };
        match states[index] {
            State::Done => Ok(None),
            State::New => {
                states[index] = State::Entered;
                Ok(Some((index, 0)))
            }
            State::Entered => {
                let given = format!("a cycle through {:?}, made by {}", name, described(&proto.node[index]));
                Err(wrong(reader, given, "a graph without cycles"))
            }
        }
    }

    fn initializer(
        &self,
        proto: &GraphProto,
        name: &str,
        network: &mut Network,
        external: &mut ExternalData,
    ) -> Result<Value> {
        let Some(tensor) = self.initializers.get(name) else {
            // Whoever reads a value comes after its node, which then made only its first outputs.
            return Err(match self.producers.get(name) {
                Some(&index) => Error::unsupported(
                    format!("output {name:?} of {}", described(&proto.node[index])),
                    "only the first outputs of this operator are read",
                ),
                None => wrong("value", format!("{name:?}, which nothing makes"), "a value of the graph"),
            });
        };
        let place = || format!("initializer {name:?}");
        network.weight(name, tensor, external).at(place)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Entered,
    Done,
}

/// A node in words, before it is read.
fn described(node: &NodeProto) -> String {
    format!("{} {:?}", node.op_type.as_deref().unwrap_or("?"), node.name.as_deref().unwrap_or(""))
}

fn wrong(subject: &str, given: String, expected: &str) -> Error {
    Error::invalid_kind(InvalidKind::Graph, "ONNX graph", subject, given, expected)
}
