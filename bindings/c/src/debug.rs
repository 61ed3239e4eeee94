//! Names of values.

use std::ffi::{CStr, c_char};

use crate::types::{dnnl_data_type_t, dnnl_status_t};

/// The name of a status.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_status2str(status: dnnl_status_t) -> *const c_char {
    usize::try_from(status).ok().and_then(|i| STATUSES.get(i)).copied().unwrap_or(c"unknown status").as_ptr()
}

/// The name of a data type.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_dt2str(dt: dnnl_data_type_t) -> *const c_char {
    usize::try_from(dt).ok().and_then(|i| DATA_TYPES.get(i)).copied().unwrap_or(c"unknown dt").as_ptr()
}

/// In the order of their values.
const DATA_TYPES: [&CStr; 17] = [
    c"undef", c"f16", c"bf16", c"f32", c"s32", c"s8", c"u8", c"f64", c"boolean", c"f8_e5m2", c"f8_e4m3",
    c"s4", c"u4", c"e8m0", c"f4_e2m1", c"f4_e3m0", c"s64",
];

/// In the order of their values.
const STATUSES: [&CStr; 11] = [
    c"success",
    c"out_of_memory",
    c"invalid_arguments",
    c"unimplemented",
    c"last_impl_reached",
    c"runtime_error",
    c"not_required",
    c"invalid_graph",
    c"invalid_graph_op",
    c"invalid_shape",
    c"invalid_data_type",
];
