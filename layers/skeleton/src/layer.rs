//! The interface between the loader and a layer.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::report::say;
use crate::slot::NAMES;

/// `CL_LAYER_API_VERSION`.
const LAYER_API_VERSION: u32 = 0x4240;
/// `CL_LAYER_NAME`.
const LAYER_NAME: u32 = 0x4241;
/// The version of the layer interface that is spoken (`CL_LAYER_API_VERSION_100`).
const VERSION: u32 = 100;
const INVALID_VALUE: i32 = -30;
const INVALID_OPERATION: i32 = -59;

/// A layer: what it is called, how it is set up, and what it puts in the place of which function.
///
/// A layer's library has one, as a static, and hands it to the loader with [`export_layer!`](crate::export_layer).
#[derive(Debug)]
pub struct Layer {
    name: &'static CStr,
    configure: fn() -> Result<(), String>,
    interceptor: fn(usize) -> Option<*mut c_void>,
    below: [AtomicPtr<c_void>; NAMES.len()],
    dispatch: OnceLock<Dispatch>,
}

impl Layer {
    /// A layer with a name. `configure` reads the environment when the loader asks for the layer, which is not used when that fails;
    /// `interceptor` gives the layer's own function, of the same signature, for a [slot](crate::slot) of the dispatch table.
    pub const fn new(
        name: &'static CStr,
        configure: fn() -> Result<(), String>,
        interceptor: fn(usize) -> Option<*mut c_void>,
    ) -> Self {
        let below = [const { AtomicPtr::new(ptr::null_mut()) }; NAMES.len()];
        Self { name, configure, interceptor, below, dispatch: OnceLock::new() }
    }

    /// The function below the layer, at a [slot](crate::slot) of the dispatch table; null before the loader has given it.
    pub fn below(&self, slot: usize) -> *mut c_void {
        self.below.get(slot).map_or(ptr::null_mut(), |address| address.load(Ordering::Acquire))
    }

    /// `clGetLayerInfo`: tells the loader what kind of layer this is.
    ///
    /// # Safety
    /// - `value` has room for `size` bytes, or is null.
    /// - `size_ret` is a place for a number, or null.
    pub unsafe fn info(&self, info: u32, size: usize, value: *mut c_void, size_ret: *mut usize) -> i32 {
        let version = VERSION.to_ne_bytes();
        let bytes = match info {
            LAYER_API_VERSION => &version[..],
            LAYER_NAME => self.name.to_bytes_with_nul(),
            _ => return INVALID_VALUE,
        };
        if !value.is_null() {
            if size < bytes.len() {
                return INVALID_VALUE;
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

    /// `clInitLayer`: takes the dispatch table of what is below and gives back the layer's.
    ///
    /// # Safety
    /// - `target` is a dispatch table with `entries` entries that lives as long as the process, or null.
    /// - `entries_ret` and `dispatch_ret` are places for the result, or null.
    pub unsafe fn init(
        &self,
        entries: u32,
        target: *const *mut c_void,
        entries_ret: *mut u32,
        dispatch_ret: *mut *const *mut c_void,
    ) -> i32 {
        if target.is_null() || entries_ret.is_null() || dispatch_ret.is_null() {
            return INVALID_VALUE;
        }
        if self.dispatch.get().is_some() {
            // The loader was asked for this layer twice.
            return INVALID_OPERATION;
        }
        if let Err(problem) = (self.configure)() {
            say(&format!("{}: {problem}; the layer is not used\n", self.name.to_string_lossy()));
            return INVALID_VALUE;
        }
        // SAFETY: a table with this many entries by contract.
        let below = unsafe { std::slice::from_raw_parts(target, entries as usize) };
        let dispatch = self.dispatch.get_or_init(|| self.over(below));
        // SAFETY: places for the results by contract.
        unsafe {
            entries_ret.write(dispatch.0.len() as u32);
            dispatch_ret.write(dispatch.0.as_ptr());
        }
        0
    }

    /// The layer's table: its own functions where it has one, what is below otherwise.
    fn over(&self, below: &[*mut c_void]) -> Dispatch {
        let entry = |(slot, &address): (usize, &*mut c_void)| {
            let Some(place) = self.below.get(slot) else { return address };
            place.store(address, Ordering::Release);
            (self.interceptor)(slot).filter(|_| !address.is_null()).unwrap_or(address)
        };
        Dispatch(below.iter().enumerate().map(entry).collect())
    }
}

/// A dispatch table.
#[derive(Debug)]
struct Dispatch(Box<[*mut c_void]>);

// SAFETY: addresses of functions, never changed.
unsafe impl Send for Dispatch {}
// SAFETY: as above.
unsafe impl Sync for Dispatch {}

/// Defines the two functions that the loader looks for in a layer's library, for a static [`Layer`].
#[macro_export]
macro_rules! export_layer {
    ($layer:path) => {
        /// Tells the loader what kind of layer this is.
        ///
        /// # Safety
        /// - `value` has room for `size` bytes, or is null.
        /// - `size_ret` is a place for a number, or null.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn clGetLayerInfo(
            info: u32,
            size: usize,
            value: *mut ::std::ffi::c_void,
            size_ret: *mut usize,
        ) -> i32 {
            // SAFETY: the same contract.
            unsafe { $layer.info(info, size, value, size_ret) }
        }

        /// Takes the dispatch table of what is below and gives back this layer's. Reads the environment.
        ///
        /// # Safety
        /// - `target` is a dispatch table with `entries` entries that lives as long as the process, or null.
        /// - `entries_ret` and `dispatch_ret` are places for the result, or null.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn clInitLayer(
            entries: u32,
            target: *const *mut ::std::ffi::c_void,
            entries_ret: *mut u32,
            dispatch_ret: *mut *const *mut ::std::ffi::c_void,
        ) -> i32 {
            // SAFETY: the same contract.
            unsafe { $layer.init(entries, target, entries_ret, dispatch_ret) }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn theirs() -> i32 {
        1
    }

    unsafe extern "C" fn ours() -> i32 {
        2
    }

    fn init(layer: &Layer, below: &[*mut c_void]) -> Result<Vec<*mut c_void>, i32> {
        let (mut entries, mut table) = (0, ptr::null());
        // SAFETY: a table and places for the results.
        let code =
            unsafe { layer.init(below.len() as u32, below.as_ptr(), &raw mut entries, &raw mut table) };
        if code != 0 {
            return Err(code);
        }
        // SAFETY: the layer gives a table of this many entries.
        Ok(unsafe { std::slice::from_raw_parts(table, entries as usize) }.to_vec())
    }

    #[test]
    fn a_layer_replaces_what_it_wants_and_passes_the_rest() {
        let layer =
            Layer::new(c"test", || Ok(()), |slot| (slot == 1 || slot == 2).then_some(ours as *mut c_void));
        assert!(layer.below(1).is_null());
        let mut below = vec![theirs as *mut c_void; 200];
        below[2] = ptr::null_mut();
        let table = init(&layer, &below).unwrap();
        assert_eq!(table.len(), 200, "also of a loader that knows more functions");
        assert_eq!(table[0], theirs as *mut c_void);
        assert_eq!(table[1], ours as *mut c_void);
        assert!(table[2].is_null(), "a function that nobody has is not there");
        assert_eq!(table[199], theirs as *mut c_void);
        assert_eq!(layer.below(1), theirs as *mut c_void);
        assert!(layer.below(1000).is_null());
        assert_eq!(init(&layer, &below), Err(INVALID_OPERATION), "the loader asks twice");
    }

    #[test]
    fn a_layer_with_wrong_settings_is_not_used() {
        let layer = Layer::new(c"test", || Err("no".into()), |_| None);
        assert_eq!(init(&layer, &[theirs as *mut c_void]), Err(INVALID_VALUE));
    }

    #[test]
    fn the_loader_is_told_version_and_name() {
        let layer = Layer::new(c"test", || Ok(()), |_| None);
        let (mut bytes, mut size) = ([0_u8; 8], 0);
        let mut ask = |info, room| {
            // SAFETY: there is room for what is asked.
            let code = unsafe { layer.info(info, room, bytes.as_mut_ptr().cast(), &raw mut size) };
            (code, size, bytes)
        };
        assert_eq!(ask(LAYER_API_VERSION, 8).2[..4], 100_u32.to_ne_bytes());
        assert_eq!(ask(LAYER_NAME, 8), (0, 5, *b"test\0\0\0\0"));
        assert_eq!(ask(LAYER_NAME, 4).0, INVALID_VALUE);
        assert_eq!(ask(1, 8).0, INVALID_VALUE);
    }
}
