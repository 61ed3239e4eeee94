//! Operations along axes: softmax, reductions, resizing.

use super::shared::post_ops;
use crate::formula::op;
use crate::formula::parts::REDUCTION;
use crate::fusion::pattern::Pattern;
use crate::graph::OpKind::{Interpolate, LogSoftmax, Quantize, SoftMax, TypeCast};

pub(super) fn patterns() -> Vec<Pattern> {
    vec![
        Pattern::new(
            "softmax/post_ops",
            74,
            &["SoftMax (here: LogSoftmax too), post-operations, conversion, quantised result"],
            op([SoftMax, LogSoftmax]).then(post_ops()).maybe(TypeCast).maybe(Quantize),
        ),
        Pattern::new(
            "reduction/post_ops",
            73,
            &["any reduction, post-operations"],
            op(REDUCTION).then(post_ops()).maybe(TypeCast),
        ),
        Pattern::new(
            "interpolate/post_ops",
            72,
            &["resizing, post-operations"],
            op(Interpolate).then(post_ops()).maybe(TypeCast),
        ),
    ]
}
