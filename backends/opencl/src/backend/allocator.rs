//! An engine's allocators of temporary memory: its pool's, one for each kind, or the user's.

use std::sync::Arc;

use anydnn_backend::{Allocator, AllocatorStats, DataType, Error, Memory, MemoryDesc, MemoryKind, Result};

use crate::backend::OpenCl;
use crate::backend::engine::{Inner, OpenClEngine};
use crate::backend::event::OpenClEvent;
use crate::backend::memory::OpenClMemory;
use crate::backend::user_source::UserSource;
use crate::memory::allocation::{Allocation, NATURAL_ALIGNMENT, TEMPORARY};

/// Temporary memory of an engine: from a pool that reuses memory once the commands that used it are complete, or from the
/// [user's callbacks](crate::UserAllocator).
///
/// ```
/// use anydnn_backend::{Allocator, Engine, Memory, MemoryKind};
/// use anydnn_opencl::OpenClEngine;
///
/// for device in anydnn_opencl::devices()? {
///     let engine = OpenClEngine::on_device(&device)?;
///     for &kind in &engine.capabilities().memory_kinds {
///         let allocator = engine.allocator_of(kind)?;
///         let memory = allocator.allocate(1000, 4096)?;
///         assert_eq!(memory.kind(), kind);
///         allocator.free(memory, None)?;
///         assert!(allocator.stats().parked_bytes >= 1000);
///     }
/// }
/// # Ok::<(), anydnn_backend::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct OpenClAllocator {
    engine: OpenClEngine,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Pool(MemoryKind),
    User(Arc<UserSource>),
}

impl OpenClEngine {
    /// The engine's own allocator: the one it was made [with](OpenClEngine::with_allocator), or that of buffers. Graphs take their
    /// temporaries from it and primitives their scratchpads.
    pub fn opencl_allocator(&self) -> OpenClAllocator {
        let user = self.inner.user.clone().map(Source::User);
        OpenClAllocator { engine: self.clone(), source: user.unwrap_or(Source::Pool(MemoryKind::Buffer)) }
    }

    /// The default allocator of a kind of memory.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a kind that the device lacks.
    pub fn allocator_of(&self, kind: MemoryKind) -> Result<OpenClAllocator> {
        self.check_kind(kind)?;
        Ok(OpenClAllocator { engine: self.clone(), source: Source::Pool(kind) })
    }

    /// The most bytes that the default allocators together keep for reuse: a quarter of the device's memory unless set.
    pub fn parked_limit(&self) -> usize {
        self.inner.pool.limit()
    }

    /// Sets the most bytes that the default allocators together keep for reuse. What was given back longest ago is freed first.
    pub fn set_parked_limit(&self, bytes: usize) {
        self.inner.pool.set_limit(bytes);
    }

    /// New memory, if there is enough as it stands.
    pub(crate) fn try_allocation(&self, kind: MemoryKind, bytes: usize, what: &str) -> Result<Allocation> {
        let Inner { context, device, pool, .. } = &*self.inner;
        Allocation::create(context, device, kind, bytes, pool.keeps_apart(), what)
    }

    /// New memory. Where there is too little, everything parked is freed and it is tried once more.
    pub(crate) fn create_allocation(&self, kind: MemoryKind, bytes: usize, what: &str) -> Result<Allocation> {
        let create = || self.try_allocation(kind, bytes, what);
        match create() {
            Err(Error::OutOfMemory { .. }) if bytes as u64 <= self.inner.device.memory_bytes() => {
                self.trim_all();
                create()
            }
            created => created,
        }
    }

    /// Frees what all allocators of the engine have parked, except what commands have not done with; false if there was nothing.
    pub(crate) fn trim_all(&self) -> bool {
        let from_pool = self.inner.pool.trim(None);
        self.inner.user.as_ref().is_some_and(|user| user.settle()) || from_pool
    }
}

impl OpenClAllocator {
    /// The kind of its memory; none when the user's callbacks decide.
    pub fn kind(&self) -> Option<MemoryKind> {
        match &self.source {
            Source::Pool(kind) => Some(*kind),
            Source::User(user) => user.kind(),
        }
    }

    /// Memory of the pool whose address is a multiple of `alignment`.
    fn aligned(&self, kind: MemoryKind, bytes: usize, alignment: usize) -> Result<OpenClMemory> {
        let (pool, desc) = (&self.engine.inner.pool, MemoryDesc::new([bytes], DataType::U8));
        let at_start = |allocation| {
            OpenClMemory::new(&self.engine, allocation, kind, MemoryDesc::new([bytes], DataType::U8))
        };
        if !kind.is_pointer() || bytes == 0 {
            return pool.take(&self.engine, kind, bytes).map(at_start);
        }
        if NATURAL_ALIGNMENT.is_multiple_of(alignment.max(1)) {
            let memory = at_start(pool.take(&self.engine, kind, bytes)?);
            if memory.is_aligned_to(alignment.max(1)) {
                return Ok(memory);
            }
            // A driver that aligns to less; the memory is not used.
            self.free(memory, None)?;
        }
        let padded = bytes.checked_add(alignment);
        let padded = padded.ok_or_else(|| Error::OutOfMemory { what: TEMPORARY.into(), bytes })?;
        let allocation = pool.take(&self.engine, kind, padded)?;
        let offset = allocation.base.next_multiple_of(alignment) - allocation.base;
        let whole = MemoryDesc::new([padded], DataType::U8);
        OpenClMemory::new(&self.engine, allocation, kind, whole).view(&desc, offset)
    }
}

impl Allocator for OpenClAllocator {
    type B = OpenCl;

    /// Addresses are aligned as asked. Buffers start at the start of their buffer object, whose address OpenCL aligns to at least the
    /// size of its largest type (128 bytes) and does not tell; larger alignments hold relative to the buffer object.
    fn allocate(&self, bytes: usize, alignment: usize) -> Result<OpenClMemory> {
        match &self.source {
            Source::Pool(kind) => self.aligned(*kind, bytes, alignment),
            Source::User(user) => user.allocate(&self.engine, bytes, alignment),
        }
    }

    fn free(&self, memory: OpenClMemory, after: Option<&OpenClEvent>) -> Result<()> {
        let (theirs, own) = (memory.engine.inner.id, self.engine.inner.id);
        if theirs != own {
            return Err(Error::mismatch("free", format!("memory of {theirs}"), own.to_string()));
        }
        match &self.engine.inner.user {
            Some(user) if memory.allocation.is_users() => user.give(memory.allocation, after),
            _ => self.engine.inner.pool.give(memory.allocation, after.cloned()),
        }
        Ok(())
    }

    fn stats(&self) -> AllocatorStats {
        match &self.source {
            Source::Pool(kind) => self.engine.inner.pool.stats(*kind),
            Source::User(user) => user.stats(),
        }
    }

    fn trim(&self) {
        match &self.source {
            Source::Pool(kind) => self.engine.inner.pool.trim(Some(*kind)),
            Source::User(user) => user.settle(),
        };
    }

    /// What the environment asks for: `ANYDNN_TEMPORARIES=apart`.
    fn keeps_apart(&self) -> bool {
        self.engine.inner.pool.keeps_apart()
    }
}
