//! The functions of oneDNN's C API that are called, by their published declarations.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libloading::Library;

pub(super) const MAX_DIMS: usize = 12;

pub(super) type Dims = [i64; MAX_DIMS];
pub(super) type Handle = *mut c_void;

/// `dnnl_version_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Version {
    pub(super) major: c_int,
    pub(super) minor: c_int,
    pub(super) patch: c_int,
    pub(super) hash: *const c_char,
    pub(super) cpu_runtime: c_uint,
    pub(super) gpu_runtime: c_uint,
}

/// `dnnl_exec_arg_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct ExecArg {
    pub(super) arg: c_int,
    pub(super) memory: Handle,
}

macro_rules! api {
    ($($field:ident: $name:ident($($arg:ty),*) -> $result:ty;)*) => {
        #[derive(Debug)]
        pub(super) struct Api { $(pub(super) $field: unsafe extern "C" fn($($arg),*) -> $result,)* }

        impl Api {
            pub(super) fn of(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those of the published headers, and the library stays loaded as long as the process.
                unsafe { Ok(Self { $($field: *library.get(concat!(stringify!($name), "\0").as_bytes())?,)* }) }
            }
        }
    };
}

api! {
    version: dnnl_version() -> *const Version;
    engine_create: dnnl_engine_create(*mut Handle, c_int, usize) -> c_int;
    stream_create: dnnl_stream_create(*mut Handle, Handle, c_uint) -> c_int;
    stream_wait: dnnl_stream_wait(Handle) -> c_int;
    md_any: dnnl_memory_desc_create_with_tag(*mut Handle, c_int, *const i64, c_int, c_int) -> c_int;
    md_strides: dnnl_memory_desc_create_with_strides(*mut Handle, c_int, *const i64, c_int, *const i64) -> c_int;
    md_clone: dnnl_memory_desc_clone(*mut Handle, Handle) -> c_int;
    md_size: dnnl_memory_desc_get_size(Handle) -> usize;
    md_equal: dnnl_memory_desc_equal(Handle, Handle) -> c_int;
    md_destroy: dnnl_memory_desc_destroy(Handle) -> c_int;
    memory_create: dnnl_memory_create(*mut Handle, Handle, Handle, *mut c_void) -> c_int;
    memory_destroy: dnnl_memory_destroy(Handle) -> c_int;
    attr_create: dnnl_primitive_attr_create(*mut Handle) -> c_int;
    attr_destroy: dnnl_primitive_attr_destroy(Handle) -> c_int;
    attr_post_ops: dnnl_primitive_attr_set_post_ops(Handle, Handle) -> c_int;
    post_ops_create: dnnl_post_ops_create(*mut Handle) -> c_int;
    post_ops_destroy: dnnl_post_ops_destroy(Handle) -> c_int;
    post_eltwise: dnnl_post_ops_append_eltwise(Handle, c_int, f32, f32) -> c_int;
    post_binary: dnnl_post_ops_append_binary(Handle, c_int, Handle) -> c_int;
    matmul: dnnl_matmul_primitive_desc_create(*mut Handle, Handle, Handle, Handle, Handle, Handle, Handle) -> c_int;
    convolution: dnnl_convolution_forward_primitive_desc_create(
        *mut Handle, Handle, c_int, c_int, Handle, Handle, Handle, Handle, *const i64, *const i64, *const i64, *const i64, Handle) -> c_int;
    pooling: dnnl_pooling_forward_primitive_desc_create(
        *mut Handle, Handle, c_int, c_int, Handle, Handle, *const i64, *const i64, *const i64, *const i64, *const i64, Handle) -> c_int;
    softmax: dnnl_softmax_forward_primitive_desc_create(*mut Handle, Handle, c_int, c_int, Handle, Handle, c_int, Handle) -> c_int;
    layer_norm: dnnl_layer_normalization_forward_primitive_desc_create(
        *mut Handle, Handle, c_int, Handle, Handle, Handle, f32, c_uint, Handle) -> c_int;
    batch_norm: dnnl_batch_normalization_forward_primitive_desc_create(
        *mut Handle, Handle, c_int, Handle, Handle, f32, c_uint, Handle) -> c_int;
    reduction: dnnl_reduction_primitive_desc_create(*mut Handle, Handle, c_int, Handle, Handle, f32, f32, Handle) -> c_int;
    eltwise: dnnl_eltwise_forward_primitive_desc_create(
        *mut Handle, Handle, c_int, c_int, Handle, Handle, f32, f32, Handle) -> c_int;
    binary: dnnl_binary_primitive_desc_create(*mut Handle, Handle, c_int, Handle, Handle, Handle, Handle) -> c_int;
    vanilla_rnn: dnnl_vanilla_rnn_forward_primitive_desc_create(
        *mut Handle, Handle, c_int, c_int, c_int, Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_uint, f32, f32, Handle) -> c_int;
    lstm: dnnl_lstm_forward_primitive_desc_create(
        *mut Handle, Handle, c_int, c_int, Handle, Handle, Handle, Handle, Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_uint,
        Handle) -> c_int;
    gru: dnnl_gru_forward_primitive_desc_create(
        *mut Handle, Handle, c_int, c_int, Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_uint, Handle) -> c_int;
    lbr_gru: dnnl_lbr_gru_forward_primitive_desc_create(
        *mut Handle, Handle, c_int, c_int, Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_uint, Handle) -> c_int;
    reorder: dnnl_reorder_primitive_desc_create(*mut Handle, Handle, Handle, Handle, Handle, Handle) -> c_int;
    pd_query: dnnl_primitive_desc_query(Handle, c_int, c_int, *mut c_void) -> c_int;
    pd_query_md: dnnl_primitive_desc_query_md(Handle, c_int, c_int) -> Handle;
    pd_destroy: dnnl_primitive_desc_destroy(Handle) -> c_int;
    primitive_create: dnnl_primitive_create(*mut Handle, Handle) -> c_int;
    primitive_destroy: dnnl_primitive_destroy(Handle) -> c_int;
    execute: dnnl_primitive_execute(Handle, Handle, c_int, *const ExecArg) -> c_int;
}
