//! Contexts and queues for one device.

use std::ptr;
use std::time::Instant;

use anydnn_backend::Result;
use cl3::command_queue::CL_QUEUE_PROPERTIES;

use crate::driver::call::Check;
use crate::driver::handle;
use crate::driver::platform::OpenClDevice;

/// A context for one device.
pub(crate) fn create_context(device: &OpenClDevice, operation: &str) -> Result<handle::Context> {
    let start = Instant::now();
    let raw = cl3::context::create_context(&[device.raw_device()], ptr::null(), None, ptr::null_mut())
        .check(operation, "clCreateContext")?;
    tracing::debug!(%device, milliseconds = start.elapsed().as_millis(), "the context is made");
    // SAFETY: the driver returned this context with one reference for the caller.
    unsafe { handle::Context::from_owned(raw) }
}

/// A command queue; devices before OpenCL 2.0 only know the older call.
pub(crate) fn create_queue(
    context: &handle::Context,
    device: &OpenClDevice,
    properties: u64,
    operation: &str,
) -> Result<handle::Queue> {
    let raw = if device.opencl_version() >= (2, 0) {
        let list = [u64::from(CL_QUEUE_PROPERTIES), properties, 0];
        // SAFETY: live handles; the list ends with zero.
        unsafe {
            cl3::command_queue::create_command_queue_with_properties(
                context.raw(),
                device.raw_device(),
                list.as_ptr(),
            )
        }
        .check(operation, "clCreateCommandQueueWithProperties")?
    } else {
        #[expect(deprecated, reason = "the only call that OpenCL 1.2 has")]
        // SAFETY: live handles.
        unsafe { cl3::command_queue::create_command_queue(context.raw(), device.raw_device(), properties) }
            .check(operation, "clCreateCommandQueue")?
    };
    // SAFETY: the driver returned this queue with one reference for the caller.
    unsafe { handle::Queue::from_owned(raw) }
}
