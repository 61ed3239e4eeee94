//! The table of all operations, after the operation pages of the oneDNN Graph documentation; extensions are ours.

use super::super::op_kind::OpKind as K;
#[allow(clippy::wildcard_imports, reason = "the table names nearly all of them")]
use super::attrs::*;
use super::{AttrSpec, Ports, Schema};

const SRC: Ports = all(&["src"]);
const DST: Ports = all(&["dst"]);
const DIFF_SRC: Ports = all(&["diff_src"]);
const SRC_AND_DIFF: Ports = all(&["src", "diff_dst"]);
const DST_AND_DIFF: Ports = all(&["diff_dst", "dst"]);
const PAIR: Ports = all(&["src_0", "src_1"]);
const QUANTIZED: Ports = some(2, &["src", "scales", "zps"]);
const AFFINE: Ports = some(1, &["src", "gamma", "beta"]);
const WITH_STATS: Ports = some(1, &["dst", "mean", "variance"]);
const WEIGHTED: Ports = some(2, &["src", "weights", "bias"]);

/// The schema of a kind.
pub(super) const fn of(kind: K) -> Schema {
    match kind {
        K::Abs
        | K::Exp
        | K::HardSwish
        | K::Log
        | K::Mish
        | K::Reciprocal
        | K::ReLU
        | K::Round
        | K::Sigmoid
        | K::Sqrt
        | K::Square
        | K::Tanh
        | K::Reorder
        | K::TypeCast
        | K::Acos
        | K::Acosh
        | K::Asin
        | K::Asinh
        | K::Atan
        | K::Atanh
        | K::Ceil
        | K::Cos
        | K::Cosh
        | K::Erf
        | K::Floor
        | K::Sign
        | K::Sin
        | K::Sinh
        | K::Tan
        | K::Truncate => op(SRC, DST, &[]),
        K::Clamp => op(SRC, DST, &[MIN, MAX]),
        K::Elu | K::LeakyReLU => op(SRC, DST, &[ALPHA]),
        K::GELU => op(SRC, DST, &[GELU_MODE]),
        K::HardSigmoid => op(SRC, DST, &[ALPHA, BETA]),
        K::Pow => op(SRC, DST, &[BETA]),
        K::SoftPlus => op(SRC, DST, &[BETA_ONE]),
        // The gradient of some reads the destination instead of the source where `use_dst` says so.
        K::AbsBackward | K::HardSwishBackward | K::MishBackward => op(SRC_AND_DIFF, DIFF_SRC, &[]),
        K::ClampBackward => op(SRC_AND_DIFF, DIFF_SRC, &[MIN, MAX, USE_DST]),
        K::EluBackward => op(SRC_AND_DIFF, DIFF_SRC, &[ALPHA, USE_DST]),
        K::GELUBackward => op(SRC_AND_DIFF, DIFF_SRC, &[GELU_MODE]),
        K::HardSigmoidBackward => op(SRC_AND_DIFF, DIFF_SRC, &[ALPHA, BETA]),
        K::ReLUBackward | K::SigmoidBackward | K::SqrtBackward | K::TanhBackward => {
            op(SRC_AND_DIFF, DIFF_SRC, &[USE_DST])
        }
        K::SoftPlusBackward => op(SRC_AND_DIFF, DIFF_SRC, &[BETA_ONE]),

        K::Add
        | K::Divide
        | K::GreaterEqual
        | K::Maximum
        | K::Minimum
        | K::Multiply
        | K::SquaredDifference
        | K::Subtract
        | K::And
        | K::Equal
        | K::Greater
        | K::Less
        | K::LessEqual
        | K::NotEqual
        | K::Or
        | K::Xor
        | K::Modulo
        | K::Power
        | K::Quotient
        | K::Remainder => op(PAIR, DST, &[AUTO_BROADCAST]),
        K::Select => op(all(&["cond", "src_0", "src_1"]), DST, &[AUTO_BROADCAST]),
        K::BiasAdd => op(all(&["src", "bias"]), DST, &[DATA_FORMAT]),
        K::BiasAddBackward => op(all(&["diff_dst"]), all(&["diff_bias"]), &[DATA_FORMAT]),
        K::PReLU => op(all(&["src", "slope"]), DST, &[DATA_FORMAT, PER_CHANNEL_BROADCAST]),
        K::PReLUBackward => {
            op(all(&["src", "slope", "diff_dst"]), all(&["diff_src", "diff_slope"]), &[DATA_FORMAT])
        }

        K::MatMul => op(WEIGHTED, DST, &[TRANSPOSE_A, TRANSPOSE_B, ACCUMULATION_MODE]),
        K::Convolution => op(
            WEIGHTED,
            DST,
            &[STRIDES, PADS_BEGIN, PADS_END, DILATIONS, AUTO_PAD, GROUPS_ONE, DATA_FORMAT, WEIGHTS_FORMAT],
        ),
        K::ConvolutionBackwardData => op(
            some(2, &["diff_dst", "weights", "dst_shape"]),
            DIFF_SRC,
            &[
                STRIDES,
                PADS_BEGIN,
                PADS_END,
                DILATIONS,
                AUTO_PAD,
                OUTPUT_PADDING,
                GROUPS_ONE,
                DATA_FORMAT,
                WEIGHTS_FORMAT,
                DST_SHAPE,
            ],
        ),
        K::ConvolutionBackwardWeights => op(
            some(2, &["src", "diff_dst", "weights_shape"]),
            all(&["diff_weights"]),
            &[
                STRIDES,
                PADS_BEGIN,
                PADS_END,
                DILATIONS,
                AUTO_PAD,
                GROUPS_ONE,
                DATA_FORMAT,
                WEIGHTS_FORMAT,
                WEIGHTS_SHAPE,
            ],
        ),
        K::ConvTranspose => op(
            WEIGHTED,
            DST,
            &[
                STRIDES,
                PADS_BEGIN,
                PADS_END,
                DILATIONS,
                AUTO_PAD,
                OUTPUT_PADDING,
                GROUPS_ONE,
                DATA_FORMAT,
                TRANSPOSED_WEIGHTS_FORMAT,
            ],
        ),
        K::ConvTransposeBackwardData => op(
            all(&["diff_dst", "weights"]),
            DIFF_SRC,
            &[
                STRIDES,
                PADS_BEGIN,
                PADS_END,
                DILATIONS,
                AUTO_PAD,
                OUTPUT_PADDING,
                GROUPS_ONE,
                DATA_FORMAT,
                TRANSPOSED_WEIGHTS_FORMAT,
            ],
        ),
        K::ConvTransposeBackwardWeights => op(
            some(2, &["src", "diff_dst", "weights_shape"]),
            all(&["diff_weights"]),
            &[
                STRIDES,
                PADS_BEGIN,
                PADS_END,
                DILATIONS,
                AUTO_PAD,
                OUTPUT_PADDING,
                GROUPS_ONE,
                DATA_FORMAT,
                TRANSPOSED_WEIGHTS_FORMAT,
                WEIGHTS_SHAPE,
            ],
        ),

        K::AvgPool => op(
            SRC,
            DST,
            &[STRIDES, PADS_BEGIN, PADS_END, KERNEL, EXCLUDE_PAD, AUTO_PAD, ROUNDING_TYPE, DATA_FORMAT],
        ),
        K::AvgPoolBackward => op(
            some(1, &["diff_dst", "src_shape"]),
            DIFF_SRC,
            &[STRIDES, PADS_BEGIN, PADS_END, KERNEL, EXCLUDE_PAD, AUTO_PAD, DATA_FORMAT, SRC_SHAPE],
        ),
        K::MaxPool => op(
            SRC,
            DST,
            &[STRIDES, PADS_BEGIN, PADS_END, KERNEL, AUTO_PAD, POOL_DILATIONS, ROUNDING_TYPE, DATA_FORMAT],
        ),
        K::MaxPoolBackward => op(
            SRC_AND_DIFF,
            DIFF_SRC,
            &[STRIDES, PADS_BEGIN, PADS_END, KERNEL, AUTO_PAD, POOL_DILATIONS, DATA_FORMAT],
        ),

        K::BatchNormInference => {
            op(all(&["src", "gamma", "beta", "mean", "variance"]), DST, &[EPSILON, DATA_FORMAT])
        }
        K::BatchNormForwardTraining => op(
            some(3, &["src", "mean", "variance", "gamma", "beta"]),
            all(&["dst", "running_mean", "running_variance", "batch_mean", "batch_variance"]),
            &[EPSILON, MOMENTUM, DATA_FORMAT],
        ),
        K::BatchNormTrainingBackward => op(
            some(4, &["src", "diff_dst", "mean", "variance", "gamma"]),
            some(1, &["diff_src", "diff_gamma", "diff_beta"]),
            &[EPSILON, DATA_FORMAT],
        ),
        K::GroupNorm => op(AFFINE, WITH_STATS, &[GROUPS, KEEP_STATS, USE_AFFINE, EPSILON_1E5, DATA_FORMAT]),
        K::LayerNorm => op(AFFINE, WITH_STATS, &[KEEP_STATS, BEGIN_NORM_AXIS, USE_AFFINE, EPSILON_1E5]),
        K::LayerNormBackward => op(
            some(4, &["src", "diff_dst", "mean", "variance", "gamma", "beta"]),
            some(1, &["diff_src", "diff_gamma", "diff_beta"]),
            &[BEGIN_NORM_AXIS, USE_AFFINE, EPSILON_1E5],
        ),
        K::RMSNorm => {
            op(some(1, &["src", "gamma"]), some(1, &["dst", "rrms"]), &[EPSILON_1E5, BEGIN_NORM_AXIS])
        }
        K::SoftMax => op(SRC, some(1, &["dst", "stats"]), &[AXIS_ONE, SOFTMAX_MODE]),
        K::LogSoftmax => op(SRC, DST, &[AXIS_LAST]),
        K::SoftMaxBackward => op(DST_AND_DIFF, DIFF_SRC, &[AXIS_ONE]),
        K::LogSoftmaxBackward => op(DST_AND_DIFF, DIFF_SRC, &[AXIS_LAST]),

        K::ReduceL1
        | K::ReduceL2
        | K::ReduceMax
        | K::ReduceMean
        | K::ReduceMin
        | K::ReduceProd
        | K::ReduceSum => op(some(1, &["src", "axes"]), DST, &[AXES, KEEP_DIMS]),
        K::Concat => op(Ports { names: &["src"], required: 1, variadic: true }, DST, &[AXIS]),
        K::GenIndex => op(SRC, DST, &[AXIS]),
        K::Remap => op(some(1, &["src", "fill"]), DST, &[STARTS, STEPS, SHAPE, BORDER]),
        K::Gather => op(all(&["src", "indices"]), DST, &[GATHER_MODE, AXIS_ZERO, BATCH_DIMS]),
        K::Recurrent => op(
            Ports { names: &["src", "weights", "state_weights", "optional"], required: 3, variadic: true },
            some(1, &["dst", "last_state", "last_cell"]),
            &[CELL, DIRECTION, HAS_BIAS, HAS_LENGTHS, HAS_INITIAL_STATE, HAS_INITIAL_CELL, HAS_PEEPHOLES],
        ),
        K::StaticReshape => op(SRC, DST, &[SHAPE, SPECIAL_ZERO]),
        K::StaticTranspose => op(SRC, DST, &[ORDER]),
        K::Interpolate => op(
            some(1, &["src", "sizes"]),
            DST,
            &[RESIZE_MODE, COORDINATE_TRANSFORMATION_MODE, SIZES, RESIZE_SCALES, DATA_FORMAT],
        ),
        K::InterpolateBackward => op(
            some(2, &["src", "diff_dst", "sizes"]),
            DIFF_SRC,
            &[RESIZE_MODE, COORDINATE_TRANSFORMATION_MODE, SIZES, RESIZE_SCALES, DATA_FORMAT],
        ),

        K::Quantize => op(SRC, DST, &[QTYPE, AXIS_ONE, QUANTIZATION_SCALES, ZPS, ROUND_FIRST]),
        K::Dequantize => op(SRC, DST, &[QTYPE, AXIS_ONE, QUANTIZATION_SCALES, ZPS]),
        K::DynamicQuantize => op(QUANTIZED, DST, &[QTYPE, AXIS_ONE]),
        K::DynamicDequantize => op(QUANTIZED, DST, &[GROUPED_QTYPE, AXIS_ONE, GROUP_SHAPE]),
        K::Dropout => op(all(&["src", "seed", "offset", "probability"]), some(1, &["dst", "mask"]), &[]),
        K::End => op(SRC, all(&[]), &[]),
        K::Wildcard => {
            let any = Ports { names: &["tensor"], required: 0, variadic: true };
            Schema { inputs: any, outputs: any, attrs: &[], open: true }
        }
    }
}

const fn op(inputs: Ports, outputs: Ports, attrs: &'static [AttrSpec]) -> Schema {
    Schema { inputs, outputs, attrs, open: false }
}

const fn all(names: &'static [&'static str]) -> Ports {
    some(names.len(), names)
}

const fn some(required: usize, names: &'static [&'static str]) -> Ports {
    Ports { names, required, variadic: false }
}
