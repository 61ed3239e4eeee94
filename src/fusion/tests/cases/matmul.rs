//! Matrix products.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "matmul/post_ops",
        "floats, bias, post-operations, choice, conversion",
        1,
        "x f32 4x8; w f32 8x6 const; b f32 6 const; r f32 4x6; c boolean 4x6; a MatMul x w; d BiasAdd a b data_format=NXC; \
         e Add r d; s Sigmoid e; h Multiply e s; i Select c h r; j:bf16 TypeCast i",
    )
    .misses(&[
        // The product is wanted outside, or made wider by what rides on it.
        ("e Add r d", "e Add r d; out d; out j"),
        ("r f32 4x6", "r f32 2x4x6"),
    ]),
    case(
        "matmul/post_ops",
        "floats, bias, post-operations, choice, conversion",
        1,
        "x f16 4x8; w f16 8x6 const; r f16 4x6; a MatMul x w; d Multiply a r; e GELU d; f Maximum r e; q:f32 TypeCast f; \
         z:u8 Quantize q",
    ),
    case(
        "matmul/dropout",
        "floats, bias, post-operations, dropout",
        2,
        "x f32 4x8; w f32 8x6 const; b f32 6 const; s s64 1; p f32 1; a MatMul x w b; t Tanh a; d,mask Dropout t s s p; e ReLU d; \
         out e; out mask",
    )
    .misses(&[("e ReLU d", "e ReLU a")]),
    case(
        "matmul/views",
        "StaticReshape and StaticTranspose behind",
        2,
        "x f32 2x4x6; w f32 6x6 const; a MatMul x w; b StaticReshape a shape=[2,4,2,3]; \
         c StaticTranspose b order=[0,2,1,3]; d Reorder c",
    )
    .misses(&[("d Reorder c", "d SoftMax c")]),
    case(
        "matmul/views",
        "StaticTranspose and StaticReshape behind",
        1,
        "x bf16 1x2x4x5; w bf16 1x2x5x3; a MatMul x w; b StaticTranspose a order=[0,2,1,3]; c StaticReshape b shape=[1,4,6]",
    ),
    case(
        "matmul/views",
        "StaticTranspose and Reorder behind",
        1,
        "x f32 1x2x4x5; w f32 1x2x5x3; a MatMul x w; e ReLU a; b StaticTranspose e order=[0,2,1,3]; c Reorder b",
    ),
    case(
        "matmul/int8",
        "quantised source and weights (u8/s8 x s8), bias, post-operations",
        1,
        "x u8 4x8; w s8 8x6 const; b f32 6 const; xf Dequantize x zps=[3]; \
         wf Dequantize w qtype=per_channel axis=1 scales=[0.1,0.2,0.3,0.05,0.15,0.25]; a MatMul xf wf b; c GELU a",
    ),
    case(
        "matmul/int8",
        "weights quantised in the graph",
        1,
        "x s8 4x8; w f32 8x6 const; b f32 6 const; xf Dequantize x; wq:s8 Quantize w; wf Dequantize wq; a MatMul xf wf; \
         d BiasAdd a b data_format=NXC; c ReLU d",
    ),
    case(
        "matmul/int8",
        "bf16 arithmetic between type casts",
        1,
        "x u8 4x8; w f32 8x6 const; b f32 6 const; xf Dequantize x; wq:s8 Quantize w; wf Dequantize wq; \
         xb:bf16 TypeCast xf; wb:bf16 TypeCast wf; bb:bf16 TypeCast b; a MatMul xb wb bb; e GELU a",
    ),
    case(
        "matmul/int8",
        "residual that is stored quantised (CPU form, GPU form)",
        1,
        "x u8 4x8; w f32 8x6 const; r s8 4x6; b f32 6 const; xf Dequantize x; wq:s8 Quantize w; wf Dequantize wq; \
         xb:bf16 TypeCast xf; wb:bf16 TypeCast wf; bb:bf16 TypeCast b; a MatMul xb wb bb; \
         rf Dequantize r; rb:bf16 TypeCast rf; e Add a rb; t StaticTranspose e order=[1,0]; f:f32 TypeCast t; \
         g:s8 Quantize f",
    )
    .misses(&[
        // Integers of 32 bits are no quantised source.
        ("x u8 4x8", "x s32 4x8"),
        ("t StaticTranspose e", "out e; t StaticTranspose e"),
    ]),
    case(
        "matmul/int8",
        "residual that is stored quantised (CPU form, GPU form)",
        1,
        "x u8 4x8; w s8 8x6 const; r u8 4x6; xf Dequantize x; wf Dequantize w; a MatMul xf wf; \
         rf Dequantize r zps=[7]; e Add a rf; f ReLU e; g:u8 Quantize f",
    ),
    case(
        "matmul/int8",
        "quantised result, after a multiplication too (SmoothQuant)",
        1,
        "x s8 4x8; w s8 8x6 const; s f32 6 const; xf Dequantize x; wf Dequantize w; a MatMul xf wf; m Multiply a s; \
         q:s8 Quantize m scales=[0.03] zps=[5]",
    ),
    case(
        "matmul/int8",
        "transposed and reshaped result",
        1,
        "x s8 1x2x4x8; w s8 1x2x8x6; xf Dequantize x; wf Dequantize w; a MatMul xf wf; t StaticTranspose a order=[0,2,1,3]; \
         r StaticReshape t shape=[1,4,12]; q:s8 Quantize r",
    ),
    case(
        "matmul/int8",
        "transposed and reshaped result",
        2,
        "x s8 2x4x8; w s8 8x6 const; xf Dequantize x; wf Dequantize w; a MatMul xf wf; r StaticReshape a shape=[2,4,2,3]; \
         t StaticTranspose r order=[0,2,1,3]; q:s8 Quantize t",
    ),
    case(
        "matmul/int8",
        "sum or product with one more operand, conversions before or behind",
        1,
        "x u8 4x8; w s8 8x6 const; s f32 4x6; xf Dequantize x; wf Dequantize w; xb:bf16 TypeCast xf; wb:bf16 TypeCast wf; \
         r:bf16 TypeCast s; c MatMul xb wb; e Add c r; g:f32 TypeCast e; h:u8 Quantize g",
    ),
    case(
        "matmul/int8",
        "sum or product with one more operand, conversions before or behind",
        1,
        "x u8 4x8; w s8 8x6 const; r f32 6; xf Dequantize x; wf Dequantize w; xb:bf16 TypeCast xf; wb:bf16 TypeCast wf; \
         c MatMul xb wb; g:f32 TypeCast c; e Multiply g r; h:u8 Quantize e",
    ),
    case(
        "matmul/int8",
        "sum or product with one more operand, conversions before or behind",
        1,
        "x u8 4x8; w s8 8x6 const; b bf16 6 const; r s8 4x6; xf Dequantize x; wf Dequantize w; xb:bf16 TypeCast xf; \
         wb:bf16 TypeCast wf; rf Dequantize r; rb:bf16 TypeCast rf; c MatMul xb wb b; e Multiply c rb; y Tanh e",
    ),
    case(
        "matmul/int8_weights",
        "source in floats, weights quantised",
        1,
        "x f32 4x8; w s8 8x6 const; wf Dequantize w qtype=per_channel axis=1 scales=[0.1,0.2,0.3,0.05,0.15,0.25]; a MatMul x wf; \
         e Tanh a",
    ),
    case(
        "matmul/int8_weights",
        "the same with bf16 arithmetic",
        1,
        "x bf16 4x8; w s8 8x6 const; wf Dequantize w; wb:bf16 TypeCast wf; a MatMul x wb; e ReLU a",
    ),
    case(
        "matmul/int8_weights",
        "scales given on execution",
        1,
        "x f32 4x8; w u4 8x6; s f32 1x6; wf DynamicDequantize w s qtype=per_group group_shape=[8,1]; a MatMul x wf; \
         e ReLU a",
    )
    .misses(&[("e ReLU a", "e ReLU a; h Exp wf")]),
    case(
        "matmul/int8_weights",
        "scales given on execution",
        1,
        "x f16 4x8; w s4 8x6 const; s f16 2x6 const; z s8 2x6 const; \
         wf DynamicDequantize w s z qtype=per_group group_shape=[4,1]; a MatMul x wf",
    ),
];
