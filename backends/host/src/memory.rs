//! Memory of the host.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use anydnn_backend::{
    EngineId, Error, MapMode, Mapping, Memory, MemoryDesc, MemoryKind, Region, Result, check_host_memory,
    validate,
};
use bytemuck::{Pod, Zeroable};

use crate::Host;

/// Bytes of the host with a descriptor, aligned to 64 bytes.
#[derive(Clone, Debug)]
pub struct HostMemory {
    engine: EngineId,
    allocation: Arc<Allocation>,
    region: Region,
    desc: MemoryDesc,
}

impl HostMemory {
    /// Zeroed memory for a descriptor.
    pub(crate) fn new(engine: EngineId, desc: MemoryDesc, limit: u64) -> Result<Self> {
        let bytes = desc.size();
        let what = || desc.to_string();
        let allocation = Allocation::new(bytes, limit, what)?;
        Ok(Self::on(engine, allocation, desc))
    }

    /// Memory without bytes.
    pub(crate) fn unbacked(engine: EngineId, desc: MemoryDesc) -> Result<Self> {
        let allocation = Allocation::new(0, u64::MAX, String::new)?;
        let region = Region { allocation: allocation.id, offset: 0, bytes: 0 };
        Ok(Self { engine, allocation: Arc::new(allocation), region, desc })
    }

    /// The first bytes of an allocation.
    pub(crate) fn on(engine: EngineId, allocation: Allocation, desc: MemoryDesc) -> Self {
        let region = Region { allocation: allocation.id, offset: 0, bytes: desc.size() };
        Self { engine, allocation: Arc::new(allocation), region, desc }
    }

    pub(crate) fn allocation(&self) -> &Allocation {
        &self.allocation
    }

    /// The allocation, when no other memory shares it.
    pub(crate) fn into_allocation(self) -> Option<Allocation> {
        Arc::into_inner(self.allocation)
    }

    /// The part of the allocation's bytes from `offset` of this memory on.
    pub(crate) fn range(&self, offset: usize, bytes: usize) -> std::ops::Range<usize> {
        let start = self.region.offset + offset;
        start..start + bytes
    }
}

impl Memory for HostMemory {
    type B = Host;

    fn engine_id(&self) -> EngineId {
        self.engine
    }

    fn desc(&self) -> &MemoryDesc {
        &self.desc
    }

    fn kind(&self) -> MemoryKind {
        MemoryKind::Host
    }

    fn region(&self) -> Region {
        self.region
    }

    fn view(&self, desc: &MemoryDesc, offset: usize) -> Result<Self> {
        let region = validate::view(self.region, desc, offset)?;
        Ok(Self { region, desc: desc.clone(), ..self.clone() })
    }

    /// A mapping is a copy, which is written back when it ends: commands on other parts of the allocation need not wait for it.
    fn map(&self, mode: MapMode) -> Result<Box<dyn Mapping>> {
        let source = self.allocation.read();
        Ok(Box::new(HostMapping {
            copy: Bytes::copied(&source[self.range(0, self.region.bytes)])?,
            memory: self.clone(),
            mode,
        }))
    }
}

#[derive(Debug)]
struct HostMapping {
    memory: HostMemory,
    copy: Bytes,
    mode: MapMode,
}

impl Mapping for HostMapping {
    fn bytes(&self) -> &[u8] {
        &self.copy[..self.memory.region.bytes]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = if self.mode == MapMode::Read { 0 } else { self.memory.region.bytes };
        &mut self.copy[..bytes]
    }

    fn unmap(self: Box<Self>) -> Result<()> {
        drop(self);
        Ok(())
    }
}

impl Drop for HostMapping {
    fn drop(&mut self) {
        if self.mode != MapMode::Read {
            let range = self.memory.range(0, self.memory.region.bytes);
            self.memory.allocation.write()[range].copy_from_slice(&self.copy[..self.memory.region.bytes]);
        }
    }
}

/// Bytes that several memories may share. Commands lock each allocation they touch once, in ascending order of identity.
#[derive(Debug)]
pub(crate) struct Allocation {
    id: u64,
    /// The number of bytes, those in front of the aligned start included.
    size: usize,
    /// Whether the allocator handed it out and waits for it.
    lent: AtomicBool,
    bytes: RwLock<Bytes>,
}

impl Allocation {
    /// Zeroed bytes; `what` names their purpose when there are none.
    pub(crate) fn new(bytes: usize, limit: u64, what: impl FnOnce() -> String) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        if bytes as u64 > limit {
            return Err(Error::OutOfMemory { what: what(), bytes });
        }
        let what = what();
        check_host_memory(bytes, || what.clone())?;
        let zeroed = Bytes::zeroed(bytes).ok_or(Error::OutOfMemory { what, bytes })?;
        let (id, size) = (NEXT.fetch_add(1, Ordering::Relaxed), zeroed.len());
        Ok(Self { id, size, lent: AtomicBool::new(false), bytes: RwLock::new(zeroed) })
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Marks it as handed out by the allocator, or not; tells what it was.
    pub(crate) fn set_lent(&self, lent: bool) -> bool {
        self.lent.swap(lent, Ordering::Relaxed)
    }

    /// The bytes, to read. A panic while they were written leaves bytes that are wrong, but bytes.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Bytes> {
        self.bytes.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes, to change; as [`Allocation::read`].
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Bytes> {
        self.bytes.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same allocation, beginning at the first address that is a multiple of `alignment`; at its very first byte for zero.
    pub(crate) fn aligned(mut self, alignment: usize) -> Self {
        let bytes = self.bytes.get_mut().unwrap_or_else(PoisonError::into_inner);
        bytes.start = 0;
        if alignment > 0 {
            bytes.start = (alignment - bytes.as_ptr().addr() % alignment) % alignment;
        }
        self
    }
}

/// Whole cache lines of bytes, from some byte on.
pub(crate) struct Bytes {
    lines: Box<[Line]>,
    start: usize,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; Bytes::LINE]);

impl Bytes {
    /// Bytes of a line, and the alignment of the first one.
    pub(crate) const LINE: usize = 64;

    /// Zeroed lines for a number of bytes; none when there is no such memory.
    fn zeroed(bytes: usize) -> Option<Self> {
        let lines = bytemuck::allocation::try_zeroed_slice_box(bytes.div_ceil(Self::LINE)).ok()?;
        Some(Self { lines, start: 0 })
    }

    /// Aligned lines that begin with these bytes.
    pub(crate) fn copied(bytes: &[u8]) -> Result<Self> {
        let mut copy = Self::zeroed(bytes.len())
            .ok_or_else(|| Error::OutOfMemory { what: "a copy in host memory".into(), bytes: bytes.len() })?;
        copy[..bytes.len()].copy_from_slice(bytes);
        Ok(copy)
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[self.start..]
    }
}

impl std::ops::DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[self.start..]
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostEngine;
    use anydnn_backend::{DataType, Engine};

    fn memory(bytes: usize) -> HostMemory {
        HostEngine::new().create_memory(&MemoryDesc::new([bytes], DataType::U8), MemoryKind::Host).unwrap()
    }

    #[test]
    fn changes_through_a_mapping_are_seen_by_views() {
        let memory = memory(8);
        assert_eq!(memory.allocation().read().as_ptr().addr() % Bytes::LINE, 0);
        let view = memory.view(&MemoryDesc::new([2], DataType::S8), 5).unwrap();
        let mut mapping = view.map(MapMode::Write).unwrap();
        mapping.bytes_mut().copy_from_slice(&[7, 8]);
        mapping.unmap().unwrap();
        assert_eq!(memory.map(MapMode::Read).unwrap().bytes(), [0, 0, 0, 0, 0, 7, 8, 0]);
        assert_eq!((view.region().offset, view.region().allocation), (5, memory.region().allocation));
        let nested = view.view(&MemoryDesc::new([1], DataType::U8), 1).unwrap();
        assert_eq!(nested.map(MapMode::ReadWrite).unwrap().bytes(), [8]);
    }

    #[test]
    fn a_mapping_for_reading_changes_nothing() {
        let memory = memory(4);
        let mut mapping = memory.map(MapMode::Read).unwrap();
        assert!(mapping.bytes_mut().is_empty());
        drop(mapping);
        // Mappings of two parts at once do not wait for each other.
        let part = |offset| {
            memory.view(&MemoryDesc::new([2], DataType::U8), offset).unwrap().map(MapMode::Write).unwrap()
        };
        let (mut first, mut second) = (part(0), part(2));
        first.bytes_mut().fill(1);
        second.bytes_mut().fill(2);
        drop((first, second));
        assert_eq!(memory.map(MapMode::Read).unwrap().bytes(), [1, 1, 2, 2]);
    }

    #[test]
    fn a_view_stays_inside() {
        let memory = memory(4);
        assert!(memory.view(&MemoryDesc::new([4], DataType::U8), 1).is_err());
        assert!(memory.view(&MemoryDesc::any([1], DataType::U8), 0).is_err());
    }
}
