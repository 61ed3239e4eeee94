//! The same graph with other operations in the place of some.

use anydnn_backend::Result;
#[cfg(feature = "onnx")]
use rustc_hash::FxHashMap;
use rustc_hash::FxHashSet;

use super::op::Op;
use super::tensor::TensorId;
use super::{Graph, finish, schema, topology};
#[cfg(feature = "onnx")]
use super::{OpKind, op::OpId, tensor::LogicalTensor};

impl Graph {
    /// The graph with other operations at some indices, each of which makes what the one before it made, from tensors that come before.
    /// Operations that only led to those that are gone go with them, and so do their constants.
    ///
    /// # Errors
    /// [`Error::Invalid`](anydnn_backend::Error::Invalid) when an operation does not fit its schema or the tensors that it makes.
    pub(crate) fn with_replaced(self, replaced: Vec<(usize, Op)>) -> Result<Self> {
        let Self { mut ops, mut tensors, inputs, outputs, consumers, fpmath, fpmath_apply_to_int, .. } = self;
        let mut new = FxHashSet::default();
        for (index, mut op) in replaced {
            schema::complete(&mut op)?;
            new.insert(op.id);
            ops[index] = op;
        }
        // From the last to the first, so that every reader is known to stay or not.
        let mut read: FxHashSet<TensorId> = outputs.iter().copied().collect();
        let mut kept = Vec::with_capacity(ops.len());
        for op in ops.into_iter().rev() {
            let is_left = |id: &TensorId| !read.contains(id) && consumers.contains_key(id);
            let led_nowhere =
                op.outputs.iter().any(is_left) && !op.outputs.iter().any(|id| read.contains(id));
            if !led_nowhere {
                read.extend(&op.inputs);
                kept.push(op);
            }
        }
        kept.reverse();
        let made: FxHashSet<TensorId> = kept.iter().flat_map(|op| op.outputs.iter().copied()).collect();
        let stays = |id: &TensorId| read.contains(id) || made.contains(id) || inputs.contains(id);
        tensors.retain(|id, _| stays(id));
        // What the others make is known.
        for op in kept.iter().filter(|op| new.contains(&op.id)) {
            finish::infer(op, &mut tensors)?;
        }
        let (producers, consumers) = (topology::producers(&kept)?, topology::consumers(&kept));
        Ok(Self { ops: kept, tensors, inputs, outputs, producers, consumers, fpmath, fpmath_apply_to_int })
    }

    /// The graph of other operations, in order, that make its outputs of its inputs and constants, with the tensors that it had not. Tensors
    /// that nothing reads or makes any more are gone.
    ///
    /// # Errors
    /// [`Error::Invalid`](anydnn_backend::Error::Invalid) when two operations make one tensor.
    #[cfg(feature = "onnx")]
    pub(crate) fn with_ops(self, ops: Vec<Op>, more: FxHashMap<TensorId, LogicalTensor>) -> Result<Self> {
        let (producers, consumers) = (topology::producers(&ops)?, topology::consumers(&ops));
        let mut tensors = self.tensors;
        tensors.extend(more);
        let stays = |id: &TensorId| {
            producers.contains_key(id) || consumers.contains_key(id) || self.inputs.contains(id)
        };
        tensors.retain(|id, _| stays(id));
        Ok(Self { ops, tensors, producers, consumers, ..self })
    }

    /// The graph with a dequantisation for each operation that reads one, which can then be done where it is read. What only moves elements
    /// shares those of others.
    ///
    /// # Errors
    /// [`Error::Invalid`](anydnn_backend::Error::Invalid) when the operations are in a cycle.
    #[cfg(feature = "onnx")]
    pub(crate) fn with_dequantized_apart(self) -> Result<Self> {
        let moves = |kind| {
            matches!(
                kind,
                OpKind::StaticReshape
                    | OpKind::StaticTranspose
                    | OpKind::Gather
                    | OpKind::Remap
                    | OpKind::Reorder
            )
        };
        let sources: FxHashMap<TensorId, &Op> = self
            .ops
            .iter()
            .filter(|op| op.kind == OpKind::Dequantize)
            .filter_map(|op| Some((*op.outputs.first()?, op)))
            .filter(|(id, _)| self.consumers(*id).len() > 1 && !self.outputs.contains(id))
            .collect();
        if sources.is_empty() {
            return Ok(self);
        }
        let mut next_op = self.ops.iter().map(|op| op.id.0).max().unwrap_or(0);
        let mut next_tensor = self.tensors.keys().map(|id| id.0).max().unwrap_or(0);
        let (mut ops, mut tensors) = (Vec::with_capacity(self.ops.len()), FxHashMap::default());
        let mut read = FxHashSet::default();
        for op in &self.ops {
            let mut op = op.clone();
            let mut own: FxHashMap<TensorId, TensorId> = FxHashMap::default();
            for input in &mut op.inputs {
                let Some(&source) = sources.get(input).filter(|_| !moves(op.kind)) else { continue };
                let id = match own.get(input) {
                    Some(id) => *id,
                    None if read.insert(*input) => *input,
                    None => {
                        (next_op, next_tensor) = (next_op + 1, next_tensor + 1);
                        let id = TensorId(next_tensor);
                        if let Some(tensor) = self.tensors.get(input) {
                            tensors.insert(id, LogicalTensor { id, ..tensor.clone() });
                        }
                        ops.push(Op { id: OpId(next_op), outputs: vec![id], ..source.clone() });
                        id
                    }
                };
                own.insert(*input, id);
                *input = id;
            }
            ops.push(op);
        }
        self.with_ops(ops, tensors)
    }
}
