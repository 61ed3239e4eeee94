//! A program of somebody else, written with `ocl-core`, that uses single primitives of anydnn for one step of its work.
//!
//! The program has a context, an out-of-order queue, buffers and kernels of its own. Its first kernel makes a matrix, anydnn multiplies
//! it with weights and rectifies the product on the program's buffers and queue, and its second kernel adds up every row. Events alone
//! order the four; nothing is copied to the host in between. All numbers are small integers, so the sums are checked exactly.
//!
//! `cargo run --release --features ocl-core --example ocl_core_interop [part of a platform's name]`

use std::error::Error;
use std::ffi::CString;

use anydnn::backend::op::{Eltwise, MatMul, Op};
use anydnn::backend::{Arg, DataType, Engine, MemoryDesc, PrimitiveDesc, Stream};
use anydnn_opencl::{OpenClEngine, OpenClEvent, OpenClMemory, OpenClStream};
use ocl_core::{
    ArgVal, CommandQueue, Context, DeviceId, DeviceInfo, DeviceType, Event, Kernel, MEM_COPY_HOST_PTR,
    MEM_READ_ONLY, MEM_READ_WRITE, Mem, OclPrm, PlatformInfo, QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE,
};

/// The program's own kernels.
const KERNELS: &str = "
__kernel void make(__global float* matrix) {
    const int i = get_global_id(0);
    matrix[i] = (float)(i * 7 % 11 - 5);
}
__kernel void row_sums(__global const float* matrix, const int columns, __global int* sums) {
    const size_t row = get_global_id(0);
    float sum = 0.0f;
    for (int c = 0; c < columns; c++) sum += matrix[row * columns + c];
    sums[row] = (int)sum;
}";

/// Rows of the matrix, its columns, and the columns of the product.
const ROWS: usize = 1000;
const INNER: usize = 48;
const COLUMNS: usize = 16;

/// What a run found.
pub(crate) struct Outcome {
    /// The device it ran on.
    pub(crate) device: String,
    /// Rows whose sum was checked.
    pub(crate) rows: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let Outcome { device, rows } = run(&wanted)?;
    println!("{rows} of {rows} row sums right on {device}");
    Ok(())
}

/// Runs on the first device of a platform whose name contains `platform`.
///
/// # Errors
/// No such device, a failed call, or a wrong result.
pub(crate) fn run(platform: &str) -> Result<Outcome, Box<dyn Error>> {
    // The program's side: a device, a context, an out-of-order queue, kernels and buffers.
    let device = find_device(platform)?;
    let context = ocl_core::create_context(None, &[device], None, None)?;
    let queue = ocl_core::create_command_queue(&context, device, Some(QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE))?;
    let (source, options) = (CString::new(KERNELS)?, CString::default());
    let program = ocl_core::create_build_program(&context, &[source], Some(&[device]), &options)?;
    let (make, row_sums) =
        (ocl_core::create_kernel(&program, "make")?, ocl_core::create_kernel(&program, "row_sums")?);
    let weights: Vec<f32> = (0..INNER * COLUMNS).map(|i| (i * 5 % 7) as f32 - 3.0).collect();
    let weight_buffer = buffer(&context, weights.len(), Some(&weights))?;
    let (matrix, product, sums) = (
        buffer::<f32>(&context, ROWS * INNER, None)?,
        buffer::<f32>(&context, ROWS * COLUMNS, None)?,
        buffer::<i32>(&context, ROWS, None)?,
    );

    // ANCHOR: interop
    // anydnn's side: an engine and a stream from the program's objects, memories from its buffers, two primitives.
    let engine = OpenClEngine::from_ocl_core(&device, &context)?;
    let stream = OpenClStream::from_ocl_core(&engine, &queue)?;
    let desc = |rows, columns| MemoryDesc::new([rows, columns], DataType::F32);
    let matrix_memory = OpenClMemory::from_ocl_core(&engine, &desc(ROWS, INNER), &matrix)?;
    let weight_memory = OpenClMemory::from_ocl_core(&engine, &desc(INNER, COLUMNS), &weight_buffer)?;
    let product_memory = OpenClMemory::from_ocl_core(&engine, &desc(ROWS, COLUMNS), &product)?;
    let matmul = PrimitiveDesc::builder(Op::MatMul(MatMul))
        .src(desc(ROWS, INNER))
        .weights(desc(INNER, COLUMNS))
        .dst(desc(ROWS, COLUMNS))
        .build()?;
    let rectify = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu))
        .src(desc(ROWS, COLUMNS))
        .dst(desc(ROWS, COLUMNS))
        .build()?;
    let (matmul, rectify) = (engine.create_primitive(&matmul)?, engine.create_primitive(&rectify)?);

    // Their kernel -> our two primitives -> their kernel.
    ocl_core::set_kernel_arg(&make, 0, ArgVal::mem(&matrix))?;
    // SAFETY: the argument is as the kernel declares it, and the buffer holds this many elements.
    let made = unsafe { enqueue(&queue, &make, ROWS * INNER, None) }?;
    let multiplied = stream.execute(
        &matmul,
        &[(Arg::SRC, matrix_memory), (Arg::Weights, weight_memory), (Arg::DST, product_memory.clone())],
        &[OpenClEvent::from_ocl_core(&engine, &made)?],
    )?;
    let rectified = stream
        .execute(&rectify, &[(Arg::SRC, product_memory.clone()), (Arg::DST, product_memory)], &[multiplied])?
        .to_ocl_core()?;
    ocl_core::set_kernel_arg(&row_sums, 0, ArgVal::mem(&product))?;
    ocl_core::set_kernel_arg(&row_sums, 1, ArgVal::scalar(&(COLUMNS as i32)))?;
    ocl_core::set_kernel_arg(&row_sums, 2, ArgVal::mem(&sums))?;
    // SAFETY: as above; the product holds `ROWS` rows and `sums` an element for each.
    let summed = unsafe { enqueue(&queue, &row_sums, ROWS, Some(&rectified)) }?;
    // ANCHOR_END: interop
    let mut found = vec![0_i32; ROWS];
    let (block, none) = (true, None::<&mut Event>);
    // SAFETY: the vector holds as many elements as the buffer, and the call blocks until they are there.
    unsafe { ocl_core::enqueue_read_buffer(&queue, &sums, block, 0, &mut found, Some(&summed), none) }?;
    check(&found, &weights)?;
    let device = ocl_core::get_device_info(device, DeviceInfo::Name)?.to_string();
    Ok(Outcome { device, rows: found.len() })
}

/// Compares every sum with the same computed here.
fn check(found: &[i32], weights: &[f32]) -> Result<(), Box<dyn Error>> {
    for (row, &found) in found.iter().enumerate() {
        let element = |k: usize| ((row * INNER + k) * 7 % 11) as f32 - 5.0;
        let product = |column| (0..INNER).map(|k| element(k) * weights[k * COLUMNS + column]).sum::<f32>();
        let expected: f32 = (0..COLUMNS).map(|column| product(column).max(0.0)).sum();
        if found != expected as i32 {
            return Err(format!("row {row} sums up to {found}, expected {expected}").into());
        }
    }
    Ok(())
}

/// The first device of a platform whose name contains `wanted`.
fn find_device(wanted: &str) -> Result<DeviceId, Box<dyn Error>> {
    for platform in ocl_core::get_platform_ids()? {
        let name = ocl_core::get_platform_info(platform, PlatformInfo::Name)?.to_string();
        if name.to_lowercase().contains(&wanted.to_lowercase())
            && let Some(&device) = ocl_core::get_device_ids(platform, Some(DeviceType::ALL), None)?.first()
        {
            return Ok(device);
        }
    }
    Err(format!("no OpenCL device of a platform named like {wanted:?}").into())
}

/// A buffer of so many elements, with these in it if any are given.
fn buffer<T: OclPrm>(context: &Context, elements: usize, data: Option<&[T]>) -> Result<Mem, Box<dyn Error>> {
    let flags = if data.is_some() { MEM_READ_ONLY | MEM_COPY_HOST_PTR } else { MEM_READ_WRITE };
    // SAFETY: the data, if any, are as many as the elements, and the driver copies them during the call.
    Ok(unsafe { ocl_core::create_buffer(context, flags, elements, data) }?)
}

/// Launches a kernel after another command.
///
/// # Safety
/// The kernel's arguments are set and its buffers are large enough for `size` work-items.
unsafe fn enqueue(
    queue: &CommandQueue,
    kernel: &Kernel,
    size: usize,
    after: Option<&Event>,
) -> Result<Event, Box<dyn Error>> {
    let mut event = Event::null();
    let size = [size, 1, 1];
    // SAFETY: the caller vouches for the arguments; the event is empty.
    unsafe { ocl_core::enqueue_kernel(queue, kernel, 1, None, &size, None, after, Some(&mut event)) }?;
    Ok(event)
}
