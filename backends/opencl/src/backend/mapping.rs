//! Mapping memory to the host, each kind in its way.

use std::ffi::c_void;
use std::ptr;
use std::slice;

use anydnn_backend::{MapMode, Mapping, Memory, MemoryKind, Result, check_host_memory};
use cl3::command_queue as cl;
use cl3::memory::{CL_MAP_READ, CL_MAP_WRITE, CL_MAP_WRITE_INVALIDATE_REGION};
use cl3::types::{CL_BLOCKING, cl_event, cl_map_flags};

use crate::backend::memory::OpenClMemory;
use crate::driver::call::{Check, Returned};
use crate::driver::handle;
use crate::memory::allocation::Binding;

/// Maps memory through the engine's service queue.
pub(crate) fn map(memory: &OpenClMemory, mode: MapMode) -> Result<Box<dyn Mapping>> {
    let bytes = memory.region().bytes;
    let mut mapping = DeviceMapping { memory: memory.clone(), way: Way::Nothing, bytes, mode };
    if bytes > 0 {
        let (part, maps) = ((memory.offset(), bytes), &memory.allocation.maps);
        mapping.way = match (memory.kind(), memory.binding()) {
            (_, Binding::Mem(_)) => Way::Buffer(maps.open(part, mode, || map_buffer(memory, bytes, mode))?),
            (MemoryKind::UsmDevice, _) => Way::Staged(stage(memory, bytes, mode)?),
            (MemoryKind::Svm, _) => {
                // Mappings of one address are told apart by nothing, so each allows everything.
                let mode = MapMode::ReadWrite;
                Way::Svm(maps.open(part, mode, || map_svm(memory, bytes, mode))?)
            }
            _ => Way::Direct(memory.raw_pointer()),
        };
    }
    Ok(Box::new(mapping))
}

/// Bytes of the device as the host sees them.
#[derive(Debug)]
struct DeviceMapping {
    memory: OpenClMemory,
    way: Way,
    bytes: usize,
    mode: MapMode,
}

/// How the bytes came to the host, and go back.
#[derive(Debug)]
enum Way {
    Nothing,
    /// The driver's mapping of a buffer object.
    Buffer(*mut c_void),
    /// Coarse-grained memory opened to the host.
    Svm(*mut c_void),
    /// A copy, written back at the end.
    Staged(Vec<u8>),
    /// The bytes themselves.
    Direct(*mut c_void),
}

// SAFETY: the mapped bytes belong to this value alone and are valid on any thread.
unsafe impl Send for DeviceMapping {}

fn map_buffer(memory: &OpenClMemory, bytes: usize, mode: MapMode) -> Result<*mut c_void> {
    let queue = memory.engine.service_queue()?;
    let mut pointer = ptr::null_mut();
    let (mem, place) = (memory.raw_mem(), &raw mut pointer);
    // SAFETY: live handles; the region lies inside the buffer; no wait list.
    let event = unsafe {
        let (flags, offset) = (flags(mode), memory.offset());
        cl::enqueue_map_buffer(
            queue.raw(),
            mem,
            CL_BLOCKING,
            flags,
            offset,
            bytes,
            &mut *place,
            0,
            ptr::null(),
        )
    };
    given_back(event, "map memory", "clEnqueueMapBuffer")?;
    Ok(pointer)
}

fn map_svm(memory: &OpenClMemory, bytes: usize, mode: MapMode) -> Result<*mut c_void> {
    let queue = memory.engine.service_queue()?;
    let pointer = memory.raw_pointer();
    // SAFETY: a live queue; the region lies inside the allocation; no wait list.
    let event =
        unsafe { cl::enqueue_svm_map(queue.raw(), CL_BLOCKING, flags(mode), pointer, bytes, 0, ptr::null()) };
    given_back(event, "map memory", "clEnqueueSVMMap")?;
    Ok(pointer)
}

fn stage(memory: &OpenClMemory, bytes: usize, mode: MapMode) -> Result<Vec<u8>> {
    check_host_memory(bytes, || "mapped memory".into())?;
    let mut copy = vec![0; bytes];
    if mode == MapMode::Write {
        return Ok(copy);
    }
    let (to, from) = (copy.as_mut_ptr().cast(), memory.raw_pointer());
    transfer(memory, to, from, copy, "map memory")
}

/// Copies between the device's bytes and a copy on the host through the service queue, and waits.
fn transfer(
    memory: &OpenClMemory,
    to: *mut c_void,
    from: *const c_void,
    copy: Vec<u8>,
    what: &str,
) -> Result<Vec<u8>> {
    let Binding::Usm(_, usm) = memory.binding() else { return Ok(copy) };
    let queue = memory.engine.service_queue()?;
    // SAFETY: a live queue; both ranges have as many bytes as the copy and outlive the command, which is waited for.
    let event = unsafe { usm.enqueue_memcpy(queue.raw(), to, from, copy.len(), (0, ptr::null())) };
    let event = owned(event, what, "clEnqueueMemcpyINTEL")?;
    if let Err(code) = cl3::event::wait_for_events(&[event.raw()]) {
        if cl::finish(queue.raw()).is_err() {
            // Nobody knows when the command ends, and it must not touch bytes that were given back.
            std::mem::forget(copy);
        }
        return Err(code).check(what, "clWaitForEvents");
    }
    Ok(copy)
}

impl DeviceMapping {
    fn end(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.way, Way::Nothing) {
            Way::Nothing | Way::Direct(_) => Ok(()),
            Way::Buffer(pointer) => self.memory.allocation.maps.close(pointer, || {
                let (queue, mem) = (self.memory.engine.service_queue()?, self.memory.raw_mem());
                // SAFETY: live handles; the pointer came from mapping this buffer and is given back once.
                let event =
                    unsafe { cl::enqueue_unmap_mem_object(queue.raw(), mem, pointer, 0, ptr::null()) };
                ended(event, "unmap memory", "clEnqueueUnmapMemObject")
            }),
            Way::Svm(pointer) => self.memory.allocation.maps.close(pointer, || {
                let queue = self.memory.engine.service_queue()?;
                // SAFETY: a live queue; the pointer is mapped and is given back once.
                let event = unsafe { cl::enqueue_svm_unmap(queue.raw(), pointer, 0, ptr::null()) };
                ended(event, "unmap memory", "clEnqueueSVMUnmap")
            }),
            Way::Staged(copy) if self.mode == MapMode::Read => {
                drop(copy);
                Ok(())
            }
            Way::Staged(copy) => {
                let (to, from) = (self.memory.raw_pointer(), copy.as_ptr().cast());
                transfer(&self.memory, to, from, copy, "unmap memory").map(drop)
            }
        }
    }
}

impl Mapping for DeviceMapping {
    fn bytes(&self) -> &[u8] {
        match &self.way {
            Way::Nothing => &[],
            Way::Staged(copy) => copy,
            // SAFETY: the host may read this many bytes at the pointer until the mapping ends; the memory is held by it.
            Way::Buffer(at) | Way::Svm(at) | Way::Direct(at) => unsafe {
                slice::from_raw_parts(at.cast(), self.bytes)
            },
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        if self.mode == MapMode::Read {
            return &mut [];
        }
        match &mut self.way {
            Way::Nothing => &mut [],
            Way::Staged(copy) => copy,
            // SAFETY: as above, and the borrow of this value makes the access exclusive.
            Way::Buffer(at) | Way::Svm(at) | Way::Direct(at) => unsafe {
                slice::from_raw_parts_mut(at.cast(), self.bytes)
            },
        }
    }

    fn unmap(mut self: Box<Self>) -> Result<()> {
        self.end()
    }
}

impl Drop for DeviceMapping {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, "memory was not unmapped");
        }
    }
}

fn flags(mode: MapMode) -> cl_map_flags {
    match mode {
        MapMode::Read => CL_MAP_READ,
        MapMode::Write => CL_MAP_WRITE_INVALIDATE_REGION,
        MapMode::ReadWrite => CL_MAP_READ | CL_MAP_WRITE,
    }
}

/// Waits for a command of the service queue and gives its event back.
fn ended(event: Returned<cl_event>, operation: &str, call: &str) -> Result<()> {
    let event = owned(event, operation, call)?;
    cl3::event::wait_for_events(&[event.raw()]).check(operation, "clWaitForEvents")
}

/// Gives back the event of a call that has blocked: there is nothing to wait for, and no failure after which the bytes would stay
/// mapped.
fn given_back(event: Returned<cl_event>, operation: &str, call: &str) -> Result<()> {
    owned(event, operation, call).map(drop)
}

fn owned(event: Returned<cl_event>, operation: &str, call: &str) -> Result<handle::Event> {
    let event = event.check(operation, call)?;
    // SAFETY: the driver returned this event with one reference for the caller.
    unsafe { handle::Event::from_owned(event) }
}
