//! Convolutions and batch normalisations in training, forward and backward.

use super::shared::{MOST as POST_OPS, converted, gradients, pointwise, post_ops};
use crate::formula::parts::GRADIENT;
use crate::formula::{Expr, Step, any, it, op, perhaps, steps, times};
use crate::fusion::pattern::Pattern;
use crate::graph::OpKind::{
    BatchNormForwardTraining, BiasAdd, BiasAddBackward, Convolution, ConvolutionBackwardData,
    ConvolutionBackwardWeights, TypeCast,
};

/// The results of a batch normalisation in training: besides the first the moved statistics and those of the batch.
const RESULTS: usize = 5;

/// The most operations that a gradient passes before it reaches a convolution.
const MOST: usize = 8;

pub(super) fn patterns() -> Vec<Pattern> {
    // What the backward half reads may be seen outside.
    let convolution = || {
        let bias = perhaps(steps![op(BiasAdd).of([it(), converted()]).open(0)]);
        op(Convolution).open(0).then(bias)
    };
    vec![
        Pattern::new(
            "conv/training",
            98,
            &["convolution, bias, batch normalisation by the batch, post-operations"],
            convolution().then(normalized(it())).then(post_ops()).maybe(TypeCast),
        ),
        Pattern::new(
            "conv/backward",
            97,
            &[
                "gradients of source, weights and bias from one gradient",
                "gradients of weights and bias from one gradient",
                "through batch normalisation, activation and sum",
            ],
            op(ConvolutionBackwardWeights).of([any(), gradient()]),
        )
        .and_maybe(op(ConvolutionBackwardData).of([gradient()]).then(behind()).maybe(TypeCast))
        .and_maybe(op(BiasAddBackward).of([gradient()])),
        Pattern::new(
            "conv/backward_data",
            96,
            &["gradient of the source alone, what comes before and behind"],
            op(ConvolutionBackwardData).of([gradient()]).then(behind()).maybe(TypeCast),
        )
        .and_maybe(op(BiasAddBackward).of([gradient()])),
        Pattern::new(
            "bn/training",
            80,
            &["with the statistics of the batch, post-operations"],
            normalized(any()).then(post_ops()).maybe(TypeCast),
        ),
    ]
}

fn normalized(src: Expr) -> Expr {
    (0..RESULTS).fold(op(BatchNormForwardTraining).of([src]), Expr::open)
}

/// The gradient of a convolution's result.
fn gradient() -> Expr {
    any().then_all(gradients(MOST)).named("diff_dst")
}

/// What becomes of the gradient of a convolution's source, as far as no other convolution takes it.
fn behind() -> Step {
    let mut choices = pointwise();
    choices.push(steps![op(GRADIENT).of([any(), it()])]);
    times(0..=POST_OPS, choices)
}
