//! Memory: buffer objects, views of them, and their mapping.

use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use anydnn_backend::{
    EngineId, Error, MapMode, Mapping, Memory, MemoryDesc, MemoryKind, Region, Result, validate,
};
use cl3::command_queue as cl;
use cl3::memory::{CL_MAP_READ, CL_MAP_WRITE, CL_MAP_WRITE_INVALIDATE_REGION, CL_MEM_READ_WRITE};
use cl3::types::{CL_BLOCKING, cl_mem};

use crate::call::{self, Check};
use crate::engine::OpenClEngine;
use crate::platform::OpenClDevice;
use crate::{OpenCl, handle};

/// A buffer object, or a part of one: the same `cl_mem` with a byte offset. Memory without bytes has no buffer object.
#[derive(Clone)]
pub struct OpenClMemory {
    pub(crate) allocation: Arc<Allocation>,
    pub(crate) engine: OpenClEngine,
    desc: MemoryDesc,
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
        MemoryKind::Buffer
    }

    fn region(&self) -> Region {
        let Allocation { identity, base, .. } = *self.allocation;
        Region { allocation: identity, offset: base + self.offset, bytes: self.bytes }
    }

    fn view(&self, desc: &MemoryDesc, offset: usize) -> Result<Self> {
        validate::view(self.region(), desc, offset)?;
        let (desc, bytes) = (desc.clone(), desc.size());
        Ok(Self { desc, bytes, offset: self.offset + offset, ..self.clone() })
    }

    fn map(&self, mode: MapMode) -> Result<Box<dyn Mapping>> {
        Ok(Box::new(BufferMapping::new(self, mode)?))
    }
}

impl OpenClMemory {
    pub(crate) fn new(engine: &OpenClEngine, allocation: Arc<Allocation>, desc: MemoryDesc) -> Self {
        let bytes = desc.size();
        Self { allocation, engine: engine.clone(), desc, offset: 0, bytes }
    }

    /// Memory without bytes.
    pub(crate) fn unbacked(engine: &OpenClEngine, desc: MemoryDesc) -> Self {
        let allocation = Arc::new(Allocation::empty());
        Self { allocation, engine: engine.clone(), desc, offset: 0, bytes: 0 }
    }

    /// The engine this memory was made on.
    pub fn engine(&self) -> &OpenClEngine {
        &self.engine
    }

    /// Bytes from the start of the buffer object to the first byte of this memory.
    pub fn offset(&self) -> usize {
        self.offset
    }
}

impl fmt::Debug for OpenClMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenClMemory")
            .field("allocation", &self.allocation)
            .field("offset", &self.offset)
            .field("desc", &self.desc)
            .field("engine", &self.engine.inner.id)
            .finish()
    }
}

/// A buffer object and where it lies among the allocations of the process.
#[derive(Debug)]
pub(crate) struct Allocation {
    mem: Option<handle::Mem>,
    /// The buffer object's address; of the whole buffer for a sub-buffer of the user.
    identity: u64,
    /// Bytes from the start of the whole buffer.
    base: usize,
    /// Bytes of the buffer object.
    pub(crate) capacity: usize,
    /// Whether the engine's pool takes it back.
    pub(crate) pooled: bool,
}

impl Allocation {
    /// No bytes, so no buffer object, which OpenCL would refuse.
    pub(crate) fn empty() -> Self {
        Self { mem: None, identity: 0, base: 0, capacity: 0, pooled: false }
    }

    /// A new buffer object of `bytes` bytes.
    pub(crate) fn create(
        context: &handle::Context,
        device: &OpenClDevice,
        bytes: usize,
        what: &str,
    ) -> Result<Self> {
        if bytes == 0 {
            return Ok(Self::empty());
        }
        // Some drivers make a buffer of any size and fail at its first use.
        if bytes as u64 > device.memory_bytes() {
            return Err(Error::OutOfMemory { what: what.into(), bytes });
        }
        // SAFETY: a live context; no host memory is passed.
        let raw =
            unsafe { cl3::memory::create_buffer(context.raw(), CL_MEM_READ_WRITE, bytes, ptr::null_mut()) };
        let raw = match raw {
            // Drivers also call a buffer that is larger than they can make one of invalid size.
            Err(code) if call::is_out_of_memory(code) || code == cl3::error_codes::CL_INVALID_BUFFER_SIZE => {
                return Err(Error::OutOfMemory { what: what.into(), bytes });
            }
            raw => raw.check(what, "clCreateBuffer")?,
        };
        // SAFETY: the driver returned this object with one reference for the caller.
        let mem = unsafe { handle::Mem::from_owned(raw) }?;
        Ok(Self::adopt(mem, raw.addr() as u64, 0, bytes))
    }

    pub(crate) fn adopt(mem: handle::Mem, identity: u64, base: usize, capacity: usize) -> Self {
        Self { mem: Some(mem), identity, base, capacity, pooled: false }
    }

    /// The same, for a pool to take back.
    pub(crate) fn into_pooled(self) -> Self {
        Self { pooled: true, ..self }
    }

    pub(crate) fn raw(&self) -> cl_mem {
        self.mem.as_ref().map_or(ptr::null_mut(), handle::Mem::raw)
    }
}

/// Part of a buffer object mapped through the engine's service queue.
#[derive(Debug)]
struct BufferMapping {
    memory: OpenClMemory,
    pointer: *mut c_void,
    bytes: usize,
    mode: MapMode,
}

// SAFETY: the mapped bytes belong to this value alone and are valid on any thread.
unsafe impl Send for BufferMapping {}

impl BufferMapping {
    fn new(memory: &OpenClMemory, mode: MapMode) -> Result<Self> {
        let bytes = memory.bytes;
        let mut mapping = Self { memory: memory.clone(), pointer: ptr::null_mut(), bytes, mode };
        if bytes == 0 {
            return Ok(mapping);
        }
        let queue = memory.engine.service_queue()?;
        let flags = match mode {
            MapMode::Read => CL_MAP_READ,
            MapMode::Write => CL_MAP_WRITE_INVALIDATE_REGION,
            MapMode::ReadWrite => CL_MAP_READ | CL_MAP_WRITE,
        };
        let (mem, offset) = (memory.raw_mem(), memory.offset);
        let pointer = &mut mapping.pointer;
        // SAFETY: live handles; the region lies inside the buffer; no wait list.
        let event = unsafe {
            cl::enqueue_map_buffer(
                queue.raw(),
                mem,
                CL_BLOCKING,
                flags,
                offset,
                bytes,
                pointer,
                0,
                ptr::null(),
            )
        }
        .check("map memory", "clEnqueueMapBuffer")?;
        // SAFETY: the driver returned this event with one reference for the caller.
        drop(unsafe { handle::Event::from_owned(event) }?);
        Ok(mapping)
    }

    fn end(&mut self) -> Result<()> {
        let pointer = std::mem::replace(&mut self.pointer, ptr::null_mut());
        if pointer.is_null() {
            return Ok(());
        }
        let queue = self.memory.engine.service_queue()?;
        let mem = self.memory.raw_mem();
        // SAFETY: live handles; the pointer came from mapping this buffer and is given back once.
        let event = unsafe { cl::enqueue_unmap_mem_object(queue.raw(), mem, pointer, 0, ptr::null()) }
            .check("unmap memory", "clEnqueueUnmapMemObject")?;
        // SAFETY: the driver returned this event with one reference for the caller.
        let event = unsafe { handle::Event::from_owned(event) }?;
        cl3::event::wait_for_events(&[event.raw()]).check("unmap memory", "clWaitForEvents")
    }
}

impl Mapping for BufferMapping {
    fn bytes(&self) -> &[u8] {
        if self.pointer.is_null() {
            return &[];
        }
        // SAFETY: the driver mapped this many bytes at the pointer until they are unmapped.
        unsafe { std::slice::from_raw_parts(self.pointer.cast(), self.bytes) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        if self.pointer.is_null() || self.mode == MapMode::Read {
            return &mut [];
        }
        // SAFETY: as above, and the borrow of this value makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.cast(), self.bytes) }
    }

    fn unmap(mut self: Box<Self>) -> Result<()> {
        self.end()
    }
}

impl Drop for BufferMapping {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, "memory was not unmapped");
        }
    }
}
