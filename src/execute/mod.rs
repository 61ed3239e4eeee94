//! Execution: a plan becomes commands on a stream.
//!
//! Everything that can be wrong with the arguments is checked before the first command is enqueued. On an out-of-order stream each step
//! waits for exactly the steps whose bytes it touches; on an in-order stream the order of submission does that. The temporaries come
//! from the engine's [`Allocator`](anydnn_backend::Allocator) and go back with the event of the last command.

mod bind;
mod host;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use anydnn_backend::{
    Arg, Backend, DataType, Engine, Error, Event, Memory, MemoryDesc, Order, Primitive, Result, ResultExt,
    Stream, validate,
};

use self::bind::{Bindings, bind};
use crate::compile::{Compiled, CompiledGraph, Step, Storage, TempPlace};
use crate::graph::TensorId;

/// A compiled graph with its constants: ready to run, from any thread, on any stream of its engine.
#[derive(Clone, Debug)]
pub struct Executable<B: Backend> {
    compiled: Arc<Compiled<B>>,
    constants: Arc<[B::Memory]>,
    literals: Arc<[B::Memory]>,
    /// Temporaries that depend on constants alone, by index.
    prepared: Arc<[Option<B::Memory>]>,
}

/// A step's event, for profiles.
#[derive(Clone, Debug)]
pub struct StepEvent<B: Backend> {
    /// The step, an index into [`CompiledGraph::steps`].
    pub step: usize,
    /// The completion of its commands.
    pub event: B::Event,
}

impl<B: Backend> Executable<B> {
    pub(crate) fn load(
        compiled: Arc<Compiled<B>>,
        stream: &B::Stream,
        given: &[(TensorId, B::Memory)],
    ) -> Result<Self> {
        let constants: Arc<[B::Memory]> =
            bind("constant", &compiled, &compiled.constants, &compiled.constant_descs, given)?.into();
        let kind = || {
            let kind = compiled.engine.capabilities().memory_kinds.first().copied();
            kind.ok_or_else(|| Error::unsupported("load", "the engine names no kind of memory"))
        };
        let mut literals = Vec::with_capacity(compiled.literals.len());
        for literal in &compiled.literals {
            let memory = compiled.engine.create_memory(&literal.desc, kind()?)?;
            stream.write(&memory, 0, &literal.bytes, &[])?.wait()?;
            literals.push(memory);
        }
        let mut prepared = Vec::with_capacity(compiled.temp_bytes.len());
        for place in &compiled.temp_bytes {
            prepared.push(match place {
                TempPlace::Prepared { bytes } => {
                    let desc = MemoryDesc::new([*bytes], DataType::U8).labelled("prepared constant");
                    Some(compiled.engine.create_memory(&desc, kind()?)?)
                }
                TempPlace::Arena { .. } | TempPlace::Unused => None,
            });
        }
        let executable = Self { compiled, constants, literals: literals.into(), prepared: prepared.into() };
        let bindings = Bindings { inputs: &[], outputs: &[], temps: Vec::new() };
        let mut events = Vec::new();
        executable.enqueue(stream, &bindings, &[], true, &mut events)?;
        for step in &events {
            step.event.wait()?;
        }
        Ok(executable)
    }

    /// What was compiled.
    pub fn compiled(&self) -> CompiledGraph<B> {
        CompiledGraph { inner: Arc::clone(&self.compiled) }
    }

    /// Runs the graph after `deps`. Inputs and outputs are bound by tensor, in any order; the returned event covers all of it.
    ///
    /// # Errors
    /// [`Error::Invalid`] or [`Error::Mismatch`] for an argument that is missing, unknown, of another descriptor or engine, or an output
    /// that shares bytes with anything else; nothing has been enqueued then. A device error names the step.
    pub fn execute(
        &self,
        stream: &B::Stream,
        inputs: &[(TensorId, B::Memory)],
        outputs: &[(TensorId, B::Memory)],
        deps: &[B::Event],
    ) -> Result<B::Event> {
        self.execute_traced(stream, inputs, outputs, deps).map(|(event, _)| event)
    }

    /// As [`Executable::execute`], with the event of each step.
    ///
    /// # Errors
    /// As [`Executable::execute`].
    pub fn execute_traced(
        &self,
        stream: &B::Stream,
        inputs: &[(TensorId, B::Memory)],
        outputs: &[(TensorId, B::Memory)],
        deps: &[B::Event],
    ) -> Result<(B::Event, Vec<StepEvent<B>>)> {
        let compiled = &*self.compiled;
        if stream.engine_id() != compiled.engine.id() {
            let (given, own) = (stream.engine_id(), compiled.engine.id());
            return Err(Error::mismatch(
                "execute",
                format!("a stream of {given}"),
                format!("the compiled graph's {own}"),
            ));
        }
        let inputs = bind("input", compiled, compiled.graph.inputs(), &compiled.input_descs, inputs)?;
        let outputs = bind("output", compiled, compiled.graph.outputs(), &compiled.output_descs, outputs)?;
        bind::separate(compiled, &inputs, &outputs, &self.constants)?;
        let allocator = compiled.engine.allocator();
        // Temporaries without elements need no bytes, but memory all the same.
        let has_arena = compiled.temp_bytes.iter().any(|place| matches!(place, TempPlace::Arena { .. }));
        let arena = if has_arena {
            let bytes = compiled.arena_bytes.max(1);
            Some(allocator.allocate(bytes, crate::compile::ARENA_ALIGNMENT).at(|| "temporaries")?)
        } else {
            None
        };
        let mut events = Vec::new();
        let enqueued = self.arena_views(arena.as_ref()).and_then(|temps| {
            let bindings = Bindings { inputs: &inputs, outputs: &outputs, temps };
            self.enqueue(stream, &bindings, deps, false, &mut events)
        });
        let ended = enqueued.and_then(|()| finish::<B>(stream, deps, &events, &compiled.steps));
        // Whatever was enqueued may still touch the arena: it goes back after the last of it.
        if let Some(arena) = arena {
            if ended.is_err() {
                for step in &events {
                    // The error that ended the execution is the one to report.
                    let _ = step.event.wait();
                }
            }
            let after = ended.as_ref().ok();
            allocator.free(arena, after)?;
        }
        ended.map(|event| (event, events))
    }

    /// Enqueues the steps that run once, or all others.
    fn enqueue(
        &self,
        stream: &B::Stream,
        bindings: &Bindings<'_, B>,
        deps: &[B::Event],
        once: bool,
        events: &mut Vec<StepEvent<B>>,
    ) -> Result<()> {
        let compiled = &*self.compiled;
        let range = compiled.steps.iter().enumerate().filter(|(_, step)| step.constant == once);
        let bound = range
            .map(|(i, step)| Ok((i, step, self.arguments(step, bindings)?)))
            .collect::<Result<Vec<_>>>()?;
        for (_, step, args) in &bound {
            validate::execution::<B>(stream, &step.primitive, args)?;
        }
        let ordered = stream.desc().order == Order::InOrder;
        for (i, step, args) in &bound {
            let waits: Vec<B::Event> = if step.waits_for.is_empty() {
                // The first steps wait for the user's events; on an in-order stream everything is behind the first of them.
                deps.iter().filter(|_| !ordered || events.is_empty()).cloned().collect()
            } else if ordered {
                Vec::new()
            } else {
                step.waits_for
                    .iter()
                    .filter_map(|&wanted| events.iter().find(|e| e.step == wanted))
                    .map(|e| e.event.clone())
                    .collect()
            };
            let event = stream
                .execute_validated(&step.primitive, args, &waits)
                .at(|| step.primitive.desc().name().to_owned())?;
            events.push(StepEvent { step: *i, event });
        }
        Ok(())
    }

    /// The memories that a step works on.
    fn arguments(&self, step: &Step<B>, bindings: &Bindings<'_, B>) -> Result<Vec<(Arg, B::Memory)>> {
        let memory = |storage: Storage| match storage {
            Storage::Input(i) => bindings.inputs.get(i),
            Storage::Output(i) => bindings.outputs.get(i),
            Storage::Constant(i) => self.constants.get(i),
            Storage::Literal(i) => self.literals.get(i),
            Storage::Temp(i) => {
                self.prepared[i].as_ref().or_else(|| bindings.temps.get(i).and_then(Option::as_ref))
            }
        };
        let missing = |storage: &Storage| {
            Error::invalid(
                "execute",
                "plan",
                format!("{storage:?} without memory"),
                "memory for every argument",
            )
        };
        step.args
            .iter()
            .map(|(arg, storage)| Ok((*arg, memory(*storage).ok_or_else(|| missing(storage))?.clone())))
            .collect()
    }

    /// The temporaries as parts of the arena.
    fn arena_views(&self, arena: Option<&B::Memory>) -> Result<Vec<Option<B::Memory>>> {
        let Some(arena) = arena else { return Ok(Vec::new()) };
        let view = |place: &TempPlace| match *place {
            TempPlace::Arena { offset, bytes } => {
                arena.view(&MemoryDesc::new([bytes], DataType::U8), offset).map(Some)
            }
            TempPlace::Prepared { .. } | TempPlace::Unused => Ok(None),
        };
        self.compiled.temp_bytes.iter().map(view).collect()
    }
}

/// One event for everything enqueued: the last step's where the others are behind it, else a marker.
fn finish<B: Backend>(
    stream: &B::Stream,
    deps: &[B::Event],
    events: &[StepEvent<B>],
    steps: &[Step<B>],
) -> Result<B::Event> {
    let Some(last) = events.last() else { return stream.marker(deps) };
    if stream.desc().order == Order::InOrder {
        return Ok(last.event.clone());
    }
    let awaited: Vec<usize> = events.iter().flat_map(|e| steps[e.step].waits_for.iter().copied()).collect();
    let ends: Vec<B::Event> =
        events.iter().filter(|e| !awaited.contains(&e.step)).map(|e| e.event.clone()).collect();
    match ends.as_slice() {
        [only] => Ok(only.clone()),
        _ => stream.marker(&ends),
    }
}
