//! The control functions for C; `include/anydnn_faults.h` declares them.

use std::ffi::{CStr, c_char, c_void};

use crate::fault::{self, Fault};
use crate::state::{self, State};
use crate::table::Function;
use crate::{code, report};

/// The version of this interface.
pub(crate) const VERSION: u32 = 1;

/// An object that the program owns references of.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CObject {
    pub(crate) kind: *const c_char,
    pub(crate) creator: *const c_char,
    pub(crate) handle: *mut c_void,
    pub(crate) references: u64,
}

/// A call that the program must not make.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CViolation {
    pub(crate) function: *const c_char,
    pub(crate) what: *const c_char,
    pub(crate) kind: *const c_char,
    pub(crate) creator: *const c_char,
    pub(crate) handle: *mut c_void,
}

/// A fault that was injected.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CInjection {
    pub(crate) function: *const c_char,
    pub(crate) call: u64,
    pub(crate) code: i32,
}

#[unsafe(no_mangle)]
extern "C" fn anydnn_faults_version() -> u32 {
    VERSION
}

/// # Safety
/// `function` is a C string, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn anydnn_faults_arm(
    function: *const c_char,
    call: u64,
    code: i32,
    persistent: i32,
) -> i32 {
    // SAFETY: by contract.
    let pattern = unsafe { text(function) };
    match Fault::new(pattern.unwrap_or("*"), call, code, persistent != 0) {
        Ok(fault) => {
            state::lock().faults.arm(fault);
            0
        }
        Err(_) => code::INVALID_VALUE,
    }
}

#[unsafe(no_mangle)]
extern "C" fn anydnn_faults_disarm() {
    state::lock().faults.disarm();
}

/// # Safety
/// `function` is a C string, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn anydnn_faults_count(function: *const c_char) -> u64 {
    // SAFETY: by contract.
    let pattern = unsafe { text(function) }.unwrap_or("*");
    let state = state::lock();
    let matching = Function::all().filter(|function| fault::matches(pattern, function.name()));
    matching.map(|function| state.counts[function as usize]).sum()
}

/// # Safety
/// `objects` has room for `capacity` objects, or is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn anydnn_faults_live(objects: *mut CObject, capacity: usize) -> usize {
    let state = state::lock();
    let live = state.ledger.live().into_iter().map(|(key, object)| CObject {
        kind: c(key.kind.c_name()),
        creator: c(object.creator.c_name()),
        handle: std::ptr::with_exposed_provenance_mut(key.address),
        references: object.references,
    });
    // SAFETY: by contract.
    unsafe { fill(live, objects, capacity) }
}

/// # Safety
/// `violations` has room for `capacity` violations, or is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn anydnn_faults_violations(violations: *mut CViolation, capacity: usize) -> usize {
    let state = state::lock();
    let found = state.violations.iter().map(|violation| CViolation {
        function: c(violation.function.c_name()),
        what: c(violation.wrong.c_name()),
        kind: c(violation.kind.c_name()),
        creator: c(violation.creator.c_name()),
        handle: std::ptr::with_exposed_provenance_mut(violation.handle),
    });
    // SAFETY: by contract.
    unsafe { fill(found, violations, capacity) }
}

/// # Safety
/// `injections` has room for `capacity` injections, or is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn anydnn_faults_injected(injections: *mut CInjection, capacity: usize) -> usize {
    let state = state::lock();
    let injected = state.injected.iter().map(|injection| CInjection {
        function: c(injection.function.c_name()),
        call: injection.call,
        code: injection.code,
    });
    // SAFETY: by contract.
    unsafe { fill(injected, injections, capacity) }
}

#[unsafe(no_mangle)]
extern "C" fn anydnn_faults_trace_start() {
    state::lock().trace = Some(Vec::new());
}

/// # Safety
/// `functions` has room for `capacity` pointers, or is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn anydnn_faults_trace(functions: *mut *const c_char, capacity: usize) -> usize {
    let state = state::lock();
    let trace = state.trace.iter().flatten().map(|function| c(function.c_name()));
    // SAFETY: by contract.
    unsafe { fill(trace, functions, capacity) }
}

#[unsafe(no_mangle)]
extern "C" fn anydnn_faults_refuse_invalid(on: i32) {
    state::lock().refuse = on != 0;
}

#[unsafe(no_mangle)]
extern "C" fn anydnn_faults_perform_releases(on: i32) {
    state::lock().perform_releases = on != 0;
}

#[unsafe(no_mangle)]
extern "C" fn anydnn_faults_reset() {
    state::lock().reset();
}

/// # Safety
/// `buffer` has room for `size` bytes, or is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn anydnn_faults_report(buffer: *mut c_char, size: usize) -> usize {
    let report = report::text(&state::lock() as &State);
    let bytes = report.bytes().chain([0]).map(|byte| byte as c_char);
    // SAFETY: by contract.
    unsafe { fill(bytes, buffer, size) }
}

/// Writes as many items as there is room for; returns how many there are.
///
/// # Safety
/// `room` has room for `capacity` items, or is null.
unsafe fn fill<T>(items: impl Iterator<Item = T>, room: *mut T, capacity: usize) -> usize {
    let mut count = 0;
    for item in items {
        if count < capacity && !room.is_null() {
            // SAFETY: by contract.
            unsafe { room.add(count).write(item) };
        }
        count += 1;
    }
    count
}

/// The text of a C string; none for null and for what is not UTF-8.
///
/// # Safety
/// `pointer` is a C string that lives long enough, or null.
unsafe fn text<'a>(pointer: *const c_char) -> Option<&'a str> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: by contract.
    unsafe { CStr::from_ptr(pointer) }.to_str().ok().or(Some(""))
}

/// A text that ends with NUL, for C.
fn c(text: &'static str) -> *const c_char {
    text.as_ptr().cast()
}
