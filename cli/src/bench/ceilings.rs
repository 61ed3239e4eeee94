//! What a device can do at most, measured by the driver's own calls: f32 products a second, bytes copied a second, and the least time of a
//! launch that is waited for.

use std::ptr::null_mut;
use std::thread::sleep;
use std::time::Instant;

use anydnn::backend::{DeviceKind, Engine};
use anydnn::select::AnyEngine;
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::kernel::{ExecuteKernel, Kernel};
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE};
use opencl3::program::Program;

use super::measure::{PAUSE, median};

const PRODUCTS: &str = anydnn_kernels::text("bench/fma.cl");
const COPY: &str = anydnn_kernels::text("bench/copy.cl");

/// Chains of products in the kernel.
const CHAINS: usize = 12;
/// Samples; the best counts, for a ceiling is what was reached. Many, for a runtime may leave a core asleep for some.
const SAMPLES: usize = 30;
/// Launches of a sample: a runtime may wake its threads only for the second.
const LAUNCHES: usize = 3;

/// Rates that were reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ceilings {
    /// f32 operations a second, two for each product that is summed.
    pub(crate) flops: f64,
    /// Bytes read and written a second.
    pub(crate) bytes: f64,
    /// Seconds of a launch that does almost nothing and the wait for it, after a pause: the median.
    pub(crate) alone: f64,
}

/// How the kernels run on a kind of device.
struct Shape {
    vector: &'static str,
    lanes: usize,
    items: usize,
    steps: usize,
    /// Bytes of each of the two copies.
    bytes: usize,
    /// Vectors that a work-item copies, and whether they are neighbours.
    run: usize,
    next: bool,
    /// Work-items of a group: large ones stand alone on processors.
    group: usize,
}

impl Ceilings {
    /// Measures an OpenCL device; none on others, and where a call fails.
    pub(crate) fn of(engine: &AnyEngine) -> Option<Self> {
        let own = engine.as_opencl()?;
        let cpu = engine.device().kind == DeviceKind::Cpu;
        let units = engine.capabilities().compute_units.max(1);
        let room = engine.capabilities().max_allocation_bytes as usize;
        let shape = if cpu {
            Shape {
                vector: "float16",
                lanes: 16,
                items: units * 4,
                steps: 60_000,
                bytes: 1 << 27,
                run: 1 << 12,
                next: true,
                group: 1,
            }
        } else {
            Shape {
                vector: "float4",
                lanes: 4,
                items: units * 4096,
                steps: 2_000,
                bytes: 1 << 29,
                run: 8,
                next: false,
                group: 256,
            }
        };
        let shape = Shape { bytes: shape.bytes.min(room.next_power_of_two() / 2), ..shape };
        let found = own.to_opencl3().map_err(|error| error.to_string()).and_then(|(_, context)| {
            let measure = || -> opencl3::Result<Self> {
                let (flops, bytes) = (products(&context, &shape)?, copies(&context, &shape)?);
                Ok(Self { flops, bytes, alone: alone(&context, &shape)? })
            };
            measure().map_err(|error| error.to_string())
        });
        found.inspect_err(|error| tracing::warn!(error, "the ceilings were not measured")).ok()
    }
}

fn products(context: &Context, shape: &Shape) -> opencl3::Result<f64> {
    let options = format!("-w -cl-std=CL1.2 -DV={} -DSTEPS={}", shape.vector, shape.steps);
    let kernel = kernel(context, PRODUCTS, &options, "products")?;
    let queue = queue(context)?;
    // SAFETY: no host pointer is given.
    let out = unsafe { Buffer::<f32>::create(context, CL_MEM_READ_WRITE, shape.items, null_mut())? };
    let seconds = best(&queue, || {
        let mut launch = ExecuteKernel::new(&kernel);
        // SAFETY: the arguments are those of the kernel, and the buffer has an element for each work-item.
        unsafe {
            launch
                .set_arg(&out)
                .set_arg(&0.5_f32)
                .set_arg(&0.25_f32)
                .set_global_work_size(shape.items)
                .set_local_work_size(shape.group)
                .enqueue_nd_range(&queue)?
        };
        Ok(())
    })?;
    Ok(2.0 * (CHAINS * shape.lanes * shape.items * shape.steps) as f64 / seconds)
}

fn copies(context: &Context, shape: &Shape) -> opencl3::Result<f64> {
    let options =
        format!("-w -cl-std=CL1.2 -DV={} -DRUN={} -DNEXT={}", shape.vector, shape.run, i32::from(shape.next));
    let kernel = kernel(context, COPY, &options, "copied")?;
    let queue = queue(context)?;
    let floats = shape.bytes / 4;
    let items = floats / shape.lanes / shape.run;
    let ones = vec![1.5_f32; floats];
    // SAFETY: no host pointers are given; the write blocks until the vector, which is as long as the buffer, is read.
    let (mut from, to) = unsafe {
        (
            Buffer::<f32>::create(context, CL_MEM_READ_WRITE, floats, null_mut())?,
            Buffer::<f32>::create(context, CL_MEM_READ_WRITE, floats, null_mut())?,
        )
    };
    // SAFETY: as above.
    unsafe { queue.enqueue_write_buffer(&mut from, opencl3::types::CL_BLOCKING, 0, &ones, &[])? };
    let seconds = best(&queue, || {
        let mut launch = ExecuteKernel::new(&kernel);
        // SAFETY: the arguments are those of the kernel, and the work-items copy no more than the buffers hold.
        unsafe {
            launch
                .set_arg(&from)
                .set_arg(&to)
                .set_global_work_size(items)
                .set_local_work_size(shape.group)
                .enqueue_nd_range(&queue)?
        };
        Ok(())
    })?;
    Ok(2.0 * (items * shape.run * shape.lanes * 4) as f64 / seconds)
}

fn alone(context: &Context, shape: &Shape) -> opencl3::Result<f64> {
    let options = format!("-w -cl-std=CL1.2 -DV={} -DSTEPS=1", shape.vector);
    let kernel = kernel(context, PRODUCTS, &options, "products")?;
    let queue = queue(context)?;
    // SAFETY: no host pointer is given.
    let out = unsafe { Buffer::<f32>::create(context, CL_MEM_READ_WRITE, shape.group, null_mut())? };
    let mut times = Vec::with_capacity(SAMPLES);
    for sample in 0..=SAMPLES {
        sleep(PAUSE);
        let start = Instant::now();
        let mut launch = ExecuteKernel::new(&kernel);
        // SAFETY: the arguments are those of the kernel, and the buffer has an element for each work-item.
        unsafe {
            launch
                .set_arg(&out)
                .set_arg(&0.5_f32)
                .set_arg(&0.25_f32)
                .set_global_work_size(shape.group)
                .set_local_work_size(shape.group)
                .enqueue_nd_range(&queue)?
        };
        queue.finish()?;
        if sample > 0 {
            times.push(start.elapsed().as_secs_f64());
        }
    }
    Ok(median(&times))
}

fn kernel(context: &Context, source: &str, options: &str, name: &str) -> opencl3::Result<Kernel> {
    let program = Program::create_and_build_from_source(context, source, options).map_err(|log| {
        tracing::warn!(log, "a ceiling's kernel was not compiled");
        opencl3::error_codes::ClError(opencl3::error_codes::CL_BUILD_PROGRAM_FAILURE)
    })?;
    Kernel::create(&program, name)
}

fn queue(context: &Context) -> opencl3::Result<CommandQueue> {
    #[expect(deprecated, reason = "devices of OpenCL 1.2 have no other")]
    // SAFETY: the device is the context's.
    unsafe {
        CommandQueue::create(context, context.default_device(), 0)
    }
}

/// The least seconds of a launch, several enqueued and waited for.
fn best(queue: &CommandQueue, launch: impl Fn() -> opencl3::Result<()>) -> opencl3::Result<f64> {
    let mut least = f64::INFINITY;
    for sample in 0..=SAMPLES {
        let start = Instant::now();
        for _ in 0..LAUNCHES {
            launch()?;
        }
        queue.finish()?;
        // The first warms up.
        if sample > 0 {
            least = least.min(start.elapsed().as_secs_f64() / LAUNCHES as f64);
        }
    }
    Ok(least)
}
