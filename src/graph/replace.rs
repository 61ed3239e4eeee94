//! The same graph with other operations in the place of some.

use std::collections::HashSet;

use anydnn_backend::Result;

use super::op::Op;
use super::tensor::TensorId;
use super::{Graph, finish, schema, topology};

impl Graph {
    /// The graph with other operations at some indices, each of which makes what the one before it made, from tensors that come before.
    /// Operations that only led to those that are gone go with them, and so do their constants.
    ///
    /// # Errors
    /// [`Error::Invalid`](anydnn_backend::Error::Invalid) when an operation does not fit its schema or the tensors that it makes.
    pub(crate) fn with_replaced(&self, replaced: Vec<(usize, Op)>) -> Result<Self> {
        let (mut ops, mut new) = (self.ops.clone(), HashSet::new());
        for (index, mut op) in replaced {
            schema::complete(&mut op)?;
            new.insert(op.id);
            ops[index] = op;
        }
        // From the last to the first, so that every reader is known to stay or not.
        let mut read: HashSet<TensorId> = self.outputs.iter().copied().collect();
        let mut kept = Vec::with_capacity(ops.len());
        for op in ops.into_iter().rev() {
            let is_left = |id: &TensorId| !read.contains(id) && !self.consumers(*id).is_empty();
            let led_nowhere =
                op.outputs.iter().any(is_left) && !op.outputs.iter().any(|id| read.contains(id));
            if !led_nowhere {
                read.extend(&op.inputs);
                kept.push(op);
            }
        }
        kept.reverse();
        let made: HashSet<TensorId> = kept.iter().flat_map(|op| op.outputs.iter().copied()).collect();
        let mut tensors = self.tensors.clone();
        let stays = |id: &TensorId| read.contains(id) || made.contains(id) || self.inputs.contains(id);
        tensors.retain(|id, _| stays(id));
        // What the others make is known.
        for op in kept.iter().filter(|op| new.contains(&op.id)) {
            finish::infer(op, &mut tensors)?;
        }
        let (producers, consumers) = (topology::producers(&kept)?, topology::consumers(&kept));
        let (inputs, outputs) = (self.inputs.clone(), self.outputs.clone());
        let Self { fpmath, fpmath_apply_to_int, .. } = *self;
        Ok(Self { ops: kept, tensors, inputs, outputs, producers, consumers, fpmath, fpmath_apply_to_int })
    }
}
