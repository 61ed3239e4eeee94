//! Owners of OpenCL objects: each holds exactly one reference and gives it back when dropped.

use std::ffi::c_void;
use std::fmt;
use std::mem;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use anydnn_backend::{Error, Result};
use cl3::types::{cl_command_queue, cl_context, cl_device_id, cl_event, cl_kernel, cl_mem, cl_program};

use crate::driver::call::{Check, Scalar};

/// Defines the owner of one kind of object.
macro_rules! handle {
    ($(#[$doc:meta])* $name:ident, $raw:ty, $retain:path, $release:path) => {
        $(#[$doc])*
        pub(crate) struct $name(NonNull<c_void>);

        // SAFETY: the OpenCL specification lets any thread use any object (OpenCL 1.2, appendix A.2).
        unsafe impl Send for $name {}

        #[allow(dead_code, reason = "not every kind needs every function")]
        impl $name {
            /// Takes over a reference that the caller owns.
            ///
            /// # Safety
            /// `raw` is a live object of this kind, or null, and one of its references is given up.
            pub(crate) unsafe fn from_owned(raw: $raw) -> Result<Self> {
                Self::wrap(raw)
            }

            /// Adds a reference of its own to an object that the caller goes on owning.
            ///
            /// # Safety
            /// `raw` is a live object of this kind, or null.
            pub(crate) unsafe fn from_borrowed(raw: $raw) -> Result<Self> {
                let handle = mem::ManuallyDrop::new(Self::wrap(raw)?);
                // SAFETY: live by contract, and not null.
                unsafe { $retain(raw) }.check("retain", stringify!($retain))?;
                Ok(mem::ManuallyDrop::into_inner(handle))
            }

            /// Another owner of the same object.
            pub(crate) fn try_clone(&self) -> Result<Self> {
                // SAFETY: this owner keeps the object alive.
                unsafe { Self::from_borrowed(self.raw()) }
            }

            /// The object, still owned by this.
            pub(crate) fn raw(&self) -> $raw {
                self.0.as_ptr()
            }

            /// The object with its reference, which the caller owns from now on.
            pub(crate) fn into_raw(self) -> $raw {
                mem::ManuallyDrop::new(self).raw()
            }

            fn wrap(raw: $raw) -> Result<Self> {
                watch_for_exit();
                NonNull::new(raw).map(Self).ok_or_else(|| {
                    Error::invalid("OpenCL", stringify!($raw), "null", "an object")
                })
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                if is_exiting() {
                    return;
                }
                // SAFETY: this owns one reference to a live object and gives it up here, once.
                if let Err(code) = unsafe { $release(self.raw()) } {
                    tracing::warn!(object = stringify!($name), code, "an OpenCL object was not released");
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:p})"), self.0)
            }
        }
    };
}

/// Lets several threads use an owner at once.
macro_rules! shared {
    ($($name:ident),*) => {$(
        // SAFETY: as for `Send`; every call on this kind of object is thread-safe.
        unsafe impl Sync for $name {}
    )*};
}

handle!(
    /// A device; only sub-devices are really counted.
    Device, cl_device_id, cl3::device::retain_device, cl3::device::release_device
);
handle!(
    /// A context.
    Context, cl_context, cl3::context::retain_context, cl3::context::release_context
);
handle!(
    /// A command queue.
    Queue, cl_command_queue, cl3::command_queue::retain_command_queue, cl3::command_queue::release_command_queue
);
handle!(
    /// A memory object.
    Mem, cl_mem, cl3::memory::retain_mem_object, cl3::memory::release_mem_object
);
handle!(
    /// An event.
    Event, cl_event, cl3::event::retain_event, cl3::event::release_event
);
handle!(
    /// A program.
    Program, cl_program, cl3::program::retain_program, cl3::program::release_program
);
handle!(
    /// A kernel. Not for several threads at once: `clSetKernelArg` is the one call that is not thread-safe.
    Kernel, cl_kernel, cl3::kernel::retain_kernel, cl3::kernel::release_kernel
);
shared!(Device, Context, Queue, Mem, Event, Program);

impl Queue {
    /// Whether nobody else has a reference, as far as the driver tells.
    pub(crate) fn is_last(&self) -> bool {
        let count = cl3::command_queue::get_command_queue_data(
            self.raw(),
            cl3::command_queue::CL_QUEUE_REFERENCE_COUNT,
        );
        !matches!(count.map(|bytes| u32::from_bytes(&bytes)), Ok(Some(2..)))
    }
}

/// Set when the process exits. Drivers tear themselves down in exit handlers; releasing after that crashes some of them.
static EXITING: AtomicBool = AtomicBool::new(false);

/// What the process's exit waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtExit {
    /// Called while objects may still be released.
    pub(crate) before: fn(),
    /// Called when no release may start any more.
    pub(crate) after: fn(),
}

static AT_EXIT: Mutex<Vec<AtExit>> = Mutex::new(Vec::new());

/// Set while the process's first thread ends: what is begun now would still be under way when drivers tear themselves down.
static LEAVING: AtomicBool = AtomicBool::new(false);

/// Waits where the process's first thread ends, which is before any exit handler runs: a compiler installs its own as late as it first needs
/// what they take apart.
#[cfg(target_os = "linux")]
struct FirstThread;

#[cfg(target_os = "linux")]
impl Drop for FirstThread {
    fn drop(&mut self) {
        LEAVING.store(true, Ordering::SeqCst);
        // Not under the lock: others may still be told of.
        let waits = AT_EXIT.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for wait in &waits {
            (wait.before)();
        }
        for wait in &waits {
            (wait.after)();
        }
        // Where other threads go on without it.
        LEAVING.store(false, Ordering::SeqCst);
    }
}

#[cfg(target_os = "linux")]
thread_local! {
    static FIRST_THREAD: FirstThread = const { FirstThread };
}

/// Makes the process's exit wait; only the first call with the same functions counts. Called by the process's first thread, it makes that
/// one's end wait as well.
pub(crate) fn at_exit(waits: AtExit) {
    #[cfg(target_os = "linux")]
    // SAFETY: both only tell numbers.
    if unsafe { libc::gettid() == libc::getpid() } {
        let _ = FIRST_THREAD.try_with(|_| ());
    }
    let mut known = AT_EXIT.lock().unwrap_or_else(PoisonError::into_inner);
    let is_same = |known: &AtExit| {
        std::ptr::fn_addr_eq(known.before, waits.before) && std::ptr::fn_addr_eq(known.after, waits.after)
    };
    if !known.iter().any(is_same) {
        known.push(waits);
    }
}

/// Whether drivers must be left alone because they may have torn themselves down.
pub(crate) fn is_exiting() -> bool {
    EXITING.load(Ordering::Acquire)
}

/// Whether nothing may be begun that takes long in a driver.
pub(crate) fn is_leaving() -> bool {
    is_exiting() || LEAVING.load(Ordering::SeqCst)
}

/// Makes owners dropped during the process's exit leave the drivers alone. Exit handlers run last in, first out, and drivers install
/// theirs before the first object exists, so this one runs before theirs.
fn watch_for_exit() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(install);
}

/// Watches for exit before whatever has been installed since.
pub(crate) fn watch_again() {
    install();
}

fn install() {
    extern "C" fn exiting() {
        LEAVING.store(true, Ordering::SeqCst);
        let waits = std::mem::take(&mut *AT_EXIT.lock().unwrap_or_else(PoisonError::into_inner));
        for wait in &waits {
            (wait.before)();
        }
        EXITING.store(true, Ordering::Release);
        for wait in &waits {
            (wait.after)();
        }
    }
    // SAFETY: the handler only stores a flag and waits, not for long, for other threads.
    if unsafe { libc::atexit(exiting) } != 0 {
        tracing::debug!("no exit handler could be installed");
    }
}
