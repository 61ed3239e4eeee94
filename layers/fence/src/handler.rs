//! The handler of faults: says what an access outside of an allocation was, then lets the process die of it.

use std::ffi::{CString, c_void};
use std::fmt::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anydnn_layer::Target;

use crate::launch::Launch;
use crate::settings::{Mode, settings};
use crate::state::{self, State};

/// The signals of accesses to inaccessible memory.
const SIGNALS: [i32; 2] = [libc::SIGSEGV, libc::SIGBUS];
/// Kernels that are named at most.
const NAMED: usize = 32;

/// What was installed before this handler, by the signal's place in [`SIGNALS`].
static PREVIOUS: [AtomicPtr<libc::sigaction>; 2] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 2];
/// Whether a thread is reporting a fault.
static REPORTING: AtomicBool = AtomicBool::new(false);
/// The address of the fault that was handed on last, which is reported once, and how often that was.
static HANDED_ON: AtomicUsize = AtomicUsize::new(0);
static TIMES: AtomicUsize = AtomicUsize::new(0);
/// How often the same fault is handed on before it ends the process: handlers may hand it on to each other in a circle.
const PATIENCE: usize = 16;
/// The report's file, with a NUL at the end.
static REPORT: OnceLock<Option<CString>> = OnceLock::new();

/// Installs the handler where another has taken its place, as drivers and the program may do at any time.
pub(crate) fn ensure() {
    static INSTALLING: Mutex<()> = Mutex::new(());
    if settings().is_none_or(|settings| matches!(settings.mode, Mode::Canary | Mode::Off)) {
        return;
    }
    REPORT.get_or_init(|| match &settings()?.report {
        Some(Target::File(path)) => CString::new(path.as_os_str().as_bytes()).ok(),
        _ => None,
    });
    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) = on_fault;
    let handler = handler as *const () as usize;
    for (signal, previous) in SIGNALS.into_iter().zip(&PREVIOUS) {
        // SAFETY: a plain structure of numbers; the calls read and write whole structures.
        unsafe {
            let mut now = std::mem::zeroed::<libc::sigaction>();
            if libc::sigaction(signal, std::ptr::null(), &raw mut now) != 0 || now.sa_sigaction == handler {
                continue;
            }
            let _guard = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
            libc::sigaction(signal, std::ptr::null(), &raw mut now);
            if now.sa_sigaction != handler {
                let mut new = std::mem::zeroed::<libc::sigaction>();
                new.sa_sigaction = handler;
                new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
                // The structure is kept for good, since a fault may be reading the one before.
                previous.store(Box::into_raw(Box::new(now)), Ordering::Release);
                libc::sigaction(signal, &raw const new, std::ptr::null_mut());
            }
        }
    }
}

/// Reports a fault of the fence, and hands every fault on to who was there before. Allocates nothing.
extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system gives the information of the signal.
    let (address, by_access) = unsafe { ((*info).si_addr().addr(), (*info).si_code > 0) };
    if HANDED_ON.swap(address, Ordering::AcqRel) != address {
        TIMES.store(0, Ordering::Release);
        if by_access {
            report_once(signal, address, access(context));
        }
    }
    let times = TIMES.fetch_add(1, Ordering::AcqRel);
    hand_on(signal, info, context, times < PATIENCE);
}

/// Says what a fault was, unless another thread is about to end the process by one.
fn report_once(signal: i32, address: usize, access: &str) {
    if !REPORTING.swap(true, Ordering::AcqRel) {
        report(signal, address, access);
        REPORTING.store(false, Ordering::Release);
        return;
    }
    // Should the process not end, this thread goes on after a while.
    for _ in 0..300 {
        if !REPORTING.load(Ordering::Acquire) {
            break;
        }
        pause();
    }
}

/// Says what a fault was, if it was within a fence.
fn report(signal: i32, address: usize, access: &str) {
    let Some(state) = (0..200).find_map(|_| {
        state::try_lock().or_else(|| {
            pause();
            None
        })
    }) else {
        return;
    };
    if state.at(address).is_some() {
        let mut out = Out::new();
        // Writing to descriptors fails silently.
        let _ = write_fault(&mut out, &state, signal, address, access);
    }
}

fn write_fault(out: &mut Out, state: &State, signal: i32, address: usize, access: &str) -> fmt::Result {
    let Some(allocation) = state.at(address) else { return Ok(()) };
    let offset = address.wrapping_sub(allocation.start().unwrap_or(address)) as isize;
    let signal = if signal == libc::SIGBUS { "SIGBUS" } else { "SIGSEGV" };
    write!(out, "anydnn-fence: {signal}: {access} ")?;
    allocation.id.write_place(out, offset, allocation.live)?;
    let number = allocation.id.number;
    let has = |launch: &&Launch| launch.args.iter().any(|arg| arg.allocation == number);
    let count = state.launches.unfinished().count();
    write!(out, "\nanydnn-fence: kernels enqueued and not known to be finished: {count}\n")?;
    let with = state.launches.unfinished().filter(has);
    let without = state.launches.unfinished().filter(|launch| !has(launch));
    for launch in with.chain(without).take(NAMED) {
        write!(out, "  {}", launch.kernel)?;
        let mut said = false;
        for arg in launch.args.iter().filter(|arg| arg.allocation == number) {
            out.write_str(if said { ", " } else { ": it is " })?;
            said = true;
            match arg.index {
                Some(index) => write!(out, "argument {index}")?,
                None => out.write_str("named for indirect access")?,
            }
            if arg.offset != 0 {
                write!(out, " from offset {} on", arg.offset)?;
            }
        }
        out.write_str(if said { "\n" } else { ": it is no argument\n" })?;
    }
    if count > NAMED {
        writeln!(out, "  and {} more", count - NAMED)?;
    }
    Ok(())
}

/// Lets the handler act that was there before. Where there was none, the instruction is executed again and ends the process.
fn hand_on(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void, patient: bool) {
    let place = SIGNALS.iter().position(|known| *known == signal).unwrap_or_default();
    let previous = PREVIOUS[place].load(Ordering::Acquire);
    // SAFETY: a structure that is kept for good, or null.
    let previous = unsafe { previous.as_ref() };
    let action = previous.map_or(libc::SIG_DFL, |previous| previous.sa_sigaction);
    if !patient || action == libc::SIG_DFL || action == libc::SIG_IGN {
        // SAFETY: a plain structure of numbers; both calls are allowed in a handler.
        unsafe {
            let mut default = std::mem::zeroed::<libc::sigaction>();
            default.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(signal, &raw const default, std::ptr::null_mut());
            if (*info).si_code <= 0 {
                // Somebody sent the signal, so that nothing is executed again.
                libc::raise(signal);
            }
        }
        return;
    }
    let takes_info = previous.is_some_and(|previous| previous.sa_flags & libc::SA_SIGINFO != 0);
    // SAFETY: the address of a handler, of the type that its flags tell.
    unsafe {
        if takes_info {
            let handler =
                std::mem::transmute::<usize, extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void)>(action);
            handler(signal, info, context);
        } else {
            let handler = std::mem::transmute::<usize, extern "C" fn(i32)>(action);
            handler(signal);
        }
    }
}

/// What the access was, as far as the processor tells.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn access(context: *mut c_void) -> &'static str {
    const WRITE: i64 = 1 << 1;
    // SAFETY: the system gives the context of the fault.
    let error = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_ERR as usize] };
    if error & WRITE == 0 { "read" } else { "write" }
}

/// What the access was, as far as the processor tells.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn access(_: *mut c_void) -> &'static str {
    "access"
}

fn pause() {
    let time = libc::timespec { tv_sec: 0, tv_nsec: Duration::from_millis(10).as_nanos() as _ };
    // SAFETY: a time to sleep, which is allowed in a handler.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
}

/// Writes to the standard error stream and to the report's file, from a handler.
struct Out {
    bytes: [u8; 256],
    used: usize,
    file: i32,
}

impl Out {
    fn new() -> Self {
        let path = REPORT.get().and_then(Option::as_ref);
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
        // SAFETY: a C string; the call is allowed in a handler.
        let file = path.map_or(-1, |path| unsafe { libc::open(path.as_ptr(), flags, 0o644) });
        Self { bytes: [0; 256], used: 0, file }
    }

    fn flush(&mut self) {
        for descriptor in [libc::STDERR_FILENO, self.file] {
            if descriptor >= 0 {
                // SAFETY: initialised bytes; the call is allowed in a handler. There is nobody to tell when it fails.
                unsafe { libc::write(descriptor, self.bytes.as_ptr().cast(), self.used) };
            }
        }
        self.used = 0;
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        self.flush();
        if self.file >= 0 {
            // SAFETY: the descriptor opened above; the call is allowed in a handler.
            unsafe { libc::close(self.file) };
        }
    }
}

impl fmt::Write for Out {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if self.used == self.bytes.len() {
                self.flush();
            }
            self.bytes[self.used] = byte;
            self.used += 1;
        }
        Ok(())
    }
}
