//! The user's buffer objects before anything is known about them.

use std::fmt;

use anydnn_backend::{DataType, MapMode, MemoryDesc, Result};
use cl3::memory as mem;
use cl3::types::cl_mem;

use crate::backend::engine::OpenClEngine;
use crate::backend::memory::OpenClMemory;
use crate::driver::call;
use crate::driver::handle;

/// One reference to a buffer object that has not been looked at: neither its context nor its size need fit anything yet.
/// [`OpenClBuffer::memory`] looks at it.
///
/// ```no_run
/// # fn later(engine: &anydnn_opencl::OpenClEngine, raw: cl3::types::cl_mem) -> anydnn_backend::Result<()> {
/// // SAFETY: `raw` is a live buffer object.
/// let buffer = unsafe { anydnn_opencl::OpenClBuffer::from_raw(raw) }?;
/// let memory = buffer.memory(engine)?;
/// # Ok(())
/// # }
/// ```
pub struct OpenClBuffer {
    handle: handle::Mem,
}

impl OpenClBuffer {
    /// A reference to the user's buffer object, which is retained once.
    ///
    /// # Errors
    /// [`Error::Invalid`](anydnn_backend::Error::Invalid) for null; a device error.
    ///
    /// # Safety
    /// - `buffer` is a live memory object, or null.
    pub unsafe fn from_raw(buffer: cl_mem) -> Result<Self> {
        // SAFETY: live or null by contract.
        let handle = unsafe { handle::Mem::from_borrowed(buffer) }?;
        Ok(Self { handle })
    }

    /// The buffer object, not retained.
    pub fn raw_mem(&self) -> cl_mem {
        self.handle.raw()
    }

    /// The size in bytes.
    ///
    /// # Errors
    /// A device error.
    pub fn bytes(&self) -> Result<usize> {
        let bytes = mem::get_mem_object_data(self.raw_mem(), mem::CL_MEM_SIZE);
        call::value(bytes, "look at buffer", "clGetMemObjectInfo")
    }

    /// What the host may do with its bytes: read or overwrite them where the buffer object was made for that alone, else both.
    ///
    /// # Errors
    /// A device error.
    pub fn map_mode(&self) -> Result<MapMode> {
        let flags = mem::get_mem_object_data(self.raw_mem(), mem::CL_MEM_FLAGS);
        let flags: u64 = call::value(flags, "look at buffer", "clGetMemObjectInfo")?;
        Ok(if flags & mem::CL_MEM_HOST_READ_ONLY != 0 {
            MapMode::Read
        } else if flags & mem::CL_MEM_HOST_WRITE_ONLY != 0 {
            MapMode::Write
        } else {
            MapMode::ReadWrite
        })
    }

    /// All of its bytes as memory of an engine, with a reference of its own.
    ///
    /// # Errors
    /// As [`OpenClMemory::from_raw`].
    pub fn memory(&self, engine: &OpenClEngine) -> Result<OpenClMemory> {
        let desc = MemoryDesc::new([self.bytes()?], DataType::U8);
        // SAFETY: this holds a reference.
        unsafe { OpenClMemory::from_raw(engine, &desc, self.raw_mem()) }
    }
}

impl fmt::Debug for OpenClBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenClBuffer").field("handle", &self.handle).finish()
    }
}

#[cfg(test)]
mod tests {
    use anydnn_backend::{Engine, Memory, MemoryKind};

    use super::*;
    use crate::testing::test_engines;

    fn references(raw: cl_mem) -> u32 {
        call::value(mem::get_mem_object_data(raw, mem::CL_MEM_REFERENCE_COUNT), "test", "test").unwrap()
    }

    #[test]
    fn a_buffer_is_looked_at_when_it_becomes_memory() {
        for engine in test_engines() {
            let desc = MemoryDesc::new([10], DataType::F32);
            let memory = engine.create_memory(&desc, MemoryKind::Buffer).unwrap();
            let raw = memory.raw_mem();
            // SAFETY: `memory` keeps the object alive.
            let buffer = unsafe { OpenClBuffer::from_raw(raw) }.unwrap();
            assert_eq!((references(raw), buffer.bytes().unwrap()), (2, 40));
            let whole = buffer.memory(&engine).unwrap();
            assert_eq!((whole.region(), references(raw)), (memory.region(), 3));
            let other = OpenClEngine::on_device(engine.opencl_device()).unwrap();
            assert!(buffer.memory(&other).is_err());
            drop((buffer, whole));
            assert_eq!(references(raw), 1);
            // SAFETY: null is allowed.
            assert!(unsafe { OpenClBuffer::from_raw(std::ptr::null_mut()) }.is_err());
        }
    }
}
