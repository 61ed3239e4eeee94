//! Putting graphs together.

use std::borrow::Cow;
#[cfg(feature = "onnx")]
use std::sync::Arc;

use anydnn_backend::{DataType, Dims, Error, FpMath, InvalidKind, Result};
use indexmap::map::Entry;
#[cfg(feature = "onnx")]
use rustc_hash::FxBuildHasher;
use rustc_hash::FxHashSet;

use super::op::{Attrs, Op, OpId};
use super::op_kind::OpKind;
use super::tensor::{ByTensor, LogicalTensor, Property, TensorId};
use super::{Graph, finish, schema};

/// Collects operations and tensors, then checks them and makes a [`Graph`].
///
/// ```
/// use anydnn::backend::DataType;
/// use anydnn::graph::{Attrs, GraphBuilder, OpKind};
///
/// let mut g = GraphBuilder::new();
/// let x = g.input("x", DataType::F32, [8, 64]);
/// let w = g.constant("w", DataType::F32, [64, 10]);
/// let logits = g.op("dense", OpKind::MatMul, &[x, w], Attrs::new())?;
/// let probabilities = g.op("softmax", OpKind::SoftMax, &[logits], Attrs::new().with("axis", -1_i64))?;
/// g.output(probabilities);
/// let graph = g.build()?;
/// assert_eq!(graph.tensor(probabilities).unwrap().to_string(), "softmax:f32:8x10");
/// # Ok::<(), anydnn::backend::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct GraphBuilder {
    pub(super) ops: Vec<Op>,
    op_ids: FxHashSet<OpId>,
    pub(super) tensors: ByTensor<LogicalTensor>,
    /// Inputs in the order they were declared; others follow by first use.
    pub(super) ports: Vec<TensorId>,
    pub(super) outputs: Option<Vec<TensorId>>,
    pub(super) fpmath: FpMath,
    pub(super) fpmath_apply_to_int: bool,
    next_tensor: u64,
    next_op: u64,
}

impl GraphBuilder {
    /// An empty graph.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty graph with room for so many operations and tensors.
    #[cfg(feature = "onnx")]
    pub(crate) fn with_room(ops: usize, tensors: usize) -> Self {
        Self {
            ops: Vec::with_capacity(ops),
            op_ids: FxHashSet::with_capacity_and_hasher(ops, FxBuildHasher),
            tensors: ByTensor::with_capacity_and_hasher(tensors, FxBuildHasher),
            ..Self::default()
        }
    }

    /// Adds a tensor that is given on every execution.
    pub fn input(&mut self, name: &str, data_type: DataType, dims: impl Into<Dims>) -> TensorId {
        self.leaf(name, data_type, dims.into(), Property::Variable)
    }

    /// Adds a tensor that is given once.
    pub fn constant(&mut self, name: &str, data_type: DataType, dims: impl Into<Dims>) -> TensorId {
        self.leaf(name, data_type, dims.into(), Property::Constant)
    }

    /// Adds a single number that is given by value on every execution.
    pub fn host_scalar(&mut self, name: &str, data_type: DataType) -> TensorId {
        self.leaf(name, data_type, Dims::default(), Property::HostScalar)
    }

    /// Adds an operation with one output, which takes the operation's name, and returns it.
    ///
    /// # Errors
    /// [`Error::Invalid`] when an input is unknown, or the inputs or attributes do not fit the operation's [`Schema`](super::Schema).
    pub fn op(&mut self, name: &str, kind: OpKind, inputs: &[TensorId], attrs: Attrs) -> Result<TensorId> {
        let outputs = self.op_multi(name, kind, inputs, attrs, 1)?;
        Ok(outputs[0])
    }

    /// Adds an operation with `outputs` outputs and returns them. They take the operation's name, from the second on with a number.
    ///
    /// # Errors
    /// [`Error::Invalid`] when an input is unknown, or the inputs, outputs or attributes do not fit the operation's
    /// [`Schema`](super::Schema).
    pub fn op_multi(
        &mut self,
        name: &str,
        kind: OpKind,
        inputs: &[TensorId],
        attrs: Attrs,
        outputs: usize,
    ) -> Result<Vec<TensorId>> {
        let label = |i| match i {
            0 => Cow::Borrowed(name),
            _ => Cow::Owned(format!("{name}.{i}")),
        };
        Ok(self.add(name, kind, inputs.to_vec(), attrs, outputs, |i| Some(label(i)))?.to_vec())
    }

    /// As [`GraphBuilder::op`], whose output has no name until it is given one, at the latest by [`GraphBuilder::name_unnamed`].
    #[cfg(feature = "onnx")]
    pub(crate) fn op_making_unnamed(
        &mut self,
        name: &str,
        kind: OpKind,
        inputs: Vec<TensorId>,
        attrs: Attrs,
    ) -> Result<TensorId> {
        Ok(self.add(name, kind, inputs, attrs, 1, |_| None)?[0])
    }

    fn add<'n>(
        &mut self,
        name: &str,
        kind: OpKind,
        inputs: Vec<TensorId>,
        attrs: Attrs,
        outputs: usize,
        label: impl Fn(usize) -> Option<Cow<'n, str>>,
    ) -> Result<&[TensorId]> {
        let (id, name_of_op) = (self.free_op(), name.to_owned());
        let mut op = Op { id, name: name_of_op, kind, attrs, inputs, outputs: Vec::new() };
        schema::check_outputs(&op, outputs)?;
        op.outputs = self.free_tensors().take(outputs).collect();
        if let Some(unknown) = op.inputs.iter().find(|id| !self.tensors.contains_key(*id)) {
            let (given, expected) = (unknown.to_string(), "a tensor of this graph");
            return Err(Error::invalid_kind(InvalidKind::Graph, op.to_string(), "input", given, expected));
        }
        schema::complete(&mut op)?;
        for (i, &id) in op.outputs.iter().enumerate() {
            let tensor = LogicalTensor::unknown(id).with_property(Property::Variable);
            let tensor = match label(i) {
                Some(label) => tensor.named(label),
                None => tensor,
            };
            self.tensors.insert(id, tensor);
            self.reserve_tensor(id);
        }
        self.push(op);
        Ok(self.ops.last().map_or(&[], |op| &op.outputs))
    }

    /// Adds an operation under identities chosen by the caller, with all that is known of its tensors: inputs, then outputs.
    /// An operation whose identity is already there is ignored.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a tensor is missing or differs from what was said of it before, or the operation does not fit its
    /// [`Schema`](super::Schema).
    pub fn add_op(&mut self, mut op: Op, tensors: &[LogicalTensor]) -> Result<()> {
        if self.op_ids.contains(&op.id) {
            return Ok(());
        }
        schema::complete(&mut op)?;
        for &id in op.inputs.iter().chain(&op.outputs) {
            if !self.tensors.contains_key(&id) && !tensors.iter().any(|tensor| tensor.id == id) {
                let expected = "a tensor said with it or before";
                return Err(Error::invalid_kind(
                    InvalidKind::Graph,
                    op.to_string(),
                    "tensor",
                    id.to_string(),
                    expected,
                ));
            }
        }
        for tensor in tensors {
            self.add_tensor(tensor.clone()).map_err(|error| error.at(op.to_string()))?;
        }
        self.push(op);
        Ok(())
    }

    /// Adds a tensor under an identity chosen by the caller.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is already there and differs.
    pub fn add_tensor(&mut self, tensor: LogicalTensor) -> Result<TensorId> {
        let id = tensor.id;
        self.reserve_tensor(id);
        match self.tensors.entry(id) {
            Entry::Vacant(entry) => {
                entry.insert(tensor);
            }
            Entry::Occupied(mut entry) => {
                finish::merge(entry.get_mut(), tensor)?;
            }
        }
        Ok(id)
    }

    /// Makes a tensor an output, after those that are. Without any, every tensor that no operation reads is an output.
    pub fn output(&mut self, tensor: TensorId) {
        self.outputs.get_or_insert_default().push(tensor);
    }

    /// Makes a tensor an input, after those that are. Inputs that are never made one follow in the order of their first use.
    pub fn input_port(&mut self, tensor: TensorId) {
        self.ports.push(tensor);
    }

    /// Names a tensor in messages and bindings.
    pub fn name(&mut self, tensor: TensorId, name: &str) {
        if let Some(tensor) = self.tensors.get_mut(&tensor) {
            tensor.name = Some(name.into());
        }
    }

    /// As [`GraphBuilder::name`], with a name that others have too.
    #[cfg(feature = "onnx")]
    pub(crate) fn share_name(&mut self, tensor: TensorId, name: Arc<str>) {
        if let Some(tensor) = self.tensors.get_mut(&tensor) {
            tensor.name = Some(name);
        }
    }

    /// As [`GraphBuilder::constant`], with a name that others have too.
    #[cfg(feature = "onnx")]
    pub(crate) fn constant_sharing(&mut self, name: &Arc<str>, data_type: DataType, dims: Dims) -> TensorId {
        let id = self.free_tensors().next().unwrap_or(TensorId(u64::MAX));
        let tensor = LogicalTensor::new(id, data_type, dims).with_property(Property::Constant);
        self.tensors.insert(id, LogicalTensor { name: Some(Arc::clone(name)), ..tensor });
        self.reserve_tensor(id);
        id
    }

    /// Gives what operations make and nobody named a name: their own with their kind, which is none of a file's values.
    #[cfg(feature = "onnx")]
    pub(crate) fn name_unnamed(&mut self) {
        for op in &self.ops {
            for id in &op.outputs {
                if let Some(tensor) = self.tensors.get_mut(id).filter(|tensor| tensor.name.is_none()) {
                    tensor.name = Some([&*op.name, "/", op.kind.name()].concat().into());
                }
            }
        }
    }

    /// Lets f32 work use narrower arithmetic.
    pub fn with_fpmath(mut self, fpmath: FpMath) -> Self {
        self.fpmath = fpmath;
        self
    }

    /// Lets integer work use the arithmetic of [`GraphBuilder::with_fpmath`] too.
    pub fn with_fpmath_apply_to_int(mut self, apply: bool) -> Self {
        self.fpmath_apply_to_int = apply;
        self
    }

    /// Checks everything, sorts the operations topologically and infers shapes and types.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a cycle, a tensor that two operations make or none uses, or shapes and types that contradict each other;
    /// [`Error::Unsupported`] where an output's shape follows from values and is not given.
    pub fn build(self) -> Result<Graph> {
        finish::finish(self, finish::Shapes::Inferred)
    }

    /// As [`GraphBuilder::build`], where [`GraphBuilder::infer_newest`] has followed every operation.
    #[cfg(feature = "onnx")]
    pub(crate) fn build_inferred(self) -> Result<Graph> {
        finish::finish(self, finish::Shapes::Known)
    }

    /// As [`GraphBuilder::build`], but shapes that cannot be inferred or contradict each other stay as they were said.
    pub(crate) fn build_open(self) -> Result<Graph> {
        finish::finish(self, finish::Shapes::AsSaid)
    }

    /// Infers the shapes and types of what the newest operation makes, for a caller that chooses the next operation by them.
    #[cfg(feature = "onnx")]
    pub(crate) fn infer_newest(&mut self) -> Result<()> {
        self.ops.last().map_or(Ok(()), |op| finish::infer(op, &mut self.tensors))
    }

    /// The operation that makes a tensor, found soonest for the newest.
    #[cfg(feature = "onnx")]
    pub(crate) fn producer(&self, id: TensorId) -> Option<&Op> {
        self.ops.iter().rev().find(|op| op.outputs.contains(&id))
    }

    /// A tensor added before.
    #[cfg(feature = "onnx")]
    pub(crate) fn tensor(&self, id: TensorId) -> Option<&LogicalTensor> {
        self.tensors.get(&id)
    }

    /// Forgets the operations and tensors that no output follows from. Every operation must come after those it reads from.
    #[cfg(feature = "onnx")]
    pub(crate) fn prune(&mut self) {
        let Some(outputs) = &self.outputs else { return };
        let mut needed: FxHashSet<TensorId> = outputs.iter().copied().collect();
        let mut kept = Vec::with_capacity(self.ops.len());
        for op in self.ops.drain(..).rev() {
            if op.outputs.iter().any(|id| needed.contains(id)) {
                needed.extend(op.inputs.iter().chain(&op.outputs));
                kept.push(op);
            }
        }
        kept.reverse();
        self.ops = kept;
        self.tensors.retain(|id, _| needed.contains(id));
        self.ports.retain(|id| needed.contains(id));
    }

    fn leaf(&mut self, name: &str, data_type: DataType, dims: Dims, property: Property) -> TensorId {
        let id = self.free_tensors().next().unwrap_or(TensorId(u64::MAX));
        self.tensors.insert(id, LogicalTensor::new(id, data_type, dims).with_property(property).named(name));
        if property != Property::Constant {
            self.ports.push(id);
        }
        self.reserve_tensor(id);
        id
    }

    fn push(&mut self, op: Op) {
        self.next_op = self.next_op.max(op.id.0.saturating_add(1));
        self.op_ids.insert(op.id);
        self.ops.push(op);
    }

    fn reserve_tensor(&mut self, id: TensorId) {
        self.next_tensor = self.next_tensor.max(id.0.saturating_add(1));
    }

    /// Identities that no tensor has: those above all others, then, where a caller chose the very last one, from zero.
    fn free_tensors(&self) -> impl Iterator<Item = TensorId> {
        let ids = (self.next_tensor..u64::MAX).chain(0..self.next_tensor).map(TensorId);
        ids.filter(|id| !self.tensors.contains_key(id))
    }

    fn free_op(&self) -> OpId {
        let mut ids = (self.next_op..u64::MAX).chain(0..self.next_op).map(OpId);
        ids.find(|id| !self.op_ids.contains(id)).unwrap_or(OpId(u64::MAX))
    }
}
