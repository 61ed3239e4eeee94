//! Sessions of ONNX models.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anydnn::backend::{DataType, Engine, Error};
use anydnn::onnx::{self, Dim, Model, Precision, SessionOptions, Startup};
use anydnn::select::{AnyBackend, AnyStream};
use anydnn::{draw, fusion};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::devices;
use crate::error::{self, OrRaise};
use crate::fork::{self, Owned};
use crate::in_place::{self, Runs};
use crate::opencl::{self, Given, Objects};
use crate::tensor::Tensor;
use crate::worker::{self, Waiting};

/// A model compiled for a device.
#[pyclass(frozen, module = "anydnn._native")]
#[derive(Debug)]
pub(crate) struct Session {
    state: Owned<Mutex<Option<State>>>,
    model: Model,
    chosen: String,
}

#[derive(Clone, Debug)]
struct State {
    session: onnx::Session<AnyBackend>,
    /// On the user's queue, if one was given.
    stream: Option<AnyStream>,
    runs: Arc<Runs>,
}

/// An extent, or the name of an open dimension.
#[derive(Debug, IntoPyObject)]
enum Extent {
    Fixed(usize),
    Open(String),
}

/// A name, the library's name of the type, and dimensions; the latter two where the file says them.
type Port = (String, Option<&'static str>, Option<Vec<Extent>>);

/// A name and memory of the device, in or out.
type Named = (String, Given);

#[pymethods]
impl Session {
    /// Reads a model from a path (`str`) or from `bytes`, and compiles it.
    #[new]
    #[pyo3(signature = (source, backend, precision, dims, plans, startup, objects))]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        backend: Option<&str>,
        precision: Option<&str>,
        dims: Vec<(String, usize)>,
        plans: Option<usize>,
        startup: Option<&str>,
        objects: Option<Objects>,
    ) -> PyResult<Self> {
        fork::check()?;
        let options = SessionOptions {
            precision: precision.map(self::precision).transpose()?.unwrap_or_default(),
            plans: plans.unwrap_or(SessionOptions::default().plans),
            startup: startup.map(str::parse::<Startup>).transpose().or_raise()?,
            ..SessionOptions::default()
        };
        let model = if let Ok(bytes) = source.cast::<PyBytes>() {
            Model::from_bytes(bytes.as_bytes())
        } else {
            let path = source.cast::<PyString>()?.to_cow()?;
            py.detach(|| Model::load(&*path))
        }
        .or_raise()?;
        let (engine, stream, chosen) = match objects {
            // SAFETY: the package takes the addresses from live objects of `pyopencl`, which are kept during the call.
            Some(objects) => unsafe { opencl::adopt(objects) }
                .map(|(engine, stream)| (engine, Some(stream), "opencl".to_owned()))?,
            None => devices::engine(py, backend).map(|(engine, chosen)| (engine, None, chosen))?,
        };
        let dims: Vec<_> = dims.iter().map(|(name, extent)| (name.as_str(), *extent)).collect();
        let session = py.detach(|| model.compile_with(&engine, &dims, &options)).or_raise()?;
        let state = Owned::new(Mutex::new(Some(State { session, stream, runs: Arc::default() })));
        Ok(Self { state, model, chosen })
    }

    /// Gives up the session; what runs goes on.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        fork::check()?;
        let state = self.lock().take();
        py.detach(|| drop(state));
        Ok(())
    }

    fn is_closed(&self) -> bool {
        self.lock().is_none()
    }

    fn inputs(&self) -> PyResult<Vec<Port>> {
        let told =
            |input: onnx::Input| (input.name, Some(input.data_type.name()), Some(extents(&input.dims)));
        Ok(self.model.inputs().or_raise()?.into_iter().map(told).collect())
    }

    fn outputs(&self) -> PyResult<Vec<Port>> {
        let told = |output: onnx::Output| {
            let data_type = output.data_type.map(DataType::name);
            (output.name, data_type, output.dims.as_deref().map(extents))
        };
        Ok(self.model.outputs().or_raise()?.into_iter().map(told).collect())
    }

    /// What the file says of itself.
    fn about<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let about = self.model.about();
        let told = PyDict::new(py);
        told.set_item("producer_name", about.producer)?;
        told.set_item("graph_name", about.graph)?;
        told.set_item("domain", about.domain)?;
        told.set_item("description", about.description)?;
        told.set_item("graph_description", about.graph_description)?;
        told.set_item("version", about.version)?;
        let custom = PyDict::new(py);
        about.metadata.iter().try_for_each(|(key, value)| custom.set_item(key, value))?;
        told.set_item("custom_metadata_map", custom)?;
        Ok(told)
    }

    /// The name of what was chosen, and the names of its device and platform.
    fn device(&self) -> PyResult<(String, String, String)> {
        let state = self.open()?;
        let device = state.session.engine().device().clone();
        Ok((self.chosen.clone(), device.name, device.platform))
    }

    /// The outputs in the model's order.
    #[pyo3(signature = (inputs, cancel, interruptible))]
    fn run(
        &self,
        py: Python<'_>,
        inputs: Vec<(String, PyRef<'_, Tensor>)>,
        cancel: Option<&worker::Cancel>,
        interruptible: bool,
    ) -> PyResult<Vec<Tensor>> {
        let State { session, runs, .. } = self.open()?;
        let inputs: Vec<_> = inputs.into_iter().map(|(name, tensor)| (name, tensor.inner.clone())).collect();
        let key = in_place::key(&inputs);
        let seen = runs.seen(key);
        let waiting = match &seen {
            _ if !interruptible => Waiting::Here,
            Some(seen) if seen.is_short => Waiting::Short,
            _ => Waiting::Elsewhere,
        };
        let cancel = cancel.map_or_else(onnx::Cancel::new, |cancel| cancel.inner.clone());
        let outputs = worker::run(py, waiting, &cancel, move |cancel| {
            let began = Instant::now();
            // While the host answers for the device, it does so with tensors of its own.
            let seen = seen.filter(|_| in_place::fits(session.engine()) && !session.is_starting());
            let made = match seen.map(|seen| in_place::run(&runs, &session, &inputs, &seen, cancel)) {
                Some(Ok(made)) => Ok(made),
                Some(Err(error)) if matches!(error.root(), Error::Cancelled { .. }) => Err(error),
                // What goes wrong here may be what runs of these shapes made before.
                Some(Err(_)) | None => {
                    let inputs: Vec<_> =
                        inputs.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
                    let made = session.run_until(&inputs, cancel);
                    made.map(|made| made.into_iter().map(|(_, tensor)| tensor).collect())
                }
            }?;
            runs.note(key, began.elapsed(), &made);
            Ok(made)
        })?;
        Ok(outputs.into_iter().map(Tensor::of_result).collect())
    }

    /// Runs and tells of each step its stage, name, operator, implementation, whether the host computed it, when it began and how long it
    /// took, in nanoseconds.
    #[expect(clippy::type_complexity, reason = "a row of a table")]
    fn profile(
        &self,
        py: Python<'_>,
        inputs: Vec<(String, PyRef<'_, Tensor>)>,
    ) -> PyResult<Vec<(String, String, String, String, bool, Option<u64>, Option<u64>)>> {
        let session = self.open()?.session;
        let inputs: Vec<_> =
            inputs.iter().map(|(name, tensor)| (name.as_str(), tensor.inner.clone())).collect();
        let steps = py.detach(|| session.profile(&inputs)).or_raise()?;
        let row = |step: onnx::StepTime| {
            let nanoseconds = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            let (started, time) = (step.started.map(nanoseconds), step.time.map(nanoseconds));
            (step.stage, step.name, step.operator, step.implementation, step.on_host, started, time)
        };
        Ok(steps.into_iter().map(row).collect())
    }

    fn warm_up(&self, py: Python<'_>, dims: Vec<(String, usize)>) -> PyResult<()> {
        let session = self.open()?.session;
        let dims: Vec<_> = dims.iter().map(|(name, extent)| (name.as_str(), *extent)).collect();
        py.detach(|| session.warm_up(&dims)).or_raise()
    }

    fn is_starting(&self) -> PyResult<bool> {
        Ok(self.open()?.session.is_starting())
    }

    fn wait_for_device(&self, py: Python<'_>) -> PyResult<()> {
        let session = self.open()?.session;
        py.detach(|| session.wait_for_device());
        Ok(())
    }

    /// The stages that were compiled so far, in words.
    fn describe(&self) -> PyResult<String> {
        Ok(self.open()?.session.to_string())
    }

    /// The picture of the largest stage's graph, in the DOT language or as SVG.
    fn draw(&self, py: Python<'_>, dot: bool) -> PyResult<String> {
        let session = self.open()?.session;
        py.detach(|| {
            let stages = session.describe();
            let graphs = stages.iter().filter_map(|stage| stage.device.as_ref());
            let largest = graphs.max_by_key(|compiled| compiled.graph().ops().len()).ok_or_else(|| {
                let why = "nothing was compiled for the device: give `dims`, or run it once";
                Error::unsupported("draw a session", why)
            })?;
            let (graph, partitioning): (_, &fusion::Partitioning) = (largest.graph(), largest.partitioning());
            Ok(if dot { draw::dot(graph, partitioning) } else { draw::svg(graph, partitioning) })
        })
        .or_raise()
    }

    /// Bytes of weights on the device, of what was prepared from them, of weights on the host, and of the plans' temporaries.
    fn memory(&self) -> PyResult<(usize, usize, usize, usize)> {
        let memory = self.open()?.session.memory();
        let arenas = memory.plans.iter().map(|plan| plan.arena_bytes).sum();
        Ok((memory.weights, memory.prepared, memory.host, arenas))
    }

    /// The addresses of the session's `cl_device_id` and `cl_context`, lent.
    fn opencl_objects(&self) -> PyResult<(usize, usize)> {
        let state = self.open()?;
        let engine = state.session.engine().as_opencl().ok_or_else(opencl::foreign)?;
        Ok((engine.raw_device() as usize, engine.raw_context() as usize))
    }

    /// Enqueues the model on a `cl_command_queue` (that of the session if none) after `cl_event`s. Outputs that are given are written to
    /// the bytes behind an offset of a `cl_mem`; all are returned as such, and an event, each with a reference for the caller.
    fn run_on(
        &self,
        py: Python<'_>,
        queue: Option<usize>,
        inputs: Vec<Named>,
        outputs: Vec<Named>,
        wait: Vec<usize>,
    ) -> PyResult<(Vec<Named>, usize)> {
        let state = self.open()?;
        let engine = state.session.engine().as_opencl().ok_or_else(opencl::foreign)?;
        // SAFETY: the package takes the addresses, here and below, from live objects of `pyopencl`, which are kept during the call.
        let given = queue.map(|queue| unsafe { opencl::stream(engine, queue) }).transpose()?;
        let stream = given.as_ref().or(state.stream.as_ref()).ok_or_else(|| {
            error::own("InvalidArgumentError", "queue is missing: the session was made without one")
        })?;
        // SAFETY: as above.
        let memory = |(name, given): &Named| Ok((name.clone(), unsafe { opencl::memory(engine, given) }?));
        let inputs = inputs.iter().map(memory).collect::<PyResult<Vec<_>>>()?;
        let outputs = outputs.iter().map(memory).collect::<PyResult<Vec<_>>>()?;
        // SAFETY: as above.
        let wait = wait.iter().map(|&event| unsafe { opencl::event(engine, event) });
        let wait = wait.collect::<PyResult<Vec<_>>>()?;
        let (made, end) = py
            .detach(|| {
                let inputs: Vec<_> =
                    inputs.iter().map(|(name, memory)| (name.as_str(), memory.clone())).collect();
                let outputs: Vec<_> =
                    outputs.iter().map(|(name, memory)| (name.as_str(), memory.clone())).collect();
                state.session.run_into(stream, &inputs, &outputs, &wait)
            })
            .or_raise()?;
        let handed = made.iter().map(|(name, memory)| Ok((name.clone(), opencl::hand_out(memory)?)));
        Ok((handed.collect::<PyResult<_>>()?, opencl::hand_out_event(&end)?))
    }
}

impl Session {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<State>> {
        self.state.get().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session, unless it is closed or of another process.
    fn open(&self) -> PyResult<State> {
        fork::check()?;
        self.lock()
            .clone()
            .ok_or_else(|| error::own("ClosedError", "the session is closed, expected an open one"))
    }
}

fn precision(name: &str) -> PyResult<Precision> {
    match name {
        "model" => Ok(Precision::Model),
        "f16" => Ok(Precision::F16),
        "bf16" => Ok(Precision::BF16),
        other => Err(PyValueError::new_err(format!("precision is {other:?}, expected model, f16 or bf16"))),
    }
}

fn extents(dims: &[Dim]) -> Vec<Extent> {
    let told = |dim: &Dim| match dim {
        Dim::Fixed(extent) => Extent::Fixed(*extent),
        Dim::Open(name) => Extent::Open(name.clone()),
    };
    dims.iter().map(told).collect()
}
