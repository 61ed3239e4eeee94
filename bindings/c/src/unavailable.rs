//! Functions that are there for programs to link, and say what is missing.

use std::ffi::{c_char, c_int, c_uint};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::boundary::{self, Failure};
use crate::handle;
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;

/// Quantisation of recurrent layers, which are not there yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_rnn_data_qparams(
    _attr: dnnl_primitive_attr_t,
    _scale: f32,
    _shift: f32,
) -> dnnl_status_t {
    unavailable("dnnl_primitive_attr_set_rnn_data_qparams", RECURRENT)
}

/// Quantisation of recurrent layers, which are not there yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_get_rnn_data_qparams(
    _attr: const_dnnl_primitive_attr_t,
    _scale: *mut f32,
    _shift: *mut f32,
) -> dnnl_status_t {
    unavailable("dnnl_primitive_attr_get_rnn_data_qparams", RECURRENT)
}

/// Quantisation of recurrent layers, which are not there yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_rnn_weights_qparams(
    _attr: dnnl_primitive_attr_t,
    _count: dnnl_dim_t,
    _mask: c_int,
    _scales: *const f32,
) -> dnnl_status_t {
    unavailable("dnnl_primitive_attr_set_rnn_weights_qparams", RECURRENT)
}

/// Quantisation of recurrent layers, which are not there yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_get_rnn_weights_qparams(
    _attr: const_dnnl_primitive_attr_t,
    _count: *mut dnnl_dim_t,
    _mask: *mut c_int,
    _scales: *mut *const f32,
) -> dnnl_status_t {
    unavailable("dnnl_primitive_attr_get_rnn_weights_qparams", RECURRENT)
}

/// Quantisation of recurrent layers, which are not there yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_rnn_weights_projection_qparams(
    _attr: dnnl_primitive_attr_t,
    _count: dnnl_dim_t,
    _mask: c_int,
    _scales: *const f32,
) -> dnnl_status_t {
    unavailable("dnnl_primitive_attr_set_rnn_weights_projection_qparams", RECURRENT)
}

/// Quantisation of recurrent layers, which are not there yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_get_rnn_weights_projection_qparams(
    _attr: const_dnnl_primitive_attr_t,
    _count: *mut dnnl_dim_t,
    _mask: *mut c_int,
    _scales: *mut *const f32,
) -> dnnl_status_t {
    unavailable("dnnl_primitive_attr_get_rnn_weights_projection_qparams", RECURRENT)
}

/// A descriptor of a kind that is not there yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_create_with_csr_encoding(
    _memory_desc: *mut dnnl_memory_desc_t,
    _ndims: c_int,
    _dims: *const dnnl_dim_t,
    _data_type: dnnl_data_type_t,
    _nnz: dnnl_dim_t,
    _indices_dt: dnnl_data_type_t,
    _pointers_dt: dnnl_data_type_t,
) -> dnnl_status_t {
    unavailable("dnnl_memory_desc_create_with_csr_encoding", DESCRIPTOR)
}

/// A descriptor of a kind that is not there yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_create_with_packed_encoding(
    _memory_desc: *mut dnnl_memory_desc_t,
    _ndims: c_int,
    _dims: *const dnnl_dim_t,
    _data_type: dnnl_data_type_t,
    _nnz: dnnl_dim_t,
) -> dnnl_status_t {
    unavailable("dnnl_memory_desc_create_with_packed_encoding", DESCRIPTOR)
}

/// A descriptor of a kind that is not there yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_create_with_grouped_encoding(
    _memory_desc: *mut dnnl_memory_desc_t,
    _ndims: c_int,
    _dims: *const dnnl_dim_t,
    _data_type: dnnl_data_type_t,
    _variable_dim_idx: c_int,
    _group_count: dnnl_dim_t,
    _offsets_dt: dnnl_data_type_t,
) -> dnnl_status_t {
    unavailable("dnnl_memory_desc_create_with_grouped_encoding", DESCRIPTOR)
}

/// Descriptors as bytes are not there yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_get_blob(
    _blob: *mut u8,
    _size: *mut usize,
    _memory_desc: const_dnnl_memory_desc_t,
) -> dnnl_status_t {
    unavailable("dnnl_memory_desc_get_blob", DESCRIPTOR)
}

/// Descriptors as bytes are not there yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_create_with_blob(
    _memory_desc: *mut dnnl_memory_desc_t,
    _blob: *const u8,
) -> dnnl_status_t {
    unavailable("dnnl_memory_desc_create_with_blob", DESCRIPTOR)
}

/// A product on a processor's engine, which the library does not have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_sgemm(
    _transa: c_char,
    _transb: c_char,
    _m: dnnl_dim_t,
    _n: dnnl_dim_t,
    _k: dnnl_dim_t,
    _alpha: f32,
    _a: *const f32,
    _lda: dnnl_dim_t,
    _b: *const f32,
    _ldb: dnnl_dim_t,
    _beta: f32,
    _c: *mut f32,
    _ldc: dnnl_dim_t,
) -> dnnl_status_t {
    unavailable("dnnl_sgemm", PROCESSOR)
}

/// A product on a processor's engine, which the library does not have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_gemm_u8s8s32(
    _transa: c_char,
    _transb: c_char,
    _offsetc: c_char,
    _m: dnnl_dim_t,
    _n: dnnl_dim_t,
    _k: dnnl_dim_t,
    _alpha: f32,
    _a: *const u8,
    _lda: dnnl_dim_t,
    _ao: u8,
    _b: *const i8,
    _ldb: dnnl_dim_t,
    _bo: i8,
    _beta: f32,
    _c: *mut i32,
    _ldc: dnnl_dim_t,
    _co: *const i32,
) -> dnnl_status_t {
    unavailable("dnnl_gemm_u8s8s32", PROCESSOR)
}

/// A product on a processor's engine, which the library does not have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_gemm_s8s8s32(
    _transa: c_char,
    _transb: c_char,
    _offsetc: c_char,
    _m: dnnl_dim_t,
    _n: dnnl_dim_t,
    _k: dnnl_dim_t,
    _alpha: f32,
    _a: *const i8,
    _lda: dnnl_dim_t,
    _ao: i8,
    _b: *const i8,
    _ldb: dnnl_dim_t,
    _bo: i8,
    _beta: f32,
    _c: *mut i32,
    _ldc: dnnl_dim_t,
    _co: *const i32,
) -> dnnl_status_t {
    unavailable("dnnl_gemm_s8s8s32", PROCESSOR)
}

/// A setting of processors' engines, which the library does not have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_set_jit_dump(_enable: c_int) -> dnnl_status_t {
    unavailable("dnnl_set_jit_dump", PROCESSOR)
}

/// A setting of processors' engines, which the library does not have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_set_jit_profiling_flags(_flags: c_uint) -> dnnl_status_t {
    unavailable("dnnl_set_jit_profiling_flags", PROCESSOR)
}

/// A setting of processors' engines, which the library does not have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_set_jit_profiling_jitdumpdir(_dir: *const c_char) -> dnnl_status_t {
    unavailable("dnnl_set_jit_profiling_jitdumpdir", PROCESSOR)
}

/// A setting of processors' engines, which the library does not have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_set_max_cpu_isa(_isa: dnnl_cpu_isa_t) -> dnnl_status_t {
    unavailable("dnnl_set_max_cpu_isa", PROCESSOR)
}

/// A setting of processors' engines, which the library does not have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_set_cpu_isa_hints(_isa_hints: c_int) -> dnnl_status_t {
    unavailable("dnnl_set_cpu_isa_hints", PROCESSOR)
}

/// Hints for instruction sets of processors: none.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_get_cpu_isa_hints() -> c_int {
    0
}

/// Tells how many primitives the cache may keep.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_get_primitive_cache_capacity(capacity: *mut c_int) -> dnnl_status_t {
    boundary::status("dnnl_get_primitive_cache_capacity", || {
        // SAFETY: the caller passes null or a place to write.
        unsafe { handle::write(capacity, "capacity", CAPACITY.load(Ordering::Relaxed)) }
    })
}

/// Says how many primitives the cache may keep. Engines keep what they compiled whatever the number.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_set_primitive_cache_capacity(capacity: c_int) -> dnnl_status_t {
    boundary::status("dnnl_set_primitive_cache_capacity", || {
        if capacity < 0 {
            return Err(Failure::invalid(format!("the capacity is {capacity}")));
        }
        CAPACITY.store(capacity, Ordering::Relaxed);
        Ok(())
    })
}

static CAPACITY: AtomicI32 = AtomicI32::new(1024);

const RECURRENT: &str = "quantisation of recurrent layers is not implemented";
const DESCRIPTOR: &str = "memory descriptors of this kind are not implemented";
const PROCESSOR: &str = "there are no engines of processors";

fn unavailable(function: &'static str, why: &str) -> dnnl_status_t {
    boundary::status(function, || Err(Failure::Status(dnnl_unimplemented, why.to_owned())))
}
