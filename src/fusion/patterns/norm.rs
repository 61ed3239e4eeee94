//! Normalisations.

use super::shared::{dequantized, post_ops};
use crate::formula::{any, op};
use crate::fusion::pattern::Pattern;
use crate::graph::OpKind::{
    BatchNormInference, BatchNormTrainingBackward, GroupNorm, LayerNorm, Quantize, RMSNorm, ReLU,
    ReLUBackward, TypeCast,
};

pub(super) fn patterns() -> Vec<Pattern> {
    vec![
        Pattern::new(
            "bn/int8",
            79,
            &["quantised source and result, ReLU"],
            op(BatchNormInference).of([dequantized()]).maybe(ReLU).then(Quantize),
        ),
        Pattern::new(
            "bn/post_ops",
            78,
            &["with given statistics, ReLU (here: any post-operations)"],
            op(BatchNormInference).then(post_ops()).maybe(TypeCast).maybe(Quantize),
        ),
        Pattern::new(
            "bn/backward_relu",
            77,
            &["gradient through ReLU"],
            op(BatchNormTrainingBackward).of([any(), op(ReLUBackward)]),
        ),
        Pattern::new(
            "layernorm/post_ops",
            76,
            &["LayerNorm or RMSNorm, post-operations, conversion, quantised result"],
            op([LayerNorm, RMSNorm]).then(post_ops()).maybe(TypeCast).maybe(Quantize),
        ),
        Pattern::new(
            "groupnorm/post_ops",
            75,
            &["post-operations, conversion, quantised result"],
            op(GroupNorm).then(post_ops()).maybe(TypeCast).maybe(Quantize),
        ),
    ]
}
