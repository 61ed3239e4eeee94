//! A compiled graph with its memories on one engine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anydnn::backend::{
    Backend, DeviceKind, Engine, Error, Event, MemoryDesc, MemoryKind, Result, ResultExt, Stream, StreamDesc,
    check_host_memory,
};
use anydnn::compile::{CompileOptions, CompiledGraph};
use anydnn::execute::Executable;
use anydnn::fusion::Policy;
use anydnn::graph::{Graph, TensorId};
use anydnn::model::HostTensor;
use indexmap::IndexMap;

use super::tensors::{gather, scatter};
use crate::output::progress;

/// A graph ready to run, with memory for its inputs and outputs.
#[derive(Debug)]
pub(super) struct Session<B: Backend> {
    pub(super) compiled: CompiledGraph<B>,
    /// How long compilation and the preparation of the constants took.
    pub(super) compile_time: Duration,
    stream: B::Stream,
    executable: Executable<B>,
    inputs: Vec<(TensorId, B::Memory)>,
    outputs: Vec<(TensorId, B::Memory)>,
}

/// What one execution gave.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Every output, in the order of the graph.
    pub(super) outputs: Vec<(TensorId, HostTensor)>,
    /// From the first byte of the inputs written to the last byte of the outputs read.
    pub(super) wall: Duration,
    /// Device time of steps, where the device tells.
    pub(super) steps: Vec<(usize, Option<Duration>)>,
    /// When steps ran, where the device tells.
    pub(super) spans: Vec<Span>,
}

/// When a step ran, in nanoseconds of the device's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) step: usize,
    pub(super) started: u64,
    pub(super) ended: u64,
}

impl<B: Backend> Session<B> {
    /// Compiles the graph for an engine and loads the constants.
    pub(super) fn new(
        engine: &B::Engine,
        graph: &Graph,
        policy: Policy,
        constants: &IndexMap<TensorId, HostTensor>,
    ) -> Result<Self> {
        let bar = progress("compiling", 0);
        let shown = bar.clone();
        let start = Instant::now();
        let options = CompileOptions {
            policy,
            progress: Some(Arc::new(move |done, total| {
                shown.set_length(total as u64);
                shown.set_position(done as u64);
            })),
            ..CompileOptions::default()
        };
        let compiled = CompiledGraph::<B>::new(graph, engine, &options)?;
        bar.finish_and_clear();
        check_room(&compiled, graph, engine)?;
        let mut desc = StreamDesc::default().labelled("anydnn run");
        desc.profiling = engine.has_profiling();
        let stream = engine.create_stream(&desc)?;
        let kind = default_kind(engine)?;
        let mut loaded = Vec::with_capacity(constants.len());
        for (id, tensor) in constants {
            let desc = input_desc(&compiled, *id)?;
            let bytes = scatter(tensor, desc).at(|| format!("constant {id}"))?;
            let memory = engine.create_memory(desc, kind)?;
            stream.write(&memory, 0, &bytes, &[])?.wait()?;
            loaded.push((*id, memory));
        }
        let executable = compiled.load(&stream, &loaded)?;
        let compile_time = start.elapsed();
        let memory = |id: &TensorId, desc: Result<&MemoryDesc>| Ok((*id, engine.create_memory(desc?, kind)?));
        let inputs =
            graph.inputs().iter().map(|id| memory(id, input_desc(&compiled, *id))).collect::<Result<_>>()?;
        let outputs = graph
            .outputs()
            .iter()
            .map(|id| memory(id, output_desc(&compiled, *id)))
            .collect::<Result<_>>()?;
        Ok(Self { compiled, compile_time, stream, executable, inputs, outputs })
    }

    /// Writes the inputs, executes, and reads the outputs.
    pub(super) fn run(&self, inputs: &[(TensorId, HostTensor)]) -> Result<Run> {
        let mut laid_out = Vec::with_capacity(inputs.len());
        for (id, _) in &self.inputs {
            let tensor = inputs.iter().find(|(given, _)| given == id).map(|(_, tensor)| tensor);
            let tensor =
                tensor.ok_or_else(|| Error::invalid("run", format!("input {id}"), "missing", "data"))?;
            laid_out.push(scatter(tensor, input_desc(&self.compiled, *id)?).at(|| format!("input {id}"))?);
        }
        let start = Instant::now();
        let mut written = Vec::with_capacity(inputs.len());
        for ((_, memory), bytes) in self.inputs.iter().zip(&laid_out) {
            written.push(self.stream.write(memory, 0, bytes, &[])?);
        }
        let (event, steps) =
            self.executable.execute_traced(&self.stream, &self.inputs, &self.outputs, &written)?;
        let mut read = Vec::with_capacity(self.outputs.len());
        for (id, memory) in &self.outputs {
            let desc = output_desc(&self.compiled, *id)?;
            let mut bytes = vec![0; desc.size()];
            self.stream.read(memory, 0, &mut bytes, std::slice::from_ref(&event))?;
            read.push((*id, desc, bytes));
        }
        event.wait()?;
        let wall = start.elapsed();
        let outputs = read
            .into_iter()
            .map(|(id, desc, bytes)| Ok((id, gather(desc, &bytes)?)))
            .collect::<Result<_>>()?;
        let mut times = Vec::with_capacity(steps.len());
        let mut spans = Vec::with_capacity(steps.len());
        for step in &steps {
            let stamps = step.event.timestamps()?;
            spans.extend(stamps.map(|at| Span { step: step.step, started: at.started, ended: at.ended }));
            times.push((step.step, stamps.map(|stamps| Duration::from_nanos(stamps.duration()))));
        }
        Ok(Run { outputs, wall, steps: times, spans })
    }
}

/// Checks that the host has room for a run before anything is copied: inputs laid out for the device, outputs as they come from it
/// and dense, and on processors the device's own memory.
fn check_room<B: Backend>(compiled: &CompiledGraph<B>, graph: &Graph, engine: &B::Engine) -> Result<()> {
    let inputs = graph.inputs().iter().filter_map(|&id| compiled.input_desc(id));
    let outputs = graph.outputs().iter().filter_map(|&id| compiled.output_desc(id));
    let constants = graph.constants().filter_map(|tensor| compiled.input_desc(tensor.id));
    let sum = |sum: usize, desc: &MemoryDesc| sum.saturating_add(desc.size());
    let (inputs, outputs) = (inputs.fold(0, sum), outputs.fold(0, sum));
    let mut room = inputs.saturating_add(outputs.saturating_mul(2));
    if engine.device().kind == DeviceKind::Cpu {
        let device = [inputs, outputs, compiled.arena_bytes(), constants.fold(0, sum)];
        room = device.into_iter().fold(room, usize::saturating_add);
    }
    check_host_memory(room, || "inputs, outputs, constants and temporaries of a run".into())
}

/// The descriptor of an input or a constant.
fn input_desc<B: Backend>(compiled: &CompiledGraph<B>, id: TensorId) -> Result<&MemoryDesc> {
    compiled.input_desc(id).ok_or_else(|| unknown(id, "an input or a constant of the graph"))
}

/// The descriptor of an output.
fn output_desc<B: Backend>(compiled: &CompiledGraph<B>, id: TensorId) -> Result<&MemoryDesc> {
    compiled.output_desc(id).ok_or_else(|| unknown(id, "an output of the graph"))
}

fn unknown(id: TensorId, expected: &str) -> Error {
    Error::invalid("run", "tensor", id.to_string(), expected)
}

fn default_kind<E: Engine>(engine: &E) -> Result<MemoryKind> {
    let kinds = engine.memory_kinds();
    kinds.first().copied().ok_or_else(|| Error::unsupported("memory", "the engine names no kind of it"))
}
