//! The C functions that the benchmark calls, by their published signatures.

use std::ffi::{c_int, c_void};

pub(crate) type Handle = *mut c_void;

unsafe extern "C" {
    pub(crate) fn dnnl_ocl_interop_engine_create(
        engine: *mut Handle,
        device: Handle,
        context: Handle,
    ) -> c_int;
    pub(crate) fn dnnl_stream_create(stream: *mut Handle, engine: Handle, flags: c_int) -> c_int;
    pub(crate) fn dnnl_stream_wait(stream: Handle) -> c_int;
    pub(crate) fn dnnl_memory_desc_create_with_tag(
        md: *mut Handle,
        rank: c_int,
        dims: *const i64,
        data_type: c_int,
        tag: c_int,
    ) -> c_int;
    pub(crate) fn dnnl_memory_desc_create_with_strides(
        md: *mut Handle,
        rank: c_int,
        dims: *const i64,
        data_type: c_int,
        strides: *const i64,
    ) -> c_int;
    pub(crate) fn dnnl_memory_create(
        memory: *mut Handle,
        md: *const c_void,
        engine: Handle,
        handle: Handle,
    ) -> c_int;
    pub(crate) fn dnnl_memory_get_data_handle(memory: Handle, handle: *mut Handle) -> c_int;
    pub(crate) fn dnnl_memory_destroy(memory: Handle) -> c_int;
    pub(crate) fn dnnl_primitive_desc_query_md(pd: Handle, what: c_int, index: c_int) -> *const c_void;
    pub(crate) fn dnnl_primitive_desc_destroy(pd: Handle) -> c_int;
    pub(crate) fn dnnl_primitive_create(primitive: *mut Handle, pd: Handle) -> c_int;
    pub(crate) fn dnnl_primitive_destroy(primitive: Handle) -> c_int;
    pub(crate) fn dnnl_primitive_execute(
        primitive: Handle,
        stream: Handle,
        count: c_int,
        args: *const ExecArg,
    ) -> c_int;
    pub(crate) fn dnnl_matmul_primitive_desc_create(
        pd: *mut Handle,
        engine: Handle,
        src: Handle,
        weights: Handle,
        bias: Handle,
        dst: Handle,
        attr: Handle,
    ) -> c_int;
    pub(crate) fn dnnl_inner_product_forward_primitive_desc_create(
        pd: *mut Handle,
        engine: Handle,
        prop: c_int,
        src: Handle,
        weights: Handle,
        bias: Handle,
        dst: Handle,
        attr: Handle,
    ) -> c_int;
    pub(crate) fn dnnl_convolution_forward_primitive_desc_create(
        pd: *mut Handle,
        engine: Handle,
        prop: c_int,
        algorithm: c_int,
        src: Handle,
        weights: Handle,
        bias: Handle,
        dst: Handle,
        strides: *const i64,
        dilates: *const i64,
        left: *const i64,
        right: *const i64,
        attr: Handle,
    ) -> c_int;
    pub(crate) fn dnnl_pooling_forward_primitive_desc_create(
        pd: *mut Handle,
        engine: Handle,
        prop: c_int,
        algorithm: c_int,
        src: Handle,
        dst: Handle,
        strides: *const i64,
        kernel: *const i64,
        dilation: *const i64,
        left: *const i64,
        right: *const i64,
        attr: Handle,
    ) -> c_int;
    pub(crate) fn dnnl_softmax_forward_primitive_desc_create(
        pd: *mut Handle,
        engine: Handle,
        prop: c_int,
        algorithm: c_int,
        src: Handle,
        dst: Handle,
        axis: c_int,
        attr: Handle,
    ) -> c_int;
    pub(crate) fn dnnl_layer_normalization_forward_primitive_desc_create(
        pd: *mut Handle,
        engine: Handle,
        prop: c_int,
        src: Handle,
        dst: Handle,
        statistics: Handle,
        epsilon: f32,
        flags: u32,
        attr: Handle,
    ) -> c_int;
    pub(crate) fn dnnl_eltwise_forward_primitive_desc_create(
        pd: *mut Handle,
        engine: Handle,
        prop: c_int,
        algorithm: c_int,
        src: Handle,
        dst: Handle,
        alpha: f32,
        beta: f32,
        attr: Handle,
    ) -> c_int;
    pub(crate) fn dnnl_binary_primitive_desc_create(
        pd: *mut Handle,
        engine: Handle,
        algorithm: c_int,
        src0: Handle,
        src1: Handle,
        dst: Handle,
        attr: Handle,
    ) -> c_int;
    pub(crate) fn dnnl_reduction_primitive_desc_create(
        pd: *mut Handle,
        engine: Handle,
        algorithm: c_int,
        src: Handle,
        dst: Handle,
        p: f32,
        epsilon: f32,
        attr: Handle,
    ) -> c_int;
    pub(crate) fn dnnl_reorder_primitive_desc_create(
        pd: *mut Handle,
        src: Handle,
        src_engine: Handle,
        dst: Handle,
        dst_engine: Handle,
        attr: Handle,
    ) -> c_int;
}

#[repr(C)]
pub(crate) struct ExecArg {
    pub(crate) number: c_int,
    pub(crate) memory: Handle,
}

// Numbers of `dnnl_types.h`.
pub(crate) const IN_ORDER: c_int = 1;
pub(crate) const ALLOCATE: usize = usize::MAX;
pub(crate) const EXEC_ARG_MD: c_int = 255;
pub(crate) const CONVOLUTION_DIRECT: c_int = 0x1;
pub(crate) const POOLING_MAX: c_int = 0x1ff;
pub(crate) const REDUCTION_SUM: c_int = 0x2fff4;

/// Calls a C function and returns its status.
macro_rules! call {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: descriptors and engines stay to the end, descriptions and primitives until they are destroyed; arrays are as long as the
        // descriptors' dimensions, and what is written has room.
        unsafe { $function($($argument),*) }
    };
}
pub(crate) use call;

pub(crate) fn check(status: c_int) {
    assert_eq!(status, 0, "a C function failed");
}
