//! Queues that were dropped before their commands had ended.
//!
//! OpenCL lets such commands go on, but drivers get it wrong. Intel's runtime for processors destroys an out-of-order queue on the thread
//! that ends its last command, which then waits for itself. PoCL frees the event of a command whose dependency failed while it holds
//! that event's lock, and aborts. So a thread keeps queue and events until the end; it ends itself when there are none left.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::event::Fate;
use crate::handle;

/// How often the thread looks: at first, and when nothing has ended for long.
const PAUSES: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(10));

/// The longest that the process's exit waits for a call of the thread.
const LONGEST_CALL: Duration = Duration::from_secs(1);

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
}

/// Keeps a queue, its commands and the memory that they hold until the last of them has ended.
pub(crate) fn keep(queue: handle::Queue, commands: Vec<Arc<Fate>>) {
    let orphan = Orphan { commands, queue };
    // Handing them over ends with the queue's implicit flush, which releasing it would have done.
    if let Err(code) = cl3::command_queue::flush(orphan.queue.raw()) {
        tracing::debug!(code, "a dropped queue could not be flushed");
    }
    let mut kept = lock();
    kept.queues.push(orphan);
    if !kept.has_thread {
        kept.has_thread = thread::Builder::new().name("anydnn-keeper".into()).spawn(watch).is_ok();
    }
    if !kept.has_thread {
        // Memory is better lost than freed too early; the next queue tries again.
        tracing::warn!("no thread to release dropped queues after their commands");
    }
}

/// Waits while the thread is in a call into a driver. Called when it shall make no more, at the process's exit.
pub(crate) fn settle() {
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
        let (ended, open): (Vec<_>, Vec<_>) = queues.into_iter().partition(Orphan::has_ended);
        pause = if ended.is_empty() { (pause * 2).min(PAUSES.1) } else { PAUSES.0 };
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
    /// Whether every command has ended, and the driver is done with them.
    fn has_ended(&self) -> bool {
        let ended = self.commands.iter().all(|command| !command.code().is_ok_and(|code| code > 0));
        if ended {
            // The status changes before the driver lets go of the event and the queue.
            for command in &self.commands {
                let _ = cl3::event::wait_for_events(&[command.raw()]);
            }
            let _ = cl3::command_queue::finish(self.queue.raw());
        }
        ended
    }
}

fn lock() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}
