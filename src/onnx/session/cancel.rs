//! Executions that end before their end.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anydnn_backend::{Error, Result};

/// Ends executions of sessions early, from another thread. A clone is the same.
///
/// An execution looks before each stage, each step of the host and each round of a loop. What is enqueued runs to its end.
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
        Self { is_set: Arc::clone(&self.is_set), ask: Some(Arc::new(ask)) }
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        if self.is_set.load(Ordering::Relaxed) {
            return true;
        }
        let is_asked_for = self.ask.as_ref().is_some_and(|ask| ask());
        if is_asked_for {
            self.cancel();
        }
        is_asked_for
    }

    /// # Errors
    /// [`Error::Cancelled`] if it was.
    pub(super) fn check(&self) -> Result<()> {
        if self.is_cancelled() {
            return Err(Error::Cancelled { operation: "session".into() });
        }
        Ok(())
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel").field("is_set", &self.is_set).finish_non_exhaustive()
    }
}
