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
        "sdp/backward",
        "from result and its gradient",
        6,
        "q f32 1x2x4x8; k f32 1x2x5x8; v f32 1x2x5x6; f f32 1; m f32 1x1x4x5; o f32 1x2x4x6; d f32 1x2x4x6; l f32 1x2x4x1; \
         s MatMul q k transpose_b=true; t Divide s f; u Add t m; e Subtract u l; p Exp e; dv MatMul p d transpose_a=true; \
         dp MatMul d v transpose_b=true; r Multiply o d; c ReduceSum r axes=[3] keep_dims=true; g Subtract dp c; ds Multiply p g; \
         dt Divide ds f; dq MatMul dt k; dk MatMul dt q transpose_a=true; out dq; out dk; out dv",
    )
    .misses(&[("ds Multiply p g", "ds Add p g"), ("dt Divide ds f", "dt Tanh ds")]),
    case(
        "sdp/backward",
        "from result and its gradient",
        8,
        "q bf16 1x2x4x8; k bf16 1x2x4x8; v bf16 1x2x4x8; f f32 1; m f32 1x1x4x4; o bf16 1x2x4x8; d bf16 1x2x4x8; l f32 1x2x4x1; \
         s:f32 MatMul q k transpose_b=true; t Multiply s f; u Add t m; e Subtract u l; p Exp e; pb:bf16 TypeCast p; \
         dv MatMul pb d transpose_a=true; dp:f32 MatMul d v transpose_b=true; r:f32 Multiply o d; \
         c ReduceSum r axes=[3] keep_dims=true; g Subtract dp c; ds Multiply g p; dt Multiply ds f; db:bf16 TypeCast dt; \
         dq MatMul db k; dk MatMul db q transpose_a=true; dm ReduceSum ds axes=[1] keep_dims=true; dmb:bf16 TypeCast dm; \
         out dq; out dk; out dv; out dmb",
    ),
    case(
        "sdp/backward",
        "from result and its gradient",
        6,
        "q f16 1x2x4x8; k f16 1x2x4x8; v f16 1x2x4x8; f f32 1; h f32 1; w boolean 1x1x4x4; o f16 1x2x4x8; d f16 1x2x4x8; \
         l f32 1x2x4x1; s:f32 MatMul q k transpose_b=true; t Divide s f; u Select w t h; e Subtract u l; p Exp e; \
         pb:f16 TypeCast p; dv MatMul pb d transpose_a=true; dp:f32 MatMul d v transpose_b=true; r:f32 Multiply o d; \
         c ReduceSum r axes=[3] keep_dims=true; g Subtract dp c; ds Multiply p g; dt Divide ds f; db:f16 TypeCast dt; \
         dq MatMul db k; dk MatMul db q transpose_a=true; out dq; out dk; out dv",
    ),
    case(
        "sdp/backward",
        "from probabilities that were kept",
        5,
        "p f32 1x2x4x4; q f32 1x2x4x8; k f32 1x2x4x8; v f32 1x2x4x8; f f32 1; d f32 1x2x4x8; dv MatMul p d transpose_a=true; \
         dp MatMul d v transpose_b=true; ds SoftMaxBackward dp p axis=-1; dt Divide ds f; dq MatMul dt k; \
         dk MatMul dt q transpose_a=true; out dq; out dk; out dv",
    ),
    case(
        "sdp/gqa_backward",
        "gradients of grouped queries",
        6,
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
        8,
        concat!(
            grouped_backward!(),
            "s MatMul q k transpose_b=true; t Divide s f; u Add t m; e Subtract u l; p Exp e; pd Dropout p z z d; \
             dw MatMul pd o transpose_a=true; dv ReduceSum dw axes=[2] keep_dims=true; dp MatMul o v transpose_b=true; \
             dd Dropout dp z z d; ds SoftMaxBackward dd p axis=-1; dt Divide ds f; dq MatMul dt k; dj MatMul dt q transpose_a=true; \
             dk ReduceSum dj axes=[2] keep_dims=true; dm ReduceSum ds axes=[1,2] keep_dims=true; \
             out dq; out dk; out dv; out dm"
        ),
    ),
    case(
        "sdp/gqa_backward",
        "from result and its gradient",
        6,
        "q f32 1x2x3x4x8; k f32 1x2x1x5x8; v f32 1x2x1x5x8; f f32 1; m f32 1x1x1x4x5; o f32 1x2x3x4x8; d f32 1x2x3x4x8; \
         l f32 1x2x3x4x1; s MatMul q k transpose_b=true; t Divide s f; u Add t m; e Subtract u l; p Exp e; \
         dw MatMul p d transpose_a=true; dv ReduceSum dw axes=[2] keep_dims=true; dp MatMul d v transpose_b=true; r Multiply o d; \
         c ReduceSum r axes=[4] keep_dims=true; g Subtract dp c; ds Multiply p g; dt Divide ds f; dq MatMul dt k; \
         dj MatMul dt q transpose_a=true; dk ReduceSum dj axes=[-3] keep_dims=false; out dq; out dk; out dv",
    ),
    case(
        "sdp/gqa_backward",
        "from result and its gradient",
        6,
        "q bf16 1x2x3x4x8; k bf16 1x2x1x5x8; v bf16 1x2x1x5x8; f f32 1; m f32 1x1x1x4x5; o bf16 1x2x3x4x8; d bf16 1x2x3x4x8; \
         l f32 1x2x3x4x1; s:f32 MatMul q k transpose_b=true; t Divide s f; u Add t m; e Subtract u l; p Exp e; pb:bf16 TypeCast p; \
         dw MatMul pb d transpose_a=true; dv ReduceSum dw axes=[2] keep_dims=true; dp:f32 MatMul d v transpose_b=true; \
         r:f32 Multiply o d; c ReduceSum r axes=[4] keep_dims=true; g Subtract dp c; ds Multiply p g; dt Divide ds f; \
         db:bf16 TypeCast dt; dq MatMul db k; dj MatMul db q transpose_a=true; dk ReduceSum dj axes=[2] keep_dims=true; \
         out dq; out dk; out dv",
    ),
];
