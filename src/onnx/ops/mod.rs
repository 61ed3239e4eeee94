//! The operators that are read: one entry each.

mod activation;
mod compound;
mod convolution;
mod elementwise;
mod gelu;
mod indexing;
mod logic;
mod movement;
mod normalization;
mod pooling;
mod product;
mod quantization;
mod recurrent;
mod reduction;
mod resize;
mod source;
mod window;

use anydnn_backend::{DataType, Error, Result};

use super::host::{self, Host, Known};
use super::is_standard;
use super::network::{Network, Room, Value};
use super::node::Node;
use crate::model::HostTensor;

pub(super) use elementwise::cast_type;
pub(super) use movement::transpose_order;

/// Makes a node's outputs.
type Import = fn(&mut Network, &Node) -> Result<Vec<Value>>;

/// An operator: how it is computed on the host and what it becomes in the graph.
struct Operator {
    name: &'static str,
    host: Option<Host>,
    import: Option<Import>,
    /// Whether it is computed while importing where all its inputs are known.
    folds: Folds,
}

/// What is computed while importing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Folds {
    /// Anything: elements only move, and go to the device the fewer the better.
    Always,
    /// Results with at most [`MOST`] elements.
    Small,
    /// Nothing: it takes long on the host.
    Never,
}

/// Results of arithmetic with more elements are left to the device.
const MOST: usize = 1 << 22;

/// An operator that the device alone computes.
const fn op(name: &'static str, import: Import) -> Operator {
    Operator { name, host: None, import: Some(import), folds: Folds::Never }
}

/// An operator that the device computes unless its inputs are known when the model is imported.
const fn both(name: &'static str, host: Host, import: Import) -> Operator {
    Operator { name, host: Some(host), import: Some(import), folds: Folds::Small }
}

/// An operator that the host alone computes.
const fn known(name: &'static str, host: Host) -> Operator {
    Operator { name, host: Some(host), import: None, folds: Folds::Small }
}

/// An operator that the host computes where the device cannot.
#[allow(dead_code, reason = "host functions are to come")]
const fn rather(name: &'static str, import: Import, host: Host) -> Operator {
    Operator { name, host: Some(host), import: Some(import), folds: Folds::Never }
}

impl Operator {
    /// The same operator, computed while importing whatever its size.
    const fn moves(self) -> Self {
        Self { folds: Folds::Always, ..self }
    }

    fn find(node: &Node) -> Result<&'static Self> {
        let found = OPERATORS.iter().find(|operator| operator.name == node.operator());
        found.ok_or_else(|| node.unsupported("the operator is not read"))
    }
}

const OPERATORS: &[Operator] = &[
    both("Abs", host::unary, activation::plain),
    op("Acos", activation::plain),
    op("Acosh", activation::plain),
    both("Add", host::binary, elementwise::binary),
    both("And", host::binary, logic::truth),
    op("ArgMax", compound::extreme_index),
    op("ArgMin", compound::extreme_index),
    op("Asin", activation::plain),
    op("Asinh", activation::plain),
    op("Atan", activation::plain),
    op("Atanh", activation::plain),
    op("AveragePool", pooling::average),
    op("BatchNormalization", normalization::batch),
    both("Cast", host::cast, elementwise::cast),
    both("Ceil", host::unary, activation::plain),
    op("Celu", activation::celu),
    op("Clip", activation::clip),
    both("Concat", host::concat, movement::concat).moves(),
    op("Constant", source::constant),
    known("ConstantOfShape", host::constant_of_shape).moves(),
    op("Conv", convolution::forward),
    op("ConvTranspose", convolution::transposed),
    op("Cos", activation::plain),
    op("Cosh", activation::plain),
    op("CumSum", compound::running_sum),
    op("DepthToSpace", indexing::depth_to_space),
    op("DequantizeLinear", quantization::dequantize),
    both("Div", host::binary, elementwise::binary),
    op("Dropout", source::dropout),
    op("Elu", activation::sloped),
    both("Equal", host::binary, logic::truth),
    op("Erf", activation::plain),
    op("Exp", activation::plain),
    both("Expand", host::expand, indexing::expand).moves(),
    op("Flatten", movement::flatten),
    both("Floor", host::unary, activation::plain),
    op("GRU", recurrent::layer),
    both("Gather", host::gather, indexing::gather).moves(),
    op("GatherElements", indexing::gather_elements),
    op("GatherND", indexing::gather_lists),
    op("Gelu", activation::gelu),
    op("Gemm", product::gemm),
    op("GlobalAveragePool", pooling::global),
    op("GlobalMaxPool", pooling::global),
    both("Greater", host::binary, logic::truth),
    both("GreaterOrEqual", host::binary, logic::truth),
    op("GroupNormalization", normalization::group),
    op("HardSigmoid", activation::hard_sigmoid),
    op("HardSwish", activation::plain),
    op("Identity", source::identity),
    op("InstanceNormalization", normalization::instance),
    op("IsInf", logic::is_infinite),
    op("IsNaN", logic::is_nan),
    op("LSTM", recurrent::layer),
    op("LayerNormalization", normalization::layer),
    op("LeakyRelu", activation::sloped),
    both("Less", host::binary, logic::truth),
    both("LessOrEqual", host::binary, logic::truth),
    op("Log", activation::plain),
    op("LogSoftmax", normalization::softmax),
    op("MatMul", product::matmul),
    both("Max", host::binary, elementwise::variadic),
    op("MaxPool", pooling::max),
    op("Mean", elementwise::variadic),
    both("Min", host::binary, elementwise::variadic),
    op("Mish", activation::plain),
    both("Mod", host::binary, elementwise::remainder),
    both("Mul", host::binary, elementwise::binary),
    both("Neg", host::unary, activation::negated),
    both("Not", host::unary, logic::not),
    op("OneHot", compound::one_hot),
    both("Or", host::binary, logic::truth),
    op("PRelu", activation::prelu),
    op("Pad", indexing::pad),
    both("Pow", host::binary, elementwise::power),
    op("QuantizeLinear", quantization::quantize),
    op("RNN", recurrent::layer),
    known("Range", host::range),
    both("Reciprocal", host::unary, activation::plain),
    op("ReduceL1", reduction::reduce),
    op("ReduceL2", reduction::reduce),
    op("ReduceLogSum", reduction::reduce),
    op("ReduceMax", reduction::reduce),
    op("ReduceMean", reduction::reduce),
    op("ReduceMin", reduction::reduce),
    op("ReduceProd", reduction::reduce),
    op("ReduceSum", reduction::reduce),
    op("ReduceSumSquare", reduction::reduce),
    op("Relu", activation::plain),
    op("Reshape", movement::reshape),
    op("Resize", resize::resize),
    both("Round", host::unary, activation::plain),
    op("Selu", activation::selu),
    op("Shape", source::shape),
    op("Sigmoid", activation::plain),
    op("Sign", activation::plain),
    op("Sin", activation::plain),
    op("Sinh", activation::plain),
    op("Size", source::size),
    both("Slice", host::slice, indexing::slice).moves(),
    op("Softmax", normalization::softmax),
    op("Softplus", activation::softplus),
    op("Softsign", activation::softsign),
    op("SpaceToDepth", indexing::space_to_depth),
    op("Split", indexing::split),
    both("Sqrt", host::unary, activation::plain),
    op("Squeeze", movement::squeeze),
    both("Sub", host::binary, elementwise::binary),
    op("Sum", elementwise::variadic),
    op("Swish", activation::swish),
    op("Tan", activation::plain),
    op("Tanh", activation::plain),
    op("Tile", indexing::tile),
    both("Transpose", host::transpose, movement::transpose).moves(),
    op("Trilu", compound::triangle),
    op("Unsqueeze", movement::unsqueeze),
    op("Upsample", resize::resize),
    both("Where", host::choose, logic::choose),
    both("Xor", host::binary, logic::truth),
];

/// Makes a node's outputs, now or in the graph.
pub(super) fn import(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let operator = Operator::find(node)?;
    if let Some(made) = operator.fold(network, node)? {
        return Ok(made);
    }
    match operator.import {
        Some(import) => import(network, node),
        None => {
            Err(node.unsupported("it is read only where its inputs are known when the model is imported"))
        }
    }
}

/// Whether the host computes an operator.
pub(super) fn has_host(node: &Node) -> bool {
    is_standard(node.domain()) && Operator::find(node).is_ok_and(|operator| operator.host.is_some())
}

/// Computes all outputs of a node on the host, whatever their size. The node's own values are not looked at.
///
/// # Errors
/// [`Error::Unsupported`] for an operator that the host does not compute, or not for these inputs.
pub(super) fn on_host(node: &Node, inputs: Known) -> Result<Vec<HostTensor>> {
    let host = Operator::find(node)?.host;
    let host = host.ok_or_else(|| node.unsupported("the host does not compute the operator"))?;
    host(node, inputs, &mut Room::default()).map_err(|error| node.place(error))
}

impl Operator {
    /// The outputs where all inputs are known and computing them now is worthwhile.
    fn fold(&self, network: &mut Network, node: &Node) -> Result<Option<Vec<Value>>> {
        let Some(host) = self.host.filter(|_| self.folds != Folds::Never) else { return Ok(None) };
        let Some((inputs, room)) = network.known_inputs(node) else { return Ok(None) };
        room.limit((self.folds == Folds::Small).then_some(MOST));
        let made = host(node, &inputs, room);
        room.limit(None);
        match made {
            Ok(tensors) => {
                let made = tensors.into_iter().map(|tensor| network.constant(node.name(), tensor));
                made.collect::<Result<_>>().map(Some)
            }
            // The device may have what the host has not.
            Err(error) if self.import.is_some() && matches!(error.root(), Error::Unsupported { .. }) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// An input of floats, as arithmetic on a device needs it.
fn floats<'a>(node: &'a Node, index: usize) -> Result<&'a Value> {
    let value = node.input(index)?;
    check_floats(node, value)?;
    Ok(value)
}

/// An input of numbers that arithmetic is done with: floats, or integers of at least eight bits.
fn numbers<'a>(node: &'a Node, index: usize) -> Result<&'a Value> {
    let value = node.input(index)?;
    if !is_whole(value.data_type) {
        check_floats(node, value)?;
    }
    Ok(value)
}

/// Whether elements are integers that arithmetic is done with.
fn is_whole(data_type: DataType) -> bool {
    data_type.is_integer() && data_type.bits() >= 8
}

fn check_floats(node: &Node, value: &Value) -> Result<()> {
    if value.data_type.is_float() {
        return Ok(());
    }
    let why = format!("it is not read for inputs of {} that are given on execution", value.data_type);
    Err(node.unsupported(why))
}

/// The integers of a value that must be known.
fn known_ints(network: &Network, node: &Node, value: &Value, what: &str) -> Result<Vec<i64>> {
    let Some(tensor) = network.demand(value) else {
        return Err(node.unsupported(format!("{what} depend on values that are given on execution")));
    };
    host::ints(tensor).ok_or_else(|| node.invalid(what, tensor.desc(), "integers"))
}

/// The integers of an input or, in older opsets, of an attribute; none where neither is there.
fn input_or_ints(network: &Network, node: &Node, index: usize, name: &str) -> Result<Option<Vec<i64>>> {
    match node.optional(index) {
        Some(value) => known_ints(network, node, value, name).map(Some),
        None => node.ints(name),
    }
}

/// The one number of a value that is known; none where it is not.
fn known_number(network: &Network, node: &Node, value: &Value) -> Result<Option<f64>> {
    match network.known(value) {
        None => Ok(None),
        Some(tensor) => match tensor.to_f64s()[..] {
            [number] => Ok(Some(number)),
            _ => Err(node.invalid("number", tensor.desc(), "one element")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_sorted_and_different() {
        assert!(OPERATORS.is_sorted_by(|a, b| a.name < b.name));
    }
}
