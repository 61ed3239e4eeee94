//! Attention.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "sdp/float",
        "floats: scale, mask by Add or Select",
        1,
        "q f32 1x2x4x8; k f32 1x2x4x8; v f32 1x2x4x8; f f32 1; m f32 1x1x4x4; s MatMul q k transpose_b=true; t Divide s f; \
         u Add t m; p SoftMax u axis=-1; o MatMul p v; x StaticTranspose o order=[0,2,1,3]; y StaticReshape x shape=[1,4,16]",
    ),
    case(
        "sdp/float",
        "floats: scale, mask by Add or Select",
        1,
        "q f16 1x2x4x8; k f16 1x2x8x4; v f16 1x2x4x8; f f16 1; c boolean 1x1x4x4; s MatMul q k; t Multiply s f; w Select c t f; \
         p SoftMax w axis=-1; o MatMul p v",
    ),
    case(
        "sdp/float",
        "floats: scale, mask by Add or Select",
        1,
        "q f32 1x2x4x8; k f32 1x2x4x8; v f32 1x2x4x8; s MatMul q k transpose_b=true; p SoftMax s axis=-1; o MatMul p v",
    ),
    case(
        "sdp/float",
        "causal mask made of GenIndex and GreaterEqual, at the top left or the bottom right",
        1,
        "q f32 1x2x4x8; k f32 1x2x4x8; v f32 1x2x4x8; f f32 1; s MatMul q k transpose_b=true; t Divide s f; \
         r GenIndex t axis=-2; c GenIndex t axis=-1; g GreaterEqual r c; w Select g t f; p SoftMax w axis=-1; o MatMul p v",
    ),
    case(
        "sdp/float",
        "causal mask made of GenIndex and GreaterEqual, at the top left or the bottom right",
        1,
        "q bf16 1x2x4x8; k bf16 1x2x4x8; v bf16 1x2x4x8; f f32 1; n s32 1; s:f32 MatMul q k transpose_b=true; t Divide s f; \
         r GenIndex t axis=2; c GenIndex t axis=3; r2 Add r n; r3 Subtract r2 n; g GreaterEqual r3 c; w Select g t f; \
         p,l SoftMax w axis=-1; b:bf16 TypeCast p; o MatMul b v; x StaticTranspose o order=[0,2,1,3]; \
         y StaticReshape x shape=[1,4,16]; out l; out y",
    )
    .misses(&[("g GreaterEqual r3 c", "z s32 1; g GreaterEqual r3 z"), ("out l;", "out l; out w;")]),
    case(
        "sdp/float",
        "with statistics for training, dropout",
        1,
        "q f32 1x2x4x8; k f32 1x2x4x8; v f32 1x2x4x8; z s64 1; d f32 1; s MatMul q k transpose_b=true; \
         p,l SoftMax s axis=-1; r Dropout p z z d; o MatMul r v; out l; out o",
    ),
    case(
        "sdp/float",
        "with statistics for training, dropout",
        1,
        "q bf16 1x2x4x8; k bf16 1x2x5x8; v bf16 1x2x5x6; f f32 1; m f32 1x1x4x5; s:f32 MatMul q k transpose_b=true; t Divide s f; \
         u Add t m; p:bf16,l SoftMax u axis=-1 mode=inf_as_zero; o MatMul p v; out l; out o",
    ),
    case(
        "sdp/float",
        "with statistics for training, dropout",
        1,
        "q f16 1x2x4x8; k f16 1x2x4x8; v f16 1x2x4x8; f f32 1; m f32 1x1x4x4; s:f32 MatMul q k transpose_b=true; t Multiply s f; \
         u Add t m; p:f16,l SoftMax u axis=-1 mode=inf_as_zero; o MatMul p v; x StaticTranspose o order=[0,2,1,3]; y Reorder x; \
         out l; out y",
    ),
    case(
        "sdp/float",
        "axes exchanged and stored anew, of what is given and of the result",
        1,
        "q f32 1x4x2x8; k f32 1x4x2x8; v f32 1x4x2x8; qt StaticTranspose q order=[0,2,1,3]; kt StaticTranspose k order=[0,2,1,3]; \
         vt StaticTranspose v order=[0,2,1,3]; qr Reorder qt; kr Reorder kt; vr Reorder vt; s MatMul qr kr transpose_b=true; \
         p SoftMax s axis=-1; o MatMul p vr; x StaticTranspose o order=[0,2,1,3]; y Reorder x",
    ),
    case(
        "sdp/float",
        "probabilities stored anew, with their axes exchanged",
        1,
        "q bf16 1x2x4x8; k bf16 1x2x5x8; v bf16 1x2x5x8; s:f32 MatMul q k transpose_b=true; p:bf16 SoftMax s axis=-1; r Reorder p; \
         o MatMul r v",
    ),
    case(
        "sdp/float",
        "probabilities stored anew, with their axes exchanged",
        1,
        "q f32 1x2x4x8; k f32 1x2x5x8; v f32 1x2x5x8; s MatMul q k transpose_b=true; p SoftMax s axis=-1; \
         t StaticTranspose p order=[0,1,3,2]; r Reorder t; o MatMul r v transpose_a=true",
    ),
    case(
        "sdp/float",
        "soft cap by Tanh (Gemma)",
        1,
        "q bf16 1x2x4x8; k bf16 1x2x4x8; v bf16 1x2x4x8; f f32 1; m f32 1x1x4x4; s:f32 MatMul q k transpose_b=true; \
         t Divide s f; a Tanh t; b Multiply a f; u Add b m; p SoftMax u axis=-1; pb:bf16 TypeCast p; \
         o MatMul pb v",
    ),
    case(
        "sdp/float",
        "GPT-style, two masks",
        3,
        "q f32 1x2x4x8; k f32 1x2x8x4; v f32 1x2x4x8; f f32 1; m f32 1x1x4x4; c boolean 4x4; z s64 1; d f32 1; s MatMul q k; \
         t Multiply f s; a Divide t f; b Tanh a; e Multiply b f; u Add m e; w Select c u f; p SoftMax w axis=-1; \
         r,mask Dropout p z z d; o MatMul r v; out o; out mask",
    )
    .misses(&[("p SoftMax w axis=-1", "p SoftMax w axis=-1; out p")]),
    case(
        "sdp/float",
        "grouped queries on five axes",
        1,
        "q bf16 1x2x2x3x8; k bf16 1x2x1x5x8; v bf16 1x2x1x5x8; f f32 1; m f32 1x1x1x3x5; s:f32 MatMul q k transpose_b=true; \
         t Divide s f; u Add t m; p:bf16,l SoftMax u axis=-1 mode=inf_as_zero; o MatMul p v; out l; out o",
    ),
    case(
        "sdp/float",
        "grouped queries on five axes",
        1,
        "q f32 1x2x2x3x8; k f32 1x2x1x5x8; v f32 1x2x1x5x8; f f32 1; m f32 1x1x1x3x5; s MatMul q k transpose_b=true; \
         t Divide s f; u Add t m; p SoftMax u axis=-1; o MatMul p v",
    ),
    case(
        "sdp/gqa",
        "grouped queries, four axes made five and back",
        1,
        "q f32 1x4x3x8; k f32 1x2x5x8; v f32 1x2x5x8; f f32 1; m f32 1x1x3x5; q5 StaticReshape q shape=[1,2,2,3,8]; \
         k5 StaticReshape k shape=[1,2,1,5,8]; v5 StaticReshape v shape=[1,2,1,5,8]; m5 StaticReshape m shape=[1,1,1,3,5]; \
         s MatMul q5 k5 transpose_b=true; t Multiply s f; u Add t m5; p SoftMax u axis=-1; o MatMul p v5; \
         y StaticReshape o shape=[1,4,3,8]",
    )
    .misses(&[("p SoftMax u axis=-1", "p Sigmoid u")]),
    case(
        "sdp/gqa",
        "the same, its result quantised",
        1,
        "q bf16 1x4x3x8; k bf16 1x2x5x8; v bf16 1x2x5x8; f f32 1; q5 StaticReshape q shape=[1,2,2,3,8]; \
         k5 StaticReshape k shape=[1,2,1,5,8]; v5 StaticReshape v shape=[1,2,1,5,8]; s:f32 MatMul q5 k5 transpose_b=true; \
         t Multiply s f; p:bf16 SoftMax t axis=-1; o:f32 MatMul p v5; y StaticReshape o shape=[1,4,3,8]; z:s8 Quantize y",
    ),
    case(
        "sdp/mqa",
        "many queries of one key and value: the scores change their shape",
        1,
        "q f32 12x8; k f32 8x5; v f32 5x8; m f32 4x3x5; s MatMul q k; t StaticReshape s shape=[4,3,5]; u Add t m; \
         p SoftMax u axis=-1; w StaticReshape p shape=[12,5]; o MatMul w v; y StaticReshape o shape=[4,3,8]",
    )
    .misses(&[("p SoftMax u axis=-1", "p LogSoftmax u axis=-1")]),
    case(
        "sdp/mqa",
        "JAX: value times probabilities",
        1,
        "q bf16 12x8; k bf16 8x5; v bf16 8x5; m bf16 4x3x5; s MatMul q k; t StaticReshape s shape=[4,3,5]; u Add t m; \
         p SoftMax u axis=-1; w StaticReshape p shape=[12,5]; o MatMul v w transpose_b=true",
    ),
    case(
        "sdp/int8",
        "query, key and value stored quantised (u8, s8)",
        1,
        "q u8 1x2x4x8; k s8 1x2x4x8; v s8 1x2x4x8; f f32 1; m f32 1x1x4x4; qf Dequantize q; kf Dequantize k; vf Dequantize v; \
         s MatMul qf kf transpose_b=true; t Divide s f; u Add t m; p SoftMax u axis=-1; pq:u8 Quantize p scales=[0.0039]; \
         pf Dequantize pq scales=[0.0039]; o MatMul pf vf; x StaticTranspose o order=[0,2,1,3]; y StaticReshape x shape=[1,4,16]; \
         z:s8 Quantize y scales=[0.003]",
    )
    .misses(&[("z:s8 Quantize y", "out p; out z; z:s8 Quantize y")]),
    case(
        "sdp/int8",
        "the same with bf16 arithmetic",
        1,
        "q u8 1x2x4x8; k s8 1x2x4x8; v s8 1x2x4x8; f bf16 1; m bf16 1x1x4x4; qf Dequantize q; kf Dequantize k; vf Dequantize v; \
         qb:bf16 TypeCast qf; kb:bf16 TypeCast kf; vb:bf16 TypeCast vf; s MatMul qb kb transpose_b=true; t Divide s f; u Add t m; \
         p SoftMax u axis=-1; p2:f32 TypeCast p; pq:u8 Quantize p2 scales=[0.0039]; pf Dequantize pq scales=[0.0039]; \
         pb:bf16 TypeCast pf; o MatMul pb vb; of:f32 TypeCast o; z:s8 Quantize of scales=[0.003]",
    ),
    case(
        "sdp/int8",
        "stored as f8",
        1,
        "q f8_e4m3 1x2x4x8; k f8_e4m3 1x2x4x8; v f8_e4m3 1x2x4x8; f f32 1; qf Dequantize q scales=[1.0]; kf Dequantize k scales=[1.0]; \
         vf Dequantize v scales=[1.0]; s MatMul qf kf transpose_b=true; t Divide s f; p SoftMax t axis=-1; \
         pq:f8_e4m3 Quantize p scales=[0.01]; pf Dequantize pq scales=[0.01]; o MatMul pf vf; z:f8_e4m3 Quantize o scales=[0.01]",
    ),
    case(
        "sdp/int8",
        "GPT-style, quantised",
        1,
        "q u8 1x2x4x8; k s8 1x2x8x4; v s8 1x2x4x8; f f32 1; m f32 1x1x4x4; c boolean 4x4; qf Dequantize q; kf Dequantize k; \
         vf Dequantize v; s MatMul qf kf; t Divide s f; w Select c t f; u Add w m; p SoftMax u axis=-1; \
         pq:u8 Quantize p scales=[0.0039]; pf Dequantize pq scales=[0.0039]; o MatMul pf vf; z:u8 Quantize o scales=[0.003] zps=[100]",
    ),
    case(
        "sdp/compressed_kv",
        "key and value compressed (s4, u4, s8, u8, in groups)",
        1,
        "q f16 1x2x4x8; k s4 1x2x8x4; v u8 1x2x4x8; ks f16 1x2x2x4; vs f16 1x2x4x2; vz s8 1x2x4x2; m f16 1x1x4x4; \
         kf DynamicDequantize k ks qtype=per_group group_shape=[1,1,4,1]; \
         vf DynamicDequantize v vs vz qtype=per_group group_shape=[1,1,1,4]; \
         s MatMul q kf; u Add s m; p SoftMax u axis=-1; o MatMul p vf",
    )
    .misses(&[("p SoftMax u axis=-1", "p SoftMax u axis=-1; h Exp kf")]),
    case(
        "sdp/compressed_kv",
        "key and value compressed (s4, u4, s8, u8, in groups)",
        1,
        "q f32 1x2x4x8; k s8 1x2x4x8; v u4 1x2x4x8; ks f32 1x2x4x2; kz s8 1x2x4x2; vs f32 1x2x4x2; vz u4 1x2x4x2; f f32 1; \
         kf DynamicDequantize k ks kz qtype=per_group group_shape=[1,1,1,4]; \
         vf DynamicDequantize v vs vz qtype=per_group group_shape=[1,1,1,4]; \
         s MatMul q kf transpose_b=true; u Divide s f; p SoftMax u axis=-1; o MatMul p vf",
    ),
    case(
        "sdp/compressed_k",
        "key compressed, value in floats",
        1,
        "q f16 1x2x4x8; k s4 1x2x8x4; v f16 1x2x4x8; ks f16 1; kf DynamicDequantize k ks; s MatMul q kf; \
         p SoftMax s axis=-1; o MatMul p v",
    )
    .misses(&[("o MatMul p v", "o MatMul p v; h Exp kf")]),
    case(
        "sdp/compressed_v",
        "key in floats, value compressed",
        1,
        "q f16 1x2x4x8; k f16 1x2x8x4; v s8 1x2x4x8; vs f16 1; vf DynamicDequantize v vs; s MatMul q k; \
         p SoftMax s axis=-1; o MatMul p vf",
    )
    .misses(&[("o MatMul p vf", "o MatMul p vf; h Exp vf")]),
];
