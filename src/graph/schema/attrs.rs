//! The attributes that operations share, and the words they allow.

use super::{Absent, AttrSpec, AttrType};

const fn attr(name: &'static str, value: AttrType, absent: Absent) -> AttrSpec {
    AttrSpec { name, value, absent, extension: false }
}

const fn word(name: &'static str, words: &'static [&'static str], absent: &'static str) -> AttrSpec {
    attr(name, AttrType::Word(words), Absent::Word(absent))
}

const fn list(name: &'static str, absent: Absent) -> AttrSpec {
    attr(name, AttrType::S64s, absent)
}

pub(super) const ALPHA: AttrSpec = attr("alpha", AttrType::F32, Absent::Required);
pub(super) const BETA: AttrSpec = attr("beta", AttrType::F32, Absent::Required);
pub(super) const BETA_ONE: AttrSpec = attr("beta", AttrType::F32, Absent::F32(1.0));
pub(super) const MIN: AttrSpec = attr("min", AttrType::F32, Absent::Required);
pub(super) const MAX: AttrSpec = attr("max", AttrType::F32, Absent::Required);
pub(super) const EPSILON: AttrSpec = attr("epsilon", AttrType::F32, Absent::Required);
pub(super) const EPSILON_1E5: AttrSpec = attr("epsilon", AttrType::F32, Absent::F32(1e-5));
pub(super) const MOMENTUM: AttrSpec = attr("momentum", AttrType::F32, Absent::Nothing);

pub(super) const QUANTIZATION_SCALES: AttrSpec = attr("scales", AttrType::F32s, Absent::Required);
pub(super) const RESIZE_SCALES: AttrSpec = attr("scales", AttrType::F32s, Absent::Nothing);

pub(super) const AXIS: AttrSpec = attr("axis", AttrType::S64, Absent::Required);
pub(super) const AXIS_ONE: AttrSpec = attr("axis", AttrType::S64, Absent::S64(1));
pub(super) const AXIS_LAST: AttrSpec = attr("axis", AttrType::S64, Absent::S64(-1));
pub(super) const BEGIN_NORM_AXIS: AttrSpec = attr("begin_norm_axis", AttrType::S64, Absent::S64(-1));
pub(super) const GROUPS: AttrSpec = attr("groups", AttrType::S64, Absent::Required);
pub(super) const GROUPS_ONE: AttrSpec = attr("groups", AttrType::S64, Absent::S64(1));

pub(super) const AXES: AttrSpec = list("axes", Absent::Nothing);
pub(super) const DILATIONS: AttrSpec = list("dilations", Absent::Required);
pub(super) const POOL_DILATIONS: AttrSpec = list("dilations", Absent::Repeat(1, "kernel"));
pub(super) const DST_SHAPE: AttrSpec = list("dst_shape", Absent::Nothing);
pub(super) const GROUP_SHAPE: AttrSpec = list("group_shape", Absent::Nothing);
pub(super) const KERNEL: AttrSpec = list("kernel", Absent::Required);
pub(super) const ORDER: AttrSpec = list("order", Absent::Required);
pub(super) const OUTPUT_PADDING: AttrSpec = list("output_padding", Absent::Repeat(0, "strides"));
pub(super) const PADS_BEGIN: AttrSpec = list("pads_begin", Absent::Required);
pub(super) const PADS_END: AttrSpec = list("pads_end", Absent::Required);
pub(super) const SHAPE: AttrSpec = list("shape", Absent::Required);
pub(super) const SIZES: AttrSpec = list("sizes", Absent::Nothing);
pub(super) const SRC_SHAPE: AttrSpec = list("src_shape", Absent::Nothing);
pub(super) const STARTS: AttrSpec = list("starts", Absent::Required);
pub(super) const STEPS: AttrSpec = list("steps", Absent::Repeat(1, "starts"));
pub(super) const STRIDES: AttrSpec = list("strides", Absent::Required);
pub(super) const WEIGHTS_SHAPE: AttrSpec = list("weights_shape", Absent::Nothing);
pub(super) const ZPS: AttrSpec = list("zps", Absent::Nothing);

pub(super) const EXCLUDE_PAD: AttrSpec = attr("exclude_pad", AttrType::Bool, Absent::Required);
pub(super) const KEEP_DIMS: AttrSpec = attr("keep_dims", AttrType::Bool, Absent::Bool(false));
pub(super) const KEEP_STATS: AttrSpec = attr("keep_stats", AttrType::Bool, Absent::Bool(true));
pub(super) const PER_CHANNEL_BROADCAST: AttrSpec =
    attr("per_channel_broadcast", AttrType::Bool, Absent::Bool(true));
/// The quotient is rounded before the zero point is added, as ONNX has it, not the sum.
pub(super) const ROUND_FIRST: AttrSpec =
    AttrSpec { extension: true, ..attr("round_first", AttrType::Bool, Absent::Nothing) };
pub(super) const SPECIAL_ZERO: AttrSpec = attr("special_zero", AttrType::Bool, Absent::Required);
pub(super) const TRANSPOSE_A: AttrSpec = attr("transpose_a", AttrType::Bool, Absent::Bool(false));
pub(super) const TRANSPOSE_B: AttrSpec = attr("transpose_b", AttrType::Bool, Absent::Bool(false));
pub(super) const USE_AFFINE: AttrSpec = attr("use_affine", AttrType::Bool, Absent::Bool(true));
pub(super) const USE_DST: AttrSpec = attr("use_dst", AttrType::Bool, Absent::Bool(true));

pub(super) const ACCUMULATION_MODE: AttrSpec =
    word("accumulation_mode", &["strict", "relaxed", "any", "f32", "s32", "f16"], "strict");
pub(super) const AUTO_BROADCAST: AttrSpec = word("auto_broadcast", &["none", "numpy"], "numpy");
pub(super) const AUTO_PAD: AttrSpec =
    word("auto_pad", &["None", "SAME_UPPER", "SAME_LOWER", "VALID"], "None");
pub(super) const COORDINATE_TRANSFORMATION_MODE: AttrSpec =
    word("coordinate_transformation_mode", &["half_pixel", "align_corners"], "half_pixel");
pub(super) const DATA_FORMAT: AttrSpec = word("data_format", &["NXC", "NCX"], "NXC");
pub(super) const GELU_MODE: AttrSpec = word("mode", &["gelu_erf", "gelu_tanh"], "gelu_erf");
pub(super) const RESIZE_MODE: AttrSpec =
    attr("mode", AttrType::Word(&["nearest", "linear", "bilinear", "trilinear"]), Absent::Required);
pub(super) const SOFTMAX_MODE: AttrSpec = word("mode", &["none", "inf_as_zero"], "none");
pub(super) const QTYPE: AttrSpec = word("qtype", &["per_tensor", "per_channel"], "per_tensor");
pub(super) const GROUPED_QTYPE: AttrSpec =
    word("qtype", &["per_tensor", "per_channel", "per_group"], "per_tensor");
pub(super) const ROUNDING_TYPE: AttrSpec = word("rounding_type", &["floor", "ceil"], "floor");
pub(super) const WEIGHTS_FORMAT: AttrSpec = word("weights_format", &["XIO", "OIX"], "XIO");
pub(super) const TRANSPOSED_WEIGHTS_FORMAT: AttrSpec = word("weights_format", &["XOI", "IOX"], "XOI");
pub(super) const BORDER: AttrSpec = word("border", &["fill", "edge", "reflect", "wrap"], "fill");
pub(super) const CELL: AttrSpec = attr(
    "cell",
    AttrType::Word(&["relu", "tanh", "logistic", "lstm", "gru", "linear_gru"]),
    Absent::Required,
);
pub(super) const DIRECTION: AttrSpec = word("direction", &["forward", "reverse", "bidirectional"], "forward");
pub(super) const HAS_BIAS: AttrSpec = attr("bias", AttrType::Bool, Absent::Bool(false));
pub(super) const HAS_LENGTHS: AttrSpec = attr("lengths", AttrType::Bool, Absent::Bool(false));
pub(super) const HAS_INITIAL_STATE: AttrSpec = attr("initial_state", AttrType::Bool, Absent::Bool(false));
pub(super) const HAS_INITIAL_CELL: AttrSpec = attr("initial_cell", AttrType::Bool, Absent::Bool(false));
pub(super) const HAS_PEEPHOLES: AttrSpec = attr("peepholes", AttrType::Bool, Absent::Bool(false));
pub(super) const GATHER_MODE: AttrSpec = word("mode", &["axis", "elements", "lists"], "axis");
pub(super) const AXIS_ZERO: AttrSpec = attr("axis", AttrType::S64, Absent::S64(0));
pub(super) const BATCH_DIMS: AttrSpec = attr("batch_dims", AttrType::S64, Absent::S64(0));
