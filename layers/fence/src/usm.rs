//! Unified shared memory. Each platform has functions of its own, at its place.

use std::ffi::c_void;

use crate::allocation::Kind;
use crate::handle::{Context, Device};
use crate::pointer::{self, Free, Wanted};
use crate::{cl, extension, state};

pub(crate) unsafe extern "C" fn host_alloc<const PLACE: usize>(
    context: Context,
    properties: *const u64,
    size: usize,
    alignment: u32,
    code: *mut i32,
) -> *mut c_void {
    let wanted = Wanted { kind: Kind::UsmHost, context, size, alignment };
    // SAFETY: the program's own call, with more bytes.
    pointer::allocate(wanted, |size| unsafe {
        extension::clHostMemAllocINTEL(PLACE, context, properties, size, alignment, code)
    })
}

pub(crate) unsafe extern "C" fn device_alloc<const PLACE: usize>(
    context: Context,
    device: Device,
    properties: *const u64,
    size: usize,
    alignment: u32,
    code: *mut i32,
) -> *mut c_void {
    let wanted = Wanted { kind: Kind::UsmDevice, context, size, alignment };
    // SAFETY: as above.
    pointer::allocate(wanted, |size| unsafe {
        extension::clDeviceMemAllocINTEL(PLACE, context, device, properties, size, alignment, code)
    })
}

pub(crate) unsafe extern "C" fn shared_alloc<const PLACE: usize>(
    context: Context,
    device: Device,
    properties: *const u64,
    size: usize,
    alignment: u32,
    code: *mut i32,
) -> *mut c_void {
    let wanted = Wanted { kind: Kind::UsmShared, context, size, alignment };
    // SAFETY: as above.
    pointer::allocate(wanted, |size| unsafe {
        extension::clSharedMemAllocINTEL(PLACE, context, device, properties, size, alignment, code)
    })
}

pub(crate) unsafe extern "C" fn free<const PLACE: usize>(context: Context, pointer: *mut c_void) -> i32 {
    match pointer::free(pointer) {
        // SAFETY: the program's own call.
        Free::Unknown => unsafe { extension::clMemFreeINTEL(PLACE, context, pointer) },
        Free::Again => cl::INVALID_VALUE,
        Free::Done => 0,
    }
}

pub(crate) unsafe extern "C" fn blocking_free<const PLACE: usize>(
    context: Context,
    pointer: *mut c_void,
) -> i32 {
    // SAFETY: the program's own call, with the address that the driver gave.
    let free = |pointer| unsafe { extension::clMemBlockingFreeINTEL(PLACE, context, pointer) };
    match pointer::free_blocking(pointer, |pointer| {
        free(pointer);
    }) {
        Free::Unknown => free(pointer),
        Free::Again => cl::INVALID_VALUE,
        Free::Done => 0,
    }
}

/// Answers as if the allocation were the program's own, not a part of a larger one.
pub(crate) unsafe extern "C" fn info<const PLACE: usize>(
    context: Context,
    pointer: *const c_void,
    info: u32,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> i32 {
    let state = state::lock();
    let known = state.at(pointer.addr()).map(|allocation| {
        let start = allocation.start().unwrap_or_default();
        let inside = (start..start + allocation.id.size).contains(&pointer.addr());
        (inside && allocation.live).then_some((start, allocation.id.size))
    });
    drop(state);
    let nothing = 0_u8;
    let asked = if known == Some(None) { (&raw const nothing).cast() } else { pointer };
    // SAFETY: the program's own call; for what is not in its allocations, with an address of no allocation.
    let code =
        unsafe { extension::clGetMemAllocInfoINTEL(PLACE, context, asked, info, size, value, size_ret) };
    if let Some(Some((start, bytes))) = known.filter(|_| code == 0 && !value.is_null()) {
        // SAFETY: the driver has written a value of this type here.
        unsafe {
            match info {
                cl::MEM_ALLOC_BASE_PTR => value.cast::<usize>().write_unaligned(start),
                cl::MEM_ALLOC_SIZE => value.cast::<usize>().write_unaligned(bytes),
                _ => {}
            }
        }
    }
    code
}
