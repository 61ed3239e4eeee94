//! Unified shared memory: the functions of `cl_intel_unified_shared_memory`, looked up at the device's own platform, of any vendor.

use std::ffi::{CStr, c_void};
use std::fmt;
use std::mem;
use std::ptr::{self, NonNull};

use anydnn_backend::{MemoryKind, Result};
use cl3::types::{
    cl_bool, cl_command_queue, cl_context, cl_device_id, cl_event, cl_int, cl_kernel, cl_platform_id, cl_uint,
};

use crate::driver::call::{self, Check, Returned};

/// The extension's name.
pub(crate) const EXTENSION: &str = "cl_intel_unified_shared_memory";

const SUCCESS: cl_int = 0;
const NO_VALUE: cl_int = cl3::error_codes::CL_OUT_OF_HOST_MEMORY;

const ALLOC_TYPE: cl_uint = 0x419A;
const ALLOC_BASE_PTR: cl_uint = 0x419B;
const ALLOC_SIZE: cl_uint = 0x419C;
const TYPE_HOST: cl_uint = 0x4197;
const TYPE_DEVICE: cl_uint = 0x4198;
const TYPE_SHARED: cl_uint = 0x4199;

const HOST_CAPABILITIES: cl_uint = 0x4190;
const DEVICE_CAPABILITIES: cl_uint = 0x4191;
const SHARED_CAPABILITIES: cl_uint = 0x4192;
const SYSTEM_CAPABILITIES: cl_uint = 0x4194;
/// The device reads and writes such memory.
const ACCESS: u64 = 1;

type AllocHost = unsafe extern "C" fn(cl_context, *const u64, usize, cl_uint, *mut cl_int) -> *mut c_void;
type AllocDevice =
    unsafe extern "C" fn(cl_context, cl_device_id, *const u64, usize, cl_uint, *mut cl_int) -> *mut c_void;
type Free = unsafe extern "C" fn(cl_context, *mut c_void) -> cl_int;
type AllocInfo =
    unsafe extern "C" fn(cl_context, *const c_void, cl_uint, usize, *mut c_void, *mut usize) -> cl_int;
type SetArg = unsafe extern "C" fn(cl_kernel, cl_uint, *const c_void) -> cl_int;
type Memcpy = unsafe extern "C" fn(
    cl_command_queue,
    cl_bool,
    *mut c_void,
    *const c_void,
    usize,
    cl_uint,
    *const cl_event,
    *mut cl_event,
) -> cl_int;

type Fill = unsafe extern "C" fn(
    cl_command_queue,
    *mut c_void,
    *const c_void,
    usize,
    usize,
    cl_uint,
    *const cl_event,
    *mut cl_event,
) -> cl_int;

/// The extension's functions on one platform.
#[derive(Clone, Copy)]
pub(crate) struct Usm {
    alloc_host: AllocHost,
    alloc_device: AllocDevice,
    alloc_shared: AllocDevice,
    free: Free,
    alloc_info: AllocInfo,
    set_arg: SetArg,
    memcpy: Memcpy,
    fill: Fill,
}

/// An allocation that a pointer leads into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) kind: MemoryKind,
    /// Address of its first byte.
    pub(crate) base: usize,
    pub(crate) bytes: usize,
}

impl Usm {
    /// The functions of a platform; none unless all are there.
    ///
    /// # Safety
    /// `platform` is a platform of this process whose device names the extension.
    pub(crate) unsafe fn of_platform(platform: cl_platform_id) -> Option<Self> {
        // SAFETY: a platform of this process by contract.
        let find = |name: &CStr| unsafe { call::extension_function(platform, name) };
        let (alloc_host, alloc_device) = (find(c"clHostMemAllocINTEL")?, find(c"clDeviceMemAllocINTEL")?);
        let (alloc_shared, free) = (find(c"clSharedMemAllocINTEL")?, find(c"clMemFreeINTEL")?);
        let (alloc_info, set_arg) =
            (find(c"clGetMemAllocInfoINTEL")?, find(c"clSetKernelArgMemPointerINTEL")?);
        let (memcpy, fill) = (find(c"clEnqueueMemcpyINTEL")?, find(c"clEnqueueMemFillINTEL")?);
        // SAFETY: the platform gives these addresses for the names, and the extension fixes the names' signatures.
        unsafe {
            Some(Self {
                alloc_host: mem::transmute::<NonNull<c_void>, AllocHost>(alloc_host),
                alloc_device: mem::transmute::<NonNull<c_void>, AllocDevice>(alloc_device),
                alloc_shared: mem::transmute::<NonNull<c_void>, AllocDevice>(alloc_shared),
                free: mem::transmute::<NonNull<c_void>, Free>(free),
                alloc_info: mem::transmute::<NonNull<c_void>, AllocInfo>(alloc_info),
                set_arg: mem::transmute::<NonNull<c_void>, SetArg>(set_arg),
                memcpy: mem::transmute::<NonNull<c_void>, Memcpy>(memcpy),
                fill: mem::transmute::<NonNull<c_void>, Fill>(fill),
            })
        }
    }

    /// Memory of a kind, aligned as its largest type or to more.
    ///
    /// # Safety
    /// - `context` is live and has `device`.
    pub(crate) unsafe fn allocate(
        &self,
        kind: MemoryKind,
        context: cl_context,
        device: cl_device_id,
        bytes: usize,
        alignment: cl_uint,
    ) -> Returned<NonNull<c_void>> {
        let mut code = SUCCESS;
        // SAFETY: live handles by contract; no properties; the code is written during the call.
        let pointer = unsafe {
            match kind {
                MemoryKind::UsmHost => {
                    (self.alloc_host)(context, ptr::null(), bytes, alignment, &raw mut code)
                }
                MemoryKind::UsmDevice => {
                    (self.alloc_device)(context, device, ptr::null(), bytes, alignment, &raw mut code)
                }
                _ => (self.alloc_shared)(context, device, ptr::null(), bytes, alignment, &raw mut code),
            }
        };
        match NonNull::new(pointer) {
            Some(pointer) if code == SUCCESS => Ok(pointer),
            _ if code == SUCCESS => Err(NO_VALUE),
            _ => Err(code),
        }
    }

    /// Gives memory back.
    ///
    /// # Safety
    /// - `context` is live, `pointer` came from [`Usm::allocate`] in it and is given back once.
    /// - No command uses the memory.
    pub(crate) unsafe fn free(&self, context: cl_context, pointer: NonNull<c_void>) -> Returned<()> {
        // SAFETY: by contract.
        done(unsafe { (self.free)(context, pointer.as_ptr()) })
    }

    /// The allocation that a pointer leads into; none for a pointer that the driver does not know.
    pub(crate) fn find(
        &self,
        context: &crate::driver::handle::Context,
        pointer: *const c_void,
    ) -> Result<Option<Found>> {
        let Some(kind) = (match self.info::<cl_uint>(context, pointer, ALLOC_TYPE)? {
            TYPE_HOST => Some(MemoryKind::UsmHost),
            TYPE_DEVICE => Some(MemoryKind::UsmDevice),
            TYPE_SHARED => Some(MemoryKind::UsmShared),
            _ => None,
        }) else {
            return Ok(None);
        };
        let base: usize = self.info(context, pointer, ALLOC_BASE_PTR)?;
        let bytes: usize = self.info(context, pointer, ALLOC_SIZE)?;
        Ok(Some(Found { kind, base, bytes }))
    }

    /// Binds a pointer to a kernel's parameter.
    ///
    /// # Safety
    /// - `kernel` is live and no other thread uses it.
    pub(crate) unsafe fn set_arg(
        &self,
        kernel: cl_kernel,
        index: cl_uint,
        pointer: *const c_void,
    ) -> Returned<()> {
        // SAFETY: by contract.
        done(unsafe { (self.set_arg)(kernel, index, pointer) })
    }

    /// Enqueues a copy of bytes between pointers, which does not block.
    ///
    /// # Safety
    /// - `queue` is live; both ranges are valid until the command has ended.
    /// - `events` points to `count` live events, or is null for none.
    pub(crate) unsafe fn enqueue_memcpy(
        &self,
        queue: cl_command_queue,
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
        (count, events): (cl_uint, *const cl_event),
    ) -> Returned<cl_event> {
        let mut event = ptr::null_mut();
        // SAFETY: by contract; the event is written during the call.
        done(unsafe { (self.memcpy)(queue, 0, to, from, bytes, count, events, &raw mut event) })?;
        Ok(event)
    }

    /// Enqueues a write of bytes, which the driver copies during the call.
    ///
    /// # Safety
    /// - `queue` is live; `to` is valid for the bytes, and a multiple of their number, until the command has ended.
    /// - Their number is a power of two up to 128.
    /// - `events` points to `count` live events, or is null for none.
    pub(crate) unsafe fn enqueue_write(
        &self,
        queue: cl_command_queue,
        to: *mut c_void,
        bytes: &[u8],
        (count, events): (cl_uint, *const cl_event),
    ) -> Returned<cl_event> {
        let mut event = ptr::null_mut();
        let (pattern, size) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: by contract; the event is written during the call.
        done(unsafe { (self.fill)(queue, to, pattern, size, size, count, events, &raw mut event) })?;
        Ok(event)
    }

    fn info<T: Copy + Default>(
        &self,
        context: &crate::driver::handle::Context,
        pointer: *const c_void,
        what: cl_uint,
    ) -> Result<T> {
        let mut value = T::default();
        let (size, place) = (size_of::<T>(), ptr::from_mut(&mut value).cast());
        // SAFETY: a live context; the driver only compares the pointer; the value is plain and has the size that is named.
        done(unsafe { (self.alloc_info)(context.raw(), pointer, what, size, place, ptr::null_mut()) })
            .check("look up pointer", "clGetMemAllocInfoINTEL")?;
        Ok(value)
    }
}

impl fmt::Debug for Usm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Usm")
    }
}

/// The kinds that a device reads and writes, by its own word.
pub(crate) fn kinds(device: cl_device_id) -> Vec<MemoryKind> {
    [
        (HOST_CAPABILITIES, MemoryKind::UsmHost),
        (DEVICE_CAPABILITIES, MemoryKind::UsmDevice),
        (SHARED_CAPABILITIES, MemoryKind::UsmShared),
        (SYSTEM_CAPABILITIES, MemoryKind::System),
    ]
    .into_iter()
    .filter(|&(info, _)| call::device_value::<u64>(device, info).is_ok_and(|bits| bits & ACCESS != 0))
    .map(|(_, kind)| kind)
    .collect()
}

fn done(code: cl_int) -> Returned<()> {
    if code == SUCCESS { Ok(()) } else { Err(code) }
}
