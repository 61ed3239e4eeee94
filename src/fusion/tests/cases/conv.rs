//! Convolutions and transposed convolutions.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "conv/post_ops",
        "floats, bias, batch normalisation, post-operations, choice, conversion",
        1,
        "x f32 1x4x5x5; w f32 6x4x3x3 const; g f32 6 const; v f32 6 const; b f32 6 const; r f32 1x6x3x3; c Convolution x w; d BiasAdd c b; \
         n BatchNormInference d g b b v; e Add n r; f Clamp e min=0.0 max=6.0; i:f16 TypeCast f",
    )
    .misses(&[("d BiasAdd c b;", "d BiasAdd c b; z Exp d;")]),
    case(
        "conv/post_ops",
        "floats, bias, batch normalisation, post-operations, choice, conversion",
        1,
        "x f16 1x5x5x4; w f16 3x3x4x6 const; b f16 6 const; r f16 1x5x5x6; \
         c Convolution x w b data_format=NXC weights_format=XIO pads_begin=[1,1] pads_end=[1,1]; e Add c r; f LeakyReLU e alpha=0.1; \
         g:f32 TypeCast f; q:s8 Quantize g",
    ),
    case(
        "conv/post_ops",
        "floats, bias, batch normalisation, post-operations, choice, conversion",
        1,
        "x bf16 1x4x5x5; w bf16 6x4x3x3 const; r bf16 1x6x3x3; h boolean 1x6x3x3; c Convolution x w; d Tanh c; e Select h d r",
    ),
    case(
        "conv/post_ops",
        "swish behind (x * sigmoid(x))",
        1,
        "x f32 1x4x5x5; w f32 6x4x3x3 const; r f32 1x6x3x3; c Convolution x w; s Sigmoid c; h Multiply s c; e Add h r",
    ),
    case(
        "conv/depthwise",
        "a convolution by single elements, then one of each channel by itself",
        2,
        "x f32 1x4x5x5; w f32 6x4x1x1 const; b f32 6 const; c Convolution x w; d BiasAdd c b; r ReLU d; \
         v f32 6x1x3x3 const; e Convolution r v groups=6; f BiasAdd e b; g ReLU f",
    )
    .misses(&[
        ("w f32 6x4x1x1", "w f32 6x4x2x2"),
        ("v f32 6x1x3x3 const; e Convolution r v groups=6", "v f32 6x3x3x3 const; e Convolution r v groups=2"),
        ("r ReLU d", "r ReLU d; s Exp r"),
    ]),
    case(
        "conv/int8",
        "quantised source and weights (u8/s8 x s8), bias, post-operations, quantised result",
        1,
        "x u8 1x4x5x5; w s8 6x4x3x3 const; b f32 6 const; xf Dequantize x zps=[3]; \
         wf Dequantize w qtype=per_channel axis=0 scales=[0.1,0.02,0.03,0.05,0.15,0.025]; c Convolution xf wf; \
         d BiasAdd c b; f ReLU d; h:u8 Quantize f",
    ),
    case(
        "conv/int8",
        "weights quantised in the graph",
        1,
        "x s8 1x4x5x5; w f32 6x4x3x3 const; b f32 6 const; xf Dequantize x; wq:s8 Quantize w; wf Dequantize wq; \
         c Convolution xf wf b; f Elu c alpha=0.5; h:s8 Quantize f zps=[4]",
    ),
    case(
        "conv/int8",
        "residual that is stored quantised (CPU form, GPU form)",
        1,
        "x u8 1x4x5x5; w s8 6x4x3x3 const; r s8 1x6x3x3; b f32 6 const; xf Dequantize x; wf Dequantize w; c Convolution xf wf; \
         d BiasAdd c b; rf Dequantize r; e Add d rf; f ReLU e; h:u8 Quantize f",
    ),
    case(
        "conv/int8",
        "bf16 arithmetic between type casts, with a residual too (CPU form, GPU form)",
        1,
        "x u8 1x4x5x5; w s8 6x4x3x3 const; r s8 1x6x3x3; b f32 6 const; xf Dequantize x; wf Dequantize w; xb:bf16 TypeCast xf; \
         wb:bf16 TypeCast wf; bb:bf16 TypeCast b; c Convolution xb wb bb; rf Dequantize r; rb:bf16 TypeCast rf; e Add c rb; \
         f ReLU e; g:f32 TypeCast f; h:u8 Quantize g",
    ),
    case(
        "conv/int8",
        "reshaped result",
        1,
        "x u8 1x4x5x5; w s8 6x4x3x3 const; r s8 1x6x3x3; b f32 6 const; xf Dequantize x; wf Dequantize w; c Convolution xf wf; \
         d BiasAdd c b; rf Dequantize r; e Add d rf; f ReLU e; g StaticReshape f shape=[1,54]; h:u8 Quantize g",
    )
    .misses(&[("f ReLU e", "f ReLU e; out e; out h")]),
    case(
        "conv/int8",
        "sum or product with one more operand, conversions before or behind",
        1,
        "x u8 1x4x5x5; w s8 6x4x3x3 const; r bf16 1x6x3x3; xf Dequantize x; wf Dequantize w; xb:bf16 TypeCast xf; \
         wb:bf16 TypeCast wf; c Convolution xb wb; e Multiply c r; g:f32 TypeCast e; h:u8 Quantize g",
    ),
    case(
        "conv/int8",
        "sum or product with one more operand, conversions before or behind",
        1,
        "x u8 1x4x5x5; w s8 6x4x3x3 const; r s8 1x6x3x3; xf Dequantize x; wf Dequantize w; xb:bf16 TypeCast xf; \
         wb:bf16 TypeCast wf; rf Dequantize r; rb:bf16 TypeCast rf; c Convolution xb wb; e Multiply c rb; f f32 1x6x3x3; \
         g:f32 TypeCast e; t Add g f; h:s8 Quantize t",
    ),
    case(
        "conv/int8_weights",
        "source in floats, weights quantised",
        1,
        "x f32 1x4x5x5; w f32 6x4x3x3 const; wq:s8 Quantize w; wf Dequantize wq; c Convolution x wf; f ReLU c",
    )
    .misses(&[("wq:s8 Quantize w; wf Dequantize wq", "wf Exp w")]),
    case(
        "conv_transpose/post_ops",
        "floats, bias, post-operations",
        1,
        "x f32 1x4x5x5; w f32 4x6x3x3 const; b f32 6 const; c ConvTranspose x w; d BiasAdd c b; r Tanh d",
    )
    .misses(&[("r Tanh d", "r SoftMax d")]),
    case(
        "conv_transpose/int8",
        "quantised source and weights, bias, post-operations",
        1,
        "x u8 1x4x5x5; w s8 4x6x3x3 const; b f32 6 const; xf Dequantize x zps=[2]; \
         wf Dequantize w qtype=per_channel axis=1 scales=[0.1,0.02,0.03,0.05,0.15,0.025]; c ConvTranspose xf wf b; d ReLU c",
    ),
    case(
        "conv_transpose/int8",
        "quantised result",
        1,
        "x s8 1x4x5x5; w f32 4x6x3x3 const; xf Dequantize x; wq:s8 Quantize w; wf Dequantize wq; \
         c ConvTranspose xf wf strides=[2,2]; q:s8 Quantize c",
    ),
    case(
        "conv_transpose/int8",
        "residual that is stored quantised (CPU form, GPU form)",
        1,
        "x u8 1x4x5x5; w s8 4x6x3x3 const; r s8 1x6x7x7; xf Dequantize x; wf Dequantize w; c ConvTranspose xf wf; \
         rf Dequantize r; e Add c rf; q:u8 Quantize e",
    )
    .misses(&[("x u8 1x4x5x5", "x s32 1x4x5x5")]),
];
