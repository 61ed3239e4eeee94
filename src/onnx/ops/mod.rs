//! The operators that are read: one entry each.

mod activation;
mod compound;
mod convolution;
mod einsum;
mod elementwise;
mod folding;
mod gelu;
mod hard;
mod indexing;
mod logic;
mod moments;
mod movement;
mod normalization;
mod pooling;
mod product;
mod quantization;
mod quantized;
mod recurrent;
mod reduction;
mod resize;
mod scales;
mod scatter;
mod source;

use anydnn_backend::{DataType, Error, Result};

use super::host::{self, Call, Host, Known};
use super::is_standard;
use super::network::{Network, Room, Value};
use super::node::Node;
use super::program::PARTS;
use crate::model::HostTensor;

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

/// An operator that the device computes unless its inputs are known when the model is imported.
const fn both(name: &'static str, host: Host, import: Import) -> Operator {
    Operator { name, host: Some(host), import: Some(import), folds: Folds::Small }
}

/// An operator that the host alone computes.
const fn known(name: &'static str, host: Host) -> Operator {
    Operator { name, host: Some(host), import: None, folds: Folds::Small }
}

/// An operator that the host computes where the device cannot.
const fn rather(name: &'static str, import: Import, host: Host) -> Operator {
    Operator { name, host: Some(host), import: Some(import), folds: Folds::Never }
}

impl Operator {
    /// The same operator, computed while importing whatever its size.
    const fn moves(self) -> Self {
        Self { folds: Folds::Always, ..self }
    }

    /// The same operator, computed by every execution anew.
    const fn on_execution(self) -> Self {
        Self { folds: Folds::Never, ..self }
    }

    fn find(node: &Node) -> Result<&'static Self> {
        let operators = match node.domain() {
            domain if is_standard(domain) => OPERATORS,
            Some("ai.onnx.ml") => LEARNING,
            Some(PARTS) => PARTS_OF_OPERATORS,
            domain => {
                let domain = domain.unwrap_or("");
                return Err(node.unsupported(format!("operators of the domain {domain:?} are not read")));
            }
        };
        let found = operators.iter().find(|operator| operator.name == node.operator());
        let found = found.or(activation::is_plain(node).then_some(&FUNCTION));
        found.ok_or_else(|| node.unsupported("the operator is not read"))
    }
}

/// What the table of functions of one element names, which is not listed below.
const FUNCTION: Operator = both("", host::unary, activation::plain);

const OPERATORS: &[Operator] = &[
    both("Abs", host::unary, activation::plain),
    both("Add", host::binary, elementwise::binary),
    known("AffineGrid", host::affine_grid),
    both("And", host::binary, logic::truth),
    both("ArgMax", host::arg, compound::extreme_index),
    both("ArgMin", host::arg, compound::extreme_index),
    known("Attention", host::attention),
    rather("AveragePool", pooling::average, host::average),
    rather("BatchNormalization", normalization::batch, host::batch),
    known("Bernoulli", host::bernoulli).on_execution(),
    known("BitCast", host::bit_cast),
    known("BitShift", host::binary),
    known("BitwiseAnd", host::binary),
    known("BitwiseNot", host::unary),
    known("BitwiseOr", host::binary),
    known("BitwiseXor", host::binary),
    known("BlackmanWindow", host::window),
    both("Cast", host::cast, elementwise::cast),
    known("CastLike", host::cast),
    known("CausalConvWithState", host::causal_convolution),
    both("Celu", host::unary, activation::celu),
    known("CenterCropPad", host::center).moves(),
    both("Clip", host::clip, activation::clip),
    known("Col2Im", host::column_to_image),
    known("Compress", host::compress).moves(),
    both("Concat", host::concat, movement::concat).moves(),
    rather("Constant", source::constant, host::constant),
    known("ConstantOfShape", host::constant_of_shape).moves(),
    rather("Conv", convolution::forward, host::convolution),
    rather("ConvInteger", quantized::convolution_integer, host::convolution_integer),
    rather("ConvTranspose", convolution::transposed, host::transposed),
    known("CumProd", host::cumulative),
    both("CumSum", host::cumulative, compound::running_sum),
    known("DFT", host::fourier),
    known("DeformConv", host::deform),
    both("DepthToSpace", host::depth_to_space, indexing::depth_to_space).moves(),
    rather("DequantizeLinear", quantization::dequantize, host::dequantize),
    known("Det", host::determinant),
    both("Div", host::binary, elementwise::binary),
    rather("Dropout", source::dropout, host::dropout),
    rather("DynamicQuantizeLinear", quantized::dynamic, host::dynamic_quantize),
    both("Einsum", host::einsum, einsum::einsum),
    both("Elu", host::unary, activation::sloped),
    both("Equal", host::binary, logic::truth),
    both("Expand", host::expand, indexing::expand).moves(),
    known("EyeLike", host::eye),
    rather("Flatten", movement::flatten, host::flatten),
    both("GRU", host::gru, recurrent::layer),
    both("Gather", host::gather, indexing::gather).moves(),
    both("GatherElements", host::gather_elements, indexing::gather_elements).moves(),
    both("GatherND", host::gather_nd, indexing::gather_lists).moves(),
    both("Gelu", host::unary, activation::gelu),
    rather("Gemm", product::gemm, host::gemm),
    rather("GlobalAveragePool", pooling::global, host::global),
    known("GlobalLpPool", host::global),
    rather("GlobalMaxPool", pooling::global, host::global),
    both("Greater", host::binary, logic::truth),
    both("GreaterOrEqual", host::binary, logic::truth),
    known("GridSample", host::grid_sample),
    rather("GroupNormalization", normalization::group, host::group),
    known("HammingWindow", host::window),
    known("HannWindow", host::window),
    both("HardSigmoid", host::unary, activation::hard_sigmoid),
    known("Hardmax", host::softmax),
    rather("Identity", source::identity, host::identity),
    rather("InstanceNormalization", normalization::instance, host::instance),
    both("IsInf", host::unary, logic::is_infinite),
    both("IsNaN", host::unary, logic::is_nan),
    known("LRN", host::local_response),
    both("LSTM", host::lstm, recurrent::layer),
    rather("LayerNormalization", normalization::layer, host::layer),
    both("LeakyRelu", host::unary, activation::sloped),
    both("Less", host::binary, logic::truth),
    both("LessOrEqual", host::binary, logic::truth),
    known("LinearAttention", host::linear_attention),
    rather("LogSoftmax", normalization::softmax, host::softmax),
    known("LpNormalization", host::lp),
    known("LpPool", host::lp_pool),
    rather("MatMul", product::matmul, host::matmul),
    rather("MatMulInteger", quantized::matmul_integer, host::matmul_integer),
    both("Max", host::variadic, elementwise::variadic),
    rather("MaxPool", pooling::max, host::max_pool),
    known("MaxUnpool", host::max_unpool),
    both("Mean", host::variadic, elementwise::variadic),
    known("MeanVarianceNormalization", host::mean_variance),
    known("MelWeightMatrix", host::mel),
    both("Min", host::variadic, elementwise::variadic),
    both("Mod", host::binary, elementwise::remainder),
    both("Mul", host::binary, elementwise::binary),
    known("Multinomial", host::multinomial).on_execution(),
    both("Neg", host::unary, activation::negated),
    known("NegativeLogLikelihoodLoss", host::negative_log_likelihood),
    known("NonMaxSuppression", host::non_max_suppression),
    known("NonZero", host::non_zero),
    both("Not", host::unary, logic::not),
    both("OneHot", host::one_hot, compound::one_hot),
    both("Or", host::binary, logic::truth),
    both("PRelu", host::binary, activation::prelu),
    both("Pad", host::pad, indexing::pad).moves(),
    both("Pow", host::binary, elementwise::power),
    rather("QLinearConv", quantized::convolution, host::quantized_convolution),
    rather("QLinearMatMul", quantized::matmul, host::quantized_matmul),
    rather("QuantizeLinear", quantization::quantize, host::quantize),
    known("RMSNormalization", host::rms),
    both("RNN", host::rnn, recurrent::layer),
    known("RandomNormal", host::random).on_execution(),
    known("RandomNormalLike", host::random).on_execution(),
    known("RandomUniform", host::random).on_execution(),
    known("RandomUniformLike", host::random).on_execution(),
    known("Range", host::range),
    both("ReduceL1", host::reduce, reduction::reduce),
    both("ReduceL2", host::reduce, reduction::reduce),
    both("ReduceLogSum", host::reduce, reduction::reduce),
    known("ReduceLogSumExp", host::reduce),
    both("ReduceMax", host::reduce, reduction::reduce),
    both("ReduceMean", host::reduce, reduction::reduce),
    both("ReduceMin", host::reduce, reduction::reduce),
    both("ReduceProd", host::reduce, reduction::reduce),
    both("ReduceSum", host::reduce, reduction::reduce),
    both("ReduceSumSquare", host::reduce, reduction::reduce),
    rather("Reshape", movement::reshape, host::reshape),
    rather("Resize", resize::resize, host::resize),
    known("ReverseSequence", host::reverse_sequence).moves(),
    known("RoiAlign", host::roi_align),
    known("RotaryEmbedding", host::rotary_embedding),
    known("STFT", host::short_time_fourier),
    both("Scatter", host::scatter_elements, scatter::scatter).moves(),
    both("ScatterElements", host::scatter_elements, scatter::scatter).moves(),
    both("ScatterND", host::scatter_nd, scatter::scatter).moves(),
    both("Selu", host::unary, activation::selu),
    rather("Shape", source::shape, host::shape),
    known("Shrink", host::unary),
    rather("Size", source::size, host::size),
    both("Slice", host::slice, indexing::slice).moves(),
    rather("Softmax", normalization::softmax, host::softmax),
    known("SoftmaxCrossEntropyLoss", host::cross_entropy),
    both("Softplus", host::unary, activation::softplus),
    both("Softsign", host::unary, activation::softsign),
    both("SpaceToDepth", host::space_to_depth, indexing::space_to_depth).moves(),
    both("Split", host::split, indexing::split).moves(),
    rather("Squeeze", movement::squeeze, host::squeeze),
    both("Sub", host::binary, elementwise::binary),
    both("Sum", host::variadic, elementwise::variadic),
    both("Swish", host::unary, activation::swish),
    known("TensorScatter", host::tensor_scatter).moves(),
    known("TfIdfVectorizer", host::term_frequencies),
    known("ThresholdedRelu", host::unary),
    both("Tile", host::tile, indexing::tile).moves(),
    known("TopK", host::top_k),
    both("Transpose", host::transpose, movement::transpose).moves(),
    both("Trilu", host::triangle, compound::triangle).moves(),
    known("Unique", host::unique),
    rather("Unsqueeze", movement::unsqueeze, host::unsqueeze),
    rather("Upsample", resize::resize, host::resize),
    both("Where", host::choose, logic::choose),
    both("Xor", host::binary, logic::truth),
];

/// Those of classical machine learning.
const LEARNING: &[Operator] = &[
    known("ArrayFeatureExtractor", host::features),
    known("Binarizer", host::binarized),
    known("TreeEnsemble", host::tree_ensemble),
];

const PARTS_OF_OPERATORS: &[Operator] =
    &[known("FlexScores", host::flex_scores), known("FlexValues", host::flex_values)];

/// Makes a node's outputs, now or in the graph.
pub(super) fn import(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let operator = Operator::find(node)?;
    if let Some(made) = operator.fold(network, node)? {
        return Ok(made);
    }
    // What has such elements stays on the host.
    if let Some(value) = node.inputs().iter().flatten().find(|value| value.data_type.is_host_only()) {
        return Err(node.unsupported(format!("no device computes with {}", value.data_type)));
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
    Operator::find(node).is_ok_and(|operator| operator.host.is_some())
}

/// Computes all outputs of a node on the host, whatever their size. The node's own values are not looked at.
///
/// # Errors
/// [`Error::Unsupported`] for an operator that the host does not compute, or not for these inputs.
pub(super) fn on_host(node: &Node, inputs: Known) -> Result<Vec<HostTensor>> {
    let host = Operator::find(node)?.host;
    let host = host.ok_or_else(|| node.unsupported("the host does not compute the operator"))?;
    host(&mut Call::new(node, inputs, &mut Room::default())).map_err(|error| node.place(error))
}

impl Operator {
    /// The outputs where all inputs are known and computing them now is worthwhile.
    fn fold(&self, network: &mut Network, node: &Node) -> Result<Option<Vec<Value>>> {
        let Some(host) = self.host.filter(|_| self.folds != Folds::Never) else { return Ok(None) };
        let Some((inputs, room)) = network.known_inputs(node) else { return Ok(None) };
        room.limit((self.folds == Folds::Small).then_some(MOST));
        let made = host(&mut Call::new(node, &inputs, room));
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
