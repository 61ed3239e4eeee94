//! Streams: command queues, the library's or the user's. Those of the host run commands as they are enqueued.

use anydnn::select::AnyStream;
use anydnn_backend::{Engine, Order, Stream, StreamDesc};
use anydnn_opencl::OpenClStream;

use crate::boundary::{self, Failure, Outcome};
use crate::engine::{self, EngineRef};
use crate::handle::{self, Handle};
use crate::object_types::{
    const_dnnl_stream_t, dnnl_engine_t, dnnl_stream, dnnl_stream_flags_t, dnnl_stream_in_order,
    dnnl_stream_out_of_order, dnnl_stream_profiling, dnnl_stream_t,
};
use crate::types::dnnl_status_t;

/// Makes a stream with a queue of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_stream_create(
    stream: *mut dnnl_stream_t,
    engine: dnnl_engine_t,
    flags: dnnl_stream_flags_t,
) -> dnnl_status_t {
    boundary::status("dnnl_stream_create", || {
        let make = || {
            // SAFETY: the caller passes null or an engine that lives.
            let engine = unsafe { engine::reference(engine) }?;
            let known = dnnl_stream_in_order | dnnl_stream_out_of_order | dnnl_stream_profiling;
            if flags == 0 || flags & !known != 0 {
                return Err(Failure::invalid(format!("{flags:#x} are no flags of a stream")));
            }
            let order =
                if flags & dnnl_stream_out_of_order == 0 { Order::InOrder } else { Order::OutOfOrder };
            let desc = StreamDesc { order, profiling: flags & dnnl_stream_profiling != 0, label: None };
            check(&desc)?;
            let stream = engine.value().engine.create_stream(&desc)?;
            Ok(StreamObject { stream, engine, waits_at_end: false })
        };
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::create_at(stream, make) }
    })
}

/// Tells the engine of a stream: the handle that the stream was made with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_stream_get_engine(
    stream: const_dnnl_stream_t,
    engine: *mut dnnl_engine_t,
) -> dnnl_status_t {
    boundary::status("dnnl_stream_get_engine", || {
        // SAFETY: the caller passes null or a stream that lives.
        let stream = unsafe { handle::borrow(stream) }?;
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::write(engine, "engine", engine::raw(&stream.engine)) }
    })
}

/// Waits for everything on a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_stream_wait(stream: dnnl_stream_t) -> dnnl_status_t {
    boundary::status("dnnl_stream_wait", || {
        // SAFETY: the caller passes null or a stream that lives.
        Ok(unsafe { handle::borrow(stream) }?.stream.wait()?)
    })
}

/// Ends a stream; null is none. What was enqueued runs, and is not waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_stream_destroy(stream: dnnl_stream_t) -> dnnl_status_t {
    boundary::status("dnnl_stream_destroy", || {
        // SAFETY: the caller passes null or a stream that lives.
        let waits = unsafe { handle::borrow_optional(stream) }?
            .filter(|stream| stream.waits_at_end)
            .map_or(Ok(()), |stream| stream.stream.wait());
        // SAFETY: the caller gives the stream up.
        unsafe { handle::destroy(stream) }?;
        Ok(waits?)
    })
}

/// What is behind a stream's handle.
pub(crate) struct StreamObject {
    pub(crate) stream: AnyStream,
    pub(crate) engine: EngineRef,
    /// As streams of the first version of the API do.
    pub(crate) waits_at_end: bool,
}

impl StreamObject {
    /// The stream as one of a device of OpenCL.
    pub(crate) fn opencl(&self) -> Outcome<&OpenClStream> {
        self.engine.value().opencl()?;
        self.stream.as_opencl().ok_or_else(|| Failure::invalid("the stream has no command queue"))
    }
}

impl Handle for dnnl_stream {
    type Value = StreamObject;
    const TAG: u64 = u64::from_le_bytes(*b"any-strm");
    const NAME: &'static str = "stream";
}

/// Refuses what the C API does not have.
pub(crate) fn check(desc: &StreamDesc) -> Outcome {
    if desc.order == Order::OutOfOrder && desc.profiling {
        return Err(Failure::invalid(
            "the stream is out of order and profiling, which the C API does not have",
        ));
    }
    Ok(())
}
