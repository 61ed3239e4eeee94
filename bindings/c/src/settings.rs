//! Settings of the whole library.

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{PoisonError, RwLock};

use anydnn_backend::{FpMath, Specialize};

use crate::boundary::{self, Failure};
use crate::handle;
use crate::types::{
    dnnl_fpmath_mode_any, dnnl_fpmath_mode_bf16, dnnl_fpmath_mode_f16, dnnl_fpmath_mode_strict,
    dnnl_fpmath_mode_t, dnnl_fpmath_mode_tf32, dnnl_status_t,
};
use crate::verbose;

/// Sets how much the library tells on standard output: 0 nothing, 1 executions, 2 creations too. Overrides `ONEDNN_VERBOSE`.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_set_verbose(level: c_int) -> dnnl_status_t {
    boundary::status("dnnl_set_verbose", || {
        if !(0..=2).contains(&level) {
            return Err(Failure::invalid(format!("level is {level}, expected 0, 1 or 2")));
        }
        verbose::set_level(level);
        Ok(())
    })
}

/// Tells whether executions or creations are told on standard output.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_verbose_profiling_enabled(enabled: *mut c_int) -> dnnl_status_t {
    boundary::status("dnnl_verbose_profiling_enabled", || {
        // SAFETY: the caller passes null or a number to write.
        unsafe { handle::write(enabled, "enabled", c_int::from(verbose::level() >= verbose::EXECUTION)) }
    })
}

/// Reads the floating-point mode that new attributes begin with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_get_default_fpmath_mode(mode: *mut dnnl_fpmath_mode_t) -> dnnl_status_t {
    boundary::status("dnnl_get_default_fpmath_mode", || {
        // SAFETY: the caller passes null or a mode to write.
        unsafe { handle::write(mode, "mode", default_mode()) }
    })
}

/// Sets the floating-point mode that new attributes begin with. Overrides `ONEDNN_DEFAULT_FPMATH_MODE`.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_set_default_fpmath_mode(mode: dnnl_fpmath_mode_t) -> dnnl_status_t {
    boundary::status("dnnl_set_default_fpmath_mode", || {
        if fpmath(mode).is_none() {
            return Err(Failure::invalid(format!("mode is {mode}, expected 0 to 4")));
        }
        DEFAULT_MODE.store(mode, Ordering::Relaxed);
        Ok(())
    })
}

/// Says when kernels of primitives and partitions that are made from now on get programs for one shape: "background", "never" or
/// "eager"; null for what `ANYDNN_SPECIALIZE` says. Results are the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anydnn_set_specialize(when: *const c_char) -> dnnl_status_t {
    boundary::status("anydnn_set_specialize", || {
        let when = if when.is_null() {
            None
        } else {
            // SAFETY: not null, so the caller passes a string.
            Some(unsafe { CStr::from_ptr(when) }.to_string_lossy().parse()?)
        };
        *SPECIALIZE.write().unwrap_or_else(PoisonError::into_inner) = when;
        Ok(())
    })
}

static SPECIALIZE: RwLock<Option<Specialize>> = RwLock::new(None);

/// When kernels get programs for one shape; none where nothing was set.
pub(crate) fn specialize() -> Option<Specialize> {
    *SPECIALIZE.read().unwrap_or_else(PoisonError::into_inner)
}

/// The floating-point mode that new attributes begin with.
pub(crate) fn default_fpmath() -> FpMath {
    fpmath(default_mode()).unwrap_or_default()
}

/// The number of a floating-point mode.
pub(crate) fn fpmath_number(mode: FpMath) -> dnnl_fpmath_mode_t {
    match mode {
        FpMath::BF16 => dnnl_fpmath_mode_bf16,
        FpMath::F16 => dnnl_fpmath_mode_f16,
        FpMath::Any => dnnl_fpmath_mode_any,
        FpMath::TF32 => dnnl_fpmath_mode_tf32,
        _ => dnnl_fpmath_mode_strict,
    }
}

/// The floating-point mode of that number.
pub(crate) fn fpmath(mode: dnnl_fpmath_mode_t) -> Option<FpMath> {
    match mode {
        dnnl_fpmath_mode_strict => Some(FpMath::Strict),
        dnnl_fpmath_mode_bf16 => Some(FpMath::BF16),
        dnnl_fpmath_mode_f16 => Some(FpMath::F16),
        dnnl_fpmath_mode_any => Some(FpMath::Any),
        dnnl_fpmath_mode_tf32 => Some(FpMath::TF32),
        _ => None,
    }
}

/// An environment variable under its present name or the one before.
pub(crate) fn environment(name: &str) -> Option<String> {
    ["ONEDNN", "DNNL"].iter().find_map(|prefix| std::env::var(format!("{prefix}_{name}")).ok())
}

const UNSET: c_int = -1;
static DEFAULT_MODE: AtomicI32 = AtomicI32::new(UNSET);

fn default_mode() -> dnnl_fpmath_mode_t {
    match DEFAULT_MODE.load(Ordering::Relaxed) {
        UNSET => {
            let mode =
                environment("DEFAULT_FPMATH_MODE").map_or(dnnl_fpmath_mode_strict, |name| named_mode(&name));
            // Another thread may have set it meanwhile.
            DEFAULT_MODE
                .compare_exchange(UNSET, mode, Ordering::Relaxed, Ordering::Relaxed)
                .map_or_else(|set| set, |_| mode)
        }
        mode => mode,
    }
}

fn named_mode(name: &str) -> dnnl_fpmath_mode_t {
    match name.to_ascii_lowercase().as_str() {
        "bf16" => dnnl_fpmath_mode_bf16,
        "f16" => dnnl_fpmath_mode_f16,
        "any" => dnnl_fpmath_mode_any,
        "tf32" => dnnl_fpmath_mode_tf32,
        _ => dnnl_fpmath_mode_strict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_names_in_the_environment() {
        assert_eq!(fpmath(named_mode("BF16")), Some(FpMath::BF16));
        assert_eq!(fpmath(named_mode("tf32")), Some(FpMath::TF32));
        assert_eq!(fpmath(named_mode("any")), Some(FpMath::Any));
        assert_eq!(fpmath(named_mode("fast")), Some(FpMath::Strict));
        assert_eq!(fpmath(5), None);
    }
}
