//! The pool behind an engine's default allocators: memory of every kind that waits to be used again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anydnn_backend::{AllocatorStats, Error, MemoryKind, Result};

use crate::backend::engine::OpenClEngine;
use crate::backend::event::OpenClEvent;
use crate::memory::allocation::{Allocation, TEMPORARY};
use crate::memory::ledger::Ledger;

/// How many times as large as what is asked for memory may be that is used for it: shapes that change from one execution to the next share
/// the largest one's.
const SPARE: usize = 8;

/// Memory for reuse. It has no reference to the engine that owns it.
#[derive(Debug)]
pub(crate) struct Pool {
    state: Mutex<State>,
    apart: bool,
}

#[derive(Debug)]
struct State {
    /// Least recently parked first.
    parked: Vec<Parked>,
    /// The parked bytes, and the most there may be.
    bytes: usize,
    limit: usize,
    ledgers: BTreeMap<MemoryKind, Arc<Ledger>>,
}

/// Memory that was given back, and the last command that uses it.
#[derive(Debug)]
struct Parked {
    allocation: Arc<Allocation>,
    after: Option<OpenClEvent>,
}

impl Pool {
    /// A pool that parks at most this many bytes. With `apart` it parks nothing and gives exactly what it is asked for.
    pub(crate) fn new(limit: usize, apart: bool) -> Self {
        let limit = if apart { 0 } else { limit };
        let state = State { parked: Vec::new(), bytes: 0, limit, ledgers: BTreeMap::new() };
        Self { state: Mutex::new(state), apart }
    }

    /// Whether each allocation is by itself.
    pub(crate) fn keeps_apart(&self) -> bool {
        self.apart
    }

    /// Memory of at least `bytes` bytes that no command uses.
    pub(crate) fn take(
        &self,
        engine: &OpenClEngine,
        kind: MemoryKind,
        bytes: usize,
    ) -> Result<Arc<Allocation>> {
        if bytes == 0 {
            return Ok(Arc::new(Allocation::empty()));
        }
        let capacity = if self.apart { bytes } else { capacity_for(bytes) };
        let (reused, outgrown, ledger) = {
            let mut state = self.lock();
            let reused = state.reuse(kind, capacity);
            let outgrown = if reused.is_none() { state.outgrown(kind, capacity) } else { Vec::new() };
            (reused, outgrown, state.ledger(kind))
        };
        drop(outgrown);
        if let Some(allocation) = reused {
            return Ok(allocation);
        }
        let created = match engine.try_allocation(kind, capacity, TEMPORARY) {
            // Perhaps without the rounding; if need be without what is parked.
            Err(Error::OutOfMemory { .. }) => engine.create_allocation(kind, bytes, TEMPORARY)?,
            created => created?,
        };
        let lease = ledger.open(created.capacity);
        Ok(Arc::new(created.leased(lease)))
    }

    /// Takes memory back for reuse after a command. Memory that is not the pool's is just released after it.
    pub(crate) fn give(&self, allocation: Arc<Allocation>, after: Option<OpenClEvent>) {
        let parked = Parked { allocation, after };
        if !parked.allocation.park() {
            return parked.retire();
        }
        let evicted = {
            let mut state = self.lock();
            state.bytes += parked.allocation.capacity;
            state.parked.push(parked);
            state.evict()
        };
        evicted.into_iter().for_each(Parked::retire);
    }

    /// Frees what is parked, of one kind or of all, and not used by a command any more; false if there was nothing.
    pub(crate) fn trim(&self, kind: Option<MemoryKind>) -> bool {
        let freed = {
            let mut state = self.lock();
            let is_freed = |parked: &mut Parked| {
                kind.is_none_or(|kind| kind == parked.allocation.kind()) && parked.is_done()
            };
            let freed: Vec<_> = state.parked.extract_if(.., is_freed).collect();
            state.bytes -= freed.iter().map(|parked| parked.allocation.capacity).sum::<usize>();
            freed
        };
        !freed.is_empty()
    }

    pub(crate) fn stats(&self, kind: MemoryKind) -> AllocatorStats {
        // What commands were keeping counts as freed once they have ended.
        let mut state = self.lock();
        state.parked.iter().for_each(|parked| _ = parked.is_done());
        state.ledger(kind).stats()
    }

    pub(crate) fn limit(&self) -> usize {
        self.lock().limit
    }

    pub(crate) fn set_limit(&self, limit: usize) {
        let evicted = {
            let mut state = self.lock();
            state.limit = if self.apart { 0 } else { limit };
            state.evict()
        };
        evicted.into_iter().for_each(Parked::retire);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.parked.drain(..).for_each(Parked::retire);
    }
}

impl State {
    /// The smallest parked memory that is large enough, not wasteful, unused and not held by a forgotten clone.
    fn reuse(&mut self, kind: MemoryKind, capacity: usize) -> Option<Arc<Allocation>> {
        let most = capacity.saturating_mul(SPARE);
        let mut best: Option<(usize, usize)> = None;
        for (i, parked) in self.parked.iter().enumerate() {
            let size = parked.allocation.capacity;
            let fits = parked.allocation.kind() == kind && (capacity..=most).contains(&size);
            // Done first: commands let go of the memory when they are seen to have ended.
            if fits
                && best.is_none_or(|(_, smallest)| size < smallest)
                && parked.is_done()
                && Arc::strong_count(&parked.allocation) == 1
            {
                best = Some((i, size));
            }
        }
        let (at, size) = best?;
        let parked = self.parked.remove(at);
        self.bytes -= size;
        if let Some(event) = &parked.after
            && event.fate.wait_for_event().is_err()
        {
            // Its end cannot be made sure of, so nobody gets it.
            return None;
        }
        parked.allocation.reuse();
        Some(parked.allocation)
    }

    /// Removes the unused memory that memory of `capacity` bytes will serve for.
    fn outgrown(&mut self, kind: MemoryKind, capacity: usize) -> Vec<Parked> {
        let is_served = |parked: &mut Parked| {
            let size = parked.allocation.capacity;
            let fits = parked.allocation.kind() == kind
                && size <= capacity
                && capacity <= size.saturating_mul(SPARE);
            fits && parked.is_done() && Arc::strong_count(&parked.allocation) == 1
        };
        let outgrown: Vec<_> = self.parked.extract_if(.., is_served).collect();
        self.bytes -= outgrown.iter().map(|parked| parked.allocation.capacity).sum::<usize>();
        outgrown
    }

    /// Removes what was parked longest, down to the limit.
    fn evict(&mut self) -> Vec<Parked> {
        let mut count = 0;
        while self.bytes > self.limit && count < self.parked.len() {
            self.bytes -= self.parked[count].allocation.capacity;
            count += 1;
        }
        self.parked.drain(..count).collect()
    }

    fn ledger(&mut self, kind: MemoryKind) -> Arc<Ledger> {
        Arc::clone(self.ledgers.entry(kind).or_default())
    }
}

impl Parked {
    /// Whether the last command that uses the memory has ended, however it did.
    fn is_done(&self) -> bool {
        self.after.as_ref().is_none_or(|event| matches!(event.fate.poll(), Ok(Some(_))))
    }

    /// Frees the memory when its last command has ended.
    fn retire(self) {
        if let Some(after) = &self.after
            && !self.is_done()
        {
            after.fate.hold([self.allocation]);
        }
    }
}

/// Whether `ANYDNN_TEMPORARIES` asks for allocations that lie apart: `apart`, or `shared`, which is the default.
pub(crate) fn keeps_apart() -> bool {
    match std::env::var("ANYDNN_TEMPORARIES").as_deref() {
        Ok("apart") => true,
        Ok("" | "shared") | Err(_) => false,
        Ok(value) => {
            tracing::warn!(value, "ANYDNN_TEMPORARIES is neither apart nor shared");
            false
        }
    }
}

/// Sizes come in steps so that nearly equal requests share memory: powers of two up to a mebibyte, whole mebibytes above.
fn capacity_for(bytes: usize) -> usize {
    const MEBIBYTE: usize = 1 << 20;
    if bytes <= MEBIBYTE {
        return bytes.next_power_of_two().max(256);
    }
    bytes.checked_next_multiple_of(MEBIBYTE).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_apart_has_its_own_size_and_is_not_used_again() {
        let engine = crate::testing::test_engines().into_iter().next().expect("a device");
        let identities = |apart| {
            let pool = Pool::new(1 << 20, apart);
            pool.set_limit(1 << 20);
            let first = pool.take(&engine, MemoryKind::Buffer, 1000).expect("memory");
            let capacity = first.capacity;
            pool.give(first, None);
            (capacity, pool.stats(MemoryKind::Buffer).parked_bytes, pool.limit())
        };
        assert_eq!((identities(false), identities(true)), ((1024, 1024, 1 << 20), (1000, 0, 0)));
    }

    #[test]
    fn memory_for_sizes_that_change_is_that_of_the_largest() {
        let engine = crate::testing::test_engines().into_iter().next().expect("a device");
        let pool = Pool::new(1 << 30, false);
        let parked = |bytes| {
            let memory = pool.take(&engine, MemoryKind::Buffer, bytes).expect("memory");
            pool.give(memory, None);
            pool.stats(MemoryKind::Buffer).parked_bytes >> 20
        };
        assert_eq!([3 << 20, 5 << 20, 2 << 20, 9 << 20, 7 << 20, 1 << 20].map(parked), [3, 5, 5, 9, 9, 10]);
        // What is in use stays.
        let held = pool.take(&engine, MemoryKind::Buffer, 9 << 20).expect("memory");
        assert_eq!(parked(12 << 20), 13);
        pool.give(held, None);
        assert_eq!(pool.stats(MemoryKind::Buffer).parked_bytes >> 20, 22);
    }

    #[test]
    fn sizes_come_in_steps() {
        assert_eq!([1, 257, 1 << 20, (1 << 20) + 1].map(capacity_for), [256, 512, 1 << 20, 2 << 20]);
        assert_eq!(capacity_for(usize::MAX), usize::MAX);
    }
}
