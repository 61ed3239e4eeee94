//! Events: the completion of commands, or the user's own.

use std::sync::Arc;

use anydnn_backend::{Event, EventStatus, Result, Timestamps};
use cl3::event as cl;

use crate::queue::fate::{Fate, times_of};

/// The completion of a command, or an event of the user. It keeps its OpenCL event alive however long it is held. On GPUs launches of an
/// in-order stream may share one, which ends with the last of them at the latest.
#[derive(Clone, Debug)]
pub struct OpenClEvent {
    pub(crate) fate: Arc<Fate>,
}

impl Event for OpenClEvent {
    fn wait(&self) -> Result<()> {
        self.fate.wait()?.map_err(|failure| failure.to_error())
    }

    fn status(&self) -> Result<EventStatus> {
        let code = self.fate.code()?;
        if code <= cl::CL_COMPLETE && self.fate.poll()?.is_some_and(|outcome| outcome.is_err()) {
            return Ok(EventStatus::Failed);
        }
        Ok(match code {
            cl::CL_COMPLETE => EventStatus::Complete,
            cl::CL_RUNNING => EventStatus::Running,
            cl::CL_SUBMITTED => EventStatus::Submitted,
            code if code < 0 => EventStatus::Failed,
            _ => EventStatus::Queued,
        })
    }

    fn timestamps(&self) -> Result<Option<Timestamps>> {
        times_of(self.fate.raw()?)
    }
}
