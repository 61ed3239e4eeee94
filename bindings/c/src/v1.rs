//! The names of the first version of the API.

use anydnn_backend::{Order, Stream};

use crate::boundary::{self, Failure};
use crate::handle;
use crate::interop;
use crate::object_types::{
    cl_command_queue, cl_context, cl_device_id, cl_mem, const_dnnl_memory_t, dnnl_engine_kind_t,
    dnnl_engine_t, dnnl_gpu, dnnl_memory_t, dnnl_stream_t,
};
use crate::refusals::Lack;
use crate::types::dnnl_status_t;

/// Makes an engine on the user's device and context; see [`dnnl_ocl_interop_engine_create`](crate::dnnl_ocl_interop_engine_create).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_engine_create_ocl(
    engine: *mut dnnl_engine_t,
    kind: dnnl_engine_kind_t,
    device: cl_device_id,
    context: cl_context,
) -> dnnl_status_t {
    boundary::status("dnnl_engine_create_ocl", || {
        if kind != dnnl_gpu {
            return Err(Failure::invalid(format!(
                "kind is {kind}, expected {dnnl_gpu}, as OpenCL has no engines of others"
            )));
        }
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe { interop::create_engine(engine, device, context, None) }
    })
}

/// Lends the context of an engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_engine_get_ocl_context(
    engine: dnnl_engine_t,
    context: *mut cl_context,
) -> dnnl_status_t {
    boundary::status("dnnl_engine_get_ocl_context", || {
        // SAFETY: the caller passes null or an engine that lives.
        let engine = unsafe { handle::borrow(engine) }?.opencl()?;
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::write(context, "context", engine.raw_context().cast()) }
    })
}

/// Lends the device of an engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_engine_get_ocl_device(
    engine: dnnl_engine_t,
    device: *mut cl_device_id,
) -> dnnl_status_t {
    boundary::status("dnnl_engine_get_ocl_device", || {
        // SAFETY: the caller passes null or an engine that lives.
        let engine = unsafe { handle::borrow(engine) }?.opencl()?;
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::write(device, "device", engine.raw_device().cast()) }
    })
}

/// Makes a stream on the user's in-order queue, which is retained. Destroying it waits for what is on it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_stream_create_ocl(
    stream: *mut dnnl_stream_t,
    engine: dnnl_engine_t,
    queue: cl_command_queue,
) -> dnnl_status_t {
    boundary::status("dnnl_stream_create_ocl", || {
        let make = || {
            // SAFETY: the caller passes null or objects that live.
            let mut stream = unsafe { interop::stream_on(engine, queue) }?;
            if stream.stream.desc().order == Order::OutOfOrder {
                let asked = "an out-of-order queue here; dnnl_ocl_interop_stream_create takes them";
                return Err(Lack::OutOfOrder.failure(asked));
            }
            stream.waits_at_end = true;
            Ok(stream)
        };
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::create_at(stream, make) }
    })
}

/// Lends the queue of a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_stream_get_ocl_command_queue(
    stream: dnnl_stream_t,
    queue: *mut cl_command_queue,
) -> dnnl_status_t {
    boundary::status("dnnl_stream_get_ocl_command_queue", || {
        // SAFETY: the caller passes null or a stream that lives.
        let stream = unsafe { handle::borrow(stream) }?.opencl()?;
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::write(queue, "queue", stream.raw_queue().cast()) }
    })
}

/// Lends the buffer object of memory; null for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_get_ocl_mem_object(
    memory: const_dnnl_memory_t,
    mem_object: *mut cl_mem,
) -> dnnl_status_t {
    boundary::status("dnnl_memory_get_ocl_mem_object", || {
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe { interop::mem_object_of(memory, mem_object) }
    })
}

/// Gives memory another buffer object, which is retained, in place of the one it has, which is released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_set_ocl_mem_object(
    memory: dnnl_memory_t,
    mem_object: cl_mem,
) -> dnnl_status_t {
    boundary::status("dnnl_memory_set_ocl_mem_object", || {
        // SAFETY: the caller passes null or memory that lives, and a handle of its kind.
        unsafe { interop::set_mem_object(memory, mem_object) }
    })
}
