//! Values that operators hand on.

use anydnn_backend::{DataType, Dims};

use crate::graph::TensorId;

/// A value of an ONNX graph: its shape and type, and where it comes from.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) dims: Dims,
    pub(super) data_type: DataType,
    pub(super) source: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
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
