//! The threads that work on a driver's commands beside the one that waits, and the cores that they have.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::thread::{gettid, sched_getcpu};

/// The shortest wait, for each worker, that is worth a look at where the workers are, which takes microseconds.
const LONG: Duration = Duration::from_millis(1);

/// A thread that ran for this part of a wait or more works on what is waited for.
const PART: u32 = 4;

/// The threads' files with where they are. Empty until a long wait has told them.
static WORKERS: Mutex<Vec<File>> = Mutex::new(Vec::new());

thread_local! {
    /// The longest of this thread's waits of late, fading: beside a long one there are often some for what has ended.
    static USUAL: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// What each other thread has run so far, by its number.
pub(super) type Times = HashMap<String, Duration>;

/// Makes room for the workers where the calling thread's waits are long. Returns what the other threads have run where it is
/// not known yet which of them are workers.
pub(super) fn before_wait() -> Option<Times> {
    if USUAL.get() < LONG {
        return None;
    }
    let mut workers = WORKERS.lock().unwrap_or_else(PoisonError::into_inner);
    if workers.is_empty() {
        return Some(times());
    }
    if USUAL.get() < LONG * u32::try_from(workers.len()).unwrap_or(u32::MAX) {
        return None;
    }
    // A thread that has ended is no worker, and there may be others now.
    let Some(cores) = workers.iter().map(core).collect::<Option<Vec<_>>>() else {
        workers.clear();
        return Some(times());
    };
    drop(workers);
    if cores.contains(&sched_getcpu()) {
        super::leave_cores(&cores);
    }
    None
}

/// Notes how long a wait was, and which threads worked meanwhile.
pub(super) fn after_wait(before: Option<Times>, elapsed: Duration) {
    USUAL.set((USUAL.get() * 7 / 8).max(elapsed));
    let Some(before) = before.filter(|_| elapsed >= LONG) else { return };
    let busy = times().into_iter().filter(|(thread, time)| {
        let ran = time.saturating_sub(before.get(thread).copied().unwrap_or_default());
        ran >= elapsed / PART
    });
    let found = busy.filter_map(|(thread, _)| File::open(format!("/proc/self/task/{thread}/stat")).ok());
    *WORKERS.lock().unwrap_or_else(PoisonError::into_inner) = found.collect();
}

/// What the process's threads beside the calling one have run so far. None where the system does not tell.
fn times() -> Times {
    let own = gettid().as_raw_nonzero().to_string();
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let names = threads.filter_map(|entry| entry.file_name().into_string().ok());
    let others = names.filter(|name| *name != own);
    others
        .filter_map(|name| {
            let time = run_time(name.parse().ok()?)?;
            Some((name, time))
        })
        .collect()
}

/// What a thread of the process has run so far. None if it has ended.
fn run_time(thread: i32) -> Option<Duration> {
    // The clock of what a thread has run, as `pthread_getcpuclockid` names it.
    let clock = (!thread << 3) | 6;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the call to fill in; a number that is no clock is refused.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    Some(Duration::new(time.tv_sec.try_into().ok()?, time.tv_nsec.try_into().ok()?))
}

/// The core that a thread has or had last, by its file; none if the thread has ended.
fn core(stat: &File) -> Option<usize> {
    /// The field's place behind the name, which is in brackets and may hold spaces.
    const AT: usize = 36;

    let mut bytes = [0; 1024];
    let read = stat.read_at(&mut bytes, 0).ok()?;
    let told = std::str::from_utf8(&bytes[..read]).ok()?;
    told.rsplit_once(')')?.1.split_whitespace().nth(AT)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_own_core_is_read_from_the_thread_s_file() {
        let file = File::open(format!("/proc/self/task/{}/stat", gettid().as_raw_nonzero())).unwrap();
        // The scheduler may move the thread between the two.
        assert!((0..100).any(|_| core(&file) == Some(sched_getcpu())));
    }

    #[test]
    fn threads_that_run_are_told_from_threads_that_sleep() {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::thread::sleep(LONG);
                }
            });
            // Other tests may take the cores for a while.
            let told = (0..10).any(|_| {
                let (before, start) = (times(), Instant::now());
                std::thread::sleep(LONG * 20);
                let (elapsed, after) = (start.elapsed(), times());
                let ran = |name: &String| {
                    let earlier = before.get(name).copied().unwrap_or_default();
                    after.get(name).copied().unwrap_or_default().saturating_sub(earlier)
                };
                let busy = after.keys().filter(|name| ran(name) >= elapsed / PART).count();
                busy > 0 && busy < after.len()
            });
            done.store(true, Ordering::Relaxed);
            assert!(told);
        });
    }
}
