//! The engine's pool of temporary memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anydnn_backend::{Allocator, DataType, Error, MemoryDesc, MemoryKind, Result};

use crate::OpenCl;
use crate::allocation::Allocation;
use crate::engine::OpenClEngine;
use crate::event::OpenClEvent;
use crate::memory::OpenClMemory;

/// Temporary memory of an engine, from a pool that reuses buffers once the commands that used them are complete.
#[derive(Clone, Debug)]
pub struct OpenClAllocator {
    engine: OpenClEngine,
}

impl OpenClAllocator {
    pub(crate) fn new(engine: &OpenClEngine) -> Self {
        Self { engine: engine.clone() }
    }

    /// What the pool holds and has done.
    pub fn stats(&self) -> AllocatorStats {
        self.engine.inner.pool.lock().stats
    }

    /// Releases every buffer that is neither in use nor awaited by a command.
    pub fn trim(&self) {
        self.engine.inner.pool.trim();
    }
}

impl Allocator for OpenClAllocator {
    type B = OpenCl;

    /// The memory starts at the start of its buffer object, whose address OpenCL aligns to at least the size of its largest type (128
    /// bytes) and does not tell; larger alignments hold relative to the buffer object.
    fn allocate(&self, bytes: usize, _alignment: usize) -> Result<OpenClMemory> {
        let allocation = self.engine.inner.pool.take(&self.engine, bytes)?;
        let desc = MemoryDesc::new([bytes], DataType::U8);
        Ok(OpenClMemory::new(&self.engine, allocation, MemoryKind::Buffer, desc))
    }

    fn free(&self, memory: OpenClMemory, after: Option<&OpenClEvent>) -> Result<()> {
        self.engine.inner.pool.give(memory.allocation, after.cloned());
        Ok(())
    }
}

/// What a pool holds and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocatorStats {
    /// Bytes of buffers that are handed out.
    pub in_use_bytes: usize,
    /// Bytes of buffers that wait for reuse.
    pub parked_bytes: usize,
    /// Buffers made.
    pub created: usize,
    /// Allocations served by an older buffer.
    pub reused: usize,
}

/// Buffers for reuse. It has no reference to the engine that owns it.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    parked: Vec<Parked>,
    stats: AllocatorStats,
}

/// A buffer that nobody holds any more, and the last command that uses it.
#[derive(Debug)]
struct Parked {
    allocation: Arc<Allocation>,
    after: Option<OpenClEvent>,
}

impl Pool {
    /// A buffer of at least `bytes` bytes that no command uses.
    pub(crate) fn take(&self, engine: &OpenClEngine, bytes: usize) -> Result<Arc<Allocation>> {
        if bytes == 0 {
            return Ok(Arc::new(Allocation::empty()));
        }
        let capacity = capacity_for(bytes);
        let mut state = self.lock();
        if let Some(allocation) = state.reuse(capacity) {
            return Ok(allocation);
        }
        drop(state);
        let created = match Allocation::create(engine, MemoryKind::Buffer, capacity, "temporary memory") {
            Err(Error::OutOfMemory { .. }) => {
                // Buffers parked for reuse may be what is missing.
                self.trim();
                Allocation::create(engine, MemoryKind::Buffer, bytes, "temporary memory")?
            }
            created => created?,
        }
        .into_pooled();
        let mut state = self.lock();
        state.stats.created += 1;
        state.stats.in_use_bytes += created.capacity;
        Ok(Arc::new(created))
    }

    /// Takes a buffer back for reuse after a command. Buffers that are not the pool's are just released.
    pub(crate) fn give(&self, allocation: Arc<Allocation>, after: Option<OpenClEvent>) {
        if allocation.pooled {
            let mut state = self.lock();
            state.stats.in_use_bytes = state.stats.in_use_bytes.saturating_sub(allocation.capacity);
            state.stats.parked_bytes += allocation.capacity;
            state.parked.push(Parked { allocation, after });
        }
    }

    /// Gives up a buffer that commands without an event may still use; OpenCL frees it after them.
    pub(crate) fn abandon(&self, allocation: &Allocation) {
        let mut state = self.lock();
        state.stats.in_use_bytes = state.stats.in_use_bytes.saturating_sub(allocation.capacity);
    }

    fn trim(&self) {
        let mut state = self.lock();
        let State { parked, stats } = &mut *state;
        parked.retain(|parked| {
            let done = parked.is_done();
            if done {
                stats.parked_bytes = stats.parked_bytes.saturating_sub(parked.allocation.capacity);
            }
            !done
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The smallest parked buffer that is large enough, not wasteful, unused and not held by a forgotten clone.
    fn reuse(&mut self, capacity: usize) -> Option<Arc<Allocation>> {
        let fits = |parked: &Parked| {
            (capacity..=capacity * 2).contains(&parked.allocation.capacity)
                && Arc::strong_count(&parked.allocation) == 1
        };
        let mut best: Option<usize> = None;
        for (i, parked) in self.parked.iter().enumerate().filter(|(_, parked)| fits(parked)) {
            let smaller =
                best.is_none_or(|b| parked.allocation.capacity < self.parked[b].allocation.capacity);
            if smaller && parked.is_done() {
                best = Some(i);
            }
        }
        let parked = self.parked.swap_remove(best?);
        if let Some(event) = &parked.after
            && event.fate.wait_for_event().is_err()
        {
            // Its end cannot be made sure of, so nobody gets it.
            self.stats.parked_bytes -= parked.allocation.capacity;
            return None;
        }
        self.stats.parked_bytes -= parked.allocation.capacity;
        self.stats.in_use_bytes += parked.allocation.capacity;
        self.stats.reused += 1;
        Some(parked.allocation)
    }
}

impl Parked {
    /// Whether the last command that uses the buffer has ended, however it did.
    fn is_done(&self) -> bool {
        self.after.as_ref().is_none_or(|event| event.fate.code().is_ok_and(|code| code <= 0))
    }
}

/// Sizes come in steps so that nearly equal requests share buffers: powers of two up to a mebibyte, whole mebibytes above.
fn capacity_for(bytes: usize) -> usize {
    const MEBIBYTE: usize = 1 << 20;
    if bytes <= MEBIBYTE { bytes.next_power_of_two().max(256) } else { bytes.div_ceil(MEBIBYTE) * MEBIBYTE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_in_steps() {
        assert_eq!([1, 257, 1 << 20, (1 << 20) + 1].map(capacity_for), [256, 512, 1 << 20, 2 << 20]);
    }
}
