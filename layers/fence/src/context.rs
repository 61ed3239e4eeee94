//! Contexts: how memory in them is fenced, and the references that the program owns.

use std::ffi::c_void;
use std::sync::Arc;

use crate::allocation::{Allocation, Fence, FreedBy};
use crate::handle::{Context, Device, Platform, Queue};
use crate::pages::Block;
use crate::settings::{MAX_ALIGN, Mode, settings};
use crate::{below, cl, extension, state};

/// What is known of a context.
#[derive(Debug)]
pub(crate) struct ContextState {
    /// The references that the program owns.
    references: usize,
    /// How memory is fenced, once that has been found out.
    way: Option<Way>,
    /// The layer's own queue, for canaries.
    queue: Option<Arc<OwnQueue>>,
}

/// A queue of the layer's own, released when nobody uses it any more.
#[derive(Debug)]
pub(crate) struct OwnQueue(pub(crate) Queue);

impl Drop for OwnQueue {
    fn drop(&mut self) {
        // SAFETY: the layer's own queue.
        unsafe { below::clReleaseCommandQueue(self.0) };
    }
}

/// How the memory of a context is fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// Whether by inaccessible pages; else by canaries.
    pub(crate) pages: bool,
    pub(crate) platform: Platform,
    /// What the offset of a sub-buffer is a multiple of, in bytes.
    pub(crate) base_align: usize,
}

pub(crate) unsafe extern "C" fn create(
    properties: *const isize,
    count: u32,
    devices: *const Device,
    notify: *mut c_void,
    user_data: *mut c_void,
    code: *mut i32,
) -> Context {
    // SAFETY: the program's own call.
    let context = unsafe { below::clCreateContext(properties, count, devices, notify, user_data, code) };
    created(context)
}

pub(crate) unsafe extern "C" fn create_from_type(
    properties: *const isize,
    kind: u64,
    notify: *mut c_void,
    user_data: *mut c_void,
    code: *mut i32,
) -> Context {
    // SAFETY: the program's own call.
    let context = unsafe { below::clCreateContextFromType(properties, kind, notify, user_data, code) };
    created(context)
}

pub(crate) unsafe extern "C" fn retain(context: Context) -> i32 {
    // SAFETY: the program's own call.
    let code = unsafe { below::clRetainContext(context) };
    if let Some(known) = state::lock().contexts.get_mut(&context).filter(|_| code == 0) {
        known.references += 1;
    }
    code
}

pub(crate) unsafe extern "C" fn release(context: Context) -> i32 {
    let mut state = state::lock();
    let last = state.contexts.get_mut(&context).is_some_and(|known| {
        known.references = known.references.saturating_sub(1);
        known.references == 0
    });
    drop(state);
    if last {
        let_go(context);
        let gone = state::lock().contexts.remove(&context);
        // Dropped without the lock, since it may hold a queue.
        drop(gone);
    }
    // SAFETY: the program's own call.
    unsafe { below::clReleaseContext(context) }
}

pub(crate) unsafe extern "C" fn info(
    context: Context,
    info: u32,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> i32 {
    if info == cl::CONTEXT_REFERENCE_COUNT {
        // What the layer keeps may hold references.
        let_go(context);
    }
    // SAFETY: the program's own call.
    unsafe { below::clGetContextInfo(context, info, size, value, size_ret) }
}

/// How memory of a context is fenced; found out when the first is allocated. `None` when the layer is off or the context wrong.
pub(crate) fn way(context: Context) -> Option<Way> {
    let mode = settings()?.mode;
    if let Some(way) = state::lock().contexts.get(&context).and_then(|known| known.way) {
        return Some(way);
    }
    let devices = devices(context);
    let first = *devices.first()?;
    let is_cpu = |device: &Device| query::<u64>(*device, cl::DEVICE_TYPE) & cl::DEVICE_TYPE_CPU != 0;
    let why_not = match mode {
        Mode::Off => return None,
        Mode::Canary => Some("as asked for".to_owned()),
        Mode::Over | Mode::Under if !devices.iter().all(is_cpu) => {
            Some("its memory is not the process's".to_owned())
        }
        Mode::Over | Mode::Under if !uses_memory_in_place(context, first, mode) => {
            Some("its driver does not use memory where it is".to_owned())
        }
        Mode::Over | Mode::Under => None,
    };
    let base_align = |device: &Device| query::<u32>(*device, cl::DEVICE_MEM_BASE_ADDR_ALIGN) as usize / 8;
    let way = Way {
        pages: why_not.is_none(),
        platform: Platform::from_address(query::<usize>(first, cl::DEVICE_PLATFORM)),
        base_align: devices.iter().map(base_align).max().unwrap_or_default(),
    };
    let name = why_not.map(|why| format!("{}: {why}", name(first)));
    let mut state = state::lock();
    state.tally.notes.extend(name);
    let known = state.contexts.entry(context).or_insert(ContextState::new());
    Some(*known.way.insert(way))
}

/// The layer's own queue in a context.
pub(crate) fn own_queue(context: Context) -> Option<Arc<OwnQueue>> {
    let known = state::lock().contexts.get(&context).and_then(|known| known.queue.clone());
    if known.is_some() {
        return known;
    }
    let device = *devices(context).first()?;
    let mut code = 0;
    // SAFETY: a context and a device of its own.
    let queue = unsafe { below::clCreateCommandQueue(context, device, 0, &raw mut code) };
    if queue.is_null() {
        return None;
    }
    let queue = Arc::new(OwnQueue(queue));
    let mut state = state::lock();
    let known = state.contexts.entry(context).or_insert(ContextState::new());
    // Another thread may have been faster.
    let used = Arc::clone(known.queue.get_or_insert_with(|| Arc::clone(&queue)));
    drop(state);
    Some(used)
}

/// Gives memory that the program has released back to the driver.
pub(crate) fn give_back(released: Vec<Allocation>) {
    for allocation in released {
        if let Fence::DriverPages(block, freed) = allocation.fence {
            block.open();
            let base = std::ptr::with_exposed_provenance_mut(freed.base);
            // SAFETY: the driver's own address, freed once.
            unsafe {
                match freed.by {
                    FreedBy::Svm => below::clSVMFree(allocation.context, base),
                    FreedBy::Usm(place) => {
                        extension::clMemFreeINTEL(place, allocation.context, base);
                    }
                }
            }
        }
    }
}

impl ContextState {
    fn new() -> Self {
        Self { references: 1, way: None, queue: None }
    }
}

fn created(context: Context) -> Context {
    if !context.is_null() {
        let gone = state::lock().contexts.insert(context, ContextState::new());
        drop(gone);
    }
    context
}

/// Gives back everything that the layer holds in a context for itself.
fn let_go(context: Context) {
    let mut state = state::lock();
    let released = state.take_released(context);
    let queue = state.contexts.get_mut(&context).and_then(|known| known.queue.take());
    drop(state);
    give_back(released);
    // Dropped without the lock, since that is a call into the driver.
    drop(queue);
}

fn devices(context: Context) -> Vec<Device> {
    let mut bytes = 0;
    let null = std::ptr::null_mut();
    // SAFETY: a place for the size.
    let code = unsafe { below::clGetContextInfo(context, cl::CONTEXT_DEVICES, 0, null, &raw mut bytes) };
    let mut devices = vec![Device::NULL; if code == 0 { bytes / size_of::<Device>() } else { 0 }];
    let room = size_of_val(devices.as_slice());
    let first = devices.as_mut_ptr().cast();
    // SAFETY: room for as many bytes as the driver said.
    unsafe { below::clGetContextInfo(context, cl::CONTEXT_DEVICES, room, first, std::ptr::null_mut()) };
    devices
}

/// What a device says of itself; zero when it says nothing.
fn query<T: Copy + Default>(device: Device, info: u32) -> T {
    let mut value = T::default();
    let place = (&raw mut value).cast();
    // SAFETY: a place of the size that is told.
    unsafe { below::clGetDeviceInfo(device, info, size_of::<T>(), place, std::ptr::null_mut()) };
    value
}

fn name(device: Device) -> String {
    let mut bytes = [0_u8; 256];
    let place = bytes.as_mut_ptr().cast();
    // SAFETY: a place of the size that is told.
    unsafe { below::clGetDeviceInfo(device, cl::DEVICE_NAME, 256, place, std::ptr::null_mut()) };
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).trim().to_owned()
}

/// Whether commands on a buffer over given memory work on that memory.
fn uses_memory_in_place(context: Context, device: Device, mode: Mode) -> bool {
    const BYTES: usize = 64;
    let Some(settings) = settings() else { return false };
    let Some(block) = Block::map(BYTES, settings.align.min(MAX_ALIGN), mode) else { return false };
    block.fill(None);
    let start = std::ptr::with_exposed_provenance_mut::<u8>(block.start);
    let (byte, mut code) = (0x5A_u8, 0);
    // SAFETY: handles of this function's own, and memory of the sizes that are told; the command has finished before that is read.
    let in_place = unsafe {
        let flags = cl::MEM_USE_HOST_PTR;
        let buffer = below::clCreateBuffer(context, flags, BYTES, start.cast(), &raw mut code);
        let queue = below::clCreateCommandQueue(context, device, 0, &raw mut code);
        let pattern = (&raw const byte).cast();
        let (none, event) = (std::ptr::null(), std::ptr::null_mut());
        let filled = !buffer.is_null()
            && !queue.is_null()
            && below::clEnqueueFillBuffer(queue, buffer, pattern, 1, 0, BYTES, 0, none, event) == 0
            && below::clFinish(queue) == 0
            && std::slice::from_raw_parts(start, BYTES).iter().all(|now| *now == byte);
        if !queue.is_null() {
            below::clReleaseCommandQueue(queue);
        }
        if !buffer.is_null() {
            below::clReleaseMemObject(buffer);
        }
        filled
    };
    // The driver may be done with the memory later than now, so that its addresses are kept.
    block.close();
    in_place
}
