//! The patterns, strongest first. A chain is an anchor and what rides on its result.

use super::pattern::{Pattern, optional, pattern, repeat};
use crate::graph::OpKind::{
    self, Abs, Add, AvgPool, BatchNormInference, BiasAdd, Clamp, Convolution, Divide, Elu, Exp, GELU,
    GroupNorm, HardSigmoid, HardSwish, LayerNorm, LeakyReLU, Log, LogSoftmax, MatMul, MaxPool, Maximum,
    Minimum, Mish, Multiply, Pow, RMSNorm, ReLU, Reciprocal, ReduceL1, ReduceL2, ReduceMax, ReduceMean,
    ReduceMin, ReduceProd, ReduceSum, Round, Sigmoid, SoftMax, SoftPlus, Sqrt, Square, SquaredDifference,
    Subtract, Tanh, TypeCast,
};

/// Functions of one element.
pub(super) const UNARY: [OpKind; 19] = [
    Abs,
    Clamp,
    Elu,
    Exp,
    GELU,
    HardSigmoid,
    HardSwish,
    LeakyReLU,
    Log,
    Mish,
    Sigmoid,
    SoftPlus,
    ReLU,
    Round,
    Sqrt,
    Square,
    Tanh,
    Pow,
    Reciprocal,
];

/// Functions of two elements.
pub(super) const BINARY: [OpKind; 7] = [Add, Multiply, Maximum, Minimum, Divide, Subtract, SquaredDifference];

/// The most post-operations of a chain.
const MOST: usize = 20;

/// All patterns in the order in which they choose.
pub(super) fn all() -> Vec<Pattern> {
    let post_ops = || repeat([UNARY.as_slice(), &BINARY].concat(), MOST);
    let reductions = [ReduceL1, ReduceL2, ReduceMax, ReduceMean, ReduceMin, ReduceProd, ReduceSum];
    vec![
        pattern("conv_post_ops", [Convolution])
            .then(optional([BiasAdd]))
            .then(optional([BatchNormInference]))
            .then(post_ops())
            .then(optional([TypeCast])),
        pattern("matmul_post_ops", [MatMul])
            .then(optional([BiasAdd]))
            .then(post_ops())
            .then(optional([TypeCast])),
        pattern("norm_post_ops", [LayerNorm, RMSNorm, GroupNorm]).then(post_ops()).then(optional([TypeCast])),
        pattern("batch_norm_post_ops", [BatchNormInference]).then(post_ops()).then(optional([TypeCast])),
        pattern("softmax_post_ops", [SoftMax, LogSoftmax]).then(post_ops()).then(optional([TypeCast])),
        pattern("pool_post_ops", [AvgPool, MaxPool]).then(post_ops()).then(optional([TypeCast])),
        pattern("reduction_post_ops", reductions).then(post_ops()).then(optional([TypeCast])),
        // One pattern for both kinds of pointwise anchors: the first of a chain takes all of it.
        pattern("pointwise_post_ops", [UNARY.as_slice(), &BINARY, &[BiasAdd]].concat())
            .then(post_ops())
            .then(optional([TypeCast])),
    ]
}
