//! A user's allocator as an engine's source of temporary memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use anydnn_backend::{AllocatorStats, DataType, Error, MemoryDesc, MemoryKind, Result, ResultExt};

use crate::backend::engine::OpenClEngine;
use crate::backend::event::OpenClEvent;
use crate::backend::memory::OpenClMemory;
use crate::backend::pointers;
use crate::driver::handle;
use crate::memory::allocation::{Allocation, TEMPORARY};
use crate::memory::ledger::Ledger;
use crate::memory::user_allocator::{UserAllocator, UserRelease};
use crate::queue::fate::Fate;

/// A user's allocator on an engine.
#[derive(Debug)]
pub(crate) struct UserSource {
    allocator: UserAllocator,
    ledger: Arc<Ledger>,
    /// Commands that memory was given back after, as long as they have not ended.
    awaited: Mutex<Vec<Weak<Fate>>>,
}

impl UserSource {
    pub(crate) fn new(allocator: UserAllocator) -> Self {
        Self { allocator, ledger: Arc::default(), awaited: Mutex::default() }
    }

    pub(crate) fn kind(&self) -> Option<MemoryKind> {
        self.allocator.kind()
    }

    pub(crate) fn allocate(
        &self,
        engine: &OpenClEngine,
        bytes: usize,
        alignment: usize,
    ) -> Result<OpenClMemory> {
        let desc = MemoryDesc::new([bytes], DataType::U8);
        if bytes == 0 {
            return Ok(OpenClMemory::unbacked(engine, self.kind().unwrap_or(MemoryKind::Buffer), desc));
        }
        let release = UserRelease::new(&self.allocator, &engine.inner.context, &engine.inner.device)?;
        self.settle();
        let mut address = release.allocate(bytes, alignment)?;
        if address.is_none() && engine.trim_all() {
            address = release.allocate(bytes, alignment)?;
        }
        let address = address.ok_or_else(|| Error::OutOfMemory { what: TEMPORARY.into(), bytes })?;
        let kind = match self.kind() {
            Some(kind) => kind,
            None => pointers::kind_at(engine, address.as_ptr(), &desc)
                .inspect_err(|_| release.free(address))
                .at(|| "the user's allocator")?,
        };
        let allocation = Allocation::of_user(address, kind, engine.inner.device.usm(), release, bytes);
        let allocation = Arc::new(allocation.leased(self.ledger.open(bytes)));
        Ok(OpenClMemory::new(engine, allocation, kind, desc))
    }

    /// Takes memory back: it is freed with its last handle, once `after` has ended.
    pub(crate) fn give(&self, allocation: Arc<Allocation>, after: Option<&OpenClEvent>) {
        let is_first = allocation.park();
        let Some(OpenClEvent { fate }) = after else { return };
        // What cannot be retained, the callback does not get.
        if is_first && let Ok(event) = fate.event().and_then(handle::Event::try_clone) {
            allocation.set_last_use(event);
        }
        let has_ended = matches!(fate.poll(), Ok(Some(_)));
        fate.hold([allocation]);
        if !has_ended {
            self.lock_awaited().push(Arc::downgrade(fate));
        }
    }

    /// Frees what was waiting for commands that have ended by now; false if there was nothing.
    pub(crate) fn settle(&self) -> bool {
        // Unlocked while callbacks run.
        let mut awaited = std::mem::take(&mut *self.lock_awaited());
        let before = awaited.len();
        awaited.retain(|fate| fate.upgrade().is_some_and(|fate| !matches!(fate.poll(), Ok(Some(_)))));
        let has_freed = awaited.len() < before;
        self.lock_awaited().append(&mut awaited);
        has_freed
    }

    pub(crate) fn stats(&self) -> AllocatorStats {
        self.settle();
        self.ledger.stats()
    }

    fn lock_awaited(&self) -> MutexGuard<'_, Vec<Weak<Fate>>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
