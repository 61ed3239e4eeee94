//! Functions of elements that ride on nothing bigger.

use super::shared::{MOST, QUANTIZED, dequantized, dropout, post_ops};
use crate::formula::parts::{BINARY, UNARY};
use crate::formula::{any, it, one_of, op, steps, times};
use crate::fusion::pattern::Pattern;
use crate::graph::OpKind::{BiasAdd, Dequantize, Quantize, TypeCast};

pub(super) fn patterns() -> Vec<Pattern> {
    // One pattern for all kinds: the first of a chain takes the whole of it.
    let first = || op([UNARY.as_slice(), &BINARY, &[BiasAdd]].concat());
    // What is stored quantised is read and written as it is, also in between.
    let stored = || one_of([dequantized(), any()]);
    let again = steps![Quantize, op(Dequantize).of([it()]).reads(QUANTIZED)];
    let function = op(BINARY).of([it(), stored()]).either().keeps_shape();
    let functions =
        || times(0..=MOST, vec![again.clone(), steps![UNARY.as_slice()], steps![function.clone()]]);
    vec![
        Pattern::new(
            "pointwise/int8",
            62,
            &["functions of elements that are stored quantised", "quantised result"],
            one_of([op(UNARY.as_slice()).of([dequantized()]), op(BINARY).of([stored(), stored()])])
                .then(functions())
                .then(Quantize),
        ),
        Pattern::new(
            "pointwise/dropout",
            61,
            &["eltwise: function of one element, dropout"],
            first().then(post_ops()).then(dropout()).then(post_ops()).maybe(TypeCast),
        ),
        Pattern::new(
            "pointwise/post_ops",
            60,
            &[
                "eltwise: function of one element, post-operations",
                "binary: function of two elements, post-operations",
                "binary: Reciprocal and Multiply",
                "sum: chain of additions",
            ],
            first().then(post_ops()).maybe(TypeCast),
        ),
    ]
}
