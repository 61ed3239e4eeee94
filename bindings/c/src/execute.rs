//! Executions of primitives.

use std::ffi::c_int;
use std::sync::Arc;
use std::time::Instant;

use anydnn_backend::{
    Arg, Engine, Event, MapMode, Memory, MemoryKind, PrimitiveDesc, ScratchpadMode, Stream,
};
use anydnn_opencl::{OpenClEngine, OpenClEvent, OpenClMemory};

use crate::boundary::{self, Failure, Outcome};
use crate::handle;
use crate::memory::{MemoryObject, byte_desc};
use crate::object_types::{
    DNNL_ARG_ATTR_MULTIPLE_POST_OP_BASE, DNNL_ARG_BIAS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD, DNNL_ARG_SRC,
    DNNL_ARG_SRC_1, DNNL_ARG_WEIGHTS, const_dnnl_primitive_t, dnnl_exec_arg_t, dnnl_stream_t,
};
use crate::primitive::PrimitiveObject;
use crate::stream::StreamObject;
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
    primitive: &'a PrimitiveObject,
    args: Vec<(Arg, &'a MemoryObject)>,
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
        if !Arc::ptr_eq(&primitive.described.engine, &stream.engine) {
            return Err(Failure::invalid("the primitive and the stream are of different engines"));
        }
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: by contract.
        let given = unsafe { handle::slice(args, count, "args") }?;
        let mut bound = Vec::with_capacity(2);
        for (i, one) in given.iter().enumerate() {
            if one.memory.is_null() {
                continue;
            }
            if given[..i].iter().any(|other| other.arg == one.arg && !other.memory.is_null()) {
                return Err(Failure::invalid(format!("argument {} is there twice", one.arg)));
            }
            if let Some(arg) = argument(one.arg, &primitive.described.desc) {
                // SAFETY: by contract.
                bound.push((arg, unsafe { handle::borrow(one.memory) }?));
            }
        }
        Ok(Self { stream, primitive, args: bound })
    }

    /// Enqueues the primitive after `deps`.
    ///
    /// # Safety
    /// The bytes of the memories live until the commands have ended.
    pub(crate) unsafe fn run(&self, deps: &[OpenClEvent]) -> Outcome<OpenClEvent> {
        let stream = &self.stream.stream;
        let source = self.primitive.described.source_engine.as_ref();
        let source = source.map(|engine| &engine.value().engine);
        let start = Instant::now();
        let mut args = Vec::with_capacity(self.args.len());
        let mut from_elsewhere = None;
        for &(arg, memory) in &self.args {
            let engine = source.filter(|_| arg == Arg::SRC).unwrap_or(stream.engine());
            // SAFETY: by contract.
            let bytes = unsafe { memory.bind(engine) }?;
            match source {
                Some(engine) if arg == Arg::SRC => from_elsewhere = Some((engine, bytes)),
                _ => args.push((arg, bytes)),
            }
        }
        let event = match from_elsewhere {
            Some((engine, bytes)) => self.run_across(engine, &bytes, args, deps)?,
            None => stream.execute(&self.primitive.compiled, &args, deps)?,
        };
        verbose::primitive(verbose::EXECUTION, "exec", &self.primitive.compiled, start);
        Ok(event)
    }

    /// Enqueues the primitive on a copy of a source in another context, once everything before has ended.
    fn run_across(
        &self,
        source_engine: &OpenClEngine,
        source: &OpenClMemory,
        mut args: Vec<(Arg, OpenClMemory)>,
        deps: &[OpenClEvent],
    ) -> Outcome<OpenClEvent> {
        let stream = &self.stream.stream;
        let needed = self.primitive.described.desc.src().size();
        if source.region().bytes < needed {
            let given = source.region().bytes;
            return Err(Failure::invalid(format!("the source has {given} bytes, expected {needed}")));
        }
        debug_assert_eq!(source.engine_id(), source_engine.id());
        for dep in deps {
            dep.wait()?;
        }
        stream.wait()?;
        let copy = stream.engine().create_memory(&byte_desc(needed), MemoryKind::Buffer)?;
        let mapping = source.view(&byte_desc(needed), 0)?.map(MapMode::Read)?;
        let written = stream.write(&copy, 0, mapping.bytes(), &[])?;
        mapping.unmap()?;
        args.push((Arg::SRC, copy));
        Ok(stream.execute(&self.primitive.compiled, &args, &[written])?)
    }
}

/// The argument of that number, if the primitive has it.
pub(crate) fn argument(number: c_int, desc: &PrimitiveDesc) -> Option<Arg> {
    let arg = match number {
        DNNL_ARG_SRC => Arg::SRC,
        DNNL_ARG_DST => Arg::DST,
        DNNL_ARG_WEIGHTS => Arg::Weights,
        DNNL_ARG_BIAS => Arg::Bias,
        number if number >= DNNL_ARG_ATTR_MULTIPLE_POST_OP_BASE => {
            if number % DNNL_ARG_ATTR_MULTIPLE_POST_OP_BASE != DNNL_ARG_SRC_1 {
                return None;
            }
            Arg::PostOp(u16::try_from(number / DNNL_ARG_ATTR_MULTIPLE_POST_OP_BASE - 1).ok()?)
        }
        DNNL_ARG_SCRATCHPAD => {
            return (desc.attributes().scratchpad == ScratchpadMode::User).then_some(Arg::Scratchpad);
        }
        _ => return None,
    };
    desc.find(arg).map(|_| arg)
}
