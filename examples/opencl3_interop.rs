//! A program of somebody else, written with `opencl3`, that uses anydnn for one step of its work.
//!
//! The program has a context, an out-of-order queue and kernels of its own. Its first kernel turns raw pixels into the network's input,
//! anydnn runs the digits network on the program's buffers and queue, and its second kernel takes the most likely class. Events alone
//! order the three; nothing is copied to the host in between.
//!
//! `cargo run --release --example opencl3_interop [part of a platform's name]`

use std::error::Error;
use std::ptr;

use anydnn::backend::{DataType, MemoryDesc};
use anydnn::compile::{CompileOptions, CompiledGraph};
use anydnn::model::Model;
use anydnn_opencl::{OpenCl, OpenClEngine, OpenClEvent, OpenClMemory, OpenClStream};
use opencl3::command_queue::{CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CommandQueue};
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_ALL, Device};
use opencl3::event::Event;
use opencl3::kernel::Kernel;
use opencl3::memory::{Buffer, CL_MEM_COPY_HOST_PTR, CL_MEM_READ_ONLY, CL_MEM_READ_WRITE, ClMem};
use opencl3::program::Program;
use opencl3::types::{CL_BLOCKING, cl_event, cl_int, cl_uchar};

/// The program's own kernels.
const KERNELS: &str = "
__kernel void to_float(__global const uchar* pixels, __global float* images) {
    const size_t i = get_global_id(0);
    images[i] = (float)pixels[i];
}
__kernel void arg_max(__global const float* scores, const int classes, __global int* best) {
    const size_t row = get_global_id(0);
    int winner = 0;
    for (int c = 1; c < classes; c++)
        if (scores[row * classes + c] > scores[row * classes + winner]) winner = c;
    best[row] = winner;
}";

/// What a run found.
pub(crate) struct Outcome {
    /// The device it ran on.
    pub(crate) device: String,
    /// Digits whose most likely class is their label.
    pub(crate) right: usize,
    /// All digits.
    pub(crate) total: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let Outcome { device, right, total } = run(&wanted)?;
    println!("{right} of {total} digits right on {device}");
    Ok(())
}

/// Classifies the held-out digits on the first device of a platform whose name contains `platform`.
///
/// # Errors
/// No such device, a failed call, or fewer than 97 of 100 digits right.
pub(crate) fn run(platform: &str) -> Result<Outcome, Box<dyn Error>> {
    // The program's side: a device, a context, an out-of-order queue, kernels and buffers.
    let device = find_device(platform)?;
    let context = Context::from_device(&device)?;
    // SAFETY: the device is one of the context's.
    let queue = unsafe {
        CommandQueue::create_with_properties(
            &context,
            device.id(),
            CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE,
            0,
        )?
    };
    let program = Program::create_and_build_from_source(&context, KERNELS, "")?;
    let (to_float, arg_max) = (Kernel::create(&program, "to_float")?, Kernel::create(&program, "arg_max")?);

    let model = Model::load(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/digits"))?;
    let digits = model.dataset.as_ref().ok_or("the digits have a data set")?;
    let (_, pixels) = digits.inputs().next().ok_or("the digits have images")?;
    let (count, pixels) = (digits.len(), pixels.bytes());
    // SAFETY: the pointer is valid for the whole slice, which the driver copies during the call.
    let raw = unsafe {
        Buffer::<cl_uchar>::create(
            &context,
            CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
            pixels.len(),
            pixels.as_ptr().cast_mut().cast(),
        )?
    };
    // SAFETY: no host pointer is given.
    let (images, scores, best) = unsafe {
        (
            Buffer::<f32>::create(&context, CL_MEM_READ_WRITE, count * 64, ptr::null_mut())?,
            Buffer::<f32>::create(&context, CL_MEM_READ_WRITE, count * 10, ptr::null_mut())?,
            Buffer::<cl_int>::create(&context, CL_MEM_READ_WRITE, count, ptr::null_mut())?,
        )
    };

    // ANCHOR: interop
    // anydnn's side: an engine and a stream from the program's objects, memories from its buffers.
    let engine = OpenClEngine::from_opencl3(&device, &context)?;
    let stream = OpenClStream::from_opencl3(&engine, &queue)?;
    let graph = model.graph.with_batch(count)?;
    let network = CompiledGraph::<OpenCl>::new(&graph, &engine, &CompileOptions::default())?;
    let network = network.load_tensors(&stream, &model.constants)?;
    let (input, output) = (graph.inputs()[0], graph.outputs()[0]);
    let image_memory =
        OpenClMemory::from_opencl3(&engine, &MemoryDesc::new([count, 1, 8, 8], DataType::F32), &images)?;
    let score_memory =
        OpenClMemory::from_opencl3(&engine, &MemoryDesc::new([count, 10], DataType::F32), &scores)?;

    // Their kernel -> our network -> their kernel.
    // SAFETY: the arguments are as the kernel declares them, and the buffers hold `count * 64` elements.
    let prepared = unsafe {
        to_float.set_arg(0, &raw.get())?;
        to_float.set_arg(1, &images.get())?;
        enqueue(&queue, &to_float, count * 64, &[])?
    };
    let after = OpenClEvent::from_opencl3(&engine, &prepared)?;
    let classified =
        network.execute(&stream, &[(input, image_memory)], &[(output, score_memory)], &[after])?;
    // SAFETY: as above; `scores` holds `count` rows of ten.
    let chosen = unsafe {
        arg_max.set_arg(0, &scores.get())?;
        arg_max.set_arg(1, &(10 as cl_int))?;
        arg_max.set_arg(2, &best.get())?;
        enqueue(&queue, &arg_max, count, &[classified.raw_event()])?
    };
    // ANCHOR_END: interop
    let mut labels = vec![0 as cl_int; count];
    // SAFETY: the vector holds as many elements as the buffer, and the call blocks until they are there.
    unsafe { queue.enqueue_read_buffer(&best, CL_BLOCKING, 0, &mut labels, &[chosen.get()])? };
    let truth = digits.labels().ok_or("the digits have labels")?;
    let right = labels.iter().zip(truth).filter(|(label, truth)| i64::from(**label) == **truth).count();
    if right * 100 < count * 97 {
        return Err(format!("only {right} of {count} digits right").into());
    }
    Ok(Outcome { device: device.name()?, right, total: count })
}

/// The first device of a platform whose name contains `wanted`.
fn find_device(wanted: &str) -> Result<Device, Box<dyn Error>> {
    for platform in opencl3::platform::get_platforms()? {
        if platform.name()?.to_lowercase().contains(&wanted.to_lowercase())
            && let Some(&id) = platform.get_devices(CL_DEVICE_TYPE_ALL)?.first()
        {
            return Ok(Device::new(id));
        }
    }
    Err(format!("no OpenCL device of a platform named like {wanted:?}").into())
}

/// Launches a kernel after other commands.
///
/// # Safety
/// The kernel's arguments are set and its buffers are large enough for `size` work-items.
unsafe fn enqueue(
    queue: &CommandQueue,
    kernel: &Kernel,
    size: usize,
    after: &[cl_event],
) -> Result<Event, Box<dyn Error>> {
    // SAFETY: the caller vouches for the arguments; the size outlives the call.
    Ok(unsafe {
        queue.enqueue_nd_range_kernel(kernel.get(), 1, ptr::null(), &raw const size, ptr::null(), after)?
    })
}
