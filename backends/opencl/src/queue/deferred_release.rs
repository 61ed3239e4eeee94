//! Queues that were dropped before their commands had ended.
//!
//! OpenCL lets such commands go on, but drivers get it wrong. Intel's runtime for processors destroys an out-of-order queue on the thread
//! that ends its last command, which then waits for itself. PoCL frees the event of a command whose dependency failed while it holds
//! that event's lock, and aborts. So a thread keeps queue and events until the end; it ends itself when there are none left.
//!
//! Nor is the end the end on Intel's runtime: the thread that ran the last command reports it as complete, and lets go of the queue some
//! instructions later, when it may have lost its core in between. Nothing in OpenCL tells when it has, `clFinish` included, so an
//! out-of-order queue there rests for a while first. So does every queue on a part of a PoCL device, together with that part: PoCL's
//! worker reads the part when it lets go of the last command, and neither queue nor context keeps the part.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::driver::handle::{self, AtExit};
use crate::driver::platform::OpenClDevice;
use crate::queue::fate::Fate;

/// How often the thread looks: at first, and when nothing has ended for long.
const PAUSES: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(10));

/// The longest that the process's exit waits for a call of the thread.
const LONGEST_CALL: Duration = Duration::from_secs(1);

/// How long, in milliseconds, a queue rests whose driver lets go of it late: many turns of the other threads on a busy machine.
static REST: AtomicU64 = AtomicU64::new(200);

/// Queues that are to rest and have not been released.
static RESTING: AtomicUsize = AtomicUsize::new(0);

/// Whether the thread may be in a call into a driver.
static BUSY: AtomicBool = AtomicBool::new(false);

static KEPT: Mutex<Kept> = Mutex::new(Kept { queues: Vec::new(), has_thread: false });

struct Kept {
    queues: Vec<Orphan>,
    has_thread: bool,
}

/// A queue that nobody uses any more, with the commands that have not ended.
#[derive(Debug)]
struct Orphan {
    /// Dropped before the queue.
    commands: Vec<Arc<Fate>>,
    queue: handle::Queue,
    /// Dropped after the queue.
    _device: OpenClDevice,
    /// None for a driver that lets go in time.
    rest: Option<Rest>,
}

/// The rest of one queue, counted while it lasts.
#[derive(Debug)]
struct Rest {
    /// When the last command was seen to have ended.
    since: Option<Instant>,
}

impl Rest {
    fn new() -> Self {
        RESTING.fetch_add(1, Ordering::SeqCst);
        Self { since: None }
    }

    /// What is left of it; it starts with the first call.
    fn left(&mut self) -> Duration {
        rest().saturating_sub(self.since.get_or_insert_with(Instant::now).elapsed())
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        RESTING.fetch_sub(1, Ordering::SeqCst);
    }
}

fn rest() -> Duration {
    Duration::from_millis(REST.load(Ordering::Relaxed))
}

/// Makes queues rest for another time from now on.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn set_rest(rest: Duration) {
    REST.store(rest.as_millis() as u64, Ordering::Relaxed);
}

/// Keeps a queue, its commands and the memory that they hold until the last of them has ended, and for a while longer where the driver
/// lets go of its queues late.
pub(crate) fn keep(queue: handle::Queue, device: OpenClDevice, commands: Vec<Arc<Fate>>, lets_go_late: bool) {
    handle::at_exit(AtExit { before: release_the_resting, after: settle });
    let orphan = Orphan { commands, queue, _device: device, rest: lets_go_late.then(Rest::new) };
    // Handing them over ends with the queue's implicit flush, which releasing it would have done.
    if !orphan.commands.is_empty()
        && let Err(code) = cl3::command_queue::flush(orphan.queue.raw())
    {
        tracing::debug!(code, "a dropped queue could not be flushed");
    }
    let mut kept = lock();
    kept.queues.push(orphan);
    if !kept.has_thread {
        kept.has_thread = thread::Builder::new().name("anydnn-release".into()).spawn(watch).is_ok();
    }
    if !kept.has_thread {
        // Memory is better lost than freed too early; the next queue tries again.
        tracing::warn!("no thread to release dropped queues after their commands");
    }
}

/// Waits until queues are released that only rest. Called at the process's exit, before drivers must be left alone.
fn release_the_resting() {
    let start = Instant::now();
    // Commands that are still held back may never end.
    while RESTING.load(Ordering::SeqCst) > 0 && start.elapsed() < rest() * 2 {
        thread::sleep(PAUSES.0);
    }
}

/// Waits while the thread is in a call into a driver. Called when it shall make no more, at the process's exit.
fn settle() {
    fence(Ordering::SeqCst);
    let start = Instant::now();
    // Not without end: what a memory's owner does when it is freed may be what ends the process.
    while BUSY.load(Ordering::SeqCst) && start.elapsed() < LONGEST_CALL {
        thread::sleep(PAUSES.0);
    }
}

fn watch() {
    let mut pause = PAUSES.0;
    loop {
        thread::sleep(pause);
        BUSY.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        // No lock is held in calls into drivers and while memory is freed: both may run code of others that drops a stream.
        let queues = mem::take(&mut lock().queues);
        if handle::is_exiting() {
            mem::forget(queues);
            BUSY.store(false, Ordering::SeqCst);
            return;
        }
        let (mut ended, mut open) = (Vec::new(), Vec::new());
        let mut longest = PAUSES.1;
        for mut queue in queues {
            match queue.time_left() {
                Some(Duration::ZERO) => ended.push(queue),
                left => {
                    longest = longest.min(left.unwrap_or(PAUSES.1));
                    open.push(queue);
                }
            }
        }
        pause = if ended.is_empty() { (pause * 2).min(longest) } else { PAUSES.0 };
        drop(ended);
        BUSY.store(false, Ordering::SeqCst);
        let mut kept = lock();
        kept.queues.extend(open);
        if kept.queues.is_empty() {
            kept.has_thread = false;
            return;
        }
    }
}

impl Orphan {
    /// The time until the queue may be released, once it is known.
    fn time_left(&mut self) -> Option<Duration> {
        let is_resting = self.rest.as_ref().is_some_and(|rest| rest.since.is_some());
        let has_ended = is_resting || self.has_ended();
        has_ended.then(|| self.rest.as_mut().map_or(Duration::ZERO, Rest::left))
    }

    /// Whether every command has ended, and the driver is done with them.
    fn has_ended(&self) -> bool {
        let ended = self.commands.iter().all(|command| !command.code().is_ok_and(|code| code > 0));
        if ended {
            // The status changes before the driver lets go of the event and the queue.
            for command in &self.commands {
                if let Ok(event) = command.raw() {
                    let _ = cl3::event::wait_for_events(&[event]);
                }
            }
            let _ = cl3::command_queue::finish(self.queue.raw());
        }
        ended
    }
}

fn lock() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use anydnn_backend::{Engine, Event, Stream, StreamDesc};
    use cl3::types::cl_command_queue;

    use super::*;
    use crate::testing::test_engines;

    fn is_kept(queue: cl_command_queue) -> bool {
        lock().queues.iter().any(|kept| kept.queue.raw() == queue)
    }

    #[test]
    fn only_queues_that_drivers_let_go_of_late_rest() {
        for engine in test_engines() {
            let lets_go_late = engine.inner.device.has_fragile_queues();
            for desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
                let stream = engine.create_stream(&desc).unwrap();
                stream.marker(&[]).unwrap().wait().unwrap();
                stream.wait().unwrap();
                let raw = stream.raw_queue();
                let start = Instant::now();
                drop(stream);
                let rests = lets_go_late && desc == StreamDesc::out_of_order();
                // For moments the thread has it in its hands.
                let mut last_seen = Duration::ZERO;
                while start.elapsed() < rest() {
                    if is_kept(raw) {
                        last_seen = start.elapsed();
                    }
                    thread::sleep(Duration::from_millis(1));
                }
                assert!(!rests || last_seen > rest() / 2, "{engine:?}: kept for {last_seen:?}");
                while is_kept(raw) {
                    thread::sleep(Duration::from_millis(1));
                    assert!(start.elapsed() < 20 * rest(), "{engine:?}: it is never released");
                }
            }
        }
    }
}
