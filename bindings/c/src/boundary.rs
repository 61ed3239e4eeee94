//! What stands between C and Rust at every function: no unwinding, a status for every error, a message for every status.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use anydnn_backend::Error;

use crate::types::{
    dnnl_invalid_arguments, dnnl_invalid_data_type, dnnl_invalid_graph, dnnl_runtime_error, dnnl_status_t,
    dnnl_success, dnnl_unimplemented,
};
use crate::verbose;

/// Why a function fails.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of the library, with the status that it maps to.
    Error(Error),
    /// A status of its own, with what is wrong.
    Status(dnnl_status_t, String),
}

/// What the body of a function returns.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Runs the body of a function that returns a status.
pub(crate) fn status(function: &'static str, body: impl FnOnce() -> Outcome) -> dnnl_status_t {
    match guarded(function, body) {
        Ok(()) => dnnl_success,
        Err(status) => status,
    }
}

/// Runs the body of a function that returns a value, which is `fallback` when it fails.
pub(crate) fn value<T>(function: &'static str, fallback: T, body: impl FnOnce() -> Outcome<T>) -> T {
    guarded(function, body).unwrap_or(fallback)
}

/// The message of the last failure on this thread, or an empty string. It stays valid until the next failure on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn anydnn_last_error() -> *const c_char {
    LAST.try_with(|last| last.try_borrow().map_or(c"".as_ptr(), |message| message.as_ptr()))
        .unwrap_or(c"".as_ptr())
}

impl Failure {
    /// An argument that is wrong.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Status(dnnl_invalid_arguments, message.into())
    }

    /// A pointer that must not be null.
    pub(crate) fn null(what: &str) -> Self {
        Self::invalid(format!("{what} is null"))
    }

    pub(crate) fn into_parts(self) -> (dnnl_status_t, String) {
        match self {
            Self::Error(error) => (error.status() as dnnl_status_t, error.to_string()),
            Self::Status(status, message) => (status, message),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

fn guarded<T>(function: &'static str, body: impl FnOnce() -> Outcome<T>) -> Result<T, dnnl_status_t> {
    verbose::begin();
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(failure)) => failure,
        Err(payload) => panicked(payload),
    };
    let (status, message) = failure.into_parts();
    let status = documented(function, status);
    // Loggers are foreign code too.
    let reported = catch_unwind(AssertUnwindSafe(|| report(function, status, &message)));
    std::mem::forget(reported);
    Err(status)
}

/// The statuses that tell what of a graph is wrong are the graph API's own: elsewhere an argument is wrong.
fn documented(function: &str, status: dnnl_status_t) -> dnnl_status_t {
    let of_graphs = (dnnl_invalid_graph..=dnnl_invalid_data_type).contains(&status);
    if of_graphs && !function.contains("_graph_") { dnnl_invalid_arguments } else { status }
}

fn panicked(payload: Box<dyn Any + Send>) -> Failure {
    let text = payload
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    // Dropping a payload could panic again.
    std::mem::forget(payload);
    Failure::Status(dnnl_runtime_error, format!("panic: {text}"))
}

fn report(function: &'static str, status: dnnl_status_t, message: &str) {
    let mut bytes = format!("{function}: {message}").into_bytes();
    bytes.retain(|&byte| byte != 0);
    let text = CString::new(bytes).unwrap_or_default();
    // While a thread ends there is nowhere to keep it.
    let _ = LAST.try_with(|last| last.try_borrow_mut().map(|mut last| *last = text));
    tracing::debug!(function, status, message, "failed");
    verbose::error(function, message, status == dnnl_unimplemented);
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;
    use crate::types::dnnl_invalid_shape;

    fn last() -> String {
        // SAFETY: the function returns a string that ends with a zero.
        unsafe { CStr::from_ptr(anydnn_last_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_is_a_runtime_error_with_its_message() {
        assert_eq!(status("dnnl_f", || panic!("no {}", "way")), dnnl_runtime_error);
        assert_eq!(last(), "dnnl_f: panic: no way");
        assert_eq!(value("dnnl_g", 7, || std::panic::panic_any(3_u8)), 7);
        assert_eq!(last(), "dnnl_g: panic: ");
    }

    #[test]
    fn wrong_shapes_are_invalid_arguments_of_all_but_graphs() {
        let wrong = || Err(Failure::Status(dnnl_invalid_shape, "3 channels".to_owned()));
        assert_eq!(status("dnnl_matmul_primitive_desc_create", wrong), dnnl_invalid_arguments);
        assert_eq!(status("dnnl_graph_partition_compile", wrong), dnnl_invalid_shape);
    }

    #[test]
    fn an_error_keeps_its_status_and_message_until_the_next() {
        assert_eq!(last(), "");
        assert_eq!(status("dnnl_f", || Err(Error::unsupported("x", "y").into())), dnnl_unimplemented);
        assert_eq!(status("dnnl_g", || Ok(())), dnnl_success);
        assert_eq!(last(), "dnnl_f: x: not supported: y");
        std::thread::spawn(|| assert_eq!(last(), "")).join().unwrap();
    }
}
