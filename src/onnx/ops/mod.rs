//! The operators that are read: one entry each.

mod activation;
mod convolution;
mod elementwise;
mod movement;
mod normalization;
mod pooling;
mod product;
mod quantization;
mod reduction;
mod resize;
mod source;
mod window;

use anydnn_backend::Result;

use super::fold::{self, Fold};
use super::network::{Network, Value};
use super::node::Node;

pub(super) use elementwise::cast_type;
pub(super) use movement::transpose_order;

/// Makes a node's outputs.
type Import = fn(&mut Network, &Node) -> Result<Vec<Value>>;

/// An operator: how it is computed while importing, where all its inputs are known, and what it becomes in the graph.
struct Operator {
    name: &'static str,
    fold: Option<Fold>,
    import: Option<Import>,
}

const fn op(name: &'static str, import: Import) -> Operator {
    Operator { name, fold: None, import: Some(import) }
}

const fn both(name: &'static str, fold: Fold, import: Import) -> Operator {
    Operator { name, fold: Some(fold), import: Some(import) }
}

const fn known(name: &'static str, fold: Fold) -> Operator {
    Operator { name, fold: Some(fold), import: None }
}

const OPERATORS: &[Operator] = &[
    both("Abs", fold::unary, activation::plain),
    both("Add", fold::binary, elementwise::binary),
    known("And", fold::binary),
    op("AveragePool", pooling::average),
    op("BatchNormalization", normalization::batch),
    both("Cast", fold::cast, elementwise::cast),
    known("Ceil", fold::unary),
    op("Celu", activation::celu),
    op("Clip", activation::clip),
    both("Concat", fold::concat, movement::concat),
    op("Constant", source::constant),
    known("ConstantOfShape", fold::constant_of_shape),
    op("Conv", convolution::forward),
    op("ConvTranspose", convolution::transposed),
    op("DequantizeLinear", quantization::dequantize),
    both("Div", fold::binary, elementwise::binary),
    op("Dropout", source::dropout),
    op("Elu", activation::sloped),
    known("Equal", fold::binary),
    op("Exp", activation::plain),
    known("Expand", fold::expand),
    op("Flatten", movement::flatten),
    known("Floor", fold::unary),
    known("Gather", fold::gather),
    op("Gelu", activation::gelu),
    op("Gemm", product::gemm),
    op("GlobalAveragePool", pooling::global),
    op("GlobalMaxPool", pooling::global),
    known("Greater", fold::binary),
    known("GreaterOrEqual", fold::binary),
    op("GroupNormalization", normalization::group),
    op("HardSigmoid", activation::hard_sigmoid),
    op("HardSwish", activation::plain),
    op("Identity", source::identity),
    op("InstanceNormalization", normalization::instance),
    op("LayerNormalization", normalization::layer),
    op("LeakyRelu", activation::sloped),
    known("Less", fold::binary),
    known("LessOrEqual", fold::binary),
    op("Log", activation::plain),
    op("LogSoftmax", normalization::softmax),
    op("MatMul", product::matmul),
    both("Max", fold::binary, elementwise::variadic),
    op("MaxPool", pooling::max),
    op("Mean", elementwise::variadic),
    both("Min", fold::binary, elementwise::variadic),
    op("Mish", activation::plain),
    known("Mod", fold::binary),
    both("Mul", fold::binary, elementwise::binary),
    both("Neg", fold::unary, activation::negated),
    known("Not", fold::unary),
    known("Or", fold::binary),
    op("PRelu", activation::prelu),
    both("Pow", fold::binary, elementwise::power),
    op("QuantizeLinear", quantization::quantize),
    known("Range", fold::range),
    both("Reciprocal", fold::unary, activation::plain),
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
    both("Round", fold::unary, activation::plain),
    op("Selu", activation::selu),
    op("Shape", source::shape),
    op("Sigmoid", activation::plain),
    op("Size", source::size),
    known("Slice", fold::slice),
    op("Softmax", normalization::softmax),
    op("Softplus", activation::softplus),
    op("Softsign", activation::softsign),
    both("Sqrt", fold::unary, activation::plain),
    op("Squeeze", movement::squeeze),
    both("Sub", fold::binary, elementwise::binary),
    op("Sum", elementwise::variadic),
    op("Swish", activation::swish),
    op("Tanh", activation::plain),
    both("Transpose", fold::transpose, movement::transpose),
    op("Unsqueeze", movement::unsqueeze),
    op("Upsample", resize::resize),
    known("Where", fold::choose),
    known("Xor", fold::binary),
];

/// Makes a node's outputs, now or in the graph.
pub(super) fn import(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let Some(operator) = OPERATORS.iter().find(|operator| operator.name == node.operator()) else {
        return Err(node.unsupported("the operator is not read"));
    };
    if let Some(fold) = operator.fold
        && let Some((inputs, room)) = network.known_inputs(node)
        && let Some(tensor) = fold(node, &inputs, room)?
    {
        return Ok(vec![network.constant(node.name(), tensor)?]);
    }
    match operator.import {
        Some(import) => import(network, node),
        None => {
            Err(node.unsupported("it is read only where its inputs are known when the model is imported"))
        }
    }
}

/// An input of floats, as arithmetic on a device needs it.
fn floats<'a>(node: &'a Node, index: usize) -> Result<&'a Value> {
    let value = node.input(index)?;
    check_floats(node, value)?;
    Ok(value)
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
    let Some(tensor) = network.known(value) else {
        return Err(node.unsupported(format!("{what} depend on values that are given on execution")));
    };
    fold::ints(tensor).ok_or_else(|| node.invalid(what, tensor.desc(), "integers"))
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
