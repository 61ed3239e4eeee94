//! The graph under construction, with the values that operators hand on.

mod constants;
mod finish;
mod held;
mod stretch;

use std::cell::RefCell;
use std::sync::Arc;

use anydnn_backend::{DataType, Dims, Error, Result};
use rustc_hash::FxHashSet;

use self::constants::Known;
pub(super) use self::finish::Finished;
use self::held::Asked;
pub(super) use self::held::Held;
pub(super) use self::stretch::{End, Stretch};
use super::node::Node;
use super::room::Room;
use super::tensor;
use super::value::Source;
pub(super) use super::value::Value;
use crate::graph::{Attrs, GraphBuilder, LogicalTensor, OpKind, TensorId};

/// Collects operations and constants. A constant becomes one of the graph when an operation reads it.
#[derive(Debug)]
pub(super) struct Network {
    builder: GraphBuilder,
    constants: Vec<Known>,
    /// Tensors that have their final name.
    named: FxHashSet<TensorId>,
    outputs: FxHashSet<TensorId>,
    room: Room,
    held: Vec<Held>,
    /// The type in place of f32, if not f32.
    narrow: Option<DataType>,
    /// Integers that are made as floats, with these.
    wholes: Vec<Whole>,
    /// What operators asked for.
    asked: RefCell<Asked>,
}

/// Integers that are made of whole floats.
#[derive(Clone, Debug)]
struct Whole {
    id: TensorId,
    floats: Value,
    /// Whether they are sums of products.
    is_sum: bool,
}

impl Network {
    pub(super) fn new(narrow: Option<DataType>) -> Self {
        Self::of(narrow, 0, 0)
    }

    /// With room for so many operations and values, which are about as many as will come.
    pub(super) fn of(narrow: Option<DataType>, ops: usize, values: usize) -> Self {
        Self {
            builder: GraphBuilder::with_room(ops, values),
            constants: Vec::with_capacity(values),
            named: FxHashSet::default(),
            outputs: FxHashSet::default(),
            room: Room::default(),
            held: Vec::new(),
            narrow,
            wholes: Vec::new(),
            asked: RefCell::default(),
        }
    }

    /// The type that values of a type of the file have.
    fn effective(&self, data_type: DataType) -> DataType {
        self.narrow.filter(|_| data_type == DataType::F32).unwrap_or(data_type)
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
        if let Some(source) = self.before_reshapes(value, &dims) {
            return Ok(source);
        }
        let shape: Vec<i64> = dims.iter().map(|&dim| dim as i64).collect();
        let attrs = || Attrs::new().with("shape", shape.clone()).with("special_zero", false);
        let made = self.op(node, OpKind::StaticReshape, &[value], attrs())?;
        if let Some(Whole { floats, is_sum, .. }) = self.whole_of(value).cloned() {
            let floats = self.op(node, OpKind::StaticReshape, &[&floats], attrs())?;
            self.note_whole(&made, &floats, is_sum);
        }
        Ok(made)
    }

    /// What a value is a reshape of, perhaps of reshapes, that had these dimensions before.
    fn before_reshapes(&self, value: &Value, dims: &Dims) -> Option<Value> {
        let mut source = value.clone();
        while self.made_by(&source) == Some(OpKind::StaticReshape) {
            source = self.maker(&source)?.1.into_iter().next()?;
            if source.dims == *dims && source.data_type == value.data_type {
                return Some(source);
            }
        }
        None
    }

    /// The kind of the operation that makes a value.
    pub(super) fn made_by(&self, value: &Value) -> Option<OpKind> {
        let Source::Made(id) = value.source else { return None };
        Some(self.builder.producer(id)?.kind)
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
        self.note_whole(&made, sums, true);
        Ok(made)
    }

    /// Whole floats as integers of a type, which are those floats again where somebody wants them.
    pub(super) fn cut(&mut self, node: &Node, floats: &Value, to: DataType) -> Result<Value> {
        let made = self.converted(node, floats, to)?;
        if to == DataType::S32 {
            self.note_whole(&made, floats, false);
        }
        Ok(made)
    }

    fn note_whole(&mut self, made: &Value, floats: &Value, is_sum: bool) {
        if let Source::Made(id) = made.source {
            self.wholes.push(Whole { id, floats: floats.clone(), is_sum });
        }
    }

    fn whole_of(&self, value: &Value) -> Option<&Whole> {
        let Source::Made(id) = value.source else { return None };
        self.wholes.iter().find(|whole| whole.id == id)
    }

    /// The floats that integers are made of.
    pub(super) fn as_floats(&self, value: &Value) -> Option<Value> {
        self.whole_of(value).map(|whole| whole.floats.clone())
    }

    /// Whether these are [sums](Self::whole) of products, which are rounded beyond 24 bits.
    pub(super) fn is_sum(&self, value: &Value) -> bool {
        self.whole_of(value).is_some_and(|whole| whole.is_sum)
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
        let inputs = inputs.iter().map(|value| self.id(value)).collect();
        self.add(node.name(), kind, inputs, attrs, data_type)
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
    pub(super) fn name(&mut self, value: &Value, name: &Arc<str>) {
        match value.source {
            Source::Made(id) if self.named.insert(id) => self.builder.share_name(id, Arc::clone(name)),
            _ => {}
        }
    }

    fn add(
        &mut self,
        name: &str,
        kind: OpKind,
        inputs: Vec<TensorId>,
        attrs: Attrs,
        data_type: Option<DataType>,
    ) -> Result<Value> {
        let data_type = data_type.map(|data_type| self.effective(data_type));
        let (mut id, dims, mut data_type) = self.plain(name, kind, inputs, attrs, data_type)?;
        // Some operations make f32 whatever they read.
        let effective = self.effective(data_type);
        if effective != data_type {
            (id, _, data_type) =
                self.plain(name, OpKind::TypeCast, vec![id], Attrs::new(), Some(effective))?;
        }
        Ok(Value { dims, data_type, source: Source::Made(id) })
    }

    fn plain(
        &mut self,
        name: &str,
        kind: OpKind,
        inputs: Vec<TensorId>,
        attrs: Attrs,
        data_type: Option<DataType>,
    ) -> Result<(TensorId, Dims, DataType)> {
        let id = self.builder.op_making_unnamed(name, kind, inputs, attrs)?;
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
                    self.builder.constant_sharing(&known.name, value.data_type, value.dims.clone())
                })
            }
        }
    }
}
