//! Objects of the `opencl3` crate in and out.

use anydnn_backend::{MemoryDesc, Result};

use crate::{OpenClEngine, OpenClEvent, OpenClMemory, OpenClStream};

impl OpenClEngine {
    /// An engine on a device of an `opencl3` context. Retains both.
    ///
    /// # Errors
    /// As [`OpenClEngine::from_raw`].
    pub fn from_opencl3(
        device: &opencl3::device::Device,
        context: &opencl3::context::Context,
    ) -> Result<Self> {
        // SAFETY: the borrowed objects keep their handles alive.
        unsafe { Self::from_raw(device.id(), context.get()) }
    }
}

impl OpenClStream {
    /// A stream on an `opencl3` queue. Retains it once.
    ///
    /// # Errors
    /// As [`OpenClStream::from_raw`].
    pub fn from_opencl3(engine: &OpenClEngine, queue: &opencl3::command_queue::CommandQueue) -> Result<Self> {
        // SAFETY: the borrowed object keeps its handle alive.
        unsafe { Self::from_raw(engine, queue.get()) }
    }
}

impl OpenClMemory {
    /// Memory in an `opencl3` buffer. Retains it once.
    ///
    /// # Errors
    /// As [`OpenClMemory::from_raw`].
    pub fn from_opencl3<T>(
        engine: &OpenClEngine,
        desc: &MemoryDesc,
        buffer: &opencl3::memory::Buffer<T>,
    ) -> Result<Self> {
        use opencl3::memory::ClMem;
        // SAFETY: the borrowed object keeps its handle alive.
        unsafe { Self::from_raw(engine, desc, buffer.get()) }
    }
}

impl OpenClEvent {
    /// The event of an `opencl3` event. Retains it once.
    ///
    /// # Errors
    /// As [`OpenClEvent::from_raw`].
    pub fn from_opencl3(engine: &OpenClEngine, event: &opencl3::event::Event) -> Result<Self> {
        // SAFETY: the borrowed object keeps its handle alive.
        unsafe { Self::from_raw(engine, event.get()) }
    }

    /// An `opencl3` event with a reference of its own.
    ///
    /// # Errors
    /// A device error.
    pub fn to_opencl3(&self) -> Result<opencl3::event::Event> {
        self.clone().into_raw().map(opencl3::event::Event::new)
    }
}
