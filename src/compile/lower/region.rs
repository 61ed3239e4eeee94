//! The operations of a partition, and who reads what among them.

use anydnn_backend::{DataType, Dims};
use rustc_hash::FxHashSet;

use crate::compile::liveness::data_inputs;
use crate::compile::program::Program;
use crate::formula::Scope;
use crate::fusion::Partition;
use crate::graph::{Graph, LogicalTensor, Op, OpKind, TensorId};

/// The operations of a partition that matter.
#[derive(Debug)]
pub(super) struct Region<'g> {
    pub(super) graph: &'g Graph,
    /// Indices into [`Graph::ops`], ascending: each after those it depends on.
    pub(super) ops: Vec<usize>,
    /// The tensors made here that are read elsewhere or are outputs of the graph.
    leaving: FxHashSet<TensorId>,
}

impl<'g> Region<'g> {
    pub(super) fn new(program: &Program<'g>, partition: &Partition) -> Self {
        let graph = program.graph;
        let mut ops: Vec<usize> = partition.ops.iter().copied().filter(|&op| program.is_live(op)).collect();
        ops.sort_unstable();
        let outside = |&reader: &usize| ops.binary_search(&reader).is_err() && program.is_live(reader);
        let leaves = |id: &TensorId| {
            graph.outputs().contains(id)
                || graph
                    .consumers(*id)
                    .iter()
                    .any(|reader| outside(reader) && data_inputs(&graph.ops()[*reader]).contains(id))
        };
        let leaving = ops.iter().flat_map(|&op| &graph.ops()[op].outputs).copied().filter(leaves).collect();
        Self { graph, ops, leaving }
    }

    pub(super) fn op(&self, index: usize) -> &'g Op {
        &self.graph.ops()[index]
    }

    pub(super) fn kind(&self, index: usize) -> OpKind {
        self.op(index).kind
    }

    /// Whether an operation is here.
    fn has(&self, op: &usize) -> bool {
        self.ops.binary_search(op).is_ok()
    }

    /// The operation here that makes a tensor.
    pub(super) fn producer(&self, id: TensorId) -> Option<usize> {
        self.graph.producer(id).filter(|op| self.has(op))
    }

    /// Whether one of these operations makes a tensor.
    pub(super) fn is_made_by(&self, ops: &[usize], id: TensorId) -> bool {
        self.producer(id).is_some_and(|op| ops.contains(&op))
    }

    /// The operations here that read a tensor's elements, each once.
    pub(super) fn readers(&self, id: TensorId) -> Vec<usize> {
        let reads = |op: &usize| self.has(op) && data_inputs(self.op(*op)).contains(&id);
        let mut readers: Vec<usize> = self.graph.consumers(id).iter().copied().filter(reads).collect();
        readers.dedup();
        readers
    }

    /// Whether a tensor is read elsewhere or is an output of the graph.
    pub(super) fn leaves(&self, id: TensorId) -> bool {
        self.leaving.contains(&id)
    }

    /// Whether anything reads a tensor, here or elsewhere.
    pub(super) fn is_read(&self, id: TensorId) -> bool {
        self.leaves(id) || !self.readers(id).is_empty()
    }

    /// The one operation that reads a tensor, through one of its inputs.
    pub(super) fn only_reader(&self, id: TensorId) -> Option<usize> {
        match self.readers(id).as_slice() {
            &[op] if !self.leaves(id) => {
                let once = self.op(op).inputs.iter().filter(|&&input| input == id).count() == 1;
                once.then_some(op)
            }
            _ => None,
        }
    }

    /// The operation's first result, if it is the only one in use.
    pub(super) fn only_result(&self, op: usize) -> Option<TensorId> {
        let (first, others) = self.op(op).outputs.split_first()?;
        (!others.iter().any(|&id| self.is_read(id))).then_some(*first)
    }

    pub(super) fn dims(&self, id: TensorId) -> Option<Dims> {
        self.graph.tensor(id).and_then(LogicalTensor::known_dims)
    }

    pub(super) fn data_type(&self, id: TensorId) -> Option<DataType> {
        self.graph.tensor(id).and_then(|tensor| tensor.data_type)
    }

    /// Whether an operation makes a float of a float: nothing but precision is lost when it is left out.
    pub(super) fn casts_floats(&self, op: usize) -> bool {
        let op = self.op(op);
        let is_float =
            |id: Option<&TensorId>| id.and_then(|&id| self.data_type(id)).is_some_and(DataType::is_float);
        op.kind == OpKind::TypeCast && is_float(op.inputs.first()) && is_float(op.outputs.first())
    }
}

/// What of a region no unit has yet.
pub(super) struct Free<'r> {
    pub(super) region: &'r Region<'r>,
    pub(super) taken: &'r dyn Fn(usize) -> bool,
}

impl Scope for Free<'_> {
    fn graph(&self) -> &Graph {
        self.region.graph
    }

    fn is_free(&self, op: usize) -> bool {
        self.region.has(&op) && !(self.taken)(op)
    }

    fn is_result(&self, tensor: TensorId) -> bool {
        self.region.leaves(tensor)
    }

    fn leaves(&self, ops: &[usize], tensor: TensorId) -> bool {
        let outside = |reader: &usize| ops.binary_search(reader).is_err();
        self.region.leaves(tensor) || self.region.readers(tensor).iter().any(outside)
    }

    fn reads(&self, op: usize) -> &[TensorId] {
        data_inputs(self.region.op(op))
    }
}
