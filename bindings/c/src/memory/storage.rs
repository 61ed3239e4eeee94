//! The bytes behind one handle of a memory.

use std::ffi::c_void;
use std::ptr;

use anydnn_backend::{DataType, Engine, Error, Memory, MemoryDesc, MemoryKind, Result};
use anydnn_opencl::{OpenClBuffer, OpenClEngine, OpenClMemory};

use crate::boundary::{Failure, Outcome};
use crate::object_types::{
    DNNL_MEMORY_ALLOCATE, dnnl_ocl_interop_buffer, dnnl_ocl_interop_memory_kind_t, dnnl_ocl_interop_usm,
};
use crate::refusals::Lack;

/// What the handles of a memory are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandleKind {
    /// Addresses.
    Usm,
    /// Buffer objects.
    Buffer,
}

/// The bytes behind one handle. Those of the user are looked at when they are used, not before.
#[derive(Debug)]
pub(crate) enum Storage {
    /// None.
    Nothing,
    /// The library's.
    Library(Box<OpenClMemory>),
    /// The user's buffer object, with one reference.
    Buffer(OpenClBuffer),
    /// The user's address.
    Pointer(*mut c_void),
}

/// Addresses of the device's own memory first.
const POINTER_KINDS: [MemoryKind; 5] =
    [MemoryKind::UsmDevice, MemoryKind::UsmShared, MemoryKind::Svm, MemoryKind::SvmFine, MemoryKind::System];

impl HandleKind {
    /// The kind of that number: anything but the one for addresses is the other.
    pub(crate) fn new(kind: dnnl_ocl_interop_memory_kind_t) -> Self {
        if kind == dnnl_ocl_interop_usm { Self::Usm } else { Self::Buffer }
    }

    /// The kind's number.
    pub(crate) fn value(self) -> dnnl_ocl_interop_memory_kind_t {
        match self {
            Self::Usm => dnnl_ocl_interop_usm,
            Self::Buffer => dnnl_ocl_interop_buffer,
        }
    }
}

impl Storage {
    /// What a handle stands for when memory is made: none, an order to allocate, or the user's bytes.
    ///
    /// # Safety
    /// `handle` is special, or a buffer object that lives, or an address, as `kind` says.
    pub(crate) unsafe fn create(
        engine: &OpenClEngine,
        kind: HandleKind,
        handle: *mut c_void,
        bytes: usize,
    ) -> Outcome<Self> {
        if handle == DNNL_MEMORY_ALLOCATE {
            return Self::allocate(engine, kind, bytes);
        }
        // SAFETY: by contract.
        let storage = unsafe { Self::user(kind, handle) }?;
        if let Self::Pointer(address) = storage {
            // SAFETY: a descriptor without bytes; the driver is asked about the address, which is not read.
            unsafe { OpenClMemory::from_pointer(engine, &byte_desc(0), address) }?;
        }
        Ok(storage)
    }

    /// What a handle stands for that the user sets.
    ///
    /// # Safety
    /// As for [`Storage::create`].
    pub(crate) unsafe fn user(kind: HandleKind, handle: *mut c_void) -> Outcome<Self> {
        if handle.is_null() {
            return Ok(Self::Nothing);
        }
        if handle == DNNL_MEMORY_ALLOCATE {
            return Err(Failure::invalid("memory is allocated when it is made only"));
        }
        Ok(match kind {
            HandleKind::Usm => Self::Pointer(handle),
            // SAFETY: a buffer object that lives, by contract.
            HandleKind::Buffer => Self::Buffer(unsafe { OpenClBuffer::from_raw(handle) }?),
        })
    }

    /// The handle as it was given, or of what the library allocated.
    pub(crate) fn handle(&self) -> *mut c_void {
        match self {
            Self::Nothing => ptr::null_mut(),
            Self::Library(memory) if memory.kind() == MemoryKind::Buffer => memory.raw_mem(),
            Self::Library(memory) => memory.raw_pointer(),
            Self::Buffer(buffer) => buffer.raw_mem(),
            Self::Pointer(address) => *address,
        }
    }

    /// The bytes as memory of an engine, which may be another one in the same context. The user's buffer object has as many bytes as
    /// it has; an address has `bytes`.
    ///
    /// # Safety
    /// The user's bytes live until the commands that use the memory have ended.
    pub(crate) unsafe fn memory(&self, engine: &OpenClEngine, bytes: usize) -> Result<OpenClMemory> {
        let desc = byte_desc(bytes);
        match self {
            Self::Nothing => engine.create_unbacked_memory(&desc, MemoryKind::Buffer),
            Self::Library(memory) if memory.engine_id() == engine.id() => Ok(OpenClMemory::clone(memory)),
            Self::Library(memory) if memory.kind() == MemoryKind::Buffer => {
                // SAFETY: this holds a reference.
                unsafe { OpenClMemory::from_raw(engine, &desc, memory.raw_mem()) }
            }
            Self::Library(memory) if memory.engine().raw_context() != engine.raw_context() => {
                Err(Error::mismatch("execute", "memory of another context", "the stream's context"))
            }
            // SAFETY: by contract.
            Self::Library(memory) => unsafe {
                OpenClMemory::from_pointer(engine, &desc, memory.raw_pointer())
            },
            Self::Buffer(buffer) => buffer.memory(engine),
            // SAFETY: by contract.
            Self::Pointer(address) => unsafe { OpenClMemory::from_pointer(engine, &desc, *address) },
        }
    }

    fn allocate(engine: &OpenClEngine, kind: HandleKind, bytes: usize) -> Outcome<Self> {
        let desc = byte_desc(bytes);
        if kind == HandleKind::Buffer {
            let most = engine.opencl_device().memory_bytes();
            if bytes as u64 > most {
                return Err(Failure::invalid(format!("{bytes} bytes are more than the device's {most}")));
            }
            return Ok(Self::Library(Box::new(engine.create_memory(&desc, MemoryKind::Buffer)?)));
        }
        let mut lacking = None;
        for kind in POINTER_KINDS {
            match engine.create_memory(&desc, kind) {
                Err(error @ Error::Unsupported { .. }) => lacking = Some(error),
                memory => return Ok(Self::Library(Box::new(memory?))),
            }
        }
        Err(lacking.map_or_else(|| Lack::Pointer.failure("memory by addresses"), Failure::from))
    }
}

// SAFETY: the address is the user's, who may use it on any thread.
unsafe impl Send for Storage {}

/// So many bytes of any meaning.
pub(crate) fn byte_desc(bytes: usize) -> MemoryDesc {
    MemoryDesc::new([bytes], DataType::U8)
}
