//! Transposed convolutions and what rides on them.

use super::shared::{bias, converted, post_ops, quantized_post_ops, quantized_source, quantized_weights};
use crate::formula::op;
use crate::fusion::pattern::Pattern;
use crate::graph::OpKind::{ConvTranspose, Quantize, TypeCast};

pub(super) fn patterns() -> Vec<Pattern> {
    vec![
        Pattern::new(
            "conv_transpose/int8",
            89,
            &[
                "quantised source and weights, bias, post-operations",
                "quantised result",
                "residual that is stored quantised (CPU form, GPU form)",
            ],
            op(ConvTranspose)
                .of([quantized_source(), quantized_weights()])
                .each(converted())
                .then(bias())
                .then(quantized_post_ops())
                .maybe(TypeCast)
                .maybe(Quantize),
        ),
        Pattern::new(
            "conv_transpose/post_ops",
            88,
            &["floats, bias, post-operations"],
            op(ConvTranspose).then(bias()).then(post_ops()).maybe(TypeCast),
        ),
    ]
}
