//! Executions of primitives.

use std::ffi::c_int;
use std::ops::Deref;
use std::sync::Arc;

use anydnn::select::{AnyEngine, AnyEvent, AnyMemory};
use anydnn_backend::{Arg, Engine, Event, MapMode, Memory, Range, ScratchpadMode, Stream};

use crate::boundary::{self, Failure, Outcome};
use crate::handle;
use crate::kinds::arg;
use crate::memory::{MemoryObject, byte_desc};
use crate::object_types::{const_dnnl_primitive_t, dnnl_exec_arg_t, dnnl_stream_t};
use crate::primitive::{Described, PrimitiveObject, arena};
use crate::recipe::Place;
use crate::stream::StreamObject;
use crate::told::tell;
use crate::types::dnnl_status_t;
use crate::verbose;

/// Enqueues a primitive. On an out-of-order stream nothing orders it with what was enqueued before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_execute(
    primitive: const_dnnl_primitive_t,
    stream: dnnl_stream_t,
    nargs: c_int,
    args: *const dnnl_exec_arg_t,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_execute", || {
        // SAFETY: the caller's pointers are null or as the API says.
        let execution = unsafe { Execution::new(primitive, stream, nargs, args) }?;
        // SAFETY: the memories live, and the user keeps their bytes until the commands have ended.
        unsafe { execution.run(&[]) }?;
        Ok(())
    })
}

/// A primitive with its arguments, on a stream of its engine.
pub(crate) struct Execution<'a> {
    pub(crate) stream: &'a StreamObject,
    primitive: Ran<'a>,
    /// The memory of each operand.
    operands: Vec<Option<&'a MemoryObject>>,
    scratchpad: Option<&'a MemoryObject>,
}

/// The primitive that runs: the caller's, or one that was made for the memories of an execution.
enum Ran<'a> {
    Own(&'a PrimitiveObject),
    Made(Arc<PrimitiveObject>),
}

impl Deref for Ran<'_> {
    type Target = PrimitiveObject;

    fn deref(&self) -> &PrimitiveObject {
        match self {
            Self::Own(primitive) => primitive,
            Self::Made(primitive) => primitive,
        }
    }
}

impl Execution<'_> {
    /// Checks what the caller passes.
    ///
    /// # Safety
    /// The pointers are null, or objects that outlive this and `count` arguments.
    pub(crate) unsafe fn new(
        primitive: const_dnnl_primitive_t,
        stream: dnnl_stream_t,
        count: c_int,
        args: *const dnnl_exec_arg_t,
    ) -> Outcome<Self> {
        // SAFETY: by contract.
        let (primitive, stream) = unsafe { (handle::borrow(primitive)?, handle::borrow(stream)?) };
        if !Arc::ptr_eq(&primitive.described().engine, &stream.engine) {
            return Err(Failure::invalid("the primitive and the stream are of different engines"));
        }
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: by contract.
        let given = unsafe { handle::slice(args, count, "args") }?;
        let primitive = match &primitive.described().deferred {
            None => Ran::Own(primitive),
            Some(deferred) => {
                let mut mds = Vec::with_capacity(given.len());
                for one in given.iter().filter(|one| !one.memory.is_null()) {
                    // SAFETY: by contract.
                    mds.push((one.arg, unsafe { handle::borrow(one.memory) }?.desc()));
                }
                let md = |number| mds.iter().find(|(arg, _)| *arg == number).map(|(_, md)| *md);
                Ran::Made(primitive.made.primitive(deferred, md)?)
            }
        };
        let described = primitive.described();
        let mut operands = vec![None; described.operands.len()];
        let mut scratchpad = None;
        for (i, one) in given.iter().enumerate() {
            if one.memory.is_null() {
                continue;
            }
            if given[..i].iter().any(|other| other.arg == one.arg && !other.memory.is_null()) {
                return Err(Failure::invalid(format!("argument {} is there twice", one.arg)));
            }
            if described.operand(one.arg).is_some() {
                // SAFETY: by contract.
                let memory = unsafe { handle::borrow(one.memory) }?;
                for (slot, operand) in operands.iter_mut().zip(described.operands.iter()) {
                    if operand.number == one.arg {
                        *slot = Some(memory);
                    }
                }
            } else if one.arg == arg::SCRATCHPAD && described.scratchpad > 0 {
                // SAFETY: by contract.
                scratchpad = Some(unsafe { handle::borrow(one.memory) }?);
            }
        }
        Ok(Self { stream, primitive, operands, scratchpad })
    }

    /// Enqueues the primitive after `deps`.
    ///
    /// # Safety
    /// The bytes of the memories live until the commands have ended.
    pub(crate) unsafe fn run(&self, deps: &[AnyEvent]) -> Outcome<AnyEvent> {
        let described = self.primitive.described();
        let start = verbose::start(verbose::EXECUTION);
        let mut work = Work { deps: deps.to_vec(), borrowed: Vec::new() };
        // SAFETY: by contract.
        let outcome = unsafe { self.enqueue(described, &mut work) };
        // What was borrowed goes back after all that was enqueued, also where a later step was refused.
        let after = work.deps.last();
        for memory in std::mem::take(&mut work.borrowed) {
            self.engine().allocator().free(memory, after)?;
        }
        let event = outcome?;
        tell(verbose::EXECUTION, "exec", described, &self.primitive.compiled, start);
        Ok(event)
    }

    /// # Safety
    /// As for [`Execution::run`].
    unsafe fn enqueue(&self, described: &Described, work: &mut Work) -> Outcome<AnyEvent> {
        let stream = &self.stream.stream;
        let mut operands: Vec<AnyMemory> = Vec::with_capacity(self.operands.len());
        let mut elsewhere = None;
        for (i, (operand, memory)) in described.operands.iter().zip(&self.operands).enumerate() {
            let memory = memory.ok_or_else(|| {
                Failure::invalid(format!("argument {} is missing: {}", operand.number, operand.desc))
            })?;
            let other = described.elsewhere.as_ref().filter(|(number, _)| operand.number == *number);
            operands.push(match other {
                Some((_, engine)) => {
                    // SAFETY: by contract.
                    let bytes = unsafe { memory.bind(&engine.value().engine, operand.part) }?;
                    let copy = self.copy_in(&bytes, operand.desc.size(), work)?;
                    if described.writes(i) {
                        elsewhere = Some((copy.clone(), bytes, operand.desc.size()));
                    }
                    copy
                }
                None if memory.engine().is_none() => self.upload(memory, work)?,
                // SAFETY: by contract.
                None => unsafe { memory.bind(self.engine(), operand.part) }?,
            });
        }
        self.separate(described, &mut operands, work)?;
        let mut operands: Vec<Option<AnyMemory>> = operands.into_iter().map(Some).collect();
        let temporaries = self.temporaries(described, work)?;
        for (k, (step, compiled)) in described.steps.iter().zip(&self.primitive.compiled).enumerate() {
            // The last step takes what it is the last to use: a clone costs more than the rest of an argument.
            let is_last = k + 1 == described.steps.len();
            let mut args: Vec<(Arg, AnyMemory)> = Vec::with_capacity(step.args.len() + 1);
            for (n, &(arg, place)) in step.args.iter().enumerate() {
                let is_needed = !is_last || step.args[n + 1..].iter().any(|(_, other)| *other == place);
                let memory = match place {
                    Place::Operand(i) if is_needed => operands[i].clone(),
                    Place::Operand(i) => operands[i].take(),
                    Place::Temporary(i) => Some(temporaries[i].clone()),
                    Place::Constant(i) => Some(self.primitive.constants[i].clone()),
                };
                args.extend(memory.map(|memory| (arg, memory)));
            }
            if step.desc.attributes().scratchpad == ScratchpadMode::User
                && let Some(memory) = self.scratchpad
            {
                // SAFETY: by contract.
                args.push((Arg::Scratchpad, unsafe { memory.bind(self.engine(), 0) }?));
            }
            let event = stream.execute(compiled, &args, &work.deps)?;
            work.then(event);
        }
        if let Some((copy, bytes, size)) = elsewhere {
            self.copy_out(&copy, &bytes, size, work)?;
        }
        match work.deps.as_slice() {
            [last] if !self.primitive.compiled.is_empty() => Ok(last.clone()),
            deps => Ok(stream.marker(deps)?),
        }
    }

    /// Takes a copy of every operand that shares bytes with a result, where the primitive does not allow that.
    fn separate(&self, described: &Described, operands: &mut [AnyMemory], work: &mut Work) -> Outcome {
        let stream = &self.stream.stream;
        for i in 0..operands.len() {
            if described.writes(i) {
                continue;
            }
            let is_shared = (0..operands.len()).any(|j| {
                if i == j || !described.writes(j) {
                    return false;
                }
                // Only the very same tensor is taken in place of a result; other overlaps are refused.
                let same = operands[i].region() == operands[j].region();
                same && !(described.steps.len() == 1 && allows(described, i, j))
            });
            if !is_shared || described.operands[i].desc.size() == 0 {
                continue;
            }
            let bytes = described.operands[i].desc.size().min(operands[i].region().bytes);
            let copy = work.borrow(self.engine(), bytes)?;
            let from = Range { memory: operands[i].clone(), offset: 0, bytes };
            let event = stream.copy(from, Range { memory: copy.clone(), offset: 0, bytes }, &work.deps)?;
            work.then(event);
            operands[i] = copy;
        }
        Ok(())
    }

    /// The memory of temporaries: the caller's, or the library's.
    fn temporaries(&self, described: &Described, work: &mut Work) -> Outcome<Vec<AnyMemory>> {
        if described.temporaries.is_empty() {
            return Ok(Vec::new());
        }
        let engine = self.engine();
        let (offsets, size) = arena(&described.temporaries);
        let whole = match self.scratchpad {
            // SAFETY: the caller keeps the bytes until the commands have ended.
            Some(memory) => unsafe { memory.bind(engine, 0) }?,
            None if described.scratchpad > 0 => {
                return Err(Failure::invalid(format!("there is no scratchpad of {size} bytes")));
            }
            None => work.borrow(engine, size)?,
        };
        let view = |(desc, offset): (&anydnn_backend::MemoryDesc, usize)| {
            Ok(whole.view(&byte_desc(desc.size().max(1)), offset)?)
        };
        described.temporaries.iter().zip(offsets).map(view).collect()
    }

    /// A value on the host, in memory of the device.
    fn upload(&self, memory: &MemoryObject, work: &mut Work) -> Outcome<AnyMemory> {
        let stream = &self.stream.stream;
        let bytes = memory.scalar()?;
        let count = memory.scalar_bytes();
        let copy = work.borrow(self.engine(), count)?;
        let event = stream.write(&copy, 0, &bytes[..count], &work.deps)?;
        work.then(event);
        Ok(copy)
    }

    /// A copy of an operand that is elsewhere, once everything before has ended.
    fn copy_in(&self, from: &AnyMemory, needed: usize, work: &mut Work) -> Outcome<AnyMemory> {
        let stream = &self.stream.stream;
        if from.region().bytes < needed {
            let given = from.region().bytes;
            return Err(Failure::invalid(format!(
                "the memory elsewhere has {given} bytes, expected {needed}"
            )));
        }
        for dep in &work.deps {
            dep.wait()?;
        }
        stream.wait()?;
        let copy =
            self.engine().create_memory(&byte_desc(needed), self.stream.engine.value().memory_kind())?;
        let mapping = from.view(&byte_desc(needed), 0)?.map(MapMode::Read)?;
        let written = stream.write(&copy, 0, mapping.bytes(), &[])?;
        mapping.unmap()?;
        work.deps = vec![written];
        Ok(copy)
    }

    /// Copies a result to where it belongs, once it is there.
    fn copy_out(&self, copy: &AnyMemory, to: &AnyMemory, needed: usize, work: &Work) -> Outcome {
        let mut mapping = to.view(&byte_desc(needed), 0)?.map(MapMode::Write)?;
        self.stream.stream.read(copy, 0, mapping.bytes_mut(), &work.deps)?;
        Ok(mapping.unmap()?)
    }

    /// The engine of the stream.
    fn engine(&self) -> &AnyEngine {
        &self.stream.engine.value().engine
    }
}

/// What an execution has enqueued and borrowed so far.
struct Work {
    /// What the next command waits for.
    deps: Vec<AnyEvent>,
    borrowed: Vec<AnyMemory>,
}

impl Work {
    /// A command was enqueued, which the next one waits for.
    fn then(&mut self, event: AnyEvent) {
        self.deps = vec![event];
    }

    fn borrow(&mut self, engine: &AnyEngine, bytes: usize) -> Outcome<AnyMemory> {
        let memory = engine.allocator().allocate(bytes.max(1), 0)?;
        self.borrowed.push(memory.clone());
        Ok(memory)
    }
}

/// Whether the only step of a primitive may write operand `j` in place of operand `i`.
fn allows(described: &Described, i: usize, j: usize) -> bool {
    let step = &described.steps[0];
    let arg_of = |operand: usize| {
        step.args.iter().find(|(_, place)| *place == Place::Operand(operand)).map(|(arg, _)| *arg)
    };
    arg_of(j) == Some(Arg::DST) && arg_of(i).is_some_and(|arg| step.desc.may_overwrite(arg))
}
