//! The gradients of attention, from the statistics that the forward half kept.
//!
//! The probabilities are made again, `p = exp(scores(q k) - statistics)`; with `dp` the gradient of the result times the value,
//! `ds = softmax'(dp, p)`, which may be written out as `p (dp - sum(o do))` with the result `o` and its gradient. The gradients of query
//! and key are products with `ds`, that of the value is one with `p`, and that of the mask is `ds` itself or a sum of it.

use super::sdp::scores;
use super::shared::dropout;
use crate::formula::parts::REDUCTION;
use crate::formula::{Expr, Step, any, it, one_of, op, steps, times};
use crate::fusion::pattern::Pattern;
use crate::graph::OpKind::{
    Divide, End, Exp, MatMul, Multiply, ReduceSum, Reorder, SoftMaxBackward, StaticReshape, StaticTranspose,
    Subtract, TypeCast,
};

pub(super) fn patterns() -> Vec<Pattern> {
    let grouped = || vec![shaped(0), Step::from(ReduceSum), shaped(2)];
    let of_q = || product(score_gradient()).then_all(vec![shaped(3)]);
    vec![
        Pattern::new(
            "sdp/gqa_backward",
            178,
            &[
                "gradients of grouped queries",
                "with dropout, with the gradient of a mask",
                "from result and its gradient",
            ],
            product(score_gradient()).then_all(grouped()),
        )
        .and(of_q())
        .and(product(value_weights()).then_all(grouped()))
        .and_maybe(mask_sum())
        .and_maybe(mask_mark()),
        Pattern::new(
            "sdp/backward",
            177,
            &[
                "gradients of attention",
                "with dropout",
                "with the gradient of a mask, marked by End or reduced",
                "from result and its gradient",
                "from probabilities that were kept",
            ],
            of_q(),
        )
        .and(of_q())
        .and(product(value_weights()).then_all(vec![shaped(3)]))
        .and_maybe(mask_sum())
        .and_maybe(mask_mark()),
    ]
}

/// A product with another tensor, from either side.
fn product(factor: Expr) -> Expr {
    op(MatMul).of([factor, any().repeat(0..=2, vec![steps![[StaticTranspose, StaticReshape]]])]).either()
}

/// Other shapes and types of what comes along.
fn shaped(most: usize) -> Step {
    times(0..=most, vec![steps![[StaticReshape, StaticTranspose, Reorder, TypeCast]]])
}

/// The probabilities, made again or kept.
fn softmax_again() -> Expr {
    let product = op(MatMul).of([any(), any()]);
    let again = op(Exp).of([op(Subtract).of([product.then_all(scores(1)), any()]).then(shaped(1))]);
    one_of([again, any()]).named("p")
}

/// `p` as it was multiplied with the value.
fn value_weights() -> Expr {
    softmax_again()
        .repeat(0..=4, vec![steps![dropout()], steps![op(Multiply).of([it(), any()])], steps![shaped_once()]])
}

fn shaped_once() -> Step {
    times(1..=1, vec![steps![[StaticReshape, StaticTranspose, TypeCast]]])
}

/// The gradient of what went into the softmax.
fn masked_gradient() -> Expr {
    let of_weights = || {
        op(MatMul).of([any(), any()]).repeat(
            0..=4,
            vec![steps![dropout()], steps![op([Multiply, Divide]).of([it(), any()])], steps![shaped_once()]],
        )
    };
    let whole = op(SoftMaxBackward).of([of_weights(), softmax_again()]).open(0);
    let result = op(Multiply).of([any(), any()]).then(shaped(1));
    let mean = one_of([op(ReduceSum).of([result]).then(shaped(1)), any()]);
    let apart = op(Multiply).of([softmax_again(), op(Subtract).of([of_weights(), mean])]).open(0);
    one_of([whole, apart]).named("ds")
}

/// The gradient of `q k`.
fn score_gradient() -> Expr {
    let scaled = masked_gradient()
        .repeat(0..=3, vec![steps![op([Multiply, Divide]).of([it(), any()])], steps![shaped_once()]]);
    scaled.named("dscores").repeat(0..=2, vec![steps![[StaticReshape, StaticTranspose]]])
}

fn mask_sum() -> Expr {
    let sum = masked_gradient().repeat(0..=1, vec![steps![[StaticReshape, TypeCast]]]).then(REDUCTION);
    sum.repeat(0..=3, vec![steps![REDUCTION], steps![[StaticReshape, TypeCast]]])
}

fn mask_mark() -> Expr {
    op(End).of([masked_gradient()])
}
