//! Kernels: their names, their arguments, and when they have finished.

use std::ffi::{c_char, c_void};

use crate::handle::{Event, Kernel, Mem, Program, Queue};
use crate::launch::{Arg, KernelState};
use crate::{below, cl, extension, handler, state};

pub(crate) unsafe extern "C" fn create(program: Program, name: *const c_char, code: *mut i32) -> Kernel {
    // SAFETY: the program's own call.
    let kernel = unsafe { below::clCreateKernel(program, name, code) };
    note(kernel);
    kernel
}

pub(crate) unsafe extern "C" fn create_all(
    program: Program,
    room: u32,
    kernels: *mut Kernel,
    count: *mut u32,
) -> i32 {
    let mut own_count = 0;
    let count = if count.is_null() { &raw mut own_count } else { count };
    // SAFETY: the program's own call, with a place for the number where it gives none.
    let code = unsafe { below::clCreateKernelsInProgram(program, room, kernels, count) };
    if code == 0 && !kernels.is_null() {
        // SAFETY: the driver has written this many kernels, for which the program has room.
        unsafe {
            for i in 0..count.read().min(room) {
                note(kernels.add(i as usize).read());
            }
        }
    }
    code
}

pub(crate) unsafe extern "C" fn clone(kernel: Kernel, code: *mut i32) -> Kernel {
    // SAFETY: the program's own call.
    let cloned = unsafe { below::clCloneKernel(kernel, code) };
    if !cloned.is_null() {
        let mut state = state::lock();
        if let Some(known) = state.kernels.get(&kernel).cloned() {
            state.kernels.insert(cloned, known);
        }
    }
    cloned
}

pub(crate) unsafe extern "C" fn set_arg(
    kernel: Kernel,
    index: u32,
    size: usize,
    value: *const c_void,
) -> i32 {
    // SAFETY: the program's own call.
    let code = unsafe { below::clSetKernelArg(kernel, index, size, value) };
    if code == 0 {
        let mem = (size == size_of::<Mem>() && !value.is_null())
            // SAFETY: the program gives as many bytes as it says.
            .then(|| unsafe { value.cast::<Mem>().read_unaligned() });
        let mut state = state::lock();
        let object = mem.and_then(|mem| state.mems.get(&mem));
        let arg = object.map(|object| Arg {
            index: Some(index),
            allocation: object.allocation,
            offset: object.offset,
        });
        state.set_arg(kernel, index, arg);
    }
    code
}

pub(crate) unsafe extern "C" fn set_arg_pointer(kernel: Kernel, index: u32, pointer: *const c_void) -> i32 {
    // SAFETY: the program's own call.
    let code = unsafe { below::clSetKernelArgSVMPointer(kernel, index, pointer) };
    if code == 0 {
        note_pointer(kernel, index, pointer);
    }
    code
}

pub(crate) unsafe extern "C" fn set_arg_mem_pointer<const PLACE: usize>(
    kernel: Kernel,
    index: u32,
    pointer: *const c_void,
) -> i32 {
    // SAFETY: the program's own call.
    let code = unsafe { extension::clSetKernelArgMemPointerINTEL(PLACE, kernel, index, pointer) };
    if code == 0 {
        note_pointer(kernel, index, pointer);
    }
    code
}

pub(crate) unsafe extern "C" fn set_exec_info(
    kernel: Kernel,
    info: u32,
    size: usize,
    value: *const c_void,
) -> i32 {
    // SAFETY: the program's own call.
    let code = unsafe { below::clSetKernelExecInfo(kernel, info, size, value) };
    let lists = [cl::KERNEL_EXEC_INFO_SVM_PTRS, cl::KERNEL_EXEC_INFO_USM_PTRS];
    if code == 0 && lists.contains(&info) && !value.is_null() {
        let count = size / size_of::<usize>();
        // SAFETY: the program gives a list of as many bytes as it says.
        let pointers = unsafe { std::slice::from_raw_parts(value.cast::<usize>(), count) };
        let mut state = state::lock();
        let args: Vec<_> = pointers.iter().filter_map(|pointer| state.pointer_arg(None, *pointer)).collect();
        if let Some(known) = state.kernels.get_mut(&kernel) {
            known.indirect = args;
        }
    }
    code
}

pub(crate) unsafe extern "C" fn enqueue(
    queue: Queue,
    kernel: Kernel,
    dimensions: u32,
    offset: *const usize,
    global: *const usize,
    local: *const usize,
    wait_count: u32,
    wait_list: *const Event,
    event: *mut Event,
) -> i32 {
    let numbers = vec![state::begin(kernel, queue, in_order(queue))];
    // SAFETY: the program's own call, with an event of the layer's where it wants none.
    watched(numbers, event, |event| unsafe {
        below::clEnqueueNDRangeKernel(
            queue, kernel, dimensions, offset, global, local, wait_count, wait_list, event,
        )
    })
}

pub(crate) unsafe extern "C" fn enqueue_task(
    queue: Queue,
    kernel: Kernel,
    wait_count: u32,
    wait_list: *const Event,
    event: *mut Event,
) -> i32 {
    let numbers = vec![state::begin(kernel, queue, in_order(queue))];
    // SAFETY: as above.
    watched(numbers, event, |event| unsafe {
        below::clEnqueueTask(queue, kernel, wait_count, wait_list, event)
    })
}

/// Enqueues launches that have been noted, and has it noted when they have finished.
pub(crate) fn watched(numbers: Vec<u64>, event: *mut Event, enqueue: impl Fn(*mut Event) -> i32) -> i32 {
    handler::ensure();
    let mut own_event = Event::NULL;
    let wanted = !event.is_null();
    let event = if wanted { event } else { &raw mut own_event };
    let code = enqueue(event);
    if code != 0 {
        let mut state = state::lock();
        for number in numbers {
            state.finish_launch(number);
        }
        return code;
    }
    // SAFETY: the driver has written the event.
    let event = unsafe { event.read() };
    if wanted {
        let mut state = state::lock();
        for number in &numbers {
            state.launches.set_event(*number, event);
        }
    }
    let numbers = Box::into_raw(Box::new(numbers));
    // SAFETY: an event that is not released yet; the callback gets the numbers, once, if it is set.
    unsafe {
        if below::clSetEventCallback(event, cl::COMPLETE, completed, numbers.cast()) != 0 {
            drop(Box::from_raw(numbers));
        }
        if !wanted {
            below::clReleaseEvent(event);
        }
    }
    code
}

/// Whether a queue finishes its commands in order.
pub(crate) fn in_order(queue: Queue) -> bool {
    let mut properties = 0_u64;
    let place = (&raw mut properties).cast();
    // SAFETY: a place of the size that is told.
    let code =
        unsafe { below::clGetCommandQueueInfo(queue, cl::QUEUE_PROPERTIES, 8, place, std::ptr::null_mut()) };
    code == 0 && properties & cl::QUEUE_OUT_OF_ORDER == 0
}

/// A command has finished.
unsafe extern "C" fn completed(_: Event, _: i32, numbers: *mut c_void) {
    // SAFETY: the box of the command, which finishes once.
    let numbers = unsafe { Box::from_raw(numbers.cast::<Vec<u64>>()) };
    let mut state = state::lock();
    for number in *numbers {
        state.finish_launch(number);
    }
}

/// Notes a new kernel.
fn note(kernel: Kernel) {
    if kernel.is_null() {
        return;
    }
    let mut bytes = [0_u8; 256];
    let place = bytes.as_mut_ptr().cast();
    // SAFETY: a place of the size that is told.
    let code =
        unsafe { below::clGetKernelInfo(kernel, cl::KERNEL_FUNCTION_NAME, 256, place, std::ptr::null_mut()) };
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = if code == 0 { String::from_utf8_lossy(name) } else { "a kernel".into() };
    state::lock().kernels.insert(kernel, KernelState::new(&name));
}

fn note_pointer(kernel: Kernel, index: u32, pointer: *const c_void) {
    let mut state = state::lock();
    let arg = state.pointer_arg(Some(index), pointer.addr());
    state.set_arg(kernel, index, arg);
}
