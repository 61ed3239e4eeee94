//! Functions that programs find by name, with their types, and which of them the layer replaces by which of its own.

#![allow(non_snake_case, non_camel_case_types, reason = "the functions have OpenCL's names")]
#![allow(clippy::wildcard_imports, reason = "the types are those of the signatures")]

use std::ffi::{CStr, c_char, c_void};
use std::mem;

use anydnn_layer::{Extensions, PLATFORMS, for_each_platform};

use crate::below::{self, Missing};
use crate::handle::{CommandBuffer, Context, Device, Event, Kernel, Mem, Platform, Queue};
use crate::{buffer, command_buffer, kernel, sync, usm};

/// Defines typed calls of the functions of a platform, and the table of this layer's own.
macro_rules! functions {
    ($($name:ident($($arg:ident: $t:ty),* $(,)?) -> $ret:ty $(=> $($own:ident)::+)?;)*) => {
        #[allow(clippy::enum_variant_names, reason = "the functions have OpenCL's names")]
        #[derive(Clone, Copy)]
        enum Function { $($name),* }

        const NAMES: &[&str] = &[$(stringify!($name)),*];

        static EXTENSIONS: Extensions<{ NAMES.len() }> = Extensions::new();

        $(
            pub(crate) unsafe fn $name(place: usize, $($arg: $t),*) -> $ret {
                let address = EXTENSIONS.below(Function::$name as usize, place);
                if address.is_null() {
                    return Missing::missing();
                }
                // SAFETY: the platform gave this address for the function with this name, hence of this signature; the caller
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

        /// This layer's functions for an extension function, one for each platform.
        fn interceptors(wanted: &str) -> Option<[*mut c_void; PLATFORMS]> {
            $($(
                if wanted == stringify!($name) {
                    let functions: [types::$name; PLATFORMS] = for_each_platform!($($own)::+);
                    return Some(functions.map(|function| function as *mut c_void));
                }
            )?)*
            None
        }
    };
}

functions! {
    clHostMemAllocINTEL(context: Context, properties: *const u64, size: usize, alignment: u32, code: *mut i32)
        -> *mut c_void => usm::host_alloc;
    clDeviceMemAllocINTEL(
        context: Context, device: Device, properties: *const u64, size: usize, alignment: u32, code: *mut i32,
    ) -> *mut c_void => usm::device_alloc;
    clSharedMemAllocINTEL(
        context: Context, device: Device, properties: *const u64, size: usize, alignment: u32, code: *mut i32,
    ) -> *mut c_void => usm::shared_alloc;
    clMemFreeINTEL(context: Context, pointer: *mut c_void) -> i32 => usm::free;
    clMemBlockingFreeINTEL(context: Context, pointer: *mut c_void) -> i32 => usm::blocking_free;
    clGetMemAllocInfoINTEL(
        context: Context, pointer: *const c_void, info: u32, size: usize, value: *mut c_void, size_ret: *mut usize,
    ) -> i32 => usm::info;
    clSetKernelArgMemPointerINTEL(kernel: Kernel, index: u32, pointer: *const c_void) -> i32
        => kernel::set_arg_mem_pointer;
    clEnqueueMemcpyINTEL(
        queue: Queue, blocking: u32, target: *mut c_void, source: *const c_void, size: usize, wait_count: u32,
        wait_list: *const Event, event: *mut Event,
    ) -> i32 => sync::usm_memcpy;
    clEnqueueMemFillINTEL(
        queue: Queue, target: *mut c_void, pattern: *const c_void, pattern_size: usize, size: usize, wait_count: u32,
        wait_list: *const Event, event: *mut Event,
    ) -> i32;
    clCreateBufferWithPropertiesINTEL(
        context: Context, properties: *const u64, flags: u64, size: usize, host: *mut c_void, code: *mut i32,
    ) -> Mem => buffer::create_with_properties_intel;
    clCreateCommandBufferKHR(count: u32, queues: *const Queue, properties: *const u64, code: *mut i32) -> CommandBuffer
        => command_buffer::create;
    clCommandNDRangeKernelKHR(
        buffer: CommandBuffer, queue: Queue, properties: *const u64, kernel: Kernel, dimensions: u32,
        offset: *const usize, global: *const usize, local: *const usize, wait_count: u32, wait_list: *const u32,
        point: *mut u32, command: *mut *mut c_void,
    ) -> i32 => command_buffer::command;
    clEnqueueCommandBufferKHR(
        count: u32, queues: *const Queue, buffer: CommandBuffer, wait_count: u32, wait_list: *const Event,
        event: *mut Event,
    ) -> i32 => command_buffer::enqueue;
}

pub(crate) unsafe extern "C" fn address(name: *const c_char) -> *mut c_void {
    // SAFETY: the program's own call.
    let real = unsafe { below::clGetExtensionFunctionAddress(name) };
    // SAFETY: the program gives a C string, or null.
    unsafe { replaced(Platform::NULL, name, real) }
}

pub(crate) unsafe extern "C" fn address_for_platform(platform: Platform, name: *const c_char) -> *mut c_void {
    // SAFETY: the program's own call.
    let real = unsafe { below::clGetExtensionFunctionAddressForPlatform(platform, name) };
    // SAFETY: the program gives a C string, or null.
    unsafe { replaced(platform, name, real) }
}

/// Looks the functions that the layer needs itself up, and gives the platform's place.
pub(crate) fn look_up(platform: Platform) -> Option<usize> {
    let needed = [
        (Function::clMemFreeINTEL, c"clMemFreeINTEL"),
        (Function::clEnqueueMemcpyINTEL, c"clEnqueueMemcpyINTEL"),
        (Function::clEnqueueMemFillINTEL, c"clEnqueueMemFillINTEL"),
    ];
    let note = |(function, name): (Function, &CStr)| {
        // SAFETY: a platform and a C string.
        let real = unsafe { below::clGetExtensionFunctionAddressForPlatform(platform, name.as_ptr()) };
        EXTENSIONS.note(platform.address(), function as usize, real)
    };
    needed.map(note)[0]
}

/// # Safety
/// - The name is a C string, or null.
unsafe fn replaced(platform: Platform, name: *const c_char, real: *mut c_void) -> *mut c_void {
    if name.is_null() {
        return real;
    }
    // SAFETY: by contract.
    let Ok(name) = (unsafe { CStr::from_ptr(name) }).to_str() else { return real };
    let Some(interceptors) = interceptors(name) else { return real };
    let Some(number) = NAMES.iter().position(|known| *known == name) else { return real };
    EXTENSIONS.replace(platform.address(), number, real, &interceptors)
}
