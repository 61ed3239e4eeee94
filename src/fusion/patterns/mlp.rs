//! Gated multi-layer perceptrons: two products of one source, one of them through an activation, multiplied with each other.

use super::shared::{QUANTIZED, bias};
use crate::formula::parts::{UNARY, gated_by_itself};
use crate::formula::{Expr, Step, any, it, op, steps, times};
use crate::fusion::pattern::Pattern;
use crate::graph::OpKind::{Dequantize, DynamicDequantize, MatMul, Multiply, TypeCast};

pub(super) fn patterns() -> Vec<Pattern> {
    let stored = || op([DynamicDequantize, Dequantize]).of([any()]).reads(QUANTIZED).maybe(TypeCast);
    let down = |weights: Expr| op(MatMul).of([it(), weights]).then(bias()).maybe(TypeCast);
    vec![
        Pattern::new(
            "mlp/quantized_gated",
            153,
            &["weights stored quantised, activation of one operation", "weights stored quantised, swish"],
            gated(stored).then(down(stored())),
        ),
        Pattern::new(
            "mlp/gated",
            152,
            &["floats, activation of one operation", "floats, swish"],
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

/// `up(x) * activation(gate(x))`.
fn gated(weights: impl Fn() -> Expr) -> Expr {
    let product = || op(MatMul).of([any().named("x"), weights()]).then(bias()).maybe(TypeCast);
    let activation: Step = times(0..=1, vec![steps![gated_by_itself(&it())], steps![UNARY.as_slice()]]);
    op(Multiply).of([product(), product().then(activation).maybe(TypeCast)]).maybe(TypeCast)
}
