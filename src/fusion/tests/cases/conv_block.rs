//! Residual blocks.

use super::{Case, case};

/// Weights of a block of convolutions.
macro_rules! block {
    () => {
        "x f32 1x4x5x5; w1 f32 4x4x1x1 const; w2 f32 4x4x1x1 const; w3 f32 4x4x1x1 const; w4 f32 4x4x1x1 const; "
    };
}

/// The same, quantised.
macro_rules! int8_block {
    () => {
        "x s8 1x4x5x5; w1 s8 4x4x1x1 const; w2 s8 4x4x1x1 const; w3 s8 4x4x1x1 const; \
         v1 Dequantize w1; v2 Dequantize w2; v3 Dequantize w3; "
    };
}

pub(super) const CASES: &[Case] = &[
    case(
        "conv_block/identity",
        "block with a plain shortcut (ResNet-50, ResNet-34, ResNeXt-101)",
        3,
        concat!(
            block!(),
            "b f32 4 const; a Convolution x w1; ab BiasAdd a b; ar ReLU ab; c Convolution ar w2; cr ReLU c; \
             d Convolution cr w3; s Add d x; t ReLU s"
        ),
    )
    .misses(&[
        ("s Add d x", "s Multiply d x"),
        ("s Add d x", "y f32 1x4x5x5; s Add d y"),
        ("cr ReLU c", "cr Tanh c"),
    ]),
    case(
        "conv_block/identity",
        "block with a plain shortcut (ResNet-50, ResNet-34, ResNeXt-101)",
        3,
        "x bf16 1x5x5x4; w1 bf16 1x1x4x4 const; w2 bf16 3x3x2x4 const; w3 bf16 1x1x4x4 const; \
         a Convolution x w1 data_format=NXC weights_format=XIO; ar ReLU a; \
         c Convolution ar w2 data_format=NXC weights_format=XIO pads_begin=[1,1] pads_end=[1,1] groups=2; cr ReLU c; \
         d Convolution cr w3 data_format=NXC weights_format=XIO; s Add d x; t ReLU s",
    ),
    case(
        "conv_block/projection",
        "block with a convolution on its shortcut (ResNet-50, ResNet-34, ResNeXt-101)",
        3,
        concat!(
            block!(),
            "a Convolution x w1; ar ReLU a; c Convolution ar w2; p Convolution x w4; s Add p c; t ReLU s"
        ),
    )
    .misses(&[("t ReLU s", "t Tanh s"), ("p Convolution x w4", "y f32 1x4x5x5; p Convolution y w4")]),
    case(
        "conv_block/stage",
        "stages of ResNet-50, ResNet-34 and ResNeXt-101",
        7,
        concat!(
            block!(),
            "a Convolution x w1; ar ReLU a; c Convolution ar w2; p Convolution x w4; s Add p c; t ReLU s; \
             a2 Convolution t w1; ar2 ReLU a2; c2 Convolution ar2 w2; s2 Add c2 t; t2 ReLU s2; \
             a3 Convolution t2 w1; ar3 ReLU a3; c3 Convolution ar3 w2; s3 Add c3 t2; t3 ReLU s3"
        ),
    )
    .misses(&[("s3 Add c3 t2", "s3 Add c3 t2; out t2; out t3")]),
    case(
        "conv_block/int8_identity",
        "block with a plain shortcut (ResNet-50, ResNet-34, ResNeXt-101), quantised",
        3,
        concat!(
            int8_block!(),
            "xf Dequantize x; a Convolution xf v1; ar ReLU a; aq:u8 Quantize ar; af Dequantize aq; \
             c Convolution af v2; cr ReLU c; cq:u8 Quantize cr; cf Dequantize cq; d Convolution cf v3; \
             yf Dequantize x; s Add d yf; t ReLU s; tq:u8 Quantize t"
        ),
    )
    .misses(&[("yf Dequantize x", "y s8 1x4x5x5; yf Dequantize y"), ("cr ReLU c", "cr Tanh c")]),
    case(
        "conv_block/int8_projection",
        "block with a convolution on its shortcut (ResNet-50, ResNet-34, ResNeXt-101), quantised",
        3,
        concat!(
            int8_block!(),
            "xf Dequantize x; a Convolution xf v1; ar ReLU a; aq:u8 Quantize ar; af Dequantize aq; \
             c Convolution af v2; p Convolution xf v3; pq:s8 Quantize p; pf Dequantize pq; s Add c pf; t ReLU s; tq:u8 Quantize t"
        ),
    )
    .misses(&[("ar ReLU a", "ar Exp a")]),
    case(
        "conv_block/int8_stage",
        "stages of ResNet-50, ResNet-34 and ResNeXt-101, quantised",
        5,
        concat!(
            int8_block!(),
            "u1 Dequantize w1; u2 Dequantize w2; \
             xf Dequantize x; a Convolution xf v1; ar ReLU a; aq:u8 Quantize ar; af Dequantize aq; \
             c Convolution af v2; p Convolution xf v3; s Add c p; t ReLU s; tq:u8 Quantize t; \
             tf Dequantize tq; a2 Convolution tf u1; ar2 ReLU a2; aq2:u8 Quantize ar2; af2 Dequantize aq2; \
             c2 Convolution af2 u2; tg Dequantize tq; s2 Add c2 tg; t2 ReLU s2; tq2:u8 Quantize t2"
        ),
    )
    .misses(&[("s2 Add c2 tg", "s2 Maximum c2 tg")]),
];
