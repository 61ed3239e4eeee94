//! Execution: a plan becomes commands on a stream.
//!
//! Everything that can be wrong with the arguments is checked before the first command is enqueued. On an out-of-order stream each step
//! waits for exactly the steps whose bytes it touches; on an in-order stream the order of submission does that. The temporaries come
//! from the engine's [`Allocator`](anydnn_backend::Allocator) and go back with the event of the last command.

mod bind;
mod commands;
mod host;
mod loading;
mod prepared;
mod record;
mod run;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use anydnn_backend::{
    Backend, DataType, Engine, Error, List, MapMode, Memory, MemoryDesc, MemoryKind, Result, Stream,
};

pub(crate) use self::bind::{bind, separate};
pub(crate) use self::commands::{CommandList, Enqueued, Memories, Phase, Taken, arena_in, arena_views};
use self::loading::Loading;
#[cfg(feature = "onnx")]
pub(crate) use self::prepared::PreparedConstants;
pub(crate) use self::prepared::Sharing;
use self::prepared::{Kept, Preparation};
pub use self::record::Recording;
pub(crate) use self::run::run;
use crate::compile::{Compiled, CompiledGraph, Literal, TempPlace};
use crate::graph::TensorId;

/// A compiled graph with its constants: ready to run, from any thread, on any stream of its engine.
///
/// ```
/// # use anydnn::execute::Executable;
/// # use anydnn_host::{Host, HostStream};
/// fn run(network: &Executable<Host>, stream: &HostStream) {
///     let _ = network.execute(stream, &[], &[], &[]);
/// }
/// ```
///
/// A stream of another backend is refused by the compiler:
///
/// ```compile_fail,E0308
/// # use anydnn::execute::Executable;
/// # use anydnn_host::{Host, HostStream};
/// # use anydnn_mock::Mock;
/// fn run(network: &Executable<Mock>, stream: &HostStream) {
///     let _ = network.execute(stream, &[], &[], &[]);
/// }
/// ```
#[derive(Debug)]
pub struct Executable<B: Backend> {
    compiled: Arc<Compiled<B>>,
    constants: Arc<[B::Memory]>,
    literals: Arc<[B::Memory]>,
    /// Temporaries that depend on constants alone, by index.
    prepared: Arc<[Option<B::Memory>]>,
    /// Those of them that other plans may take over as long as this one is there.
    shared: Arc<[Arc<B::Memory>]>,
}

impl<B: Backend> Clone for Executable<B> {
    fn clone(&self) -> Self {
        Self {
            compiled: Arc::clone(&self.compiled),
            constants: Arc::clone(&self.constants),
            literals: Arc::clone(&self.literals),
            prepared: Arc::clone(&self.prepared),
            shared: Arc::clone(&self.shared),
        }
    }
}

/// The memories that an execution is given, in port order.
struct Ports<B: Backend> {
    inputs: Vec<B::Memory>,
    outputs: Vec<B::Memory>,
}

/// A step's event, for profiles.
#[derive(Clone, Debug)]
pub struct StepEvent<B: Backend> {
    /// The step, an index into [`CompiledGraph::steps`].
    pub step: usize,
    /// The completion of its commands.
    pub event: B::Event,
}

impl<B: Backend> CompiledGraph<B> {
    /// Takes the constants, prepares them on `stream`, and waits until that is done.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a constant that is missing, unknown or of another descriptor; a device error.
    pub fn load(&self, stream: &B::Stream, constants: &[(TensorId, B::Memory)]) -> Result<Executable<B>> {
        Executable::load(Arc::clone(&self.inner), stream, constants)
    }

    /// The same with constants that `give` is asked for one by one, each with whether executions read it themselves. What another plan has
    /// prepared alike is taken from there; constants that only lead to that are not asked for.
    #[cfg(feature = "onnx")]
    pub(crate) fn load_each(
        &self,
        stream: &B::Stream,
        sharing: Option<&Sharing<'_, B>>,
        mut give: impl FnMut(TensorId, bool) -> Result<B::Memory>,
    ) -> Result<Executable<B>> {
        let inner = &self.inner;
        let give = |at: usize| give(inner.constants[at], inner.reads_constant(at));
        Executable::load_each(Arc::clone(inner), stream, sharing, give)
    }
}

impl<B: Backend> Executable<B> {
    fn load(compiled: Arc<Compiled<B>>, stream: &B::Stream, given: &[(TensorId, B::Memory)]) -> Result<Self> {
        let constants = bind("constant", &compiled, &compiled.constants, &compiled.constant_descs, given)?;
        Self::load_each(compiled, stream, None, |at| Ok(constants[at].clone()))
    }

    /// The same with constants that are asked for one by one, when a step first needs them, and given back as soon as nothing does: what is
    /// only read to prepare others need not be there all at once.
    fn load_each(
        compiled: Arc<Compiled<B>>,
        stream: &B::Stream,
        sharing: Option<&Sharing<'_, B>>,
        mut give: impl FnMut(usize) -> Result<B::Memory>,
    ) -> Result<Self> {
        check_stream(&compiled, stream)?;
        let literals = literal_memories(&compiled)?;
        let preparation = Preparation::new(&compiled, sharing)?;
        let mut loading = Loading::new(&compiled, &preparation.runs);
        let result = loading.prepare(stream, &literals, &preparation.memories, &mut give);
        loading.settle();
        result?;
        let nothing = compiled.engine.create_memory(&MemoryDesc::new([0], DataType::U8), kind(&compiled)?)?;
        let constants = loading.kept(&mut give, &nothing)?;
        let Kept { memories, shared } = preparation.finish(&compiled, sharing, &nothing);
        Ok(Self {
            constants: constants.into(),
            compiled,
            literals: literals.into(),
            prepared: memories.into(),
            shared: shared.into(),
        })
    }

    /// Keeps more memory that other plans may take over.
    #[cfg(feature = "onnx")]
    pub(crate) fn holding(self, more: Vec<Arc<B::Memory>>) -> Self {
        let shared = self.shared.iter().cloned().chain(more).collect();
        Self { shared, ..self }
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
        self.execute_while(stream, inputs, outputs, deps, &|| Ok(()))
    }

    /// The same as long as `go_on` says so, which is asked before each step that is enqueued by itself.
    pub(crate) fn execute_while(
        &self,
        stream: &B::Stream,
        inputs: &[(TensorId, B::Memory)],
        outputs: &[(TensorId, B::Memory)],
        deps: &[B::Event],
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<B::Event> {
        let compiled = &*self.compiled;
        check_stream(compiled, stream)?;
        let Ports { inputs, outputs } = self.bind_ports(inputs, outputs)?;
        let list = compiled.lists.take(compiled)?;
        self.enqueue(list, stream, &inputs, &outputs, deps, go_on).map(|(event, _)| event)
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
        check_stream(compiled, stream)?;
        let Ports { inputs, outputs } = self.bind_ports(inputs, outputs)?;
        self.enqueue(None, stream, &inputs, &outputs, deps, &|| Ok(()))
    }

    /// Enqueues a list, or without one the steps one by one.
    fn enqueue(
        &self,
        list: Option<Box<dyn List<B>>>,
        stream: &B::Stream,
        inputs: &[B::Memory],
        outputs: &[B::Memory],
        deps: &[B::Event],
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<(B::Event, Vec<StepEvent<B>>)> {
        let compiled = &*self.compiled;
        run(compiled, list, |list, taken, enqueued| {
            if let Some(list) = list {
                let arena = taken.take_arena(compiled)?;
                return list.enqueue(stream, &self.memories(inputs, outputs).slots(&arena), deps);
            }
            let commands = self.bind_commands(stream, inputs, outputs, taken)?;
            commands.enqueue_while(stream, deps, enqueued, go_on)
        })
    }

    /// The given memories in port order, checked.
    fn bind_ports(
        &self,
        inputs: &[(TensorId, B::Memory)],
        outputs: &[(TensorId, B::Memory)],
    ) -> Result<Ports<B>> {
        let compiled = &*self.compiled;
        let inputs = bind("input", compiled, compiled.graph.inputs(), &compiled.input_descs, inputs)?;
        let outputs = bind("output", compiled, compiled.graph.outputs(), &compiled.output_descs, outputs)?;
        separate(compiled, &inputs, &outputs, &self.constants, &[])?;
        Ok(Ports { inputs, outputs })
    }

    /// The memories of an execution, without temporaries.
    fn memories<'a>(&'a self, inputs: &'a [B::Memory], outputs: &'a [B::Memory]) -> Memories<'a, B> {
        Memories {
            inputs,
            outputs,
            constants: &self.constants,
            literals: &self.literals,
            prepared: &self.prepared,
            temps: &[],
        }
    }
}

/// The literals in memory of the engine. They are written through mappings, so they are there on every stream.
pub(crate) fn literal_memories<B: Backend>(compiled: &Compiled<B>) -> Result<Vec<B::Memory>> {
    let make = |literal: &Literal| {
        let memory = compiled.engine.create_memory(&literal.desc, kind(compiled)?)?;
        if !literal.bytes.is_empty() {
            let mut mapping = memory.map(MapMode::Write)?;
            mapping.bytes_mut()[..literal.bytes.len()].copy_from_slice(&literal.bytes);
            mapping.unmap()?;
        }
        Ok(memory)
    };
    compiled.literals.iter().map(make).collect()
}

/// Memory for the temporaries that depend on constants alone, by index.
pub(crate) fn prepared_memories<B: Backend>(compiled: &Compiled<B>) -> Result<Vec<Option<B::Memory>>> {
    let make = |place: &TempPlace| {
        let TempPlace::Prepared { bytes } = place else { return Ok(None) };
        prepared_memory(compiled, *bytes).map(Some)
    };
    compiled.temp_bytes.iter().map(make).collect()
}

fn prepared_memory<B: Backend>(compiled: &Compiled<B>, bytes: usize) -> Result<B::Memory> {
    let desc = MemoryDesc::new([bytes], DataType::U8).labelled("prepared constant");
    compiled.engine.create_memory(&desc, kind(compiled)?)
}

pub(crate) fn check_stream<B: Backend>(compiled: &Compiled<B>, stream: &B::Stream) -> Result<()> {
    let (given, own) = (stream.engine_id(), compiled.engine.id());
    if given == own {
        return Ok(());
    }
    Err(Error::mismatch("execute", format!("a stream of {given}"), format!("the compiled graph's {own}")))
}

/// The engine's own kind of memory.
fn kind<B: Backend>(compiled: &Compiled<B>) -> Result<MemoryKind> {
    let kinds = compiled.engine.memory_kinds();
    kinds.first().copied().ok_or_else(|| Error::unsupported("load", "the engine names no kind of memory"))
}
