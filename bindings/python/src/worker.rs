//! Work that Ctrl-C ends. Python handles signals on its main thread between two of its own instructions, so what that thread would wait for
//! runs on another one meanwhile.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

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

/// Does work without the interpreter's lock. Where `interruptible`, which is for the main thread alone, a signal's exception is raised at
/// once: the work is cancelled and ends by itself.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    interruptible: bool,
    cancel: &onnx::Cancel,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    if !interruptible {
        return py.detach(work).or_raise();
    }
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
