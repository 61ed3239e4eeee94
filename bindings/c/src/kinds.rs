//! The numbers by which primitives, their arguments and queries are known.

use std::ffi::{c_int, c_uint};

use crate::object_types::{dnnl_alg_kind_t, dnnl_prop_kind_t};

/// Flags of normalisations, in bits.
pub type dnnl_normalization_flags_t = c_uint;
/// Statistics are given.
pub const dnnl_use_global_stats: dnnl_normalization_flags_t = 1;
/// There is a factor.
pub const dnnl_use_scale: dnnl_normalization_flags_t = 2;
/// There is a summand.
pub const dnnl_use_shift: dnnl_normalization_flags_t = 4;
/// Negative results become zero.
pub const dnnl_fuse_norm_relu: dnnl_normalization_flags_t = 8;
/// Another tensor is added, then negative results become zero.
pub const dnnl_fuse_norm_add_relu: dnnl_normalization_flags_t = 16;
/// No mean is subtracted.
pub const dnnl_rms_norm: dnnl_normalization_flags_t = 32;

/// The gradient for everything.
pub const dnnl_backward: dnnl_prop_kind_t = 128;
/// The gradient for the source alone.
pub const dnnl_backward_data: dnnl_prop_kind_t = 160;
/// The gradient for the weights.
pub const dnnl_backward_weights: dnnl_prop_kind_t = 192;

macro_rules! kinds {
    ($($name:ident = $value:expr),+ $(,)?) => { $(pub(crate) const $name: c_int = $value;)+ };
}

/// Kinds of primitives.
pub(crate) mod kind {
    use super::c_int;
    kinds! {
        REORDER = 1, SHUFFLE = 2, CONCAT = 3, SUM = 4, CONVOLUTION = 5, DECONVOLUTION = 6, ELTWISE = 7, LRN = 8,
        BATCH_NORMALIZATION = 9, INNER_PRODUCT = 10, RNN = 11, BINARY = 13, MATMUL = 14, RESAMPLING = 15, POOLING = 16,
        REDUCTION = 17, PRELU = 18, SOFTMAX = 19, LAYER_NORMALIZATION = 20, GROUP_NORMALIZATION = 21,
    }
}

/// Arguments of executions.
pub(crate) mod arg {
    use super::c_int;
    kinds! {
        SRC = 1, SRC_1 = 2, SRC_2 = 3, SRC_3 = 4, DST = 17, DST_1 = 18, DST_2 = 19, WEIGHTS = 33, WEIGHTS_1 = 34, WEIGHTS_2 = 35,
        WEIGHTS_3 = 36, BIAS = 41, MEAN = 49, VARIANCE = 50, SCALE = 51, SHIFT = 52,
        WORKSPACE = 64, SCRATCHPAD = 80, DIFF_SRC = 129, DIFF_SRC_1 = 130, DIFF_SRC_2 = 131, DIFF_SRC_3 = 132, DIFF_DST = 145,
        DIFF_DST_1 = 146, DIFF_DST_2 = 147, DIFF_WEIGHTS = 161, DIFF_WEIGHTS_1 = 162, DIFF_WEIGHTS_2 = 163, DIFF_WEIGHTS_3 = 164,
        DIFF_BIAS = 169, DIFF_SCALE = 255, DIFF_SHIFT = 256, DROPOUT_OFFSET = 507, ROUNDING_SEED = 508,
        DROPOUT_MASK = 509, DROPOUT_PROBABILITY = 510, DROPOUT_SEED = 511, ATTR_REDUCTIONS = 512, MULTIPLE_SRC = 1024,
        ATTR_SCALES = 4096, ATTR_ZERO_POINTS = 8192, POST_OP_DW = 16384, ATTR_POST_OP = 32768,
    }
}

/// Queries.
pub(crate) mod query {
    use super::c_int;
    kinds! {
        ENGINE = 1, PRIMITIVE_KIND = 2, NUM_OF_INPUTS = 3, NUM_OF_OUTPUTS = 4, TIME_ESTIMATE = 5, MEMORY_CONSUMPTION = 6,
        SCRATCHPAD_ENGINE = 7, IMPL_INFO = 8, REORDER_SRC_ENGINE = 9, REORDER_DST_ENGINE = 10, PROP_KIND = 11,
        CACHE_BLOB_ID_SIZE = 12, CACHE_BLOB_ID = 13, STRIDES = 14, DILATIONS = 15, PADDING_L = 16, PADDING_R = 17,
        EPSILON = 18, FLAGS = 19, ALG_KIND = 20, ALPHA = 21, BETA = 22, AXIS = 23, LOCAL_SIZE = 24, K = 25, P = 26,
        FACTORS = 27, CELL_KIND = 28, DIRECTION = 29, ACTIVATION_KIND = 30, KERNEL = 31, GROUP_SIZE = 32,
        SRC = 129, DIFF_SRC = 130, WEIGHTS = 131, DIFF_WEIGHTS = 132, DST = 133, DIFF_DST = 134, WORKSPACE = 135,
        SCRATCHPAD = 136, EXEC_ARG = 255,
    }
}

macro_rules! algorithms {
    ($($(#[doc = $doc:literal])* $name:ident = $value:expr),+ $(,)?) => {
        $($(#[doc = $doc])* pub(crate) const $name: dnnl_alg_kind_t = $value;)+
    };
}

algorithms! {
    CONVOLUTION_DIRECT = 1, CONVOLUTION_AUTO = 3, DECONVOLUTION_DIRECT = 10, DECONVOLUTION_WINOGRAD = 11,
    POOLING_MAX = 0x1ff, POOLING_AVG_INCLUDE = 0x2ff, POOLING_AVG_EXCLUDE = 0x3ff,
    LRN_ACROSS = 0xaff, LRN_WITHIN = 0xbff, VANILLA_RNN = 0x1fff, VANILLA_LSTM = 0x2fff, VANILLA_GRU = 0x3fff,
    LBR_GRU = 0x4fff, VANILLA_AUGRU = 0x5fff, LBR_AUGRU = 0x6fff,
    SOFTMAX_INF_AS_ZERO = 0x1002, BINARY_SELECT = 0x1fffc,
    RESAMPLING_NEAREST = 0x2fff0, RESAMPLING_LINEAR = 0x2fff1, REDUCTION_MAX = 0x2fff2, REDUCTION_POWER_SUM = 0x2fffa,
}
