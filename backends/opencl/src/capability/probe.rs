//! The probes: small programs that are built, run and compared, in a context of their own so that the user's shows no trace.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::time::{Duration, Instant};

use anydnn_backend::Error;
use cl3::command_queue::{self as cl, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PROFILING_ENABLE};
use cl3::memory::{CL_MEM_COPY_HOST_PTR, CL_MEM_READ_WRITE};
use cl3::types::{CL_BLOCKING, CL_NON_BLOCKING, cl_event};

use crate::capability::instruction::{Instruction, Multiplicand};
use crate::capability::sub_groups::SubGroups;
use crate::driver::call::{self, Check, Returned};
use crate::driver::create::{create_context, create_queue};
use crate::driver::handle;
use crate::driver::platform::OpenClDevice;
use crate::program::{Program, machine};
use crate::queue::deferred_release;

/// What was seen, or why the feature does not work.
pub(crate) type Outcome = Result<String, String>;

/// A context to try things in.
pub(crate) struct Prober<'a> {
    device: &'a OpenClDevice,
    context: handle::Context,
}

impl<'a> Prober<'a> {
    /// In a context of the caller's, or else one of its own.
    pub(crate) fn new(device: &'a OpenClDevice, context: Option<handle::Context>) -> Result<Self, String> {
        let context = context.map_or_else(|| create_context(device, "probe"), Ok).map_err(said)?;
        Ok(Self { device, context })
    }

    /// Runs `probe(in, out)` over `items` work-items in one work-group and returns `out`.
    fn run(
        &self,
        source: &str,
        options: &str,
        input: &[u8],
        output: usize,
        items: usize,
    ) -> Result<Vec<u8>, String> {
        let program = Program::build(&self.context, self.device, "probe", source, options).map_err(said)?;
        let kernel = program.kernel("probe").map_err(said)?;
        let queue = self.queue(0)?;
        let (input, out) = (self.buffer(input)?, self.buffer(&vec![0; output])?);
        for (i, mem) in [&input, &out].into_iter().enumerate() {
            let raw = mem.raw();
            // SAFETY: live handles; the value is a memory object, as the kernel's parameter wants.
            unsafe {
                cl3::kernel::set_kernel_arg(
                    kernel.raw(),
                    i as u32,
                    size_of_val(&raw),
                    ptr::from_ref(&raw).cast(),
                )
            }
            .check("probe", "clSetKernelArg")
            .map_err(said)?;
        }
        // SAFETY: live handles; every argument is set; the range has one dimension; no wait list.
        let launched = unsafe {
            cl::enqueue_nd_range_kernel(
                queue.raw(),
                kernel.raw(),
                1,
                ptr::null(),
                &raw const items,
                &raw const items,
                0,
                ptr::null(),
            )
        };
        own(launched, "clEnqueueNDRangeKernel")?;
        let mut bytes = vec![0; output];
        // SAFETY: live handles; the host's bytes are as many as asked for and the call blocks.
        let read = unsafe {
            let host = bytes.as_mut_ptr().cast();
            cl::enqueue_read_buffer(queue.raw(), out.raw(), CL_BLOCKING, 0, output, host, 0, ptr::null())
        };
        own(read, "clEnqueueReadBuffer")?;
        Ok(bytes)
    }

    fn queue(&self, properties: u64) -> Result<handle::Queue, String> {
        create_queue(&self.context, self.device, properties, "probe").map_err(said)
    }

    fn buffer(&self, bytes: &[u8]) -> Result<handle::Mem, String> {
        let (flags, host) = (CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes.as_ptr().cast_mut().cast());
        // SAFETY: the driver copies the host's bytes during the call and does not write to them.
        let raw = unsafe { cl3::memory::create_buffer(self.context.raw(), flags, bytes.len(), host) }
            .check("probe", "clCreateBuffer")
            .map_err(said)?;
        // SAFETY: the driver returned this object with one reference for the caller.
        unsafe { handle::Mem::from_owned(raw) }.map_err(said)
    }

    /// OpenCL C standards to try, the newest that the device may have first.
    fn standards(&self) -> &'static [&'static str] {
        match self.device.opencl_version().0 {
            3.. => &["-cl-std=CL3.0", "-cl-std=CL2.0", "-cl-std=CL1.2"],
            2 => &["-cl-std=CL2.0", "-cl-std=CL1.2"],
            _ => &["-cl-std=CL1.2"],
        }
    }
}

pub(crate) fn names_fp64(device: &OpenClDevice) -> Result<(), String> {
    if device.limits().double_config == 0 {
        Err("the device names no double precision".into())
    } else {
        Ok(())
    }
}

pub(crate) fn fp64(prober: &Prober<'_>) -> Outcome {
    let source = "#ifdef cl_khr_fp64\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#endif\n\
        kernel void probe(global const double *in, global double *out) {\
            size_t i = get_global_id(0); out[i] = in[i] * in[i] + 1.0e-12; }";
    let input = [1.0_f64, 1.5, -3.25, 1024.125];
    let out = prober.run(source, "-cl-std=CL1.2", &to_bytes(&input, f64::to_ne_bytes), 32, 4)?;
    let close = |(x, y): (&f64, f64)| (y - (x * x + 1.0e-12)).abs() <= 1e-15 * x * x;
    let all = input.iter().zip(from_bytes(&out, f64::from_ne_bytes)).all(close);
    same(all, "f64 arithmetic")
}

pub(crate) fn names_fp16(device: &OpenClDevice) -> Result<(), String> {
    // NVIDIA's compiler takes half arithmetic though the driver does not name it; others may not survive the attempt.
    if device.alias() == "nvidia" { Ok(()) } else { is_named(device, "cl_khr_fp16") }
}

pub(crate) fn fp16(prober: &Prober<'_>) -> Outcome {
    let named = prober.device.has_extension("cl_khr_fp16");
    let source = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n\
        kernel void probe(global const half *in, global half *out) {\
            size_t i = get_global_id(0); half x = in[i]; out[i] = x * x + (half)1.0f; }";
    // x and x * x + 1 for 1.5, -2, 0.5, 16.
    let (input, expected) = ([0x3e00_u16, 0xc000, 0x3800, 0x4c00], [0x4280_u16, 0x4500, 0x3d00, 0x5c04]);
    let out = prober.run(source, "-cl-std=CL1.2", &to_bytes(&input, u16::to_ne_bytes), 8, 4)?;
    same(from_bytes(&out, u16::from_ne_bytes).eq(expected), "f16 arithmetic")?;
    Ok(if named {
        "f16 arithmetic is exact"
    } else {
        "f16 arithmetic is exact, though the driver does not name it"
    }
    .into())
}

pub(crate) fn vload_half(prober: &Prober<'_>) -> Outcome {
    let source = "kernel void probe(global const half *in, global float *out) {\
        size_t i = get_global_id(0); out[i] = vload_half(i, in); }";
    let (input, expected) = ([0x3e00_u16, 0xc000, 0x0001, 0x7bff], [1.5_f32, -2.0, 5.960_464_5e-8, 65504.0]);
    let out = prober.run(source, "-cl-std=CL1.2", &to_bytes(&input, u16::to_ne_bytes), 16, 4)?;
    same(from_bytes(&out, u32::from_ne_bytes).eq(expected.map(f32::to_bits)), "vload_half")
}

pub(crate) fn names_sub_groups(device: &OpenClDevice) -> Result<(), String> {
    let named = SubGroups::NAMES.into_iter().any(|name| device.has_extension(name));
    if named { Ok(()) } else { Err("neither cl_khr_subgroups nor cl_intel_subgroups is named".into()) }
}

/// Sums over sub-groups, by the function and by exchanges, in the oldest language that has them.
pub(crate) fn sub_groups(prober: &Prober<'_>) -> Outcome {
    let exchanges = SubGroups::EXCHANGES.into_iter().filter(|(name, _)| prober.device.has_extension(name));
    let exchanges: Vec<_> = exchanges.map(|(_, function)| Some(function)).chain([None]).collect();
    let input: Vec<i32> = (0..64).map(|i| i * i).collect();
    let mut failed = String::new();
    for standard in prober.standards().iter().rev() {
        for exchange in &exchanges {
            let mut found = SubGroups::of(prober.device, 0, standard, *exchange);
            let exchanged = exchange.map_or_else(
                || "x = sub_group_reduce_add(x);".into(),
                |function| {
                    format!(
                        "for (uint m = get_max_sub_group_size() / 2; m > 0; m /= 2) x += {function}(x, m);"
                    )
                },
            );
            let source = format!(
                "{}kernel void probe(global const int *in, global int *out) {{ size_t i = get_global_id(0);\
                    float x = (float)in[i]; {exchanged} out[3 * i] = sub_group_reduce_add(in[i]); out[3 * i + 1] = (int)x;\
                    out[3 * i + 2] = (int)get_sub_group_size(); }}",
                found.prelude()
            );
            match prober.run(&source, standard, &to_bytes(&input, i32::to_ne_bytes), 64 * 12, 64) {
                Err(why) => failed = why,
                Ok(out) => {
                    let sums: Vec<i32> = from_bytes(&out, i32::from_ne_bytes).collect();
                    found.width = usize::try_from(sums[2]).unwrap_or(0);
                    let parts = input.chunks(found.width.max(1)).zip(sums.chunks(3 * found.width.max(1)));
                    let right = |(numbers, sums): (&[i32], &[i32])| {
                        let (sum, width) = (numbers.iter().sum::<i32>(), found.width as i32);
                        sums.chunks(3).all(|of_item| of_item == [sum, sum, width])
                    };
                    same(
                        found.width.is_power_of_two() && parts.into_iter().all(right),
                        "a sum over a sub-group",
                    )?;
                    return Ok(found.to_string());
                }
            }
        }
    }
    Err(failed)
}

pub(crate) fn names_int8_dot(device: &OpenClDevice) -> Result<(), String> {
    is_named(device, "cl_khr_integer_dot_product")
}

pub(crate) fn int8_dot(prober: &Prober<'_>) -> Outcome {
    let source = "#pragma OPENCL EXTENSION cl_khr_integer_dot_product : enable\n\
        kernel void probe(global const char4 *in, global int *out) {\
            size_t i = get_global_id(0); out[i] = dot(in[2 * i], in[2 * i + 1]); }";
    let input: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 128, 127, 255, 0, 128, 127, 2, 9];
    let mut failed = String::new();
    for standard in prober.standards() {
        match prober.run(source, standard, &input, 8, 2) {
            Err(why) => failed = why,
            Ok(out) => return same(from_bytes(&out, i32::from_ne_bytes).eq([70, 32511]), "dot"),
        }
    }
    Err(failed)
}

pub(crate) fn is_nvidia(device: &OpenClDevice) -> Result<(), String> {
    // Other compilers would have to assemble it for their own machine, and some do not survive that.
    if device.alias() == "nvidia" { Ok(()) } else { Err("not NVIDIA's compiler".into()) }
}

pub(crate) fn nvidia_ptx(prober: &Prober<'_>) -> Outcome {
    let source = "kernel void probe(global const int *in, global int *out) {\
        size_t i = get_global_id(0); int x; asm(\"add.s32 %0, %1, 41;\" : \"=r\"(x) : \"r\"(in[i])); out[i] = x; }";
    let out = prober.run(source, "-cl-std=CL1.2", &to_bytes(&[1_i32, -41], i32::to_ne_bytes), 8, 2)?;
    same(from_bytes(&out, i32::from_ne_bytes).eq([42, 0]), "inline PTX")
}

/// Whether a device has the architecture that warpgroup instructions are of. Others must not even try: a fault would end all OpenCL of
/// the process.
pub(crate) fn is_hopper(device: &OpenClDevice) -> Result<(), String> {
    is_nvidia(device)?;
    let number = |info| call::device_value::<u32>(device.raw_device(), info).map_err(said);
    let capability = (
        number(cl3::device::CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV)?,
        number(cl3::device::CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV)?,
    );
    if capability == (9, 0) { Ok(()) } else { Err(format!("compute capability {capability:?}, not 9.0")) }
}

/// The bytes of local memory that kernels may have on Hopper.
pub(crate) const LARGE_LOCAL_BYTES: usize = 224 << 10;

/// Whether a device is Hopper and its driver's compiler of PTX is there.
pub(crate) fn is_hopper_with_compiler(device: &OpenClDevice) -> Result<(), String> {
    is_hopper(device)?;
    machine::is_available().map_err(said)
}

pub(crate) fn large_local(prober: &Prober<'_>) -> Outcome {
    let source =
        format!("#define WANTED \"{LARGE_LOCAL_BYTES}\"\n{}", anydnn_kernels::text("probe/local.cl"));
    let (items, bytes) = (128, LARGE_LOCAL_BYTES as u32);
    let out = prober.run(&source, "-cl-std=CL1.2", &bytes.to_ne_bytes(), items * 4, items)?;
    let expected = bytes / 4 / items as u32;
    same(from_bytes(&out, u32::from_ne_bytes).all(|sum| sum == expected), "local memory")?;
    Ok(format!("{bytes} bytes"))
}

/// The product of an instruction, of whole numbers that every type of factors and sums holds exactly.
pub(crate) fn product(prober: &Prober<'_>, instruction: &Instruction, text: &str, items: usize) -> Outcome {
    let &Instruction { factor, sum, m, n, k } = instruction;
    let a = |i: usize, t: usize| value(factor, i * k + t, false);
    let b = |j: usize, t: usize| value(factor, (m + j) * k + t, true);
    let rows = (0..m).flat_map(|i| (0..k).map(move |t| a(i, t)));
    let columns = (0..n).flat_map(|j| (0..k).map(move |t| b(j, t)));
    let input: Vec<u8> = rows.chain(columns).flat_map(|x| encoded(factor, x)).collect();
    let out = prober.run(text, "-cl-std=CL1.2", &input, m * n * 4, items)?;
    let expected = (0..m * n).map(|e| (0..k).map(|t| a(e / n, t) * b(e % n, t)).sum::<i32>());
    let right = if sum.is_float() {
        from_bytes(&out, f32::from_ne_bytes).map(f64::from).eq(expected.map(f64::from))
    } else {
        from_bytes(&out, i32::from_ne_bytes).eq(expected)
    };
    same(right, &format!("a product of {}", factor.name()))
}

/// The `i`-th number to multiply, of the whole range of integers.
fn value(factor: Multiplicand, i: usize, is_weight: bool) -> i32 {
    let mixed = i * 37 + i / 64 * 11;
    match factor {
        Multiplicand::Bytes if is_weight => i32::from((mixed as u8).cast_signed()),
        Multiplicand::Bytes => i32::from(mixed as u8),
        Multiplicand::Words => (mixed % 60) as i32 * 300 - 9000,
        Multiplicand::F8
        | Multiplicand::F16
        | Multiplicand::BF16
        | Multiplicand::Tf32
        | Multiplicand::F32 => (mixed % 5) as i32,
    }
}

/// The bytes of a number.
fn encoded(factor: Multiplicand, x: i32) -> Vec<u8> {
    match factor {
        Multiplicand::Bytes => vec![x as u8],
        Multiplicand::Words => (x as i16).to_ne_bytes().into(),
        // As e4m3, up to four.
        Multiplicand::F8 => vec![[0, 0x38, 0x40, 0x44, 0x48][x as usize % 5]],
        Multiplicand::F16 => half::f16::from_f32(x as f32).to_ne_bytes().into(),
        Multiplicand::BF16 => half::bf16::from_f32(x as f32).to_ne_bytes().into(),
        Multiplicand::Tf32 | Multiplicand::F32 => (x as f32).to_ne_bytes().into(),
    }
}

pub(crate) fn local_memory(device: &OpenClDevice) -> Outcome {
    counted(device.limits().local_memory_bytes, "bytes")
}

pub(crate) fn vector_width(device: &OpenClDevice) -> Outcome {
    counted(u64::from(device.limits().float_vector_width), "floats")
}

/// A command that waits for the user must be overtaken by one that does not, and must itself wait.
pub(crate) fn out_of_order(prober: &Prober<'_>) -> Outcome {
    let properties = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
    if prober.device.limits().queue_properties & properties == 0 {
        return Err("the device names no out-of-order queues".into());
    }
    // The probe would never end.
    if prober.device.alias() == "oclgrind" {
        return Err("clFlush waits for user events".into());
    }
    let queue = prober.queue(properties)?;
    let (buffer, held, free) = (prober.buffer(&[0; 8])?, [1_u8; 4], [2_u8; 4]);
    let gate = own(cl3::event::create_user_event(prober.context.raw()), "clCreateUserEvent")?;
    let write = |bytes: &[u8; 4], offset, wait: &[cl_event]| {
        let (count, events) = (wait.len() as u32, if wait.is_empty() { ptr::null() } else { wait.as_ptr() });
        let host = bytes.as_ptr().cast::<c_void>();
        // SAFETY: live handles; four bytes at 0 or 4 of eight; the host's bytes outlive the command, see `clFinish` below.
        unsafe {
            cl::enqueue_write_buffer(
                queue.raw(),
                buffer.raw(),
                CL_NON_BLOCKING,
                offset,
                4,
                host,
                count,
                events,
            )
        }
    };
    let first = own(write(&held, 0, &[gate.raw()]), "clEnqueueWriteBuffer");
    let second = own(write(&free, 4, &[]), "clEnqueueWriteBuffer");
    let commands = [&first, &second].map(|event| event.as_ref().map_err(String::clone));
    let observed = commands[0].clone().and_then(|first| {
        let second = commands[1].clone()?;
        cl::flush(queue.raw()).check("probe", "clFlush").map_err(said)?;
        let overtaken = ends_within(second, Duration::from_millis(250))?;
        Ok((overtaken, status(first)? > 0))
    });
    let opened = cl3::event::set_user_event_status(gate.raw(), 0).check("probe", "clSetUserEventStatus");
    let finished = cl::finish(queue.raw()).check("probe", "clFinish");
    if finished.is_err() {
        // The host's bytes and the queue must outlive the commands all the same.
        for event in commands.iter().flatten() {
            let _ = cl3::event::wait_for_events(&[event.raw()]);
        }
    }
    if prober.device.has_fragile_queues() {
        deferred_release::keep(queue, prober.device.clone(), Vec::new(), true);
    }
    opened.and(finished).map_err(said)?;
    let (overtaken, waited) = observed?;
    same(waited, "waiting for a user event")?;
    Ok(if overtaken { "commands overtake waiting ones" } else { "commands run in order" }.into())
}

pub(crate) fn profiling(prober: &Prober<'_>) -> Outcome {
    let queue = prober.queue(CL_QUEUE_PROFILING_ENABLE)?;
    let (buffer, bytes) = (prober.buffer(&[0; 4])?, [1_u8; 4]);
    // SAFETY: live handles; four bytes of four; the call blocks.
    let event = unsafe {
        let host = bytes.as_ptr().cast();
        cl::enqueue_write_buffer(queue.raw(), buffer.raw(), CL_BLOCKING, 0, 4, host, 0, ptr::null())
    };
    let event = own(event, "clEnqueueWriteBuffer")?;
    // A blocking call may return a moment before its event has the times.
    cl3::event::wait_for_events(&[event.raw()]).check("probe", "clWaitForEvents").map_err(said)?;
    let time = |info| -> Result<u64, String> {
        let bytes = cl3::event::get_event_profiling_data(event.raw(), info);
        call::value(bytes, "probe", "clGetEventProfilingInfo").map_err(said)
    };
    let started = time(cl3::event::CL_PROFILING_COMMAND_START)?;
    let ended = time(cl3::event::CL_PROFILING_COMMAND_END)?;
    if started <= ended && ended > 0 {
        let resolution: usize =
            call::device_value(prober.device.raw_device(), cl3::device::CL_DEVICE_PROFILING_TIMER_RESOLUTION)
                .unwrap_or(0);
        Ok(format!("resolution {resolution} ns"))
    } else {
        Err(format!("a command started at {started} ns and ended at {ended} ns"))
    }
}

pub(crate) fn svm(prober: &Prober<'_>) -> Outcome {
    let bits = prober.device.limits().svm;
    let levels = [
        (cl3::device::CL_DEVICE_SVM_COARSE_GRAIN_BUFFER, "coarse"),
        (cl3::device::CL_DEVICE_SVM_FINE_GRAIN_BUFFER, "fine"),
        (cl3::device::CL_DEVICE_SVM_FINE_GRAIN_SYSTEM, "system"),
        (cl3::device::CL_DEVICE_SVM_ATOMICS, "atomics"),
    ];
    let levels: Vec<_> =
        levels.into_iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| name).collect();
    if levels.is_empty() {
        return Err("none".into());
    }
    let context = prober.context.raw();
    // SAFETY: a live context; the memory is freed below and not touched.
    let pointer = unsafe { cl3::memory::svm_alloc(context, CL_MEM_READ_WRITE, 64, 0) }
        .check("probe", "clSVMAlloc")
        .map_err(said)?;
    // SAFETY: the driver has just made this memory in this context, and no command uses it.
    unsafe { cl3::memory::svm_free(context, pointer) }.check("probe", "clSVMFree").map_err(said)?;
    Ok(levels.join(", "))
}

pub(crate) fn usm(device: &OpenClDevice) -> Outcome {
    use crate::driver::usm::EXTENSION as NAME;
    is_named(device, NAME)?;
    let calls = [
        c"clHostMemAllocINTEL",
        c"clDeviceMemAllocINTEL",
        c"clSharedMemAllocINTEL",
        c"clMemFreeINTEL",
        c"clMemBlockingFreeINTEL",
        c"clGetMemAllocInfoINTEL",
        c"clSetKernelArgMemPointerINTEL",
        c"clEnqueueMemcpyINTEL",
        c"clEnqueueMemFillINTEL",
    ];
    has_calls(device, &calls)?;
    Ok(format!("all {} entry points are there", calls.len()))
}

pub(crate) fn command_buffer(device: &OpenClDevice) -> Outcome {
    const NAME: &str = "cl_khr_command_buffer";
    is_named(device, NAME)?;
    has_calls(
        device,
        &[c"clCreateCommandBufferKHR", c"clCommandNDRangeKernelKHR", c"clEnqueueCommandBufferKHR"],
    )?;
    // Signatures changed between revisions, so a caller needs to know which one this is.
    extension_version(device, NAME).map_or_else(|| Err("the driver does not say which revision".into()), Ok)
}

fn has_calls(device: &OpenClDevice, calls: &[&CStr]) -> Result<(), String> {
    // SAFETY: the device's platform is valid for the life of the process.
    let missing = |call: &&&CStr| unsafe { call::extension_function(device.raw_platform(), call) }.is_none();
    calls.iter().find(missing).map_or(Ok(()), |call| Err(format!("{} is missing", call.to_string_lossy())))
}

/// The revision of an extension as `major.minor.patch` (`CL_DEVICE_EXTENSIONS_WITH_VERSION`: a number, then 64 bytes of name).
fn extension_version(device: &OpenClDevice, name: &str) -> Option<String> {
    const ENTRY: usize = 68;
    let info = cl3::device::CL_DEVICE_EXTENSIONS_WITH_VERSION;
    let entries = cl3::device::get_device_data(device.raw_device(), info).ok()?;
    entries.chunks_exact(ENTRY).find_map(|entry| {
        let (version, text) = entry.split_first_chunk::<4>()?;
        let text = CStr::from_bytes_until_nul(text).ok()?;
        let version = u32::from_ne_bytes(*version);
        let (major, minor, patch) = (version >> 22, (version >> 12) & 0x3ff, version & 0xfff);
        (text.to_bytes() == name.as_bytes()).then(|| format!("{major}.{minor}.{patch}"))
    })
}

fn own(event: Returned<cl_event>, call: &str) -> Result<handle::Event, String> {
    let raw = event.check("probe", call).map_err(said)?;
    // SAFETY: the driver returned this event with one reference for the caller.
    unsafe { handle::Event::from_owned(raw) }.map_err(said)
}

fn status(event: &handle::Event) -> Result<i32, String> {
    let bytes = cl3::event::get_event_data(event.raw(), cl3::event::CL_EVENT_COMMAND_EXECUTION_STATUS);
    call::value(bytes, "probe", "clGetEventInfo").map_err(said)
}

fn ends_within(event: &handle::Event, limit: Duration) -> Result<bool, String> {
    let start = Instant::now();
    while status(event)? > 0 {
        if start.elapsed() > limit {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    Ok(true)
}

fn is_named(device: &OpenClDevice, extension: &str) -> Result<(), String> {
    if device.has_extension(extension) { Ok(()) } else { Err(format!("{extension} is not named")) }
}

fn counted(count: u64, unit: &str) -> Outcome {
    if count > 0 { Ok(format!("{count} {unit}")) } else { Err("none".into()) }
}

fn same(right: bool, what: &str) -> Outcome {
    if right { Ok(format!("{what} is right")) } else { Err(format!("{what} gives wrong results")) }
}

/// An error on one line.
#[expect(clippy::needless_pass_by_value, reason = "a function for `map_err`")]
fn said(error: Error) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn to_bytes<T: Copy, const N: usize>(values: &[T], bytes: fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|&value| bytes(value)).collect()
}

fn from_bytes<T, const N: usize>(bytes: &[u8], value: fn([u8; N]) -> T) -> impl Iterator<Item = T> {
    bytes.as_chunks().0.iter().map(move |chunk| value(*chunk))
}
