//! The operators that are read: one row each.

use std::sync::LazyLock;

use anydnn_backend::Result;
use rustc_hash::FxHashMap;

use super::super::host::{self, Host};
use super::super::is_standard;
use super::super::known::Import;
use super::super::node::Node;
use super::super::program::{PARTS, nchwc};
use super::{
    activation, attention, blocks, compound, convolution, einsum, elementwise, fused, grouped, heads,
    indexing, integers, logic, movement, normalization, pooling, product, quantization, quantized, recurrent,
    reduction, resize, sampling, scatter, source,
};

/// An operator: what it becomes in the graph, and how it is computed on the host.
pub(super) struct Operator {
    pub(super) name: &'static str,
    /// None for an operator that the host alone computes.
    pub(super) import: Option<Import>,
    pub(super) host: OnHost,
    /// Whether it is computed while importing where all its inputs are known.
    pub(super) folds: Folds,
    /// Whether its results differ from one node to the next.
    pub(super) is_random: bool,
}

/// How an operator is computed where all its inputs are known.
#[derive(Clone, Copy)]
pub(super) enum OnHost {
    /// By the host backend, with the graph that it becomes.
    Graph,
    /// By the importer, which makes known results of known inputs.
    Import,
    /// Integers and truth values by a function that has all their digits, floats as [`OnHost::Graph`] does.
    Integers(Host),
    /// By a function: the graph has no such operation, has it for a part of the cases, or only moves elements, which are of any type.
    All(Host),
}

/// What is computed while importing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Folds {
    /// Anything: elements only move, and go to the device the fewer the better.
    Always,
    /// Results with at most [`MOST`] elements.
    Small,
    /// Nothing: it takes long on the host.
    Never,
}

/// Results of arithmetic with more elements are left to the device.
pub(super) const MOST: usize = 1 << 22;

/// Results that other extents have otherwise are left to the device if they have more elements.
pub(super) const FEW: usize = 4096;

/// An operator with one implementation: the graph that it becomes.
const fn graph(name: &'static str, import: Import) -> Operator {
    Operator { name, import: Some(import), host: OnHost::Graph, folds: Folds::Small, is_random: false }
}

/// An operator that hands on what is known: dimensions, constants, the same elements under other dimensions.
const fn at_import(name: &'static str, import: Import) -> Operator {
    Operator { name, import: Some(import), host: OnHost::Import, folds: Folds::Never, is_random: false }
}

/// An operator that hands on the same elements under other dimensions.
const fn view(name: &'static str, host: Host, import: Import) -> Operator {
    Operator { name, import: Some(import), host: OnHost::All(host), folds: Folds::Never, is_random: false }
}

/// An operator that has integers with all digits on the host.
const fn exact(name: &'static str, host: Host, import: Import) -> Operator {
    Operator {
        name,
        import: Some(import),
        host: OnHost::Integers(host),
        folds: Folds::Small,
        is_random: false,
    }
}

/// An operator that only moves elements: computed while importing whatever its size.
const fn moves(name: &'static str, host: Host, import: Import) -> Operator {
    Operator { name, import: Some(import), host: OnHost::All(host), folds: Folds::Always, is_random: false }
}

/// An operator of which the graph has a part only.
const fn partly(name: &'static str, host: Host, import: Import) -> Operator {
    Operator { name, import: Some(import), host: OnHost::All(host), folds: Folds::Small, is_random: false }
}

/// An operator that the host alone computes.
const fn known(name: &'static str, host: Host) -> Operator {
    Operator { name, import: None, host: OnHost::All(host), folds: Folds::Small, is_random: false }
}

impl Operator {
    /// The same operator, computed while importing whatever its size.
    const fn always(self) -> Self {
        Self { folds: Folds::Always, ..self }
    }

    /// The same operator, computed by every execution anew.
    const fn on_execution(self) -> Self {
        Self { folds: Folds::Never, ..self }
    }

    /// The same operator, whose results differ from one node to the next.
    const fn random(self) -> Self {
        Self { is_random: true, ..self.on_execution() }
    }

    pub(super) fn find(node: &Node) -> Result<&'static Self> {
        let listed =
            |operators: &'static [Self]| operators.iter().find(|operator| operator.name == node.operator());
        let found = match node.domain() {
            domain if is_standard(domain) => BY_NAME.get(node.operator()).copied(),
            Some("ai.onnx.ml") if node.operator() == "ZipMap" => {
                let why = "sequences of maps are not read: export the model with tensors of probabilities, as by the option zipmap=False";
                return Err(node.unsupported(why));
            }
            Some("ai.onnx.ml") => listed(LEARNING),
            Some("com.microsoft") => listed(ONNX_RUNTIMES),
            Some(PARTS) => listed(PARTS_OF_OPERATORS),
            Some(nchwc::DOMAIN) => listed(IN_BLOCKS),
            domain => {
                let domain = domain.unwrap_or("");
                return Err(node.unsupported(format!("operators of the domain {domain:?} are not read")));
            }
        };
        let found = found.or_else(|| activation::is_plain(node).then_some(&FUNCTION));
        found.ok_or_else(|| node.unsupported("the operator is not read"))
    }
}

/// The standard's operators by name, the first of each.
static BY_NAME: LazyLock<FxHashMap<&'static str, &'static Operator>> =
    LazyLock::new(|| OPERATORS.iter().rev().map(|operator| (operator.name, operator)).collect());

/// What the table of functions of one element names, which is not listed below.
const FUNCTION: Operator = graph("", activation::plain);

const OPERATORS: &[Operator] = &[
    exact("Abs", host::unary, activation::plain),
    exact("Add", host::binary, elementwise::binary),
    partly("AffineGrid", host::affine_grid, product::affine_grid),
    exact("And", host::binary, logic::truth),
    partly("ArgMax", host::arg, compound::extreme_index),
    partly("ArgMin", host::arg, compound::extreme_index),
    partly("Attention", host::attention, attention::attention).on_execution(),
    partly("AveragePool", host::average, pooling::average).on_execution(),
    graph("BatchNormalization", normalization::batch).on_execution(),
    known("Bernoulli", host::bernoulli).random(),
    known("BitCast", host::bit_cast),
    known("BitShift", host::binary),
    known("BitwiseAnd", host::binary),
    known("BitwiseNot", host::unary),
    known("BitwiseOr", host::binary),
    known("BitwiseXor", host::binary),
    known("BlackmanWindow", host::window),
    partly("Cast", host::cast, elementwise::cast),
    partly("CastLike", host::cast, elementwise::cast),
    known("CausalConvWithState", host::causal_convolution),
    exact("Ceil", host::unary, activation::plain),
    graph("Celu", activation::celu),
    known("CenterCropPad", host::center).always(),
    exact("Clip", host::clip, activation::clip),
    partly("Col2Im", host::column_to_image, convolution::columns_to_image),
    known("Compress", host::compress).always(),
    moves("Concat", host::concat, movement::concat),
    at_import("Constant", source::constant),
    known("ConstantOfShape", host::constant_of_shape).always(),
    graph("Conv", convolution::forward).on_execution(),
    partly("ConvInteger", host::convolution_integer, quantized::convolution_integer).on_execution(),
    graph("ConvTranspose", convolution::transposed).on_execution(),
    known("CumProd", host::cumulative),
    partly("CumSum", host::cumulative, compound::running_sum),
    known("DFT", host::fourier),
    known("DeformConv", host::deform),
    moves("DepthToSpace", host::depth_to_space, indexing::depth_to_space),
    partly("DequantizeLinear", host::dequantize, quantization::dequantize).on_execution(),
    known("Det", host::determinant),
    exact("Div", host::binary, elementwise::binary),
    partly("Dropout", host::dropout, source::dropout).random(),
    graph("DynamicQuantizeLinear", quantized::dynamic).on_execution(),
    partly("Einsum", host::einsum, einsum::einsum),
    graph("Elu", activation::sloped),
    exact("Equal", host::binary, logic::truth),
    moves("Expand", host::expand, indexing::expand),
    known("EyeLike", host::eye),
    at_import("Flatten", movement::flatten),
    exact("Floor", host::unary, activation::plain),
    partly("GRU", host::gru, recurrent::layer),
    moves("Gather", host::gather, indexing::gather),
    moves("GatherElements", host::gather_elements, indexing::gather_elements),
    moves("GatherND", host::gather_nd, indexing::gather_lists),
    graph("Gelu", activation::gelu),
    graph("Gemm", product::gemm).on_execution(),
    graph("GlobalAveragePool", pooling::global).on_execution(),
    partly("GlobalLpPool", host::global_lp, pooling::global_norm),
    graph("GlobalMaxPool", pooling::global).on_execution(),
    exact("Greater", host::binary, logic::truth),
    exact("GreaterOrEqual", host::binary, logic::truth),
    partly("GridSample", host::grid_sample, sampling::grid_sample).on_execution(),
    graph("GroupNormalization", normalization::group).on_execution(),
    known("HammingWindow", host::window),
    known("HannWindow", host::window),
    graph("HardSigmoid", activation::hard_sigmoid),
    partly("Hardmax", host::hardmax, compound::hardmax),
    view("Identity", host::identity, source::identity),
    graph("InstanceNormalization", normalization::instance).on_execution(),
    graph("IsInf", logic::is_infinite),
    graph("IsNaN", logic::is_nan),
    partly("LRN", host::local_response, normalization::local_response),
    partly("LSTM", host::lstm, recurrent::layer),
    graph("LayerNormalization", normalization::layer).on_execution(),
    graph("LeakyRelu", activation::sloped),
    exact("Less", host::binary, logic::truth),
    exact("LessOrEqual", host::binary, logic::truth),
    known("LinearAttention", host::linear_attention),
    graph("LogSoftmax", normalization::softmax).on_execution(),
    partly("LpNormalization", host::lp, normalization::by_norm),
    partly("LpPool", host::lp_pool, pooling::by_norm),
    exact("MatMul", host::matmul, product::matmul).on_execution(),
    partly("MatMulInteger", host::matmul_integer, quantized::matmul_integer).on_execution(),
    exact("Max", host::variadic, elementwise::variadic),
    partly("MaxPool", host::max_pool, pooling::max).on_execution(),
    known("MaxUnpool", host::max_unpool),
    graph("Mean", elementwise::variadic),
    partly("MeanVarianceNormalization", host::mean_variance, normalization::mean_variance),
    known("MelWeightMatrix", host::mel),
    exact("Min", host::variadic, elementwise::variadic),
    exact("Mod", host::binary, elementwise::remainder),
    exact("Mul", host::binary, elementwise::binary),
    known("Multinomial", host::multinomial).random(),
    exact("Neg", host::unary, activation::negated),
    known("NegativeLogLikelihoodLoss", host::negative_log_likelihood),
    known("NonMaxSuppression", host::non_max_suppression),
    known("NonZero", host::non_zero),
    exact("Not", host::unary, logic::not),
    partly("OneHot", host::one_hot, compound::one_hot),
    exact("Or", host::binary, logic::truth),
    exact("PRelu", host::binary, activation::prelu),
    moves("Pad", host::pad, indexing::pad),
    exact("Pow", host::binary, elementwise::power),
    partly("QLinearConv", host::quantized_convolution, quantized::convolution).on_execution(),
    partly("QLinearMatMul", host::quantized_matmul, quantized::matmul).on_execution(),
    partly("QuantizeLinear", host::quantize, quantization::quantize).on_execution(),
    partly("RMSNormalization", host::rms, fused::rms).on_execution(),
    partly("RNN", host::rnn, recurrent::layer),
    known("RandomNormal", host::random).random(),
    known("RandomNormalLike", host::random).random(),
    known("RandomUniform", host::random).random(),
    known("RandomUniformLike", host::random).random(),
    known("Range", host::range),
    exact("ReduceL1", host::reduce, reduction::reduce),
    exact("ReduceL2", host::reduce, reduction::reduce),
    exact("ReduceLogSum", host::reduce, reduction::reduce),
    partly("ReduceLogSumExp", host::reduce, reduction::log_sum_exp),
    exact("ReduceMax", host::reduce, reduction::reduce),
    exact("ReduceMean", host::reduce, reduction::reduce),
    exact("ReduceMin", host::reduce, reduction::reduce),
    exact("ReduceProd", host::reduce, reduction::reduce),
    exact("ReduceSum", host::reduce, reduction::reduce),
    exact("ReduceSumSquare", host::reduce, reduction::reduce),
    exact("Relu", host::unary, activation::plain),
    view("Reshape", host::reshape, movement::reshape),
    partly("Resize", host::resize, resize::resize).on_execution(),
    moves("ReverseSequence", host::reverse_sequence, compound::reverse_sequence),
    known("RoiAlign", host::roi_align),
    partly("RotaryEmbedding", host::rotary_embedding, attention::rotary).on_execution(),
    exact("Round", host::unary, activation::plain),
    known("STFT", host::short_time_fourier),
    moves("Scatter", host::scatter_elements, scatter::scatter),
    moves("ScatterElements", host::scatter_elements, scatter::scatter),
    moves("ScatterND", host::scatter_nd, scatter::scatter),
    graph("Selu", activation::selu),
    at_import("Shape", source::shape),
    partly("Shrink", host::unary, activation::shrink),
    exact("Sign", host::unary, activation::plain),
    graph("SimplifiedLayerNormalization", fused::rms).on_execution(),
    at_import("Size", source::size),
    moves("Slice", host::slice, indexing::slice),
    graph("Softmax", normalization::softmax).on_execution(),
    known("SoftmaxCrossEntropyLoss", host::cross_entropy),
    graph("Softplus", activation::softplus),
    graph("Softsign", activation::softsign),
    moves("SpaceToDepth", host::space_to_depth, indexing::space_to_depth),
    moves("Split", host::split, indexing::split),
    view("Squeeze", host::squeeze, movement::squeeze),
    exact("Sub", host::binary, elementwise::binary),
    exact("Sum", host::variadic, elementwise::variadic),
    graph("Swish", activation::swish),
    moves("TensorScatter", host::tensor_scatter, scatter::into_cache),
    known("TfIdfVectorizer", host::term_frequencies),
    partly("ThresholdedRelu", host::unary, activation::thresholded),
    moves("Tile", host::tile, indexing::tile),
    known("TopK", host::top_k),
    moves("Transpose", host::transpose, movement::transpose),
    moves("Trilu", host::triangle, compound::triangle),
    known("Unique", host::unique),
    view("Unsqueeze", host::unsqueeze, movement::unsqueeze),
    partly("Upsample", host::resize, resize::resize).on_execution(),
    partly("Where", host::choose, logic::choose),
    exact("Xor", host::binary, logic::truth),
];

/// Those of classical machine learning.
const LEARNING: &[Operator] = &[
    known("ArrayFeatureExtractor", host::features),
    known("Binarizer", host::binarized),
    known("Imputer", host::imputer),
    known("LabelEncoder", host::label_encoder),
    known("LinearClassifier", host::linear_classifier),
    known("LinearRegressor", host::linear_regressor),
    known("Normalizer", host::normalizer),
    known("Scaler", host::scaler),
    known("TreeEnsemble", host::tree_ensemble),
    known("TreeEnsembleClassifier", host::tree_classifier),
    known("TreeEnsembleRegressor", host::tree_regressor),
];

/// Those of ONNX Runtime's own domain.
const ONNX_RUNTIMES: &[Operator] = &[
    graph("Attention", heads::packed).on_execution(),
    graph("BiasAdd", fused::sum_of_three),
    graph("BiasGelu", fused::gelu_of_sum),
    graph("BiasSplitGelu", fused::bias_split_gelu),
    partly("DequantizeLinear", host::dequantize, quantization::dequantize).on_execution(),
    graph("DynamicQuantizeLSTM", recurrent::quantized).on_execution(),
    graph("DynamicQuantizeMatMul", quantized::matmul_of_floats).on_execution(),
    graph("EmbedLayerNormalization", fused::embed).on_execution(),
    graph("FastGelu", fused::gelu_of_sum),
    graph("FusedConv", fused::convolution).on_execution(),
    graph("FusedGemm", fused::gemm).on_execution(),
    graph("FusedMatMul", fused::matmul).on_execution(),
    graph("FusedMatMulActivation", fused::matmul).on_execution(),
    graph("GatherBlockQuantized", blocks::gather).on_execution(),
    moves("GatherND", host::gather_nd, indexing::gather_lists),
    graph("Gelu", activation::gelu),
    graph("GemmFastGelu", fused::gemm_fast_gelu).on_execution(),
    graph("GroupNorm", fused::group_norm).on_execution(),
    graph("GroupQueryAttention", grouped::attention).on_execution(),
    known("Inverse", host::inverse),
    graph("MatMulIntegerToFloat", quantized::matmul_to_floats).on_execution(),
    graph("MatMulNBits", blocks::matmul).on_execution(),
    graph("MultiHeadAttention", heads::apart).on_execution(),
    graph("NhwcFusedConv", fused::convolution_of_last).on_execution(),
    graph("NhwcMaxPool", integers::nhwc_max).on_execution(),
    graph("QAttention", heads::quantized).on_execution(),
    graph("QGemm", integers::gemm).on_execution(),
    graph("QLinearAdd", integers::pair),
    graph("QLinearAveragePool", integers::average).on_execution(),
    graph("QLinearConcat", integers::concat),
    graph("QLinearConv", quantized::convolution).on_execution(),
    graph("QLinearGlobalAveragePool", integers::global_average).on_execution(),
    graph("QLinearLeakyRelu", integers::function),
    graph("QLinearMul", integers::pair),
    graph("QLinearReduceMean", integers::mean).on_execution(),
    graph("QLinearSigmoid", integers::function),
    graph("QLinearSoftmax", integers::softmax).on_execution(),
    graph("QLinearWhere", integers::choose),
    partly("QuantizeLinear", host::quantize, quantization::quantize).on_execution(),
    graph("QuickGelu", fused::quick_gelu),
    graph("RotaryEmbedding", heads::rotary).on_execution(),
    graph("SkipLayerNormalization", fused::skip_norm).on_execution(),
    graph("SkipSimplifiedLayerNormalization", fused::skip_norm).on_execution(),
    moves("Trilu", host::triangle, compound::triangle),
];

/// Those of images whose channels lie in blocks; the program has made the other ones standard.
const IN_BLOCKS: &[Operator] = &[
    graph("Conv", super::nchwc::convolution).on_execution(),
    graph("ReorderInput", super::nchwc::to_blocks).on_execution(),
    graph("ReorderOutput", super::nchwc::from_blocks).on_execution(),
];

const PARTS_OF_OPERATORS: &[Operator] =
    &[known("FlexScores", host::flex_scores), known("FlexValues", host::flex_values)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_sorted_and_different() {
        for operators in [OPERATORS, LEARNING, ONNX_RUNTIMES, IN_BLOCKS] {
            assert!(operators.is_sorted_by(|a, b| a.name < b.name));
        }
    }
}
