//! Graphs of operations, their partitions, and graphs compiled for a device.

use std::sync::{Mutex, PoisonError};

use anydnn::backend::{DataType, Engine, Error, StreamDesc};
use anydnn::compile::{CompileOptions, CompiledGraph};
use anydnn::draw;
use anydnn::execute::Executable;
use anydnn::fusion::{self, Policy};
use anydnn::graph::{self, AttrValue, Attrs, GraphBuilder, LogicalTensor, OpKind, TensorId};
use anydnn::model::{Dataset, Model};
use anydnn::onnx;
use anydnn::select::{AnyBackend, AnyEngine};
use pyo3::prelude::*;

use crate::devices;
use crate::error::{self, OrRaise};
use crate::fork::{self, Owned};
use crate::tensor::Tensor;
use crate::worker::{self, Waiting};

/// The value of an attribute.
#[derive(Debug, FromPyObject)]
enum Attr {
    // The order is that of the attempts: Python's truth values are integers, and its integers pass for floats.
    #[pyo3(transparent)]
    Bool(bool),
    #[pyo3(transparent)]
    Int(i64),
    #[pyo3(transparent)]
    Float(f64),
    #[pyo3(transparent)]
    Word(String),
    #[pyo3(transparent)]
    Ints(Vec<i64>),
    #[pyo3(transparent)]
    Floats(Vec<f64>),
}

impl From<Attr> for AttrValue {
    fn from(value: Attr) -> Self {
        match value {
            Attr::Bool(value) => Self::Bool(value),
            Attr::Int(value) => Self::S64(value),
            Attr::Float(value) => Self::F32(value as f32),
            Attr::Word(value) => Self::from(value),
            Attr::Ints(values) => Self::S64s(values),
            Attr::Floats(values) => Self::F32s(values.into_iter().map(|value| value as f32).collect()),
        }
    }
}

/// A graph under construction; tensors are numbers.
#[pyclass(frozen, module = "anydnn._native")]
#[derive(Debug)]
pub(crate) struct Builder {
    inner: Mutex<Option<GraphBuilder>>,
}

#[pymethods]
impl Builder {
    #[new]
    fn new() -> Self {
        Self { inner: Mutex::new(Some(GraphBuilder::new())) }
    }

    fn input(&self, name: &str, data_type: &str, dims: Vec<usize>) -> PyResult<u64> {
        let data_type: DataType = data_type.parse().or_raise()?;
        self.with(|builder| Ok(builder.input(name, data_type, dims).0))
    }

    fn constant(&self, name: &str, data_type: &str, dims: Vec<usize>) -> PyResult<u64> {
        let data_type: DataType = data_type.parse().or_raise()?;
        self.with(|builder| Ok(builder.constant(name, data_type, dims).0))
    }

    fn op(
        &self,
        kind: &str,
        name: &str,
        inputs: Vec<u64>,
        attrs: Vec<(String, Attr)>,
        outputs: usize,
    ) -> PyResult<Vec<u64>> {
        let kind: OpKind = kind.parse().or_raise()?;
        let inputs: Vec<_> = inputs.into_iter().map(TensorId).collect();
        let mut all = Attrs::new();
        for (name, value) in attrs {
            all.set(&name, value);
        }
        let made = self.with(|builder| builder.op_multi(name, kind, &inputs, all, outputs).or_raise())?;
        Ok(made.into_iter().map(|id| id.0).collect())
    }

    fn output(&self, tensor: u64) -> PyResult<()> {
        self.with(|builder| {
            builder.output(TensorId(tensor));
            Ok(())
        })
    }

    fn build(&self) -> PyResult<Graph> {
        let builder = self.lock().take().ok_or_else(built)?;
        Ok(Graph { inner: builder.build().or_raise()? })
    }
}

impl Builder {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<GraphBuilder>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, work: impl FnOnce(&mut GraphBuilder) -> PyResult<T>) -> PyResult<T> {
        work(self.lock().as_mut().ok_or_else(built)?)
    }
}

fn built() -> PyErr {
    error::own("InvalidGraphError", "the graph is built already, expected one under construction")
}

/// A finished graph.
#[pyclass(frozen, module = "anydnn._native")]
#[derive(Debug)]
pub(crate) struct Graph {
    inner: graph::Graph,
}

/// A tensor's number, name, type and dimensions, where they are known.
type Told = (u64, String, Option<&'static str>, Option<Vec<Option<usize>>>);

/// A partition's number, pattern, the names of its operations, and why it ends.
type Part = (usize, &'static str, Vec<String>, Option<String>);

#[pymethods]
impl Graph {
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        Ok(Self { inner: py.detach(|| graph::Graph::from_json(text)).or_raise()? })
    }

    fn with_batch(&self, batch: usize) -> PyResult<Self> {
        Ok(Self { inner: self.inner.with_batch(batch).or_raise()? })
    }

    fn to_json(&self) -> String {
        self.inner.to_json()
    }

    fn op_count(&self) -> usize {
        self.inner.ops().len()
    }

    fn inputs(&self) -> Vec<Told> {
        self.inner.inputs().iter().map(|&id| self.told(id)).collect()
    }

    fn outputs(&self) -> Vec<Told> {
        self.inner.outputs().iter().map(|&id| self.told(id)).collect()
    }

    fn constants(&self) -> Vec<Told> {
        self.inner.constants().map(|tensor| self.told(tensor.id)).collect()
    }

    fn partitions(&self, policy: &str) -> PyResult<Vec<Part>> {
        let partitioning = fusion::partition(&self.inner, self::policy(policy)?);
        let told = partitioning.partitions.iter().map(|partition| {
            let ops = partition.ops.iter().map(|&op| self.inner.ops()[op].name.clone()).collect();
            (partition.id, partition.pattern, ops, partition.stopped.as_ref().map(ToString::to_string))
        });
        Ok(told.collect())
    }

    fn describe(&self, policy: &str) -> PyResult<String> {
        Ok(fusion::partition(&self.inner, self::policy(policy)?).describe(&self.inner))
    }

    fn draw(&self, py: Python<'_>, policy: &str, dot: bool) -> PyResult<String> {
        let policy = self::policy(policy)?;
        Ok(py.detach(|| {
            let partitioning = fusion::partition(&self.inner, policy);
            if dot { draw::dot(&self.inner, &partitioning) } else { draw::svg(&self.inner, &partitioning) }
        }))
    }

    fn compile(
        &self,
        py: Python<'_>,
        backend: Option<&str>,
        policy: &str,
        constants: Vec<(u64, PyRef<'_, Tensor>)>,
    ) -> PyResult<Compiled> {
        let options = CompileOptions { policy: self::policy(policy)?, ..CompileOptions::default() };
        let (engine, chosen) = devices::engine(py, backend)?;
        let constants: Vec<_> =
            constants.iter().map(|(id, tensor)| (TensorId(*id), tensor.inner.clone())).collect();
        let executable = py.detach(|| {
            let compiled = CompiledGraph::new(&self.inner, &engine, &options)?;
            let stream = engine.create_stream(&StreamDesc::default())?;
            compiled.load_tensors(&stream, &constants.into_iter().collect())
        });
        let executable = Owned::new((executable.or_raise()?, engine));
        Ok(Compiled { executable, chosen })
    }
}

/// A model's parts: the graph, the numbers and values of its constants, rows of inputs by name with the right answers, and the names of
/// its classes.
type Parts = (Graph, Vec<(u64, Tensor)>, Vec<(String, Tensor)>, Option<Vec<i64>>, Vec<String>);

/// Reads a model: a folder with a manifest, such a manifest, or a graph JSON file.
#[pyfunction]
pub(crate) fn load_model(py: Python<'_>, path: &str) -> PyResult<Parts> {
    let model = py.detach(|| Model::load(path)).or_raise()?;
    let constants = model.constants.into_iter().map(|(id, value)| (id.0, Tensor::of_result(value))).collect();
    let dataset = model.dataset.as_ref();
    let rows = dataset.into_iter().flat_map(|data| data.inputs().map(move |(name, _)| (data, name)));
    let rows = rows.map(|(data, name)| {
        let graph = model.graph.with_batch(data.len())?;
        let input = graph.tensor_named(name).map(LogicalTensor::memory_desc).transpose()?;
        let missing = || Error::invalid("data set", "input", format!("{name:?}"), "an input of the graph");
        let rows = data.rows(name, 0..data.len(), &input.ok_or_else(missing)?)?;
        Ok((name.to_owned(), Tensor::of_result(rows)))
    });
    let rows = rows.collect::<Result<_, Error>>().or_raise()?;
    let labels = dataset.and_then(Dataset::labels).map(<[i64]>::to_vec);
    Ok((Graph { inner: model.graph }, constants, rows, labels, model.classes))
}

impl Graph {
    fn told(&self, id: TensorId) -> Told {
        let tensor = self.inner.tensor(id);
        let data_type = tensor.and_then(|tensor| tensor.data_type).map(DataType::name);
        let dims = tensor.and_then(|tensor| tensor.dims.clone());
        (id.0, self.inner.label(id), data_type, dims)
    }
}

/// A graph compiled for a device.
#[pyclass(frozen, module = "anydnn._native")]
#[derive(Debug)]
pub(crate) struct Compiled {
    executable: Owned<(Executable<AnyBackend>, AnyEngine)>,
    chosen: String,
}

#[pymethods]
impl Compiled {
    fn device(&self) -> (String, String, String) {
        let device = self.executable.get().1.device();
        (self.chosen.clone(), device.name.clone(), device.platform.clone())
    }

    /// Of each step the operations' names and the implementation.
    fn steps(&self) -> Vec<(String, String)> {
        let compiled = self.executable.get().0.compiled();
        compiled.steps().iter().map(|step| (step.name.clone(), step.implementation.clone())).collect()
    }

    fn run(
        &self,
        py: Python<'_>,
        inputs: Vec<(u64, PyRef<'_, Tensor>)>,
        interruptible: bool,
    ) -> PyResult<Vec<Tensor>> {
        fork::check()?;
        let (executable, engine) = self.executable.get().clone();
        let inputs: Vec<_> =
            inputs.iter().map(|(id, tensor)| (TensorId(*id), tensor.inner.clone())).collect();
        let waiting = if interruptible { Waiting::Elsewhere } else { Waiting::Here };
        let made = worker::run(py, waiting, &onnx::Cancel::new(), move |_| {
            let stream = engine.create_stream(&StreamDesc::default())?;
            executable.run(&stream, &inputs)
        })?;
        Ok(made.into_iter().map(Tensor::of_result).collect())
    }
}

fn policy(name: &str) -> PyResult<Policy> {
    match name {
        "fusion" => Ok(Policy::Fusion),
        "debug" => Ok(Policy::Debug),
        other => {
            let message = format!("policy is {other:?}, expected fusion or debug");
            Err(error::own("InvalidArgumentError", &message))
        }
    }
}
