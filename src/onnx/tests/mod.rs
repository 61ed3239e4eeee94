//! Small models, written with the reader's own messages, on the host.

mod ahead;
mod bad_input;
mod both;
mod conformance;
mod control;
mod decomposed;
mod device;
mod folding;
mod invariants;
mod known;
mod layers;
mod loops;
mod node_tests;
mod operators;
mod places;
mod plans;
#[cfg(feature = "mock")]
mod pool;
mod quantized;
mod session;
mod shapes;
#[cfg(feature = "mock")]
mod startup;
mod trees;
mod twins;

use anydnn_backend::{DataType, Engine, Result, StreamDesc, TensorValues, Tolerance};
use approx::assert_abs_diff_eq;
use prost::Message;

use super::Model;
use super::proto::{
    AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use crate::compile::{CompileOptions, CompiledGraph};
use crate::model::{self, HostTensor};

/// The numbers of ONNX's types.
const FLOAT: i32 = 1;
const UINT8: i32 = 2;
const INT8: i32 = 3;
const INT64: i32 = 7;

/// What a model of a test has.
#[derive(Clone, Default)]
struct Draft {
    opset: i64,
    graph: GraphProto,
    metadata: Vec<StringStringEntryProto>,
}

impl Draft {
    fn new(opset: i64) -> Self {
        Self { opset, ..Self::default() }
    }

    /// With an input; a name instead of a number is an open dimension.
    fn input(mut self, name: &str, dims: &[&str]) -> Self {
        let dim = dims.iter().map(|dim| match dim.parse() {
            Ok(value) => DimensionProto { dim_value: Some(value), dim_param: None },
            Err(_) => DimensionProto { dim_value: None, dim_param: Some((*dim).to_owned()) },
        });
        let shape = Some(TensorShapeProto { dim: dim.collect() });
        let tensor_type = Some(TensorTypeProto { elem_type: Some(FLOAT), shape });
        let r#type = Some(TypeProto { tensor_type });
        self.graph.input.push(ValueInfoProto { name: Some(name.into()), r#type });
        self
    }

    /// With an input of another type.
    fn typed(self, name: &str, number: i32, dims: &[&str]) -> Self {
        let mut draft = self.input(name, dims);
        let tensor = draft.graph.input.last_mut().and_then(|info| info.r#type.as_mut()?.tensor_type.as_mut());
        tensor.unwrap().elem_type = Some(number);
        draft
    }

    fn output(mut self, name: &str) -> Self {
        self.graph.output.push(ValueInfoProto { name: Some(name.into()), r#type: None });
        self
    }

    /// With a node written as `y, z = Split(x, , axes)`.
    fn node(mut self, text: &str, attribute: Vec<AttributeProto>) -> Self {
        let (outputs, call) = text.split_once('=').unwrap();
        let (operator, inputs) = call.trim().trim_end_matches(')').split_once('(').unwrap();
        let names = |text: &str| match text.trim() {
            "" => Vec::new(),
            text => text.split(',').map(|name| name.trim().to_owned()).collect(),
        };
        self.graph.node.push(NodeProto {
            input: names(inputs),
            output: names(outputs),
            op_type: Some(operator.into()),
            attribute,
            ..NodeProto::default()
        });
        self
    }

    fn floats(mut self, name: &str, dims: &[i64], values: &[f32]) -> Self {
        self.graph.initializer.push(TensorProto { name: Some(name.into()), ..float_tensor(dims, values) });
        self
    }

    fn ints(mut self, name: &str, dims: &[i64], values: &[i64]) -> Self {
        self.graph.initializer.push(TensorProto {
            name: Some(name.into()),
            dims: dims.to_vec(),
            data_type: Some(INT64),
            int64_data: values.to_vec(),
            ..TensorProto::default()
        });
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let opset = OperatorSetIdProto { domain: None, version: Some(self.opset) };
        ModelProto {
            graph: Some(self.graph.clone()),
            opset_import: vec![opset],
            metadata_props: self.metadata.clone(),
            ..ModelProto::default()
        }
        .encode_to_vec()
    }

    fn load(&self) -> Result<Model> {
        Model::from_bytes(self.bytes())
    }

    /// The outputs for the given inputs, in the order of the model.
    fn run(&self, dims: &[(&str, usize)], inputs: &[HostTensor]) -> Result<Vec<HostTensor>> {
        run(&self.load()?.graph(dims)?, inputs)
    }

    /// The message of the error that importing ends with.
    fn refused(&self) -> String {
        self.load().and_then(|model| model.graph(&[])).unwrap_err().to_string()
    }
}

fn run(model: &model::Model, inputs: &[HostTensor]) -> Result<Vec<HostTensor>> {
    let engine = anydnn_host::HostEngine::new();
    let stream = engine.create_stream(&StreamDesc::default())?;
    let compiled = CompiledGraph::new(&model.graph, &engine, &CompileOptions::default())?;
    let inputs: Vec<_> = model.graph.inputs().iter().copied().zip(inputs.iter().cloned()).collect();
    compiled.load_tensors(&stream, &model.constants)?.run(&stream, &inputs)
}

/// Checks that every element of a tensor is within `epsilon` of what is expected.
#[track_caller]
fn assert_close(found: &HostTensor, expected: &[f32], epsilon: f64) {
    let expected = TensorValues::new(found.desc(), expected.iter().copied()).unwrap();
    let found = TensorValues::new(found.desc(), found.to_f64s()).unwrap();
    assert_abs_diff_eq!(found, expected, epsilon = epsilon);
}

/// The operations that a model's graph has.
fn kinds(draft: &Draft) -> Vec<crate::graph::OpKind> {
    let graph = draft.load().unwrap().graph(&[]).unwrap().graph;
    graph.ops().iter().map(|op| op.kind).collect()
}

fn tensor<const N: usize>(dims: [usize; N], values: &[f32]) -> HostTensor {
    HostTensor::from_f32(dims, values).unwrap()
}

fn attribute(name: &str, number: i32) -> AttributeProto {
    AttributeProto { name: Some(name.into()), r#type: Some(number), ..AttributeProto::default() }
}

fn float_tensor(dims: &[i64], values: &[f32]) -> TensorProto {
    TensorProto {
        dims: dims.to_vec(),
        data_type: Some(FLOAT),
        raw_data: Some(values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>().into()),
        ..TensorProto::default()
    }
}

/// An attribute that is a tensor.
fn floats(name: &str, dims: &[i64], values: &[f32]) -> AttributeProto {
    AttributeProto { t: Some(float_tensor(dims, values)), ..attribute(name, 4) }
}

fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto { i: Some(value), ..attribute(name, 2) }
}

fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto { f: Some(value), ..attribute(name, 1) }
}

fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto { ints: values.to_vec(), ..attribute(name, 7) }
}

fn word(name: &str, value: &str) -> AttributeProto {
    AttributeProto { s: Some(value.as_bytes().to_vec().into()), ..attribute(name, 3) }
}

#[test]
fn a_model_says_what_it_needs() {
    let draft = Draft::new(13).input("x", &["batch", "3", "?"]).node("y = Relu(x)", vec![]).output("y");
    let model = draft.load().unwrap();
    let inputs = model.inputs().unwrap();
    assert_eq!((inputs[0].name.as_str(), inputs[0].data_type), ("x", DataType::F32));
    let open = |name: &str| super::Dim::Open(name.into());
    assert_eq!(inputs[0].dims, [open("batch"), super::Dim::Fixed(3), open("x.2")]);
    let graph = model.graph(&[("x.2", 5), ("batch", 2)]).unwrap().graph;
    assert_eq!(graph.tensor(graph.inputs()[0]).unwrap().to_string(), "x:f32:2x3x5");
    assert_eq!(graph.tensor(graph.outputs()[0]).unwrap().to_string(), "y:f32:2x3x5");
    let missing = model.graph(&[("batch", 2)]).unwrap_err().to_string();
    assert!(missing.contains("\"x.2\"") && missing.contains("missing"), "{missing}");
    let unknown = model.graph(&[("bach", 2)]).unwrap_err().to_string();
    assert!(unknown.contains("\"bach\"") && unknown.contains("batch, x.2"), "{unknown}");
}

#[test]
fn a_model_keeps_what_its_maker_wrote_down() {
    let mut draft = Draft::new(13).input("x", &["1"]).node("y = Relu(x)", vec![]).output("y");
    let entry =
        |key: &str, value: &str| StringStringEntryProto { key: Some(key.into()), value: Some(value.into()) };
    draft.metadata = vec![entry("author", "somebody"), entry("labels", "cat\ndog")];
    let model = draft.load().unwrap();
    assert_eq!(model.metadata("labels"), Some("cat\ndog"));
    assert_eq!(model.metadata("colours"), None);
}
