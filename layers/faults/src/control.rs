//! Control of the layer from the program under test.

use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::path::{Path, PathBuf};

use dlopen2::raw::Library;

use crate::exports::{CInjection, CObject, CViolation, VERSION};
use crate::fault::Fault;

/// The name of the layer's library on this system.
const LIBRARY: &str = if cfg!(windows) {
    "anydnn_faults.dll"
} else if cfg!(target_os = "macos") {
    "libanydnn_faults.dylib"
} else {
    "libanydnn_faults.so"
};

/// The layer's library next to the running program, where cargo puts it for a program that depends on this crate.
pub fn layer_path() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folder = program.parent()?;
    // Tests and their libraries are in `deps`; examples are beside it.
    let folders =
        [Some(folder.to_owned()), Some(folder.join("deps")), folder.parent().map(|f| f.join("deps"))];
    folders.into_iter().flatten().map(|folder| folder.join(LIBRARY)).find(|path| path.is_file())
}

/// Why the layer cannot be controlled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// `OPENCL_LAYERS` does not name the layer.
    #[error("OPENCL_LAYERS is {0:?} and names no {LIBRARY}")]
    NotALayer(String),
    /// The library cannot be loaded.
    #[error("{path} cannot be loaded: {cause}")]
    Library {
        /// The library.
        path: String,
        /// The system's word on it.
        cause: String,
    },
    /// The library is another version's.
    #[error("{path} speaks version {version} of the interface, expected {VERSION}")]
    Version {
        /// The library.
        path: String,
        /// Its version.
        version: u32,
    },
}

/// The layer that the loader uses in this process.
///
/// ```no_run
/// use anydnn_faults::{Control, Fault};
///
/// let layer = Control::from_env()?;
/// layer.arm(&Fault::new("clCreateBuffer", 1, -4, false)?);
/// // ... calls into OpenCL: the next buffer is not made ...
/// assert_eq!(layer.injected().len(), 1);
/// assert!(layer.live().is_empty() && layer.violations().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Control {
    calls: Calls,
}

/// An object that the program owns references of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    /// The kind in words; see [`Kind::name`](crate::Kind::name).
    pub kind: String,
    /// The function that made it.
    pub creator: String,
    /// The address of the handle.
    pub handle: usize,
    /// The references that the program owns.
    pub references: u64,
}

/// A call that the program must not make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The function that was called.
    pub function: String,
    /// `use after release` or `release without a reference`.
    pub what: String,
    /// The kind of the object in words.
    pub kind: String,
    /// The function that had made the object.
    pub creator: String,
    /// The address of the handle.
    pub handle: usize,
}

/// A fault that was injected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    /// The function that failed.
    pub function: String,
    /// Which call of this function it was, from one.
    pub call: u64,
    /// The code that it returned.
    pub code: i32,
}

/// Defines the functions of the interface, and how they are found.
macro_rules! calls {
    ($($field:ident: $symbol:literal, $t:ty;)*) => {
        struct Calls { $($field: $t,)* }

        impl Calls {
            fn find(library: &Library) -> Result<Self, dlopen2::Error> {
                // SAFETY: the layer's own header gives these functions these types.
                Ok(unsafe { Self { $($field: library.symbol::<$t>($symbol)?,)* } })
            }
        }
    };
}

calls! {
    arm: "anydnn_faults_arm", unsafe extern "C" fn(*const c_char, u64, i32, i32) -> i32;
    disarm: "anydnn_faults_disarm", unsafe extern "C" fn();
    count: "anydnn_faults_count", unsafe extern "C" fn(*const c_char) -> u64;
    live: "anydnn_faults_live", unsafe extern "C" fn(*mut CObject, usize) -> usize;
    violations: "anydnn_faults_violations", unsafe extern "C" fn(*mut CViolation, usize) -> usize;
    injected: "anydnn_faults_injected", unsafe extern "C" fn(*mut CInjection, usize) -> usize;
    trace_start: "anydnn_faults_trace_start", unsafe extern "C" fn();
    trace: "anydnn_faults_trace", unsafe extern "C" fn(*mut *const c_char, usize) -> usize;
    refuse_invalid: "anydnn_faults_refuse_invalid", unsafe extern "C" fn(i32);
    perform_releases: "anydnn_faults_perform_releases", unsafe extern "C" fn(i32);
    reset: "anydnn_faults_reset", unsafe extern "C" fn();
    report: "anydnn_faults_report", unsafe extern "C" fn(*mut c_char, usize) -> usize;
}

impl Control {
    /// The layer that `OPENCL_LAYERS` names.
    ///
    /// # Errors
    /// When it names none, or its library cannot be used.
    pub fn from_env() -> Result<Self, ControlError> {
        let layers = std::env::var("OPENCL_LAYERS").unwrap_or_default();
        let is_layer = |path: &&PathBuf| path.file_name().is_some_and(|name| name == LIBRARY);
        let paths: Vec<PathBuf> = std::env::split_paths(&layers).collect();
        let path = paths.iter().find(is_layer).ok_or_else(|| ControlError::NotALayer(layers.clone()))?;
        Self::open(path)
    }

    /// The layer in a library. The path must be the one in `OPENCL_LAYERS`, so that this is the loader's copy.
    ///
    /// # Errors
    /// When the library cannot be used.
    pub fn open(path: &Path) -> Result<Self, ControlError> {
        let shown = || path.display().to_string();
        let failed =
            |cause: dlopen2::Error| ControlError::Library { path: shown(), cause: cause.to_string() };
        let library = Library::open(path).map_err(failed)?;
        // SAFETY: the layer's own header gives this function this type.
        let version = unsafe { library.symbol::<unsafe extern "C" fn() -> u32>("anydnn_faults_version") };
        // SAFETY: the function has no conditions.
        let version = unsafe { version.map_err(failed)?() };
        if version != VERSION {
            return Err(ControlError::Version { path: shown(), version });
        }
        let calls = Calls::find(&library).map_err(failed)?;
        // The functions must stay where they are.
        std::mem::forget(library);
        Ok(Self { calls })
    }

    /// Arms a fault besides those that are armed.
    pub fn arm(&self, fault: &Fault) {
        let Ok(pattern) = CString::new(fault.pattern.as_str()) else { return };
        // SAFETY: a C string. The fault was checked when it was made.
        unsafe { (self.calls.arm)(pattern.as_ptr(), fault.call, fault.code, i32::from(fault.persistent)) };
    }

    /// Disarms every fault.
    pub fn disarm(&self) {
        // SAFETY: the function has no conditions.
        unsafe { (self.calls.disarm)() };
    }

    /// The number of calls of the functions that a pattern matches; `*` for all.
    pub fn count(&self, pattern: &str) -> u64 {
        // SAFETY: a C string.
        CString::new(pattern).map_or(0, |pattern| unsafe { (self.calls.count)(pattern.as_ptr()) })
    }

    /// The objects that the program owns references of, oldest first.
    pub fn live(&self) -> Vec<Object> {
        // SAFETY: there is room for as many items as is said.
        let objects = all(|room, capacity| unsafe { (self.calls.live)(room, capacity) });
        let object = |o: &CObject| Object {
            kind: text(o.kind),
            creator: text(o.creator),
            handle: o.handle.addr(),
            references: o.references,
        };
        objects.iter().map(object).collect()
    }

    /// The calls that the program must not have made, in order.
    pub fn violations(&self) -> Vec<Violation> {
        // SAFETY: there is room for as many items as is said.
        let violations = all(|room, capacity| unsafe { (self.calls.violations)(room, capacity) });
        let violation = |v: &CViolation| Violation {
            function: text(v.function),
            what: text(v.what),
            kind: text(v.kind),
            creator: text(v.creator),
            handle: v.handle.addr(),
        };
        violations.iter().map(violation).collect()
    }

    /// The faults that were injected, in order.
    pub fn injected(&self) -> Vec<Injection> {
        // SAFETY: there is room for as many items as is said.
        let injected = all(|room, capacity| unsafe { (self.calls.injected)(room, capacity) });
        let injection = |i: &CInjection| Injection { function: text(i.function), call: i.call, code: i.code };
        injected.iter().map(injection).collect()
    }

    /// Records the names of the functions called from now on, for [`trace`](Self::trace).
    pub fn start_trace(&self) {
        // SAFETY: the function has no conditions.
        unsafe { (self.calls.trace_start)() };
    }

    /// The functions called since [`start_trace`](Self::start_trace), in order.
    pub fn trace(&self) -> Vec<String> {
        // SAFETY: there is room for as many items as is said.
        let names = all(|room, capacity| unsafe { (self.calls.trace)(room, capacity) });
        names.iter().map(|name: &*const c_char| text(*name)).collect()
    }

    /// Whether a call with a dead handle returns an error instead of reaching the driver, which it might crash. On at first.
    pub fn refuse_invalid(&self, on: bool) {
        // SAFETY: the function has no conditions.
        unsafe { (self.calls.refuse_invalid)(i32::from(on)) };
    }

    /// Whether a release, a free or an unmapping that is made to fail happens all the same, so that its failure is no leak. On at
    /// first.
    pub fn perform_releases(&self, on: bool) {
        // SAFETY: the function has no conditions.
        unsafe { (self.calls.perform_releases)(i32::from(on)) };
    }

    /// Forgets counts, armed and injected faults, violations and the trace. The ledger stays, since the objects do.
    pub fn reset(&self) {
        // SAFETY: the function has no conditions.
        unsafe { (self.calls.reset)() };
    }

    /// Everything the layer has seen, in words.
    pub fn report(&self) -> String {
        // SAFETY: there is room for as many items as is said.
        let bytes: Vec<c_char> = all(|room, capacity| unsafe { (self.calls.report)(room, capacity) });
        // SAFETY: the layer ends the text with NUL.
        bytes.last().map_or_else(String::new, |_| text(bytes.as_ptr()))
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("calls", &self.count("*")).finish()
    }
}

/// Every item that a function gives, which may become more between asking and fetching.
fn all<T>(mut fetch: impl FnMut(*mut T, usize) -> usize) -> Vec<T> {
    let mut items = Vec::new();
    let mut count = fetch(std::ptr::null_mut(), 0);
    loop {
        items.reserve(count);
        let capacity = items.capacity();
        let now = fetch(items.as_mut_ptr(), capacity);
        if now <= capacity {
            // SAFETY: the function has written this many items.
            unsafe { items.set_len(now) };
            return items;
        }
        count = now;
    }
}

/// A text of the layer's.
fn text(pointer: *const c_char) -> String {
    // SAFETY: the layer's texts are C strings that live as long as its library, which is never closed.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}
