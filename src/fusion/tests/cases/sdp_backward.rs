//! Gradients of attention.

use super::{Case, case};

/// The sources of the gradients of attention: query and key give scores of 4x4 for two heads.
macro_rules! backward {
    () => {
        "q f32 1x2x4x8; k f32 1x2x4x8; v f32 1x2x4x8; f f32 1; m f32 1x1x4x4; o f32 1x2x4x8; l f32 1x2x4x1; "
    };
}

/// The same for four heads of queries and two of keys and values.
macro_rules! grouped_backward {
    () => {
        "q f32 1x2x2x4x8; k f32 1x2x1x4x8; v f32 1x2x1x4x8; o f32 1x2x2x4x8; l f32 1x2x2x4x1; f f32 1; m f32 1x1x1x4x4; z s64 1; \
         d f32 1; "
    };
}

pub(super) const CASES: &[Case] = &[
    case(
        "sdp/backward",
        "gradients of attention",
        6,
        concat!(
            backward!(),
            "s MatMul q k transpose_b=true; t Multiply s f; u Add t m; e Subtract u l; p Exp e; dv MatMul p o transpose_a=true; \
             dp MatMul o v transpose_b=true; ds SoftMaxBackward dp p axis=-1; dt Multiply ds f; dq MatMul dt k; \
             dk MatMul dt q transpose_a=true; out dq; out dk; out dv"
        ),
    ),
    case(
        "sdp/backward",
        "gradients of attention",
        6,
        "q bf16 1x2x4x8; k bf16 1x2x4x8; v bf16 1x2x4x8; f f32 1; o bf16 1x2x4x8; l f32 1x2x4x1; \
         s:f32 MatMul q k transpose_b=true; t Multiply s f; r GenIndex t axis=-2; c GenIndex t axis=-1; g GreaterEqual r c; \
         w Select g t f; e Subtract w l; p Exp e; pb:bf16 TypeCast p; dv MatMul pb o transpose_a=true; \
         dp:f32 MatMul o v transpose_b=true; ds SoftMaxBackward dp p axis=-1; dt Multiply ds f; db:bf16 TypeCast dt; \
         dq MatMul db k; dk MatMul db q transpose_a=true; out dq; out dk; out dv",
    ),
    case(
        "sdp/backward",
        "with the gradient of a mask, marked by End or reduced",
        7,
        concat!(
            backward!(),
            "s MatMul q k transpose_b=true; t Multiply s f; u Add t m; e Subtract u l; p Exp e; pb:f32 TypeCast p; \
             dv MatMul pb o transpose_a=true; dp MatMul o v transpose_b=true; ds SoftMaxBackward dp p axis=-1; \
             dt Multiply ds f; dq MatMul dt k; dk MatMul dt q transpose_a=true; \
             dm ReduceSum ds axes=[1] keep_dims=true; out dq; out dk; out dv; out dm"
        ),
    )
    .misses(&[
        // Of the probabilities' gradient nothing is left, or they are wanted outside.
        ("dk MatMul dt q transpose_a=true;", "dk Exp q;"),
        ("out dv;", "out dv; out p;"),
    ]),
    case(
        "sdp/backward",
        "with dropout",
        7,
        concat!(
            backward!(),
            "z s64 1; d f32 1; s MatMul q k transpose_b=true; e Subtract s l; p Exp e; pd Dropout p z z d; \
             dv MatMul pd o transpose_a=true; dp MatMul o v transpose_b=true; dd Dropout dp z z d; \
             ds SoftMaxBackward dd p axis=-1; dq MatMul ds k; dk MatMul ds q transpose_a=true; - End ds; \
             out ds; out dq; out dk; out dv"
        ),
    )
    .misses(&[("dd Dropout dp z z d", "dd Exp dp")]),
    case(
        "sdp/gqa_backward",
        "gradients of grouped queries",
        8,
        concat!(
            grouped_backward!(),
            "s MatMul q k transpose_b=true; t Divide s f; e Subtract t l; p Exp e; \
             dw MatMul p o transpose_a=true; dv ReduceSum dw axes=[2] keep_dims=true; dp MatMul o v transpose_b=true; \
             ds SoftMaxBackward dp p axis=-1; dt Divide ds f; dq MatMul dt k; dj MatMul dt q transpose_a=true; \
             dk ReduceSum dj axes=[2] keep_dims=true; - End ds; out dq; out dk; out dv; out ds"
        ),
    )
    .misses(&[("dt Divide ds f", "dt Tanh ds")]),
    case(
        "sdp/gqa_backward",
        "with dropout, with the gradient of a mask",
        10,
        concat!(
            grouped_backward!(),
            "s MatMul q k transpose_b=true; t Divide s f; u Add t m; e Subtract u l; p Exp e; pd Dropout p z z d; \
             dw MatMul pd o transpose_a=true; dv ReduceSum dw axes=[2] keep_dims=true; dp MatMul o v transpose_b=true; \
             dd Dropout dp z z d; ds SoftMaxBackward dd p axis=-1; dt Divide ds f; dq MatMul dt k; dj MatMul dt q transpose_a=true; \
             dk ReduceSum dj axes=[2] keep_dims=true; dm ReduceSum ds axes=[1,2] keep_dims=true; \
             out dq; out dk; out dv; out dm"
        ),
    ),
];
