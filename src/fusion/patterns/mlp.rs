//! Gated multi-layer perceptrons: two products of one source, one of them through an activation, multiplied with each other or joined by
//! another function of two elements.

use super::shared::{QUANTIZED, bias, pointwise, post_ops};
use crate::formula::parts::BINARY;
use crate::formula::{Expr, any, it, op, times};
use crate::fusion::pattern::Pattern;
use crate::graph::OpKind::{Dequantize, DynamicDequantize, MatMul, TypeCast};

/// The most operations between a product and what joins it with the other one.
const MOST: usize = 4;

pub(super) fn patterns() -> Vec<Pattern> {
    let stored = || op([DynamicDequantize, Dequantize]).of([any()]).reads(QUANTIZED).maybe(TypeCast);
    let down = |weights: Expr| op(MatMul).of([it(), weights]).then(bias()).then(post_ops()).maybe(TypeCast);
    vec![
        Pattern::new(
            "mlp/quantized_gated",
            153,
            &[
                "weights stored quantised, activation of one operation",
                "weights stored quantised, swish",
                "weights stored quantised, joined otherwise",
            ],
            gated(stored).then(down(stored())),
        ),
        Pattern::new(
            "mlp/gated",
            152,
            &[
                "floats, activation of one operation",
                "floats, swish",
                "floats, no activation",
                "floats, joined by another function than a product",
                "floats, several operations on either side, bias, residual",
            ],
            gated(any).then(down(any())),
        ),
        Pattern::new(
            "mlp/quantized_gate",
            151,
            &["(not upstream) the gate alone, weights stored quantised"],
            gated(stored),
        ),
        Pattern::new("mlp/gate", 150, &["(not upstream) the gate alone"], gated(any)),
    ]
}

/// `up(x) * activation(gate(x))`, or another function of the two.
fn gated(weights: impl Fn() -> Expr) -> Expr {
    let half = || {
        let product = op(MatMul).of([any().named("x"), weights()]).then(bias()).maybe(TypeCast);
        product.then(times(0..=MOST, pointwise())).maybe(TypeCast)
    };
    op(BINARY).of([half(), half()]).maybe(TypeCast)
}
