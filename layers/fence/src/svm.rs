//! Shared virtual memory.

use std::ffi::c_void;

use crate::allocation::Kind;
use crate::below::{self, FreeSvm};
use crate::handle::{Context, Event, Queue};
use crate::pointer::{self, Free, Wanted};
use crate::sync;

pub(crate) unsafe extern "C" fn alloc(
    context: Context,
    flags: u64,
    size: usize,
    alignment: u32,
) -> *mut c_void {
    let wanted = Wanted { kind: Kind::Svm, context, size, alignment };
    // SAFETY: the program's own call, with more bytes.
    pointer::allocate(wanted, |size| unsafe { below::clSVMAlloc(context, flags, size, alignment) })
}

pub(crate) unsafe extern "C" fn free(context: Context, pointer: *mut c_void) {
    if let Free::Unknown = pointer::free(pointer) {
        // SAFETY: the program's own call.
        unsafe { below::clSVMFree(context, pointer) };
    }
}

pub(crate) unsafe extern "C" fn enqueue_free(
    queue: Queue,
    count: u32,
    pointers: *mut *mut c_void,
    free: Option<FreeSvm>,
    user_data: *mut c_void,
    wait_count: u32,
    wait_list: *const Event,
    event: *mut Event,
) -> i32 {
    if pointers.is_null() || count == 0 {
        // SAFETY: the program's own call, which the driver refuses.
        return unsafe {
            below::clEnqueueSVMFree(queue, count, pointers, free, user_data, wait_count, wait_list, event)
        };
    }
    sync::check_ended();
    // SAFETY: the program gives as many pointers as it says.
    let program = unsafe { std::slice::from_raw_parts(pointers, count as usize) }.to_vec();
    let mut drivers: Vec<_> = program.iter().map(|pointer| pointer::base(*pointer)).collect();
    let command = Box::into_raw(Box::new(FreeCommand { pointers: program, free, user_data }));
    // SAFETY: the program's own call with what the driver knows; the callback gets the command, once, if it is enqueued.
    let code = unsafe {
        below::clEnqueueSVMFree(
            queue,
            count,
            drivers.as_mut_ptr(),
            Some(free_command),
            command.cast(),
            wait_count,
            wait_list,
            event,
        )
    };
    if code != 0 {
        // SAFETY: made above, and nobody else has it.
        drop(unsafe { Box::from_raw(command) });
    }
    code
}

/// A command that frees memory.
#[derive(Debug)]
struct FreeCommand {
    /// The pointers as the program knows them.
    pointers: Vec<*mut c_void>,
    /// The program's function that frees them, if it has one.
    free: Option<FreeSvm>,
    user_data: *mut c_void,
}

/// Frees memory when a command does.
unsafe extern "C" fn free_command(queue: Queue, count: u32, _: *mut *mut c_void, command: *mut c_void) {
    // SAFETY: the box of the command, which is freed once.
    let mut command = unsafe { Box::from_raw(command.cast::<FreeCommand>()) };
    if let Some(free) = command.free {
        // SAFETY: the program's function with what the program gave for it.
        unsafe { free(queue, count, command.pointers.as_mut_ptr(), command.user_data) };
        return;
    }
    for pointer in command.pointers {
        pointer::free_unchecked(pointer);
    }
}
