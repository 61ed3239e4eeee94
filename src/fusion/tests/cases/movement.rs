//! Movement of elements, and functions of elements.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case("reorder/add", "addition", 1, "x f32 4x8; y f32 4x8; r Reorder x; a Add y r")
        .misses(&[("a Add y r", "a Multiply y r")]),
    case(
        "reorder/int8",
        "quantised source and result",
        1,
        "x u8 4x8; xf Dequantize x zps=[3]; r Reorder xf; q:s8 Quantize r scales=[0.05]",
    ),
    case(
        "reorder/int8",
        "residual that is stored quantised (CPU form, GPU form)",
        1,
        "x s8 4x8; y s8 4x8; xf Dequantize x; r Reorder xf; yf Dequantize y; a Add yf r; q:s8 Quantize a",
    )
    .misses(&[("a Add yf r", "a Multiply yf r")]),
    case(
        "concat/int8",
        "quantised sources and result",
        1,
        "x s8 4x8; y s8 4x8; z s8 4x8; xf Dequantize x; yf Dequantize y; zf Dequantize z; c Concat xf yf zf; q:s8 Quantize c",
    )
    .on_opencl(3)
    .misses(&[("zf Dequantize z", "zf TypeCast z")]),
    case(
        "concat/int8",
        "quantised sources and result",
        2,
        "x u8 4x8; y u8 4x8; xf Dequantize x; yf Dequantize y scales=[0.1] zps=[3]; c Concat xf yf; q:u8 Quantize c",
    )
    .on_opencl(3),
    case(
        "quantize/typecast",
        "conversion, then quantisation",
        1,
        "x bf16 4x8; c:f32 TypeCast x; q:u8 Quantize c",
    )
    .misses(&[("q:u8 Quantize c", "q:f16 TypeCast c")]),
    case(
        "quantize/dynamic",
        "scale and zero point from the range of the values",
        1,
        "x f32 4x8; zero f32 1 const; n f32 1 const; least f32 1 const; \
         a ReduceMin x axes=[0,1] keep_dims=false; low Minimum a zero; b ReduceMax x axes=[0,1] keep_dims=false; high Maximum b zero; \
         range Subtract high low; scale Divide range n; divisor Maximum scale least; below Subtract zero low; p Divide below divisor; \
         r Round p; point Clamp r min=0.0 max=255.0; d Divide x divisor; s Round d; m Add s point; q:u8 TypeCast m; z:u8 TypeCast point; \
         out q; out scale; out z",
    )
    .misses(&[("p Divide below divisor", "p Divide below scale"), ("out q;", "out q; out s;")]),
    case(
        "quantize/dynamic",
        "scale times those of the readers' weights",
        1,
        "x f32 2x3x5; zero f32 1 const; n f32 1 const; least f32 1 const; v f32 1 const; w f32 1 const; \
         a ReduceMin x axes=[0,1,2] keep_dims=true; low Minimum a zero; b ReduceMax x axes=[0,1,2] keep_dims=true; high Maximum b zero; \
         range Subtract high low; scale Divide range n; divisor Maximum scale least; below Subtract zero low; p Divide below divisor; \
         r Round p; point Clamp r min=0.0 max=255.0; d Divide x divisor; s Round d; m Add s point; q:u8 TypeCast m; \
         y Multiply scale v; u Multiply w scale; out q; out y; out u",
    ),
    case(
        "pointwise/int8",
        "functions of elements that are stored quantised",
        1,
        "x u8 4x8; y u8 4x8; xf Dequantize x zps=[3]; yf Dequantize y; a Add xf yf; r ReLU a; q:u8 Quantize r scales=[0.05]; \
         b Dequantize q scales=[0.05]; c Tanh b; s:u8 Quantize c",
    ),
    case("pointwise/int8", "quantised result", 1, "x u8 4x8; xf Dequantize x zps=[3]; r Tanh xf; q:s8 Quantize r")
        .misses(&[("q:s8 Quantize r", "q:f16 TypeCast r")]),
    case(
        "shuffle/channels",
        "StaticReshape, StaticTranspose and StaticReshape that shuffle channels",
        1,
        "x f32 1x4x3x3; a StaticReshape x shape=[1,2,2,3,3]; b StaticTranspose a order=[0,2,1,3,4]; \
         c StaticReshape b shape=[1,4,3,3]",
    )
    .misses(&[("order=[0,2,1,3,4]", "order=[0,2,3,1,4]")]),
    case(
        "pointwise/post_ops",
        "binary: Reciprocal and Multiply",
        1,
        "x f32 4x8; y f32 4x8; r Reciprocal x; m Multiply y r; a Add m y; e Exp a; z Subtract a e; c:f16 TypeCast z",
    )
    .misses(&[("e Exp a", "e Exp a; out a; out c")]),
    case(
        "pointwise/post_ops",
        "eltwise: function of one element, post-operations",
        1,
        "x bf16 4x8; y bf16 8; a GELU x; b Multiply a y; c HardSwish b; d Clamp c min=-0.3 max=0.3",
    ),
    case(
        "pointwise/post_ops",
        "binary: function of two elements, post-operations",
        1,
        "x f32 4x8; y f32 8; z f32 4x1; a SquaredDifference x y; b Mish a; c Divide b z; d Minimum y c",
    ),
    case(
        "pointwise/post_ops",
        "sum: chain of additions",
        1,
        "a f32 4x8; b f32 4x8; c f32 4x8; d f32 4x8; s Add a b; t Add s c; u Add d t",
    ),
    case(
        "pointwise/dropout",
        "eltwise: function of one element, dropout",
        1,
        "x f32 4x8; s s64 1; p f32 1; r GELU x; d Dropout r s s p",
    )
    .misses(&[("d Dropout r s s p", "d Dropout r s s p; z Exp r")]),
];
