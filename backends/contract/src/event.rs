//! Events: the completion of commands.

use std::fmt::Debug;

use crate::error::Result;

/// The completion of a command. Clones are handles to the same event; it stays valid however long it is kept.
pub trait Event: Clone + Debug + Send + Sync + 'static {
    /// Waits for the command.
    ///
    /// # Errors
    /// The command's failure, or [`Error::Dependency`](crate::Error::Dependency) when something it depends on failed.
    fn wait(&self) -> Result<()>;

    /// How far the command is. This does not synchronise memory: wait before touching results.
    ///
    /// # Errors
    /// A device error.
    fn status(&self) -> Result<EventStatus>;

    /// Device times of the finished command; none without profiling.
    ///
    /// # Errors
    /// A device error.
    fn timestamps(&self) -> Result<Option<Timestamps>>;
}

/// How far a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventStatus {
    /// In the queue.
    Queued,
    /// Handed to the device.
    Submitted,
    /// Running.
    Running,
    /// Done.
    Complete,
    /// Failed, or not run because a dependency failed.
    Failed,
}

/// Device times of a command in nanoseconds of the device's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timestamps {
    /// When it was enqueued.
    pub queued: u64,
    /// When it was handed to the device.
    pub submitted: u64,
    /// When it began to run.
    pub started: u64,
    /// When it ended.
    pub ended: u64,
}

impl Timestamps {
    /// Nanoseconds from start to end.
    pub const fn duration(&self) -> u64 {
        self.ended.saturating_sub(self.started)
    }
}
