//! Calls that tell that commands have finished. What finished kernels may have damaged is checked then.

use std::ffi::c_void;
use std::sync::Arc;

use crate::allocation::Fence;
use crate::handle::{Event, Mem, Queue};
use crate::{below, extension, kernel, state};

/// Checks the allocations that finished kernels have had.
pub(crate) fn check_ended() {
    let mut state = state::lock();
    let mut canaries = Vec::new();
    for number in state.take_ended() {
        let Some(allocation) = state.allocations.get_mut(&number) else { continue };
        if let Fence::Canary(zones) = &allocation.fence {
            canaries.push((number, Arc::clone(zones)));
            // It stays known until this is over, whoever releases it meanwhile.
            allocation.checks += 1;
        } else {
            state.check_pages(number);
        }
    }
    drop(state);
    for (number, zones) in canaries {
        let damage = zones.damage();
        drop(zones);
        let mut state = state::lock();
        match damage {
            Some(damage) => state.checked(number, &damage),
            None => state.tally.unchecked += 1,
        }
        let over = state.allocations.get_mut(&number).is_some_and(|known| {
            known.checks = known.checks.saturating_sub(1);
            !known.live && known.pending == 0 && known.checks == 0
        });
        let gone = if over { state.remove(number) } else { None };
        drop(state);
        // Dropped without the lock, since that is a call into the driver.
        drop(gone);
    }
}

pub(crate) unsafe extern "C" fn release_mem(memory: Mem) -> i32 {
    check_ended();
    // SAFETY: the program's own call.
    unsafe { below::clReleaseMemObject(memory) }
}

pub(crate) unsafe extern "C" fn finish(queue: Queue) -> i32 {
    // SAFETY: the program's own call.
    let code = unsafe { below::clFinish(queue) };
    if code == 0 {
        state::lock().finish_queue(queue);
        check_ended();
    }
    code
}

pub(crate) unsafe extern "C" fn wait_for_events(count: u32, events: *const Event) -> i32 {
    // SAFETY: the program's own call.
    let code = unsafe { below::clWaitForEvents(count, events) };
    if code == 0 && !events.is_null() {
        // SAFETY: the program gives as many events as it says.
        let events = unsafe { std::slice::from_raw_parts(events, count as usize) };
        let mut state = state::lock();
        for event in events {
            state.finish_event(*event);
        }
        drop(state);
        check_ended();
    }
    code
}

/// Notes that a command has been waited for.
fn waited(queue: Queue, blocking: u32, ok: bool) {
    if ok && blocking != 0 {
        if kernel::in_order(queue) {
            state::lock().finish_queue(queue);
        }
        check_ended();
    }
}

pub(crate) unsafe extern "C" fn read_buffer(
    queue: Queue,
    buffer: Mem,
    blocking: u32,
    offset: usize,
    size: usize,
    host: *mut c_void,
    wait_count: u32,
    wait_list: *const Event,
    event: *mut Event,
) -> i32 {
    // SAFETY: the program's own call.
    let code = unsafe {
        below::clEnqueueReadBuffer(queue, buffer, blocking, offset, size, host, wait_count, wait_list, event)
    };
    waited(queue, blocking, code == 0);
    code
}

pub(crate) unsafe extern "C" fn read_buffer_rect(
    queue: Queue,
    buffer: Mem,
    blocking: u32,
    buffer_origin: *const usize,
    host_origin: *const usize,
    region: *const usize,
    buffer_row: usize,
    buffer_slice: usize,
    host_row: usize,
    host_slice: usize,
    host: *mut c_void,
    wait_count: u32,
    wait_list: *const Event,
    event: *mut Event,
) -> i32 {
    // SAFETY: the program's own call.
    let code = unsafe {
        below::clEnqueueReadBufferRect(
            queue,
            buffer,
            blocking,
            buffer_origin,
            host_origin,
            region,
            buffer_row,
            buffer_slice,
            host_row,
            host_slice,
            host,
            wait_count,
            wait_list,
            event,
        )
    };
    waited(queue, blocking, code == 0);
    code
}

pub(crate) unsafe extern "C" fn map_buffer(
    queue: Queue,
    buffer: Mem,
    blocking: u32,
    flags: u64,
    offset: usize,
    size: usize,
    wait_count: u32,
    wait_list: *const Event,
    event: *mut Event,
    code: *mut i32,
) -> *mut c_void {
    // SAFETY: the program's own call.
    let mapped = unsafe {
        below::clEnqueueMapBuffer(
            queue, buffer, blocking, flags, offset, size, wait_count, wait_list, event, code,
        )
    };
    waited(queue, blocking, !mapped.is_null());
    mapped
}

pub(crate) unsafe extern "C" fn svm_memcpy(
    queue: Queue,
    blocking: u32,
    target: *mut c_void,
    source: *const c_void,
    size: usize,
    wait_count: u32,
    wait_list: *const Event,
    event: *mut Event,
) -> i32 {
    // SAFETY: the program's own call.
    let code = unsafe {
        below::clEnqueueSVMMemcpy(queue, blocking, target, source, size, wait_count, wait_list, event)
    };
    waited(queue, blocking, code == 0);
    code
}

pub(crate) unsafe extern "C" fn svm_map(
    queue: Queue,
    blocking: u32,
    flags: u64,
    pointer: *mut c_void,
    size: usize,
    wait_count: u32,
    wait_list: *const Event,
    event: *mut Event,
) -> i32 {
    // SAFETY: the program's own call.
    let code = unsafe {
        below::clEnqueueSVMMap(queue, blocking, flags, pointer, size, wait_count, wait_list, event)
    };
    waited(queue, blocking, code == 0);
    code
}

pub(crate) unsafe extern "C" fn usm_memcpy<const PLACE: usize>(
    queue: Queue,
    blocking: u32,
    target: *mut c_void,
    source: *const c_void,
    size: usize,
    wait_count: u32,
    wait_list: *const Event,
    event: *mut Event,
) -> i32 {
    // SAFETY: the program's own call.
    let code = unsafe {
        extension::clEnqueueMemcpyINTEL(
            PLACE, queue, blocking, target, source, size, wait_count, wait_list, event,
        )
    };
    waited(queue, blocking, code == 0);
    code
}
