//! Values of an execution: on the host, on the device, or both once they were copied.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use anydnn_backend::{Allocator, Backend, DataType, Dims, Engine, Memory, MemoryDesc, Result};

use super::direct::Direct;
use super::lock;
use crate::model::HostTensor;
use crate::onnx::import::{Have, may_specialise};

/// A value of an execution. It is copied between host and device at most once.
#[derive(Debug)]
pub(super) struct Slot<B: Backend> {
    pub(super) desc: MemoryDesc,
    pub(super) host: OnceLock<Arc<HostTensor>>,
    pub(super) device: OnceLock<OnDevice<B>>,
    /// Whether graphs may be made for its elements.
    is_open: AtomicBool,
}

/// Memory of the device, behind the event that fills it.
#[derive(Debug)]
pub(super) struct OnDevice<B: Backend> {
    pub(super) memory: B::Memory,
    pub(super) ready: Option<B::Event>,
    pub(super) lease: Option<Lease<B>>,
}

impl<B: Backend> Slot<B> {
    pub(super) fn of_host(tensor: Arc<HostTensor>) -> Self {
        let desc = MemoryDesc::new(tensor.dims().clone(), tensor.data_type());
        let slot = Self::to_come(desc);
        let _ = slot.host.set(tensor);
        slot
    }

    pub(super) fn of_device(device: OnDevice<B>) -> Self {
        let slot = Self::to_come(device.memory.desc().clone());
        let _ = slot.device.set(device);
        slot
    }

    /// A value that is nowhere yet.
    pub(super) fn to_come(desc: MemoryDesc) -> Self {
        Self { desc, host: OnceLock::new(), device: OnceLock::new(), is_open: AtomicBool::new(false) }
    }

    /// Lets graphs be made for the elements, which are on the host.
    pub(super) fn open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    /// Whether graphs may be made for the elements.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// The elements, where graphs may be made for them.
    pub(super) fn known(&self) -> Option<&Arc<HostTensor>> {
        let fits = self.is_open() && may_specialise(self.desc.dims(), self.desc.data_type());
        self.host.get().filter(|_| fits)
    }

    /// Whether it is one number that the host made.
    pub(super) fn is_single(&self) -> bool {
        self.is_open() && self.host.get().is_some() && self.desc.elements() == 1
    }

    pub(super) fn have(&self) -> Have {
        let (dims, data_type): (Dims, DataType) = (self.desc.dims().clone(), self.desc.data_type());
        Have { dims, data_type, tensor: self.known().cloned() }
    }
}

/// Memory that is given back behind the last command on it.
#[derive(Debug)]
pub(super) struct Lease<B: Backend> {
    owner: Owner<B>,
    memory: B::Memory,
    last: Mutex<Option<B::Event>>,
}

/// Who gets memory back.
#[derive(Debug)]
enum Owner<B: Backend> {
    Allocator(Arc<dyn Allocator<B = B>>),
    Direct(Arc<Direct<B>>),
}

impl<B: Backend> Lease<B> {
    /// Memory for a descriptor, and what gives it back.
    pub(super) fn take(engine: &B::Engine, desc: &MemoryDesc) -> Result<(B::Memory, Self)> {
        let allocator = engine.allocator();
        let memory = allocator.allocate(desc.size().max(1), crate::compile::ARENA_ALIGNMENT)?;
        let lease = Self { owner: Owner::Allocator(allocator), memory, last: Mutex::new(None) };
        Ok((lease.memory.view(desc, 0)?, lease))
    }

    /// The same of what the host touches in place; None where there is none for so many bytes.
    pub(super) fn take_direct(
        direct: &Arc<Direct<B>>,
        engine: &B::Engine,
        desc: &MemoryDesc,
    ) -> Result<Option<(B::Memory, Self)>> {
        let Some(memory) = direct.take(engine, desc)? else { return Ok(None) };
        let lease = Self { owner: Owner::Direct(Arc::clone(direct)), memory, last: Mutex::new(None) };
        Ok(Some((lease.memory.view(desc, 0)?, lease)))
    }

    /// Whether the host touches it in place.
    pub(super) fn is_direct(&self) -> bool {
        matches!(self.owner, Owner::Direct(_))
    }

    /// Notes a command that uses it, on an in-order stream.
    pub(super) fn used(&self, event: &B::Event) {
        *lock(&self.last) = Some(event.clone());
    }
}

impl<B: Backend> Drop for Lease<B> {
    fn drop(&mut self) {
        let last = lock(&self.last).take();
        match &self.owner {
            Owner::Direct(direct) => direct.park(self.memory.clone(), last),
            // Memory that cannot be given back is the engine's to report.
            Owner::Allocator(allocator) => drop(allocator.free(self.memory.clone(), last.as_ref())),
        }
    }
}
