//! Reading graph JSON.

use std::collections::{HashMap, HashSet};

use anydnn_backend::{DataType, Error, FpMath, InvalidKind, MAX_DIMS, Result};
use indexmap::IndexSet;

use super::super::op::{AttrValue, Attrs, Op, OpId};
use super::super::tensor::{LogicalTensor, Property, TensorId, TensorLayout};
use super::super::{Graph, GraphBuilder, OpKind};
use super::UNKNOWN_DIM;
use super::fields::{Field, clipped};

/// Attributes that dumps hold for the dumping library's own use.
const BOOKKEEPING: [&str; 3] = ["matched", "partition_id", "backend"];

impl Graph {
    /// Reads a graph in the format of oneDNN's graph dumps.
    ///
    /// Optional fields may be missing, numbers may be strings, truth values 0 and 1, a list of one value that value. The engine kind is
    /// not kept: the engine at run time decides.
    ///
    /// # Errors
    /// [`Error::Invalid`] that names the place: line and column where the text is no JSON, else the operation and field, or what
    /// [`GraphBuilder::build`] finds.
    ///
    /// ```
    /// use anydnn::graph::Graph;
    /// let text = r#"{"version": "3.14.0", "engine_kind": "cpu", "fpmath_mode": "strict", "graph": [{
    ///     "id": 0, "name": "relu", "kind": "ReLU", "attrs": {},
    ///     "inputs": [{"id": 0, "dtype": "f32", "shape": [2, 3], "stride": [3, 1], "layout_type": "strided", "property_type": "variable"}],
    ///     "outputs": [{"id": 1, "dtype": "f32", "shape": [-1, -1], "stride": [], "layout_type": "any", "property_type": "undef"}]
    /// }]}"#;
    /// let graph = Graph::from_json(text)?;
    /// assert_eq!(graph.tensor(graph.outputs()[0]).unwrap().known_dims().unwrap(), [2, 3].into());
    /// # Ok::<(), anydnn::backend::Error>(())
    /// ```
    pub fn from_json(text: &str) -> Result<Self> {
        parse(text)?.build()
    }

    /// As [`Graph::from_json`], but shapes that cannot be inferred or contradict each other stay as they were said.
    pub(crate) fn from_json_open(text: &str) -> Result<Self> {
        parse(text)?.build_open()
    }
}

fn parse(text: &str) -> Result<GraphBuilder> {
    let document: serde_json::Value = serde_json::from_str(text).map_err(|error| {
        let expected = "JSON";
        Error::invalid_kind(InvalidKind::Graph, "graph JSON", "text", error.to_string(), expected)
    })?;
    let document = Field::document(&document);
    if let Some(engine) = document.find("engine_kind")? {
        word(&engine, &[("cpu", ()), ("gpu", ())])?;
    }
    if let Some(version) = document.find("version")? {
        version.text()?;
    }
    let mut builder = GraphBuilder::new();
    if let Some(mode) = document.find("fpmath_mode")? {
        builder = builder.with_fpmath(fpmath(&mode)?);
    }
    if let Some(apply) = document.find("fpmath_mode_apply_to_int")? {
        builder = builder.with_fpmath_apply_to_int(apply.truth()?);
    }
    let ops = document.get("graph", "an array of operations")?.items()?;
    let made = made(&ops);
    let mut places = HashMap::new();
    for (i, op) in ops.iter().enumerate() {
        add_op(&mut builder, i, op, &made, &mut places)?;
    }
    for id in ids(&document, "input_ports")? {
        builder.input_port(id);
    }
    for id in ids(&document, "output_ports")? {
        builder.output(id);
    }
    Ok(builder)
}

/// The ports of the document; dumps of partitions list a tensor once for each operation that reads it.
fn ids(document: &Field<'_>, name: &str) -> Result<IndexSet<TensorId>> {
    let Some(list) = document.find(name)? else { return Ok(IndexSet::new()) };
    list.items()?.iter().map(|id| id.id().map(TensorId)).collect()
}

fn add_op(
    builder: &mut GraphBuilder,
    index: usize,
    field: &Field<'_>,
    made: &HashSet<u64>,
    places: &mut HashMap<u64, usize>,
) -> Result<()> {
    let op = Field::rooted(field.value, format!("graph[{index}]"));
    let id = op.get("id", "the operation's id")?;
    let name = match op.find("name")? {
        Some(name) => name.text()?.to_owned(),
        None => format!("op{}", id.id()?),
    };
    let op = Field::rooted(field.value, format!("graph[{index}] {:?}", clipped(&name)));
    if let Some(first) = places.insert(id.id()?, index) {
        return Err(op.member("id", id.value).wrong(format!("an id that graph[{first}] does not have")));
    }
    let kind = op.get("kind", "the kind of operation")?;
    let kind: OpKind = kind.text()?.parse().map_err(|error: Error| match error {
        Error::Invalid(invalid) => kind.wrong(invalid.expected.clone()),
        other => other,
    })?;
    let mut tensors = Vec::new();
    let mut read = |name: &str| -> Result<Vec<TensorId>> {
        let Some(list) = op.find(name)? else { return Ok(Vec::new()) };
        let mut ids = Vec::new();
        for item in list.items()? {
            let tensor = tensor(&item, made)?;
            ids.push(tensor.id);
            tensors.push(tensor);
        }
        Ok(ids)
    };
    let (inputs, outputs) = (read("inputs")?, read("outputs")?);
    let mut attrs = Attrs::new();
    if let Some(list) = op.find("attrs")? {
        for (name, value) in list.object()?.iter().filter(|(name, _)| !BOOKKEEPING.contains(&name.as_str())) {
            attrs.set(name, attribute(&list.member(name, value))?);
        }
    }
    let id = OpId(id.id()?);
    builder
        .add_op(Op { id, name, kind, attrs, inputs, outputs }, &tensors)
        .map_err(|error| error.at(op.place()))
}

/// The tensors that operations make. What is malformed is told when it is read in full.
fn made(ops: &[Field<'_>]) -> HashSet<u64> {
    let outputs = ops.iter().filter_map(|op| op.value.get("outputs")?.as_array()).flatten();
    outputs.filter_map(|tensor| tensor.get("id")?.as_u64()).collect()
}

fn attribute(field: &Field<'_>) -> Result<AttrValue> {
    let kind = field.get("type", "the type of the attribute")?;
    let value = field.get("value", "the value of the attribute")?;
    Ok(match kind.text()? {
        "string" => AttrValue::from(value.text()?),
        "bool" => AttrValue::Bool(value.truth()?),
        "s64" => AttrValue::S64(value.integer()?),
        "f32" => AttrValue::F32(value.float()?),
        "s64[]" => AttrValue::S64s(value.items_or_one()?.iter().map(Field::integer).collect::<Result<_>>()?),
        "f32[]" => AttrValue::F32s(value.items_or_one()?.iter().map(Field::float).collect::<Result<_>>()?),
        _ => return Err(kind.wrong("one of string, bool, s64, s64[], f32, f32[]")),
    })
}

fn tensor(field: &Field<'_>, made: &HashSet<u64>) -> Result<LogicalTensor> {
    let mut tensor = LogicalTensor::unknown(TensorId(field.get("id", "the tensor's id")?.id()?));
    if let Some(data_type) = field.find("dtype")? {
        tensor.data_type = dtype(&data_type)?;
    }
    if let Some(property) = field.find("property_type")? {
        tensor.property = word(
            &property,
            &[
                ("undef", Property::Undefined),
                ("variable", Property::Variable),
                ("constant", Property::Constant),
                ("host_scalar", Property::HostScalar),
            ],
        )?;
    }
    let layout = match field.find("layout_type")? {
        Some(layout) => word(&layout, &[("undef", 'u'), ("any", 'a'), ("strided", 's'), ("opaque", 'o')])?,
        None => 'u',
    };
    tensor.dims = match field.find("shape")? {
        Some(shape) => Some(numbers(&shape)?),
        None => None,
    };
    let strides = match field.find("stride")? {
        Some(stride) => numbers(&stride)?,
        None => Vec::new(),
    };
    tensor.layout = match layout {
        'a' => TensorLayout::Any,
        'o' => TensorLayout::Opaque(field.find("layout_id")?.map_or(Ok(0), |id| id.id())?),
        's' => strided(field, &tensor, strides)?,
        _ => undefined(&tensor, strides),
    };
    // Dumps write a tensor whose rank is yet to be inferred like one without dimensions, or with a single unknown one.
    let open = tensor.dims.as_ref().is_some_and(|dims| dims.is_empty() || **dims == [None]);
    if open && layout != 's' && made.contains(&tensor.id.0) {
        tensor.dims = None;
    }
    Ok(tensor)
}

fn strided(field: &Field<'_>, tensor: &LogicalTensor, strides: Vec<Option<usize>>) -> Result<TensorLayout> {
    let rank = tensor.dims.as_ref().map_or(0, Vec::len);
    if strides.is_empty() && rank > 0 {
        return Ok(TensorLayout::Undefined);
    }
    if strides.len() != rank {
        let expected = format!("{rank} strides, one for each dimension");
        return Err(field
            .get("stride", &expected)
            .map_or_else(|error| error, |stride| stride.wrong(&expected)));
    }
    Ok(TensorLayout::Strided(strides))
}

/// Strides hold even where the layout is not said, unless they say nothing that the shape does not.
fn undefined(tensor: &LogicalTensor, strides: Vec<Option<usize>>) -> TensorLayout {
    let Some(dims) = tensor.known_dims() else { return TensorLayout::Undefined };
    let dense = dims.row_major_strides();
    let says_more = strides.len() == dims.len()
        && strides.iter().all(Option::is_some)
        && strides.iter().any(|stride| *stride != Some(0))
        && strides
            .iter()
            .zip(dims.iter().zip(dense.iter()))
            .any(|(stride, (&dim, &dense))| dim != 1 && *stride != Some(dense));
    if says_more { TensorLayout::Strided(strides) } else { TensorLayout::Undefined }
}

/// Dimensions or strides; negative ones are unknown.
fn numbers(field: &Field<'_>) -> Result<Vec<Option<usize>>> {
    let items = field.items_or_one()?;
    if items.len() > MAX_DIMS {
        return Err(
            field.wrong_given(format!("a list of {}", items.len()), format!("at most {MAX_DIMS} dimensions"))
        );
    }
    items
        .iter()
        .map(|item| match item.integer()? {
            -1 | UNKNOWN_DIM => Ok(None),
            number => {
                usize::try_from(number).map(Some).map_err(|_| item.wrong("at least 0, or -1 for unknown"))
            }
        })
        .collect()
}

fn dtype(field: &Field<'_>) -> Result<Option<DataType>> {
    let known = DataType::ALL.map(|data_type| (data_type.name(), Some(data_type)));
    let known: Vec<_> = known.into_iter().chain([("undef", None)]).collect();
    word(field, &known)
}

fn fpmath(field: &Field<'_>) -> Result<FpMath> {
    word(
        field,
        &[
            ("strict", FpMath::Strict),
            ("bf16", FpMath::BF16),
            ("f16", FpMath::F16),
            ("tf32", FpMath::TF32),
            ("any", FpMath::Any),
        ],
    )
}

fn word<T: Copy>(field: &Field<'_>, words: &[(&str, T)]) -> Result<T> {
    let given = field.text()?;
    words.iter().find(|(word, _)| *word == given).map(|&(_, meaning)| meaning).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        field.wrong(format!("one of {}", words.join(", ")))
    })
}
