//! The user's own addresses: unified shared memory, shared virtual memory, and plain memory where the device takes it.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use anydnn_backend::{Error, MemoryDesc, MemoryKind, Result, validate};

use crate::backend::engine::OpenClEngine;
use crate::backend::memory::OpenClMemory;
use crate::driver::usm::Found;
use crate::memory::allocation::{Allocation, no_kind};

const OPERATION: &str = "create memory";

impl OpenClMemory {
    /// Memory at the user's address, which is never freed by it. Where the driver has unified shared memory it tells what the address
    /// is: host, device or shared, or, where the device reads any memory of the process, [system](MemoryKind::System). Elsewhere the
    /// address is taken to be of shared virtual memory. Null is allowed for a descriptor without bytes. Any alignment is right.
    ///
    /// ```
    /// use anydnn_backend::{DataType, Engine, Memory, MemoryDesc, MemoryKind};
    /// use anydnn_opencl::{OpenClEngine, OpenClMemory};
    ///
    /// for device in anydnn_opencl::devices()? {
    ///     let engine = OpenClEngine::on_device(&device)?;
    ///     if engine.capabilities().memory_kinds.contains(&MemoryKind::System) {
    ///         let mut values = vec![0_f32; 100];
    ///         let desc = MemoryDesc::new([100], DataType::F32);
    ///         // SAFETY: `values` outlives the memory, and no command uses it.
    ///         let memory = unsafe { OpenClMemory::from_pointer(&engine, &desc, values.as_mut_ptr().cast()) }?;
    ///         assert_eq!((memory.kind(), memory.raw_pointer()), (MemoryKind::System, values.as_mut_ptr().cast()));
    ///     }
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] for an open layout, a null address, an address that the device cannot read, or an allocation with too few
    /// bytes from the address on; [`Error::Unsupported`] for a device without pointer memory; a device error.
    ///
    /// # Safety
    /// - From the address on there are as many bytes as the descriptor needs; where the driver has no unified shared memory, they are
    ///   shared virtual memory of the engine's context.
    /// - They stay allocated until every clone and view of this memory is gone and every command that uses it has ended.
    /// - Nobody else touches them while a command does.
    pub unsafe fn from_pointer(
        engine: &OpenClEngine,
        desc: &MemoryDesc,
        pointer: *mut c_void,
    ) -> Result<Self> {
        validate::allocation(desc)?;
        let has_usm = engine.inner.device.usm().is_some();
        let kind = match pointer.is_null() {
            true if has_usm => MemoryKind::UsmDevice,
            true => MemoryKind::Svm,
            false => kind_at(engine, pointer, desc)?,
        };
        at_address(engine, desc, pointer, kind)
    }

    /// Memory at an address of the user's shared virtual memory of any grain, which is never freed by it. For devices that have unified
    /// shared memory as well; [`OpenClMemory::from_pointer`] does this itself where there is none.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an open layout or a null address; [`Error::Unsupported`] for a device without shared virtual memory.
    ///
    /// # Safety
    /// - As [`OpenClMemory::from_pointer`], with shared virtual memory of the engine's context.
    pub unsafe fn from_svm(engine: &OpenClEngine, desc: &MemoryDesc, pointer: *mut c_void) -> Result<Self> {
        validate::allocation(desc)?;
        at_address(engine, desc, pointer, MemoryKind::Svm)
    }
}

/// The kind of memory at an address that is not null, where the bytes for a descriptor must be.
pub(crate) fn kind_at(engine: &OpenClEngine, pointer: *mut c_void, desc: &MemoryDesc) -> Result<MemoryKind> {
    let device = &engine.inner.device;
    let Some(usm) = device.usm() else { return Ok(MemoryKind::Svm) };
    match usm.find(&engine.inner.context, pointer)? {
        Some(Found { kind, base, bytes }) => {
            let left = (base + bytes).saturating_sub(pointer.addr());
            if left < desc.size() {
                return Err(Error::invalid(
                    OPERATION,
                    "size of the allocation",
                    format!("{left} bytes from {pointer:p} on"),
                    format!("{} bytes for {desc}", desc.size()),
                ));
            }
            Ok(kind)
        }
        None if device.memory_kinds().contains(&MemoryKind::System) => Ok(MemoryKind::System),
        None => Err(Error::invalid(
            OPERATION,
            "pointer",
            format!("{pointer:p}, which the driver does not know"),
            "an address of unified shared memory of the engine's context",
        )),
    }
}

fn at_address(
    engine: &OpenClEngine,
    desc: &MemoryDesc,
    pointer: *mut c_void,
    kind: MemoryKind,
) -> Result<OpenClMemory> {
    let device = &engine.inner.device;
    if !device.memory_kinds().contains(&kind) {
        return Err(no_kind(kind));
    }
    let Some(address) = NonNull::new(pointer) else {
        if desc.size() > 0 {
            return Err(Error::invalid(OPERATION, "pointer", "null", format!("an address for {desc}")));
        }
        return Ok(OpenClMemory::unbacked(engine, kind, desc.clone()));
    };
    let allocation = Allocation::borrow(address, kind, device.usm(), desc.size());
    Ok(OpenClMemory::new(engine, Arc::new(allocation), kind, desc.clone()))
}
