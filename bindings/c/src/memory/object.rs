//! What is behind a memory's handle.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anydnn::select::{AnyEngine, AnyMemory};
use anydnn_backend::{MapMode, Mapping, Memory, MemoryKind};

use super::storage::{HandleKind, Storage};
use crate::boundary::{Failure, Outcome};
use crate::desc::Md;
use crate::engine::EngineRef;
use crate::handle::{Embedded, Handle};
use crate::object_types::dnnl_memory;
use crate::types::{dnnl_memory_desc, dnnl_runtime_error};

/// A descriptor with its bytes.
pub(crate) struct MemoryObject {
    desc: Embedded<dnnl_memory_desc>,
    state: Mutex<State>,
}

enum State {
    /// On a device.
    Device(Device),
    /// One value on the host, at a place that C may know.
    HostScalar(Box<UnsafeCell<[u8; 8]>>),
}

/// The fields are dropped in this order: mappings end before their bytes.
struct Device {
    mappings: Vec<Mapped>,
    /// One for each handle.
    storages: Vec<Storage>,
    kind: HandleKind,
    engine: EngineRef,
}

/// Bytes that C sees.
struct Mapped {
    index: usize,
    address: usize,
    mapping: Box<dyn Mapping>,
}

impl Handle for dnnl_memory {
    type Value = MemoryObject;
    const TAG: u64 = u64::from_le_bytes(*b"any-memo");
    const NAME: &'static str = "memory";
}

impl MemoryObject {
    /// Memory on a device, with as many handles as the descriptor has.
    ///
    /// # Safety
    /// As for [`Storage::create`].
    pub(crate) unsafe fn on_device(
        desc: &Md,
        engine: EngineRef,
        kind: HandleKind,
        handles: &[*mut c_void],
    ) -> Outcome<Self> {
        let mut storages = Vec::with_capacity(handles.len());
        for (index, &handle) in handles.iter().enumerate() {
            // SAFETY: by contract.
            storages.push(unsafe {
                Storage::create(&engine.value().engine, kind, handle, desc.footprint(index))
            }?);
        }
        let device = Device { mappings: Vec::new(), storages, kind, engine };
        Ok(Self { desc: Embedded::new(desc.clone()), state: Mutex::new(State::Device(device)) })
    }

    /// A value on the host.
    pub(crate) fn host_scalar(desc: &Md, value: [u8; 8]) -> Self {
        let state = State::HostScalar(Box::new(UnsafeCell::new(value)));
        Self { desc: Embedded::new(desc.clone()), state: Mutex::new(state) }
    }

    /// The descriptor's handle.
    pub(crate) fn desc_handle(&self) -> *const dnnl_memory_desc {
        self.desc.as_ptr()
    }

    /// The descriptor.
    pub(crate) fn desc(&self) -> &Md {
        self.desc.value()
    }

    /// The engine; none for a value on the host.
    pub(crate) fn engine(&self) -> Option<EngineRef> {
        match &*self.lock() {
            State::Device(device) => Some(device.engine.clone()),
            State::HostScalar(_) => None,
        }
    }

    /// What the handles are.
    pub(crate) fn kind(&self) -> Outcome<HandleKind> {
        self.on(|device| Ok(device.kind))
    }

    /// A handle.
    pub(crate) fn handle(&self, index: c_int) -> Outcome<*mut c_void> {
        self.on(|device| Ok(device.storages[position(device, index)?].handle()))
    }

    /// Another handle.
    ///
    /// # Safety
    /// As for [`Storage::create`].
    pub(crate) unsafe fn set_handle(&self, index: c_int, handle: *mut c_void) -> Outcome {
        self.on(|device| {
            let index = position(device, index)?;
            if device.storages[index].handle() != handle {
                // SAFETY: by contract.
                device.storages[index] = unsafe { Storage::user(device.kind, handle) }?;
            }
            Ok(())
        })
    }

    /// The bytes of a handle for an execution on an engine.
    ///
    /// # Safety
    /// As for [`Storage::memory`].
    pub(crate) unsafe fn bind(&self, engine: &AnyEngine, part: usize) -> Outcome<AnyMemory> {
        self.on(|device| {
            let storage = device.storages.get(part).ok_or_else(|| {
                Failure::invalid(format!(
                    "the memory has {} handles, {} are needed",
                    device.storages.len(),
                    part + 1
                ))
            })?;
            // SAFETY: by contract.
            Ok(unsafe { storage.memory(engine, || self.desc.value().footprint(part)) }?)
        })
    }

    /// The value on the host.
    pub(crate) fn scalar(&self) -> Outcome<[u8; 8]> {
        match &*self.lock() {
            // SAFETY: nothing in the library writes while the lock is held.
            State::HostScalar(value) => Ok(unsafe { *value.get() }),
            State::Device(_) => Err(Failure::invalid("the memory is no host scalar")),
        }
    }

    /// Another value on the host.
    pub(crate) fn set_scalar(&self, new: [u8; 8]) -> Outcome {
        match &*self.lock() {
            State::HostScalar(value) => {
                // SAFETY: nothing else in the library reads or writes while the lock is held.
                unsafe { *value.get() = new };
                Ok(())
            }
            State::Device(_) => Err(Failure::invalid("the memory is no host scalar")),
        }
    }

    /// The size in bytes of a value on the host.
    pub(crate) fn scalar_bytes(&self) -> usize {
        self.desc.value().data_type.map_or(0, |code| code.bits().div_ceil(8)).min(8)
    }

    /// Maps the bytes of a handle to the host; null where there are none.
    ///
    /// # Safety
    /// The bytes live until they are unmapped.
    pub(crate) unsafe fn map(&self, index: c_int) -> Outcome<*mut c_void> {
        let mut state = self.lock();
        let device = match &mut *state {
            State::HostScalar(value) => return Ok(value.get().cast()),
            State::Device(device) => device,
        };
        let index = position(device, index)?;
        let desc = self.desc.value();
        if desc.is_runtime() {
            return Err(Failure::invalid("the descriptor has dimensions or strides that are not known yet"));
        }
        let bytes = desc.footprint(index);
        let storage = &device.storages[index];
        if bytes == 0 || matches!(storage, Storage::Nothing) {
            return Ok(ptr::null_mut());
        }
        if device.kind == HandleKind::Host {
            return Ok(storage.handle());
        }
        let mode = match storage {
            Storage::Buffer(buffer) => buffer.map_mode()?,
            _ => MapMode::ReadWrite,
        };
        // SAFETY: by contract.
        let memory = unsafe { storage.memory(&device.engine.value().engine, || bytes) }?;
        if memory.region().bytes < bytes {
            let given = memory.region().bytes;
            return Err(Failure::invalid(format!("the buffer object has {given} bytes, expected {bytes}")));
        }
        let mut mapping = memory.map(mode)?;
        let address: *mut c_void = match mode {
            MapMode::Read => mapping.bytes().as_ptr().cast_mut().cast(),
            MapMode::Write | MapMode::ReadWrite => mapping.bytes_mut().as_mut_ptr().cast(),
        };
        device.mappings.push(Mapped { index, address: address.addr(), mapping });
        Ok(address)
    }

    /// Ends a mapping; null is none.
    pub(crate) fn unmap(&self, index: c_int, address: *mut c_void) -> Outcome {
        let mut state = self.lock();
        let State::Device(device) = &mut *state else { return Ok(()) };
        let index = position(device, index)?;
        if address.is_null() {
            return Ok(());
        }
        let found = device.mappings.iter().rposition(|m| m.index == index && m.address == address.addr());
        if let Some(found) = found {
            return Ok(device.mappings.remove(found).mapping.unmap()?);
        }
        let message = format!("{address:p} is no mapping of the memory");
        match device.kind {
            HandleKind::Buffer => Err(Failure::invalid(message)),
            HandleKind::Host => Ok(()),
            HandleKind::Usm if is_open_to_the_host(device, index) => Ok(()),
            HandleKind::Usm => Err(Failure::Status(dnnl_runtime_error, message)),
        }
    }

    fn on<T>(&self, body: impl FnOnce(&mut Device) -> Outcome<T>) -> Outcome<T> {
        match &mut *self.lock() {
            State::Device(device) => body(device),
            State::HostScalar(_) => Err(Failure::invalid("the memory is a value on the host")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn position(device: &Device, index: c_int) -> Outcome<usize> {
    usize::try_from(index).ok().filter(|&index| index < device.storages.len()).ok_or_else(|| {
        Failure::invalid(format!("there is no handle {index}: {} are there", device.storages.len()))
    })
}

/// Whether mapping and unmapping do nothing.
fn is_open_to_the_host(device: &Device, index: usize) -> bool {
    // SAFETY: the memory is looked at only.
    let memory = unsafe { device.storages[index].memory(&device.engine.value().engine, || 0) };
    memory.is_ok_and(|memory| {
        matches!(
            memory.kind(),
            MemoryKind::UsmHost | MemoryKind::UsmShared | MemoryKind::SvmFine | MemoryKind::System
        )
    })
}
