//! The types and constants of engines, streams, memory and primitives. Enumerations are integers, because C may pass any.

use std::ffi::{c_int, c_uint, c_void};

/// A kind of engine.
pub type dnnl_engine_kind_t = c_int;
/// None in particular.
pub const dnnl_any_engine: dnnl_engine_kind_t = 0;
/// The host's processor. There are no such engines.
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
