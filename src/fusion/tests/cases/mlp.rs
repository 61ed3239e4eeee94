//! Gated multi-layer perceptrons, and binary operations around products.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "mlp/gated",
        "floats, swish",
        2,
        "x f32 4x8; u f32 8x6 const; g f32 8x6 const; d f32 6x8 const; a MatMul x u; b MatMul x g; s Sigmoid b; w Multiply s b; \
         m Multiply a w; y MatMul m d",
    )
    .misses(&[("b MatMul x g", "z f32 4x8; b MatMul z g"), ("m Multiply a w", "m GreaterEqual a w")]),
    case(
        "mlp/gated",
        "floats, activation of one operation",
        2,
        "x bf16 4x8; u bf16 8x6 const; g bf16 8x6 const; d bf16 6x8 const; a:f32 MatMul x u; b:f32 MatMul x g; s GELU b; \
         m Multiply a s; n:bf16 TypeCast m; y:f32 MatMul n d",
    ),
    case(
        "mlp/gated",
        "floats, no activation",
        2,
        "x f16 4x8; u f16 8x6 const; g f16 8x6 const; d f16 6x8 const; a MatMul x u; b MatMul x g; m Multiply a b; y MatMul m d",
    ),
    case(
        "mlp/gated",
        "floats, joined by another function than a product",
        2,
        "x f32 4x8; u f32 8x6 const; g f32 8x6 const; d f32 6x8 const; a MatMul x u; b MatMul x g; s Sigmoid b; w Multiply s b; \
         m Subtract a w; y MatMul m d",
    ),
    case(
        "mlp/gated",
        "floats, joined by another function than a product",
        2,
        "x bf16 4x8; u bf16 8x6 const; g bf16 8x6 const; d bf16 6x8 const; a MatMul x u; b MatMul x g; s GELU b; m Add s a; \
         y MatMul m d",
    ),
    case(
        "mlp/gated",
        "floats, several operations on either side, bias, residual",
        4,
        "x f32 4x8; u f32 8x6 const; g f32 8x6 const; d f32 6x8 const; e f32 6 const; h f32 6 const; z f32 1; a MatMul x u e; \
         c Add a z; b MatMul x g h; s Clamp b min=-0.5 max=0.5; t Multiply s b; m Maximum t c; n MatMul m d; y Add n x",
    ),
    case(
        "mlp/gate",
        "(not upstream) the gate alone",
        1,
        "x f32 4x8; u f32 8x6 const; g f32 8x6 const; a MatMul x u; b MatMul x g; s GELU b; m Multiply s a",
    )
    .misses(&[("m Multiply s a", "m Multiply s a; out a; out m")]),
    case(
        "mlp/quantized_gated",
        "weights stored quantised, activation of one operation",
        2,
        "x f16 4x8; u s4 8x6 const; g s4 8x6 const; d s4 6x8 const; s f16 1 const; uf DynamicDequantize u s; \
         gf DynamicDequantize g s; df DynamicDequantize d s; a MatMul x uf; b MatMul x gf; c ReLU b; m Multiply c a; y MatMul m df",
    )
    .misses(&[("m Multiply c a", "m GreaterEqual c a")]),
    case(
        "mlp/quantized_gated",
        "weights stored quantised, joined otherwise",
        2,
        "x f16 4x8; u s4 8x6 const; g s4 8x6 const; d s4 6x8 const; s f16 1 const; uf DynamicDequantize u s; \
         gf DynamicDequantize g s; df DynamicDequantize d s; a MatMul x uf; b MatMul x gf; c ReLU b; m Add c a; y MatMul m df",
    ),
    case(
        "mlp/quantized_gated",
        "weights stored quantised, swish",
        2,
        "x f16 4x8; u u4 8x6 const; g u4 8x6 const; d u4 6x8 const; us f16 2x6 const; uz u4 2x6 const; ds f16 2x8 const; \
         uf DynamicDequantize u us uz qtype=per_group group_shape=[4,1]; gf DynamicDequantize g us uz qtype=per_group group_shape=[4,1]; \
         df DynamicDequantize d ds qtype=per_group group_shape=[3,1]; a MatMul x uf; b MatMul x gf; c Sigmoid b; e Multiply b c; \
         m Multiply e a; y MatMul m df",
    ),
    case(
        "mlp/quantized_gate",
        "(not upstream) the gate alone, weights stored quantised",
        1,
        "x f16 4x8; u s4 8x6 const; g s4 8x6 const; s f16 1 const; uf DynamicDequantize u s; gf DynamicDequantize g s; \
         a MatMul x uf; b MatMul x gf; c ReLU b; m Multiply c a",
    )
    .misses(&[("uf DynamicDequantize u s", "uf DynamicDequantize u s; t Exp uf")]),
    case(
        "bmb/binary_matmul_binary",
        "layers of two products and binary operations",
        5,
        "x f32 4x8; y f32 4x8; v f32 8x2 const; u f32 2x8 const; b f32 8 const; s Add x y; a MatMul s v; c MatMul a u; d Add c b; \
         e Multiply d x; f Add e s; a2 MatMul f v; c2 MatMul a2 u; d2 Multiply c2 x; f2 Add d2 f",
    )
    .misses(&[("a2 MatMul f v", "h SoftMax f; a2 MatMul h v")]),
];
