//! Memory of results whose arrays are gone. Fresh memory costs a page fault for each of its pages, which is more than most of what is computed
//! in between.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anydnn::backend::{Error, Result};

/// What is smaller comes from the allocator as fast.
const LEAST: usize = 64 << 10;
/// Bytes that are kept.
const MOST: usize = 64 << 20;

/// Those given back last at the end.
static PARKED: Mutex<VecDeque<Vec<u8>>> = Mutex::new(VecDeque::new());

/// As many bytes, of any value.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub(crate) fn take(bytes: usize) -> Result<Vec<u8>> {
    if bytes >= LEAST {
        let mut parked = lock();
        if let Some(found) = parked.iter().rposition(|room| room.len() == bytes) {
            return Ok(parked.remove(found).unwrap_or_default());
        }
    }
    let mut room = Vec::new();
    let failed = |_| Error::OutOfMemory { what: "a result".into(), bytes };
    room.try_reserve_exact(bytes).map_err(failed)?;
    room.resize(bytes, 0);
    Ok(room)
}

/// Keeps memory for later results; what was kept for longest goes where there would be too much.
pub(crate) fn give_back(room: Vec<u8>) {
    if !(LEAST..=MOST).contains(&room.len()) {
        return;
    }
    let mut parked = lock();
    parked.push_back(room);
    let mut bytes: usize = parked.iter().map(Vec::len).sum();
    while bytes > MOST {
        let Some(oldest) = parked.pop_front() else { break };
        bytes -= oldest.len();
    }
}

fn lock() -> MutexGuard<'static, VecDeque<Vec<u8>>> {
    PARKED.lock().unwrap_or_else(PoisonError::into_inner)
}
