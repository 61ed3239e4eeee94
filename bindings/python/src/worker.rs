//! Work that Ctrl-C ends. Python handles signals on its main thread between two of its own instructions, so what that thread would wait for
//! long runs on another one meanwhile, and what is short looks for signals itself.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anydnn::backend::Result;
use anydnn::onnx;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::error::OrRaise;
use crate::fork;

/// How often signals are looked for.
const TICK: Duration = Duration::from_millis(50);

type Job = Box<dyn FnOnce() + Send>;

/// Threads without work.
static IDLE: Mutex<Vec<Sender<Job>>> = Mutex::new(Vec::new());

/// The work that threads do at the moment, by number.
static AT_WORK: Mutex<BTreeMap<u64, onnx::Cancel>> = Mutex::new(BTreeMap::new());
static ENDED: Condvar = Condvar::new();

/// Ends runs of sessions from another thread.
#[pyclass(frozen, module = "anydnn._native")]
#[derive(Debug, Default)]
pub(crate) struct Cancel {
    pub(crate) inner: onnx::Cancel,
}

#[pymethods]
impl Cancel {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn cancel(&self) {
        self.inner.cancel();
    }

    fn is_cancelled(&self) -> bool {
        self.inner.is_cancelled()
    }
}

/// How work is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// On any thread but the main one, which alone handles signals.
    Here,
    /// On the main thread, for work that is short as far as is known: it is done there, and looks for signals should it take long.
    Short,
    /// On the main thread: another one does the work. A signal's exception is raised at once, and the work is cancelled and ends by itself.
    Elsewhere,
}

/// Does work without the interpreter's lock. The work is given what ends it.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    waiting: Waiting,
    cancel: &onnx::Cancel,
    work: impl FnOnce(&onnx::Cancel) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    match waiting {
        Waiting::Here => return py.detach(|| work(cancel)).or_raise(),
        Waiting::Short => return look(py, cancel, work),
        Waiting::Elsewhere => {}
    }
    let own = cancel.clone();
    let work = move || work(&own);
    let (done, result) = channel();
    py.detach(|| start(cancel.clone(), move || drop(done.send(work()))))?;
    // A receiver is for one thread, which this stays on.
    let result = Mutex::new(result);
    loop {
        match py.detach(|| lock(&result).recv_timeout(TICK)) {
            Ok(result) => return result.or_raise(),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(signal) = py.check_signals() {
                    cancel.cancel();
                    return Err(signal);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err(
                    "the run ended without a result, which is a bug of anydnn",
                ));
            }
        }
    }
}

/// Does work that looks for signals after each tick.
fn look<T: Send>(
    py: Python<'_>,
    cancel: &onnx::Cancel,
    work: impl FnOnce(&onnx::Cancel) -> Result<T> + Send,
) -> PyResult<T> {
    let raised = Arc::new(Mutex::new(None));
    let (told, last) = (Arc::clone(&raised), Mutex::new(Instant::now()));
    let asking = cancel.asking(move || {
        let mut last = lock(&last);
        if last.elapsed() < TICK {
            return false;
        }
        *last = Instant::now();
        #[expect(
            clippy::redundant_closure_for_method_calls,
            reason = "the method's path has one lifetime, not all"
        )]
        let looked = Python::attach(|py| py.check_signals());
        match looked {
            Ok(()) => false,
            Err(signal) => {
                *lock(&told) = Some(signal);
                true
            }
        }
    });
    let made = py.detach(|| work(&asking));
    let signal = lock(&raised).take();
    signal.map_or_else(|| made.or_raise(), Err)
}

/// Waits for work that signals left behind; it is cancelled. Called before the interpreter ends.
#[pyfunction]
pub(crate) fn join(py: Python<'_>) -> PyResult<()> {
    if fork::check().is_err() {
        return Ok(());
    }
    loop {
        let is_over = py.detach(|| {
            let at_work = lock(&AT_WORK);
            at_work.values().for_each(onnx::Cancel::cancel);
            if at_work.is_empty() {
                return true;
            }
            let waited = ENDED.wait_timeout(at_work, TICK).unwrap_or_else(PoisonError::into_inner);
            waited.0.is_empty()
        });
        if is_over {
            return Ok(());
        }
        py.check_signals()?;
    }
}

/// Gives work to an idle thread, or to a new one.
fn start(cancel: onnx::Cancel, work: impl FnOnce() + Send + 'static) -> PyResult<()> {
    let number = {
        let mut at_work = lock(&AT_WORK);
        let number = at_work.last_key_value().map_or(0, |(last, _)| last + 1);
        at_work.insert(number, cancel);
        number
    };
    let mut job: Job = Box::new(move || {
        let _ending = Ending(number);
        work();
    });
    loop {
        let idle = lock(&IDLE).pop();
        match idle {
            None => break,
            Some(idle) => match idle.send(job) {
                Ok(()) => return Ok(()),
                Err(lost) => job = lost.0,
            },
        }
    }
    let (sender, jobs) = channel();
    let named = thread::Builder::new().name("anydnn run".into());
    let again = sender.clone();
    if let Err(cause) = named.spawn(move || serve(&jobs, &again)) {
        lock(&AT_WORK).remove(&number);
        return Err(PyRuntimeError::new_err(format!("no thread to run on: {cause}")));
    }
    drop(sender.send(job));
    Ok(())
}

fn serve(jobs: &Receiver<Job>, own: &Sender<Job>) {
    while let Ok(job) = jobs.recv() {
        job();
        lock(&IDLE).push(own.clone());
    }
}

/// Notes the end of work, also where it panics.
struct Ending(u64);

impl Drop for Ending {
    fn drop(&mut self) {
        lock(&AT_WORK).remove(&self.0);
        ENDED.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
