//! Parts that several groups of patterns share.

use anydnn_backend::DataType;

use crate::formula::parts::{BINARY, GRADIENT, UNARY, gated_by_itself};
use crate::formula::{Expr, Step, any, it, one_of, op, perhaps, steps, times};
use crate::graph::OpKind::{
    BatchNormTrainingBackward, BiasAdd, Dequantize, Dropout, DynamicDequantize, Quantize, Reorder, Select,
    StaticReshape, StaticTranspose, TypeCast,
};

/// What quantised tensors are stored as.
pub(super) const QUANTIZED: &[DataType] =
    &[DataType::S8, DataType::U8, DataType::S4, DataType::U4, DataType::F8E5M2, DataType::F8E4M3];

/// The most post-operations of a chain.
pub(super) const MOST: usize = 20;

/// Up to twenty functions of the element, each with side inputs from anywhere.
pub(super) fn post_ops() -> Step {
    times(0..=MOST, pointwise())
}

/// The same, with operands that are stored quantised or converted, and with conversions in between.
pub(super) fn quantized_post_ops() -> Step {
    let stored = one_of([dequantized().maybe(TypeCast), op(TypeCast)]);
    let residual = op(BINARY).of([it(), stored]).either().keeps_shape();
    let mut choices = vec![steps![residual], steps![TypeCast]];
    choices.extend(pointwise());
    times(0..=MOST, choices)
}

/// One function of the element: swish and its like are two operations.
pub(super) fn pointwise() -> Vec<Vec<Step>> {
    vec![
        steps![gated_by_itself(&it())],
        steps![UNARY.as_slice()],
        steps![op(BINARY).of([it(), any()]).either().keeps_shape()],
    ]
}

/// What a gradient passes on its way back: a sum with another one or a product, then activations and batch normalisations. Others may
/// read it on the way.
pub(super) fn gradients(most: usize) -> Vec<Step> {
    // What is beyond a sum belongs to other operations: it may wait for what comes from here.
    let binary = op(BINARY).of([any(), any()]).open(0);
    let activation = op(GRADIENT).of([any(), it()]).open(0);
    let norm = op(BatchNormTrainingBackward).of([any(), it()]).open(0).open(1).open(2);
    let cast = op(TypeCast).of([it()]).open(0);
    steps![
        times(0..=1, vec![steps![binary]]),
        times(0..=most, vec![steps![activation], steps![norm], steps![cast]])
    ]
}

/// A choice between what comes along and another tensor.
pub(super) fn select() -> Step {
    let first = op(Select).of([any(), it(), any()]).keeps_shape();
    times(0..=1, vec![steps![first], steps![op(Select).of([any(), any(), it()]).keeps_shape()]])
}

/// Random zeroing, whose mask may be kept.
pub(super) fn dropout() -> Expr {
    op(Dropout).of([it()]).open(1)
}

/// A bias, given as an operation of its own and perhaps converted.
pub(super) fn bias() -> Step {
    perhaps(steps![op(BiasAdd).of([it(), converted()])])
}

/// Any tensor, perhaps converted to another type of floats.
pub(super) fn converted() -> Expr {
    one_of([op(TypeCast), any()])
}

/// The floats of a tensor that is stored quantised.
pub(super) fn dequantized() -> Expr {
    op(Dequantize).of([any()]).reads(QUANTIZED)
}

/// The floats of a source that is stored quantised, perhaps narrowed.
pub(super) fn quantized_source() -> Expr {
    op([Dequantize, DynamicDequantize]).of([any()]).reads(QUANTIZED).maybe(TypeCast)
}

/// The floats of weights that are stored quantised, or quantised in the graph.
pub(super) fn quantized_weights() -> Expr {
    any().maybe(Quantize).then(op(Dequantize).of([it()]).reads(QUANTIZED)).maybe(TypeCast)
}

/// Other shapes of the same elements.
pub(super) fn views(most: usize) -> Step {
    times(0..=most, vec![steps![[StaticReshape, StaticTranspose, Reorder]]])
}

/// At least one other shape of the same elements.
pub(super) fn some_views(most: usize) -> Step {
    times(1..=most, vec![steps![[StaticReshape, StaticTranspose, Reorder]]])
}
