//! Convolutions and batch normalisations in training.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "conv/training",
        "convolution, bias, batch normalisation by the batch, post-operations",
        2,
        "x f32 2x2x3x3; w f32 3x2x2x2; b f32 3; a f32 3; v f32 3; g f32 3; h f32 3; r f32 2x3x2x2; c Convolution x w; d BiasAdd c b; \
         y,na,nv,ba,bv BatchNormForwardTraining d a v g h epsilon=0.1 momentum=0.9; e Add y r; z ReLU e; out d; out na; out nv; \
         out ba; out bv; out z",
    )
    .misses(&[("e Add y r", "e Add y r; f Exp e"), ("c Convolution x w", "q Convolution x w; c SoftMax q")]),
    case(
        "conv/training",
        "convolution, bias, batch normalisation by the batch, post-operations",
        2,
        "x bf16 2x3x3x2; w bf16 2x2x2x3; a f32 3; v f32 3; g f32 3; h f32 3; \
         c Convolution x w data_format=NXC weights_format=XIO; y,na,nv,ba,bv BatchNormForwardTraining c a v g h epsilon=0.1 \
         data_format=NXC; z ReLU y; out c; out na; out nv; out ba; out bv; out z",
    ),
    case(
        "conv/training",
        "convolution, bias, batch normalisation by the batch, post-operations",
        2,
        "x f16 2x2x3x3; w f16 3x2x2x2; r f16 2x3x2x2; a f32 3; v f32 3; g f32 3; h f32 3; c Convolution x w; \
         y,na,nv,ba,bv BatchNormForwardTraining c a v g h epsilon=0.1 momentum=0.9; e Add y r; out c; out na; out nv; out ba; out bv; \
         out e",
    ),
    case(
        "conv/backward",
        "gradients of weights and bias from one gradient",
        2,
        "x f32 1x4x5x5; d f32 1x6x3x3; w ConvolutionBackwardWeights x d weights_shape=[6,4,3,3]; b BiasAddBackward d",
    )
    .misses(&[("b BiasAddBackward d", "e SoftMax d; b BiasAddBackward e")]),
    case(
        "conv/backward",
        "gradients of source, weights and bias from one gradient",
        3,
        "x f16 2x2x3x3; z f16 2x3x2x2; d f16 2x3x2x2; w f16 3x2x2x2; e ReLUBackward z d use_dst=true; \
         dw ConvolutionBackwardWeights x e weights_shape=[3,2,2,2]; dx ConvolutionBackwardData e w dst_shape=[2,2,3,3]; \
         db BiasAddBackward e; out dx; out dw; out db",
    ),
    case(
        "conv/backward",
        "through batch normalisation, activation and sum",
        3,
        "x f32 2x2x3x3; c f32 2x3x2x2; z f32 2x3x2x2; d f32 2x3x2x2; k f32 2x3x2x2; r f32 2x2x3x3; w f32 3x2x2x2; a f32 3; v f32 3; \
         g f32 3; s Add d k; e ReLUBackward z s use_dst=true; f,dg,dh BatchNormTrainingBackward c e a v g epsilon=0.1; \
         dw ConvolutionBackwardWeights x f weights_shape=[3,2,2,2]; dx ConvolutionBackwardData f w dst_shape=[2,2,3,3]; y Add dx r; \
         out y; out dw; out dg; out dh",
    ),
    case(
        "conv/backward",
        "through batch normalisation, activation and sum",
        3,
        "x f16 2x3x3x2; c f16 2x2x2x3; z f16 2x2x2x3; d f16 2x2x2x3; w f16 2x2x2x3; a f32 3; v f32 3; g f32 3; \
         e ReLUBackward z d use_dst=true; f,dg,dh BatchNormTrainingBackward c e a v g epsilon=0.1 data_format=NXC; \
         dw ConvolutionBackwardWeights x f weights_shape=[2,2,2,3] data_format=NXC weights_format=XIO; \
         dx ConvolutionBackwardData f w dst_shape=[2,3,3,2] data_format=NXC weights_format=XIO; \
         db BiasAddBackward f data_format=NXC; out dx; out dw; out db; out dg; out dh",
    ),
    case(
        "conv/backward_data",
        "gradient of the source alone, what comes before and behind",
        3,
        "z f32 2x3x2x2; d f32 2x3x2x2; w f32 3x2x2x2; r f32 2x2x3x3; e ReLUBackward z d use_dst=true; \
         dx ConvolutionBackwardData e w dst_shape=[2,2,3,3]; y Add dx r; t TanhBackward r y use_dst=true",
    )
    .misses(&[("y Add dx r", "y SoftMax dx"), ("e ReLUBackward z d use_dst=true", "h Exp z; e LogSoftmaxBackward d z")]),
    case(
        "bn/training",
        "with the statistics of the batch, post-operations",
        1,
        "x f32 2x3x2x2; a f32 3; v f32 3; g f32 3; h f32 3; r f32 2x3x2x2; \
         y,na,nv,ba,bv BatchNormForwardTraining x a v g h epsilon=0.1 momentum=0.9; e Add y r; z ReLU e; out na; out nv; out ba; \
         out bv; out z",
    )
    .misses(&[("z ReLU e", "z SoftMax y")]),
];
