//! Names of values.

use std::ffi::{CStr, c_char};

use crate::types::dnnl_status_t;

/// The name of a status.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_status2str(status: dnnl_status_t) -> *const c_char {
    usize::try_from(status).ok().and_then(|i| STATUSES.get(i)).copied().unwrap_or(c"unknown status").as_ptr()
}

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
