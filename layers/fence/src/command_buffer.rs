//! Kernels that are recorded in command buffers and enqueued with them.

use std::ffi::c_void;

use crate::handle::{CommandBuffer, Event, Kernel, Queue};
use crate::launch::KernelState;
use crate::{extension, kernel, state};

/// What is known of a command buffer.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    queue: Queue,
    /// The kernels with the arguments that they had when they were recorded.
    kernels: Vec<KernelState>,
}

pub(crate) unsafe extern "C" fn create<const PLACE: usize>(
    count: u32,
    queues: *const Queue,
    properties: *const u64,
    code: *mut i32,
) -> CommandBuffer {
    // SAFETY: the program's own call.
    let made = unsafe { extension::clCreateCommandBufferKHR(PLACE, count, queues, properties, code) };
    if !made.is_null() {
        // SAFETY: the program gives at least one queue.
        let queue = unsafe { queues.read() };
        state::lock().recorded.insert(made, Recorded { queue, kernels: Vec::new() });
    }
    made
}

pub(crate) unsafe extern "C" fn command<const PLACE: usize>(
    buffer: CommandBuffer,
    queue: Queue,
    properties: *const u64,
    kernel: Kernel,
    dimensions: u32,
    offset: *const usize,
    global: *const usize,
    local: *const usize,
    wait_count: u32,
    wait_list: *const u32,
    point: *mut u32,
    command: *mut *mut c_void,
) -> i32 {
    // SAFETY: the program's own call.
    let code = unsafe {
        extension::clCommandNDRangeKernelKHR(
            PLACE, buffer, queue, properties, kernel, dimensions, offset, global, local, wait_count,
            wait_list, point, command,
        )
    };
    if code == 0 {
        let mut state = state::lock();
        let known = state.kernels.get(&kernel).cloned();
        if let (Some(recorded), Some(known)) = (state.recorded.get_mut(&buffer), known) {
            recorded.kernels.push(known);
        }
    }
    code
}

pub(crate) unsafe extern "C" fn enqueue<const PLACE: usize>(
    count: u32,
    queues: *const Queue,
    buffer: CommandBuffer,
    wait_count: u32,
    wait_list: *const Event,
    event: *mut Event,
) -> i32 {
    let recorded = state::lock().recorded.get(&buffer).cloned();
    let numbers = recorded.map_or_else(Vec::new, |recorded| {
        // SAFETY: the program gives as many queues as it says, in place of those of the command buffer.
        let queue = if count > 0 && !queues.is_null() { unsafe { queues.read() } } else { recorded.queue };
        let in_order = kernel::in_order(queue);
        let mut state = state::lock();
        recorded.kernels.iter().map(|kernel| state.begin_launch(kernel, queue, in_order)).collect()
    });
    // SAFETY: the program's own call, with an event of the layer's where it wants none.
    kernel::watched(numbers, event, |event| unsafe {
        extension::clEnqueueCommandBufferKHR(PLACE, count, queues, buffer, wait_count, wait_list, event)
    })
}
