//! Objects of the `ocl-core` crate in and out.
//!
//! Each function borrows what it converts, and what it returns owns a reference of its own: both sides can be dropped in any order.

use anydnn_backend::{MemoryDesc, Result};
use ocl_core::types::abs::{ClContextPtr, ClDeviceIdPtr};
use ocl_core::{CommandQueue, Context, DeviceId, Event, Mem};

use crate::{OpenClEngine, OpenClEvent, OpenClMemory, OpenClStream};

/// Lets the functions of `ocl-core` take an engine where they take a context.
// SAFETY: the context lives as long as the borrowed engine.
unsafe impl ClContextPtr for &OpenClEngine {
    fn as_ptr(&self) -> ocl_core::ffi::cl_context {
        self.raw_context()
    }
}

/// Lets the functions of `ocl-core` take an engine where they take a device.
// SAFETY: the device lives as long as the borrowed engine.
unsafe impl ClDeviceIdPtr for &OpenClEngine {
    fn as_ptr(&self) -> ocl_core::ffi::cl_device_id {
        self.raw_device()
    }
}

impl OpenClEngine {
    /// An engine on a device of an `ocl-core` context. Retains both once.
    ///
    /// ```
    /// use anydnn_opencl::OpenClEngine;
    /// use ocl_core::DeviceId;
    ///
    /// for device in anydnn_opencl::devices()? {
    ///     // SAFETY: a live device.
    ///     let device = unsafe { DeviceId::from_raw(device.raw_device()) };
    ///     let context = ocl_core::create_context(None, &[device], None, None).unwrap();
    ///     let engine = OpenClEngine::from_ocl_core(&device, &context)?;
    ///     assert_eq!(engine.raw_context(), context.as_ptr());
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// The objects of the crate `ocl` show theirs of `ocl-core` with `as_core`:
    ///
    /// ```text
    /// let pro_que = ocl::ProQue::builder().src(SOURCE).dims(1024).build()?;
    /// let buffer = pro_que.create_buffer::<f32>()?;
    /// let engine = OpenClEngine::from_ocl_core(pro_que.device().as_core(), pro_que.context().as_core())?;
    /// let stream = OpenClStream::from_ocl_core(&engine, pro_que.queue().as_core())?;
    /// let memory = OpenClMemory::from_ocl_core(&engine, &desc, buffer.as_core())?;
    /// let event = ocl::Event::from(stream.execute(&primitive, &args, &[])?.to_ocl_core()?);
    /// let next = pro_que.kernel_builder("next").arg(&buffer).build()?;
    /// unsafe { next.cmd().ewait(&event).enq()? };
    /// ```
    ///
    /// # Errors
    /// As [`OpenClEngine::from_raw`].
    pub fn from_ocl_core(device: &DeviceId, context: &Context) -> Result<Self> {
        // SAFETY: the borrowed objects keep their handles alive.
        unsafe { Self::from_raw(device.as_raw(), context.as_ptr()) }
    }

    /// The device and an `ocl-core` context with a reference of its own.
    ///
    /// An `ocl-core` device counts no references: a sub-device lives as long as an engine on it, or as the user's own reference. The
    /// functions of `ocl-core` also take `&engine` itself as context and as device.
    ///
    /// ```
    /// use anydnn_opencl::OpenClEngine;
    ///
    /// for device in anydnn_opencl::devices()? {
    ///     let engine = OpenClEngine::on_device(&device)?;
    ///     let (device, context) = engine.to_ocl_core()?;
    ///     let queue = ocl_core::create_command_queue(&engine, &engine, None).unwrap();
    ///     drop(engine);
    ///     assert_eq!(queue.context().unwrap(), context);
    ///     assert_eq!(queue.device().unwrap(), device);
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// A device error.
    pub fn to_ocl_core(&self) -> Result<(DeviceId, Context)> {
        let context = self.counted_context()?;
        // SAFETY: a live device and a live context, whose new reference is given up; neither is null.
        Ok(unsafe { (DeviceId::from_raw(self.raw_device()), Context::from_raw_create_ptr(context)) })
    }
}

impl OpenClStream {
    /// A stream on an `ocl-core` queue. Retains it once.
    ///
    /// ```
    /// use anydnn_opencl::{OpenClEngine, OpenClStream};
    ///
    /// for device in anydnn_opencl::devices()? {
    ///     let engine = OpenClEngine::on_device(&device)?;
    ///     let queue = ocl_core::create_command_queue(&engine, &engine, None).unwrap();
    ///     let stream = OpenClStream::from_ocl_core(&engine, &queue)?;
    ///     assert_eq!(stream.raw_queue(), queue.as_ptr());
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`OpenClStream::from_raw`].
    pub fn from_ocl_core(engine: &OpenClEngine, queue: &CommandQueue) -> Result<Self> {
        // SAFETY: the borrowed object keeps its handle alive.
        unsafe { Self::from_raw(engine, queue.as_ptr()) }
    }

    /// An `ocl-core` queue with a reference of its own.
    ///
    /// ```
    /// use anydnn_backend::{Engine, StreamDesc};
    /// use anydnn_opencl::OpenClEngine;
    ///
    /// for device in anydnn_opencl::devices()? {
    ///     let engine = OpenClEngine::on_device(&device)?;
    ///     let queue = engine.create_stream(&StreamDesc::default())?.to_ocl_core()?;
    ///     ocl_core::finish(&queue).unwrap();
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// A device error.
    pub fn to_ocl_core(&self) -> Result<CommandQueue> {
        let queue = self.clone().into_raw()?;
        // SAFETY: a live queue, not null, whose new reference is given up.
        Ok(unsafe { CommandQueue::from_raw_create_ptr(queue) })
    }
}

impl OpenClMemory {
    /// Memory in an `ocl-core` buffer. Retains it once.
    ///
    /// ```
    /// use anydnn_backend::{DataType, MemoryDesc};
    /// use anydnn_opencl::{OpenClEngine, OpenClMemory};
    ///
    /// let desc = MemoryDesc::new([16], DataType::F32);
    /// for device in anydnn_opencl::devices()? {
    ///     let engine = OpenClEngine::on_device(&device)?;
    ///     // SAFETY: no host memory is given.
    ///     let buffer =
    ///         unsafe { ocl_core::create_buffer::<_, f32>(&engine, ocl_core::MEM_READ_WRITE, 16, None) }.unwrap();
    ///     let memory = OpenClMemory::from_ocl_core(&engine, &desc, &buffer)?;
    ///     assert_eq!(memory.raw_mem(), buffer.as_ptr());
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`OpenClMemory::from_raw`].
    pub fn from_ocl_core(engine: &OpenClEngine, desc: &MemoryDesc, buffer: &Mem) -> Result<Self> {
        // SAFETY: the borrowed object keeps its handle alive.
        unsafe { Self::from_raw(engine, desc, buffer.as_ptr()) }
    }

    /// An `ocl-core` memory object with a reference of its own.
    ///
    /// A view gives the whole buffer: its bytes start [`OpenClMemory::offset`] bytes into it.
    ///
    /// ```
    /// use anydnn_backend::{DataType, Engine, MemoryDesc, MemoryKind};
    /// use anydnn_opencl::OpenClEngine;
    ///
    /// let desc = MemoryDesc::new([16], DataType::F32);
    /// for device in anydnn_opencl::devices()? {
    ///     let engine = OpenClEngine::on_device(&device)?;
    ///     let memory = engine.create_memory(&desc, MemoryKind::Buffer)?;
    ///     assert_eq!(memory.to_ocl_core()?.as_ptr(), memory.raw_mem());
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`OpenClMemory::into_raw`].
    pub fn to_ocl_core(&self) -> Result<Mem> {
        let buffer = self.clone().into_raw()?;
        // SAFETY: a live buffer, not null, whose new reference is given up.
        Ok(unsafe { Mem::from_raw_create_ptr(buffer) })
    }
}

impl OpenClEvent {
    /// The event of an `ocl-core` event. Retains it once.
    ///
    /// ```
    /// use anydnn_backend::{Engine, Stream, StreamDesc};
    /// use anydnn_opencl::{OpenClEngine, OpenClEvent};
    ///
    /// for device in anydnn_opencl::devices()? {
    ///     let engine = OpenClEngine::on_device(&device)?;
    ///     let theirs = ocl_core::create_user_event(&engine).unwrap();
    ///     let event = OpenClEvent::from_ocl_core(&engine, &theirs)?;
    ///     let marker = engine.create_stream(&StreamDesc::default())?.marker(&[event])?;
    ///     theirs.set_complete().unwrap();
    ///     anydnn_backend::Event::wait(&marker)?;
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`OpenClEvent::from_raw`]; [`Event::null`] is a null handle.
    pub fn from_ocl_core(engine: &OpenClEngine, event: &Event) -> Result<Self> {
        // SAFETY: the borrowed object keeps its handle alive, or holds none.
        unsafe { Self::from_raw(engine, *event.as_ptr_ref()) }
    }

    /// An `ocl-core` event with a reference of its own.
    ///
    /// ```
    /// use anydnn_backend::{Engine, Stream, StreamDesc};
    /// use anydnn_opencl::OpenClEngine;
    ///
    /// for device in anydnn_opencl::devices()? {
    ///     let engine = OpenClEngine::on_device(&device)?;
    ///     let stream = engine.create_stream(&StreamDesc::default())?;
    ///     let event = stream.marker(&[])?.to_ocl_core()?;
    ///     event.wait_for().unwrap();
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// A device error.
    pub fn to_ocl_core(&self) -> Result<Event> {
        let event = self.clone().into_raw()?;
        // SAFETY: a live event, not null, whose new reference is given up.
        Ok(unsafe { Event::from_raw_create_ptr(event) })
    }
}
