//! Threads that compile. Drivers prepare for every thread that does (Intel's takes 80 ms for it), so that programs are not compiled by
//! whichever thread needs them but by the same few, one after another. While work goes on in the background, others compute in place of
//! the device: then programs are compiled by threads that yield to them.

use std::cell::Cell;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::driver::{background, handle};

/// How long a thread without work stays: another model may follow.
const REST: Duration = Duration::from_secs(1);

type Job = Box<dyn FnOnce() + Send>;

/// The threads without work, the one that worked last at the end.
static IDLE: Mutex<Vec<Idle>> = Mutex::new(Vec::new());

struct Idle {
    thread: ThreadId,
    /// Whether it yields to others, which it does for good.
    yields: bool,
    jobs: Sender<Job>,
}

thread_local! {
    static COMPILES: Cell<bool> = const { Cell::new(false) };
}

/// Lets this thread compile what it needs by itself from now on.
pub(crate) fn compile_on_this_one() {
    COMPILES.set(true);
}

/// Does something on a thread that compiles and waits for it; none where it panicked.
pub(crate) fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    if COMPILES.get() {
        return Some(work());
    }
    let (answer, result) = mpsc::channel();
    let (span, dispatch) = (tracing::Span::current(), tracing::dispatcher::get_default(Clone::clone));
    let job = Box::new(move || {
        let done = tracing::dispatcher::with_default(&dispatch, || span.in_scope(work));
        // Whoever asked waits for it.
        let _ = answer.send(done);
    });
    if let Err(job) = hand_over(job) {
        job();
    }
    result.recv().ok()
}

/// Gives a job to a thread without work or to a new one; gives it back where there is none.
fn hand_over(mut job: Job) -> Result<(), Job> {
    // One that has panicked takes nothing any more.
    let yields = background::is_busy();
    while let Some(idle) = take(yields) {
        match idle.jobs.send(job) {
            Ok(()) => return Ok(()),
            Err(refused) => job = refused.0,
        }
    }
    let (jobs, receiver) = mpsc::channel();
    let own = jobs.clone();
    let name = "anydnn-compile".to_owned();
    match thread::Builder::new().name(name).spawn(move || work(&own, &receiver, yields)) {
        Ok(_) => jobs.send(job).map_err(|refused| refused.0),
        Err(error) => {
            tracing::debug!(%error, "no thread that compiles");
            Err(job)
        }
    }
}

/// The thread that worked last of those that yield or do not.
fn take(yields: bool) -> Option<Idle> {
    let mut idle = lock();
    let at = idle.iter().rposition(|idle| idle.yields == yields)?;
    Some(idle.remove(at))
}

/// Gives a thread, or the first one of a process, a tenth of the time of those that it competes with.
pub(crate) fn let_yield(number: u32) {
    #[cfg(target_os = "linux")]
    // SAFETY: it changes the priority of what has this number, the caller's own thread for zero; Linux knows threads by such.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, number, 10);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = number;
}

/// Does the jobs of this thread; `own` is where they are sent.
fn work(own: &Sender<Job>, jobs: &Receiver<Job>, yields: bool) {
    COMPILES.set(true);
    if yields {
        let_yield(0);
    }
    let thread = thread::current().id();
    loop {
        match jobs.recv_timeout(REST) {
            Ok(job) => {
                if yields {
                    handle::watch_again();
                }
                job();
                lock().push(Idle { thread, yields, jobs: own.clone() });
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let mut idle = lock();
                // Where it is not there, somebody has taken it and a job is on its way.
                if let Some(at) = idle.iter().position(|idle| idle.thread == thread) {
                    idle.swap_remove(at);
                    return;
                }
            }
        }
    }
}

fn lock() -> MutexGuard<'static, Vec<Idle>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> ThreadId {
        thread::current().id()
    }

    #[test]
    fn work_is_done_elsewhere_and_what_it_needs_in_turn_on_the_same_thread() {
        let (outer, inner) = run(|| (own(), run(own))).unwrap();
        assert_ne!(outer, own());
        assert_eq!(inner, Some(outer));
    }

    #[test]
    fn a_panic_is_told_and_loses_no_later_work() {
        assert_eq!(run(|| if true { panic!("a job that fails") } else { 1 }), None);
        assert_eq!(run(|| 2), Some(2));
    }

    #[test]
    fn many_ask_at_the_same_time() {
        let sum: u64 = thread::scope(|scope| {
            let all: Vec<_> = (0..32).map(|i| scope.spawn(move || run(move || i).unwrap())).collect();
            all.into_iter().map(|one| one.join().unwrap()).sum()
        });
        assert_eq!(sum, 31 * 32 / 2);
    }

    #[test]
    fn a_thread_that_may_compile_does_so_itself() {
        thread::spawn(|| {
            compile_on_this_one();
            assert_eq!(run(own), Some(own()));
        })
        .join()
        .unwrap();
    }
}
