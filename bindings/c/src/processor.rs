//! Settings of the whole library that speak of processors' code. No code is generated for processors here, so that they change nothing.

use std::ffi::{c_char, c_int, c_uint};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::boundary::{self, Failure};
use crate::handle;
use crate::object_types::dnnl_cpu_isa_t;
use crate::types::{dnnl_runtime_error, dnnl_status_t};

/// Whether generated code is written to files: there is none to write.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_set_jit_dump(_enable: c_int) -> dnnl_status_t {
    boundary::status("dnnl_set_jit_dump", || Ok(()))
}

/// Which profilers are told of generated code: there is none to tell of.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_set_jit_profiling_flags(flags: c_uint) -> dnnl_status_t {
    boundary::status("dnnl_set_jit_profiling_flags", || {
        if flags > 15 {
            return Err(Failure::invalid(format!("{flags:#x} are no flags of profilers, expected 0 to 15")));
        }
        Ok(())
    })
}

/// Where the profiler `perf` finds generated code: there is none to find.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_set_jit_profiling_jitdumpdir(dir: *const c_char) -> dnnl_status_t {
    boundary::status("dnnl_set_jit_profiling_jitdumpdir", || {
        if dir.is_null() { Err(Failure::null("dir")) } else { Ok(()) }
    })
}

/// The most instructions of a processor that may be used. `OpenCL` drivers decide that themselves.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_set_max_cpu_isa(isa: dnnl_cpu_isa_t) -> dnnl_status_t {
    boundary::status("dnnl_set_max_cpu_isa", || {
        if INSTRUCTION_SETS.contains(&isa) {
            return Ok(());
        }
        Err(Failure::invalid(format!("{isa:#x} is no instruction set")))
    })
}

/// Hints for instruction sets of processors: 0 none, 1 vectors of 256 bits rather than 512. Once in a process.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_set_cpu_isa_hints(isa_hints: c_int) -> dnnl_status_t {
    boundary::status("dnnl_set_cpu_isa_hints", || {
        if !(0..=1).contains(&isa_hints) {
            return Err(Failure::invalid(format!("{isa_hints} are no hints, expected 0 or 1")));
        }
        if HINTED.swap(true, Ordering::Relaxed) {
            return Err(Failure::Status(dnnl_runtime_error, "hints were given before".to_owned()));
        }
        HINTS.store(isa_hints, Ordering::Relaxed);
        Ok(())
    })
}

/// The hints that were given; none at first.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_get_cpu_isa_hints() -> c_int {
    HINTS.load(Ordering::Relaxed)
}

/// Tells how many primitives the cache may keep.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_get_primitive_cache_capacity(capacity: *mut c_int) -> dnnl_status_t {
    boundary::status("dnnl_get_primitive_cache_capacity", || {
        // SAFETY: the caller passes null or a place to write.
        unsafe { handle::write(capacity, "capacity", cache_capacity()) }
    })
}

/// Says how many primitives each engine may keep for others that are the same; the default is 1024, or what `ONEDNN_PRIMITIVE_CACHE_CAPACITY`
/// says.
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

/// How many primitives the cache may keep.
pub(crate) fn cache_capacity() -> c_int {
    match CAPACITY.load(Ordering::Relaxed) {
        UNSET => {
            let given = crate::settings::environment("PRIMITIVE_CACHE_CAPACITY");
            let capacity = given.and_then(|text| text.parse().ok()).filter(|&n| n >= 0).unwrap_or(1024);
            // Another thread may have set it meanwhile.
            CAPACITY
                .compare_exchange(UNSET, capacity, Ordering::Relaxed, Ordering::Relaxed)
                .map_or_else(|set| set, |_| capacity)
        }
        capacity => capacity,
    }
}

const UNSET: c_int = -1;
static CAPACITY: AtomicI32 = AtomicI32::new(UNSET);
static HINTS: AtomicI32 = AtomicI32::new(0);
static HINTED: AtomicBool = AtomicBool::new(false);

/// The numbers of `dnnl_cpu_isa_t`.
const INSTRUCTION_SETS: [dnnl_cpu_isa_t; 14] =
    [0, 0x1, 0x3, 0x7, 0xf, 0x1f, 0x27, 0x67, 0xe7, 0x1ef, 0xfef, 0x1fef, 0x201ff, 0x22fff];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{dnnl_invalid_arguments, dnnl_success};

    #[test]
    fn settings_take_what_is_documented() {
        assert_eq!(dnnl_set_max_cpu_isa(0xfef), dnnl_success);
        assert_eq!(dnnl_set_max_cpu_isa(2), dnnl_invalid_arguments);
        assert_eq!(dnnl_set_jit_profiling_flags(7), dnnl_success);
        assert_eq!(dnnl_set_jit_profiling_flags(16), dnnl_invalid_arguments);
        assert_eq!(dnnl_set_cpu_isa_hints(2), dnnl_invalid_arguments);
        assert_eq!(dnnl_set_cpu_isa_hints(1), dnnl_success);
        assert_eq!(dnnl_set_cpu_isa_hints(0), dnnl_runtime_error);
        assert_eq!(dnnl_get_cpu_isa_hints(), 1);
    }
}
