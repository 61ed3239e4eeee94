//! Names of values, as `dnnl_debug.h` gives them.

use std::ffi::{CStr, CString, c_char, c_uint};
use std::sync::OnceLock;

use crate::desc::tags;
use crate::object_types::{
    dnnl_accumulation_mode_t, dnnl_alg_kind_t, dnnl_cpu_isa_hints_t, dnnl_cpu_isa_t, dnnl_engine_kind_t,
    dnnl_primitive_kind_t, dnnl_prop_kind_t, dnnl_quantization_mode_t, dnnl_rnn_direction_t,
    dnnl_rnn_flags_t, dnnl_rounding_mode_t, dnnl_scratchpad_mode_t,
};
use crate::types::{
    dnnl_data_type_t, dnnl_format_kind_t, dnnl_format_tag_t, dnnl_fpmath_mode_t, dnnl_sparse_encoding_t,
    dnnl_status_t,
};

/// The name of a status.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_status2str(v: dnnl_status_t) -> *const c_char {
    name(STATUSES, v as c_uint, c"unknown status")
}

/// The name of a data type.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_dt2str(v: dnnl_data_type_t) -> *const c_char {
    name(DATA_TYPES, v as c_uint, c"unknown dt")
}

/// The name of a floating-point mode.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_fpmath_mode2str(v: dnnl_fpmath_mode_t) -> *const c_char {
    name(FPMATH_MODES, v as c_uint, c"unknown fpmath_mode")
}

/// The name of an accumulation mode.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_accumulation_mode2str(v: dnnl_accumulation_mode_t) -> *const c_char {
    name(ACCUMULATION_MODES, v as c_uint, c"unknown accumulation_mode")
}

/// The name of a kind of engine.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_engine_kind2str(v: dnnl_engine_kind_t) -> *const c_char {
    name(ENGINE_KINDS, v as c_uint, c"unknown engine_kind")
}

/// The name of a sparse encoding.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_sparse_encoding2str(v: dnnl_sparse_encoding_t) -> *const c_char {
    name(SPARSE_ENCODINGS, v as c_uint, c"unknown sparse_encoding")
}

/// The name of a layout: its letters.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_fmt_tag2str(v: dnnl_format_tag_t) -> *const c_char {
    let names = TAG_NAMES.get_or_init(|| {
        let letters = (2..).map_while(tags::letters);
        ["undef", "any"]
            .into_iter()
            .chain(letters)
            .chain(["format_tag_last"])
            .filter_map(|name| CString::new(name).ok())
            .collect()
    });
    let known = usize::try_from(v).ok().and_then(|i| names.get(i));
    known.map_or(c"unknown fmt_tag".as_ptr(), |name| name.as_ptr())
}

/// The name of what a primitive is for.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_prop_kind2str(v: dnnl_prop_kind_t) -> *const c_char {
    name(PROP_KINDS, v as c_uint, c"unknown prop_kind")
}

/// The name of a kind of primitive.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_prim_kind2str(v: dnnl_primitive_kind_t) -> *const c_char {
    name(PRIMITIVE_KINDS, v as c_uint, c"unknown prim_kind")
}

/// The name of an algorithm.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_alg_kind2str(v: dnnl_alg_kind_t) -> *const c_char {
    name(ALGORITHMS, v as c_uint, c"unknown alg_kind")
}

/// The name of flags of a recurrent primitive.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_rnn_flags2str(v: dnnl_rnn_flags_t) -> *const c_char {
    name(RNN_FLAGS, v as c_uint, c"unknown rnn_flags")
}

/// The name of a direction of a recurrent primitive.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_rnn_direction2str(v: dnnl_rnn_direction_t) -> *const c_char {
    name(RNN_DIRECTIONS, v as c_uint, c"unknown rnn_direction")
}

/// The name of a scratchpad mode.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_scratchpad_mode2str(v: dnnl_scratchpad_mode_t) -> *const c_char {
    name(SCRATCHPAD_MODES, v as c_uint, c"unknown scratchpad_mode")
}

/// The name of a rounding mode.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_rounding_mode2str(v: dnnl_rounding_mode_t) -> *const c_char {
    name(ROUNDING_MODES, v as c_uint, c"unknown rounding_mode")
}

/// The name of a quantisation mode.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_quantization_mode2str(v: dnnl_quantization_mode_t) -> *const c_char {
    name(QUANTIZATION_MODES, v as c_uint, c"unknown quantization_mode")
}

/// The name of an instruction set of processors.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_cpu_isa2str(v: dnnl_cpu_isa_t) -> *const c_char {
    name(INSTRUCTION_SETS, v as c_uint, c"unknown cpu_isa")
}

/// The name of hints for instruction sets.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_cpu_isa_hints2str(v: dnnl_cpu_isa_hints_t) -> *const c_char {
    name(INSTRUCTION_SET_HINTS, v as c_uint, c"unknown cpu_isa_hints")
}

/// The name of a runtime.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_runtime2str(v: c_uint) -> *const c_char {
    name(RUNTIMES, v, c"unknown")
}

/// The name of how a descriptor tells its layout.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_fmt_kind2str(v: dnnl_format_kind_t) -> *const c_char {
    name(FORMAT_KINDS, v as c_uint, c"unknown fmt_kind")
}

static TAG_NAMES: OnceLock<Vec<CString>> = OnceLock::new();

fn name(names: &[(c_uint, &'static CStr)], value: c_uint, unknown: &'static CStr) -> *const c_char {
    names.iter().find(|(of, _)| *of == value).map_or(unknown, |(_, name)| *name).as_ptr()
}

const STATUSES: &[(c_uint, &CStr)] = &[
    (0, c"success"),
    (1, c"out_of_memory"),
    (2, c"invalid_arguments"),
    (3, c"unimplemented"),
    (4, c"last_impl_reached"),
    (5, c"runtime_error"),
    (6, c"not_required"),
    (7, c"invalid_graph"),
    (8, c"invalid_graph_op"),
    (9, c"invalid_shape"),
    (10, c"invalid_data_type"),
];

const DATA_TYPES: &[(c_uint, &CStr)] = &[
    (0, c"undef"),
    (1, c"f16"),
    (2, c"bf16"),
    (3, c"f32"),
    (4, c"s32"),
    (5, c"s8"),
    (6, c"u8"),
    (7, c"f64"),
    (8, c"boolean"),
    (9, c"f8_e5m2"),
    (10, c"f8_e4m3"),
    (11, c"s4"),
    (12, c"u4"),
    (13, c"e8m0"),
    (14, c"f4_e2m1"),
    (15, c"f4_e3m0"),
    (16, c"s64"),
    (32_767, c"data_type_max"),
];

const FPMATH_MODES: &[(c_uint, &CStr)] =
    &[(0, c"strict"), (1, c"bf16"), (2, c"f16"), (3, c"any"), (4, c"tf32")];

const ACCUMULATION_MODES: &[(c_uint, &CStr)] =
    &[(0, c"strict"), (1, c"relaxed"), (2, c"any"), (3, c"s32"), (4, c"f32"), (5, c"f16")];

const ENGINE_KINDS: &[(c_uint, &CStr)] = &[(0, c"any"), (1, c"cpu"), (2, c"gpu")];

const SPARSE_ENCODINGS: &[(c_uint, &CStr)] = &[(0, c"undef"), (1, c"csr"), (2, c"packed"), (3, c"coo")];

const PROP_KINDS: &[(c_uint, &CStr)] = &[
    (0, c"undef"),
    (64, c"forward_training"),
    (96, c"forward_inference"),
    (128, c"backward"),
    (160, c"backward_data"),
    (192, c"backward_weights"),
    (193, c"backward_bias"),
];

const PRIMITIVE_KINDS: &[(c_uint, &CStr)] = &[
    (0, c"undef"),
    (1, c"reorder"),
    (2, c"shuffle"),
    (3, c"concat"),
    (4, c"sum"),
    (5, c"convolution"),
    (6, c"deconvolution"),
    (7, c"eltwise"),
    (8, c"lrn"),
    (9, c"batch_normalization"),
    (10, c"inner_product"),
    (11, c"rnn"),
    (12, c"gemm"),
    (13, c"binary"),
    (14, c"matmul"),
    (15, c"resampling"),
    (16, c"pooling"),
    (17, c"reduction"),
    (18, c"prelu"),
    (19, c"softmax"),
    (20, c"layer_normalization"),
    (21, c"group_normalization"),
    (4097, c"sdpa"),
    (4098, c"gated_mlp"),
    (32_767, c"primitive_kind_max"),
];

const ALGORITHMS: &[(c_uint, &CStr)] = &[
    (0, c"undef"),
    (1, c"convolution_direct"),
    (2, c"convolution_winograd"),
    (3, c"convolution_auto"),
    (10, c"deconvolution_direct"),
    (11, c"deconvolution_winograd"),
    (32, c"eltwise_relu"),
    (33, c"eltwise_tanh"),
    (34, c"eltwise_elu"),
    (35, c"eltwise_square"),
    (36, c"eltwise_abs"),
    (37, c"eltwise_sqrt"),
    (38, c"eltwise_linear"),
    (39, c"eltwise_soft_relu"),
    (40, c"eltwise_hardsigmoid"),
    (41, c"eltwise_logistic"),
    (42, c"eltwise_exp"),
    (43, c"eltwise_gelu_tanh"),
    (44, c"eltwise_swish"),
    (45, c"eltwise_log"),
    (46, c"eltwise_clip"),
    (47, c"eltwise_clip_v2"),
    (48, c"eltwise_pow"),
    (49, c"eltwise_gelu_erf"),
    (50, c"eltwise_round"),
    (51, c"eltwise_mish"),
    (52, c"eltwise_hardswish"),
    (256, c"eltwise_relu_use_dst_for_bwd"),
    (257, c"eltwise_tanh_use_dst_for_bwd"),
    (258, c"eltwise_elu_use_dst_for_bwd"),
    (259, c"eltwise_sqrt_use_dst_for_bwd"),
    (260, c"eltwise_logistic_use_dst_for_bwd"),
    (261, c"eltwise_exp_use_dst_for_bwd"),
    (262, c"eltwise_clip_v2_use_dst_for_bwd"),
    (511, c"pooling_max"),
    (767, c"pooling_avg_include_padding"),
    (1023, c"pooling_avg_exclude_padding"),
    (2815, c"lrn_across_channels"),
    (3071, c"lrn_within_channel"),
    (4098, c"softmax_accurate_inf_as_zero"),
    (8191, c"vanilla_rnn"),
    (12_287, c"vanilla_lstm"),
    (16_383, c"vanilla_gru"),
    (20_479, c"lbr_gru"),
    (24_575, c"vanilla_augru"),
    (28_671, c"lbr_augru"),
    (131_056, c"binary_add"),
    (131_057, c"binary_mul"),
    (131_058, c"binary_max"),
    (131_059, c"binary_min"),
    (131_060, c"binary_div"),
    (131_061, c"binary_sub"),
    (131_062, c"binary_ge"),
    (131_063, c"binary_gt"),
    (131_064, c"binary_le"),
    (131_065, c"binary_lt"),
    (131_066, c"binary_eq"),
    (131_067, c"binary_ne"),
    (131_068, c"binary_select"),
    (196_592, c"resampling_nearest"),
    (196_593, c"resampling_linear"),
    (196_594, c"reduction_max"),
    (196_595, c"reduction_min"),
    (196_596, c"reduction_sum"),
    (196_597, c"reduction_mul"),
    (196_598, c"reduction_mean"),
    (196_599, c"reduction_norm_lp_max"),
    (196_600, c"reduction_norm_lp_sum"),
    (196_601, c"reduction_norm_lp_power_p_max"),
    (196_602, c"reduction_norm_lp_power_p_sum"),
    (196_608, c"softmax_accurate"),
    (196_609, c"softmax_log"),
];

const RNN_FLAGS: &[(c_uint, &CStr)] = &[(0, c"undef"), (1, c"rnn_flags_diff_weights_overwrite")];

const RNN_DIRECTIONS: &[(c_uint, &CStr)] = &[
    (0, c"undef"),
    (1, c"unidirectional_left2right"),
    (2, c"unidirectional_right2left"),
    (3, c"bidirectional_concat"),
    (4, c"bidirectional_sum"),
];

const SCRATCHPAD_MODES: &[(c_uint, &CStr)] = &[(0, c"library"), (1, c"user")];

const ROUNDING_MODES: &[(c_uint, &CStr)] = &[(0, c"environment"), (1, c"stochastic")];

const QUANTIZATION_MODES: &[(c_uint, &CStr)] =
    &[(0, c"undef"), (1, c"static_sazp"), (2, c"dynamic_mx"), (3, c"dynamic_fp")];

const INSTRUCTION_SETS: &[(c_uint, &CStr)] = &[
    (0, c"cpu_isa_default"),
    (1, c"cpu_isa_sse41"),
    (3, c"cpu_isa_avx"),
    (7, c"cpu_isa_avx2"),
    (15, c"cpu_isa_avx2_vnni"),
    (31, c"cpu_isa_avx2_vnni_2"),
    (39, c"cpu_isa_avx512_core"),
    (103, c"cpu_isa_avx512_core_vnni"),
    (231, c"cpu_isa_avx512_core_bf16"),
    (495, c"cpu_isa_avx10_1_512"),
    (4079, c"cpu_isa_avx10_1_512_amx"),
    (8175, c"cpu_isa_avx10_1_512_amx_fp16"),
    (131_583, c"cpu_isa_avx10_2"),
    (143_359, c"cpu_isa_avx10_2_amx_2"),
];

const INSTRUCTION_SET_HINTS: &[(c_uint, &CStr)] = &[(0, c"cpu_isa_no_hints"), (1, c"cpu_isa_prefer_ymm")];

const RUNTIMES: &[(c_uint, &CStr)] = &[
    (0, c"none"),
    (1, c"sequential"),
    (2, c"OpenMP"),
    (4, c"TBB"),
    (8, c"threadpool"),
    (256, c"OpenCL"),
    (512, c"SYCL"),
    (1024, c"Level Zero"),
];

const FORMAT_KINDS: &[(c_uint, &CStr)] = &[
    (0, c"undef"),
    (1, c"any"),
    (2, c"blocked"),
    (4, c"sparse"),
    (256, c"opaque"),
    (257, c"opaque"),
    (258, c"opaque"),
    (32_767, c"max"),
];
