//! A pool of temporary memory.

use std::collections::BTreeMap;
use std::sync::Mutex;

use anydnn_backend::{
    Allocator, AllocatorStats, DataType, EngineId, Error, Event, Memory, MemoryDesc, MemoryKind, Result,
};

use crate::allocation::{Allocation, Bytes};
use crate::event::HostEvent;
use crate::memory::HostMemory;
use crate::user_allocator::UserAllocator;
use crate::{Host, lock};

/// Bytes that the pool keeps; what is given back beyond them goes to the system.
const POOL_LIMIT: usize = 256 << 20;

/// Takes memory from a pool by size, or from a user's allocator.
#[derive(Debug)]
pub struct HostAllocator {
    engine: EngineId,
    limit: u64,
    user: Option<UserAllocator>,
    pool: Mutex<Pool>,
}

#[derive(Debug, Default)]
struct Pool {
    free: BTreeMap<usize, Vec<Allocation>>,
    stats: AllocatorStats,
}

impl HostAllocator {
    pub(crate) fn new(engine: EngineId, limit: u64, user: Option<UserAllocator>) -> Self {
        Self { engine, limit, user, pool: Mutex::default() }
    }

    /// Whether memory comes from a user's allocator.
    pub(crate) fn is_user(&self) -> bool {
        self.user.is_some()
    }
}

impl Allocator for HostAllocator {
    type B = Host;

    fn allocate(&self, bytes: usize, alignment: usize) -> Result<HostMemory> {
        if let Some(user) = &self.user {
            return self.allocate_from(user, bytes, alignment);
        }
        // Lines are aligned already; for more, the start moves inside a larger allocation.
        let slack = if Bytes::LINE.is_multiple_of(alignment.max(1)) { 0 } else { alignment };
        let size = bytes.checked_add(slack).and_then(size_class);
        let size = size.ok_or_else(|| Error::OutOfMemory { what: "temporary memory".into(), bytes })?;
        let pooled = lock(&self.pool).take(size);
        let allocation = match pooled {
            Some(allocation) => allocation,
            None => self.create(size)?,
        };
        allocation.set_lent(true);
        let desc = MemoryDesc::new([bytes], DataType::U8);
        Ok(HostMemory::on(self.engine, allocation.aligned(alignment), desc))
    }

    fn free(&self, memory: HostMemory, after: Option<&HostEvent>) -> Result<()> {
        if memory.engine_id() != self.engine {
            return Err(Error::mismatch(
                "free",
                format!("memory of {}", memory.engine_id()),
                self.engine.to_string(),
            ));
        }
        // A failed command does not use the memory any more either.
        let _: Option<Result<()>> = after.map(Event::wait);
        let (size, lent) = (memory.allocation().size(), memory.allocation().set_lent(false));
        let mut pool = lock(&self.pool);
        if lent {
            pool.stats.take_back(size);
        }
        // Memory with views that are still alive is freed with the last of them.
        if let Some(allocation) = memory.into_allocation() {
            let rest = if self.is_user() { Some(allocation) } else { pool.put(allocation) };
            drop(pool);
            // Without the lock, as a user's callback may run.
            drop(rest);
        }
        Ok(())
    }

    fn stats(&self) -> AllocatorStats {
        lock(&self.pool).stats
    }

    fn trim(&self) {
        let parked = {
            let mut pool = lock(&self.pool);
            pool.stats.parked_bytes = 0;
            std::mem::take(&mut pool.free)
        };
        drop(parked);
    }
}

impl HostAllocator {
    /// Memory from a user's allocator, to which it goes back with its last handle.
    fn allocate_from(&self, user: &UserAllocator, bytes: usize, alignment: usize) -> Result<HostMemory> {
        let desc = MemoryDesc::new([bytes], DataType::U8);
        if bytes == 0 {
            return HostMemory::new(self.engine, desc, MemoryKind::System, self.limit);
        }
        let address = user.allocate(bytes, alignment.max(Bytes::LINE))?;
        if address.is_null() {
            return Err(Error::OutOfMemory { what: "temporary memory".into(), bytes });
        }
        let allocation = Allocation::of_user(address, bytes, Some(user.clone()));
        allocation.set_lent(true);
        lock(&self.pool).stats.create(bytes);
        Ok(HostMemory::on(self.engine, allocation, desc))
    }

    /// New bytes; what is parked for reuse may be what is missing.
    fn create(&self, size: usize) -> Result<Allocation> {
        let create = || Allocation::new(size, self.limit, || "temporary memory".into());
        let created = match create() {
            Err(Error::OutOfMemory { .. }) if size as u64 <= self.limit => {
                self.trim();
                create()?
            }
            created => created?,
        };
        lock(&self.pool).stats.create(created.size());
        Ok(created)
    }
}

impl Pool {
    fn take(&mut self, size: usize) -> Option<Allocation> {
        let allocation = self.free.get_mut(&size)?.pop()?;
        self.stats.reuse(size);
        Some(allocation)
    }

    /// Keeps an allocation for reuse; one that there is no room for comes back.
    fn put(&mut self, allocation: Allocation) -> Option<Allocation> {
        let size = allocation.size();
        let takes = allocation.kind() == MemoryKind::Host && size_class(size) == Some(size);
        if !takes || self.stats.parked_bytes + size > POOL_LIMIT {
            return Some(allocation);
        }
        self.stats.parked_bytes += size;
        self.free.entry(size).or_default().push(allocation);
        None
    }
}

/// The size that serves requests of this many bytes: whole lines, sixteen sizes to each power of two.
fn size_class(bytes: usize) -> Option<usize> {
    let step = (bytes.checked_next_power_of_two()? / 16).max(Bytes::LINE);
    bytes.max(1).checked_next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;
    use std::sync::Arc;

    use super::*;
    use crate::HostEngine;
    use anydnn_backend::{Engine, MapMode};

    #[test]
    fn classes_waste_little() {
        for bytes in [0, 1, 64, 65, 1000, 4097, 1 << 20, (1 << 20) + 1] {
            let class = size_class(bytes).unwrap();
            assert!(
                class >= bytes && class <= bytes + (bytes / 8).max(64) && size_class(class) == Some(class),
                "{bytes}: {class}"
            );
        }
        assert_eq!(size_class(usize::MAX), None);
    }

    #[test]
    fn memory_is_aligned_as_asked() {
        let engine = HostEngine::new();
        for alignment in [0, 1, 64, 256, 4096, 48] {
            let memory = engine.allocator().allocate(100, alignment).unwrap();
            let start = memory.allocation().lock(false).origin().addr() + memory.region().offset;
            assert_eq!(start % alignment.max(1), 0, "{alignment}");
            assert_eq!((memory.region().bytes, memory.desc().size()), (100, 100));
            assert!(memory.map(MapMode::Read).unwrap().bytes().len() == 100);
            engine.allocator().free(memory, None).unwrap();
        }
        assert!(matches!(engine.allocator().allocate(usize::MAX, 64), Err(Error::OutOfMemory { .. })));
        assert!(matches!(engine.allocator().allocate(1 << 60, 64), Err(Error::OutOfMemory { .. })));
    }

    #[test]
    fn freed_memory_is_reused_unless_a_view_is_alive() {
        let engine = HostEngine::new();
        let allocator = engine.allocator();
        let first = allocator.allocate(1000, 64).unwrap();
        let (id, view) = (first.region().allocation, first.clone());
        allocator.free(first, None).unwrap();
        let second = allocator.allocate(1000, 64).unwrap();
        assert_ne!(second.region().allocation, id);
        drop(view);
        let id = second.region().allocation;
        allocator.free(second, None).unwrap();
        assert_eq!(allocator.allocate(990, 64).unwrap().region().allocation, id);
    }

    #[test]
    fn statistics_count_what_the_allocator_lends_and_parks() {
        let engine = HostEngine::new();
        let allocator = engine.allocator();
        let (first, second) = (allocator.allocate(1000, 64).unwrap(), allocator.allocate(64, 0).unwrap());
        let size = first.allocation().size();
        assert_eq!(allocator.stats().in_use_bytes, size + 64);
        // Each handle may come back; the bytes do so once.
        allocator.free(first.clone(), None).unwrap();
        allocator.free(first, None).unwrap();
        assert_eq!((allocator.stats().in_use_bytes, allocator.stats().parked_bytes), (64, size));
        let again = allocator.allocate(1000, 64).unwrap();
        assert_eq!((allocator.stats().created, allocator.stats().reused), (2, 1));
        allocator.free(again, None).unwrap();
        allocator.free(second, None).unwrap();
        allocator.trim();
        let expected = AllocatorStats { peak_bytes: size + 64, created: 2, reused: 1, ..Default::default() };
        assert_eq!(allocator.stats(), expected);
        // Memory that was not lent is taken, but was never in use.
        let own = engine.create_memory(&MemoryDesc::new([64], DataType::U8), MemoryKind::Host).unwrap();
        allocator.free(own, None).unwrap();
        assert_eq!((allocator.stats().in_use_bytes, allocator.stats().parked_bytes), (0, 64));
    }

    #[test]
    fn memory_of_another_engine_is_refused() {
        let memory = HostEngine::new().allocator().allocate(8, 0).unwrap();
        assert!(matches!(HostEngine::new().allocator().free(memory, None), Err(Error::Mismatch { .. })));
    }

    #[test]
    fn the_users_callbacks_serve_and_take_back() {
        let live = Arc::new(Mutex::new(Vec::new()));
        let (given, taken) = (Arc::clone(&live), Arc::clone(&live));
        let allocate = move |bytes: usize, alignment: usize| {
            if bytes > 1000 {
                return std::ptr::null_mut();
            }
            assert!(alignment >= 64 && alignment.is_power_of_two());
            let start = Box::into_raw(vec![0_u8; bytes].into_boxed_slice());
            lock(&given).push((start.cast::<u8>().addr(), bytes));
            start.cast::<c_void>()
        };
        let free = move |pointer: *mut c_void| {
            let mut live = lock(&taken);
            let at = live.iter().position(|(address, _)| *address == pointer.addr()).expect("given before");
            let (_, bytes) = live.remove(at);
            // SAFETY: from a box of so many bytes, and freed once.
            drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(pointer.cast::<u8>(), bytes)) });
        };
        // SAFETY: boxes of as many bytes as are asked for, which live until they are freed.
        let engine = HostEngine::new().with_allocator(unsafe { UserAllocator::new(allocate, free) });
        assert!(engine.has_user_allocator() && !HostEngine::new().has_user_allocator());
        let allocator = engine.allocator();
        let memory = allocator.allocate(100, 0).unwrap();
        assert_eq!((memory.kind(), lock(&live).len()), (MemoryKind::System, 1));
        let view = memory.view(&MemoryDesc::new([10], DataType::U8), 5).unwrap();
        allocator.free(memory, None).unwrap();
        assert_eq!((allocator.stats().in_use_bytes, lock(&live).len()), (0, 1));
        drop(view);
        assert_eq!(lock(&live).len(), 0);
        assert!(matches!(allocator.allocate(1001, 64), Err(Error::OutOfMemory { .. })));
        let none = allocator.allocate(0, 64).unwrap();
        assert_eq!((none.region().bytes, lock(&live).len()), (0, 0));
        let wrong = |_: usize, _: usize| panic!("no");
        // SAFETY: it gives nothing.
        let engine = HostEngine::new().with_allocator(unsafe { UserAllocator::new(wrong, |_| {}) });
        assert!(matches!(engine.allocator().allocate(8, 8), Err(Error::Unavailable { .. })));
    }
}
