//! Our side of a case: compiled, with data on the device.

use std::time::Instant;

use anydnn::backend::{
    Backend, DataType, Engine, Event, Memory, MemoryDesc, MemoryKind, PrimitiveDesc, Result, Stream,
    StreamDesc,
};
use anydnn::compile::{CompileOptions, CompiledGraph};
use anydnn::execute::Executable;
use anydnn::fusion::Policy;
use anydnn::graph::TensorId;
use anydnn::model::HostTensor;
use anydnn::onnx;
use indexmap::IndexSet;

use super::case::Case;
use super::data::Tensor;

/// A loaded graph or model with its sets of inputs and outputs.
#[derive(Debug)]
pub(crate) struct Ours<B: Backend> {
    work: Work<B>,
    stream: B::Stream,
    /// The same queue with timestamps.
    profiled: Option<B::Stream>,
    sets: usize,
    next: usize,
    /// What runs on every execution.
    pub(crate) steps: Vec<Step>,
}

/// One launch or a few, in words.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) implementation: String,
    pub(crate) launches: usize,
    pub(crate) desc: PrimitiveDesc,
}

/// What is executed, with its sets.
#[derive(Debug)]
enum Work<B: Backend> {
    Graph(Executable<B>, Vec<Set<B>>),
    /// A model in stages, with inputs by their names; each execution makes its outputs.
    Stages(onnx::Session<B>, Vec<Vec<(String, B::Memory)>>),
}

/// Memory of one execution.
#[derive(Debug)]
struct Set<B: Backend> {
    inputs: Vec<(TensorId, B::Memory)>,
    outputs: Vec<(TensorId, B::Memory)>,
}

/// Seconds of several executions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// From the first enqueueing to the end of the last.
    pub(crate) wall: f64,
    /// Of that, the enqueueing.
    pub(crate) enqueue: f64,
}

impl<B: Backend> Ours<B> {
    /// Compiles a case's graph, loads its constants and fills its inputs.
    pub(crate) fn new(engine: &B::Engine, case: &Case, sets: usize, policy: Policy) -> Result<Self> {
        let (graph, tensors) = (&case.graph, &case.tensors);
        let stream = engine.create_stream(&StreamDesc::default().labelled("anydnn bench"))?;
        let profiled = if engine.has_profiling() {
            Some(engine.create_stream(&StreamDesc::default().with_profiling())?)
        } else {
            None
        };
        let kind = engine.memory_kinds().first().copied().unwrap_or(MemoryKind::Buffer);
        let filled = |tensor: &Tensor, set: usize| -> Result<(TensorId, B::Memory)> {
            let desc = MemoryDesc::new(tensor.dims.clone(), tensor.data_type);
            let memory = engine.create_memory(&desc, kind)?;
            stream.write(&memory, 0, case.values(tensor, set)?.bytes(), &[])?.wait()?;
            Ok((TensorId(tensor.id), memory))
        };
        if let Some((model, dims)) = case.stages() {
            let dims: Vec<_> = dims.iter().map(|(name, extent)| (name.as_str(), *extent)).collect();
            let options = onnx::SessionOptions {
                policy,
                startup: Some(onnx::Startup::Device),
                ..onnx::SessionOptions::default()
            };
            let session = model.compile_with(engine, &dims, &options)?;
            let named = |tensor: &Tensor, set: usize| Ok((tensor.name.clone(), filled(tensor, set)?.1));
            let inputs = |set| tensors.iter().map(|tensor| named(tensor, set)).collect::<Result<Vec<_>>>();
            let work = Work::Stages(session, (0..sets).map(inputs).collect::<Result<_>>()?);
            return Ok(Self { work, stream, profiled, sets, next: 0, steps: Vec::new() });
        }
        let options = CompileOptions { policy, ..CompileOptions::default() };
        let compiled = CompiledGraph::<B>::new(graph, engine, &options)?;
        let constants =
            tensors.iter().filter(|t| t.constant).map(|t| filled(t, 0)).collect::<Result<Vec<_>>>()?;
        let executable = compiled.load(&stream, &constants)?;
        let mut made = Vec::with_capacity(sets);
        for set in 0..sets {
            let inputs =
                tensors.iter().filter(|t| !t.constant).map(|t| filled(t, set)).collect::<Result<_>>()?;
            let output = |&id: &TensorId| {
                let desc =
                    compiled.output_desc(id).cloned().unwrap_or_else(|| MemoryDesc::new([0], DataType::F32));
                Ok((id, engine.create_memory(&desc, kind)?))
            };
            let outputs = graph.outputs().iter().map(output).collect::<Result<_>>()?;
            made.push(Set { inputs, outputs });
        }
        let steps = compiled.steps().iter().filter(|step| !step.constant);
        let steps = steps.map(|step| Step {
            name: step.name.clone(),
            implementation: step.implementation.clone(),
            launches: step.launches,
            desc: step.desc.clone(),
        });
        let work = Work::Graph(executable, made);
        Ok(Self { work, stream, profiled, sets, next: 0, steps: steps.collect() })
    }

    /// The implementations that were chosen, each once.
    pub(crate) fn chosen(&self) -> String {
        let names: IndexSet<&str> = self.steps.iter().map(|step| step.implementation.as_str()).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    }

    /// Queues executions and waits once.
    pub(crate) fn run(&mut self, times: usize) -> Result<Sample> {
        let stream = self.stream.clone();
        let start = Instant::now();
        let enqueue = self.enqueue(&stream, times, start)?;
        stream.wait()?;
        Ok(Sample { wall: start.elapsed().as_secs_f64(), enqueue })
    }

    /// Seconds on the device of as many executions, by its own clock; none where it has none.
    pub(crate) fn device_time(&mut self, times: usize) -> Result<Option<f64>> {
        let Some(stream) = self.profiled.clone() else { return Ok(None) };
        stream.reset_profile()?;
        self.enqueue(&stream, times, Instant::now())?;
        let total: u64 = stream.profile()?.iter().map(|entry| entry.nanoseconds).sum();
        Ok(Some(total as f64 * 1e-9))
    }

    /// The outputs of the first set, in the order of the graph.
    pub(crate) fn outputs(&mut self) -> Result<Vec<HostTensor>> {
        self.next = 0;
        let made = self.execute(&self.stream, 0)?;
        self.stream.wait()?;
        let memories = match &self.work {
            Work::Graph(_, sets) => sets[0].outputs.iter().map(|(_, memory)| memory.clone()).collect(),
            Work::Stages(..) => made,
        };
        let mut outputs = Vec::new();
        for memory in memories {
            let desc = memory.desc();
            let mut bytes = vec![0; desc.size()];
            self.stream.read(&memory, 0, &mut bytes, &[])?;
            outputs.push(HostTensor::new(desc.to_row_major(), bytes)?);
        }
        Ok(outputs)
    }

    fn enqueue(&mut self, stream: &B::Stream, times: usize, start: Instant) -> Result<f64> {
        for _ in 0..times {
            self.execute(stream, self.next)?;
            self.next = (self.next + 1) % self.sets;
        }
        Ok(start.elapsed().as_secs_f64())
    }

    /// Enqueues one execution, and returns the memory of the outputs that it made.
    fn execute(&self, stream: &B::Stream, set: usize) -> Result<Vec<B::Memory>> {
        match &self.work {
            Work::Graph(executable, sets) => {
                let set = &sets[set];
                executable.execute(stream, &set.inputs, &set.outputs, &[])?;
                Ok(Vec::new())
            }
            Work::Stages(session, sets) => {
                let inputs: Vec<_> =
                    sets[set].iter().map(|(name, memory)| (name.as_str(), memory.clone())).collect();
                let (outputs, _) = session.run_on(stream, &inputs, &[])?;
                Ok(outputs.into_iter().map(|(_, memory)| memory).collect())
            }
        }
    }
}
