//! Models compiled for an engine, ready to run on any shapes that fit.

mod options;
mod ports;
mod report;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anydnn_backend::{
    Backend, Dims, Engine, Error, Memory, MemoryDesc, MemoryKind, Result, ResultExt, StreamDesc,
};

pub use self::options::{Precision, SessionOptions};
pub use self::ports::Output;
pub use self::report::{MemoryReport, PlanMemory};
use super::{Dim, Input, Model};
use crate::compile::{CompileOptions, CompiledGraph};
use crate::execute::Executable;
use crate::graph::TensorId;
use crate::model::HostTensor;

/// A model compiled for an engine: runs on any shapes that fit its declaration, from any number of threads.
///
/// A clone is the same session. Each combination of input shapes has a plan of its own, compiled when it is first met; those that were not
/// used for longest are dropped beyond [`SessionOptions::plans`].
///
/// ```no_run
/// use anydnn::model::HostTensor;
/// use anydnn::onnx::Model;
///
/// let engine = anydnn_host::HostEngine::new();
/// let session = Model::load("resnet.onnx")?.compile(&engine, &[("batch", 1)])?;
/// let image = HostTensor::zeros([1, 3, 224, 224], anydnn::backend::DataType::F32)?;
/// for (name, tensor) in session.run(&[("image", image)])? {
///     println!("{name}: {}", tensor.desc());
/// }
/// # Ok::<(), anydnn::backend::Error>(())
/// ```
pub struct Session<B: Backend> {
    inner: Arc<Inner<B>>,
}

impl<B: Backend> Clone for Session<B> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

struct Inner<B: Backend> {
    model: Model,
    engine: B::Engine,
    options: SessionOptions,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    plans: Mutex<Vec<Arc<Plan<B>>>>,
    streams: Mutex<Vec<B::Stream>>,
}

/// The model for one combination of dimensions.
struct Plan<B: Backend> {
    dims: Vec<(String, usize)>,
    executable: Executable<B>,
    inputs: Vec<(String, TensorId)>,
    constants: usize,
}

impl Model {
    /// Compiles the model for an engine. Where all [open dimensions](Dim::Open) are given, their plan is ready afterwards; other plans are
    /// compiled when an execution needs them.
    ///
    /// # Errors
    /// As [`Model::graph`] and [`CompiledGraph::new`], but a missing dimension is none.
    pub fn compile<E, B>(&self, engine: &E, dims: &[(&str, usize)]) -> Result<Session<B>>
    where
        E: Engine<B = B>,
        B: Backend<Engine = E>,
    {
        self.compile_with(engine, dims, &SessionOptions::default())
    }

    /// As [`Model::compile`], with options.
    ///
    /// # Errors
    /// As [`Model::compile`]; [`Error::Unsupported`] for a precision that cannot be had.
    pub fn compile_with<E, B>(
        &self,
        engine: &E,
        dims: &[(&str, usize)],
        options: &SessionOptions,
    ) -> Result<Session<B>>
    where
        E: Engine<B = B>,
        B: Backend<Engine = E>,
    {
        Session::new(self, engine, dims, options).at(|| self.name.clone())
    }
}

impl<B: Backend> Session<B> {
    fn new(
        model: &Model,
        engine: &B::Engine,
        dims: &[(&str, usize)],
        options: &SessionOptions,
    ) -> Result<Self> {
        if options.precision != Precision::Model {
            return Err(Error::unsupported("precision", "only the model's own types are computed with"));
        }
        model.check_dims(dims)?;
        let inner = Inner {
            model: model.clone(),
            engine: engine.clone(),
            options: options.clone(),
            inputs: model.inputs()?,
            outputs: model.outputs()?,
            plans: Mutex::new(Vec::new()),
            streams: Mutex::new(Vec::new()),
        };
        let session = Self { inner: Arc::new(inner) };
        let mut names = Vec::new();
        for dim in session.inner.inputs.iter().flat_map(|input| &input.dims) {
            match dim {
                Dim::Open(name) if !names.contains(name) => names.push(name.clone()),
                _ => {}
            }
        }
        let value = |name: &String| dims.iter().find(|(given, _)| given == name).map(|(_, value)| *value);
        let all: Option<Vec<_>> =
            names.iter().map(|name| value(name).map(|value| (name.clone(), value))).collect();
        if let Some(mut all) = all {
            all.sort();
            session.plan(all)?;
        }
        Ok(session)
    }

    /// The inputs as the model declares them.
    pub fn inputs(&self) -> &[Input] {
        &self.inner.inputs
    }

    /// The outputs as the model declares them.
    pub fn outputs(&self) -> &[Output] {
        &self.inner.outputs
    }

    /// The engine.
    pub fn engine(&self) -> &B::Engine {
        &self.inner.engine
    }

    /// What is held at the moment.
    pub fn memory(&self) -> MemoryReport {
        let plans = lock(&self.inner.plans);
        let of = |plan: &Arc<Plan<B>>| PlanMemory {
            dims: plan.dims.clone(),
            arena_bytes: plan.executable.compiled().arena_bytes(),
            arena_bytes_without_reuse: plan.executable.compiled().arena_bytes_without_reuse(),
            port_bytes: 0,
        };
        MemoryReport {
            weights: plans.iter().map(|plan| plan.constants).sum(),
            host: 0,
            plans: plans.iter().map(of).collect(),
        }
    }

    /// Runs the model on tensors of the host, given by name in any order, and returns its outputs in the model's order.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an input that is missing, unknown or given twice, or whose type or shape does not fit; errors of compilation
    /// where the shapes are new; a device error.
    pub fn run(&self, inputs: &[(&str, HostTensor)]) -> Result<Vec<(String, HostTensor)>> {
        let given: Vec<_> = inputs.iter().map(|(name, tensor)| (*name, tensor.desc())).collect();
        let (order, dims) = ports::fit(&self.inner.inputs, &given)?;
        let plan = self.plan(dims)?;
        let stream = self.stream()?;
        let bound = plan.inputs.iter().map(|(name, id)| {
            let at = self.inner.inputs.iter().position(|input| input.name == *name);
            at.map(|at| (*id, inputs[order[at]].1.clone()))
        });
        let bound: Vec<_> = bound.flatten().collect();
        let outputs = plan.executable.run(&stream, &bound);
        lock(&self.inner.streams).push(stream);
        let names = self.inner.outputs.iter().map(|output| output.name.clone());
        Ok(names.zip(outputs?).collect())
    }

    /// Runs the model on memory of the device, after `wait`, on a stream of the session's engine. Returns the outputs in memory of the
    /// device and the event of all of it, without waiting, where the whole plan runs on the device.
    ///
    /// # Errors
    /// As [`Session::run`].
    #[expect(clippy::type_complexity, reason = "names with memories, and the event")]
    pub fn run_on(
        &self,
        stream: &B::Stream,
        inputs: &[(&str, B::Memory)],
        wait: &[B::Event],
    ) -> Result<(Vec<(String, B::Memory)>, B::Event)> {
        let given: Vec<_> = inputs.iter().map(|(name, memory)| (*name, memory.desc())).collect();
        let (order, dims) = ports::fit(&self.inner.inputs, &given)?;
        let plan = self.plan(dims)?;
        let bound = plan.inputs.iter().map(|(name, id)| {
            let at = self.inner.inputs.iter().position(|input| input.name == *name);
            at.map(|at| (*id, inputs[order[at]].1.clone()))
        });
        let bound: Vec<_> = bound.flatten().collect();
        let compiled = plan.executable.compiled();
        let kind = memory_kind::<B>(&self.inner.engine)?;
        let mut outputs = Vec::new();
        for &id in compiled.graph().outputs() {
            let desc = compiled
                .output_desc(id)
                .cloned()
                .unwrap_or_else(|| MemoryDesc::new(Dims::default(), anydnn_backend::DataType::F32));
            outputs.push((id, self.inner.engine.create_memory(&desc, kind)?));
        }
        let event = plan.executable.execute(stream, &bound, &outputs, wait)?;
        let names = self.inner.outputs.iter().map(|output| output.name.clone());
        Ok((names.zip(outputs.into_iter().map(|(_, memory)| memory)).collect(), event))
    }

    /// The plan for dimensions, compiled unless it is there.
    fn plan(&self, dims: Vec<(String, usize)>) -> Result<Arc<Plan<B>>> {
        let inner = &*self.inner;
        {
            let mut plans = lock(&inner.plans);
            if let Some(at) = plans.iter().position(|plan| plan.dims == dims) {
                let plan = plans.remove(at);
                plans.push(Arc::clone(&plan));
                return Ok(plan);
            }
        }
        let given: Vec<_> = dims.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let imported = inner.model.graph(&given)?;
        let options =
            CompileOptions { policy: inner.options.policy, progress: inner.options.progress.clone() };
        let compiled = CompiledGraph::<B>::new(&imported.graph, &inner.engine, &options)?;
        let stream = self.stream()?;
        let executable = compiled.load_tensors(&stream, &imported.constants)?;
        lock(&inner.streams).push(stream);
        let graph = &imported.graph;
        let inputs = graph.inputs().iter().map(|&id| (graph.label(id), id)).collect();
        let constants = imported.constants.values().map(|tensor| tensor.bytes().len()).sum();
        let plan = Arc::new(Plan { dims, executable, inputs, constants });
        let mut plans = lock(&inner.plans);
        plans.push(Arc::clone(&plan));
        if plans.len() > inner.options.plans.max(1) {
            plans.remove(0);
        }
        Ok(plan)
    }

    /// A stream that no other execution uses.
    fn stream(&self) -> Result<B::Stream> {
        let idle = lock(&self.inner.streams).pop();
        match idle {
            Some(stream) => Ok(stream),
            None => self.inner.engine.create_stream(&StreamDesc::default().labelled("session")),
        }
    }
}

impl<B: Backend> fmt::Debug for Session<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("model", &self.inner.model)
            .field("plans", &lock(&self.inner.plans).len())
            .finish_non_exhaustive()
    }
}

/// The engine's own kind of memory.
fn memory_kind<B: Backend>(engine: &B::Engine) -> Result<MemoryKind> {
    let kinds = &engine.capabilities().memory_kinds;
    kinds.first().copied().ok_or_else(|| Error::unsupported("session", "the engine names no kind of memory"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
