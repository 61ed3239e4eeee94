//! Moving bytes: between memories of any kinds, from the host and to it.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use anydnn_backend::{Range, Result};
use cl3::command_queue as cl;
use cl3::types::CL_NON_BLOCKING;

use crate::backend::OpenCl;
use crate::backend::engine::OpenClEngine;
use crate::backend::event::OpenClEvent;
use crate::backend::memory::OpenClMemory;
use crate::backend::stream::{OpenClStream, Submission};
use crate::memory::allocation::Binding;
use crate::plan::ProgramSource;
use crate::program::kernels::{Fixed, KernelPool, Lent};
use crate::queue::fate::Operation;

const COPY: &str = anydnn_kernels::text("copy/copy.cl");
/// Bytes that a work-item of the copy kernel takes.
const ITEM: usize = 16;

/// Copies bytes; the ranges have been checked.
pub(crate) fn copy(
    stream: &OpenClStream,
    from: &Range<OpenCl>,
    to: &Range<OpenCl>,
    deps: &[OpenClEvent],
) -> Result<OpenClEvent> {
    let bytes = from.bytes;
    let kernel = match (from.memory.binding(), to.memory.binding()) {
        (Binding::Mem(_), Binding::Mem(_))
        | (Binding::Usm(..), Binding::Usm(..))
        | (Binding::Svm(_), Binding::Svm(_)) => None,
        _ if bytes == 0 => None,
        _ => Some(copier(stream.engine())?),
    };
    let addresses = [from.memory.binding(), to.memory.binding()].into_iter().collect();
    let mut lent = kernel.map(|pool| pool.lend(addresses)).transpose()?;
    if let Some(kernel) = lent.as_mut().and_then(Lent::kernel_mut) {
        let name = "copy_bytes";
        kernel.bind(0, from.memory.place(from.offset), name)?;
        kernel.bind(1, to.memory.place(to.offset), name)?;
        kernel.value(4, &(bytes as u64), name)?;
    }
    let mut submission = stream.submit(Operation::Fixed("copy"), deps)?;
    submission.hold(&from.memory.allocation);
    submission.hold(&to.memory.allocation);
    if let Some(kernel) = lent.as_ref().and_then(Lent::kernel) {
        submission.push("clEnqueueNDRangeKernel", |queue, count, events| {
            let global = [bytes.div_ceil(ITEM), 1, 1];
            let (raw, global) = (kernel.raw(), global.as_ptr());
            // SAFETY: live handles; every argument is set; the range has one dimension; the wait list is valid during the call.
            unsafe {
                cl::enqueue_nd_range_kernel(queue, raw, 1, ptr::null(), global, ptr::null(), count, events)
            }
        })?;
    } else if bytes > 0 {
        enqueue_copy(&mut submission, from, to)?;
    }
    submission.finish()
}

/// The driver's own copy between memories of one kind.
fn enqueue_copy(submission: &mut Submission<'_>, from: &Range<OpenCl>, to: &Range<OpenCl>) -> Result<()> {
    let bytes = from.bytes;
    let (source, target) = (address(&from.memory, from.offset), address(&to.memory, to.offset));
    match (from.memory.binding(), to.memory.binding()) {
        (Binding::Usm(_, usm), _) => submission.push("clEnqueueMemcpyINTEL", |queue, count, events| {
            // SAFETY: a live queue; the ranges were checked; the memory is held until the command has ended.
            unsafe { usm.enqueue_memcpy(queue, target, source, bytes, (count, events)) }
        }),
        (Binding::Svm(_), _) => submission.push("clEnqueueSVMMemcpy", |queue, count, events| {
            // SAFETY: as above.
            unsafe { cl::enqueue_svm_mem_cpy(queue, CL_NON_BLOCKING, target, source, bytes, count, events) }
        }),
        (Binding::Mem(source), _) => submission.push("clEnqueueCopyBuffer", |queue, count, events| {
            let target = to.memory.raw_mem();
            let (start, end) = (from.memory.offset() + from.offset, to.memory.offset() + to.offset);
            // SAFETY: live handles; the ranges were checked; the wait list is valid during the call.
            unsafe { cl::enqueue_copy_buffer(queue, source, target, start, end, bytes, count, events) }
        }),
    }
}

/// Writes bytes of the host and waits until they have been taken; the range has been checked.
pub(crate) fn write(
    stream: &OpenClStream,
    memory: &OpenClMemory,
    offset: usize,
    bytes: &[u8],
    deps: &[OpenClEvent],
) -> Result<OpenClEvent> {
    let mut submission = stream.submit(Operation::Fixed("write"), deps)?;
    submission.hold(&memory.allocation);
    let (host, size) = (bytes.as_ptr().cast::<c_void>(), bytes.len());
    let target = address(memory, offset);
    match memory.binding() {
        _ if bytes.is_empty() => {}
        Binding::Mem(mem) => submission.push("clEnqueueWriteBuffer", |queue, count, events| {
            let start = memory.offset() + offset;
            // SAFETY: live handles; the range was checked; `bytes` outlives the command, which is waited for below.
            unsafe { cl::enqueue_write_buffer(queue, mem, CL_NON_BLOCKING, start, size, host, count, events) }
        })?,
        Binding::Usm(_, usm) => submission.push("clEnqueueMemcpyINTEL", |queue, count, events| {
            // SAFETY: as above.
            unsafe { usm.enqueue_memcpy(queue, target, host, size, (count, events)) }
        })?,
        Binding::Svm(_) => submission.push("clEnqueueSVMMemcpy", |queue, count, events| {
            // SAFETY: as above.
            unsafe { cl::enqueue_svm_mem_cpy(queue, CL_NON_BLOCKING, target, host, size, count, events) }
        })?,
    }
    let event = submission.finish()?;
    stream.wait_for_transfer(&event)?;
    Ok(event)
}

/// The most bytes that a command can take along.
const PATTERN: usize = 128;

/// Writes bytes of the host, which have been taken when this returns: a number or two come with their command, as what memory is filled
/// with, and nobody waits for what is enqueued before it. The range has been checked.
pub(crate) fn enqueue_write(
    stream: &OpenClStream,
    memory: &OpenClMemory,
    offset: usize,
    bytes: &[u8],
    deps: &[OpenClEvent],
) -> Result<OpenClEvent> {
    let (host, size, target) = (bytes.as_ptr().cast::<c_void>(), bytes.len(), address(memory, offset));
    let start = match memory.binding() {
        Binding::Mem(_) => memory.offset() + offset,
        _ => target.addr(),
    };
    if !size.is_power_of_two() || size > PATTERN || !start.is_multiple_of(size) {
        return write(stream, memory, offset, bytes, deps);
    }
    let mut submission = stream.submit(Operation::Fixed("write"), deps)?;
    submission.hold(&memory.allocation);
    match memory.binding() {
        Binding::Mem(mem) => submission.push("clEnqueueFillBuffer", |queue, count, events| {
            // SAFETY: live handles; the range was checked; the driver copies the bytes during the call.
            unsafe { cl::enqueue_fill_buffer(queue, mem, host, size, start, size, count, events) }
        })?,
        Binding::Usm(_, usm) => submission.push("clEnqueueMemFillINTEL", |queue, count, events| {
            // SAFETY: as above.
            unsafe { usm.enqueue_write(queue, target, bytes, (count, events)) }
        })?,
        Binding::Svm(_) => submission.push("clEnqueueSVMMemFill", |queue, count, events| {
            // SAFETY: as above.
            unsafe { cl::enqueue_svm_mem_fill(queue, target, host, size, size, count, events) }
        })?,
    }
    submission.finish()
}

/// Reads bytes to the host and waits for them; the range has been checked.
pub(crate) fn read(
    stream: &OpenClStream,
    memory: &OpenClMemory,
    offset: usize,
    bytes: &mut [u8],
    deps: &[OpenClEvent],
) -> Result<()> {
    let mut submission = stream.submit(Operation::Fixed("read"), deps)?;
    submission.hold(&memory.allocation);
    let (host, size) = (bytes.as_mut_ptr().cast::<c_void>(), bytes.len());
    let source = address(memory, offset);
    match memory.binding() {
        _ if bytes.is_empty() => {}
        Binding::Mem(mem) => submission.push("clEnqueueReadBuffer", |queue, count, events| {
            let start = memory.offset() + offset;
            // SAFETY: live handles; the range was checked; `bytes` outlives the command, which is waited for below.
            unsafe { cl::enqueue_read_buffer(queue, mem, CL_NON_BLOCKING, start, size, host, count, events) }
        })?,
        Binding::Usm(_, usm) => submission.push("clEnqueueMemcpyINTEL", |queue, count, events| {
            // SAFETY: as above.
            unsafe { usm.enqueue_memcpy(queue, host, source, size, (count, events)) }
        })?,
        Binding::Svm(_) => submission.push("clEnqueueSVMMemcpy", |queue, count, events| {
            // SAFETY: as above.
            unsafe { cl::enqueue_svm_mem_cpy(queue, CL_NON_BLOCKING, host, source, size, count, events) }
        })?,
    }
    let event = submission.finish()?;
    stream.wait_for_transfer(&event)
}

/// The address `offset` bytes into memory that has addresses.
fn address(memory: &OpenClMemory, offset: usize) -> *mut c_void {
    memory.raw_pointer().wrapping_byte_add(offset)
}

/// The kernel that copies between memories of different kinds.
fn copier(engine: &OpenClEngine) -> Result<&Arc<KernelPool>> {
    if let Some(pool) = engine.inner.copier.get() {
        return Ok(pool);
    }
    let source = ProgramSource { name: "copy".into(), source: COPY.into(), options: String::new() };
    let inner = &engine.inner;
    let program = inner.programs.program(&inner.context, &inner.device, &source, "")?;
    let pool = Arc::new(KernelPool::new(program, "copy_bytes", Fixed::default())?);
    Ok(inner.copier.get_or_init(|| pool))
}
