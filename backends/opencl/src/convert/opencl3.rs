//! Objects of the `opencl3` crate in and out.
//!
//! Each function borrows what it converts, and what it returns owns a reference of its own: both sides can be dropped in any order.

use anydnn_backend::{Error, MemoryDesc, Result};
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::Device;
use opencl3::event::Event;
use opencl3::memory::{Buffer, ClMem};
use opencl3::svm::SvmVec;

use crate::{OpenClEngine, OpenClEvent, OpenClMemory, OpenClStream, driver::call};

impl OpenClEngine {
    /// An engine on a device of an `opencl3` context. Retains both once.
    ///
    /// ```
    /// use anydnn_opencl::OpenClEngine;
    /// use opencl3::context::Context;
    /// use opencl3::device::Device;
    ///
    /// for device in anydnn_opencl::devices()? {
    ///     let device = Device::new(device.raw_device());
    ///     let context = Context::from_device(&device).unwrap();
    ///     let engine = OpenClEngine::from_opencl3(&device, &context)?;
    ///     assert_eq!(engine.raw_context(), context.get());
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`OpenClEngine::from_raw`].
    pub fn from_opencl3(device: &Device, context: &Context) -> Result<Self> {
        // SAFETY: the borrowed objects keep their handles alive.
        unsafe { Self::from_raw(device.id(), context.get()) }
    }

    /// The device and an `opencl3` context with a reference of its own, which lists that device.
    ///
    /// An `opencl3` device counts no references: a sub-device lives as long as an engine on it, or as the user's own reference.
    ///
    /// ```
    /// use anydnn_opencl::OpenClEngine;
    ///
    /// for device in anydnn_opencl::devices()? {
    ///     let engine = OpenClEngine::on_device(&device)?;
    ///     let (device, context) = engine.to_opencl3()?;
    ///     drop(engine);
    ///     assert_eq!(context.default_device(), device.id());
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// A device error.
    pub fn to_opencl3(&self) -> Result<(Device, Context)> {
        let device = self.raw_device();
        let context = self.counted_context()?;
        Ok((Device::new(device), Context::new(context, &[device])))
    }
}

impl OpenClStream {
    /// A stream on an `opencl3` queue. Retains it once.
    ///
    /// ```
    /// use anydnn_opencl::{OpenClEngine, OpenClStream};
    /// use opencl3::command_queue::CommandQueue;
    ///
    /// for device in anydnn_opencl::devices()? {
    ///     let engine = OpenClEngine::on_device(&device)?;
    ///     let (device, context) = engine.to_opencl3()?;
    ///     // SAFETY: the device is the context's.
    ///     let queue = unsafe { CommandQueue::create_with_properties(&context, device.id(), 0, 0) }.unwrap();
    ///     let stream = OpenClStream::from_opencl3(&engine, &queue)?;
    ///     assert_eq!(stream.raw_queue(), queue.get());
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`OpenClStream::from_raw`].
    pub fn from_opencl3(engine: &OpenClEngine, queue: &CommandQueue) -> Result<Self> {
        // SAFETY: the borrowed object keeps its handle alive.
        unsafe { Self::from_raw(engine, queue.get()) }
    }

    /// An `opencl3` queue with a reference of its own.
    ///
    /// ```
    /// use anydnn_backend::{Engine, StreamDesc};
    /// use anydnn_opencl::OpenClEngine;
    ///
    /// for device in anydnn_opencl::devices()? {
    ///     let engine = OpenClEngine::on_device(&device)?;
    ///     let queue = engine.create_stream(&StreamDesc::default())?.to_opencl3()?;
    ///     queue.finish().unwrap();
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// A device error.
    pub fn to_opencl3(&self) -> Result<CommandQueue> {
        let device = self.engine().raw_device();
        let dimensions = call::device_value(device, opencl3::device::CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS)?;
        Ok(CommandQueue::new(self.clone().into_raw()?, dimensions))
    }
}

impl OpenClMemory {
    /// Memory in an `opencl3` buffer. Retains it once.
    ///
    /// ```
    /// use anydnn_backend::{DataType, MemoryDesc};
    /// use anydnn_opencl::{OpenClEngine, OpenClMemory};
    /// use opencl3::memory::{Buffer, CL_MEM_READ_WRITE, ClMem};
    ///
    /// let desc = MemoryDesc::new([16], DataType::F32);
    /// for device in anydnn_opencl::devices()? {
    ///     let engine = OpenClEngine::on_device(&device)?;
    ///     let (_, context) = engine.to_opencl3()?;
    ///     // SAFETY: no host pointer is given.
    ///     let buffer =
    ///         unsafe { Buffer::<f32>::create(&context, CL_MEM_READ_WRITE, 16, std::ptr::null_mut()) }.unwrap();
    ///     let memory = OpenClMemory::from_opencl3(&engine, &desc, &buffer)?;
    ///     assert_eq!(memory.raw_mem(), buffer.get());
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`OpenClMemory::from_raw`].
    pub fn from_opencl3<T>(engine: &OpenClEngine, desc: &MemoryDesc, buffer: &Buffer<T>) -> Result<Self> {
        // SAFETY: the borrowed object keeps its handle alive.
        unsafe { Self::from_raw(engine, desc, buffer.get()) }
    }

    /// Memory in an `opencl3` vector of shared virtual memory, which goes on owning it: there are no references to count.
    ///
    /// ```
    /// use anydnn_backend::{DataType, Engine, MemoryDesc, Stream, StreamDesc};
    /// use anydnn_opencl::{OpenClEngine, OpenClMemory};
    /// use opencl3::svm::SvmVec;
    ///
    /// let desc = MemoryDesc::new([16], DataType::F32);
    /// for device in anydnn_opencl::devices()? {
    ///     let engine = OpenClEngine::on_device(&device)?;
    ///     let (_, context) = engine.to_opencl3()?;
    ///     if context.get_svm_mem_capability() == 0 {
    ///         continue;
    ///     }
    ///     let mut vector = SvmVec::<f32>::allocate(&context, 16).unwrap();
    ///     // SAFETY: `vector` outlives the memory and its commands, which are waited for, and is left alone meanwhile.
    ///     let memory = unsafe { OpenClMemory::from_opencl3_svm(&engine, &desc, &mut vector) }?;
    ///     let stream = engine.create_stream(&StreamDesc::default())?;
    ///     stream.write(&memory, 0, &[0; 64], &[])?;
    ///     stream.wait()?;
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] for a vector whose length is too short; as [`OpenClMemory::from_svm`].
    ///
    /// # Safety
    /// - The vector's context is the engine's.
    /// - The vector is neither dropped nor grown until every clone and view of this memory is gone and every command that uses it has
    ///   ended.
    /// - Nobody else touches its elements while a command does; if it is of coarse grain, the host does only while they are mapped.
    pub unsafe fn from_opencl3_svm<T>(
        engine: &OpenClEngine,
        desc: &MemoryDesc,
        vector: &mut SvmVec<'_, T>,
    ) -> Result<Self> {
        let bytes = size_of_val(&**vector);
        if bytes < desc.size() {
            return Err(Error::invalid(
                "create memory",
                "size of the vector",
                format!("{bytes} bytes"),
                format!("{} bytes for {desc}", desc.size()),
            ));
        }
        // SAFETY: the length was checked; the rest is the caller's promise.
        unsafe { Self::from_svm(engine, desc, vector.as_mut_ptr().cast()) }
    }

    /// An `opencl3` buffer with a reference of its own.
    ///
    /// A view gives the whole buffer: its bytes start [`OpenClMemory::offset`] bytes into it.
    ///
    /// ```
    /// use anydnn_backend::{DataType, Engine, MemoryDesc, MemoryKind};
    /// use anydnn_opencl::OpenClEngine;
    /// use opencl3::memory::ClMem;
    ///
    /// let desc = MemoryDesc::new([16], DataType::F32);
    /// for device in anydnn_opencl::devices()? {
    ///     let engine = OpenClEngine::on_device(&device)?;
    ///     let buffer = engine.create_memory(&desc, MemoryKind::Buffer)?.to_opencl3::<f32>()?;
    ///     assert!(buffer.size().unwrap() >= 64);
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`OpenClMemory::into_raw`].
    pub fn to_opencl3<T>(&self) -> Result<Buffer<T>> {
        self.clone().into_raw().map(Buffer::new)
    }
}

impl OpenClEvent {
    /// The event of an `opencl3` event. Retains it once.
    ///
    /// ```
    /// use anydnn_backend::{Engine, Stream, StreamDesc};
    /// use anydnn_opencl::{OpenClEngine, OpenClEvent};
    ///
    /// for device in anydnn_opencl::devices()? {
    ///     let engine = OpenClEngine::on_device(&device)?;
    ///     let stream = engine.create_stream(&StreamDesc::out_of_order())?;
    ///     // SAFETY: the queue is live and there is no wait list.
    ///     let theirs = unsafe { stream.to_opencl3()?.enqueue_marker_with_wait_list(&[]) }.unwrap();
    ///     let event = OpenClEvent::from_opencl3(&engine, &theirs)?;
    ///     stream.marker(&[event])?;
    ///     stream.wait()?;
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`OpenClEvent::from_raw`].
    pub fn from_opencl3(engine: &OpenClEngine, event: &Event) -> Result<Self> {
        // SAFETY: the borrowed object keeps its handle alive.
        unsafe { Self::from_raw(engine, event.get()) }
    }

    /// An `opencl3` event with a reference of its own.
    ///
    /// ```
    /// use anydnn_backend::{Engine, Stream, StreamDesc};
    /// use anydnn_opencl::OpenClEngine;
    ///
    /// for device in anydnn_opencl::devices()? {
    ///     let engine = OpenClEngine::on_device(&device)?;
    ///     let stream = engine.create_stream(&StreamDesc::default())?;
    ///     let event = stream.marker(&[])?.to_opencl3()?;
    ///     event.wait().unwrap();
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// A device error.
    pub fn to_opencl3(&self) -> Result<Event> {
        self.clone().into_raw().map(Event::new)
    }
}
