//! Sets of kinds of operations that formulas name as one.

use std::sync::LazyLock;

use anydnn_backend::op::Function;

use crate::graph::OpKind::{
    self, Add, Divide, Maximum, Minimum, Multiply, Power, ReduceL1, ReduceL2, ReduceMax, ReduceMean,
    ReduceMin, ReduceProd, ReduceSum, SquaredDifference, Subtract,
};

/// Functions of one element.
pub(super) static UNARY: LazyLock<Vec<OpKind>> = LazyLock::new(|| {
    let all = OpKind::ALL.iter().chain(OpKind::EXTENSIONS);
    all.copied().filter(|kind| Function::is_graph(kind.name())).collect()
});

/// Functions of two elements.
pub(super) const BINARY: [OpKind; 8] =
    [Add, Multiply, Maximum, Minimum, Divide, Subtract, SquaredDifference, Power];

/// Reductions over axes.
pub(super) const REDUCTION: [OpKind; 7] =
    [ReduceL1, ReduceL2, ReduceMax, ReduceMean, ReduceMin, ReduceProd, ReduceSum];
