//! Commands: the steps of a plan with their memories, and how they are enqueued.

use anydnn_backend::{
    Allocator, Arg, Backend, DataType, Error, Event, Memory, MemoryDesc, Order, Primitive, Result, ResultExt,
    Stream, validate,
};
use std::ops::Range;
use std::sync::Arc;

use super::StepEvent;
use crate::compile::{Compiled, Storage, TempPlace};

/// The memories that a plan's steps work on.
#[derive(Debug)]
pub(crate) struct Memories<'a, B: Backend> {
    pub(crate) inputs: &'a [B::Memory],
    pub(crate) outputs: &'a [B::Memory],
    pub(crate) constants: &'a [B::Memory],
    pub(crate) literals: &'a [B::Memory],
    /// Temporaries that depend on constants alone, by index.
    pub(crate) prepared: &'a [Option<B::Memory>],
    /// Parts of the arena, by index.
    pub(crate) temps: &'a [Option<B::Memory>],
}

impl<B: Backend> Memories<'_, B> {
    pub(super) fn get(&self, storage: Storage) -> Result<&B::Memory> {
        let found = match storage {
            Storage::Input(i) => self.inputs.get(i),
            Storage::Output(i) => self.outputs.get(i),
            Storage::Constant(i) => self.constants.get(i),
            Storage::Literal(i) => self.literals.get(i),
            Storage::Temp(i) => {
                let either = [self.prepared, self.temps];
                either.iter().find_map(|temps| temps.get(i).and_then(Option::as_ref))
            }
        };
        found.ok_or_else(|| {
            let given = format!("{storage:?} without memory");
            Error::invalid("execute", "plan", given, "memory for every argument")
        })
    }
}

impl<'a, B: Backend> Memories<'a, B> {
    /// The memories in the order of the slots that [`Lists`](crate::compile::Lists) gives them.
    pub(crate) fn slots(&self, arena: &'a [B::Memory]) -> Vec<&'a B::Memory> {
        let ports = [self.inputs, self.outputs, self.constants, self.literals].into_iter().flatten();
        ports.chain(self.prepared.iter().flatten()).chain(arena).collect()
    }
}

/// Which steps of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Those that prepare constants.
    Prepare,
    /// All others.
    Run,
}

/// A step with its memories.
#[derive(Debug)]
pub(crate) struct Command<B: Backend> {
    /// An index into the plan's steps.
    pub(crate) step: usize,
    pub(crate) primitive: B::Primitive,
    pub(crate) args: Vec<(Arg, B::Memory)>,
    /// Positions in the list.
    waits_for: Vec<usize>,
}

/// Commands in order. To enqueue them takes neither checks nor memory.
#[derive(Debug)]
pub(crate) struct CommandList<B: Backend> {
    pub(crate) commands: Vec<Command<B>>,
    /// The commands that no other waits for.
    ends: Vec<usize>,
}

/// What enqueueing leaves: the events so far, also after a failure.
#[derive(Debug)]
pub(crate) struct Enqueued<B: Backend> {
    pub(crate) events: Vec<StepEvent<B>>,
    waits: Vec<B::Event>,
}

impl<B: Backend> Default for Enqueued<B> {
    fn default() -> Self {
        Self { events: Vec::new(), waits: Vec::new() }
    }
}

impl<B: Backend> Enqueued<B> {
    /// Forgets the events and keeps the room for others.
    pub(crate) fn clear(&mut self) {
        self.events.clear();
        self.waits.clear();
    }

    /// Waits for everything enqueued, whatever becomes of it: after a failure, which is the error to report.
    pub(crate) fn settle(&self) {
        for step in &self.events {
            let _ = step.event.wait();
        }
    }
}

impl<B: Backend> CommandList<B> {
    /// The steps of a phase with their memories.
    pub(crate) fn new(compiled: &Compiled<B>, phase: Phase, memories: &Memories<'_, B>) -> Result<Self> {
        // Steps that prepare constants come first.
        let first = compiled.steps.iter().take_while(|step| step.constant).count();
        let (range, base) = match phase {
            Phase::Prepare => (0..first, 0),
            Phase::Run => (first..compiled.steps.len(), first),
        };
        let mut commands = Vec::with_capacity(range.len());
        let mut is_end = vec![true; range.len()];
        for i in range {
            let step = &compiled.steps[i];
            let waits_for: Vec<usize> = step.waits_for.iter().map(|&wanted| wanted - base).collect();
            for &earlier in &waits_for {
                is_end[earlier] = false;
            }
            let args = step
                .args
                .iter()
                .map(|(arg, storage)| Ok((*arg, memories.get(*storage)?.clone())))
                .collect::<Result<_>>()?;
            commands.push(Command { step: i, primitive: step.primitive.clone(), args, waits_for });
        }
        let ends = (0..commands.len()).filter(|&at| is_end[at]).collect();
        Ok(Self { commands, ends })
    }

    /// The steps of a phase with their memories, every argument checked.
    pub(crate) fn checked(
        compiled: &Compiled<B>,
        phase: Phase,
        memories: &Memories<'_, B>,
        stream: &B::Stream,
    ) -> Result<Self> {
        let list = Self::new(compiled, phase, memories)?;
        list.validate(stream)?;
        Ok(list)
    }

    /// Checks every argument of every command.
    pub(crate) fn validate(&self, stream: &B::Stream) -> Result<()> {
        self.commands
            .iter()
            .try_for_each(|command| validate::execution::<B>(stream, &command.primitive, &command.args))
    }

    /// Enqueues the commands after `deps` and returns one event for all of them.
    pub(crate) fn enqueue(
        &self,
        stream: &B::Stream,
        deps: &[B::Event],
        enqueued: &mut Enqueued<B>,
    ) -> Result<B::Event> {
        self.enqueue_while(stream, deps, enqueued, &|| Ok(()))
    }

    /// The same as long as `go_on` says so, which is asked before each command.
    pub(crate) fn enqueue_while(
        &self,
        stream: &B::Stream,
        deps: &[B::Event],
        enqueued: &mut Enqueued<B>,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<B::Event> {
        let ordered = stream.desc().order == Order::InOrder;
        let base = enqueued.events.len();
        for (at, command) in self.commands.iter().enumerate() {
            go_on()?;
            let waits = &mut enqueued.waits;
            waits.clear();
            if command.waits_for.is_empty() {
                // The first steps wait for the user's events; on an in-order stream everything is behind the first of them.
                waits.extend(deps.iter().filter(|_| !ordered || at == 0).cloned());
            } else if !ordered {
                let events = &enqueued.events;
                waits.extend(command.waits_for.iter().map(|&earlier| events[base + earlier].event.clone()));
            }
            let event = stream
                .execute_validated(&command.primitive, &command.args, waits)
                .at(|| command.primitive.desc().name().to_owned())?;
            enqueued.events.push(StepEvent { step: command.step, event });
        }
        self.finish(stream, deps, base, enqueued)
    }

    /// One event for everything enqueued: the last step's where the others are behind it, else a marker.
    fn finish(
        &self,
        stream: &B::Stream,
        deps: &[B::Event],
        base: usize,
        enqueued: &mut Enqueued<B>,
    ) -> Result<B::Event> {
        let events = &enqueued.events;
        match (stream.desc().order, self.ends.as_slice(), events.last()) {
            (_, [], _) | (_, _, None) => stream.marker(deps),
            (Order::InOrder, _, Some(last)) => Ok(last.event.clone()),
            (Order::OutOfOrder, [only], _) => Ok(events[base + only].event.clone()),
            (Order::OutOfOrder, ends, _) => {
                enqueued.waits.clear();
                enqueued.waits.extend(ends.iter().map(|&end| events[base + end].event.clone()));
                stream.marker(&enqueued.waits)
            }
        }
    }
}

/// The temporaries of an execution, from the parts of the arena.
pub(crate) fn arena_views<B: Backend>(
    compiled: &Compiled<B>,
    arena: &[B::Memory],
) -> Result<Vec<Option<B::Memory>>> {
    let view = |place: &TempPlace| match *place {
        TempPlace::Arena { part, offset, bytes } => {
            let part = arena.get(part).map(|part| part.view(&MemoryDesc::new([bytes], DataType::U8), offset));
            part.transpose()
        }
        TempPlace::Prepared { .. } | TempPlace::Unused => Ok(None),
    };
    compiled.temp_bytes.iter().map(view).collect()
}

/// The parts of the arena where they lie in one memory.
pub(crate) fn arena_in<B: Backend>(compiled: &Compiled<B>, memory: &B::Memory) -> Result<Vec<B::Memory>> {
    let view = |part: &Range<usize>| memory.view(&MemoryDesc::new([part.len()], DataType::U8), part.start);
    compiled.arena_parts.iter().map(view).collect()
}

/// Bytes of an allocator for the time of an execution.
#[derive(Debug)]
pub(crate) struct Taken<B: Backend> {
    allocator: Arc<dyn Allocator<B = B>>,
    memories: Vec<B::Memory>,
}

impl<B: Backend> Taken<B> {
    pub(crate) fn new(allocator: Arc<dyn Allocator<B = B>>) -> Self {
        Self { allocator, memories: Vec::new() }
    }

    /// Whether what is taken lies by itself.
    pub(crate) fn keeps_apart(&self) -> bool {
        self.allocator.keeps_apart()
    }

    /// Takes memory; its start is aligned as temporaries are.
    pub(crate) fn take(&mut self, bytes: usize, what: &str) -> Result<B::Memory> {
        // Temporaries without elements need no bytes, but memory all the same.
        let memory = self.allocator.allocate(bytes.max(1), crate::compile::ARENA_ALIGNMENT).at(|| what)?;
        self.memories.push(memory.clone());
        Ok(memory)
    }

    /// Takes the parts of the arena of an execution.
    pub(crate) fn take_arena(&mut self, compiled: &Compiled<B>) -> Result<Vec<B::Memory>> {
        compiled.arena_parts.iter().map(|part| self.take(part.len(), "temporaries")).collect()
    }

    /// Gives everything back behind an execution that was enqueued or failed, whose own failure is the one to report.
    pub(crate) fn finish(self, ended: Result<B::Event>) -> Result<B::Event> {
        let given_back = self.give_back(ended.as_ref().ok());
        let event = ended?;
        if given_back.is_err() {
            // Nobody is handed the event of what is on its way.
            let _ = event.wait();
        }
        given_back.map(|()| event)
    }

    /// Gives everything back, to be used again when `after` has ended.
    pub(crate) fn give_back(self, after: Option<&B::Event>) -> Result<()> {
        let mut result = Ok(());
        for memory in self.memories {
            result = result.and(self.allocator.free(memory, after));
        }
        result
    }
}
