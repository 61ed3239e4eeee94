//! Checked calls: every return code becomes an error that names the operation, the call and the code.

use std::ffi::c_void;
use std::ptr;

use anydnn_backend::{DeviceKind, Error, Result, Status};
use cl3::types::{cl_device_id, cl_device_info, cl_int, cl_platform_id};

/// What a call into the driver returns.
pub(crate) type Returned<T> = std::result::Result<T, cl_int>;

/// No libOpenCL could be loaded.
pub(crate) const LIBRARY_MISSING: cl_int = cl3::error_codes::DLOPEN_RUNTIME_LOAD_FAILED;
/// libOpenCL has no such function.
pub(crate) const FUNCTION_MISSING: cl_int = cl3::error_codes::DLOPEN_FUNCTION_NOT_AVAILABLE;
/// The loader found no platform (`CL_PLATFORM_NOT_FOUND_KHR`).
const PLATFORM_NOT_FOUND: cl_int = -1001;
/// A command of the context faulted on NVIDIA's driver; every later call fails the same way.
const CONTEXT_FAULTED: cl_int = -9999;
/// A wait list holds a failed event (`CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST`).
pub(crate) const FAILED_DEPENDENCY: cl_int = -14;

/// Turns a call's return code into an error.
pub(crate) trait Check<T> {
    /// The value, or an error with the operation that was asked for and the call that failed.
    fn check(self, operation: &str, call: &str) -> Result<T>;
}

impl<T> Check<T> for Returned<T> {
    fn check(self, operation: &str, call: &str) -> Result<T> {
        self.map_err(|code| error(operation, call, code))
    }
}

/// The error for a code that `call` returned while doing `operation`.
pub(crate) fn error(operation: &str, call: &str, code: cl_int) -> Error {
    match code {
        LIBRARY_MISSING => {
            Error::unavailable("OpenCL", format!("{operation}: {call}: no OpenCL library could be loaded"))
        }
        FUNCTION_MISSING => {
            Error::unavailable(call, format!("{operation}: the OpenCL library has no such function"))
        }
        CONTEXT_FAULTED => {
            Error::DeviceLost(format!("{operation}: {call} returned {code}: a command faulted"))
        }
        FAILED_DEPENDENCY => {
            Error::Dependency { operation: operation.into(), cause: format!("{call} returned {code}") }
        }
        _ => Error::from(Box::new(anydnn_backend::DeviceFailure {
            operation: operation.into(),
            call: call.into(),
            code,
            name: code_name(code).into(),
            status: status(code),
        })),
    }
}

/// Whether a code of an enumeration means that there is nothing to enumerate.
pub(crate) fn means_none(code: cl_int) -> bool {
    matches!(code, LIBRARY_MISSING | PLATFORM_NOT_FOUND | cl3::error_codes::CL_DEVICE_NOT_FOUND)
}

/// Whether a code says that memory ran out.
pub(crate) fn is_out_of_memory(code: cl_int) -> bool {
    status(code) == Status::OutOfMemory
}

/// The code's name in the OpenCL headers.
pub(crate) fn code_name(code: cl_int) -> &'static str {
    match code {
        LIBRARY_MISSING => "library not found",
        FUNCTION_MISSING => "function not found",
        CONTEXT_FAULTED => "context faulted",
        _ => cl3::error_codes::error_text(code),
    }
}

/// The status that the C ABI gives for a code: memory, arguments, everything else.
fn status(code: cl_int) -> Status {
    match code {
        -6..=-4 => Status::OutOfMemory,
        -32 | -33 => Status::RuntimeError,
        -63..=-30 => Status::InvalidArguments,
        _ => Status::RuntimeError,
    }
}

/// A plain value that an information query returns.
pub(crate) trait Scalar: Sized {
    /// The value from a query's bytes; none when there are too few.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

macro_rules! scalar {
    ($($t:ty),*) => {$(
        impl Scalar for $t {
            fn from_bytes(bytes: &[u8]) -> Option<Self> {
                bytes.first_chunk().map(|chunk| Self::from_ne_bytes(*chunk))
            }
        }
    )*};
}

scalar!(u32, i32, u64, usize);

impl Scalar for *mut c_void {
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        usize::from_bytes(bytes).map(ptr::with_exposed_provenance_mut)
    }
}

/// The value that an information query returned.
pub(crate) fn value<T: Scalar>(queried: Returned<Vec<u8>>, operation: &str, call: &str) -> Result<T> {
    let bytes = queried.check(operation, call)?;
    T::from_bytes(&bytes).ok_or_else(|| {
        Error::unavailable(call, format!("{operation}: the driver returned {} bytes", bytes.len()))
    })
}

/// The text that an information query returned, without the trailing NUL.
pub(crate) fn text(queried: Returned<Vec<u8>>, operation: &str, call: &str) -> Result<String> {
    let bytes = queried.check(operation, call)?;
    Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\0').trim().to_owned())
}

/// A value of a device.
pub(crate) fn device_value<T: Scalar>(device: cl_device_id, info: cl_device_info) -> Result<T> {
    value(cl3::device::get_device_data(device, info), "read device information", "clGetDeviceInfo")
}

/// A text of a device.
pub(crate) fn device_text(device: cl_device_id, info: cl_device_info) -> Result<String> {
    text(cl3::device::get_device_data(device, info), "read device information", "clGetDeviceInfo")
}

/// The kind of processor behind a device's type bits.
pub(crate) fn device_kind(bits: u64) -> DeviceKind {
    match bits {
        b if b & cl3::device::CL_DEVICE_TYPE_GPU != 0 => DeviceKind::Gpu,
        b if b & cl3::device::CL_DEVICE_TYPE_CPU != 0 => DeviceKind::Cpu,
        b if b & cl3::device::CL_DEVICE_TYPE_ACCELERATOR != 0 => DeviceKind::Accelerator,
        _ => DeviceKind::Other,
    }
}

/// The address of an extension's function, which libOpenCL does not export.
///
/// # Safety
/// `platform` is a platform of this process.
pub(crate) unsafe fn extension_function(
    platform: cl_platform_id,
    name: &std::ffi::CStr,
) -> Option<ptr::NonNull<c_void>> {
    let library = cl3::load_library().as_ref().ok()?;
    let address = library.clGetExtensionFunctionAddressForPlatform(platform, name.as_ptr())?;
    ptr::NonNull::new(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_map_to_the_documented_statuses() {
        for (code, expected) in [
            (-4, Status::OutOfMemory),
            (-5, Status::OutOfMemory),
            (-6, Status::OutOfMemory),
            (-1, Status::RuntimeError),
            (-11, Status::RuntimeError),
            (-19, Status::RuntimeError),
            (-30, Status::InvalidArguments),
            (-32, Status::RuntimeError),
            (-33, Status::RuntimeError),
            (-38, Status::InvalidArguments),
            (-63, Status::InvalidArguments),
            (-1001, Status::RuntimeError),
            (-777, Status::RuntimeError),
        ] {
            assert_eq!(error("test", "clTest", code).status(), expected, "{code}");
        }
        assert!(matches!(error("test", "clTest", -9999), Error::DeviceLost(_)));
        assert!(matches!(error("test", "clTest", -14), Error::Dependency { .. }));
    }

    #[test]
    fn errors_name_operation_call_and_code() {
        let error = error("create stream", "clCreateCommandQueue", -34).to_string();
        assert_eq!(error, "create stream: clCreateCommandQueue returned -34 (CL_INVALID_CONTEXT)");
    }

    #[test]
    fn short_answers_are_errors() {
        assert!(value::<u64>(Ok(vec![0; 4]), "test", "clTest").is_err());
        assert_eq!(value::<u32>(Ok(7_u32.to_ne_bytes().to_vec()), "test", "clTest").unwrap(), 7);
    }
}
