//! Devices do not survive a fork: their drivers' threads and those of the host's pool stay behind in the parent.

use std::mem::ManuallyDrop;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::PyResult;

use crate::error;

/// The process that first used a device; zero before.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Notes the first use of a device, and refuses one in a fork of the process that did so.
pub(crate) fn check() -> PyResult<()> {
    let own = process::id();
    match OWNER.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed) {
        Err(owner) if owner != own => {
            let message = format!(
                "process {own} is a fork of process {owner}, which has used anydnn's devices: their drivers do not work in a fork. \
                 Start processes with multiprocessing.get_context(\"spawn\"), or use anydnn after the fork alone"
            );
            Err(error::own("ForkError", &message))
        }
        _ => Ok(()),
    }
}

/// What is dropped where it was made, and forgotten in forks.
#[derive(Debug)]
pub(crate) struct Owned<T> {
    value: ManuallyDrop<T>,
    owner: u32,
}

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), owner: process::id() }
    }

    pub(crate) fn get(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if process::id() == self.owner {
            // SAFETY: the value is dropped here alone, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
