//! Normalisations, pooling, and operations along axes.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "pool/post_ops",
        "post-operations",
        1,
        "x f32 1x4x4x4; r f32 1x4x3x3; p AvgPool x; a Add p r; b Multiply a r",
    )
    .misses(&[("a Add p r", "z Exp p; a Add p r")]),
    case(
        "pool/int8",
        "quantised source and result",
        1,
        "x u8 1x4x4x4; xf Dequantize x zps=[2]; p AvgPool xf exclude_pad=true; q:u8 Quantize p scales=[0.05]",
    ),
    case(
        "pool/int8",
        "residual that is stored quantised (CPU form, GPU form)",
        1,
        "x u8 1x4x4x4; r u8 1x4x3x3; xf Dequantize x; p MaxPool xf; rf Dequantize r; a Add p rf; q:u8 Quantize a",
    ),
    case(
        "pool/int8",
        "reshaped result",
        1,
        "x u8 1x4x4x4; r u8 1x4x3x3; xf Dequantize x; p MaxPool xf; rf Dequantize r; a Add p rf; t StaticReshape a shape=[4,9]; \
         q:u8 Quantize t",
    )
    .misses(&[("q:u8 Quantize t", "q Exp t")]),
    case(
        "pool/int8",
        "transposed result",
        1,
        "x u8 1x4x4x4; xf Dequantize x; p MaxPool xf; t StaticTranspose p order=[0,2,3,1]; q:u8 Quantize t scales=[0.05]",
    ),
    case(
        "bn/post_ops",
        "with given statistics, ReLU (here: any post-operations)",
        1,
        "x f32 1x4x3x3; g f32 4 const; b f32 4 const; v f32 4 const; n BatchNormInference x g b b v; r ReLU n",
    )
    .misses(&[("r ReLU n", "r SoftMax n")]),
    case(
        "bn/int8",
        "quantised source and result, ReLU",
        1,
        "x s8 1x4x3x3; g f32 4 const; b f32 4 const; v f32 4 const; xf Dequantize x; n BatchNormInference xf g b b v; r ReLU n; q:s8 Quantize r",
    )
    .misses(&[("r ReLU n", "r Tanh n")]),
    case(
        "bn/backward_relu",
        "gradient through ReLU",
        1,
        "x f32 1x4x3x3; d f32 1x4x3x3; g f32 4; r ReLUBackward x d; a,b,c BatchNormTrainingBackward x r g g g",
    )
    .misses(&[("r ReLUBackward", "r TanhBackward")]),
    case(
        "layernorm/post_ops",
        "LayerNorm or RMSNorm, post-operations, conversion, quantised result",
        1,
        "x f32 4x8; g f32 8 const; n RMSNorm x g; r Multiply n x; q:u8 Quantize r",
    )
    .misses(&[("n RMSNorm x g", "n,s RMSNorm x g; out s; out q")]),
    case(
        "layernorm/post_ops",
        "LayerNorm or RMSNorm, post-operations, conversion, quantised result",
        1,
        "x bf16 4x8; g f32 8 const; n LayerNorm x g g keep_stats=false; r GELU n; c:f32 TypeCast r; q:s8 Quantize c",
    ),
    case(
        "groupnorm/post_ops",
        "post-operations, conversion, quantised result",
        1,
        "x f32 2x4x3x3; g f32 4 const; n GroupNorm x g g groups=2 keep_stats=false; r ReLU n; c:bf16 TypeCast r",
    )
    .misses(&[("r ReLU n", "r ReLU n; z Exp n")]),
    case(
        "groupnorm/post_ops",
        "post-operations, conversion, quantised result",
        1,
        "x f32 2x4x3x3; g f32 4 const; n GroupNorm x g g groups=2 keep_stats=false; q:u8 Quantize n",
    ),
    case(
        "softmax/post_ops",
        "SoftMax (here: LogSoftmax too), post-operations, conversion, quantised result",
        1,
        "x f32 4x8; s SoftMax x; m Multiply s x; c:f16 TypeCast m",
    )
    .misses(&[("s SoftMax x", "s,l SoftMax x; out l; out c")]),
    case(
        "softmax/post_ops",
        "SoftMax (here: LogSoftmax too), post-operations, conversion, quantised result",
        1,
        "x bf16 4x8; s:f32 SoftMax x; q:u8 Quantize s scales=[0.0039]",
    ),
    case(
        "reduction/post_ops",
        "any reduction, post-operations",
        1,
        "x f32 4x8; r ReduceL1 x axes=[1] keep_dims=true; s Sqrt r; t Add s s",
    )
    .misses(&[("t Add s s", "t Add s x")]),
    case(
        "reduction/post_ops",
        "any reduction, post-operations",
        1,
        "x f32 2x4x8; y f32 2x8; r ReduceMean x axes=[1] keep_dims=false; s Subtract y r; t:f16 TypeCast s",
    ),
    case(
        "interpolate/post_ops",
        "resizing, post-operations",
        1,
        "x f32 1x4x3x3; i Interpolate x sizes=[6,6]; s Abs i",
    )
    .misses(&[("s Abs i", "s SoftMax i")]),
    case(
        "interpolate/post_ops",
        "resizing, post-operations",
        1,
        "x f32 1x4x3x3; y f32 1x4x6x5; i Interpolate x sizes=[6,5] mode=linear; s Multiply i y; t:bf16 TypeCast s",
    ),
];
