//! Books on what allocators hand out. The entries close themselves, however the memory goes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anydnn_backend::AllocatorStats;

/// The books of one allocator.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    stats: Mutex<AllocatorStats>,
}

/// The entry of one allocation, in use at first.
#[derive(Debug)]
pub(crate) struct Lease {
    ledger: Arc<Ledger>,
    bytes: usize,
    is_parked: Mutex<bool>,
}

impl Ledger {
    pub(crate) fn stats(&self) -> AllocatorStats {
        *self.lock()
    }

    /// Notes a new allocation.
    pub(crate) fn open(self: &Arc<Self>, bytes: usize) -> Lease {
        self.lock().create(bytes);
        Lease { ledger: Arc::clone(self), bytes, is_parked: Mutex::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, AllocatorStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    /// Notes that the memory came back and waits; false if it does so already.
    pub(crate) fn park(&self) -> bool {
        let mut is_parked = self.lock();
        let was_in_use = !std::mem::replace(&mut *is_parked, true);
        if was_in_use {
            self.ledger.lock().park(self.bytes);
        }
        was_in_use
    }

    /// Notes that the memory is handed out again.
    pub(crate) fn reuse(&self) {
        *self.lock() = false;
        self.ledger.lock().reuse(self.bytes);
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let is_parked = *self.lock();
        let mut stats = self.ledger.lock();
        if is_parked { stats.release(self.bytes) } else { stats.take_back(self.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_closes_once() {
        let ledger = Arc::new(Ledger::default());
        let (kept, dropped) = (ledger.open(10), ledger.open(5));
        drop(dropped);
        assert!(kept.park() && !kept.park());
        assert_eq!((ledger.stats().in_use_bytes, ledger.stats().parked_bytes), (0, 10));
        kept.reuse();
        assert!(kept.park());
        drop(kept);
        let expected = AllocatorStats { peak_bytes: 15, created: 2, reused: 1, ..Default::default() };
        assert_eq!(ledger.stats(), expected);
    }
}
