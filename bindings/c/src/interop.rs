//! The user's OpenCL objects in, the library's out.
//!
//! What goes in is retained once by what it becomes; what comes out is lent.

use std::ffi::{c_int, c_void};
use std::ptr;

use anydnn::select::AnyEvent;
use anydnn_backend::{Engine, Order, Stream};
use anydnn_opencl::{OpenClDevice, OpenClEngine, OpenClEvent, OpenClStream};

use crate::boundary::{self, Failure, Outcome};
use crate::engine;
use crate::execute::Execution;
use crate::handle;
use crate::memory::{HandleKind, MemoryObject, check, handle_list};
use crate::object_types::{
    cl_command_queue, cl_context, cl_device_id, cl_event, cl_mem, const_dnnl_memory_t,
    const_dnnl_primitive_t, dnnl_engine_t, dnnl_exec_arg_t, dnnl_memory_t, dnnl_ocl_interop_memory_kind_t,
    dnnl_stream_t,
};
use crate::stream::{self, StreamObject};
use crate::types::{const_dnnl_memory_desc_t, dnnl_runtime_error, dnnl_status_t};

/// Makes an engine on the user's device and context. Any type of device will do, and sub-devices will.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_ocl_interop_engine_create(
    engine: *mut dnnl_engine_t,
    device: cl_device_id,
    context: cl_context,
) -> dnnl_status_t {
    boundary::status("dnnl_ocl_interop_engine_create", || {
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe { create_engine(engine, device, context, None) }
    })
}

/// Makes an engine from what [`dnnl_ocl_interop_engine_get_cache_blob`] gave, so that it need not compile. A blob that does not fit is
/// as none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_ocl_interop_engine_create_from_cache_blob(
    engine: *mut dnnl_engine_t,
    device: cl_device_id,
    context: cl_context,
    size: usize,
    cache_blob: *const u8,
) -> dnnl_status_t {
    boundary::status("dnnl_ocl_interop_engine_create_from_cache_blob", || {
        if size == 0 || cache_blob.is_null() {
            return Err(Failure::invalid("there is no cache blob"));
        }
        // SAFETY: not null, so the caller vouches for so many bytes.
        let blob = unsafe { handle::slice(cache_blob, size, "cache_blob") }?;
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe { create_engine(engine, device, context, Some(blob)) }
    })
}

/// Lends the context of an engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_ocl_interop_engine_get_context(
    engine: dnnl_engine_t,
    context: *mut cl_context,
) -> dnnl_status_t {
    boundary::status("dnnl_ocl_interop_engine_get_context", || {
        // SAFETY: the caller passes null or an engine that lives.
        let engine = unsafe { handle::borrow(engine) }?.opencl()?;
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::write(context, "context", engine.raw_context().cast()) }
    })
}

/// Lends the device of an engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_ocl_interop_get_device(
    engine: dnnl_engine_t,
    device: *mut cl_device_id,
) -> dnnl_status_t {
    boundary::status("dnnl_ocl_interop_get_device", || {
        // SAFETY: the caller passes null or an engine that lives.
        let engine = unsafe { handle::borrow(engine) }?.opencl()?;
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::write(device, "device", engine.raw_device().cast()) }
    })
}

/// Names what a cache blob of a device depends on: its size where `cache_blob_id` is null, else the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_ocl_interop_engine_get_cache_blob_id(
    device: cl_device_id,
    size: *mut usize,
    cache_blob_id: *mut u8,
) -> dnnl_status_t {
    boundary::status("dnnl_ocl_interop_engine_get_cache_blob_id", || {
        if size.is_null() {
            return Err(Failure::null("size"));
        }
        if device.is_null() {
            return Err(Failure::Status(dnnl_runtime_error, "the device is null".into()));
        }
        // SAFETY: not null, so the caller vouches for a device that lives.
        let device = unsafe { OpenClDevice::from_raw(device.cast()) }?;
        let id = OpenClEngine::device_cache_blob_id(&device)?;
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe { handle::bytes_out(&id, size, cache_blob_id) }
    })
}

/// Gives what an engine has compiled, to start the next one warm: the size where `cache_blob` is null, else the bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_ocl_interop_engine_get_cache_blob(
    engine: dnnl_engine_t,
    size: *mut usize,
    cache_blob: *mut u8,
) -> dnnl_status_t {
    boundary::status("dnnl_ocl_interop_engine_get_cache_blob", || {
        // SAFETY: the caller passes null or an engine that lives.
        let engine = unsafe { handle::borrow(engine) }?.opencl()?;
        if size.is_null() {
            return Err(Failure::null("size"));
        }
        let blob = engine.cache_blob()?;
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe { handle::bytes_out(&blob, size, cache_blob) }
    })
}

/// Makes a stream on the user's queue, which is retained.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_ocl_interop_stream_create(
    stream: *mut dnnl_stream_t,
    engine: dnnl_engine_t,
    queue: cl_command_queue,
) -> dnnl_status_t {
    boundary::status("dnnl_ocl_interop_stream_create", || {
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe { create_stream(stream, engine, queue) }
    })
}

/// Lends the queue of a stream, the user's or the library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_ocl_interop_stream_get_command_queue(
    stream: dnnl_stream_t,
    queue: *mut cl_command_queue,
) -> dnnl_status_t {
    boundary::status("dnnl_ocl_interop_stream_get_command_queue", || {
        // SAFETY: the caller passes null or a stream that lives.
        let stream = unsafe { handle::borrow(stream) }?.opencl()?;
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::write(queue, "queue", stream.raw_queue().cast()) }
    })
}

/// Makes memory of a kind. `handle` is a buffer object or an address, `DNNL_MEMORY_ALLOCATE` or `DNNL_MEMORY_NONE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_ocl_interop_memory_create(
    memory: *mut dnnl_memory_t,
    memory_desc: const_dnnl_memory_desc_t,
    engine: dnnl_engine_t,
    memory_kind: dnnl_ocl_interop_memory_kind_t,
    handle: *mut c_void,
) -> dnnl_status_t {
    boundary::status("dnnl_ocl_interop_memory_create", || {
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe { create_memory(memory, memory_desc, engine, memory_kind, &[handle]) }
    })
}

/// Makes memory of a kind with several handles; see [`dnnl_ocl_interop_memory_create`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_ocl_interop_memory_create_v2(
    memory: *mut dnnl_memory_t,
    memory_desc: const_dnnl_memory_desc_t,
    engine: dnnl_engine_t,
    memory_kind: dnnl_ocl_interop_memory_kind_t,
    nhandles: c_int,
    handles: *mut *mut c_void,
) -> dnnl_status_t {
    boundary::status("dnnl_ocl_interop_memory_create_v2", || {
        // SAFETY: the caller passes null or so many handles.
        let handles = unsafe { handle_list(nhandles, handles) }?;
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe { create_memory(memory, memory_desc, engine, memory_kind, handles) }
    })
}

/// Tells what the handles of memory are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_ocl_interop_memory_get_memory_kind(
    memory: const_dnnl_memory_t,
    memory_kind: *mut dnnl_ocl_interop_memory_kind_t,
) -> dnnl_status_t {
    boundary::status("dnnl_ocl_interop_memory_get_memory_kind", || {
        // SAFETY: the caller passes null or memory that lives.
        let kind = unsafe { handle::borrow(memory) }?.kind()?;
        // SAFETY: the caller passes null or a place to write.
        unsafe { handle::write(memory_kind, "memory_kind", kind.value()?) }
    })
}

/// Lends the buffer object of memory, or its address as one; null for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_ocl_interop_memory_get_mem_object(
    memory: const_dnnl_memory_t,
    mem_object: *mut cl_mem,
) -> dnnl_status_t {
    boundary::status("dnnl_ocl_interop_memory_get_mem_object", || {
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe { mem_object_of(memory, mem_object) }
    })
}

/// Gives memory another buffer object, which is retained, in place of the one it has, which is released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_ocl_interop_memory_set_mem_object(
    memory: dnnl_memory_t,
    mem_object: cl_mem,
) -> dnnl_status_t {
    boundary::status("dnnl_ocl_interop_memory_set_mem_object", || {
        // SAFETY: the caller passes null or memory that lives, and a handle of its kind.
        unsafe { set_mem_object(memory, mem_object) }
    })
}

/// Enqueues a primitive after `deps`, on any stream. `return_event` becomes null on an in-order stream, else an event with one reference
/// for the caller; on failures nothing is written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_ocl_interop_primitive_execute(
    primitive: const_dnnl_primitive_t,
    stream: dnnl_stream_t,
    nargs: c_int,
    args: *const dnnl_exec_arg_t,
    deps: *const cl_event,
    ndeps: c_int,
    return_event: *mut cl_event,
) -> dnnl_status_t {
    boundary::status("dnnl_ocl_interop_primitive_execute", || {
        // SAFETY: the caller's pointers are null or as the API says.
        let execution = unsafe { Execution::new(primitive, stream, nargs, args) }?;
        // SAFETY: the caller passes null or so many events.
        let deps = unsafe { events(execution.stream, deps, ndeps) }?;
        // SAFETY: the memories live, and the user keeps their bytes until the commands have ended.
        let event = unsafe { execution.run(&deps) }?;
        // SAFETY: the caller passes null or a place to write.
        unsafe { give_event(execution.stream, event, return_event) }
    })
}

/// What an execution on a stream of a device waits for.
///
/// # Safety
/// `deps` is null or so many events, each null or one that lives.
pub(crate) unsafe fn events(
    stream: &StreamObject,
    deps: *const cl_event,
    ndeps: c_int,
) -> Outcome<Vec<AnyEvent>> {
    let stream = stream.opencl()?;
    // SAFETY: by contract.
    let deps = unsafe { handle::slice(deps, usize::try_from(ndeps).unwrap_or(0), "deps") }?;
    let is_in_order = stream.desc().order == Order::InOrder;
    deps.iter()
        // Null stands for nothing where order needs no events.
        .filter(|dep| !(dep.is_null() && is_in_order))
        // SAFETY: by contract.
        .map(|&dep| Ok(unsafe { OpenClEvent::from_raw(stream.engine(), dep.cast()) }?.into()))
        .collect()
}

/// Gives the event of an execution on a stream of a device: null where the stream is in order.
///
/// # Safety
/// `out` is null or a place to write.
pub(crate) unsafe fn give_event(stream: &StreamObject, event: AnyEvent, out: *mut cl_event) -> Outcome {
    if out.is_null() {
        return Ok(());
    }
    let raw = match event {
        AnyEvent::OpenCl(event) if stream.stream.desc().order == Order::OutOfOrder => event.into_raw()?,
        _ => ptr::null_mut(),
    };
    // SAFETY: by contract.
    unsafe { handle::write(out, "return_event", raw.cast()) }
}

/// # Safety
/// The pointers are null, or objects that live and a place to write.
pub(crate) unsafe fn create_engine(
    out: *mut dnnl_engine_t,
    device: cl_device_id,
    context: cl_context,
    blob: Option<&[u8]>,
) -> Outcome {
    // SAFETY: by contract.
    unsafe { create_engine_as(out, device, context, blob, Ok) }
}

/// Makes an engine on the user's objects, and of it what `finish` says.
///
/// # Safety
/// The pointers are null, or objects that live and a place to write.
pub(crate) unsafe fn create_engine_as(
    out: *mut dnnl_engine_t,
    device: cl_device_id,
    context: cl_context,
    blob: Option<&[u8]>,
    finish: impl FnOnce(OpenClEngine) -> Outcome<OpenClEngine>,
) -> Outcome {
    if out.is_null() || device.is_null() || context.is_null() {
        return Err(Failure::null("the engine's place, device or context"));
    }
    let make = || {
        // SAFETY: by contract.
        let described = unsafe { OpenClDevice::from_raw(device.cast()) }?;
        if !engine::accepts(&described) {
            return Err(Failure::invalid(format!("{described} is no GPU")));
        }
        // SAFETY: by contract.
        let engine = unsafe {
            match blob {
                None => OpenClEngine::from_raw(device.cast(), context.cast()),
                Some(blob) => OpenClEngine::from_raw_with_cache_blob(device.cast(), context.cast(), blob)
                    .map(|(engine, _)| engine),
            }
        };
        Ok(finish(engine?)?.into())
    };
    // SAFETY: by contract.
    unsafe { engine::create_at(out, make) }
}

/// # Safety
/// The pointers are null, or objects that live and a place to write.
unsafe fn create_stream(out: *mut dnnl_stream_t, engine: dnnl_engine_t, queue: cl_command_queue) -> Outcome {
    let make = || {
        // SAFETY: by contract.
        let stream = unsafe { stream_on(engine, queue) }?;
        stream::check(stream.stream.desc())?;
        Ok(stream)
    };
    // SAFETY: by contract.
    unsafe { handle::create_at(out, make) }
}

/// A stream on the user's queue.
///
/// # Safety
/// The pointers are null or objects that live.
pub(crate) unsafe fn stream_on(engine: dnnl_engine_t, queue: cl_command_queue) -> Outcome<StreamObject> {
    // SAFETY: by contract.
    let engine = unsafe { engine::reference(engine) }?;
    // SAFETY: by contract.
    let stream = unsafe { OpenClStream::from_raw(engine.value().opencl()?, queue.cast()) }?;
    Ok(StreamObject { stream: stream.into(), engine, waits_at_end: false })
}

/// # Safety
/// The pointers are null, or objects that live and a place to write.
unsafe fn create_memory(
    out: *mut dnnl_memory_t,
    memory_desc: const_dnnl_memory_desc_t,
    engine: dnnl_engine_t,
    kind: dnnl_ocl_interop_memory_kind_t,
    handles: &[*mut c_void],
) -> Outcome {
    let make = || {
        // SAFETY: by contract.
        let (desc, engine) = unsafe { (handle::borrow(memory_desc)?, engine::reference(engine)?) };
        check(desc, handles.len())?;
        let kind = HandleKind::new(engine.value(), kind)?;
        // SAFETY: by contract.
        unsafe { MemoryObject::on_device(desc, engine, kind, handles) }
    };
    // SAFETY: by contract.
    unsafe { handle::create_at(out, make) }
}

/// # Safety
/// The pointers are null, or memory that lives and a place to write.
pub(crate) unsafe fn mem_object_of(memory: const_dnnl_memory_t, out: *mut cl_mem) -> Outcome {
    if out.is_null() {
        return Err(Failure::null("mem_object"));
    }
    // SAFETY: by contract.
    let object = unsafe { handle::borrow_optional(memory) }?;
    let of_device = |object: &MemoryObject| object.kind()?.value().and_then(|_| object.handle(0));
    let raw = object.map_or(Ok(ptr::null_mut()), of_device)?;
    // SAFETY: by contract.
    unsafe { handle::write(out, "mem_object", raw.cast()) }
}

/// # Safety
/// The pointers are null, or memory that lives and a handle of its kind.
pub(crate) unsafe fn set_mem_object(memory: dnnl_memory_t, mem_object: cl_mem) -> Outcome {
    // SAFETY: by contract.
    let object = unsafe { handle::borrow(memory) }?;
    object.kind()?.value()?;
    // SAFETY: by contract.
    unsafe { object.set_handle(0, mem_object.cast()) }
}
