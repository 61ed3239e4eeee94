//! Writing graph JSON.

use anydnn_backend::{DataType, FpMath};
use indexmap::IndexMap;
use serde::Serialize;

use super::super::op::{AttrValue, Op};
use super::super::tensor::{LogicalTensor, Property, TensorLayout};
use super::super::{Graph, OpKind};
use super::{UNKNOWN_DIM, VERSION};

impl Graph {
    /// The graph as JSON, in the format of oneDNN's graph dumps. Names of tensors have no place in it.
    pub fn to_json(&self) -> String {
        self.to_json_with("cpu", |_| Vec::new())
    }

    /// As [`Graph::to_json`], for a kind of engine and with more attributes on the operations (indices into [`Graph::ops`]).
    pub(crate) fn to_json_with(
        &self,
        engine_kind: &str,
        more: impl Fn(usize) -> Vec<(&'static str, AttrValue)>,
    ) -> String {
        let more: Vec<_> = (0..self.ops().len()).map(more).collect();
        let constants = self.constants().map(|tensor| tensor.id.0);
        let document = Document {
            version: VERSION,
            engine_kind,
            fpmath_mode: fpmath_name(self.fpmath()),
            fpmath_mode_apply_to_int: if self.fpmath_apply_to_int() { "true" } else { "false" },
            input_ports: self.inputs().iter().map(|id| id.0).chain(constants).collect(),
            output_ports: self.outputs().iter().map(|id| id.0).collect(),
            graph: self.ops().iter().zip(&more).map(|(op, more)| Operation::of(self, op, more)).collect(),
        };
        // Only a map with keys that are not strings or a failing writer makes this fail; there are neither.
        serde_json::to_string_pretty(&document).unwrap_or_default()
    }
}

#[derive(Serialize)]
struct Document<'a> {
    version: &'a str,
    engine_kind: &'a str,
    fpmath_mode: &'a str,
    fpmath_mode_apply_to_int: &'a str,
    input_ports: Vec<u64>,
    output_ports: Vec<u64>,
    graph: Vec<Operation<'a>>,
}

#[derive(Serialize)]
struct Operation<'a> {
    id: u64,
    name: &'a str,
    kind: &'a str,
    attrs: IndexMap<&'a str, Attribute<'a>>,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
}

impl<'a> Operation<'a> {
    fn of(graph: &'a Graph, op: &'a Op, more: &'a [(&'static str, AttrValue)]) -> Self {
        let tensors = |ids: &[super::super::TensorId]| {
            ids.iter().filter_map(|id| graph.tensor(*id)).map(Tensor::of).collect::<Vec<_>>()
        };
        Self {
            id: op.id.0,
            name: &op.name,
            kind: OpKind::name(op.kind),
            attrs: op
                .attrs
                .iter()
                .chain(more.iter().map(|(name, value)| (*name, value)))
                .map(|(name, value)| (name, Attribute::of(value)))
                .collect(),
            inputs: tensors(&op.inputs),
            outputs: tensors(&op.outputs),
        }
    }
}

#[derive(Serialize)]
struct Attribute<'a> {
    r#type: &'a str,
    value: Value<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Value<'a> {
    Float(Float),
    Floats(Vec<Float>),
    Integer(i64),
    Integers(&'a [i64]),
    Word(&'a str),
}

/// JSON has no infinities and no NaN: they are written as words.
#[derive(Serialize)]
#[serde(untagged)]
enum Float {
    Finite(f32),
    Other(String),
}

impl From<f32> for Float {
    fn from(value: f32) -> Self {
        if value.is_finite() { Self::Finite(value) } else { Self::Other(value.to_string()) }
    }
}

impl<'a> Attribute<'a> {
    fn of(value: &'a AttrValue) -> Self {
        let written = match value {
            AttrValue::F32(v) => Value::Float((*v).into()),
            AttrValue::F32s(v) => Value::Floats(v.iter().copied().map(Float::from).collect()),
            AttrValue::S64(v) => Value::Integer(*v),
            AttrValue::S64s(v) => Value::Integers(v),
            AttrValue::Bool(v) => Value::Integer(i64::from(*v)),
            AttrValue::String(v) => Value::Word(v),
        };
        Self { r#type: value.type_name(), value: written }
    }
}

#[derive(Serialize)]
struct Tensor {
    id: u64,
    dtype: &'static str,
    /// Left out when the rank is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<Vec<i64>>,
    stride: Vec<i64>,
    layout_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    layout_id: Option<u64>,
    property_type: &'static str,
}

impl Tensor {
    fn of(tensor: &LogicalTensor) -> Self {
        let number = |dim: Option<usize>| dim.and_then(|dim| i64::try_from(dim).ok()).unwrap_or(UNKNOWN_DIM);
        let dense = || {
            tensor
                .known_dims()
                .map(|dims| dims.row_major_strides().iter().map(|&s| number(Some(s))).collect())
        };
        let (layout_type, stride) = match &tensor.layout {
            TensorLayout::Undefined => ("undef", dense().unwrap_or_default()),
            TensorLayout::Any => ("any", Vec::new()),
            TensorLayout::Strided(strides) => ("strided", strides.iter().copied().map(number).collect()),
            TensorLayout::Opaque(_) => ("opaque", Vec::new()),
        };
        Self {
            id: tensor.id.0,
            dtype: tensor.data_type.map_or("undef", DataType::name),
            shape: tensor.dims.as_ref().map(|dims| dims.iter().copied().map(number).collect()),
            stride,
            layout_type,
            layout_id: match tensor.layout {
                TensorLayout::Opaque(id) => Some(id),
                _ => None,
            },
            property_type: property_name(tensor.property),
        }
    }
}

const fn property_name(property: Property) -> &'static str {
    match property {
        Property::Undefined => "undef",
        Property::Variable => "variable",
        Property::Constant => "constant",
        Property::HostScalar => "host_scalar",
    }
}

const fn fpmath_name(fpmath: FpMath) -> &'static str {
    match fpmath {
        FpMath::BF16 => "bf16",
        FpMath::F16 => "f16",
        FpMath::TF32 => "tf32",
        FpMath::Any => "any",
        _ => "strict",
    }
}
