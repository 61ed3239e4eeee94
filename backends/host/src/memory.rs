//! Memory of the host.

use std::ffi::c_void;
use std::sync::Arc;

use anydnn_backend::{
    Engine, EngineId, Error, MapMode, Mapping, Memory, MemoryDesc, MemoryKind, Region, Result, validate,
};

use crate::allocation::{Allocation, Bytes};
use crate::binding::Part;
use crate::{Host, HostEngine};

/// Bytes of the host with a descriptor: of the library's own and aligned to 64 bytes, or at an address that others may know.
#[derive(Clone, Debug)]
pub struct HostMemory {
    engine: EngineId,
    allocation: Arc<Allocation>,
    region: Region,
    /// Shared among clones, of which an execution makes some for each argument.
    desc: Arc<MemoryDesc>,
}

impl HostMemory {
    /// Memory at the user's address, of kind [`MemoryKind::System`], which is never freed by it. Null is allowed for a descriptor without
    /// bytes. Any alignment is right.
    ///
    /// ```
    /// use anydnn_backend::{DataType, MapMode, Memory, MemoryDesc};
    /// use anydnn_host::{HostEngine, HostMemory};
    ///
    /// let mut values = [1.0_f32; 100];
    /// let desc = MemoryDesc::new([100], DataType::F32);
    /// // SAFETY: `values` outlives the memory, and no command uses it.
    /// let memory = unsafe { HostMemory::from_pointer(&HostEngine::new(), &desc, values.as_mut_ptr().cast()) }?;
    /// assert_eq!(memory.map(MapMode::Read)?.bytes()[..4], 1.0_f32.to_ne_bytes());
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] for an open layout or a null address.
    ///
    /// # Safety
    /// - From the address on there are as many bytes as the descriptor needs, which hold values.
    /// - They stay allocated until every clone and view of this memory is gone.
    /// - Nobody else touches them while a command or a transfer does.
    pub unsafe fn from_pointer(engine: &HostEngine, desc: &MemoryDesc, pointer: *mut c_void) -> Result<Self> {
        validate::allocation(desc)?;
        let bytes = desc.size();
        if bytes > 0 && (pointer.is_null() || pointer.addr().checked_add(bytes).is_none()) {
            let expected = format!("the address of {bytes} bytes for {desc}");
            return Err(Error::invalid("create memory", "pointer", format!("{pointer:p}"), expected));
        }
        Ok(Self::on(engine.id(), Allocation::of_user(pointer.cast(), bytes, None), desc.clone()))
    }

    /// The address of the first byte; null for memory of kind [`MemoryKind::Host`], and for memory without bytes.
    pub fn raw_pointer(&self) -> *mut c_void {
        if self.region.bytes == 0 {
            return std::ptr::null_mut();
        }
        self.allocation.address(self.region).cast()
    }

    /// Zeroed memory for a descriptor.
    pub(crate) fn new(engine: EngineId, desc: MemoryDesc, kind: MemoryKind, limit: u64) -> Result<Self> {
        let bytes = desc.size();
        let what = || desc.to_string();
        let allocation = match kind {
            MemoryKind::System => Allocation::with_address(bytes, limit, what),
            _ => Allocation::new(bytes, limit, what),
        }?;
        Ok(Self::on(engine, allocation, desc))
    }

    /// Memory without bytes.
    pub(crate) fn unbacked(engine: EngineId, desc: MemoryDesc, kind: MemoryKind) -> Result<Self> {
        let none = MemoryDesc::new([0], desc.data_type());
        Ok(Self { desc: Arc::new(desc), ..Self::new(engine, none, kind, u64::MAX)? })
    }

    /// The first bytes of an allocation.
    pub(crate) fn on(engine: EngineId, allocation: Allocation, desc: MemoryDesc) -> Self {
        let region = allocation.region(desc.size());
        Self { engine, allocation: Arc::new(allocation), region, desc: Arc::new(desc) }
    }

    pub(crate) fn allocation(&self) -> &Allocation {
        &self.allocation
    }

    /// The allocation, when no other memory shares it.
    pub(crate) fn into_allocation(self) -> Option<Allocation> {
        Arc::into_inner(self.allocation)
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
        self.allocation.kind()
    }

    fn region(&self) -> Region {
        self.region
    }

    fn identity(&self) -> u64 {
        self.allocation.id()
    }

    fn view(&self, desc: &MemoryDesc, offset: usize) -> Result<Self> {
        let region = validate::view(self.region, desc, offset)?;
        Ok(Self { region, desc: Arc::new(desc.clone()), ..self.clone() })
    }

    /// A mapping is a copy, which is written back when it ends: commands on other parts of the allocation need not wait for it.
    fn map(&self, mode: MapMode) -> Result<Box<dyn Mapping>> {
        let copy = Part::whole(self).read(Bytes::copied)?;
        Ok(Box::new(HostMapping { copy, memory: self.clone(), mode }))
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
            Part::whole(&self.memory).write(|bytes| bytes.copy_from_slice(&self.copy[..bytes.len()]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostEngine;
    use anydnn_backend::{DataType, Engine};

    fn memory_of(bytes: usize) -> HostMemory {
        HostEngine::new().create_memory(&MemoryDesc::new([bytes], DataType::U8), MemoryKind::Host).unwrap()
    }

    #[test]
    fn changes_through_a_mapping_are_seen_by_views() {
        let memory = memory_of(8);
        assert_eq!(memory.allocation().lock(false).origin().addr() % Bytes::LINE, 0);
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
        let memory = memory_of(4);
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
        let memory = memory_of(4);
        assert!(memory.view(&MemoryDesc::new([4], DataType::U8), 1).is_err());
        assert!(memory.view(&MemoryDesc::any([1], DataType::U8), 0).is_err());
    }

    #[test]
    fn memory_at_an_address_is_used_in_place() {
        let engine = HostEngine::new();
        let mut values = [1_u8, 2, 3, 4, 5, 6];
        let desc = MemoryDesc::new([5], DataType::U8);
        // SAFETY: the values live until the end, and are touched where no command is under way.
        let at = |address: *mut u8| unsafe { HostMemory::from_pointer(&engine, &desc, address.cast()) };
        let start = values.as_mut_ptr();
        let (first, second) = (at(start).unwrap(), at(start.wrapping_add(1)).unwrap());
        assert_eq!((first.kind(), first.raw_pointer()), (MemoryKind::System, start.cast()));
        assert!(first.region().overlaps(&second.region()) && first.identity() != second.identity());
        let mut mapping = second.map(MapMode::ReadWrite).unwrap();
        assert_eq!(mapping.bytes(), [2, 3, 4, 5, 6]);
        mapping.bytes_mut()[0] = 9;
        mapping.unmap().unwrap();
        assert_eq!(first.map(MapMode::Read).unwrap().bytes(), [1, 9, 3, 4, 5]);
        let view = first.view(&MemoryDesc::new([2], DataType::U8), 1).unwrap();
        assert_eq!(view.raw_pointer(), second.raw_pointer());
        drop((first, second, view));
        assert_eq!(values, [1, 9, 3, 4, 5, 6]);
        let error = at(std::ptr::null_mut()).unwrap_err().to_string();
        assert!(error.contains("5 bytes"), "{error}");
        assert!(at(std::ptr::without_provenance_mut(usize::MAX)).is_err());
    }

    #[test]
    fn memory_of_the_library_may_have_an_address() {
        let desc = MemoryDesc::new([70], DataType::U8);
        let memory = HostEngine::new().create_memory(&desc, MemoryKind::System).unwrap();
        let address = memory.raw_pointer().cast::<u8>();
        assert_eq!(address.addr() % Bytes::LINE, 0);
        // SAFETY: there are 70 bytes, which nothing else touches.
        unsafe { address.add(69).write(7) };
        assert_eq!(memory.map(MapMode::Read).unwrap().bytes()[68..], [0, 7]);
        assert!(memory_of(8).raw_pointer().is_null());
    }
}
