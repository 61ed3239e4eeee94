//! Executions that end before their end.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anydnn_backend::{Error, Result};

/// Ends executions of sessions early, from another thread. A clone is the same.
///
/// An execution looks before each stage, each step of the host and each round of a loop, and before each command that it enqueues by itself.
/// What is enqueued runs to its end.
///
/// ```
/// use anydnn::onnx::Cancel;
/// let cancel = Cancel::new();
/// let other = cancel.clone();
/// std::thread::spawn(move || other.cancel()).join().unwrap();
/// assert!(cancel.is_cancelled());
/// ```
#[derive(Clone, Default)]
pub struct Cancel {
    is_set: Arc<AtomicBool>,
    /// Cancels as well.
    other: Option<Arc<AtomicBool>>,
    ask: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl Cancel {
    /// One that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the executions that have it, and those that get it later.
    pub fn cancel(&self) {
        self.is_set.store(true, Ordering::Relaxed);
    }

    /// The same, which an execution that has this clone also asks a function about, on the execution's own thread: it cancels where the answer
    /// is true. For signals that only that thread may look at.
    ///
    /// ```
    /// use anydnn::onnx::Cancel;
    /// let cancel = Cancel::new();
    /// let asking = cancel.asking(|| true);
    /// assert!(!cancel.is_cancelled());
    /// assert!(asking.is_cancelled() && cancel.is_cancelled());
    /// ```
    #[must_use]
    pub fn asking(&self, ask: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { ask: Some(Arc::new(ask)), ..self.clone() }
    }

    /// One of its own that ends with this one, and with a flag that nobody else hears of.
    pub(super) fn or(&self, flag: &Arc<AtomicBool>) -> Self {
        let this = self.clone();
        let own = Self { is_set: Arc::default(), other: Some(Arc::clone(flag)), ask: None };
        own.asking(move || this.is_cancelled())
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        if self.is_set() {
            return true;
        }
        let is_asked_for = self.ask.as_ref().is_some_and(|ask| ask());
        if is_asked_for {
            self.cancel();
        }
        is_asked_for
    }

    /// Whether it was cancelled, as far as that is known without asking.
    fn is_set(&self) -> bool {
        let is_set = |flag: &Arc<AtomicBool>| flag.load(Ordering::Relaxed);
        is_set(&self.is_set) || self.other.as_ref().is_some_and(is_set)
    }

    /// # Errors
    /// [`Error::Cancelled`] if it was.
    pub(super) fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(cancelled()) } else { Ok(()) }
    }

    /// The same without asking anybody.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if it was.
    pub(super) fn check_at_once(&self) -> Result<()> {
        if self.is_set() { Err(cancelled()) } else { Ok(()) }
    }
}

fn cancelled() -> Error {
    Error::Cancelled { operation: "session".into() }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel").field("is_set", &self.is_set).finish_non_exhaustive()
    }
}
