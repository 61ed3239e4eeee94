//! The user's own OpenCL objects, which come as their addresses.

use anydnn::backend::{DataType, Memory, MemoryDesc};
use anydnn::select::{AnyEngine, AnyEvent, AnyMemory, AnyStream};
use anydnn_opencl::{OpenClEngine, OpenClEvent, OpenClMemory, OpenClStream};
use pyo3::prelude::*;

use crate::error::{self, OrRaise};
use crate::tensor::named;

/// A `cl_device_id`, a `cl_context` and a `cl_command_queue`.
pub(crate) type Objects = (usize, usize, usize);

/// Bytes of a `cl_mem`: its address, the first of them, their type and dimensions.
pub(crate) type Given = (usize, usize, String, Vec<usize>);

/// An engine and a stream on the user's objects, each retained.
///
/// # Safety
/// - The addresses are those of live OpenCL objects, or null.
pub(crate) unsafe fn adopt((device, context, queue): Objects) -> PyResult<(AnyEngine, AnyStream)> {
    // SAFETY: live or null by contract.
    let engine = unsafe { OpenClEngine::from_raw(device as _, context as _) }.or_raise()?;
    // SAFETY: live or null by contract.
    let stream = unsafe { OpenClStream::from_raw(&engine, queue as _) }.or_raise()?;
    Ok((engine.into(), stream.into()))
}

/// The user's queue as a stream of an engine.
///
/// # Safety
/// - `queue` is the address of a live command queue, or null.
pub(crate) unsafe fn stream(engine: &OpenClEngine, queue: usize) -> PyResult<AnyStream> {
    // SAFETY: live or null by contract.
    Ok(unsafe { OpenClStream::from_raw(engine, queue as _) }.or_raise()?.into())
}

/// The user's buffer as memory of an engine.
///
/// # Safety
/// - The address is that of a live memory object, or null.
pub(crate) unsafe fn memory(engine: &OpenClEngine, given: &Given) -> PyResult<AnyMemory> {
    let (buffer, offset, data_type, dims) = given;
    let desc = MemoryDesc::new(dims.clone(), named(data_type)?);
    let whole = MemoryDesc::new([offset.saturating_add(desc.size())], DataType::U8);
    // SAFETY: live or null by contract.
    let memory = unsafe { OpenClMemory::from_raw(engine, &whole, *buffer as _) }.or_raise()?;
    Ok(memory.view(&desc, *offset).or_raise()?.into())
}

/// The user's event as one of an engine.
///
/// # Safety
/// - `event` is the address of a live event, or null.
pub(crate) unsafe fn event(engine: &OpenClEngine, event: usize) -> PyResult<AnyEvent> {
    // SAFETY: live or null by contract.
    Ok(unsafe { OpenClEvent::from_raw(engine, event as _) }.or_raise()?.into())
}

/// A result's `cl_mem` with a reference for the caller, the first byte, type and dimensions.
pub(crate) fn hand_out(memory: &AnyMemory) -> PyResult<Given> {
    let own = memory.as_opencl().ok_or_else(foreign)?;
    let (offset, desc) = (own.offset(), own.desc().clone());
    let buffer = if desc.size() == 0 { 0 } else { own.clone().into_raw().or_raise()? as usize };
    Ok((buffer, offset, desc.data_type().name().to_owned(), desc.dims().to_vec()))
}

/// An event with a reference for the caller.
pub(crate) fn hand_out_event(event: &AnyEvent) -> PyResult<usize> {
    let own = event.as_opencl().ok_or_else(foreign)?;
    Ok(own.clone().into_raw().or_raise()? as usize)
}

/// For sessions of other backends.
pub(crate) fn foreign() -> PyErr {
    let message = "the session is not on an OpenCL device: give it a queue of yours, as InferenceSession(.., queue=queue)";
    error::own("MismatchError", message)
}
