//! What commands on their way keep alive.

use std::sync::Arc;

use anydnn_backend::Error;

use crate::memory::allocation::Allocation;
use crate::queue::native::Run;

/// Something that is needed until a command has ended.
#[derive(Debug)]
pub(crate) enum Held {
    Memory(Arc<Allocation>),
    Run(Arc<Run>),
}

impl Held {
    /// Why what was to be computed was not.
    pub(crate) fn failure(&self) -> Option<Arc<Error>> {
        match self {
            Self::Memory(_) => None,
            Self::Run(run) => run.failure(),
        }
    }
}

impl From<Arc<Allocation>> for Held {
    fn from(allocation: Arc<Allocation>) -> Self {
        Self::Memory(allocation)
    }
}

/// Drops what a callback of the driver let go of. The user's callbacks may block, which the driver's may not.
pub(crate) fn drop_outside_driver(held: Vec<Held>) {
    let is_users = |held: &Held| matches!(held, Held::Memory(allocation) if allocation.is_users());
    if held.iter().any(is_users) {
        let thread = std::thread::Builder::new().name("anydnn free".into());
        if let Err(error) = thread.spawn(move || drop(held)) {
            tracing::debug!(%error, "memory was freed in a callback of the driver");
        }
    }
}
