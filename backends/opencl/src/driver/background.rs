//! Work for engines that nobody waits for, each on a thread of its own. The process's exit waits for it: drivers tear themselves down then,
//! and what calls them meanwhile crashes.

use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

use anydnn_backend::Work;

use crate::driver::handle::{self, AtExit};

/// How many threads may be in a call into a driver.
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// The longest that the process's exit waits: for programs that are being compiled, where a machine is busy. What comes behind them fails.
const LONGEST: Duration = Duration::from_secs(60);

/// A thread at work, until it is dropped.
struct Busy;

impl Busy {
    fn new() -> Self {
        BUSY.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Self
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Begins work on a new thread; gives it back where there is none.
pub(crate) fn begin(work: Work) -> Option<Work> {
    handle::at_exit(AtExit { before: || {}, after: settle });
    // Kept apart from the thread's closure, which is lost with a thread that does not start.
    let (sender, receiver) = std::sync::mpsc::channel::<Work>();
    // Before the thread: an exit that begins at once waits as well.
    let busy = Busy::new();
    let run = move || {
        let _busy = busy;
        let Ok(work) = receiver.recv() else { return };
        if handle::is_leaving() {
            std::mem::forget(work);
        } else {
            work.run();
        }
    };
    if let Err(error) = thread::Builder::new().name("anydnn-ahead".into()).spawn(run) {
        tracing::warn!(%error, "no thread for work in the background");
        return Some(work);
    }
    sender.send(work).err().map(|refused| refused.0)
}

/// Whether something is under way.
pub(crate) fn is_busy() -> bool {
    BUSY.load(Ordering::Relaxed) > 0
}

/// Waits for the threads at work, at the process's exit.
fn settle() {
    fence(Ordering::SeqCst);
    let start = Instant::now();
    while BUSY.load(Ordering::SeqCst) > 0 && start.elapsed() < LONGEST {
        thread::sleep(Duration::from_millis(1));
    }
}
