//! Scans of opset 8, which run over each sequence of a batch on its own.

use std::sync::Arc;

use anydnn_backend::{Backend, MemoryDesc, Result};

use super::control::slice;
use super::run::Run;
use super::scope::Scope;
use super::slot::Slot;
use crate::model::HostTensor;
use crate::onnx::host;
use crate::onnx::node::Node;
use crate::onnx::program::ValueId;

impl<B: Backend> Run<'_, B> {
    /// Runs a scan whose first input has the sequences' lengths and whose others have the batch in front. What lies behind a shorter
    /// sequence is zero.
    pub(super) fn run_batches(
        &mut self,
        node: &Node,
        inner: &Scope<B>,
        captures: &[(ValueId, Arc<Slot<B>>)],
        inputs: &[Option<Arc<Slot<B>>>],
    ) -> Result<Vec<Arc<Slot<B>>>> {
        let (lengths, inputs) =
            inputs.split_first().ok_or_else(|| node.invalid("inputs", "none", "lengths and sequences"))?;
        let lengths = match lengths {
            None => None,
            Some(lengths) => {
                let ints = host::ints(&*self.host(lengths)?);
                Some(ints.ok_or_else(|| node.invalid("lengths", &lengths.desc, "integers"))?)
            }
        };
        let mut tensors = Vec::with_capacity(inputs.len());
        for input in inputs {
            let input = input.as_ref().ok_or_else(|| node.invalid("inputs", "left out", "all of them"))?;
            tensors.push(self.host(input)?);
        }
        let batch = tensors.last().and_then(|tensor| tensor.dims().first().copied()).unwrap_or(0);
        let fits = |tensor: &Arc<HostTensor>| batch > 0 && tensor.dims().first() == Some(&batch);
        if !tensors.iter().all(fits) || lengths.as_ref().is_some_and(|lengths| lengths.len() != batch) {
            return Err(node.invalid("inputs", "of several sizes", "one batch of at least one in front"));
        }
        let scan_count = usize::try_from(node.int("num_scan_inputs", 0)?).unwrap_or(0);
        let state_count = tensors.len().saturating_sub(scan_count);
        let mut stacks: Vec<Vec<Arc<Slot<B>>>> = vec![Vec::new(); inner.program.outputs.len()];
        for at in 0..batch {
            let mut given = Vec::with_capacity(tensors.len());
            let mut whole = 0;
            for (index, tensor) in tensors.iter().enumerate() {
                let mut own = slice(tensor, 0, at)?;
                if index >= state_count {
                    whole = own.dims().first().copied().unwrap_or(0);
                    if let Some(lengths) = &lengths {
                        own = own.rows(0..usize::try_from(lengths[at]).unwrap_or(usize::MAX))?;
                    }
                }
                given.push(Some(Arc::new(Slot::of_host(Arc::new(own)))));
            }
            let made = self.run_scan(node, inner, captures, &given)?;
            for (index, (stack, slot)) in stacks.iter_mut().zip(made).enumerate() {
                let slot = if lengths.is_some() && index >= state_count {
                    let tensor = lengthened(&*self.host(&slot)?, whole)?;
                    Arc::new(Slot::of_host(Arc::new(tensor)))
                } else {
                    slot
                };
                stack.push(slot);
            }
        }
        let outputs = inner.program.outputs.iter().zip(stacks);
        outputs.map(|(&output, stack)| self.stack(inner, output, &stack, 0, false)).collect()
    }
}

/// A tensor with rows of zeros behind its own.
fn lengthened(tensor: &HostTensor, rows: usize) -> Result<HostTensor> {
    let mut dims = tensor.dims().clone();
    if let Some(first) = dims.first_mut() {
        *first = rows.max(*first);
    }
    let desc = MemoryDesc::new(dims, tensor.data_type());
    let mut bytes = tensor.bytes().to_vec();
    bytes.resize(desc.size(), 0);
    HostTensor::new(desc, bytes)
}
