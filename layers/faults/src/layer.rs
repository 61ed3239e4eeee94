//! The interface between the loader and the layer, and the addresses of functions.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::table::{Function, SLOTS};
use crate::{code, report};

/// `CL_LAYER_API_VERSION`.
const LAYER_API_VERSION: u32 = 0x4240;
/// `CL_LAYER_NAME`.
const LAYER_NAME: u32 = 0x4241;
/// The version of the layer interface that this layer speaks (`CL_LAYER_API_VERSION_100`).
const VERSION: u32 = 100;
const NAME: &CStr = c"anydnn-faults";

/// The functions below this layer, by their place in the dispatch table, then in the table of extensions.
static NEXT: [AtomicPtr<c_void>; Function::COUNT] =
    [const { AtomicPtr::new(ptr::null_mut()) }; Function::COUNT];

/// Extension functions below this layer: each platform has its own.
static EXTENSIONS: [[AtomicPtr<c_void>; Function::EXTENSIONS]; SLOTS] =
    [const { [const { AtomicPtr::new(ptr::null_mut()) }; Function::EXTENSIONS] }; SLOTS];

/// The platforms that have a slot. Null stands for extension functions of no platform in particular.
static PLATFORMS: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Tells the loader what kind of layer this is.
///
/// # Safety
/// - `value` has room for `size` bytes, or is null.
/// - `size_ret` is a place for a number, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clGetLayerInfo(
    info: u32,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> i32 {
    let version = VERSION.to_ne_bytes();
    let bytes = match info {
        LAYER_API_VERSION => &version[..],
        LAYER_NAME => NAME.to_bytes_with_nul(),
        _ => return code::INVALID_VALUE,
    };
    if !value.is_null() {
        if size < bytes.len() {
            return code::INVALID_VALUE;
        }
        // SAFETY: the caller's room is at least as large as what is copied.
        unsafe { value.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
    if !size_ret.is_null() {
        // SAFETY: a place for a number by contract.
        unsafe { size_ret.write(bytes.len()) };
    }
    0
}

/// Takes the dispatch table of what is below and gives back this layer's. Reads the environment.
///
/// # Safety
/// - `target` is a dispatch table with `entries` entries that lives as long as the process, or null.
/// - `entries_ret` and `dispatch_ret` are places for the result, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clInitLayer(
    entries: u32,
    target: *const *mut c_void,
    entries_ret: *mut u32,
    dispatch_ret: *mut *const *mut c_void,
) -> i32 {
    static DISPATCH: OnceLock<Dispatch> = OnceLock::new();
    if target.is_null() || entries_ret.is_null() || dispatch_ret.is_null() {
        return code::INVALID_VALUE;
    }
    if DISPATCH.get().is_some() {
        // The loader was asked for this layer twice.
        return code::INVALID_OPERATION;
    }
    if let Err(problem) = report::configure() {
        report::say(&format!("anydnn-faults: {problem}; the layer is not used\n"));
        return code::INVALID_VALUE;
    }
    // SAFETY: a table with this many entries by contract.
    let below = unsafe { std::slice::from_raw_parts(target, entries as usize) };
    let dispatch = DISPATCH.get_or_init(|| Dispatch::over(below));
    // SAFETY: places for the results by contract.
    unsafe {
        entries_ret.write(dispatch.0.len() as u32);
        dispatch_ret.write(dispatch.0.as_ptr());
    }
    0
}

/// A dispatch table.
struct Dispatch(Box<[*mut c_void]>);

// SAFETY: addresses of functions, never changed.
unsafe impl Send for Dispatch {}
// SAFETY: as above.
unsafe impl Sync for Dispatch {}

impl Dispatch {
    /// This layer's table: its own functions where it has one, what is below otherwise.
    fn over(below: &[*mut c_void]) -> Self {
        let entry = |(i, &address): (usize, &*mut c_void)| {
            let function = Function::all().nth(i).filter(|function| !function.is_extension());
            function
                .and_then(|function| {
                    NEXT[function as usize].store(address, Ordering::Release);
                    function.interceptor().filter(|_| !address.is_null())
                })
                .unwrap_or(address)
        };
        Self(below.iter().enumerate().map(entry).collect())
    }
}

/// The function below this layer.
pub(crate) fn next(function: Function) -> *mut c_void {
    NEXT[function as usize].load(Ordering::Acquire)
}

/// The extension function of the platform with a slot.
pub(crate) fn next_extension(function: Function, slot: usize) -> *mut c_void {
    EXTENSIONS[slot][function.extension_index()].load(Ordering::Acquire)
}

/// This layer's function for an extension function of a platform, or the platform's own where the layer has none.
pub(crate) fn extension_address(platform: usize, name: &str, real: *mut c_void) -> *mut c_void {
    let function = Function::from_name(name).filter(|function| function.is_extension());
    let (Some(function), false) = (function, real.is_null()) else { return real };
    let mut platforms = PLATFORMS.lock().unwrap_or_else(PoisonError::into_inner);
    let slot = platforms.iter().position(|known| *known == platform).unwrap_or_else(|| {
        platforms.push(platform);
        platforms.len() - 1
    });
    let Some(interceptor) = function.extension_interceptor(slot) else { return real };
    EXTENSIONS[slot][function.extension_index()].store(real, Ordering::Release);
    interceptor
}
