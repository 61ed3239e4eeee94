//! Models compiled for an engine, ready to run on any shapes that fit.

mod ahead;
mod batches;
mod cancel;
mod control;
mod describe;
mod direct;
mod hosted;
mod options;
mod ports;
mod profile;
mod report;
mod run;
mod scope;
mod slot;
mod startup;
mod warm_up;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use anydnn_backend::{
    Backend, Dims, Engine, Error, Event, Memory, MemoryDesc, MemoryKind, Result, ResultExt, Stream,
    StreamDesc,
};

use self::ahead::Ahead;
pub use self::cancel::Cancel;
pub use self::describe::{NodeInfo, StageInfo};
use self::direct::Direct;
use self::hosted::Hosted;
pub use self::options::{Precision, SessionOptions};
pub use self::ports::Output;
pub use self::profile::StepTime;
use self::profile::Trace;
pub use self::report::{MemoryReport, PlanMemory};
use self::run::{Run, Values};
use self::scope::Scope;
use self::slot::{OnDevice, Slot};
use self::startup::Fallback;
pub use self::startup::Startup;
use super::{Dim, Input, Model, tensor};
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

#[derive(Debug)]
struct Inner<B: Backend> {
    /// For work in the background.
    own: Weak<Self>,
    model: Model,
    engine: B::Engine,
    options: SessionOptions,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    scope: Scope<B>,
    ahead: Ahead,
    /// Memory for what the host writes and reads, where it does so in place.
    direct: Option<Arc<Direct<B>>>,
    fallback: Fallback,
    hosted: Hosted,
    /// Streams that no execution uses at the moment.
    streams: Mutex<Vec<B::Stream>>,
    /// Held while times are taken.
    profiling: Mutex<()>,
}

impl Model {
    /// Compiles the model for an engine. Where all [open dimensions](Dim::Open) are given, what does not depend on values of an execution is
    /// ready afterwards; the rest, and plans for other shapes, are compiled when an execution needs them.
    ///
    /// What the device cannot compute, the host does, in the same execution.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown dimension and where the file contradicts itself, [`Error::Unsupported`] for an operator that neither
    /// device nor host computes, errors of [`CompiledGraph::new`](crate::compile::CompiledGraph::new).
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
    /// As [`Model::compile`].
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
        model.check_dims(dims)?;
        let program = model.program()?;
        let (inputs, outputs) = (model.inputs()?, model.outputs()?);
        let inner = Arc::new_cyclic(|own| Inner {
            own: Weak::clone(own),
            scope: Scope::new(program, ""),
            model: model.clone(),
            engine: engine.clone(),
            options: options.clone(),
            inputs,
            outputs,
            ahead: Ahead::default(),
            direct: Direct::of(engine).map(Arc::new),
            fallback: Fallback::default(),
            hosted: Hosted::default(),
            streams: Mutex::default(),
            profiling: Mutex::default(),
        });
        let session = Self { inner };
        session.start(dims)?;
        Ok(session)
    }

    /// Compiles the first stage for dimensions, where they are complete.
    fn prepare(&self, dims: &[(&str, usize)]) -> Result<()> {
        let inner = &*self.inner;
        let mut values = Values::new(&inner.scope);
        let mut all: Vec<(String, usize)> = Vec::new();
        for (input, &value) in inner.inputs.iter().zip(&inner.scope.program.inputs) {
            let extents = input.dims.iter().map(|dim| match dim {
                Dim::Fixed(extent) => Some(*extent),
                Dim::Open(name) => {
                    let (_, extent) = dims.iter().find(|(given, _)| given == name)?;
                    if !all.iter().any(|(known, _)| known == name) {
                        all.push((name.clone(), *extent));
                    }
                    Some(*extent)
                }
            });
            let Some(extents) = extents.collect::<Option<Dims>>() else { return Ok(()) };
            tensor::check_size(&extents, input.data_type).at(|| format!("input {:?}", input.name))?;
            values.set(value, Arc::new(Slot::to_come(MemoryDesc::new(extents, input.data_type))));
        }
        all.sort();
        inner.scope.plan(inner, &values.slots, &all).map(|_| ())
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
        let (weights, prepared, host) = self.inner.scope.weight_bytes();
        let mut plans = Vec::new();
        self.inner.scope.each(&mut |_, plan| {
            let compiled = plan.executable.as_ref().map(crate::execute::Executable::compiled);
            plans.push(PlanMemory {
                dims: plan.dims.clone(),
                arena_bytes: compiled.as_ref().map_or(0, crate::compile::CompiledGraph::arena_bytes),
                arena_bytes_without_reuse: compiled
                    .map_or(0, |compiled| compiled.arena_bytes_without_reuse()),
                port_bytes: plan.port_bytes,
            });
        });
        MemoryReport { weights, prepared, host, plans }
    }

    /// The stages that were compiled so far: those of the model's own graph, then those of loops.
    pub fn describe(&self) -> Vec<StageInfo<B>> {
        let mut stages = Vec::new();
        self.inner.scope.each(&mut |scope, plan| stages.push(StageInfo::new(scope, plan)));
        stages
    }

    /// Runs the model on tensors of the host, given by name in any order, and returns its outputs in the model's order.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an input that is missing, unknown or given twice, or whose type or shape does not fit; errors of compilation
    /// where the shapes are new, among them [`Error::Unsupported`] for an operator that neither device nor host computes; a device error.
    pub fn run(&self, inputs: &[(&str, HostTensor)]) -> Result<Vec<(String, HostTensor)>> {
        self.run_until(inputs, &Cancel::new())
    }

    /// Runs the model as [`Session::run`] does, to its end or until it is cancelled.
    ///
    /// # Errors
    /// As [`Session::run`], and [`Error::Cancelled`]; commands of the device that were enqueued have ended then.
    pub fn run_until(
        &self,
        inputs: &[(&str, HostTensor)],
        cancel: &Cancel,
    ) -> Result<Vec<(String, HostTensor)>> {
        match self.fall_back(inputs, cancel)? {
            Some(outputs) => Ok(outputs),
            None => self.run_on_device(inputs, cancel),
        }
    }

    fn run_on_device(
        &self,
        inputs: &[(&str, HostTensor)],
        cancel: &Cancel,
    ) -> Result<Vec<(String, HostTensor)>> {
        self.inner
            .with_stream(|stream| self.run_host(stream, inputs, cancel, false).map(|(outputs, _)| outputs))
    }

    /// Runs the model as [`Session::run`] does, and tells how long each step took.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn profile(&self, inputs: &[(&str, HostTensor)]) -> Result<Vec<StepTime>> {
        let mut desc = StreamDesc::default().labelled("session profile");
        desc.profiling = self.inner.engine.has_profiling();
        let _alone = lock(&self.inner.profiling);
        let stream = self.inner.engine.create_stream(&desc)?;
        self.run_host(&stream, inputs, &Cancel::new(), true).map(|(_, times)| times)
    }

    #[expect(clippy::type_complexity, reason = "names with tensors, and times")]
    fn run_host(
        &self,
        stream: &B::Stream,
        inputs: &[(&str, HostTensor)],
        cancel: &Cancel,
        traced: bool,
    ) -> Result<(Vec<(String, HostTensor)>, Vec<StepTime>)> {
        let inner = &*self.inner;
        let given: Vec<_> = inputs.iter().map(|(name, tensor)| (*name, tensor.desc())).collect();
        let (order, dims) = ports::fit(&inner.inputs, &given)?;
        let mut values = Values::new(&inner.scope);
        for (&value, &at) in inner.scope.program.inputs.iter().zip(&order) {
            values.set(value, Arc::new(Slot::of_host(Arc::new(inputs[at].1.clone()))));
        }
        let mut run = Run::new(inner, stream, &[], dims);
        run.trace = traced.then(Trace::new);
        run.cancel = cancel.clone();
        let made = run.scope(&inner.scope, &mut values);
        // Memory goes back behind commands; what was enqueued before a failure ends first.
        if made.is_err() {
            let _ = stream.wait();
        }
        let tensors = made?.iter().map(|slot| run.host(slot)).collect::<Result<Vec<_>>>()?;
        let trace = run.trace.take();
        // Where the host computed everything, as of a small loop, the device has nothing to tell.
        if run.has_commands() {
            run.end()?.wait()?;
        }
        // Whatever nothing else holds now is handed out without a copy.
        drop(values);
        let named = inner.outputs.iter().zip(tensors).map(|(output, tensor)| {
            (output.name.clone(), Arc::unwrap_or_clone(tensor).labelled(&output.name))
        });
        let outputs = named.collect();
        Ok((outputs, trace.map(Trace::told).transpose()?.unwrap_or_default()))
    }

    /// Runs the model on memory of the device, after `wait`, on a stream of the session's engine: memory of its own or a user's, such as
    /// OpenCL buffers. Returns the outputs in memory of the device and the event of all of it.
    ///
    /// Nothing is waited for where all of the model runs on the device. Where steps of the host are in between (see
    /// [`Session::describe`]), this returns when they have been computed and the rest is enqueued.
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
        self.run_into(stream, inputs, &[], wait)
    }

    /// Runs the model as [`Session::run_on`] does and writes outputs that are named to memory that is given for them: of any descriptor,
    /// as the first bytes are used, and of nothing else that takes part. All outputs are returned, each under the descriptor that it has.
    ///
    /// # Errors
    /// As [`Session::run`]; [`Error::Invalid`] for memory of an output that the model has not, that is given twice, or that is too small.
    #[expect(clippy::type_complexity, reason = "names with memories, and the event")]
    pub fn run_into(
        &self,
        stream: &B::Stream,
        inputs: &[(&str, B::Memory)],
        outputs: &[(&str, B::Memory)],
        wait: &[B::Event],
    ) -> Result<(Vec<(String, B::Memory)>, B::Event)> {
        let inputs: Vec<_> = inputs.iter().map(|(name, memory)| (*name, memory.clone(), None)).collect();
        self.enqueue(stream, &inputs, outputs, wait, &Cancel::new())
    }

    /// Runs the model on tensors of the host whose bytes the device reads where they are: `inputs` has each of them with memory at its
    /// address. Outputs go to memory as [`Session::run_into`] says.
    ///
    /// # Errors
    /// As [`Session::run_into`], and [`Error::Cancelled`]; commands of the device that were enqueued have ended then.
    #[expect(clippy::type_complexity, reason = "names with memories, and the event")]
    pub fn run_in_place(
        &self,
        stream: &B::Stream,
        inputs: &[(&str, HostTensor, B::Memory)],
        outputs: &[(&str, B::Memory)],
        cancel: &Cancel,
    ) -> Result<(Vec<(String, B::Memory)>, B::Event)> {
        let inputs: Vec<_> = inputs
            .iter()
            .map(|(name, tensor, memory)| (*name, memory.clone(), Some(tensor.clone())))
            .collect();
        self.enqueue(stream, &inputs, outputs, &[], cancel)
    }
}

impl<B: Backend> Session<B> {
    /// Enqueues an execution on memory of the device, some of which the host knows as well.
    #[expect(clippy::type_complexity, reason = "names with memories, and the event")]
    fn enqueue(
        &self,
        stream: &B::Stream,
        inputs: &[(&str, B::Memory, Option<HostTensor>)],
        outputs: &[(&str, B::Memory)],
        wait: &[B::Event],
        cancel: &Cancel,
    ) -> Result<(Vec<(String, B::Memory)>, B::Event)> {
        let inner = &*self.inner;
        if stream.engine_id() != inner.engine.id() {
            let (given, own) = (stream.engine_id(), inner.engine.id());
            return Err(Error::mismatch(
                "session",
                format!("a stream of {given}"),
                format!("the session's {own}"),
            ));
        }
        let given: Vec<_> = inputs.iter().map(|(name, memory, _)| (*name, memory.desc())).collect();
        let (order, dims) = ports::fit(&inner.inputs, &given)?;
        let mut values = Values::new(&inner.scope);
        for (&value, &at) in inner.scope.program.inputs.iter().zip(&order) {
            let memory = &inputs[at].1;
            if memory.engine_id() != inner.engine.id() {
                let (given, own) = (memory.engine_id(), inner.engine.id());
                let given = format!("memory of {given} for input {:?}", inputs[at].0);
                return Err(Error::mismatch("session", given, format!("the session's {own}")));
            }
            if !memory.desc().is_row_major() {
                let subject = format!("layout of input {:?}", inputs[at].0);
                return Err(Error::invalid("session", subject, memory.desc().to_string(), "dense row-major"));
            }
            let device = OnDevice { memory: memory.clone(), ready: None, lease: None };
            let slot = Slot::of_device(device);
            if let Some(tensor) = &inputs[at].2 {
                let _ = slot.host.set(Arc::new(tensor.clone()));
            }
            values.set(value, Arc::new(slot));
        }
        let mut run = Run::new(inner, stream, wait, dims);
        run.targets = self.targets(outputs)?;
        run.cancel = cancel.clone();
        run.hands_out = true;
        let made = run.scope(&inner.scope, &mut values);
        if made.is_err() {
            let _ = stream.wait();
        }
        let mut outputs = Vec::with_capacity(inner.outputs.len());
        for (at, (slot, output)) in made?.iter().zip(&inner.outputs).enumerate() {
            let memory = run.own(slot, at)?;
            outputs.push((output.name.clone(), memory));
        }
        Ok((outputs, run.end()?))
    }

    /// The memory that is given for each output, in their order.
    fn targets(&self, given: &[(&str, B::Memory)]) -> Result<Vec<Option<B::Memory>>> {
        let inner = &*self.inner;
        let mut targets = vec![None; inner.outputs.len()];
        for (name, memory) in given {
            let Some(at) = inner.outputs.iter().position(|output| output.name == *name) else {
                let names: Vec<_> = inner.outputs.iter().map(|output| output.name.as_str()).collect();
                let given = format!("{name:?}, which the model has not");
                return Err(Error::invalid("session", "outputs", given, names.join(", ")));
            };
            if memory.engine_id() != inner.engine.id() {
                let given = format!("memory of {} for output {name:?}", memory.engine_id());
                return Err(Error::mismatch(
                    "session",
                    given,
                    format!("the session's {}", inner.engine.id()),
                ));
            }
            if targets[at].replace(memory.clone()).is_some() {
                return Err(Error::invalid(
                    "session",
                    "outputs",
                    format!("{name:?} twice"),
                    "each output once",
                ));
            }
        }
        Ok(targets)
    }
}

impl<B: Backend> Inner<B> {
    /// Does something on a stream that nothing else uses meanwhile.
    fn with_stream<T>(&self, work: impl FnOnce(&B::Stream) -> Result<T>) -> Result<T> {
        let idle = lock(&self.streams).pop();
        let stream = match idle {
            Some(stream) => stream,
            None => self.engine.create_stream(&StreamDesc::default().labelled("session"))?,
        };
        let made = work(&stream);
        // One that failed is not used again.
        if made.is_ok() {
            lock(&self.streams).push(stream);
        }
        made
    }
}

impl<B: Backend> fmt::Debug for Session<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("model", &self.inner.model)
            .field("stages", &self.inner.scope.plans().len())
            .finish_non_exhaustive()
    }
}

/// The engine's own kind of memory.
fn memory_kind<B: Backend>(engine: &B::Engine) -> Result<MemoryKind> {
    let kinds = engine.memory_kinds();
    kinds.first().copied().ok_or_else(|| Error::unsupported("session", "the engine names no kind of memory"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
