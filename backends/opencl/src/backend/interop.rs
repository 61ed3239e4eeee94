//! Raw OpenCL handles in and out.
//!
//! In: every `from_raw` adds one reference of its own, so the caller goes on owning its own. Out: `raw_*` lends a handle that lives as
//! long as the object; `into_raw` gives one reference away.

use std::ffi::c_void;
use std::fmt::Pointer;
use std::sync::{Arc, Weak};

use anydnn_backend::{Error, MemoryDesc, MemoryKind, Order, Result, StreamDesc, validate};
use cl3::command_queue::{
    CL_QUEUE_CONTEXT, CL_QUEUE_DEVICE, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PROFILING_ENABLE,
    CL_QUEUE_PROPERTIES, get_command_queue_data,
};
use cl3::memory as mem;
use cl3::types::{cl_command_queue, cl_context, cl_device_id, cl_event, cl_mem};

use crate::backend::engine::OpenClEngine;
use crate::backend::event::OpenClEvent;
use crate::backend::memory::OpenClMemory;
use crate::backend::stream::{Inner, OpenClStream, Owner};
use crate::cache::CacheOutcome;
use crate::driver::call::{self, Check, Scalar};
use crate::driver::create::create_queue;
use crate::driver::handle;
use crate::driver::platform::OpenClDevice;
use crate::memory::allocation::Allocation;
use crate::queue::fate::{Fate, Origin};

impl OpenClEngine {
    /// An engine on a device of the user's context. Retains both.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a null handle, or when the device is not one of the context's; a device error.
    ///
    /// # Safety
    /// - `device` is a live device, or null.
    /// - `context` is a live context, or null.
    pub unsafe fn from_raw(device: cl_device_id, context: cl_context) -> Result<Self> {
        const OPERATION: &str = "create engine";
        // SAFETY: live or null by contract.
        let handle = unsafe { handle::Context::from_borrowed(context) }?;
        // SAFETY: live or null by contract.
        let described = unsafe { OpenClDevice::from_raw(device) }?;
        let devices = cl3::context::get_context_data(context, cl3::context::CL_CONTEXT_DEVICES)
            .check(OPERATION, "clGetContextInfo")?;
        let devices: Vec<cl_device_id> =
            devices.chunks_exact(size_of::<cl_device_id>()).filter_map(Scalar::from_bytes).collect();
        if !devices.contains(&device) && !accepts_sub_device(&handle, &described, &devices) {
            return Err(Error::invalid(
                OPERATION,
                "device",
                format!("{device:p} ({described})"),
                format!("one of the devices {devices:?} of context {context:p}"),
            ));
        }
        Ok(Self::new(handle, described))
    }

    /// As [`OpenClEngine::from_raw`], with the programs of a cache blob as [`OpenClEngine::from_cache_blob`] takes them.
    ///
    /// # Errors
    /// As [`OpenClEngine::from_raw`]; never for the blob's sake.
    ///
    /// # Safety
    /// As [`OpenClEngine::from_raw`].
    pub unsafe fn from_raw_with_cache_blob(
        device: cl_device_id,
        context: cl_context,
        blob: &[u8],
    ) -> Result<(Self, CacheOutcome)> {
        // SAFETY: as the caller promises.
        unsafe { Self::from_raw(device, context) }?.warmed(blob)
    }

    /// The context, not retained.
    pub fn raw_context(&self) -> cl_context {
        self.inner.context.raw()
    }

    /// The device, not retained.
    pub fn raw_device(&self) -> cl_device_id {
        self.inner.device.raw_device()
    }
}

impl OpenClStream {
    /// A stream on the user's queue, with the order and profiling that the queue has. Retains the queue once.
    ///
    /// Commands that the user enqueues directly are not seen by this stream, except that an in-order queue runs them in order.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a null handle; [`Error::Mismatch`] for a queue of another context or device; a device error. On
    /// errors the queue's reference count is unchanged.
    ///
    /// # Safety
    /// - `queue` is a live command queue, or null.
    pub unsafe fn from_raw(engine: &OpenClEngine, queue: cl_command_queue) -> Result<Self> {
        const OPERATION: &str = "create stream";
        if queue.is_null() {
            return Err(null(OPERATION, "queue"));
        }
        let query = |info| get_command_queue_data(queue, info);
        let read = |info| call::value(query(info), OPERATION, "clGetCommandQueueInfo");
        let (context, device) = (read(CL_QUEUE_CONTEXT)?, read(CL_QUEUE_DEVICE)?);
        belongs(OPERATION, "queue", queue, "context", context, engine.raw_context())?;
        belongs(OPERATION, "queue", queue, "device", device, engine.raw_device())?;
        let properties: u64 = call::value(query(CL_QUEUE_PROPERTIES), OPERATION, "clGetCommandQueueInfo")?;
        let mut desc = StreamDesc::default();
        if properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE != 0 {
            desc.order = Order::OutOfOrder;
        }
        desc.profiling = properties & CL_QUEUE_PROFILING_ENABLE != 0;
        // SAFETY: live by contract and not null.
        let handle = unsafe { handle::Queue::from_borrowed(queue) }?;
        Ok(Self::new(engine, handle, desc, Owner::User))
    }

    /// The queue, not retained.
    pub fn raw_queue(&self) -> cl_command_queue {
        self.known_queue()
    }
}

impl OpenClMemory {
    /// Memory in the user's buffer object, which may be a sub-buffer. Retains it once. Null is allowed for a descriptor without bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an open layout, a null handle, an image, or a buffer that is too small; [`Error::Mismatch`] for one of
    /// another context; a device error. On errors the buffer's reference count is unchanged.
    ///
    /// # Safety
    /// - `buffer` is a live memory object, or null.
    pub unsafe fn from_raw(engine: &OpenClEngine, desc: &MemoryDesc, buffer: cl_mem) -> Result<Self> {
        const OPERATION: &str = "create memory";
        validate::allocation(desc)?;
        if buffer.is_null() {
            if desc.size() > 0 {
                return Err(null(OPERATION, "buffer"));
            }
            return Ok(Self::unbacked(engine, MemoryKind::Buffer, desc.clone()));
        }
        let query = |info| mem::get_mem_object_data(buffer, info);
        let handle_of = |info| call::value::<*mut c_void>(query(info), OPERATION, "clGetMemObjectInfo");
        let size_of = |info| call::value::<usize>(query(info), OPERATION, "clGetMemObjectInfo");
        belongs(
            OPERATION,
            "buffer",
            buffer,
            "context",
            handle_of(mem::CL_MEM_CONTEXT)?,
            engine.raw_context(),
        )?;
        let kind: u32 = call::value(query(mem::CL_MEM_TYPE), OPERATION, "clGetMemObjectInfo")?;
        if kind != mem::CL_MEM_OBJECT_BUFFER {
            return Err(Error::invalid(
                OPERATION,
                "memory object",
                format!("{buffer:p} of type {kind:#x}"),
                "a buffer",
            ));
        }
        let capacity = size_of(mem::CL_MEM_SIZE)?;
        if capacity < desc.size() {
            return Err(Error::invalid(
                OPERATION,
                "size of the buffer",
                format!("{capacity} bytes"),
                format!("{} bytes for {desc}", desc.size()),
            ));
        }
        let (parent, base) = (handle_of(mem::CL_MEM_ASSOCIATED_MEMOBJECT)?, size_of(mem::CL_MEM_OFFSET)?);
        let whole = if parent.is_null() { buffer } else { parent };
        // SAFETY: live by contract and not null.
        let handle = unsafe { handle::Mem::from_borrowed(buffer) }?;
        let flags: u64 = call::value(query(mem::CL_MEM_FLAGS), OPERATION, "clGetMemObjectInfo")?;
        let mut allocation = Allocation::adopt(handle, whole.addr() as u64, base, capacity);
        if flags & mem::CL_MEM_USE_HOST_PTR != 0 {
            allocation = allocation.over_host_memory(handle_of(mem::CL_MEM_HOST_PTR)?.addr());
        }
        Ok(Self::new(engine, Arc::new(allocation), MemoryKind::Buffer, desc.clone()))
    }

    /// The buffer object, not retained; null for memory of other kinds or without bytes. This memory starts [`OpenClMemory::offset`] bytes into it.
    pub fn raw_mem(&self) -> cl_mem {
        self.allocation.raw_mem()
    }
}

impl OpenClEvent {
    /// The user's event, of a user event or of a command on any queue of the engine's context. Retains it once.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a null handle; [`Error::Mismatch`] for an event of another context; a device error.
    ///
    /// # Safety
    /// - `event` is a live event, or null.
    pub unsafe fn from_raw(engine: &OpenClEngine, event: cl_event) -> Result<Self> {
        const OPERATION: &str = "create event";
        if event.is_null() {
            return Err(null(OPERATION, "event"));
        }
        let context = cl3::event::get_event_data(event, cl3::event::CL_EVENT_CONTEXT);
        let context = call::value(context, OPERATION, "clGetEventInfo")?;
        belongs(OPERATION, "event", event, "context", context, engine.raw_context())?;
        // SAFETY: live by contract and not null.
        let handle = unsafe { handle::Event::from_borrowed(event) }?;
        let wait_method = engine.inner.wait_method;
        let origin = Origin { context: context.addr(), stream: Weak::<Inner>::new(), wait_method };
        Ok(Self { fate: Fate::foreign(handle, origin)? })
    }

    /// The event, not retained; null where the driver makes none, as after the loss of the device.
    pub fn raw_event(&self) -> cl_event {
        self.fate.raw().unwrap_or(std::ptr::null_mut())
    }

    /// The event with one reference, which the caller owns from now on.
    ///
    /// # Errors
    /// A device error.
    pub fn into_raw(self) -> Result<cl_event> {
        Ok(self.fate.event()?.try_clone()?.into_raw())
    }
}

/// Whether a context that does not list a sub-device takes it all the same: PoCL lists the whole device in its place.
fn accepts_sub_device(context: &handle::Context, device: &OpenClDevice, listed: &[cl_device_id]) -> bool {
    let parent = |device| {
        call::device_value::<cl_device_id>(device, cl3::device::CL_DEVICE_PARENT_DEVICE)
            .ok()
            .filter(|parent| !parent.is_null())
    };
    let mut ancestors = std::iter::successors(parent(device.raw_device()), |&device| parent(device));
    ancestors.any(|ancestor| listed.contains(&ancestor))
        && create_queue(context, device, 0, "check sub-device").is_ok()
}

fn null(operation: &str, what: &str) -> Error {
    Error::invalid(operation, what, "null", "a live OpenCL object")
}

/// Checks that an object's context or device is the engine's.
fn belongs<H: Pointer>(
    operation: &str,
    what: &str,
    object: H,
    owner: &str,
    given: *mut c_void,
    expected: *mut c_void,
) -> Result<()> {
    if given == expected {
        return Ok(());
    }
    Err(Error::mismatch(
        operation,
        format!("the {what} {object:p} of {owner} {given:p}"),
        format!("the engine's {owner} {expected:p}"),
    ))
}
