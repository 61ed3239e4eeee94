//! The version of the API.

use std::ffi::CStr;

use crate::types::{DNNL_RUNTIME_OCL, DNNL_RUNTIME_THREADPOOL, dnnl_version_t};

/// The version of oneDNN's API that this library implements.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_version() -> *const dnnl_version_t {
    &raw const VERSION.0
}

struct Version(dnnl_version_t);

// SAFETY: the only pointer is to a constant string.
unsafe impl Sync for Version {}

const HASH: &CStr =
    match CStr::from_bytes_with_nul(concat!("anydnn-", env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => c"anydnn",
    };

static VERSION: Version = Version(dnnl_version_t {
    major: 3,
    minor: 13,
    patch: 2,
    hash: HASH.as_ptr(),
    cpu_runtime: DNNL_RUNTIME_THREADPOOL,
    gpu_runtime: DNNL_RUNTIME_OCL,
});
