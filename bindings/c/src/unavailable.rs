//! Functions that are there for programs to link, and say what is missing.

use std::ffi::c_int;

use crate::boundary;
use crate::refusals::Lack;
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

const RECURRENT: Lack = Lack::Recurrent;

fn unavailable(function: &'static str, lack: Lack) -> dnnl_status_t {
    boundary::status(function, || Err(lack.failure(function)))
}
