//! The types and constants of the C API. Enumerations are integers, because C may pass any.

use std::ffi::{c_char, c_int, c_uint};

/// A status.
pub type dnnl_status_t = c_int;
/// No error.
pub const dnnl_success: dnnl_status_t = 0;
/// Memory ran out.
pub const dnnl_out_of_memory: dnnl_status_t = 1;
/// An argument is wrong.
pub const dnnl_invalid_arguments: dnnl_status_t = 2;
/// Valid but not available here.
pub const dnnl_unimplemented: dnnl_status_t = 3;
/// There is no further implementation.
pub const dnnl_last_impl_reached: dnnl_status_t = 4;
/// A driver or device failed.
pub const dnnl_runtime_error: dnnl_status_t = 5;
/// What is asked for does not apply.
pub const dnnl_not_required: dnnl_status_t = 6;
/// The graph is wrong.
pub const dnnl_invalid_graph: dnnl_status_t = 7;
/// An operation of the graph is wrong.
pub const dnnl_invalid_graph_op: dnnl_status_t = 8;
/// A shape is wrong.
pub const dnnl_invalid_shape: dnnl_status_t = 9;
/// A data type is wrong.
pub const dnnl_invalid_data_type: dnnl_status_t = 10;

/// An element type.
pub type dnnl_data_type_t = c_int;
/// None: an empty descriptor.
pub const dnnl_data_type_undef: dnnl_data_type_t = 0;
/// IEEE 754 binary16.
pub const dnnl_f16: dnnl_data_type_t = 1;
/// The upper half of binary32.
pub const dnnl_bf16: dnnl_data_type_t = 2;
/// IEEE 754 binary32.
pub const dnnl_f32: dnnl_data_type_t = 3;
/// Signed 32-bit integer.
pub const dnnl_s32: dnnl_data_type_t = 4;
/// Signed 8-bit integer.
pub const dnnl_s8: dnnl_data_type_t = 5;
/// Unsigned 8-bit integer.
pub const dnnl_u8: dnnl_data_type_t = 6;
/// IEEE 754 binary64.
pub const dnnl_f64: dnnl_data_type_t = 7;
/// One byte, zero or one.
pub const dnnl_boolean: dnnl_data_type_t = 8;
/// 8-bit float, 5 exponent and 2 mantissa bits.
pub const dnnl_f8_e5m2: dnnl_data_type_t = 9;
/// 8-bit float, 4 exponent and 3 mantissa bits.
pub const dnnl_f8_e4m3: dnnl_data_type_t = 10;
/// Signed 4-bit integer, two to a byte.
pub const dnnl_s4: dnnl_data_type_t = 11;
/// Unsigned 4-bit integer, two to a byte.
pub const dnnl_u4: dnnl_data_type_t = 12;
/// 8-bit scale: an exponent.
pub const dnnl_e8m0: dnnl_data_type_t = 13;
/// 4-bit float, 2 exponent and 1 mantissa bits, two to a byte.
pub const dnnl_f4_e2m1: dnnl_data_type_t = 14;
/// 4-bit float, 3 exponent bits, two to a byte.
pub const dnnl_f4_e3m0: dnnl_data_type_t = 15;
/// Signed 64-bit integer.
pub const dnnl_s64: dnnl_data_type_t = 16;

/// The most dimensions a tensor has.
pub const DNNL_MAX_NDIMS: usize = 12;
/// A dimension, a stride or an offset in elements.
pub type dnnl_dim_t = i64;
/// One number for each dimension.
pub type dnnl_dims_t = [dnnl_dim_t; DNNL_MAX_NDIMS];
/// A dimension that is known at execution only.
pub const DNNL_RUNTIME_DIM_VAL: dnnl_dim_t = i64::MIN;
/// A size in bytes that is known at execution only.
pub const DNNL_RUNTIME_SIZE_VAL: usize = 1 << 63;

/// How a descriptor describes its layout.
pub type dnnl_format_kind_t = c_int;
/// Not at all: an empty descriptor.
pub const dnnl_format_kind_undef: dnnl_format_kind_t = 0;
/// The implementation chooses.
pub const dnnl_format_kind_any: dnnl_format_kind_t = 1;
/// By strides and inner blocks.
pub const dnnl_blocked: dnnl_format_kind_t = 2;
/// Known to the library alone.
pub const dnnl_format_kind_opaque: dnnl_format_kind_t = 3;
/// By a sparse encoding.
pub const dnnl_format_kind_sparse: dnnl_format_kind_t = 4;
/// One value on the host.
pub const dnnl_format_kind_host_scalar: dnnl_format_kind_t = 5;

/// A layout by number; the letters' order is the dimensions' order in memory. `anydnn_format_tag` gives the number for letters.
pub type dnnl_format_tag_t = c_int;
/// None.
pub const dnnl_format_tag_undef: dnnl_format_tag_t = 0;
/// The implementation chooses.
pub const dnnl_format_tag_any: dnnl_format_tag_t = 1;

/// How a sparse tensor is stored.
pub type dnnl_sparse_encoding_t = c_int;
/// Not at all.
pub const dnnl_sparse_encoding_undef: dnnl_sparse_encoding_t = 0;
/// Compressed rows: values, column indices, row pointers.
pub const dnnl_csr: dnnl_sparse_encoding_t = 1;
/// Known to the library alone.
pub const dnnl_packed: dnnl_sparse_encoding_t = 2;
/// Coordinates: values, then indices for each dimension.
pub const dnnl_coo: dnnl_sparse_encoding_t = 3;
/// Tensors that differ in one dimension, one behind the other.
pub const dnnl_grouped: dnnl_sparse_encoding_t = 4;

/// What to ask an object for.
pub type dnnl_query_t = c_int;
/// Strides: `const dnnl_dims_t *`.
pub const dnnl_query_strides: dnnl_query_t = 14;
/// The descriptor of a source.
pub const dnnl_query_src_md: dnnl_query_t = 129;
/// The descriptor of weights, or of a bias.
pub const dnnl_query_weights_md: dnnl_query_t = 131;
/// The descriptor of a result.
pub const dnnl_query_dst_md: dnnl_query_t = 133;
/// The descriptor of what training keeps.
pub const dnnl_query_workspace_md: dnnl_query_t = 135;
/// The descriptor of working memory.
pub const dnnl_query_scratchpad_md: dnnl_query_t = 136;
/// The descriptor of an argument by its number.
pub const dnnl_query_exec_arg_md: dnnl_query_t = 255;
/// The number of dimensions: `int`.
pub const dnnl_query_ndims_s32: dnnl_query_t = 256;
/// Dimensions: `const dnnl_dims_t *`.
pub const dnnl_query_dims: dnnl_query_t = 257;
/// The element type: `dnnl_data_type_t`.
pub const dnnl_query_data_type: dnnl_query_t = 258;
/// Elements before the first one: `dnnl_dim_t`.
pub const dnnl_query_submemory_offset_s64: dnnl_query_t = 259;
/// Dimensions with padding: `const dnnl_dims_t *`.
pub const dnnl_query_padded_dims: dnnl_query_t = 260;
/// Padding in front of each dimension: `const dnnl_dims_t *`.
pub const dnnl_query_padded_offsets: dnnl_query_t = 261;
/// The format kind: `dnnl_format_kind_t`.
pub const dnnl_query_format_kind: dnnl_query_t = 262;
/// The number of inner blocks: `int`.
pub const dnnl_query_inner_nblks_s32: dnnl_query_t = 263;
/// The sizes of the inner blocks: `const dnnl_dims_t *`.
pub const dnnl_query_inner_blks: dnnl_query_t = 264;
/// The dimensions of the inner blocks: `const dnnl_dims_t *`.
pub const dnnl_query_inner_idxs: dnnl_query_t = 265;
/// The sparse encoding: `dnnl_sparse_encoding_t`.
pub const dnnl_query_sparse_encoding: dnnl_query_t = 266;
/// The number of stored entries: `dnnl_dim_t`.
pub const dnnl_query_nnz_s64: dnnl_query_t = 267;
/// The number of handles that a memory of the descriptor has: `int`.
pub const dnnl_query_num_handles_s32: dnnl_query_t = 268;

/// Which narrower arithmetic f32 work may use.
pub type dnnl_fpmath_mode_t = c_int;
/// None.
pub const dnnl_fpmath_mode_strict: dnnl_fpmath_mode_t = 0;
/// bf16.
pub const dnnl_fpmath_mode_bf16: dnnl_fpmath_mode_t = 1;
/// f16.
pub const dnnl_fpmath_mode_f16: dnnl_fpmath_mode_t = 2;
/// Any of them.
pub const dnnl_fpmath_mode_any: dnnl_fpmath_mode_t = 3;
/// tf32.
pub const dnnl_fpmath_mode_tf32: dnnl_fpmath_mode_t = 4;

/// No run-time: what a library without engines of a kind reports.
pub const DNNL_RUNTIME_NONE: c_uint = 0;
/// A pool of threads.
pub const DNNL_RUNTIME_THREADPOOL: c_uint = 8;
/// OpenCL.
pub const DNNL_RUNTIME_OCL: c_uint = 256;

/// The version of the API.
#[repr(C)]
#[derive(Debug)]
pub struct dnnl_version_t {
    /// Major version.
    pub major: c_int,
    /// Minor version.
    pub minor: c_int,
    /// Patch version.
    pub patch: c_int,
    /// Names the library that implements the API.
    pub hash: *const c_char,
    /// What runs engines on the host's processor.
    pub cpu_runtime: c_uint,
    /// What runs engines on devices.
    pub gpu_runtime: c_uint,
}

/// A memory descriptor.
#[derive(Debug)]
pub struct dnnl_memory_desc(());
/// A handle of a memory descriptor.
pub type dnnl_memory_desc_t = *mut dnnl_memory_desc;
/// A handle of a memory descriptor that is only read.
pub type const_dnnl_memory_desc_t = *const dnnl_memory_desc;

/// Attributes of a primitive.
#[derive(Debug)]
pub struct dnnl_primitive_attr(());
/// A handle of attributes.
pub type dnnl_primitive_attr_t = *mut dnnl_primitive_attr;
/// A handle of attributes that are only read.
pub type const_dnnl_primitive_attr_t = *const dnnl_primitive_attr;
