//! Completed commands: the host runs each when it is submitted.

use std::sync::{Arc, LazyLock};
use std::time::Instant;

use anydnn_backend::{Error, Event, EventStatus, Result, Timestamps};

/// The outcome of a command, which is over by the time its event exists.
#[derive(Clone, Debug)]
pub struct HostEvent(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    outcome: Result<()>,
    timestamps: Option<Timestamps>,
}

impl HostEvent {
    pub(crate) fn new(outcome: Result<()>, timestamps: Option<Timestamps>) -> Self {
        // Nothing tells those apart that ended well and have no times.
        static DONE: LazyLock<HostEvent> =
            LazyLock::new(|| HostEvent(Arc::new(Inner { outcome: Ok(()), timestamps: None })));
        if outcome.is_ok() && timestamps.is_none() {
            return DONE.clone();
        }
        Self(Arc::new(Inner { outcome, timestamps }))
    }
}

impl Event for HostEvent {
    fn wait(&self) -> Result<()> {
        self.0.outcome.clone()
    }

    fn status(&self) -> Result<EventStatus> {
        Ok(if self.0.outcome.is_ok() { EventStatus::Complete } else { EventStatus::Failed })
    }

    fn timestamps(&self) -> Result<Option<Timestamps>> {
        Ok(self.0.timestamps)
    }
}

/// Fails when one of the events has.
pub(crate) fn dependencies(operation: &str, deps: &[HostEvent]) -> Result<()> {
    match deps.iter().find_map(|event| event.0.outcome.as_ref().err()) {
        Some(cause) => Err(Error::Dependency { operation: operation.to_owned(), cause: cause.to_string() }),
        None => Ok(()),
    }
}

/// Nanoseconds since the first call in this process.
pub(crate) fn now() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}
