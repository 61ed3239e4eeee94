//! Part of a graph as a graph of its own.

use anydnn_backend::{Error, InvalidKind, Result};

use super::Graph;
use super::finish;
use super::op::Op;
use super::tensor::{ByTensor, LogicalTensor, Property, TensorId, TensorLayout};
use super::topology;

impl Graph {
    /// The graph of the operations `ops` (indices, ascending) with these ports. What `given` says of a tensor holds in place of what
    /// this graph says; shapes that follow from it are inferred anew.
    ///
    /// # Errors
    /// [`Error::Invalid`] when an input is not given or its shape unknown, types differ, or shapes do not fit;
    /// [`Error::Unsupported`] where a shape follows from values.
    pub(crate) fn subgraph(
        &self,
        ops: &[usize],
        inputs: &[TensorId],
        outputs: &[TensorId],
        given: &[LogicalTensor],
    ) -> Result<Self> {
        let ops: Vec<Op> = ops.iter().filter_map(|&i| self.ops.get(i)).cloned().collect();
        let mut tensors = ByTensor::default();
        for id in ops.iter().flat_map(|op| op.inputs.iter().chain(&op.outputs)) {
            if let Some(tensor) = self.tensors.get(id) {
                tensors.insert(*id, tensor.clone());
            }
        }
        for &id in inputs.iter().chain(outputs) {
            let Some(tensor) = tensors.get_mut(&id) else { continue };
            let Some(said) = given.iter().find(|said| said.id == id) else {
                let expected = "every input and output of the partition";
                return Err(Error::invalid("compile", "logical tensors", format!("without {id}"), expected));
            };
            override_with(tensor, said, inputs.contains(&id))?;
            finish::check_tensor(tensor)?;
        }
        for &id in inputs {
            if tensors.get(&id).is_some_and(|tensor: &LogicalTensor| tensor.known_dims().is_none()) {
                let subject = format!("shape of input {}", self.label(id));
                return Err(Error::invalid_kind(
                    InvalidKind::Shape,
                    "compile",
                    subject,
                    "unknown",
                    "known at compilation",
                ));
            }
        }
        let before = |id: &TensorId| self.tensors.get(id).and_then(|tensor| tensor.dims.clone());
        for op in &ops {
            let changed = op.inputs.iter().any(|id| tensors[id].dims != before(id));
            let is_said = |id: &TensorId| {
                outputs.contains(id) && given.iter().any(|said| said.id == *id && said.dims.is_some())
            };
            for id in op.outputs.iter().filter(|id| changed && !is_said(id)) {
                if let Some(tensor) = tensors.get_mut(id) {
                    tensor.dims = None;
                    if !outputs.contains(id) {
                        tensor.layout = TensorLayout::Undefined;
                    }
                }
            }
            finish::infer(op, &mut tensors)?;
        }
        let (producers, consumers) = (topology::producers(&ops)?, topology::consumers(&ops));
        let varying = |id: &&TensorId| tensors[*id].property != Property::Constant;
        Ok(Self {
            inputs: inputs.iter().filter(varying).copied().collect(),
            outputs: outputs.to_vec(),
            ops,
            tensors,
            producers,
            consumers,
            fpmath: self.fpmath,
            fpmath_apply_to_int: self.fpmath_apply_to_int,
        })
    }
}

/// What was said of a port at compilation takes the place of what was said before, where it says anything.
fn override_with(tensor: &mut LogicalTensor, said: &LogicalTensor, is_input: bool) -> Result<()> {
    match (tensor.data_type, said.data_type) {
        (Some(before), Some(given)) if before != given => {
            let expected = format!("{before}, as the graph has it");
            let subject = format!("data type of {}", tensor.label());
            return Err(Error::invalid("compile", subject, given.to_string(), expected));
        }
        (before, given) => tensor.data_type = before.or(given),
    }
    let same_rank = |a: &Vec<Option<usize>>, b: &Vec<Option<usize>>| a.len() == b.len();
    match (&mut tensor.dims, &said.dims) {
        (_, None) => {}
        // An input's unknown dimension may be known to the graph; an output's is inferred.
        (Some(before), Some(given)) if is_input && same_rank(before, given) => {
            before.iter_mut().zip(given).for_each(|(before, given)| *before = given.or(*before));
        }
        (before, Some(given)) => *before = Some(given.clone()),
    }
    tensor.layout = said.layout.clone();
    if said.property != Property::Undefined {
        tensor.property = said.property;
    }
    if said.name.is_some() {
        tensor.name.clone_from(&said.name);
    }
    Ok(())
}
