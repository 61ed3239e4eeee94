//! The bytes behind one handle of a memory.

use std::ffi::c_void;
use std::ptr;

use anydnn::select::{AnyEngine, AnyMemory};
use anydnn_backend::{DataType, Engine, Error, Memory, MemoryDesc, MemoryKind, Result};
use anydnn_host::{HostEngine, HostMemory};
use anydnn_opencl::{OpenClBuffer, OpenClEngine, OpenClMemory};

use crate::boundary::{Failure, Outcome};
use crate::engine::{EngineObject, opencl};
use crate::object_types::{
    DNNL_MEMORY_ALLOCATE, dnnl_ocl_interop_buffer, dnnl_ocl_interop_memory_kind_t, dnnl_ocl_interop_usm,
};
use crate::refusals::Lack;

/// What the handles of a memory are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandleKind {
    /// Addresses of a device.
    Usm,
    /// Buffer objects.
    Buffer,
    /// Addresses of the host.
    Host,
}

/// The bytes behind one handle. Those of the user are looked at when they are used, not before.
#[derive(Debug)]
pub(crate) enum Storage {
    /// None.
    Nothing,
    /// The library's.
    Library(Box<AnyMemory>),
    /// The user's buffer object, with one reference.
    Buffer(OpenClBuffer),
    /// The user's address, of a device.
    Usm(*mut c_void),
    /// The user's address, of the host.
    Host(*mut c_void),
}

/// Addresses of the device's own memory first.
const POINTER_KINDS: [MemoryKind; 5] =
    [MemoryKind::UsmDevice, MemoryKind::UsmShared, MemoryKind::Svm, MemoryKind::SvmFine, MemoryKind::System];

impl HandleKind {
    /// The kind of that number on an engine of a device: anything but the one for addresses is the other.
    pub(crate) fn new(engine: &EngineObject, kind: dnnl_ocl_interop_memory_kind_t) -> Outcome<Self> {
        engine.opencl()?;
        Ok(if kind == dnnl_ocl_interop_usm { Self::Usm } else { Self::Buffer })
    }

    /// The kind on an engine where none is told.
    pub(crate) fn of(engine: &EngineObject) -> Self {
        if engine.opencl().is_ok() { Self::Buffer } else { Self::Host }
    }

    /// The kind of addresses on an engine.
    pub(crate) fn of_addresses(engine: &EngineObject) -> Self {
        if engine.opencl().is_ok() { Self::Usm } else { Self::Host }
    }

    /// The kind's number.
    pub(crate) fn value(self) -> Outcome<dnnl_ocl_interop_memory_kind_t> {
        match self {
            Self::Usm => Ok(dnnl_ocl_interop_usm),
            Self::Buffer => Ok(dnnl_ocl_interop_buffer),
            Self::Host => Err(Failure::invalid("the memory is the host's, expected a device's")),
        }
    }
}

impl Storage {
    /// What a handle stands for when memory is made: none, an order to allocate, or the user's bytes.
    ///
    /// # Safety
    /// `handle` is special, or a buffer object that lives, or an address, as `kind` says.
    pub(crate) unsafe fn create(
        engine: &AnyEngine,
        kind: HandleKind,
        handle: *mut c_void,
        bytes: usize,
    ) -> Outcome<Self> {
        if handle == DNNL_MEMORY_ALLOCATE {
            return Self::allocate(engine, kind, bytes);
        }
        // SAFETY: by contract.
        let storage = unsafe { Self::user(kind, handle) }?;
        if let Self::Usm(address) = storage {
            // SAFETY: a descriptor without bytes; the driver is asked about the address, which is not read.
            unsafe { OpenClMemory::from_pointer(opencl(engine)?, &byte_desc(0), address) }?;
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
            HandleKind::Usm => Self::Usm(handle),
            HandleKind::Host => Self::Host(handle),
            // SAFETY: a buffer object that lives, by contract.
            HandleKind::Buffer => Self::Buffer(unsafe { OpenClBuffer::from_raw(handle) }?),
        })
    }

    /// The handle as it was given, or of what the library allocated.
    pub(crate) fn handle(&self) -> *mut c_void {
        match self {
            Self::Nothing => ptr::null_mut(),
            Self::Library(memory) => match (memory.as_host(), memory.as_opencl()) {
                (Some(memory), _) => memory.raw_pointer(),
                (_, Some(memory)) if memory.kind() == MemoryKind::Buffer => memory.raw_mem(),
                (_, Some(memory)) => memory.raw_pointer(),
                (None, None) => ptr::null_mut(),
            },
            Self::Buffer(buffer) => buffer.raw_mem(),
            Self::Usm(address) | Self::Host(address) => *address,
        }
    }

    /// The bytes as memory of an engine, which may be another one with the same memory. The user's buffer object has as many bytes as it
    /// has; an address has as many as `bytes` gives.
    ///
    /// # Safety
    /// The user's bytes live until the commands that use the memory have ended.
    pub(crate) unsafe fn memory(
        &self,
        engine: &AnyEngine,
        bytes: impl FnOnce() -> usize,
    ) -> Result<AnyMemory> {
        if let Self::Library(memory) = self
            && memory.engine_id() == engine.id()
        {
            return Ok(AnyMemory::clone(memory));
        }
        let desc = byte_desc(bytes());
        // SAFETY: by contract.
        unsafe {
            match engine.as_host() {
                Some(engine) => Ok(self.on_host(engine, &desc)?.into()),
                None => Ok(self.on_device(opencl(engine)?, &desc)?.into()),
            }
        }
    }

    /// # Safety
    /// As for [`Storage::memory`].
    unsafe fn on_host(&self, engine: &HostEngine, desc: &MemoryDesc) -> Result<HostMemory> {
        match self {
            Self::Nothing => engine.create_unbacked_memory(desc, MemoryKind::System),
            // SAFETY: by contract; what the library allocated has at least as many bytes as were asked for.
            Self::Host(address) => unsafe { HostMemory::from_pointer(engine, desc, *address) },
            Self::Library(memory) if memory.as_host().is_some() => {
                // SAFETY: the memory has as many bytes as it says.
                unsafe { HostMemory::from_pointer(engine, &byte_desc(memory.region().bytes), self.handle()) }
            }
            Self::Library(_) | Self::Buffer(_) | Self::Usm(_) => {
                Err(Error::mismatch("execute", "memory of a device", "memory of the host"))
            }
        }
    }

    /// # Safety
    /// As for [`Storage::memory`].
    unsafe fn on_device(&self, engine: &OpenClEngine, desc: &MemoryDesc) -> Result<OpenClMemory> {
        let of_host =
            || Err(Error::mismatch("execute", "memory of the host", "memory of the stream's context"));
        match self {
            Self::Nothing => engine.create_unbacked_memory(desc, MemoryKind::Buffer),
            Self::Library(memory) => {
                let Some(memory) = memory.as_opencl() else { return of_host() };
                if memory.kind() == MemoryKind::Buffer {
                    // SAFETY: this holds a reference.
                    return unsafe { OpenClMemory::from_raw(engine, desc, memory.raw_mem()) };
                }
                if memory.engine().raw_context() != engine.raw_context() {
                    return Err(Error::mismatch(
                        "execute",
                        "memory of another context",
                        "the stream's context",
                    ));
                }
                // SAFETY: by contract.
                unsafe { OpenClMemory::from_pointer(engine, desc, memory.raw_pointer()) }
            }
            Self::Buffer(buffer) => buffer.memory(engine),
            // SAFETY: by contract.
            Self::Usm(address) => unsafe { OpenClMemory::from_pointer(engine, desc, *address) },
            Self::Host(_) => of_host(),
        }
    }

    fn allocate(engine: &AnyEngine, kind: HandleKind, bytes: usize) -> Outcome<Self> {
        let desc = byte_desc(bytes);
        let library = |memory: Result<AnyMemory>| Ok(Self::Library(Box::new(memory?)));
        match kind {
            HandleKind::Host => library(engine.create_memory(&desc, MemoryKind::System)),
            HandleKind::Buffer => {
                let most = opencl(engine)?.opencl_device().memory_bytes();
                if bytes as u64 > most {
                    return Err(Failure::invalid(format!("{bytes} bytes are more than the device's {most}")));
                }
                library(engine.create_memory(&desc, MemoryKind::Buffer))
            }
            HandleKind::Usm => {
                let mut lacking = None;
                for kind in POINTER_KINDS {
                    match engine.create_memory(&desc, kind) {
                        Err(error @ Error::Unsupported { .. }) => lacking = Some(error),
                        memory => return library(memory),
                    }
                }
                Err(lacking.map_or_else(|| Lack::Pointer.failure("memory by addresses"), Failure::from))
            }
        }
    }
}

// SAFETY: the address is the user's, who may use it on any thread.
unsafe impl Send for Storage {}

/// So many bytes of any meaning.
pub(crate) fn byte_desc(bytes: usize) -> MemoryDesc {
    MemoryDesc::new([bytes], DataType::U8)
}
