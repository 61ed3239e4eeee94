//! What there is to compute: the graph at its batch, and the data of each batch.

use std::ops::Range;
use std::path::Path;

use anydnn::backend::{DataType, Dims, Error, MemoryDesc, Result, ResultExt};
use anydnn::graph::{Graph, LogicalTensor, TensorId};
use anydnn::model::{
    Dataset, HostTensor, Model, random_input, read_bytes, read_npy, read_safetensors, read_text,
};

use super::args::RunArgs;
use super::picture::read_png;
use crate::model::is_onnx;
use crate::plausible::plausible;

/// The most samples of a dataset that run at once unless asked otherwise.
const BATCH: usize = 512;

/// The work of one pass.
#[derive(Debug)]
pub(super) struct Work {
    /// The graph for the batch.
    pub(super) graph: Graph,
    /// The batches of a pass.
    pub(super) batches: Vec<Batch>,
    /// Names of the inputs that got random numbers.
    pub(super) random: Vec<String>,
    /// The first dimension that every input was given, if one was.
    pub(super) batch: Option<usize>,
}

/// The inputs of one execution.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) inputs: Vec<(TensorId, HostTensor)>,
    /// The samples of the dataset that this batch is the first to hold.
    pub(super) rows: Range<usize>,
    /// How many samples before those were in an earlier batch too: the last batch is filled up with them.
    pub(super) again: usize,
}

impl Work {
    pub(super) fn new(model: &Model, args: &RunArgs) -> Result<Self> {
        let asked = args.batch.map(|batch| batch as usize);
        match &model.dataset {
            Some(dataset) if args.inputs.is_empty() && !dataset.is_empty() => {
                Self::of_dataset(model, dataset, asked)
            }
            _ => Self::of_files(model, args, asked),
        }
    }

    fn of_dataset(model: &Model, dataset: &Dataset, asked: Option<usize>) -> Result<Self> {
        let batch = asked.unwrap_or(BATCH).min(dataset.len());
        let graph = model.graph.with_batch(batch)?;
        let mut batches = Vec::new();
        for start in (0..dataset.len()).step_by(batch) {
            let rows = start..dataset.len().min(start + batch);
            let again = batch - rows.len();
            let mut inputs = Vec::new();
            for &id in graph.inputs() {
                let (name, desc) = (label(&graph, id), desc(&graph, id)?);
                inputs.push((id, dataset.rows(&name, rows.start - again..rows.end, &desc)?));
            }
            batches.push(Batch { inputs, rows, again });
        }
        Ok(Self { graph, batches, random: Vec::new(), batch: Some(batch) })
    }

    fn of_files(model: &Model, args: &RunArgs, asked: Option<usize>) -> Result<Self> {
        let mut given = Vec::new();
        for (name, file) in &args.inputs {
            let inputs = model.graph.inputs();
            let tensor =
                model.tensor(name).filter(|tensor| inputs.contains(&tensor.id)).ok_or_else(|| {
                    let names: Vec<_> = inputs.iter().map(|&id| label(&model.graph, id)).collect();
                    Error::invalid(
                        "--input",
                        "name",
                        format!("{name:?}"),
                        format!("one of {}", names.join(", ")),
                    )
                })?;
            if file != Path::new("random") {
                let (dims, data_type) = (tensor.known_dims(), tensor.data_type.unwrap_or(DataType::F32));
                given.push((tensor.id, read(file, &tensor.label(), data_type, dims.as_ref())?));
            }
        }
        let batch =
            asked.or_else(|| given.iter().find_map(|(id, data)| batch_of(model.graph.tensor(*id)?, data)));
        let graph = batch.map_or_else(|| Ok(model.graph.clone()), |batch| model.graph.with_batch(batch))?;
        let mut random = Vec::new();
        let mut inputs = Vec::new();
        for &id in graph.inputs() {
            let (name, desc) = (label(&graph, id), desc(&graph, id)?);
            let tensor = if let Some((_, data)) = given.iter().find(|(own, _)| *own == id) {
                data.fit(&desc).at(|| format!("--input {name}"))?
            } else {
                let numbers = random_input(&graph, id, args.seed)?;
                // The integers of other graphs are often quantised numbers.
                let numbers = if is_onnx(&args.model) { plausible(&name, numbers)? } else { numbers };
                random.push(name);
                numbers
            };
            inputs.push((id, tensor));
        }
        Ok(Self { graph, batches: vec![Batch { inputs, rows: 0..0, again: 0 }], random, batch })
    }
}

/// What a file holds for an input.
pub(super) enum Data {
    Tensor(Box<HostTensor>),
    Numbers(Vec<f64>),
    Bytes(Vec<u8>),
}

impl Data {
    pub(super) fn fit(&self, desc: &MemoryDesc) -> Result<HostTensor> {
        let dense = MemoryDesc::new(desc.dims().clone(), desc.data_type());
        match self {
            Self::Tensor(tensor) => tensor.cast(desc.data_type()).reshaped(desc.dims().clone()),
            Self::Numbers(numbers) => HostTensor::from_f64(desc.dims().clone(), desc.data_type(), numbers),
            Self::Bytes(bytes) => HostTensor::new(dense, bytes.clone()),
        }
    }
}

/// Reads data for a tensor, whose dimensions matter to pictures alone.
pub(super) fn read(file: &Path, name: &str, data_type: DataType, dims: Option<&Dims>) -> Result<Data> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("safetensors") => {
            let mut tensors = read_safetensors(file)?;
            let only = tensors.len() == 1;
            let found = tensors
                .swap_remove(name)
                .or_else(|| only.then(|| tensors.pop().map(|(_, one)| one)).flatten());
            found.map(|tensor| Data::Tensor(Box::new(tensor))).ok_or_else(|| {
                let names: Vec<_> = tensors.keys().map(String::as_str).collect();
                Error::invalid(
                    file.display().to_string(),
                    "tensors",
                    names.join(", "),
                    format!("one with the name {name:?}, or a single one"),
                )
            })
        }
        Some("png") => {
            let most = if data_type.is_integer() { 255.0 } else { 1.0 };
            read_png(file, dims, most).map(|tensor| Data::Tensor(Box::new(tensor)))
        }
        Some("npy") => read_npy(file).map(|tensor| Data::Tensor(Box::new(tensor))),
        Some("json") => {
            let text = read_text(file)?;
            let wrong = |given: String| {
                Error::invalid(file.display().to_string(), "content", given, "an array of numbers")
            };
            let value: serde_json::Value =
                serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
            let mut numbers = Vec::new();
            flatten(&value, &mut numbers).map_err(|other| wrong(format!("{other} for {name}")))?;
            Ok(Data::Numbers(numbers))
        }
        _ => read_bytes(file).map(Data::Bytes),
    }
}

fn flatten(value: &serde_json::Value, numbers: &mut Vec<f64>) -> std::result::Result<(), String> {
    match value {
        serde_json::Value::Array(items) => items.iter().try_for_each(|item| flatten(item, numbers)),
        serde_json::Value::Number(number) => {
            numbers.push(number.as_f64().ok_or_else(|| number.to_string())?);
            Ok(())
        }
        other => Err(other.to_string()),
    }
}

/// The batch that makes the data fit the input: a multiple of one sample.
fn batch_of(tensor: &LogicalTensor, data: &Data) -> Option<usize> {
    let dims = tensor.dims.as_ref()?;
    let sample: Option<Dims> = dims.get(1..)?.iter().copied().collect();
    let sample = sample?.elements().max(1);
    let elements = match data {
        Data::Tensor(tensor) => tensor.desc().elements(),
        Data::Numbers(numbers) => numbers.len(),
        Data::Bytes(bytes) => bytes.len() * 8 / tensor.data_type?.bits(),
    };
    let batch = elements / sample;
    (elements > 0 && elements % sample == 0 && dims[0] != Some(batch)).then_some(batch)
}

/// The name of a tensor in messages.
pub(super) fn label(graph: &Graph, id: TensorId) -> String {
    graph.tensor(id).map_or_else(|| id.to_string(), LogicalTensor::label)
}

fn desc(graph: &Graph, id: TensorId) -> Result<MemoryDesc> {
    let unknown = || Error::invalid("graph", "input", id.to_string(), "a tensor of the graph");
    graph.tensor(id).ok_or_else(unknown)?.memory_desc()
}
