//! The same graph for inputs of other dimensions.

use anydnn_backend::{Dims, Error, InvalidKind, Result};

use super::Graph;
use super::finish;
use super::tensor::{LogicalTensor, Property, TensorId, TensorLayout};

impl Graph {
    /// The same graph with other dimensions of some inputs; every shape that follows from them is inferred anew.
    ///
    /// Inputs keep the order of their strides. Tensors whose shape changes lose theirs and become dense.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a tensor is no input, or the dimensions do not fit the operations, a [`OpKind::StaticReshape`] to a fixed
    /// batch among them; [`Error::Unsupported`] where a shape follows from values.
    ///
    /// [`OpKind::StaticReshape`]: super::OpKind::StaticReshape
    pub fn with_input_dims(&self, dims: &[(TensorId, Dims)]) -> Result<Self> {
        let mut tensors = self.tensors.clone();
        for (id, dims) in dims {
            match tensors.get_mut(id) {
                Some(tensor) if self.inputs.contains(id) => resize(tensor, dims)?,
                _ => {
                    let expected = "an input of the graph";
                    return Err(Error::invalid_kind(
                        InvalidKind::Graph,
                        "graph",
                        "tensor",
                        id.to_string(),
                        expected,
                    ));
                }
            }
        }
        for op in &self.ops {
            if op.inputs.iter().all(|id| tensors[id].dims == self.tensors[id].dims) {
                continue;
            }
            for id in &op.outputs {
                if let Some(tensor) = tensors.get_mut(id) {
                    tensor.dims = None;
                }
            }
            finish::infer(op, &mut tensors)?;
            for id in &op.outputs {
                if let Some(tensor) = tensors.get_mut(id)
                    && tensor.dims != self.tensors[id].dims
                    && tensor.layout != TensorLayout::Any
                {
                    tensor.layout = TensorLayout::Undefined;
                }
            }
        }
        Ok(Self { tensors, ..self.clone() })
    }

    /// The same graph with `batch` as the first dimension of every input.
    ///
    /// Host scalars, inputs without dimensions and inputs `[1]`, which are single numbers, stay as they are.
    ///
    /// # Errors
    /// As [`Graph::with_input_dims`]; also [`Error::Invalid`] when an input's dimensions are unknown.
    pub fn with_batch(&self, batch: usize) -> Result<Self> {
        let mut all = Vec::new();
        for id in &self.inputs {
            let tensor = &self.tensors[id];
            let Some(dims) = &tensor.dims else {
                let subject = format!("shape of input {}", tensor.label());
                let expected = "known but for the batch";
                return Err(Error::invalid_kind(
                    InvalidKind::Shape,
                    "graph with a batch",
                    subject,
                    "unknown",
                    expected,
                ));
            };
            if tensor.property == Property::HostScalar || dims.is_empty() || **dims == [Some(1)] {
                continue;
            }
            let resized: Option<Dims> =
                std::iter::once(Some(batch)).chain(dims[1..].iter().copied()).collect();
            let resized = resized.ok_or_else(|| {
                let subject = format!("shape of input {}", tensor.label());
                let expected = "known but for the batch";
                Error::invalid_kind(
                    InvalidKind::Shape,
                    "graph with a batch",
                    subject,
                    finish::written(dims),
                    expected,
                )
            })?;
            all.push((*id, resized));
        }
        self.with_input_dims(&all)
    }
}

pub(super) fn resize(tensor: &mut LogicalTensor, dims: &Dims) -> Result<()> {
    if tensor.dims.as_ref().is_some_and(|before| before.iter().copied().eq(dims.iter().copied().map(Some))) {
        return Ok(());
    }
    tensor.layout = match &tensor.layout {
        TensorLayout::Any => TensorLayout::Any,
        TensorLayout::Strided(strides) if strides.len() == dims.len() => restride(strides, dims),
        _ => TensorLayout::Undefined,
    };
    tensor.dims = Some(dims.iter().copied().map(Some).collect());
    finish::check_tensor(tensor)
}

/// Dense strides in the order of the old ones, from the outermost to the innermost.
fn restride(old: &[Option<usize>], dims: &Dims) -> TensorLayout {
    let Some(old) = old.iter().copied().collect::<Option<Vec<usize>>>() else {
        return TensorLayout::Undefined;
    };
    let mut order: Vec<usize> = (0..old.len()).collect();
    order.sort_by_key(|&axis| std::cmp::Reverse(old[axis]));
    let mut strides = vec![Some(0); old.len()];
    let mut stride = 1_usize;
    for &axis in order.iter().rev() {
        strides[axis] = Some(stride);
        stride = stride.saturating_mul(dims[axis].max(1));
    }
    TensorLayout::Strided(strides)
}
