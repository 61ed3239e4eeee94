//! Functions of elements that ride on nothing bigger.

use super::shared::{dropout, post_ops};
use crate::formula::op;
use crate::formula::parts::{BINARY, UNARY};
use crate::fusion::pattern::Pattern;
use crate::graph::OpKind::{BiasAdd, TypeCast};

pub(super) fn patterns() -> Vec<Pattern> {
    // One pattern for all kinds: the first of a chain takes the whole of it.
    let first = || op([UNARY.as_slice(), &BINARY, &[BiasAdd]].concat());
    vec![
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
