//! Kinds and parts that many formulas share.

use std::sync::LazyLock;

use anydnn_backend::op::Function;

use super::expr::{Expr, op};
use crate::graph::OpKind::{
    self, AbsBackward, Add, ClampBackward, Divide, EluBackward, GELUBackward, HardSigmoid,
    HardSigmoidBackward, HardSwishBackward, Maximum, Minimum, MishBackward, Multiply, Power, ReLUBackward,
    ReduceL1, ReduceL2, ReduceMax, ReduceMean, ReduceMin, ReduceProd, ReduceSum, Sigmoid, SigmoidBackward,
    SoftPlusBackward, SqrtBackward, SquaredDifference, Subtract, TanhBackward,
};

/// Functions of one element.
pub(crate) static UNARY: LazyLock<Vec<OpKind>> = LazyLock::new(|| {
    let all = OpKind::ALL.iter().chain(OpKind::EXTENSIONS);
    all.copied().filter(|kind| Function::is_graph(kind.name())).collect()
});

/// Functions of two elements.
pub(crate) const BINARY: [OpKind; 8] =
    [Add, Multiply, Maximum, Minimum, Divide, Subtract, SquaredDifference, Power];

/// Reductions over axes.
pub(crate) const REDUCTION: [OpKind; 7] =
    [ReduceL1, ReduceL2, ReduceMax, ReduceMean, ReduceMin, ReduceProd, ReduceSum];

/// Gradients of functions of one element, from what these read or made and the gradient of their result.
pub(crate) const GRADIENT: [OpKind; 12] = [
    AbsBackward,
    ClampBackward,
    EluBackward,
    GELUBackward,
    HardSigmoidBackward,
    HardSwishBackward,
    MishBackward,
    ReLUBackward,
    SigmoidBackward,
    SoftPlusBackward,
    SqrtBackward,
    TanhBackward,
];

/// A tensor times a sigmoid of itself, which is captured as `sigmoid`: swish and its piecewise linear kin.
pub(crate) fn gated_by_itself(x: &Expr) -> Expr {
    op(Multiply).of([op([Sigmoid, HardSigmoid]).of([x.clone()]).capture("sigmoid"), x.clone()])
}
