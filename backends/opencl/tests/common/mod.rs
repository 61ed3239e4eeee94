//! Raw OpenCL objects that tests own.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "each test file uses some of it"
)]

pub mod places;
pub mod pointers;
pub mod threads;

use std::ffi::c_void;

use anydnn_backend::op::{Eltwise, Op};
use anydnn_backend::{Arg, DataType, Engine, Memory, MemoryDesc, MemoryKind, PrimitiveDesc, Range, Stream};
use anydnn_opencl::{OpenCl, OpenClEngine, OpenClEvent, OpenClMemory, OpenClPrimitive, OpenClStream};
use cl3::types::{cl_context, cl_event, cl_mem};

pub fn bytes_desc(bytes: usize) -> MemoryDesc {
    MemoryDesc::new([bytes], DataType::U8)
}

pub fn memory(engine: &OpenClEngine, bytes: usize) -> OpenClMemory {
    engine.create_memory(&bytes_desc(bytes), MemoryKind::Buffer).unwrap()
}

pub fn floats(elements: usize) -> MemoryDesc {
    MemoryDesc::new([elements], DataType::F32)
}

/// `dst = alpha * src + beta`
pub fn linear(
    engine: &OpenClEngine,
    elements: usize,
    (alpha, beta): (f32, f32),
    label: &str,
) -> OpenClPrimitive {
    let op = Op::Eltwise(Eltwise::Linear { alpha, beta });
    let desc = PrimitiveDesc::builder(op).src(floats(elements)).dst(floats(elements)).label(label);
    engine.create_primitive(&desc.build().unwrap()).unwrap()
}

pub fn src_dst(src: &OpenClMemory, dst: &OpenClMemory) -> [(Arg, OpenClMemory); 2] {
    [(Arg::SRC, src.clone()), (Arg::DST, dst.clone())]
}

pub fn whole(memory: &OpenClMemory, bytes: usize) -> Range<OpenCl> {
    Range { memory: memory.clone(), offset: 0, bytes }
}

pub fn to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

pub fn to_floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|chunk| f32::from_ne_bytes(*chunk)).collect()
}

/// Lets a thread do something with a raw handle a moment later.
pub fn later<T>(raw: *mut c_void, act: impl FnOnce(*mut c_void) + Send, meanwhile: impl FnOnce() -> T) -> T {
    let address = raw.expose_provenance();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(30));
            act(std::ptr::with_exposed_provenance_mut(address));
        });
        meanwhile()
    })
}

fn count(bytes: Result<Vec<u8>, i32>) -> u32 {
    u32::from_ne_bytes(bytes.unwrap().try_into().unwrap())
}

pub fn context_count(context: cl_context) -> u32 {
    count(cl3::context::get_context_data(context, cl3::context::CL_CONTEXT_REFERENCE_COUNT))
}

pub fn queue_count(queue: *mut c_void) -> u32 {
    count(cl3::command_queue::get_command_queue_data(queue, cl3::command_queue::CL_QUEUE_REFERENCE_COUNT))
}

pub fn mem_count(mem: cl_mem) -> u32 {
    count(cl3::memory::get_mem_object_data(mem, cl3::memory::CL_MEM_REFERENCE_COUNT))
}

pub fn event_count(event: cl_event) -> u32 {
    count(cl3::event::get_event_data(event, cl3::event::CL_EVENT_REFERENCE_COUNT))
}

pub fn device_count(device: *mut c_void) -> u32 {
    count(cl3::device::get_device_data(device, cl3::device::CL_DEVICE_REFERENCE_COUNT))
}

/// A context of the test's own on the engine's device.
pub fn context(engine: &OpenClEngine) -> cl_context {
    cl3::context::create_context(&[engine.raw_device()], std::ptr::null(), None, std::ptr::null_mut())
        .unwrap()
}

/// A queue of the test's own; the properties are those of `clCreateCommandQueue`.
pub fn queue(engine: &OpenClEngine, context: cl_context, properties: u64) -> *mut c_void {
    let list = [u64::from(cl3::command_queue::CL_QUEUE_PROPERTIES), properties, 0];
    unsafe {
        cl3::command_queue::create_command_queue_with_properties(context, engine.raw_device(), list.as_ptr())
    }
    .unwrap()
}

/// Gives back the last reference to a queue of the test's own. Intel's runtime lets go of an out-of-order queue a while after its last
/// command, and would wait for itself if that were the last reference.
pub fn release_queue(queue: *mut c_void) {
    use cl3::command_queue as cl;
    let bits = cl::get_command_queue_data(queue, cl::CL_QUEUE_PROPERTIES).unwrap();
    let bits = u64::from_ne_bytes(bits.try_into().unwrap());
    if bits & cl::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE != 0 {
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    unsafe { cl::release_command_queue(queue) }.unwrap();
}

pub fn buffer(context: cl_context, bytes: usize) -> cl_mem {
    let flags = cl3::memory::CL_MEM_READ_WRITE;
    unsafe { cl3::memory::create_buffer(context, flags, bytes, std::ptr::null_mut()) }.unwrap()
}

/// A user event of the test's own, and the same wrapped.
pub fn user_event(engine: &OpenClEngine) -> (cl_event, OpenClEvent) {
    let raw = cl3::event::create_user_event(engine.raw_context()).unwrap();
    (raw, unsafe { OpenClEvent::from_raw(engine, raw) }.unwrap())
}

pub fn set(event: cl_event, status: i32) {
    cl3::event::set_user_event_status(event, status).unwrap();
}

pub fn release_event(event: cl_event) {
    unsafe { cl3::event::release_event(event) }.unwrap();
}

/// Waits for what a driver does a moment later on a thread of its own.
pub fn eventually(condition: impl Fn() -> bool) {
    for _ in 0..2000 {
        if condition() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("it did not happen within two seconds");
}

/// A part of a buffer object.
pub fn sub_buffer(buffer: cl_mem, origin: usize, size: usize) -> cl_mem {
    use cl3::memory::{CL_BUFFER_CREATE_TYPE_REGION, CL_MEM_READ_WRITE, cl_buffer_region, create_sub_buffer};
    let region = cl_buffer_region { origin, size };
    let region = (&raw const region).cast();
    unsafe { create_sub_buffer(buffer, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, region) }.unwrap()
}

pub fn range(memory: &OpenClMemory, offset: usize, bytes: usize) -> Range<OpenCl> {
    Range { memory: memory.clone(), offset, bytes }
}

/// All bytes of a memory.
pub fn read_all(stream: &OpenClStream, memory: &OpenClMemory) -> Vec<u8> {
    let mut bytes = vec![0; memory.region().bytes];
    stream.read(memory, 0, &mut bytes, &[]).unwrap();
    bytes
}

/// Bytes that differ from their neighbours and between seeds.
pub fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|i| (i as u8).wrapping_mul(37).wrapping_add(seed)).collect()
}
