//! The functions below this layer with their types, and which of them the layer replaces by which of its own.

#![allow(non_snake_case, non_camel_case_types, reason = "the functions have OpenCL's names")]
#![allow(clippy::wildcard_imports, reason = "the types are those of the signatures")]

use std::ffi::{c_char, c_void};
use std::mem;

use anydnn_layer::slot;

use crate::cl;
use crate::handle::{CommandBuffer, Context, Device, Event, Kernel, Mem, Platform, Program, Queue};
use crate::layer::LAYER;
use crate::{buffer, context, extension, kernel, svm, sync};

/// What a function gives that is not there.
pub(crate) trait Missing {
    fn missing() -> Self;
}

impl Missing for i32 {
    fn missing() -> Self {
        cl::INVALID_OPERATION
    }
}

impl Missing for *mut c_void {
    fn missing() -> Self {
        std::ptr::null_mut()
    }
}

impl Missing for () {
    fn missing() {}
}

macro_rules! missing_handles {
    ($($t:ty),*) => {$(
        impl Missing for $t {
            fn missing() -> Self {
                Self::NULL
            }
        }
    )*};
}

missing_handles!(Context, Queue, Mem, Kernel, CommandBuffer);

/// Called when a memory object is gone.
pub(crate) type Destroyed = unsafe extern "C" fn(Mem, *mut c_void);
/// Called when a command has come to a status.
pub(crate) type Completed = unsafe extern "C" fn(Event, i32, *mut c_void);
/// Called to free shared virtual memory.
pub(crate) type FreeSvm = unsafe extern "C" fn(Queue, u32, *mut *mut c_void, *mut c_void);

/// Defines typed calls of the functions below, and the table of this layer's own for those with an arrow.
macro_rules! functions {
    ($($name:ident($($arg:ident: $t:ty),* $(,)?) -> $ret:ty $(=> $own:path)?;)*) => {
        $(
            pub(crate) unsafe fn $name($($arg: $t),*) -> $ret {
                const SLOT: usize = slot(stringify!($name)).expect("a function of the dispatch table");
                let address = LAYER.below(SLOT);
                if address.is_null() {
                    return Missing::missing();
                }
                // SAFETY: the address at this place is that of the function with this name, hence of this signature; the caller
                // keeps to its conditions.
                unsafe {
                    let function = mem::transmute::<*mut c_void, types::$name>(address);
                    function($($arg),*)
                }
            }
        )*

        /// The types of the functions, under their names.
        mod types {
            use super::*;
            $(pub(super) type $name = unsafe extern "C" fn($($t),*) -> $ret;)*
        }

        /// This layer's function for a slot of the dispatch table.
        pub(crate) fn interceptor(wanted: usize) -> Option<*mut c_void> {
            $($(
                if slot(stringify!($name)) == Some(wanted) {
                    let function: types::$name = $own;
                    return Some(function as *mut c_void);
                }
            )?)*
            None
        }
    };
}

functions! {
    clGetDeviceInfo(device: Device, info: u32, size: usize, value: *mut c_void, size_ret: *mut usize) -> i32;
    clCreateContext(
        properties: *const isize, count: u32, devices: *const Device, notify: *mut c_void, user_data: *mut c_void,
        code: *mut i32,
    ) -> Context => context::create;
    clCreateContextFromType(
        properties: *const isize, kind: u64, notify: *mut c_void, user_data: *mut c_void, code: *mut i32,
    ) -> Context => context::create_from_type;
    clRetainContext(context: Context) -> i32 => context::retain;
    clReleaseContext(context: Context) -> i32 => context::release;
    clGetContextInfo(context: Context, info: u32, size: usize, value: *mut c_void, size_ret: *mut usize) -> i32
        => context::info;
    clCreateCommandQueue(context: Context, device: Device, properties: u64, code: *mut i32) -> Queue;
    clReleaseCommandQueue(queue: Queue) -> i32;
    clGetCommandQueueInfo(queue: Queue, info: u32, size: usize, value: *mut c_void, size_ret: *mut usize) -> i32;
    clCreateBuffer(context: Context, flags: u64, size: usize, host: *mut c_void, code: *mut i32) -> Mem
        => buffer::create;
    clCreateBufferWithProperties(
        context: Context, properties: *const u64, flags: u64, size: usize, host: *mut c_void, code: *mut i32,
    ) -> Mem => buffer::create_with_properties;
    clCreateSubBuffer(buffer: Mem, flags: u64, kind: u32, region: *const c_void, code: *mut i32) -> Mem
        => buffer::create_sub_buffer;
    clCreateImage(
        context: Context, flags: u64, format: *const c_void, description: *const c_void, host: *mut c_void,
        code: *mut i32,
    ) -> Mem => buffer::create_image;
    clCreateImageWithProperties(
        context: Context, properties: *const u64, flags: u64, format: *const c_void, description: *const c_void,
        host: *mut c_void, code: *mut i32,
    ) -> Mem => buffer::create_image_with_properties;
    clRetainMemObject(memory: Mem) -> i32;
    clReleaseMemObject(memory: Mem) -> i32 => sync::release_mem;
    clGetMemObjectInfo(memory: Mem, info: u32, size: usize, value: *mut c_void, size_ret: *mut usize) -> i32
        => buffer::info;
    clSetMemObjectDestructorCallback(memory: Mem, notify: Destroyed, user_data: *mut c_void) -> i32;
    clCreateKernel(program: Program, name: *const c_char, code: *mut i32) -> Kernel => kernel::create;
    clCreateKernelsInProgram(program: Program, room: u32, kernels: *mut Kernel, count: *mut u32) -> i32
        => kernel::create_all;
    clCloneKernel(kernel: Kernel, code: *mut i32) -> Kernel => kernel::clone;
    clGetKernelInfo(kernel: Kernel, info: u32, size: usize, value: *mut c_void, size_ret: *mut usize) -> i32;
    clSetKernelArg(kernel: Kernel, index: u32, size: usize, value: *const c_void) -> i32 => kernel::set_arg;
    clSetKernelArgSVMPointer(kernel: Kernel, index: u32, pointer: *const c_void) -> i32 => kernel::set_arg_pointer;
    clSetKernelExecInfo(kernel: Kernel, info: u32, size: usize, value: *const c_void) -> i32
        => kernel::set_exec_info;
    clEnqueueNDRangeKernel(
        queue: Queue, kernel: Kernel, dimensions: u32, offset: *const usize, global: *const usize, local: *const usize,
        wait_count: u32, wait_list: *const Event, event: *mut Event,
    ) -> i32 => kernel::enqueue;
    clEnqueueTask(queue: Queue, kernel: Kernel, wait_count: u32, wait_list: *const Event, event: *mut Event) -> i32
        => kernel::enqueue_task;
    clSetEventCallback(event: Event, status: i32, notify: Completed, user_data: *mut c_void) -> i32;
    clReleaseEvent(event: Event) -> i32;
    clWaitForEvents(count: u32, events: *const Event) -> i32 => sync::wait_for_events;
    clFinish(queue: Queue) -> i32 => sync::finish;
    clEnqueueReadBuffer(
        queue: Queue, buffer: Mem, blocking: u32, offset: usize, size: usize, host: *mut c_void, wait_count: u32,
        wait_list: *const Event, event: *mut Event,
    ) -> i32 => sync::read_buffer;
    clEnqueueReadBufferRect(
        queue: Queue, buffer: Mem, blocking: u32, buffer_origin: *const usize, host_origin: *const usize,
        region: *const usize, buffer_row: usize, buffer_slice: usize, host_row: usize, host_slice: usize,
        host: *mut c_void, wait_count: u32, wait_list: *const Event, event: *mut Event,
    ) -> i32 => sync::read_buffer_rect;
    clEnqueueWriteBuffer(
        queue: Queue, buffer: Mem, blocking: u32, offset: usize, size: usize, host: *const c_void, wait_count: u32,
        wait_list: *const Event, event: *mut Event,
    ) -> i32;
    clEnqueueMapBuffer(
        queue: Queue, buffer: Mem, blocking: u32, flags: u64, offset: usize, size: usize, wait_count: u32,
        wait_list: *const Event, event: *mut Event, code: *mut i32,
    ) -> *mut c_void => sync::map_buffer;
    clEnqueueFillBuffer(
        queue: Queue, buffer: Mem, pattern: *const c_void, pattern_size: usize, offset: usize, size: usize,
        wait_count: u32, wait_list: *const Event, event: *mut Event,
    ) -> i32;
    clSVMAlloc(context: Context, flags: u64, size: usize, alignment: u32) -> *mut c_void => svm::alloc;
    clSVMFree(context: Context, pointer: *mut c_void) -> () => svm::free;
    clEnqueueSVMFree(
        queue: Queue, count: u32, pointers: *mut *mut c_void, free: Option<FreeSvm>, user_data: *mut c_void,
        wait_count: u32, wait_list: *const Event, event: *mut Event,
    ) -> i32 => svm::enqueue_free;
    clEnqueueSVMMemcpy(
        queue: Queue, blocking: u32, target: *mut c_void, source: *const c_void, size: usize, wait_count: u32,
        wait_list: *const Event, event: *mut Event,
    ) -> i32 => sync::svm_memcpy;
    clEnqueueSVMMemFill(
        queue: Queue, target: *mut c_void, pattern: *const c_void, pattern_size: usize, size: usize, wait_count: u32,
        wait_list: *const Event, event: *mut Event,
    ) -> i32;
    clEnqueueSVMMap(
        queue: Queue, blocking: u32, flags: u64, pointer: *mut c_void, size: usize, wait_count: u32,
        wait_list: *const Event, event: *mut Event,
    ) -> i32 => sync::svm_map;
    clGetExtensionFunctionAddress(name: *const c_char) -> *mut c_void => extension::address;
    clGetExtensionFunctionAddressForPlatform(platform: Platform, name: *const c_char) -> *mut c_void
        => extension::address_for_platform;
}
