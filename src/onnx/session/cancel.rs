//! Executions that end before their end.

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
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// One that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the executions that have it, and those that get it later.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
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
