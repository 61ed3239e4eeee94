//! Native commands: functions of this process that a device's queue runs, in place of kernels whose launches take longer than they compute.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use anydnn_backend::{Arg, Error, Primitive, Result};
use anydnn_host::HostPrimitive;
use cl3::command_queue as cl;
use cl3::types::{cl_command_queue, cl_event, cl_mem, cl_uint};
use smallvec::SmallVec;

use crate::driver::call::{self, Check, Returned};
use crate::driver::handle;
use crate::memory::allocation::{Allocation, Binding};
use crate::queue::wait::yield_until_ended;

/// The call that enqueues a native command.
pub(crate) const NATIVE_CALL: &str = "clEnqueueNativeKernel";

/// Primitives that one command computes one after the other.
#[derive(Debug, Default)]
pub(crate) struct Job {
    steps: Vec<Step>,
    /// The slots of a list of memories that it touches, each once.
    slots: Vec<usize>,
}

#[derive(Debug)]
struct Step {
    primitive: HostPrimitive,
    /// Each argument, which of the job's slots it is in, and how many bytes behind its start.
    operands: SmallVec<[(Arg, usize, usize); 6]>,
}

/// Memory in a slot: where it begins in an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot<'a> {
    pub(crate) allocation: &'a Allocation,
    pub(crate) offset: usize,
}

impl Job {
    /// Adds a primitive whose arguments are in slots, so many bytes behind their starts.
    pub(crate) fn add(&mut self, primitive: &HostPrimitive, args: impl Iterator<Item = (Arg, usize, usize)>) {
        let mut operands = SmallVec::new();
        for (arg, slot, start) in args {
            let known = self.slots.iter().position(|&known| known == slot);
            let at = known.unwrap_or_else(|| {
                self.slots.push(slot);
                self.slots.len() - 1
            });
            operands.push((arg, at, start));
        }
        self.steps.push(Step { primitive: primitive.clone(), operands });
    }
}

/// One execution of a job.
///
/// It has the addresses of its memories by itself. Drivers fill them in for buffers that a command names, but PoCL does so in an order of its own
/// where there are several.
#[derive(Debug)]
pub(crate) struct Run {
    job: Arc<Job>,
    /// Where each slot's memory begins.
    addresses: SmallVec<[*mut u8; 8]>,
    failure: OnceLock<Arc<Error>>,
}

// SAFETY: the addresses are of memory that the command has for itself, on whichever thread it runs.
unsafe impl Send for Run {}
// SAFETY: as above.
unsafe impl Sync for Run {}

impl Run {
    /// A job on the memories in its slots. Where their addresses are not known, commands on a queue of the caller's, which is idle, tell.
    ///
    /// # Errors
    /// A device error, where an address is to be found.
    pub(crate) fn new(
        job: &Arc<Job>,
        memories: &[Slot<'_>],
        idle: impl Fn() -> Result<Arc<handle::Queue>>,
    ) -> Result<Arc<Self>> {
        find(job.slots.iter().map(|&slot| memories[slot].allocation), idle)?;
        let addresses = job.slots.iter().map(|&slot| {
            let memory = memories[slot];
            match memory.allocation.binding() {
                Binding::Usm(start, _) | Binding::Svm(start) => {
                    start.cast::<u8>().wrapping_add(memory.offset)
                }
                Binding::Mem(_) => {
                    let start = memory.allocation.native.get().copied().unwrap_or_default();
                    let (_, base) = memory.allocation.whole();
                    ptr::with_exposed_provenance_mut::<u8>(start).wrapping_add(base + memory.offset)
                }
            }
        });
        Ok(Arc::new(Self { job: Arc::clone(job), addresses: addresses.collect(), failure: OnceLock::new() }))
    }

    /// Enqueues it on the same memories. It has to live until the command has ended; there is an event if it is wanted.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        memories: &[Slot<'_>],
        queue: cl_command_queue,
        waits: &[cl_event],
        wants_event: bool,
    ) -> Returned<cl_event> {
        let mut buffers: SmallVec<[cl_mem; 8]> =
            self.job.slots.iter().filter_map(|&slot| memories[slot].allocation.whole().0).collect();
        buffers.sort_unstable();
        buffers.dedup();
        let mut args: SmallVec<[*mut c_void; 9]> = SmallVec::from_elem(ptr::null_mut(), 1 + buffers.len());
        args[0] = Arc::as_ptr(self).cast_mut().cast();
        enqueue(queue, compute, &mut args, &buffers, waits, wants_event)
    }

    /// Why there is no result, once the command has ended.
    pub(crate) fn failure(&self) -> Option<Arc<Error>> {
        self.failure.get().cloned()
    }

    /// # Safety
    /// The memories are there, and the command has them for itself.
    unsafe fn compute(&self) -> Result<()> {
        for step in &self.job.steps {
            let operands = step.operands.iter();
            let operands: SmallVec<[(Arg, *mut u8); 6]> =
                operands.map(|&(arg, at, start)| (arg, self.addresses[at].wrapping_add(start))).collect();
            // SAFETY: the memories have as many bytes as the primitives' descriptions say, which was checked when they were bound; the
            // rest by contract.
            unsafe { step.primitive.compute_at(&operands) }
                .map_err(|error| error.at(step.primitive.desc().name()))?;
        }
        Ok(())
    }
}

/// Finds out where buffers lie that were not asked for before: each by a command of its own.
fn find<'a>(
    allocations: impl Iterator<Item = &'a Allocation>,
    idle: impl Fn() -> Result<Arc<handle::Queue>>,
) -> Result<()> {
    let unknown = allocations.filter(|allocation| allocation.native.get().is_none());
    let asked: Vec<(&Allocation, cl_mem, Box<AtomicUsize>)> = unknown
        .filter_map(|allocation| Some((allocation, allocation.whole().0?, Box::new(AtomicUsize::new(0)))))
        .collect();
    if asked.is_empty() {
        return Ok(());
    }
    let queue = idle()?;
    let last = asked.len() - 1;
    let enqueued = asked.iter().enumerate().try_for_each(|(at, (_, whole, found))| {
        let mut args = [ptr::from_ref(&**found).cast_mut().cast(), ptr::null_mut()];
        let event = enqueue(queue.raw(), tell, &mut args, &[*whole], &[], at == last)?;
        if at == last {
            // SAFETY: the driver returned this event with one reference for the caller.
            if let Ok(event) = unsafe { handle::Event::from_owned(event) } {
                cl::flush(queue.raw())?;
                yield_until_ended(event.raw())?;
            }
        }
        Ok(())
    });
    // Also where one was refused: those before it write to what they were given.
    let finished = cl::finish(queue.raw());
    if finished.is_err() {
        // Nobody knows when they end.
        std::mem::forget(asked);
        return finished.check("find memory", "clFinish");
    }
    enqueued.check("find memory", NATIVE_CALL)?;
    for (allocation, _, found) in asked {
        let _ = allocation.native.set(found.load(Ordering::Acquire));
    }
    Ok(())
}

/// Enqueues a function with arguments, behind the first of which are the places of the buffers' addresses.
fn enqueue(
    queue: cl_command_queue,
    function: unsafe extern "C" fn(*mut c_void),
    args: &mut [*mut c_void],
    buffers: &[cl_mem],
    waits: &[cl_event],
    wants_event: bool,
) -> Returned<cl_event> {
    let library = cl3::load_library().as_ref().map_err(|_| call::LIBRARY_MISSING)?;
    let places: SmallVec<[*const c_void; 8]> =
        args[1..].iter().map(|place| ptr::from_ref(place).cast()).collect();
    let mut event = ptr::null_mut();
    let code = library
        .clEnqueueNativeKernel(
            queue,
            Some(function),
            args.as_mut_ptr().cast(),
            size_of_val(args),
            buffers.len() as cl_uint,
            if buffers.is_empty() { ptr::null() } else { buffers.as_ptr() },
            if buffers.is_empty() { ptr::null() } else { places.as_ptr() },
            waits.len() as cl_uint,
            if waits.is_empty() { ptr::null() } else { waits.as_ptr() },
            if wants_event { &raw mut event } else { ptr::null_mut() },
        )
        .ok_or(call::FUNCTION_MISSING)?;
    if code == 0 { Ok(event) } else { Err(code) }
}

/// Tells where a buffer lies: what the driver calls with a copy of a place for its address and the address itself.
unsafe extern "C" fn tell(args: *mut c_void) {
    let args = args.cast::<*mut c_void>();
    // SAFETY: `find` gave two of them, and waits with the first one; the driver copies them without regard to alignment.
    let (found, address) =
        unsafe { (&*args.read_unaligned().cast::<AtomicUsize>(), args.add(1).read_unaligned()) };
    found.store(address.expose_provenance(), Ordering::Release);
}

/// What the driver calls with a copy of the arguments.
unsafe extern "C" fn compute(args: *mut c_void) {
    // SAFETY: the first argument is the run, which lives until the command has ended.
    let run = unsafe { &*args.cast::<*const Run>().read_unaligned() };
    // SAFETY: a command is behind those that it waits for, and what comes behind it waits.
    let made = catch_unwind(AssertUnwindSafe(|| unsafe { run.compute() }));
    let error = match made {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error,
        Err(_) => Error::unavailable("native command", "it panicked"),
    };
    tracing::error!(%error, "a native command failed");
    let _ = run.failure.set(Arc::new(error));
}
