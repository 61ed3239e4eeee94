//! Matrix products and what rides on them.

use super::shared::{
    QUANTIZED, bias, converted, dropout, post_ops, quantized_post_ops, quantized_source, quantized_weights,
    select, some_views, views,
};
use crate::formula::{Expr, any, it, op};
use crate::fusion::pattern::Pattern;
use crate::graph::OpKind::{Dequantize, DynamicDequantize, MatMul, Quantize, TypeCast};

pub(super) fn patterns() -> Vec<Pattern> {
    let int8 = |src: Expr, weights: Expr| op(MatMul).of([src, weights]).each(converted()).then(bias());
    let compressed = any()
        .maybe(Quantize)
        .then(op([Dequantize, DynamicDequantize]).of([it()]).reads(QUANTIZED))
        .maybe(TypeCast);
    vec![
        Pattern::new(
            "matmul/int8",
            104,
            &[
                "quantised source and weights (u8/s8 x s8), bias, post-operations",
                "weights quantised in the graph",
                "bf16 arithmetic between type casts",
                "sum or product with one more operand, conversions before or behind",
                "residual that is stored quantised (CPU form, GPU form)",
                "quantised result, after a multiplication too (SmoothQuant)",
                "transposed and reshaped result",
            ],
            int8(quantized_source(), quantized_weights())
                .then(quantized_post_ops())
                .then(select())
                .then(views(3))
                .maybe(TypeCast)
                .maybe(Quantize),
        ),
        Pattern::new(
            "matmul/int8_weights",
            103,
            &[
                "source in floats, weights quantised",
                "the same with bf16 arithmetic",
                "scales given on execution",
            ],
            int8(any(), compressed)
                .then(quantized_post_ops())
                .then(select())
                .then(views(3))
                .maybe(TypeCast)
                .maybe(Quantize),
        ),
        Pattern::new(
            "matmul/dropout",
            102,
            &["floats, bias, post-operations, dropout"],
            op(MatMul).then(bias()).then(post_ops()).then(dropout()).then(post_ops()).maybe(TypeCast),
        ),
        Pattern::new(
            "matmul/views",
            101,
            &[
                "StaticReshape and StaticTranspose behind",
                "StaticTranspose and StaticReshape behind",
                "StaticTranspose and Reorder behind",
            ],
            op(MatMul)
                .then(bias())
                .then(post_ops())
                .maybe(TypeCast)
                .then(some_views(3))
                .maybe(TypeCast)
                .maybe(Quantize),
        ),
        Pattern::new(
            "matmul/post_ops",
            100,
            &["floats, bias, post-operations, choice, conversion"],
            op(MatMul).then(bias()).then(post_ops()).then(select()).maybe(TypeCast).maybe(Quantize),
        ),
    ]
}
