//! Keeping the waiting thread off the core of a driver's worker.
//!
//! Intel's runtime for processors starts one worker thread less than there are cores: the thread that waits for commands works on them
//! too. Linux may wake such a worker on the core of the thread that wakes it, and leave both there for many milliseconds while another
//! core idles. On two cores all work then takes twice its time, wait after wait, for both threads start where they last ran. So a wait
//! that used one core's time ends with the thread on another core, and before a wait that is long as a rule the thread leaves a core
//! that a [worker](workers) has: whatever else runs on the machine may have brought them together in between.

#[cfg(target_os = "linux")]
mod workers;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Waits that are shorter say nothing: waking a worker takes a part of them.
const TELLING: Duration = Duration::from_micros(200);

/// On more cores a worker that waits for its turn costs little, and leaving for any other core may hit a second one.
#[cfg(target_os = "linux")]
const FEW_CORES: std::ops::RangeInclusive<u32> = 2..=4;

/// Telling waits in a row that used one core, and those of them still to be passed over: work that one thread does cannot be helped.
static CROWDED: Crowded = Crowded { seen: AtomicU32::new(0), passed: AtomicU32::new(0) };

struct Crowded {
    seen: AtomicU32,
    passed: AtomicU32,
}

impl Crowded {
    /// Whether to act on one more crowded wait: on the first, the second, the fourth, ... in a row.
    fn act(&self) -> bool {
        if self.passed.load(Ordering::Relaxed) > 0 {
            self.passed.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let seen = self.seen.fetch_add(1, Ordering::Relaxed).min(10);
        self.passed.store((1 << seen) - 1, Ordering::Relaxed);
        true
    }

    fn clear(&self) {
        self.seen.store(0, Ordering::Relaxed);
        self.passed.store(0, Ordering::Relaxed);
    }
}

/// Waits in a driver whose waiting thread works, and then makes room if it was in a worker's way.
pub(crate) fn watch<T>(wait: impl FnOnce() -> T) -> T {
    #[cfg(target_os = "linux")]
    let watched = workers::before_wait();
    let (start, used) = (Instant::now(), process_time());
    let value = wait();
    let elapsed = start.elapsed();
    #[cfg(target_os = "linux")]
    workers::after_wait(watched, elapsed);
    if let (Some(before), Some(after)) = (used, process_time()) {
        match is_crowded(after.saturating_sub(before), elapsed) {
            Some(true) if CROWDED.act() => leave_core(),
            Some(false) => CROWDED.clear(),
            _ => {}
        }
    }
    value
}

/// Whether a wait used no more than one core's time, or none if it was too short to tell.
fn is_crowded(used: Duration, elapsed: Duration) -> Option<bool> {
    // The quarter is for a worker that came in late, and for other threads of the process.
    (elapsed >= TELLING).then(|| used <= elapsed.mul_f32(1.25))
}

/// What all threads of the process have used of their cores.
#[cfg(target_os = "linux")]
fn process_time() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).ok()
}

#[cfg(not(target_os = "linux"))]
fn process_time() -> Option<Duration> {
    None
}

/// Moves the calling thread to another of the cores that it may use, without restricting it.
#[cfg(target_os = "linux")]
fn leave_core() {
    leave_cores(&[rustix::thread::sched_getcpu()]);
}

/// Moves the calling thread to one of the cores that it may use beside some, if there is such a core, without restricting it.
#[cfg(target_os = "linux")]
fn leave_cores(taken: &[usize]) {
    use rustix::thread::{sched_getaffinity, sched_setaffinity};

    let Ok(allowed) = sched_getaffinity(None) else { return };
    let mut others = allowed;
    for &core in taken {
        others.unset(core);
    }
    if !FEW_CORES.contains(&allowed.count()) || others.count() == 0 {
        return;
    }
    let moved = sched_setaffinity(None, &others);
    if let Err(error) = moved.and_then(|()| sched_setaffinity(None, &allowed)) {
        tracing::debug!(%error, "a waiting thread could not leave its core");
    }
}

#[cfg(not(target_os = "linux"))]
fn leave_core() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::thread::{sched_getaffinity, sched_getcpu};

    use super::*;

    #[test]
    fn repeated_crowded_waits_are_acted_on_ever_more_seldom() {
        let crowded = Crowded { seen: AtomicU32::new(0), passed: AtomicU32::new(0) };
        let acted = |crowded: &Crowded| (0..16).filter(|_| crowded.act()).collect::<Vec<_>>();
        assert_eq!(acted(&crowded), [0, 1, 3, 7, 15]);
        assert_eq!(acted(&crowded), [15]);
        crowded.clear();
        assert_eq!(acted(&crowded), [0, 1, 3, 7, 15]);
    }

    #[test]
    fn leaving_a_core_moves_the_thread_and_restricts_nothing() {
        let allowed = sched_getaffinity(None).unwrap();
        let from = sched_getcpu();
        leave_core();
        if FEW_CORES.contains(&allowed.count()) {
            // The scheduler is free to move it back, but not within a few instructions, again and again.
            let moved = (0..20).any(|_| {
                let from = sched_getcpu();
                leave_core();
                sched_getcpu() != from
            });
            assert!(moved, "still on core {from}");
        }
        assert_eq!(sched_getaffinity(None).unwrap(), allowed);
    }

    #[test]
    fn waits_of_one_core_are_told_from_waits_of_two() {
        let micros = Duration::from_micros;
        assert_eq!(is_crowded(micros(100), micros(100)), None);
        assert_eq!(is_crowded(micros(1000), micros(1000)), Some(true));
        assert_eq!(is_crowded(micros(1240), micros(1000)), Some(true));
        assert_eq!(is_crowded(micros(1500), micros(1000)), Some(false));
        assert_eq!(watch(|| 7), 7);
    }
}
