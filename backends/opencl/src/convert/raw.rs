//! Raw handles out with a reference that the caller owns.

use anydnn_backend::{Error, Memory, Result};
use cl3::types::{cl_command_queue, cl_context, cl_device_id, cl_mem};

use crate::driver::handle;
use crate::{OpenClEngine, OpenClMemory, OpenClStream};

impl OpenClEngine {
    /// The device and the context with one reference each, which the caller owns from now on. Other owners of the engine keep theirs.
    ///
    /// ```
    /// use anydnn_opencl::OpenClEngine;
    ///
    /// for device in anydnn_opencl::devices()? {
    ///     let (device, context) = OpenClEngine::on_device(&device)?.into_raw()?;
    ///     // SAFETY: both are live and owned here, and released once.
    ///     let engine = unsafe { OpenClEngine::from_raw(device, context) }?;
    ///     unsafe {
    ///         cl3::context::release_context(context).unwrap();
    ///         cl3::device::release_device(device).unwrap();
    ///     }
    ///     assert_eq!(engine.raw_context(), context, "the engine has references of its own");
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// The engine is given up:
    ///
    /// ```compile_fail,E0382
    /// # fn example(engine: anydnn_opencl::OpenClEngine) -> anydnn_backend::Result<()> {
    /// let (device, context) = engine.into_raw()?;
    /// let device = engine.raw_device();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A device error. Nothing is retained then.
    pub fn into_raw(self) -> Result<(cl_device_id, cl_context)> {
        // SAFETY: the engine keeps its device alive.
        let device = unsafe { handle::Device::from_borrowed(self.raw_device()) }?;
        let context = self.counted_context()?;
        Ok((device.into_raw(), context))
    }

    /// The context with one more reference, which the caller owns.
    pub(crate) fn counted_context(&self) -> Result<cl_context> {
        // SAFETY: the engine keeps its context alive.
        Ok(unsafe { handle::Context::from_borrowed(self.raw_context()) }?.into_raw())
    }
}

impl OpenClStream {
    /// The queue with one reference, which the caller owns from now on. Other owners of the stream keep theirs.
    ///
    /// ```
    /// use anydnn_backend::{Engine, StreamDesc};
    /// use anydnn_opencl::OpenClEngine;
    ///
    /// for device in anydnn_opencl::devices()? {
    ///     let engine = OpenClEngine::on_device(&device)?;
    ///     let queue = engine.create_stream(&StreamDesc::default())?.into_raw()?;
    ///     cl3::command_queue::finish(queue).unwrap();
    ///     // SAFETY: the reference is owned here and given up once.
    ///     unsafe { cl3::command_queue::release_command_queue(queue) }.unwrap();
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// The stream is given up:
    ///
    /// ```compile_fail,E0382
    /// # fn example(stream: anydnn_opencl::OpenClStream) -> anydnn_backend::Result<()> {
    /// let queue = stream.into_raw()?;
    /// anydnn_backend::Stream::wait(&stream)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A device error. Nothing is retained then.
    pub fn into_raw(self) -> Result<cl_command_queue> {
        // SAFETY: the stream keeps its queue alive.
        Ok(unsafe { handle::Queue::from_borrowed(self.raw_queue()) }?.into_raw())
    }
}

impl OpenClMemory {
    /// The buffer object with one reference, which the caller owns from now on. Other owners of the memory keep theirs.
    ///
    /// A view hands out the whole buffer object: its bytes start [`OpenClMemory::offset`] bytes into it.
    ///
    /// ```
    /// use anydnn_backend::{DataType, Engine, MemoryDesc, MemoryKind};
    /// use anydnn_opencl::OpenClEngine;
    ///
    /// let desc = MemoryDesc::new([4], DataType::F32);
    /// for device in anydnn_opencl::devices()? {
    ///     let engine = OpenClEngine::on_device(&device)?;
    ///     let buffer = engine.create_memory(&desc, MemoryKind::Buffer)?.into_raw()?;
    ///     // SAFETY: the reference is owned here and given up once.
    ///     unsafe { cl3::memory::release_mem_object(buffer) }.unwrap();
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// The memory is given up:
    ///
    /// ```compile_fail,E0382
    /// # fn example(memory: anydnn_opencl::OpenClMemory) -> anydnn_backend::Result<()> {
    /// let buffer = memory.into_raw()?;
    /// let offset = memory.offset();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] for memory without a buffer object: of another kind, or without bytes; a device error. Nothing is retained then.
    pub fn into_raw(self) -> Result<cl_mem> {
        let buffer = self.raw_mem();
        if buffer.is_null() {
            return Err(Error::invalid(
                "hand out memory",
                "memory",
                format!("{:?} memory of {}", self.kind(), self.desc()),
                "memory in a buffer object",
            ));
        }
        // SAFETY: the memory keeps its buffer alive, and it is not null.
        Ok(unsafe { handle::Mem::from_borrowed(buffer) }?.into_raw())
    }
}
