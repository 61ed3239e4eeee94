//! The types and constants of engines, streams, memory and primitives. Enumerations are integers, because C may pass any.

use std::ffi::{c_int, c_uint, c_void};

/// A kind of engine.
pub type dnnl_engine_kind_t = c_int;
/// None in particular.
pub const dnnl_any_engine: dnnl_engine_kind_t = 0;
/// The host's processor.
pub const dnnl_cpu: dnnl_engine_kind_t = 1;
/// An OpenCL device of any type.
pub const dnnl_gpu: dnnl_engine_kind_t = 2;

/// How a stream runs, in bits.
pub type dnnl_stream_flags_t = c_uint;
/// In the order of submission.
pub const dnnl_stream_in_order: dnnl_stream_flags_t = 1;
/// In any order that dependencies allow.
pub const dnnl_stream_out_of_order: dnnl_stream_flags_t = 2;
/// With device times.
pub const dnnl_stream_profiling: dnnl_stream_flags_t = 4;
/// In the order of submission.
pub const dnnl_stream_default_flags: dnnl_stream_flags_t = dnnl_stream_in_order;

/// What a profile tells of each execution.
pub type dnnl_profiling_data_kind_t = c_int;
/// Nothing.
pub const dnnl_profiling_data_kind_undef: dnnl_profiling_data_kind_t = 0;
/// Nanoseconds of device time.
pub const dnnl_profiling_data_kind_time: dnnl_profiling_data_kind_t = 1;

/// What a primitive is for.
pub type dnnl_prop_kind_t = c_int;
/// The forward pass of training.
pub const dnnl_forward_training: dnnl_prop_kind_t = 64;
/// Inference.
pub const dnnl_forward_inference: dnnl_prop_kind_t = 96;

/// An algorithm.
pub type dnnl_alg_kind_t = c_int;
/// Sum.
pub const dnnl_binary_add: dnnl_alg_kind_t = 0x1fff0;
/// Product.
pub const dnnl_binary_mul: dnnl_alg_kind_t = 0x1fff1;
/// The larger.
pub const dnnl_binary_max: dnnl_alg_kind_t = 0x1fff2;
/// The smaller.
pub const dnnl_binary_min: dnnl_alg_kind_t = 0x1fff3;
/// Quotient.
pub const dnnl_binary_div: dnnl_alg_kind_t = 0x1fff4;
/// Difference.
pub const dnnl_binary_sub: dnnl_alg_kind_t = 0x1fff5;
/// Whether the first is the larger or equal.
pub const dnnl_binary_ge: dnnl_alg_kind_t = 0x1fff6;
/// Whether the first is the larger.
pub const dnnl_binary_gt: dnnl_alg_kind_t = 0x1fff7;
/// Whether the first is the smaller or equal.
pub const dnnl_binary_le: dnnl_alg_kind_t = 0x1fff8;
/// Whether the first is the smaller.
pub const dnnl_binary_lt: dnnl_alg_kind_t = 0x1fff9;
/// Whether they are equal.
pub const dnnl_binary_eq: dnnl_alg_kind_t = 0x1fffa;
/// Whether they differ.
pub const dnnl_binary_ne: dnnl_alg_kind_t = 0x1fffb;
/// Softmax.
pub const dnnl_softmax_accurate: dnnl_alg_kind_t = 0x30000;
/// The logarithm of softmax.
pub const dnnl_softmax_log: dnnl_alg_kind_t = 0x30001;
/// `x` where positive, else `alpha * x`.
pub const dnnl_eltwise_relu: dnnl_alg_kind_t = 0x20;
/// Hyperbolic tangent.
pub const dnnl_eltwise_tanh: dnnl_alg_kind_t = 0x21;
/// `x` where positive, else `alpha * (e^x - 1)`.
pub const dnnl_eltwise_elu: dnnl_alg_kind_t = 0x22;
/// `x^2`.
pub const dnnl_eltwise_square: dnnl_alg_kind_t = 0x23;
/// `|x|`.
pub const dnnl_eltwise_abs: dnnl_alg_kind_t = 0x24;
/// Square root.
pub const dnnl_eltwise_sqrt: dnnl_alg_kind_t = 0x25;
/// `alpha * x + beta`.
pub const dnnl_eltwise_linear: dnnl_alg_kind_t = 0x26;
/// `ln(1 + e^(alpha * x)) / alpha`.
pub const dnnl_eltwise_soft_relu: dnnl_alg_kind_t = 0x27;
/// `min(max(alpha * x + beta, 0), 1)`.
pub const dnnl_eltwise_hardsigmoid: dnnl_alg_kind_t = 0x28;
/// `1 / (1 + e^-x)`.
pub const dnnl_eltwise_logistic: dnnl_alg_kind_t = 0x29;
/// `e^x`.
pub const dnnl_eltwise_exp: dnnl_alg_kind_t = 0x2a;
/// The normal distribution's weight of `x` times `x`, by the hyperbolic tangent.
pub const dnnl_eltwise_gelu_tanh: dnnl_alg_kind_t = 0x2b;
/// `x / (1 + e^(-alpha * x))`.
pub const dnnl_eltwise_swish: dnnl_alg_kind_t = 0x2c;
/// Natural logarithm.
pub const dnnl_eltwise_log: dnnl_alg_kind_t = 0x2d;
/// `min(max(x, alpha), beta)`.
pub const dnnl_eltwise_clip: dnnl_alg_kind_t = 0x2e;
/// `min(max(x, alpha), beta)`.
pub const dnnl_eltwise_clip_v2: dnnl_alg_kind_t = 0x2f;
/// `alpha * x^beta`.
pub const dnnl_eltwise_pow: dnnl_alg_kind_t = 0x30;
/// The normal distribution's weight of `x` times `x`, by the error function.
pub const dnnl_eltwise_gelu_erf: dnnl_alg_kind_t = 0x31;
/// The nearest integer, ties to even.
pub const dnnl_eltwise_round: dnnl_alg_kind_t = 0x32;
/// `x * tanh(ln(1 + e^x))`.
pub const dnnl_eltwise_mish: dnnl_alg_kind_t = 0x33;
/// `x * min(max(alpha * x + beta, 0), 1)`.
pub const dnnl_eltwise_hardswish: dnnl_alg_kind_t = 0x34;
/// [`dnnl_eltwise_relu`] whose backward pass needs the result.
pub const dnnl_eltwise_relu_use_dst_for_bwd: dnnl_alg_kind_t = 0x100;
/// [`dnnl_eltwise_tanh`] whose backward pass needs the result.
pub const dnnl_eltwise_tanh_use_dst_for_bwd: dnnl_alg_kind_t = 0x101;
/// [`dnnl_eltwise_elu`] whose backward pass needs the result.
pub const dnnl_eltwise_elu_use_dst_for_bwd: dnnl_alg_kind_t = 0x102;
/// [`dnnl_eltwise_sqrt`] whose backward pass needs the result.
pub const dnnl_eltwise_sqrt_use_dst_for_bwd: dnnl_alg_kind_t = 0x103;
/// [`dnnl_eltwise_logistic`] whose backward pass needs the result.
pub const dnnl_eltwise_logistic_use_dst_for_bwd: dnnl_alg_kind_t = 0x104;
/// [`dnnl_eltwise_exp`] whose backward pass needs the result.
pub const dnnl_eltwise_exp_use_dst_for_bwd: dnnl_alg_kind_t = 0x105;
/// [`dnnl_eltwise_clip_v2`] whose backward pass needs the result.
pub const dnnl_eltwise_clip_v2_use_dst_for_bwd: dnnl_alg_kind_t = 0x106;

/// The first source.
pub const DNNL_ARG_SRC: c_int = 1;
/// The first result.
pub const DNNL_ARG_DST: c_int = 17;
/// The second source: the other operand of a post-operation.
pub const DNNL_ARG_SRC_1: c_int = 2;
/// The weights.
pub const DNNL_ARG_WEIGHTS: c_int = 33;
/// The bias.
pub const DNNL_ARG_BIAS: c_int = 41;
/// The first post-operation's operands have this bit set, the second's twice its value, and so on.
pub const DNNL_ARG_ATTR_MULTIPLE_POST_OP_BASE: c_int = 32768;
/// Working memory.
pub const DNNL_ARG_SCRATCHPAD: c_int = 80;

/// No memory.
pub const DNNL_MEMORY_NONE: *mut c_void = std::ptr::null_mut();
/// Memory that the library allocates.
pub const DNNL_MEMORY_ALLOCATE: *mut c_void = usize::MAX as *mut c_void;

/// What the handles of a memory are.
pub type dnnl_ocl_interop_memory_kind_t = c_int;
/// Addresses of unified shared memory, or of shared virtual memory where a device has no other.
pub const dnnl_ocl_interop_usm: dnnl_ocl_interop_memory_kind_t = 0;
/// Buffer objects.
pub const dnnl_ocl_interop_buffer: dnnl_ocl_interop_memory_kind_t = 1;

/// An engine: one device in one context.
#[derive(Debug)]
pub struct dnnl_engine(());
/// A handle of an engine.
pub type dnnl_engine_t = *mut dnnl_engine;

/// Post-operations: what is done to each result element of a primitive.
#[derive(Debug)]
pub struct dnnl_post_ops(());
/// A handle of post-operations.
pub type dnnl_post_ops_t = *mut dnnl_post_ops;
/// A handle of post-operations that are only read.
pub type const_dnnl_post_ops_t = *const dnnl_post_ops;

/// Who gives primitives their working memory.
pub type dnnl_scratchpad_mode_t = c_int;
/// The library.
pub const dnnl_scratchpad_mode_library: dnnl_scratchpad_mode_t = 0;
/// The caller, with every execution.
pub const dnnl_scratchpad_mode_user: dnnl_scratchpad_mode_t = 1;

/// An instruction set of processors, in bits.
pub type dnnl_cpu_isa_t = c_int;
/// None in particular.
pub const dnnl_cpu_isa_default: dnnl_cpu_isa_t = 0;

/// A stream: a queue of commands.
#[derive(Debug)]
pub struct dnnl_stream(());
/// A handle of a stream.
pub type dnnl_stream_t = *mut dnnl_stream;
/// A handle of a stream that is only read.
pub type const_dnnl_stream_t = *const dnnl_stream;

/// A memory: a descriptor and the bytes that it describes.
#[derive(Debug)]
pub struct dnnl_memory(());
/// A handle of a memory.
pub type dnnl_memory_t = *mut dnnl_memory;
/// A handle of a memory that is only read.
pub type const_dnnl_memory_t = *const dnnl_memory;

/// The description of a primitive.
#[derive(Debug)]
pub struct dnnl_primitive_desc(());
/// A handle of a primitive's description.
pub type dnnl_primitive_desc_t = *mut dnnl_primitive_desc;
/// A handle of a primitive's description that is only read.
pub type const_dnnl_primitive_desc_t = *const dnnl_primitive_desc;

/// A primitive: a compiled operation.
#[derive(Debug)]
pub struct dnnl_primitive(());
/// A handle of a primitive.
pub type dnnl_primitive_t = *mut dnnl_primitive;
/// A handle of a primitive that is only read.
pub type const_dnnl_primitive_t = *const dnnl_primitive;

/// An argument of an execution.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dnnl_exec_arg_t {
    /// Which argument.
    pub arg: c_int,
    /// Its memory.
    pub memory: dnnl_memory_t,
}

/// OpenCL's object behind [`cl_device_id`].
#[derive(Debug)]
pub struct _cl_device_id(());
/// A device.
pub type cl_device_id = *mut _cl_device_id;
/// OpenCL's object behind [`cl_context`].
#[derive(Debug)]
pub struct _cl_context(());
/// A context.
pub type cl_context = *mut _cl_context;
/// OpenCL's object behind [`cl_command_queue`].
#[derive(Debug)]
pub struct _cl_command_queue(());
/// A command queue.
pub type cl_command_queue = *mut _cl_command_queue;
/// OpenCL's object behind [`cl_mem`].
#[derive(Debug)]
pub struct _cl_mem(());
/// A memory object.
pub type cl_mem = *mut _cl_mem;
/// OpenCL's object behind [`cl_event`].
#[derive(Debug)]
pub struct _cl_event(());
/// An event.
pub type cl_event = *mut _cl_event;

/// A kind of primitive.
pub type dnnl_primitive_kind_t = c_int;

/// What sums are kept in.
pub type dnnl_accumulation_mode_t = c_int;

/// How results are rounded.
pub type dnnl_rounding_mode_t = c_int;

/// How results are quantised.
pub type dnnl_quantization_mode_t = c_int;

/// Flags of recurrent primitives, in bits.
pub type dnnl_rnn_flags_t = c_int;

/// A direction of recurrent primitives.
pub type dnnl_rnn_direction_t = c_int;

/// Hints for instruction sets, in bits.
pub type dnnl_cpu_isa_hints_t = c_int;
