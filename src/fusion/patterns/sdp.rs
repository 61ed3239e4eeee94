//! Scaled dot-product attention: `softmax(mask(scale(q k))) v`, inference and the forward half of training.

use super::shared::{QUANTIZED, dequantized, dropout, some_views, views};
use crate::formula::{Expr, Step, any, it, one_of, op, steps, times};
use crate::fusion::pattern::Pattern;
use crate::graph::OpKind::{
    Add, Dequantize, Divide, DynamicDequantize, GenIndex, GreaterEqual, MatMul, Maximum, Minimum, Multiply,
    Quantize, Reorder, Select, SoftMax, StaticReshape, StaticTranspose, Subtract, Tanh, TypeCast,
};

pub(super) fn patterns() -> Vec<Pattern> {
    let floats = || any().then(views(2));
    let grouped = || any().maybe(StaticTranspose).then(StaticReshape).then(views(2));
    let int8 = || transposed(dequantized().maybe(TypeCast)).then(views(2));
    let stored = || {
        let stored = op(DynamicDequantize).of([transposed(any())]).reads(QUANTIZED);
        stored.then(views(2)).maybe(TypeCast)
    };
    vec![
        Pattern::new(
            "sdp/int8",
            176,
            &[
                "query, key and value stored quantised (u8, s8)",
                "the same with bf16 arithmetic",
                "stored as f8",
                "GPT-style, quantised",
            ],
            attention(int8(), int8(), int8(), plain_scores(), &quantized_probabilities()),
        ),
        Pattern::new(
            "sdp/compressed_kv",
            175,
            &["key and value compressed (s4, u4, s8, u8, in groups)"],
            attention(any().then(views(2)), stored(), stored(), grouped_scores(), &probabilities()),
        ),
        Pattern::new(
            "sdp/compressed_k",
            174,
            &["key compressed, value in floats"],
            attention(
                any().then(views(2)),
                stored(),
                any().then(views(2)),
                grouped_scores(),
                &probabilities(),
            ),
        ),
        Pattern::new(
            "sdp/compressed_v",
            173,
            &["key in floats, value compressed"],
            attention(
                any().then(views(2)),
                any().then(views(2)),
                stored(),
                grouped_scores(),
                &probabilities(),
            ),
        ),
        Pattern::new(
            "sdp/gqa",
            172,
            &["grouped queries, four axes made five and back", "the same, its result quantised"],
            attention(
                grouped(),
                any().then(views(3)),
                any().then(views(3)),
                grouped_scores(),
                &probabilities(),
            ),
        ),
        Pattern::new(
            "sdp/mqa",
            171,
            &[
                "many queries of one key and value: the scores change their shape",
                "JAX: value times probabilities",
            ],
            attention(
                any().then(views(3)),
                any().then(views(3)),
                any().then(views(3)),
                vec![scores(0), steps![some_views(2)], scores(0)].into_iter().flatten().collect(),
                &probabilities(),
            ),
        ),
        Pattern::new(
            "sdp/float",
            170,
            &[
                "floats: scale, mask by Add or Select",
                "causal mask made of GenIndex and GreaterEqual, at the top left or the bottom right",
                "with statistics for training, dropout",
                "soft cap by Tanh (Gemma)",
                "GPT-style, two masks",
                "grouped queries on five axes",
                "axes exchanged and stored anew, of what is given and of the result",
                "probabilities stored anew, with their axes exchanged",
            ],
            attention(floats(), floats(), floats(), plain_scores(), &probabilities()),
        ),
    ]
}

/// `softmax(scores(q k)) v`, and what shape the result gets.
fn attention(q: Expr, k: Expr, v: Expr, scores: Vec<Step>, probabilities: &[Vec<Step>]) -> Expr {
    let softmax = op(SoftMax).of([it()]).open(1);
    let weights = op(MatMul).of([q, k]).then_all(scores).then(softmax).repeat(0..=5, probabilities.to_vec());
    // Frameworks that keep the value transposed multiply from the left.
    let product = one_of([
        op(MatMul).of([weights.clone().named("weights"), v.clone()]),
        op(MatMul).of([v, weights.named("weights")]),
    ]);
    product
        .repeat(0..=4, vec![steps![[StaticTranspose, StaticReshape, Reorder]], steps![TypeCast]])
        .maybe(Quantize)
}

/// A tensor, perhaps with its axes in another order.
fn transposed(tensor: Expr) -> Expr {
    tensor.maybe(StaticTranspose)
}

fn plain_scores() -> Vec<Step> {
    scores(0)
}

/// Masks of grouped queries may need another shape of the scores.
fn grouped_scores() -> Vec<Step> {
    scores(1)
}

/// What becomes of `q k` before the softmax: scales, masks, a soft cap, conversions.
pub(super) fn scores(reshapes: usize) -> Vec<Step> {
    let index = || {
        let index = op(GenIndex).of([it()]);
        index.repeat(0..=2, vec![steps![op([Add, Subtract]).of([it(), any()])]])
    };
    let causal = || op(GreaterEqual).of([index(), index()]);
    // Scales and masks of grouped queries get another axis.
    let side = || if reshapes > 0 { any().maybe(StaticReshape) } else { any() };
    let mut choices = vec![
        steps![op(Select).of([causal(), it(), any()])],
        steps![op(Select).of([causal(), any(), it()])],
        steps![op([Multiply, Divide]).of([it(), side()])],
        steps![op([Add, Subtract, Maximum, Minimum]).of([it(), side()])],
        steps![op(Select).of([side(), it(), any()])],
        steps![op(Select).of([side(), any(), it()])],
        steps![Tanh],
        steps![TypeCast],
    ];
    if reshapes > 0 {
        choices.push(steps![StaticReshape]);
    }
    vec![times(0..=8, choices)]
}

/// What becomes of the probabilities before they are multiplied with the value.
fn probabilities() -> Vec<Vec<Step>> {
    vec![
        steps![dropout()],
        steps![op(Multiply).of([it(), any()])],
        steps![op(Select).of([any(), it(), any()])],
        steps![TypeCast],
        steps![[StaticReshape, StaticTranspose, Reorder]],
    ]
}

fn quantized_probabilities() -> Vec<Vec<Step>> {
    let mut choices = probabilities();
    choices.push(steps![Quantize, op(Dequantize).of([it()]).reads(QUANTIZED)]);
    choices
}
