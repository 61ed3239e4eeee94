//! What the library tells on standard output when asked to.

use std::cell::Cell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::fmt;
use std::num::NonZero;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use crate::object_types::{dnnl_any_engine, dnnl_cpu, dnnl_engine_kind_t, dnnl_gpu};
use crate::settings;

/// Executions are told from this level on, errors too.
pub(crate) const EXECUTION: c_int = 1;
/// Creations are told from this level on.
pub(crate) const CREATION: c_int = 2;

/// Sets the level.
pub(crate) fn set_level(level: c_int) {
    LEVEL.store(level, Ordering::Relaxed);
}

/// The level: as set, or as `ONEDNN_VERBOSE` says.
pub(crate) fn level() -> c_int {
    match LEVEL.load(Ordering::Relaxed) {
        UNSET => {
            let level = settings::environment("VERBOSE").map_or(0, |text| level_of(&text));
            LEVEL
                .compare_exchange(UNSET, level, Ordering::Relaxed, Ordering::Relaxed)
                .map_or_else(|set| set, |_| level)
        }
        level => level,
    }
}

/// Writes a line of comma-separated fields where `level` is asked for, the first time behind lines of what the library is. A standard output
/// that is closed is no error.
pub(crate) fn line(level: c_int, fields: fmt::Arguments<'_>) {
    if self::level() < level {
        return;
    }
    TOLD.call_once(|| {
        let version = env!("CARGO_PKG_VERSION");
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        print(format_args!("info,oneDNN v3.13.2 (anydnn {version})"));
        print(format_args!("info,cpu,runtime:threadpool,nthr:{threads}"));
        print(format_args!("info,gpu,runtime:OpenCL"));
        print(format_args!(
            "primitive,info,template:operation,engine,primitive,implementation,prop_kind,memory_descriptors,attributes,auxiliary,\
             problem_desc,exec_time"
        ));
    });
    print(fields);
}

/// Prints a line by the standard output of C, so that it stands between those of a program in C.
fn print(fields: fmt::Arguments<'_>) {
    unsafe extern "C" {
        fn printf(format: *const c_char, ...) -> c_int;
        fn fflush(stream: *mut c_void) -> c_int;
    }
    let Ok(line) = CString::new(format!("onednn_verbose,v1,{fields}\n")) else { return };
    // SAFETY: the format takes one string, which lives and ends in zero; null stands for all that is open for writing.
    unsafe {
        printf(c"%s".as_ptr(), line.as_ptr());
        fflush(ptr::null_mut());
    }
}

/// The time that a call began, where `level` is asked for.
pub(crate) fn start(level: c_int) -> Option<Instant> {
    (self::level() >= level).then(Instant::now)
}

/// Tells of a function that failed; of one that describes a primitive as of a primitive too, whether it is missing or wrong.
pub(crate) fn error(function: &str, message: &str, is_missing: bool) {
    line(EXECUTION, format_args!("error,api,{function},{message}"));
    let described = function.strip_prefix("dnnl_").and_then(|name| name.split_once("_primitive_desc_create"));
    if let Some((kind, _)) = described {
        let stage = if is_missing { "dispatch" } else { "check" };
        let engine = NAMED.try_with(Cell::get).map_or("any", kind_name);
        line(EXECUTION, format_args!("primitive,create:{stage},{engine},{kind},{message}"));
    }
}

/// A function begins, which has named no engine yet.
pub(crate) fn begin() {
    name_engine(dnnl_any_engine);
}

/// The function names an engine of a kind.
pub(crate) fn name_engine(kind: dnnl_engine_kind_t) {
    // While a thread ends there is nowhere to keep it.
    let _ = NAMED.try_with(|named| named.set(kind));
}

thread_local! {
    /// The kind of the engine that the function which runs has named last.
    static NAMED: Cell<dnnl_engine_kind_t> = const { Cell::new(dnnl_any_engine) };
}

/// The word for a kind of engine.
pub(crate) fn kind_name(kind: dnnl_engine_kind_t) -> &'static str {
    match kind {
        dnnl_cpu => "cpu",
        dnnl_gpu => "gpu",
        _ => "any",
    }
}

const UNSET: c_int = -1;
static LEVEL: AtomicI32 = AtomicI32::new(UNSET);
/// Whether the lines of what the library is were told.
static TOLD: Once = Once::new();

/// A number, or names of what to tell (`profile_exec`, `dispatch`, `all`): those that name creations mean level 2.
fn level_of(text: &str) -> c_int {
    match text.trim().parse() {
        Ok(level @ 0..=2) => level,
        Ok(_) => 0,
        Err(_) => text.split(',').map(level_of_name).max().unwrap_or(0),
    }
}

fn level_of_name(name: &str) -> c_int {
    match name.trim() {
        "all" | "profile" | "profile_create" | "dispatch" => 2,
        "profile_exec" | "error" | "check" => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_takes_numbers_and_names() {
        assert_eq!(["", "0", "1", "2", "7", "-1", "none"].map(level_of), [0, 0, 1, 2, 0, 0, 0]);
        assert_eq!(["profile_exec", "error, profile_create", "all"].map(level_of), [1, 2, 2]);
    }
}
