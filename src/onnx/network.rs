//! The graph under construction, with the values that operators hand on.

use std::collections::HashSet;

use anydnn_backend::{DataType, Dims, Error, MAX_DIMS, Result, check_host_memory};
use indexmap::IndexMap;

use super::files::ExternalData;
use super::node::Node;
use super::proto::TensorProto;
use super::tensor;
use crate::graph::{Attrs, Graph, GraphBuilder, LogicalTensor, OpKind, TensorId};
use crate::model::HostTensor;

/// A value of an ONNX graph: its shape and type, and where it comes from.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) dims: Dims,
    pub(super) data_type: DataType,
    source: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// Known now; an index into the constants.
    Constant(usize),
    /// Given on execution.
    Input(TensorId),
    /// Made by an operation.
    Made(TensorId),
}

impl Value {
    pub(super) fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Whether two values are the same one.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// Collects operations and constants. A constant becomes one of the graph when an operation reads it.
#[derive(Debug)]
pub(super) struct Network {
    builder: GraphBuilder,
    constants: Vec<Constant>,
    /// Tensors that have their final name.
    named: HashSet<TensorId>,
    outputs: HashSet<TensorId>,
    room: Room,
}

#[derive(Debug)]
struct Constant {
    tensor: HostTensor,
    name: String,
    id: Option<TensorId>,
}

/// Asks for memory before it is taken: large requests one by one, small ones by their sum.
#[derive(Debug, Default)]
pub(super) struct Room {
    pending: usize,
    /// The most elements of a tensor, where there is a limit.
    most: Option<usize>,
}

impl Room {
    /// Lets tensors have no more elements than this; any number without.
    pub(super) fn limit(&mut self, most: Option<usize>) {
        self.most = most;
    }

    /// Checks that there is memory for one more tensor.
    pub(super) fn take(&mut self, dims: &Dims, data_type: DataType) -> Result<()> {
        tensor::check_size(dims, data_type)?;
        if let Some(most) = self.most.filter(|&most| dims.elements() > most) {
            let why = format!("at most {most} elements are computed while importing");
            return Err(Error::unsupported(format!("a constant {dims} of {data_type}"), why));
        }
        self.pending = self.pending.saturating_add(data_type.bytes_for(dims.elements()));
        check_host_memory(self.pending, || format!("a constant {dims} of {data_type}"))?;
        // What was granted is in use from now on, and the next check sees it.
        if self.pending >= 64 << 20 {
            self.pending = 0;
        }
        Ok(())
    }
}

impl Network {
    pub(super) fn new() -> Self {
        Self {
            builder: GraphBuilder::new(),
            constants: Vec::new(),
            named: HashSet::new(),
            outputs: HashSet::new(),
            room: Room::default(),
        }
    }

    pub(super) fn input(&mut self, name: &str, data_type: DataType, dims: Dims) -> Value {
        let id = self.builder.input(name, data_type, dims.clone());
        Value { dims, data_type, source: Source::Input(id) }
    }

    /// A tensor of the file.
    pub(super) fn weight(
        &mut self,
        name: &str,
        proto: &TensorProto,
        external: &mut ExternalData,
    ) -> Result<Value> {
        let data_type = tensor::data_type(proto.data_type.unwrap_or(0))?;
        self.room.take(&tensor::dims(&proto.dims, data_type)?, data_type)?;
        let tensor = tensor::host_tensor(proto, external)?;
        self.constant(name, tensor)
    }

    pub(super) fn constant(&mut self, name: &str, tensor: HostTensor) -> Result<Value> {
        if tensor.dims().len() > MAX_DIMS {
            let (given, expected) = (tensor.dims().len().to_string(), "at most 12");
            return Err(Error::invalid("constant", "number of dimensions", given, expected));
        }
        let (dims, data_type) = (tensor.dims().clone(), tensor.data_type());
        self.constants.push(Constant { tensor, name: name.to_owned(), id: None });
        Ok(Value { dims, data_type, source: Source::Constant(self.constants.len() - 1) })
    }

    /// The same elements under other dimensions: computed where the elements are known, nothing where the dimensions are the same.
    pub(super) fn reshape(&mut self, node: &Node, value: &Value, dims: Dims) -> Result<Value> {
        if dims == value.dims {
            return Ok(value.clone());
        }
        if dims.elements() != value.dims.elements() {
            let expected = format!("as many elements as {}", value.dims);
            return Err(node.invalid("shape", dims, expected));
        }
        tensor::check_size(&dims, value.data_type)?;
        if let Some(tensor) = self.known(value) {
            let tensor = tensor.clone();
            self.room.take(&dims, value.data_type)?;
            return self.constant(node.name(), tensor.reshaped(dims)?);
        }
        let shape: Vec<i64> = dims.iter().map(|&dim| dim as i64).collect();
        let attrs = Attrs::new().with("shape", shape).with("special_zero", false);
        self.op(node, OpKind::StaticReshape, &[value], attrs)
    }

    /// One number that broadcasts with `like` without changing its shape.
    pub(super) fn scalar(&mut self, node: &Node, number: f64, like: &Value) -> Result<Value> {
        let dims = if like.rank() == 0 { Dims::default() } else { Dims::from([1]) };
        let tensor = HostTensor::from_f64(dims, like.data_type, &[number])?;
        self.constant(&format!("{}/{number}", node.name()), tensor)
    }

    /// What makes a value, with its inputs.
    pub(super) fn maker(&self, value: &Value) -> Option<(OpKind, Vec<Value>)> {
        let Source::Made(id) = value.source else { return None };
        let op = self.builder.producer(id)?;
        let inputs = op.inputs.iter().map(|&id| {
            let tensor = self.builder.tensor(id)?;
            let constant = self.constants.iter().position(|constant| constant.id == Some(id));
            let source = match constant {
                Some(index) => Source::Constant(index),
                None if self.builder.producer(id).is_some() => Source::Made(id),
                None => Source::Input(id),
            };
            Some(Value { dims: tensor.known_dims()?, data_type: tensor.data_type?, source })
        });
        Some((op.kind, inputs.collect::<Option<_>>()?))
    }

    /// The exponent of a power that an operation makes.
    pub(super) fn exponent(&self, value: &Value) -> Option<f32> {
        let Source::Made(id) = value.source else { return None };
        self.builder.producer(id)?.attrs.f32("beta").ok()
    }

    /// The same numbers in another type, as near as it has them.
    pub(super) fn converted(&mut self, node: &Node, value: &Value, data_type: DataType) -> Result<Value> {
        if value.data_type == data_type {
            return Ok(value.clone());
        }
        self.op_to(node, OpKind::TypeCast, &[value], Attrs::new(), Some(data_type))
    }

    /// Zero less a value.
    pub(super) fn negative(&mut self, node: &Node, value: &Value) -> Result<Value> {
        let zero = self.scalar(node, 0.0, value)?;
        self.op(node, OpKind::Subtract, &[&zero, value], Attrs::new())
    }

    /// The elements of a value that is known.
    pub(super) fn known(&self, value: &Value) -> Option<&HostTensor> {
        match value.source {
            Source::Constant(index) => self.constants.get(index).map(|constant| &constant.tensor),
            Source::Input(_) | Source::Made(_) => None,
        }
    }

    /// The known inputs of a node, when all are, and the memory to compute with.
    pub(super) fn known_inputs(&mut self, node: &Node) -> Option<(Vec<Option<&HostTensor>>, &mut Room)> {
        let constants = &self.constants;
        let known = |value: &Option<Value>| match value {
            None => Some(None),
            Some(Value { source: Source::Constant(index), .. }) => {
                constants.get(*index).map(|constant| Some(&constant.tensor))
            }
            Some(_) => None,
        };
        let known = node.inputs().iter().map(known).collect::<Option<_>>()?;
        Some((known, &mut self.room))
    }

    /// Adds an operation with one output of the inferred type.
    pub(super) fn op(&mut self, node: &Node, kind: OpKind, inputs: &[&Value], attrs: Attrs) -> Result<Value> {
        self.op_to(node, kind, inputs, attrs, None)
    }

    /// Adds an operation with one output of a given type.
    pub(super) fn op_to(
        &mut self,
        node: &Node,
        kind: OpKind,
        inputs: &[&Value],
        attrs: Attrs,
        data_type: Option<DataType>,
    ) -> Result<Value> {
        let inputs: Vec<_> = inputs.iter().map(|value| self.id(value)).collect();
        self.add(node.name(), kind, &inputs, attrs, data_type)
    }

    /// Gives a value its name in the file, if it has none yet.
    pub(super) fn name(&mut self, value: &Value, name: &str) {
        match value.source {
            Source::Made(id) if self.named.insert(id) => self.builder.name(id, name),
            _ => {}
        }
    }

    /// Makes a value the next output. What no operation makes, or what is an output already, is copied.
    pub(super) fn output(&mut self, name: &str, value: &Value) -> Result<()> {
        let id = match value.source {
            Source::Made(id) if self.outputs.insert(id) => id,
            _ => {
                let read = self.id(value);
                let copy = self.add(name, OpKind::Reorder, &[read], Attrs::new(), Some(value.data_type))?;
                let id = self.id(&copy);
                self.outputs.insert(id);
                id
            }
        };
        self.builder.name(id, name);
        self.builder.output(id);
        Ok(())
    }

    /// Checks the graph and hands it out with its constants.
    pub(super) fn finish(mut self) -> Result<(Graph, IndexMap<TensorId, HostTensor>)> {
        self.builder.prune();
        let graph = self.builder.build()?;
        let constants = self.constants.into_iter().filter_map(|constant| {
            let id = constant.id.filter(|id| graph.tensor(*id).is_some())?;
            Some((id, constant.tensor.labelled(&constant.name)))
        });
        let constants = constants.collect();
        Ok((graph, constants))
    }

    fn add(
        &mut self,
        name: &str,
        kind: OpKind,
        inputs: &[TensorId],
        attrs: Attrs,
        data_type: Option<DataType>,
    ) -> Result<Value> {
        let id = self.builder.op(name, kind, inputs, attrs)?;
        // Until the file's name for it is known, it must not pass for a value of the file.
        self.builder.name(id, &format!("{name}/{kind}"));
        if data_type.is_some() {
            self.builder.add_tensor(LogicalTensor { data_type, ..LogicalTensor::unknown(id) })?;
        }
        self.builder.infer_newest()?;
        let unknown =
            || Error::unsupported(format!("{kind} {name:?}"), "its result's shape or type is not known");
        let tensor = self.builder.tensor(id).ok_or_else(unknown)?;
        let dims = tensor.known_dims().ok_or_else(unknown)?;
        let data_type = tensor.data_type.ok_or_else(unknown)?;
        Ok(Value { dims, data_type, source: Source::Made(id) })
    }

    /// The graph's tensor of a value.
    fn id(&mut self, value: &Value) -> TensorId {
        match value.source {
            Source::Input(id) | Source::Made(id) => id,
            Source::Constant(index) => {
                let constant = &mut self.constants[index];
                *constant.id.get_or_insert_with(|| {
                    self.builder.constant(&constant.name, value.data_type, value.dims.clone())
                })
            }
        }
    }
}
