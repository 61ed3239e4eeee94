//! A core for each busy thread of a peer.
//!
//! After a pause Linux often leaves the threads of a library on one of a few cores, and its work takes twice its time. Ours moves away by
//! itself where that happens, and ONNX Runtime pins its threads; a peer that runs in this program is helped, or it would look slow.

use std::time::{Duration, Instant};

/// Runs something, and pins the busiest threads of this process to a core each if it used no more than one core's time.
#[cfg(target_os = "linux")]
pub(super) fn run<T>(work: impl FnOnce() -> T) -> T {
    /// Waking a thread is a part of what takes less.
    const TELLING: Duration = Duration::from_micros(500);

    let before = threads();
    let (start, used) = (Instant::now(), process_time());
    let value = work();
    let elapsed = start.elapsed();
    if elapsed >= TELLING
        && let (Some(used), Some(after)) = (used, process_time())
        && after.saturating_sub(used) < elapsed.mul_f32(1.25)
    {
        let ran = |id| before.iter().find(|thread| thread.id == id).map_or(0, |thread| thread.ran);
        let mut threads = threads();
        threads.sort_by_key(|thread| std::cmp::Reverse(thread.ran.saturating_sub(ran(thread.id))));
        pin(&threads);
    }
    value
}

#[cfg(not(target_os = "linux"))]
pub(super) fn run<T>(work: impl FnOnce() -> T) -> T {
    work()
}

#[cfg(target_os = "linux")]
fn process_time() -> Option<Duration> {
    rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).try_into().ok()
}

/// A thread of this process.
#[cfg(target_os = "linux")]
struct Thread {
    id: rustix::thread::Pid,
    /// Nanoseconds on a core.
    ran: u64,
}

#[cfg(target_os = "linux")]
fn threads() -> Vec<Thread> {
    let entries = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let thread = |entry: std::fs::DirEntry| {
        let id = entry.file_name().to_string_lossy().parse().ok().and_then(rustix::thread::Pid::from_raw)?;
        let text = std::fs::read_to_string(entry.path().join("schedstat")).ok()?;
        Some(Thread { id, ran: text.split_whitespace().next()?.parse().ok()? })
    };
    entries.filter_map(thread).collect()
}

/// A core for each of the first threads, as many as there are cores for the process.
#[cfg(target_os = "linux")]
fn pin(threads: &[Thread]) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    // An earlier call may have pinned some threads, not all.
    let mut cores = CpuSet::new();
    for set in threads.iter().filter_map(|thread| sched_getaffinity(Some(thread.id)).ok()) {
        (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).for_each(|core| cores.set(core));
    }
    let cores = (0..CpuSet::MAX_CPU).filter(|&core| cores.is_set(core));
    for (thread, core) in threads.iter().zip(cores) {
        let mut alone = CpuSet::new();
        alone.set(core);
        // A thread that has ended meanwhile needs no core.
        let _ = sched_setaffinity(Some(thread.id), &alone);
    }
}
