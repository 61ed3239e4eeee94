//! Bytes around an allocation in a device's memory, which are compared when kernels have finished.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::context::{self, Way};
use crate::handle::{Context, Event, Mem, Queue};
use crate::zone::{self, Damage};
use crate::{below, extension};

/// The bytes before and behind an allocation, unless sub-buffers need more.
const ZONE: usize = 4096;
const NO_EVENTS: *const Event = std::ptr::null();
const NO_EVENT: *mut Event = std::ptr::null_mut();

/// An allocation with a zone before it and one behind. Given back to the driver when dropped.
#[derive(Debug)]
pub(crate) struct Zones {
    context: Context,
    memory: Memory,
    /// The allocation's bytes.
    size: usize,
    /// The bytes of each zone.
    zone: usize,
    /// Whether freeing waits for the commands that use the memory.
    waits: AtomicBool,
}

/// The memory, zones included.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Memory {
    /// A buffer, of which the program has a sub-buffer.
    Buffer(Mem),
    /// The address of shared virtual memory.
    Svm(usize),
    /// The address of unified shared memory, and the place of its platform.
    Usm(usize, usize),
}

/// The bytes of each zone in a context.
pub(crate) fn zone(way: Way) -> usize {
    ZONE.next_multiple_of(way.base_align.max(1))
}

impl Zones {
    pub(crate) fn new(context: Context, memory: Memory, size: usize, zone: usize) -> Self {
        Self { context, memory, size, zone, waits: AtomicBool::new(false) }
    }

    /// The address of the allocation. `None` for a buffer.
    pub(crate) fn start(&self) -> Option<usize> {
        self.span().map(|(low, _)| low + self.zone)
    }

    /// The addresses of the memory: the first, and the one behind the last. `None` for a buffer.
    pub(crate) fn span(&self) -> Option<(usize, usize)> {
        match self.memory {
            Memory::Buffer(_) => None,
            Memory::Svm(base) | Memory::Usm(base, _) => Some((base, base + self.size + 2 * self.zone)),
        }
    }

    /// Lets freeing wait for the commands that use the memory.
    pub(crate) fn wait_when_freed(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }

    /// Fills the zones, and the allocation where it has no contents yet. Says whether that went well.
    pub(crate) fn fill(&self, contents: Option<*const u8>) -> bool {
        let Some(own) = context::own_queue(self.context) else { return false };
        let queue = own.0;
        let zones = self.zones().into_iter().all(|at| self.fill_zone(queue, at));
        let filled = match contents {
            Some(contents) => self.write(queue, self.zone, contents.cast(), self.size),
            None => zone::filled(self.size)
                .into_iter()
                .filter(|part| !part.is_empty())
                .all(|part| self.fill_bytes(queue, self.zone + part.start, part.len())),
        };
        // SAFETY: the layer's own queue.
        zones && filled && unsafe { below::clFinish(queue) } == 0
    }

    /// What has been overwritten beside the allocation since the last time; `None` when the zones cannot be read.
    pub(crate) fn damage(&self) -> Option<Vec<Damage>> {
        let own = context::own_queue(self.context)?;
        let queue = own.0;
        let mut found = Vec::new();
        let mut now = vec![0_u8; self.zone];
        for at in self.zones() {
            if !self.read(queue, at, now.as_mut_ptr().cast(), now.len()) {
                return None;
            }
            if let Some(damage) = zone::damage(&now, at, at as isize - self.zone as isize) {
                found.push(damage);
                self.fill_zone(queue, at);
            }
        }
        Some(found)
    }

    /// The offsets of the zones in the memory.
    fn zones(&self) -> [usize; 2] {
        [0, self.zone + self.size]
    }

    fn fill_zone(&self, queue: Queue, at: usize) -> bool {
        let mut bytes = vec![0; self.zone];
        zone::fill(&mut bytes, at);
        self.write(queue, at, bytes.as_ptr().cast(), bytes.len())
    }

    fn write(&self, queue: Queue, at: usize, from: *const c_void, bytes: usize) -> bool {
        // SAFETY: within the memory; the call waits until the bytes are there.
        let code = unsafe {
            match self.memory {
                Memory::Buffer(parent) => {
                    below::clEnqueueWriteBuffer(queue, parent, 1, at, bytes, from, 0, NO_EVENTS, NO_EVENT)
                }
                Memory::Svm(base) => {
                    let to = pointer(base + at);
                    below::clEnqueueSVMMemcpy(queue, 1, to, from, bytes, 0, NO_EVENTS, NO_EVENT)
                }
                Memory::Usm(base, place) => {
                    let to = pointer(base + at);
                    extension::clEnqueueMemcpyINTEL(place, queue, 1, to, from, bytes, 0, NO_EVENTS, NO_EVENT)
                }
            }
        };
        code == 0
    }

    fn read(&self, queue: Queue, at: usize, to: *mut c_void, bytes: usize) -> bool {
        // SAFETY: within the memory, to as much room; the call waits until the bytes are there.
        let code = unsafe {
            match self.memory {
                Memory::Buffer(parent) => {
                    below::clEnqueueReadBuffer(queue, parent, 1, at, bytes, to, 0, NO_EVENTS, NO_EVENT)
                }
                Memory::Svm(base) => {
                    let from = pointer(base + at);
                    below::clEnqueueSVMMemcpy(queue, 1, to, from, bytes, 0, NO_EVENTS, NO_EVENT)
                }
                Memory::Usm(base, place) => {
                    let from = pointer(base + at);
                    extension::clEnqueueMemcpyINTEL(place, queue, 1, to, from, bytes, 0, NO_EVENTS, NO_EVENT)
                }
            }
        };
        code == 0
    }

    fn fill_bytes(&self, queue: Queue, at: usize, bytes: usize) -> bool {
        let byte = zone::FRESH;
        let pattern = (&raw const byte).cast();
        // SAFETY: within the memory; drivers copy the pattern before they return.
        let code = unsafe {
            match self.memory {
                Memory::Buffer(parent) => {
                    below::clEnqueueFillBuffer(queue, parent, pattern, 1, at, bytes, 0, NO_EVENTS, NO_EVENT)
                }
                Memory::Svm(base) => {
                    let to = pointer(base + at);
                    below::clEnqueueSVMMemFill(queue, to, pattern, 1, bytes, 0, NO_EVENTS, NO_EVENT)
                }
                Memory::Usm(base, place) => {
                    let to = pointer(base + at);
                    extension::clEnqueueMemFillINTEL(
                        place, queue, to, pattern, 1, bytes, 0, NO_EVENTS, NO_EVENT,
                    )
                }
            }
        };
        code == 0
    }
}

impl Drop for Zones {
    fn drop(&mut self) {
        // SAFETY: the layer's own reference, and addresses that the driver gave, given back once.
        unsafe {
            match self.memory {
                Memory::Buffer(parent) => {
                    below::clReleaseMemObject(parent);
                }
                Memory::Svm(base) => below::clSVMFree(self.context, pointer(base)),
                Memory::Usm(base, place) if *self.waits.get_mut() => {
                    extension::clMemBlockingFreeINTEL(place, self.context, pointer(base));
                }
                Memory::Usm(base, place) => {
                    extension::clMemFreeINTEL(place, self.context, pointer(base));
                }
            }
        }
    }
}

fn pointer(address: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address)
}
