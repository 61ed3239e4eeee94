//! Recorded executions: everything is bound and checked once, and enqueued as often as wanted.

use std::sync::{Mutex, PoisonError};

use anydnn_backend::{Backend, Engine, Error, Event, EventStatus, List, Order, Result, Stream};

use super::bind::{self, bind};
use super::commands::{CommandList, Enqueued, Memories, Phase, Taken, arena_views};
use super::{Executable, Ports, check_stream};
use crate::compile::{Compiled, Storage};
use crate::graph::TensorId;

/// An execution with its stream, arguments and temporaries bound: a replay enqueues its commands without checking or allocating.
///
/// Replays follow one another, whatever the stream's order: they share their temporaries. What fails in one fails those that were
/// enqueued behind it before it was known.
///
/// The list of commands is this library's own. `cl_khr_command_buffer` was measured to be slower than enqueueing on the runtimes that
/// have it.
///
/// ```
/// use anydnn::backend::{DataType, Engine, Event, MemoryDesc, Stream, StreamDesc};
/// use anydnn::compile::{CompileOptions, CompiledGraph};
/// use anydnn::graph::{Attrs, GraphBuilder, OpKind};
///
/// let mut g = GraphBuilder::new();
/// let x = g.input("x", DataType::F32, [2]);
/// let y = g.op("act", OpKind::ReLU, &[x], Attrs::new())?;
/// let engine = anydnn_host::HostEngine::new();
/// let stream = engine.create_stream(&StreamDesc::default())?;
/// let network = CompiledGraph::new(&g.build()?, &engine, &CompileOptions::default())?.load(&stream, &[])?;
/// let kind = engine.capabilities().memory_kinds[0];
/// let memory = || engine.create_memory(&MemoryDesc::new([2], DataType::F32), kind);
/// let (input, output) = (memory()?, memory()?);
/// let recording = network.record(&stream, &[(x, input.clone())], &[(y, output.clone())])?;
/// for value in [-1.0_f32, 2.0] {
///     let written = stream.write(&input, 0, &[value; 2].map(f32::to_le_bytes).concat(), &[])?;
///     recording.replay(&[written])?.wait()?;
///     let mut bytes = [0; 8];
///     stream.read(&output, 0, &mut bytes, &[])?;
///     assert_eq!(bytes[..4], value.max(0.0).to_le_bytes());
/// }
/// # Ok::<(), anydnn::backend::Error>(())
/// ```
#[derive(Debug)]
pub struct Recording<B: Backend> {
    executable: Executable<B>,
    stream: B::Stream,
    inputs: Vec<B::Memory>,
    outputs: Vec<B::Memory>,
    state: Mutex<State<B>>,
}

/// What a replay enqueues.
#[derive(Debug)]
enum Bound<B: Backend> {
    /// As one, with the memory for temporaries.
    List { list: Box<dyn List<B>>, arena: Vec<B::Memory> },
    /// One by one.
    Commands { list: CommandList<B>, enqueued: Enqueued<B> },
}

#[derive(Debug)]
struct State<B: Backend> {
    taken: Option<Taken<B>>,
    /// There until the recording is dropped.
    bound: Option<Bound<B>>,
    /// The end of the latest replay, while that may still run.
    last: Option<B::Event>,
    deps: Vec<B::Event>,
}

impl<B: Backend> Executable<B> {
    /// Binds an execution to a stream and its arguments, to be [replayed](Recording::replay).
    ///
    /// # Errors
    /// As [`Executable::execute`]; nothing is enqueued.
    pub fn record(
        &self,
        stream: &B::Stream,
        inputs: &[(TensorId, B::Memory)],
        outputs: &[(TensorId, B::Memory)],
    ) -> Result<Recording<B>> {
        let compiled = &*self.compiled;
        check_stream(compiled, stream)?;
        let Ports { inputs, outputs } = self.bind_ports(inputs, outputs)?;
        let mut taken = Taken::new(compiled.engine.allocator());
        let bound = match compiled.lists.take(compiled)? {
            Some(list) => match taken.take_arena(compiled) {
                Ok(arena) => Ok(Bound::List { list, arena }),
                Err(error) => {
                    compiled.lists.give(Some(list));
                    Err(error)
                }
            },
            None => self
                .bind_commands(stream, &inputs, &outputs, &mut taken)
                .map(|list| Bound::Commands { list, enqueued: Enqueued::default() }),
        };
        let bound = match bound {
            Ok(bound) => bound,
            Err(error) => {
                // The failure before is the one to report.
                let _ = taken.give_back(None);
                return Err(error);
            }
        };
        let state = State { taken: Some(taken), bound: Some(bound), last: None, deps: Vec::new() };
        let (executable, stream) = (self.clone(), stream.clone());
        Ok(Recording { executable, stream, inputs, outputs, state: Mutex::new(state) })
    }

    /// The checked commands of an execution; its temporaries are taken.
    pub(super) fn bind_commands(
        &self,
        stream: &B::Stream,
        inputs: &[B::Memory],
        outputs: &[B::Memory],
        taken: &mut Taken<B>,
    ) -> Result<CommandList<B>> {
        let compiled = &*self.compiled;
        let temps = arena_views(compiled, &taken.take_arena(compiled)?)?;
        let memories = Memories { temps: &temps, ..self.memories(inputs, outputs) };
        let list = CommandList::new(compiled, Phase::Run, &memories)?;
        list.validate(stream)?;
        Ok(list)
    }
}

impl<B: Backend> Recording<B> {
    /// Enqueues the execution after `deps` and the replays before; the returned event covers all of it.
    ///
    /// # Errors
    /// A device error that names the step.
    pub fn replay(&self, deps: &[B::Event]) -> Result<B::Event> {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { bound, last, deps: all, .. } = &mut *guard;
        all.clear();
        all.extend_from_slice(deps);
        if let Some(last) = last.take()
            && self.stream.desc().order == Order::OutOfOrder
        {
            // A failure that is known is told already.
            if matches!(last.status(), Ok(EventStatus::Failed)) {
                let _ = last.wait();
            } else {
                all.push(last);
            }
        }
        let event = match bound {
            Some(Bound::List { list, arena }) => {
                let memories = self.executable.memories(&self.inputs, &self.outputs);
                list.enqueue(&self.stream, &memories.slots(arena), all)?
            }
            Some(Bound::Commands { list, enqueued }) => {
                enqueued.clear();
                list.enqueue(&self.stream, all, enqueued).inspect_err(|_| enqueued.settle())?
            }
            None => self.stream.marker(all)?,
        };
        *last = Some(event.clone());
        Ok(event)
    }

    /// Binds other memory to an input or output, from the next replay on. Replays that have been enqueued keep what they have.
    ///
    /// # Errors
    /// [`Error::Invalid`] or [`Error::Mismatch`] as for [`Executable::execute`]; the recording stays as it was.
    pub fn update(&mut self, id: TensorId, memory: &B::Memory) -> Result<()> {
        let compiled = &*self.executable.compiled;
        let port = Port::find(compiled, id)?;
        let (ids, descs, memories) = match port {
            Port::Input(_) => (compiled.graph.inputs(), &compiled.input_descs, &self.inputs),
            Port::Output(_) => (compiled.graph.outputs(), &compiled.output_descs, &self.outputs),
        };
        let (Port::Input(at) | Port::Output(at)) = port;
        bind(port.role(), compiled, &ids[at..=at], &descs[at..=at], &[(id, memory.clone())])?;
        let mut changed = memories.clone();
        changed[at] = memory.clone();
        let (inputs, outputs) = match port {
            Port::Input(_) => (changed, self.outputs.clone()),
            Port::Output(_) => (self.inputs.clone(), changed),
        };
        bind::separate(compiled, &inputs, &outputs, &self.executable.constants, &[])?;
        (self.inputs, self.outputs) = (inputs, outputs);
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(Bound::Commands { list, .. }) = &mut state.bound else { return Ok(()) };
        for command in &mut list.commands {
            let storages = &compiled.steps[command.step].args;
            for ((_, bound), (_, storage)) in command.args.iter_mut().zip(storages) {
                if *storage == port.storage() {
                    *bound = memory.clone();
                }
            }
        }
        Ok(())
    }

    /// The executable.
    pub fn executable(&self) -> &Executable<B> {
        &self.executable
    }

    /// The stream.
    pub fn stream(&self) -> &B::Stream {
        &self.stream
    }

    /// The number of commands that a replay enqueues.
    pub fn commands(&self) -> usize {
        self.executable.compiled.steps.iter().filter(|step| !step.constant).count()
    }
}

impl<B: Backend> Drop for Recording<B> {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        // The commands hold parts of the arena, which the allocator wants back whole.
        if let Some(Bound::List { list, .. }) = state.bound.take() {
            self.executable.compiled.lists.give(Some(list));
        }
        if let Some(taken) = state.taken.take()
            && let Err(error) = taken.give_back(state.last.as_ref())
        {
            tracing::warn!(%error, "the temporaries of a recording were not given back");
        }
    }
}

/// A tensor that an execution is given.
#[derive(Clone, Copy, Debug)]
enum Port {
    Input(usize),
    Output(usize),
}

impl Port {
    fn find<B: Backend>(compiled: &Compiled<B>, id: TensorId) -> Result<Self> {
        let graph = &compiled.graph;
        let at = |ids: &[TensorId]| ids.iter().position(|other| *other == id);
        at(graph.inputs()).map(Self::Input).or_else(|| at(graph.outputs()).map(Self::Output)).ok_or_else(
            || Error::invalid("update", "tensor", graph.label(id), "an input or output of the graph"),
        )
    }

    fn role(self) -> &'static str {
        match self {
            Self::Input(_) => "input",
            Self::Output(_) => "output",
        }
    }

    fn storage(self) -> Storage {
        match self {
            Self::Input(i) => Storage::Input(i),
            Self::Output(i) => Storage::Output(i),
        }
    }
}
