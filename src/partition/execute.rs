//! Executing a compiled partition.

use std::sync::Arc;

use anydnn_backend::{
    Backend, DataType, Engine, Error, HostScalar, InvalidKind, List, MapMode, Memory, MemoryDesc, Result,
    ResultExt, Stream,
};

use super::CompiledPartition;
use super::constants::Prepared;
use crate::compile::ARENA_ALIGNMENT;
use crate::execute::{
    CommandList, Enqueued, Memories, Phase, StepEvent, Taken, arena_in, arena_views, bind, check_stream,
    prepared_memories, separate,
};
use crate::graph::{Property, TensorId};

/// What stands for an input.
#[derive(Debug)]
pub enum Argument<B: Backend> {
    /// Memory of the engine, of any kind.
    Memory(B::Memory),
    /// A single number, copied when the execution is enqueued.
    Scalar(HostScalar),
}

impl<B: Backend> Clone for Argument<B> {
    fn clone(&self) -> Self {
        match self {
            Self::Memory(memory) => Self::Memory(memory.clone()),
            Self::Scalar(scalar) => Self::Scalar(*scalar),
        }
    }
}

impl<B: Backend> From<HostScalar> for Argument<B> {
    fn from(scalar: HostScalar) -> Self {
        Self::Scalar(scalar)
    }
}

/// The memories of an execution in port order.
struct Bound<B: Backend> {
    inputs: Vec<B::Memory>,
    constants: Vec<B::Memory>,
    outputs: Vec<B::Memory>,
}

impl<B: Backend> CompiledPartition<B> {
    /// Runs the partition after `deps`. Inputs, constants among them, and outputs are bound by tensor, in any order; the returned event
    /// covers all of it.
    ///
    /// The memory of an [in-place pair](CompiledPartition::in_place_pairs) may be the same. Working memory of at least
    /// [`CompiledPartition::scratchpad_size`] bytes may be given; else it comes from the engine's allocator and goes back after the event.
    ///
    /// # Errors
    /// [`Error::Invalid`] or [`Error::Mismatch`] for an argument that is missing, unknown, of another descriptor or engine, or an output
    /// that shares bytes with anything else; nothing has been enqueued then. A device error names the step.
    pub fn execute(
        &self,
        stream: &B::Stream,
        inputs: &[(TensorId, Argument<B>)],
        outputs: &[(TensorId, B::Memory)],
        scratchpad: Option<&B::Memory>,
        deps: &[B::Event],
    ) -> Result<B::Event> {
        let list = self.plan.compiled.lists.take(&self.plan.compiled)?;
        self.execute_with(list, stream, inputs, outputs, scratchpad, deps).map(|(event, _)| event)
    }

    /// As [`CompiledPartition::execute`], with the event of each step.
    ///
    /// # Errors
    /// As [`CompiledPartition::execute`].
    pub fn execute_traced(
        &self,
        stream: &B::Stream,
        inputs: &[(TensorId, Argument<B>)],
        outputs: &[(TensorId, B::Memory)],
        scratchpad: Option<&B::Memory>,
        deps: &[B::Event],
    ) -> Result<(B::Event, Vec<StepEvent<B>>)> {
        self.execute_with(None, stream, inputs, outputs, scratchpad, deps)
    }

    /// Enqueues a list, or without one the steps one by one.
    fn execute_with(
        &self,
        mut list: Option<Box<dyn List<B>>>,
        stream: &B::Stream,
        inputs: &[(TensorId, Argument<B>)],
        outputs: &[(TensorId, B::Memory)],
        scratchpad: Option<&B::Memory>,
        deps: &[B::Event],
    ) -> Result<(B::Event, Vec<StepEvent<B>>)> {
        let compiled = &self.plan.compiled;
        if let Err(error) = check_stream(compiled, stream) {
            compiled.lists.give(list);
            return Err(error);
        }
        let mut taken = Taken::new(compiled.engine.allocator());
        let mut enqueued = Enqueued::default();
        let ended = self.bind(inputs, outputs, &mut taken).and_then(|bound| {
            let list = list.as_deref_mut();
            self.enqueue(list, stream, &bound, scratchpad, deps, &mut taken, &mut enqueued)
        });
        compiled.lists.give(list);
        // Whatever was enqueued may still touch what was taken: it goes back after the last of it.
        if ended.is_err() {
            enqueued.settle();
        }
        taken.finish(ended).map(|event| (event, enqueued.events))
    }

    fn bind(
        &self,
        inputs: &[(TensorId, Argument<B>)],
        outputs: &[(TensorId, B::Memory)],
        taken: &mut Taken<B>,
    ) -> Result<Bound<B>> {
        let compiled = &self.plan.compiled;
        let (mut varying, mut constant, mut scalars) = (Vec::new(), Vec::new(), Vec::new());
        for (id, argument) in inputs {
            match argument {
                Argument::Scalar(scalar) => scalars.push((*id, *scalar)),
                Argument::Memory(memory) if compiled.constants.contains(id) => {
                    constant.push((*id, memory.clone()));
                }
                Argument::Memory(memory) => varying.push((*id, memory.clone())),
            }
        }
        self.check_scalars(&scalars)?;
        let outputs = bind("output", compiled, compiled.graph.outputs(), &compiled.output_descs, outputs)?;
        let constants = bind("constant", compiled, &compiled.constants, &compiled.constant_descs, &constant)?;
        varying.extend(self.scalar_memories(&scalars, taken)?);
        let inputs = bind("input", compiled, compiled.graph.inputs(), &compiled.input_descs, &varying)?;
        separate(compiled, &inputs, &outputs, &constants, &self.plan.in_place)?;
        Ok(Bound { inputs, constants, outputs })
    }

    fn check_scalars(&self, scalars: &[(TensorId, HostScalar)]) -> Result<()> {
        for (id, scalar) in scalars {
            let subject = format!("input {id}");
            let desc = self.memory_desc(*id).filter(|_| self.property(*id) == Property::HostScalar);
            let Some(desc) = desc else {
                let expected = "memory: the tensor is no host scalar";
                return Err(Error::invalid("execute", subject, "a number", expected));
            };
            if desc.data_type() != scalar.data_type() {
                let (given, expected) = (scalar.data_type().to_string(), desc.data_type().to_string());
                return Err(Error::invalid_kind(InvalidKind::Argument, "execute", subject, given, expected));
            }
        }
        Ok(())
    }

    /// Memory with the numbers. It is written through a mapping, which waits for nothing: the stream's commands may stand behind events
    /// that this thread has yet to complete.
    fn scalar_memories(
        &self,
        scalars: &[(TensorId, HostScalar)],
        taken: &mut Taken<B>,
    ) -> Result<Vec<(TensorId, B::Memory)>> {
        if scalars.is_empty() {
            return Ok(Vec::new());
        }
        let memory = taken.take(scalars.len() * ARENA_ALIGNMENT, "host scalars")?;
        let mut mapping = memory.map(MapMode::Write)?;
        for (place, (_, scalar)) in mapping.bytes_mut().chunks_mut(ARENA_ALIGNMENT).zip(scalars) {
            place[..scalar.bytes().len()].copy_from_slice(scalar.bytes());
        }
        mapping.unmap()?;
        scalars
            .iter()
            .enumerate()
            .map(|(i, (id, scalar))| Ok((*id, memory.view(&scalar.desc(), i * ARENA_ALIGNMENT)?)))
            .collect()
    }

    fn enqueue(
        &self,
        list: Option<&mut (dyn List<B> + 'static)>,
        stream: &B::Stream,
        bound: &Bound<B>,
        scratchpad: Option<&B::Memory>,
        deps: &[B::Event],
        taken: &mut Taken<B>,
        enqueued: &mut Enqueued<B>,
    ) -> Result<B::Event> {
        let plan = &*self.plan;
        let compiled = &plan.compiled;
        if let Some(scratchpad) = scratchpad {
            self.check_scratchpad(bound, scratchpad)?;
        }
        let has_prepared = plan.prepared.iter().any(Option::is_some);
        let cache = self.constants.as_ref().filter(|_| has_prepared);
        let cache = cache.filter(|cache| cache.takes(&compiled.engine, plan.prepared_bytes));
        let found = cache.and_then(|cache| cache.find(&compiled.engine, plan.id, &bound.constants));
        // What is not kept is made in the scratchpad, behind the other temporaries.
        let in_scratchpad = has_prepared && cache.is_none() && !taken.keeps_apart();
        let scratchpad = match scratchpad {
            Some(given) => Some(given.clone()),
            None if in_scratchpad => Some(taken.take(plan.scratchpad_bytes, "scratchpad")?),
            None => None,
        };
        let arena = match &scratchpad {
            Some(scratchpad) => arena_in(compiled, scratchpad)?,
            None => taken.take_arena(compiled)?,
        };
        let temps = if list.is_some() { Vec::new() } else { arena_views(compiled, &arena)? };
        let is_made = found.is_some() || !has_prepared;
        let (made, ready): (Arc<[Option<B::Memory>]>, _) = match (found, &scratchpad) {
            (Some(found), _) => (found.memories, Some(found.ready)),
            (None, Some(scratchpad)) if in_scratchpad => (self.prepared_views(scratchpad)?.into(), None),
            (None, _) => (prepared_memories(compiled)?.into(), None),
        };
        let memories = Memories {
            inputs: &bound.inputs,
            outputs: &bound.outputs,
            constants: &bound.constants,
            literals: &plan.literals,
            prepared: &made,
            temps: &temps,
        };
        let run = match &list {
            Some(_) => None,
            None => Some(CommandList::checked(compiled, Phase::Run, &memories, stream)?),
        };
        let mut waits = deps.to_vec();
        waits.extend(ready);
        if !is_made {
            let prepare = CommandList::checked(compiled, Phase::Prepare, &memories, stream)?;
            let ready = prepare.enqueue(stream, deps, enqueued)?;
            if let Some(cache) = cache {
                let value = Prepared { memories: Arc::clone(&made), ready: ready.clone() };
                cache.insert(&compiled.engine, plan.id, &bound.constants, value, plan.prepared_bytes);
            }
            waits.push(ready);
        }
        match (list, run) {
            (Some(list), _) => list.enqueue(stream, &memories.slots(&arena), &waits),
            (None, Some(run)) => run.enqueue(stream, &waits, enqueued),
            (None, None) => stream.marker(&waits),
        }
    }

    fn check_scratchpad(&self, bound: &Bound<B>, scratchpad: &B::Memory) -> Result<()> {
        let (compiled, region) = (&self.plan.compiled, scratchpad.region());
        let wrong =
            |given: String, expected: String| Err(Error::invalid("execute", "scratchpad", given, expected));
        let needed = self.scratchpad_size();
        if region.bytes < needed {
            return wrong(format!("{} bytes", region.bytes), format!("at least {needed} bytes"));
        }
        if scratchpad.engine_id() != compiled.engine.id() {
            let (theirs, own) = (scratchpad.engine_id(), compiled.engine.id());
            return Err(Error::mismatch(
                "execute",
                format!("scratchpad of {theirs}"),
                format!("the compiled partition's {own}"),
            ));
        }
        let others = [&bound.inputs, &bound.constants, &bound.outputs];
        let clash = others.into_iter().flatten().find(|other| other.region().overlaps(&region));
        match clash.filter(|other| needed > 0 && other.region().bytes > 0) {
            Some(other) => wrong(format!("sharing bytes with {}", other.desc()), "separate bytes".into()),
            None => Ok(()),
        }
    }

    /// The parts of a scratchpad for what follows from constants.
    fn prepared_views(&self, scratchpad: &B::Memory) -> Result<Vec<Option<B::Memory>>> {
        let view = |place: &Option<(usize, usize)>| {
            place
                .map(|(offset, bytes)| scratchpad.view(&MemoryDesc::new([bytes], DataType::U8), offset))
                .transpose()
        };
        self.plan.prepared.iter().map(view).collect::<Result<_>>().at(|| "scratchpad")
    }
}
