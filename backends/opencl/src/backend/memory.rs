//! Memory: an allocation of some kind, or a part of one, with a descriptor.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use anydnn_backend::{EngineId, MapMode, Mapping, Memory, MemoryDesc, MemoryKind, Region, Result, validate};

use crate::backend::OpenCl;
use crate::backend::engine::OpenClEngine;
use crate::backend::mapping;
use crate::memory::allocation::{Allocation, Binding};
use crate::program::kernels::Place;

/// A buffer object (`cl_mem`) or an address of unified or shared virtual memory, with a byte offset into it. The kind is a property:
/// everything that takes memory takes every kind. Memory without bytes has neither.
#[derive(Clone)]
pub struct OpenClMemory {
    pub(crate) allocation: Arc<Allocation>,
    pub(crate) engine: OpenClEngine,
    kind: MemoryKind,
    /// Shared among clones: an execution clones each of its arguments, more than once where backends hold one another.
    desc: Arc<MemoryDesc>,
    offset: usize,
    /// Bytes behind the descriptor: all that it needs, or none.
    bytes: usize,
}

impl Memory for OpenClMemory {
    type B = OpenCl;

    fn engine_id(&self) -> EngineId {
        self.engine.inner.id
    }

    fn desc(&self) -> &MemoryDesc {
        &self.desc
    }

    fn kind(&self) -> MemoryKind {
        self.kind
    }

    fn region(&self) -> Region {
        let Allocation { identity, base, .. } = &*self.allocation;
        Region { allocation: *identity, offset: base + self.offset, bytes: self.bytes }
    }

    fn identity(&self) -> u64 {
        Arc::as_ptr(&self.allocation).addr() as u64
    }

    fn view(&self, desc: &MemoryDesc, offset: usize) -> Result<Self> {
        validate::view(self.region(), desc, offset)?;
        let (desc, bytes) = (Arc::new(desc.clone()), desc.size());
        Ok(Self { desc, bytes, offset: self.offset + offset, ..self.clone() })
    }

    fn map(&self, mode: MapMode) -> Result<Box<dyn Mapping>> {
        mapping::map(self, mode)
    }
}

impl OpenClMemory {
    pub(crate) fn new(
        engine: &OpenClEngine,
        allocation: Arc<Allocation>,
        kind: MemoryKind,
        desc: MemoryDesc,
    ) -> Self {
        let bytes = desc.size();
        Self { allocation, engine: engine.clone(), kind, desc: Arc::new(desc), offset: 0, bytes }
    }

    /// Memory without bytes.
    pub(crate) fn unbacked(engine: &OpenClEngine, kind: MemoryKind, desc: MemoryDesc) -> Self {
        let allocation = Arc::new(Allocation::empty());
        Self { allocation, engine: engine.clone(), kind, desc: Arc::new(desc), offset: 0, bytes: 0 }
    }

    /// The engine this memory was made on.
    pub fn engine(&self) -> &OpenClEngine {
        &self.engine
    }

    /// Bytes from the start of the buffer object, or from the address that the memory was made of, to the first byte of this memory.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The address of this memory's first byte; null for buffers and for memory without bytes.
    pub fn raw_pointer(&self) -> *mut c_void {
        let start = self.allocation.raw_pointer();
        if start.is_null() { start } else { start.wrapping_byte_add(self.offset) }
    }

    /// How commands take the allocation, in which this memory starts [`OpenClMemory::offset`] bytes in.
    pub(crate) fn binding(&self) -> Binding {
        self.allocation.binding()
    }

    /// What a kernel binds to take this memory from byte `start` on.
    pub(crate) fn place(&self, start: usize) -> Place {
        Place { binding: self.binding(), allocation: self.allocation.serial, offset: self.offset + start }
    }

    /// Whether the first byte's address is a multiple of `bytes` for sure. A device may use a buffer over odd host memory in place, or
    /// a copy that starts aligned, so an odd offset into it makes up for nothing.
    pub(crate) fn is_aligned_to(&self, bytes: usize) -> bool {
        self.is_aligned_at(0, bytes)
    }

    /// The same for the byte `start` bytes on.
    pub(crate) fn is_aligned_at(&self, start: usize, bytes: usize) -> bool {
        let (address, offset) = (self.allocation.address, self.offset + start);
        match self.binding() {
            Binding::Mem(_) => address.is_multiple_of(bytes) && offset.is_multiple_of(bytes),
            Binding::Usm(..) | Binding::Svm(_) => address.wrapping_add(offset).is_multiple_of(bytes),
        }
    }
}

impl fmt::Debug for OpenClMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenClMemory")
            .field("kind", &self.kind)
            .field("allocation", &self.allocation)
            .field("offset", &self.offset)
            .field("desc", &self.desc)
            .field("engine", &self.engine.inner.id)
            .finish_non_exhaustive()
    }
}
