//! Convolutions and what rides on them.

use super::shared::{
    bias, converted, post_ops, quantized_post_ops, quantized_source, quantized_weights, select, views,
};
use crate::formula::{Expr, any, it, op};
use crate::fusion::pattern::Pattern;
use crate::graph::OpKind::{BatchNormInference, Convolution, Quantize, TypeCast};
use crate::graph::{Graph, Op};

pub(super) fn patterns() -> Vec<Pattern> {
    let floats = || op(Convolution).then(bias()).maybe(BatchNormInference).then(post_ops());
    let int8 = |src: Expr, weights: Expr| {
        let result = op(Convolution).of([src, weights]).each(converted()).then(bias());
        result.then(quantized_post_ops()).then(views(2)).maybe(TypeCast).maybe(Quantize)
    };
    vec![
        Pattern::new(
            "conv/int8",
            94,
            &[
                "quantised source and weights (u8/s8 x s8), bias, post-operations, quantised result",
                "weights quantised in the graph",
                "residual that is stored quantised (CPU form, GPU form)",
                "bf16 arithmetic between type casts, with a residual too (CPU form, GPU form)",
                "reshaped result",
                "sum or product with one more operand, conversions before or behind",
            ],
            int8(quantized_source(), quantized_weights()),
        ),
        Pattern::new(
            "conv/int8_weights",
            93,
            &["source in floats, weights quantised"],
            int8(any(), quantized_weights()),
        ),
        Pattern::new(
            "conv/depthwise",
            92,
            &["a convolution by single elements, then one of each channel by itself"],
            op(Convolution)
                .when("its kernel is one element", |graph, op| kernel(graph, op) == Some(1))
                .then(bias())
                .maybe(BatchNormInference)
                .then(post_ops())
                .then(op(Convolution).of([it(), any()]).when("each channel is a group", is_depthwise))
                .then(bias())
                .maybe(BatchNormInference)
                .then(post_ops())
                .maybe(TypeCast),
        ),
        Pattern::new(
            "conv/post_ops",
            90,
            &[
                "floats, bias, batch normalisation, post-operations, choice, conversion",
                "swish behind (x * sigmoid(x))",
            ],
            floats().then(select()).maybe(TypeCast).maybe(Quantize),
        ),
    ]
}

/// The elements of a convolution's kernel along the spatial axes.
fn kernel(graph: &Graph, op: &Op) -> Option<usize> {
    let dims = graph.tensor(*op.inputs.get(1)?)?.known_dims()?;
    let spatial = match op.attrs.string("weights_format").ok()? {
        "XIO" => dims.get(..dims.len().checked_sub(2)?)?,
        _ => dims.get(2..)?,
    };
    Some(spatial.iter().product())
}

/// Whether every channel is a group of its own.
fn is_depthwise(graph: &Graph, op: &Op) -> bool {
    let channels = || {
        let dims = graph.tensor(*op.inputs.first()?)?.known_dims()?;
        let at = if op.attrs.string("data_format").ok()? == "NCX" { 1 } else { dims.len().checked_sub(1)? };
        dims.get(at).copied()
    };
    op.attrs.s64("groups").ok().is_some_and(|groups| groups > 1 && usize::try_from(groups).ok() == channels())
}
