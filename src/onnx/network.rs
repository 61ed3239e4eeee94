//! The graph under construction, with the values that operators hand on.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use anydnn_backend::{DataType, Dims, Error, MAX_DIMS, MemoryDesc, Result, ResultExt};
use indexmap::IndexMap;

use super::constant::Constant;
use super::files::ExternalData;
use super::node::Node;
use super::program::ValueId;
use super::proto::TensorProto;
use super::room::Room;
use super::tensor;
use crate::graph::{Attrs, Graph, GraphBuilder, LogicalTensor, OpKind, TensorId};
use crate::model::HostTensor;
use crate::rewrite;

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
    /// Given on execution; an index into what is held.
    Held(usize),
    /// Made by an operation.
    Made(TensorId),
}

impl Value {
    pub(super) fn rank(&self) -> usize {
        self.dims.len()
    }
}

/// Collects operations and constants. A constant becomes one of the graph when an operation reads it.
#[derive(Debug)]
pub(super) struct Network {
    builder: GraphBuilder,
    constants: Vec<Known>,
    /// Tensors that have their final name.
    named: HashSet<TensorId>,
    outputs: HashSet<TensorId>,
    room: Room,
    held: Vec<Held>,
    /// The type in place of f32, if not f32.
    narrow: Option<DataType>,
    /// Integers that are made as floats, with these.
    wholes: Vec<(TensorId, Value)>,
    /// What operators asked for.
    asked: RefCell<Asked>,
}

/// A constant with its place in the graph.
#[derive(Debug)]
struct Known {
    constant: Constant,
    name: String,
    id: Option<TensorId>,
    /// The weight of the file that it is.
    weight: Option<ValueId>,
    /// Whether it is another one for other extents of what executions give.
    follows_shape: bool,
}

/// A value that executions have before the graph runs.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) value: ValueId,
    pub(super) name: String,
    pub(super) dims: Dims,
    /// The type that it lies in memory with.
    pub(super) data_type: DataType,
    /// The elements that operators may ask for. The graph is good for these alone then.
    pub(super) tensor: Option<Arc<HostTensor>>,
    /// The graph's input, once an operation reads it.
    id: Option<TensorId>,
    /// The input in the type that the graph computes with.
    converted: Option<TensorId>,
}

impl Held {
    pub(super) fn new(value: ValueId, name: &str, dims: Dims, data_type: DataType) -> Self {
        Self { value, name: name.to_owned(), dims, data_type, tensor: None, id: None, converted: None }
    }
}

/// What operators asked for.
#[derive(Debug, Default)]
struct Asked {
    /// Held values that the graph was made for, as indices.
    given: Vec<usize>,
    /// Values whose elements are not known while importing.
    missing: Vec<Source>,
    /// Why elements that are known could not be had.
    failure: Option<Error>,
}

/// A graph for an execution with what it works on.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) graph: Arc<Graph>,
    /// With the names that they have in the file.
    pub(super) constants: IndexMap<TensorId, (String, Constant)>,
    /// The constants that are weights of the file.
    pub(super) weights: Vec<(TensorId, ValueId)>,
    pub(super) inputs: Vec<(ValueId, TensorId)>,
}

impl Finished {
    /// The constants with their elements.
    pub(super) fn tensors(&self) -> Result<IndexMap<TensorId, HostTensor>> {
        let mut room = Room::default();
        let tensor = |(id, (name, constant)): (&TensorId, &(String, Constant))| {
            room.take(constant.desc().dims(), constant.desc().data_type())?;
            Ok((*id, constant.elements()?.clone().labelled(name)))
        };
        self.constants.iter().map(tensor).collect()
    }
}

impl Network {
    pub(super) fn new(narrow: Option<DataType>) -> Self {
        Self {
            builder: GraphBuilder::new(),
            constants: Vec::new(),
            named: HashSet::new(),
            outputs: HashSet::new(),
            room: Room::default(),
            held: Vec::new(),
            narrow,
            wholes: Vec::new(),
            asked: RefCell::default(),
        }
    }

    /// A value given on execution.
    pub(super) fn held(&mut self, held: Held) -> Value {
        let (dims, data_type) = (held.dims.clone(), self.effective(held.data_type));
        self.held.push(held);
        Value { dims, data_type, source: Source::Held(self.held.len() - 1) }
    }

    /// Makes a value given on execution an input of the graph now, in front of those that are used later.
    pub(super) fn declare(&mut self, value: &Value) {
        self.id(value);
    }

    /// The type that values of a type of the file have.
    fn effective(&self, data_type: DataType) -> DataType {
        self.narrow.filter(|_| data_type == DataType::F32).unwrap_or(data_type)
    }

    /// A tensor of the file.
    pub(super) fn weight(
        &mut self,
        name: &str,
        weight: ValueId,
        proto: &TensorProto,
        external: &mut ExternalData,
    ) -> Result<Value> {
        // What lies in a file takes memory when somebody needs it.
        if proto.data_location != Some(1) && proto.raw_data.as_ref().is_none_or(prost::bytes::Bytes::is_empty)
        {
            let data_type = tensor::data_type(proto.data_type.unwrap_or(0))?;
            self.room.take(&tensor::dims(&proto.dims, data_type)?, data_type)?;
        }
        let value = self.add_constant(name, Constant::weight(weight, tensor::stored(proto, external)?))?;
        if let Some(known) = self.constants.last_mut() {
            known.weight = Some(weight);
        }
        Ok(value)
    }

    pub(super) fn constant(&mut self, name: &str, tensor: HostTensor) -> Result<Value> {
        self.add_constant(name, Constant::new(tensor::returned_at_once(tensor)))
    }

    /// As [`Network::constant`]; it may be another one for other extents of what executions give.
    pub(super) fn constant_of_shape(
        &mut self,
        name: &str,
        tensor: HostTensor,
        follows_shape: bool,
    ) -> Result<Value> {
        let made = self.constant(name, tensor)?;
        if let Some(known) = self.constants.last_mut() {
            known.follows_shape = follows_shape;
        }
        Ok(made)
    }

    /// Whether a value is a constant that is another one for other extents of what executions give.
    pub(super) fn follows_shape(&self, value: &Value) -> bool {
        matches!(value.source, Source::Constant(index) if self.constants[index].follows_shape)
    }

    /// A constant that follows from others, computed if somebody needs its elements; `how` tells it from all others of them.
    pub(super) fn follows(
        &mut self,
        name: &str,
        (dims, data_type): (Dims, DataType),
        how: &str,
        others: &[&Value],
        make: impl Fn(&[&HostTensor]) -> Result<HostTensor> + Send + Sync + 'static,
    ) -> Result<Value> {
        self.room.take(&dims, data_type)?;
        let known = |value: &&Value| match value.source {
            Source::Constant(index) => Ok(self.constants[index].constant.clone()),
            _ => {
                Err(Error::invalid("constant", name.to_owned(), "of values of an execution", "of constants"))
            }
        };
        let others = others.iter().map(known).collect::<Result<_>>()?;
        let constant = Constant::computed(MemoryDesc::new(dims, data_type), how, others, make);
        self.add_constant(name, constant)
    }

    fn add_constant(&mut self, name: &str, constant: Constant) -> Result<Value> {
        let desc = constant.desc();
        if desc.dims().len() > MAX_DIMS {
            let (given, expected) = (desc.dims().len().to_string(), "at most 12");
            return Err(Error::invalid("constant", "number of dimensions", given, expected));
        }
        let (dims, data_type) = (desc.dims().clone(), self.effective(desc.data_type()));
        let name = name.to_owned();
        self.constants.push(Known { constant, name, id: None, weight: None, follows_shape: false });
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
            let follows_shape = self.follows_shape(value);
            return self.constant_of_shape(node.name(), tensor.reshaped(dims)?, follows_shape);
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
            let constant = self.constants.iter().position(|known| known.id == Some(id));
            let source = match constant {
                Some(index) => Source::Constant(index),
                None if self.builder.producer(id).is_some() => Source::Made(id),
                None => {
                    let is = |held: &Held| held.id == Some(id) || held.converted == Some(id);
                    Source::Held(self.held.iter().position(is)?)
                }
            };
            Some(Value { dims: tensor.known_dims()?, data_type: tensor.data_type?, source })
        });
        Some((op.kind, inputs.collect::<Option<_>>()?))
    }

    /// The attributes of the operation that makes a value.
    pub(super) fn attrs(&self, value: &Value) -> Option<&Attrs> {
        let Source::Made(id) = value.source else { return None };
        Some(&self.builder.producer(id)?.attrs)
    }

    /// A constant that was computed from others.
    pub(super) fn computed(&mut self, name: &str, dims: Dims, values: &[f32]) -> Result<Value> {
        self.room.take(&dims, DataType::F32)?;
        self.constant(name, HostTensor::from_f32(dims, values)?)
    }

    /// The same numbers in another type, as near as it has them.
    pub(super) fn converted(&mut self, node: &Node, value: &Value, data_type: DataType) -> Result<Value> {
        if value.data_type == data_type {
            return Ok(value.clone());
        }
        self.op_to(node, OpKind::TypeCast, &[value], Attrs::new(), Some(data_type))
    }

    /// Sums of integers, which the device has as floats, as integers of 32 bits. Beyond 24 bits they are rounded.
    pub(super) fn whole(&mut self, node: &Node, sums: &Value) -> Result<Value> {
        let made = self.converted(node, sums, DataType::S32)?;
        if let Source::Made(id) = made.source {
            self.wholes.push((id, sums.clone()));
        }
        Ok(made)
    }

    /// The floats that integers are made of.
    pub(super) fn as_floats(&self, value: &Value) -> Option<Value> {
        let Source::Made(id) = value.source else { return None };
        self.wholes.iter().find(|(whole, _)| *whole == id).map(|(_, sums)| sums.clone())
    }

    /// Whether floats of the file are computed in a narrower type.
    pub(super) fn is_narrow(&self) -> bool {
        self.narrow.is_some()
    }

    /// Zero less a value.
    pub(super) fn negative(&mut self, node: &Node, value: &Value) -> Result<Value> {
        let zero = self.scalar(node, 0.0, value)?;
        self.op(node, OpKind::Subtract, &[&zero, value], Attrs::new())
    }

    /// Whether the elements of a value are known.
    pub(super) fn is_known(&self, value: &Value) -> bool {
        matches!(value.source, Source::Constant(_))
    }

    /// The elements of a value that is known. Where they cannot be had, the import [fails](Network::check).
    pub(super) fn known(&self, value: &Value) -> Option<&HostTensor> {
        match value.source {
            Source::Constant(index) => self.elements(index),
            Source::Held(_) | Source::Made(_) => None,
        }
    }

    fn elements(&self, index: usize) -> Option<&HostTensor> {
        let known = self.constants.get(index)?;
        match known.constant.elements().at(|| format!("constant {:?}", known.name)) {
            Ok(elements) => Some(elements),
            Err(error) => {
                self.asked.borrow_mut().failure.get_or_insert(error);
                None
            }
        }
    }

    /// Whether the elements of all constants that operators asked for could be had.
    pub(super) fn check(&self) -> Result<()> {
        self.asked.borrow().failure.clone().map_or(Ok(()), Err)
    }

    /// The elements of a value that the graph cannot be made without: known, or held at the moment, and then the graph is good for these
    /// alone.
    pub(super) fn demand(&self, value: &Value) -> Option<&HostTensor> {
        if let Some(known) = self.known(value) {
            return Some(known);
        }
        let mut asked = self.asked.borrow_mut();
        if let Source::Held(index) = value.source
            && let Some(tensor) = &self.held[index].tensor
        {
            if !asked.given.contains(&index) {
                asked.given.push(index);
            }
            return Some(tensor);
        }
        asked.missing.push(value.source);
        None
    }

    /// Whether operators asked since the last call for elements that are not known, and which values of these they are.
    pub(super) fn take_missing(&self, values: &[Option<Value>]) -> Vec<usize> {
        let missing = std::mem::take(&mut self.asked.borrow_mut().missing);
        let is_missing =
            |value: &Option<Value>| value.as_ref().is_some_and(|value| missing.contains(&value.source));
        (0..values.len()).filter(|&index| is_missing(&values[index])).collect()
    }

    /// The held values whose elements the graph was made for.
    pub(super) fn demanded(&self) -> Vec<(ValueId, Arc<HostTensor>)> {
        let asked = self.asked.borrow();
        let held = asked.given.iter().filter_map(|&index| self.held.get(index));
        held.filter_map(|held| Some((held.value, Arc::clone(held.tensor.as_ref()?)))).collect()
    }

    /// Whether a value is held with elements that operators may ask for.
    pub(super) fn has_elements(&self, value: &Value) -> bool {
        matches!(value.source, Source::Held(index) if self.held[index].tensor.is_some())
    }

    /// The held value that a value is.
    pub(super) fn is_held(&self, value: &Value) -> Option<ValueId> {
        match value.source {
            Source::Held(index) => self.held.get(index).map(|held| held.value),
            _ => None,
        }
    }

    /// A value as a result for later: the tensor that an operation makes, of the type that it has in memory.
    pub(super) fn result(
        &mut self,
        name: &str,
        value: &Value,
        data_type: Option<DataType>,
    ) -> Result<TensorId> {
        let wanted =
            data_type.filter(|&wanted| self.narrow == Some(value.data_type) && wanted == DataType::F32);
        let id = match value.source {
            Source::Made(id) if wanted.is_none() && self.outputs.contains(&id) => return Ok(id),
            Source::Made(id) if wanted.is_none() => id,
            _ => {
                let read = self.id(value);
                let kind = if wanted.is_some() { OpKind::TypeCast } else { OpKind::Reorder };
                self.plain(name, kind, &[read], Attrs::new(), Some(wanted.unwrap_or(value.data_type)))?.0
            }
        };
        self.outputs.insert(id);
        if !self.named.contains(&id) {
            self.builder.name(id, name);
        }
        self.builder.output(id);
        Ok(id)
    }

    /// The known inputs of a node, when all are, and the memory to compute with.
    pub(super) fn known_inputs(&mut self, node: &Node) -> Option<(Vec<Option<&HostTensor>>, &mut Room)> {
        if !node.inputs().iter().flatten().all(|value| self.is_known(value)) {
            return None;
        }
        let mut failure = None;
        let constants = &self.constants;
        let known = |value: &Option<Value>| match value {
            Some(Value { source: Source::Constant(index), .. }) => {
                let elements = constants[*index].constant.elements();
                elements.map_err(|error| failure = Some(error)).ok().map(Some)
            }
            _ => Some(None),
        };
        let known = node.inputs().iter().map(known).collect::<Option<_>>();
        if let Some(error) = failure {
            self.asked.borrow_mut().failure.get_or_insert(error);
        }
        Some((known?, &mut self.room))
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

    /// Adds an operation with so many outputs of the inferred types.
    pub(super) fn ops(
        &mut self,
        node: &Node,
        kind: OpKind,
        inputs: &[&Value],
        attrs: Attrs,
        outputs: usize,
    ) -> Result<Vec<Value>> {
        let inputs: Vec<_> = inputs.iter().map(|value| self.id(value)).collect();
        let ids = self.builder.op_multi(node.name(), kind, &inputs, attrs, outputs)?;
        for (i, &id) in ids.iter().enumerate() {
            self.builder.name(id, &format!("{}/{kind}.{i}", node.name()));
        }
        self.builder.infer_newest()?;
        ids.into_iter()
            .map(|id| {
                let (dims, data_type) = self.known_tensor(node.name(), kind, id)?;
                Ok(Value { dims, data_type, source: Source::Made(id) })
            })
            .collect()
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
    pub(super) fn finish(mut self) -> Result<Finished> {
        self.check()?;
        self.builder.prune();
        let number = |known: &Known| {
            let id = known.id.filter(|_| known.constant.desc().elements() == 1)?;
            Some(known.constant.elements().map(|tensor| tensor.number().map(|number| (id, number))))
        };
        let numbers: Vec<_> = self.constants.iter().filter_map(number).collect::<Result<_>>()?;
        let numbers: HashMap<TensorId, f64> = numbers.into_iter().flatten().collect();
        let built = self.builder.build_inferred()?;
        let graph = rewrite::simplified(built, &|id| numbers.get(&id).copied())?.with_dequantized_apart()?;
        let there = |id: Option<TensorId>| id.filter(|id| graph.tensor(*id).is_some());
        let inputs = self.held.iter().filter_map(|held| Some((held.value, there(held.id)?))).collect();
        let (mut constants, mut weights) = (IndexMap::new(), Vec::new());
        for Known { constant, name, id, weight, .. } in self.constants {
            let Some(id) = there(id) else { continue };
            weights.extend(weight.map(|weight| (id, weight)));
            let constant = match self.narrow {
                Some(narrow) if constant.desc().data_type() == DataType::F32 => {
                    let desc = constant.desc().with_data_type(narrow);
                    let how = format!("as {narrow}");
                    Constant::computed(desc, &how, vec![constant], move |wide| {
                        let [wide] = wide else {
                            return Err(Error::invalid("constant", "sources", "several", "one"));
                        };
                        Ok(tensor::narrowed(wide, narrow))
                    })
                }
                _ => constant,
            };
            constants.insert(id, (name, constant));
        }
        Ok(Finished { graph: Arc::new(graph), constants, weights, inputs })
    }

    /// Whether there is anything for the device to compute.
    pub(super) fn has_outputs(&self) -> bool {
        !self.outputs.is_empty()
    }

    fn add(
        &mut self,
        name: &str,
        kind: OpKind,
        inputs: &[TensorId],
        attrs: Attrs,
        data_type: Option<DataType>,
    ) -> Result<Value> {
        let data_type = data_type.map(|data_type| self.effective(data_type));
        let (mut id, dims, mut data_type) = self.plain(name, kind, inputs, attrs, data_type)?;
        // Some operations make f32 whatever they read.
        let effective = self.effective(data_type);
        if effective != data_type {
            (id, _, data_type) = self.plain(name, OpKind::TypeCast, &[id], Attrs::new(), Some(effective))?;
        }
        Ok(Value { dims, data_type, source: Source::Made(id) })
    }

    fn plain(
        &mut self,
        name: &str,
        kind: OpKind,
        inputs: &[TensorId],
        attrs: Attrs,
        data_type: Option<DataType>,
    ) -> Result<(TensorId, Dims, DataType)> {
        let id = self.builder.op(name, kind, inputs, attrs)?;
        // Until the file's name for it is known, it must not pass for a value of the file.
        self.builder.name(id, &format!("{name}/{kind}"));
        if data_type.is_some() {
            self.builder.add_tensor(LogicalTensor { data_type, ..LogicalTensor::unknown(id) })?;
        }
        self.builder.infer_newest()?;
        let (dims, data_type) = self.known_tensor(name, kind, id)?;
        Ok((id, dims, data_type))
    }

    /// What was inferred of an operation's result.
    fn known_tensor(&self, name: &str, kind: OpKind, id: TensorId) -> Result<(Dims, DataType)> {
        let unknown =
            || Error::unsupported(format!("{kind} {name:?}"), "its result's shape or type is not known");
        let tensor = self.builder.tensor(id).ok_or_else(unknown)?;
        let dims = tensor.known_dims().ok_or_else(unknown)?;
        let data_type = tensor.data_type.ok_or_else(unknown)?;
        Ok((dims, data_type))
    }

    /// The graph's tensor of a value.
    fn id(&mut self, value: &Value) -> TensorId {
        match value.source {
            Source::Made(id) => id,
            Source::Held(index) => self.held_id(index),
            Source::Constant(index) => {
                let known = &mut self.constants[index];
                *known.id.get_or_insert_with(|| {
                    self.builder.constant(&known.name, value.data_type, value.dims.clone())
                })
            }
        }
    }

    /// The input that a held value is, converted where the graph computes with another type.
    fn held_id(&mut self, index: usize) -> TensorId {
        let held = &self.held[index];
        if let Some(known) = held.converted.or(held.id) {
            return known;
        }
        let (name, dims, data_type) = (held.name.clone(), held.dims.clone(), held.data_type);
        let id = self.builder.input(&name, data_type, dims);
        self.held[index].id = Some(id);
        let effective = self.effective(data_type);
        if effective != data_type
            && let Ok((converted, ..)) =
                self.plain(&name, OpKind::TypeCast, &[id], Attrs::new(), Some(effective))
        {
            self.held[index].converted = Some(converted);
            return converted;
        }
        id
    }
}
