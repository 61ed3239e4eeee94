//! Pooling.

use super::shared::{dequantized, post_ops, views};
use crate::formula::{it, op, perhaps, steps};
use crate::fusion::pattern::Pattern;
use crate::graph::OpKind::{Add, AvgPool, MaxPool, Quantize, TypeCast};

pub(super) fn patterns() -> Vec<Pattern> {
    let residual = op(Add).of([it(), dequantized()]).keeps_shape();
    vec![
        Pattern::new(
            "pool/int8",
            85,
            &[
                "quantised source and result",
                "residual that is stored quantised (CPU form, GPU form)",
                "reshaped result",
                "transposed result",
            ],
            op([AvgPool, MaxPool])
                .of([dequantized()])
                .then(perhaps(steps![residual]))
                .then(views(2))
                .then(Quantize),
        ),
        Pattern::new(
            "pool/post_ops",
            84,
            &["post-operations"],
            op([AvgPool, MaxPool]).then(post_ops()).maybe(TypeCast),
        ),
    ]
}
