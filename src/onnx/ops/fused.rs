//! Operators of ONNX Runtime's own, after the reference of its domain `com.microsoft`: several of the standard ones in one.

use anydnn_backend::{DataType, Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::activation::scaled;
use super::convolution::{convolved_by, groups};
use super::indexing::part;
use super::integers::turned;
use super::{floats, product};
use crate::graph::{Attrs, OpKind};
use crate::model::HostTensor;

/// `BiasGelu` and `FastGelu`: of the sum with a bias, the latter by its approximation.
pub(super) fn gelu_of_sum(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = sum(network, node, &[Some(floats(node, 0)?), node.optional(1)])?;
    let mode = if node.operator() == "FastGelu" { "gelu_tanh" } else { "gelu_erf" };
    Ok(vec![network.op(node, OpKind::GELU, &[&src], Attrs::new().with("mode", mode))?])
}

/// `QuickGelu`: x times the logistic function of alpha x.
pub(super) fn quick_gelu(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let steep = scaled(network, node, src, f64::from(node.float("alpha", 1.702)?))?;
    let gate = network.op(node, OpKind::Sigmoid, &[&steep], Attrs::new())?;
    Ok(vec![network.op(node, OpKind::Multiply, &[src, &gate], Attrs::new())?])
}

/// `BiasAdd`: the sum of three.
pub(super) fn sum_of_three(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let inputs = [0, 1, 2].map(|index| floats(node, index));
    let [src, bias, skip] = inputs;
    Ok(vec![sum(network, node, &[Some(src?), Some(bias?), Some(skip?)])?])
}

/// `FusedMatMul`: alpha times the product of matrices, each transposed or not.
pub(super) fn matmul(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let a = batches_in_front(network, node, floats(node, 0)?, "transBatchA")?;
    let b = batches_in_front(network, node, floats(node, 1)?, "transBatchB")?;
    // A vector has nothing to transpose.
    let attrs = Attrs::new()
        .with("transpose_a", node.flag("transA", false)? && a.rank() > 1)
        .with("transpose_b", node.flag("transB", false)? && b.rank() > 1);
    let product = network.op(node, OpKind::MatMul, &[&a, &b], attrs)?;
    let product = scaled(network, node, &product, f64::from(node.float("alpha", 1.0)?))?;
    // That of `FusedMatMulActivation`.
    let numbers = activation_numbers(node)?;
    Ok(vec![activated(network, node, &product, &numbers)?])
}

/// An operand whose rows come first, in front of its batches, with the batches in front.
fn batches_in_front(network: &mut Network, node: &Node, value: &Value, flag: &str) -> Result<Value> {
    let rank = value.rank() as i64;
    if !node.flag(flag, false)? || rank < 3 {
        return Ok(value.clone());
    }
    let order: Vec<i64> = (1..rank - 1).chain([0, rank - 1]).collect();
    network.op(node, OpKind::StaticTranspose, &[value], Attrs::new().with("order", order))
}

/// `GemmFastGelu`: a product, a bias, and the approximation of the Gaussian unit.
pub(super) fn gemm_fast_gelu(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let product = network.op(node, OpKind::MatMul, &[floats(node, 0)?, floats(node, 1)?], Attrs::new())?;
    let src = sum(network, node, &[Some(&product), node.optional(2)])?;
    Ok(vec![network.op(node, OpKind::GELU, &[&src], Attrs::new().with("mode", "gelu_tanh"))?])
}

/// `BiasSplitGelu`: of the sum with a bias, the first half of the channels times the Gaussian unit of the second.
pub(super) fn bias_split_gelu(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = sum(network, node, &[Some(floats(node, 0)?), Some(floats(node, 1)?)])?;
    let axis = src.rank().saturating_sub(1);
    let Some(&width) = src.dims.last().filter(|width| width.is_multiple_of(2)) else {
        return Err(node.invalid("source", &src.dims, "an even last dimension"));
    };
    let half = part(network, node, &src, axis, 0, width / 2)?;
    let gate = part(network, node, &src, axis, width / 2, width / 2)?;
    let gate = network.op(node, OpKind::GELU, &[&gate], Attrs::new().with("mode", "gelu_erf"))?;
    Ok(vec![network.op(node, OpKind::Multiply, &[&half, &gate], Attrs::new())?])
}

/// `GroupNorm`: by the statistics of groups of channels, which are the last dimension unless the node says otherwise, and the Swish of the result
/// where it asks for that.
pub(super) fn group_norm(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (src, scale, shift) = (floats(node, 0)?, floats(node, 1)?, floats(node, 2)?);
    let rank = src.rank() as i64;
    let is_last = node.flag("channels_last", true)?;
    let order = |network: &mut Network, value: &Value, order: Vec<i64>| -> Result<Value> {
        if !is_last {
            return Ok(value.clone());
        }
        network.op(node, OpKind::StaticTranspose, &[value], Attrs::new().with("order", order))
    };
    if rank < 3 {
        return Err(node.invalid("source", &src.dims, "at least three dimensions"));
    }
    let inner = order(network, src, [0, rank - 1].into_iter().chain(1..rank - 1).collect())?;
    let attrs = Attrs::new()
        .with("groups", node.int("groups", 1)?)
        .with("epsilon", node.float("epsilon", 1e-5)?)
        .with("keep_stats", false)
        .with("data_format", "NCX");
    let made = network.op(node, OpKind::GroupNorm, &[&inner, scale, shift], attrs)?;
    let made = order(network, &made, std::iter::once(0).chain(2..rank).chain([1]).collect())?;
    if node.int("activation", 0)? == 0 {
        return Ok(vec![made]);
    }
    let gate = network.op(node, OpKind::Sigmoid, &[&made], Attrs::new())?;
    Ok(vec![network.op(node, OpKind::Multiply, &[&made, &gate], Attrs::new())?])
}

/// `FusedGemm`: a `Gemm` and a function of its result.
pub(super) fn gemm(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let made = product::gemm(network, node)?;
    let numbers = activation_numbers(node)?;
    Ok(vec![activated(network, node, &made[0], &numbers)?])
}

/// The numbers of a function that attributes give one by one.
fn activation_numbers(node: &Node) -> Result<Vec<f32>> {
    let numbers =
        ["activation_alpha", "activation_beta"].map(|name| node.has(name).then(|| node.float(name, 0.0)));
    numbers.into_iter().flatten().collect()
}

/// `FusedConv`: a convolution, what is added to its result, and a function of the sum.
pub(super) fn convolution(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    convolution_by(network, node, groups(node)?)
}

/// The same with another number of groups.
pub(super) fn convolution_by(network: &mut Network, node: &Node, groups: i64) -> Result<Vec<Value>> {
    let mut operands = vec![floats(node, 0)?, floats(node, 1)?];
    operands.extend(node.optional(2));
    let made = convolved_by(network, node, &operands, groups)?;
    let made = sum(network, node, &[Some(&made), node.optional(3)])?;
    let numbers = node.floats("activation_params")?.unwrap_or_default();
    Ok(vec![activated(network, node, &made, &numbers)?])
}

/// `NhwcFusedConv`: the same with channels as the last dimension of images, not of weights.
pub(super) fn convolution_of_last(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let mut inputs = node.inputs().to_vec();
    for index in [0, 3] {
        if let Some(image) = node.optional(index) {
            inputs[index] = Some(turned(network, node, image, true)?);
        }
    }
    let made = convolution(network, &node.given(inputs))?;
    Ok(vec![turned(network, node, &made[0], false)?])
}

/// The function that an attribute names.
fn activated(network: &mut Network, node: &Node, src: &Value, numbers: &[f32]) -> Result<Value> {
    let number = |index: usize, absent: f32| numbers.get(index).copied().unwrap_or(absent);
    let alpha = |absent: f32| Attrs::new().with("alpha", number(0, absent));
    let (kind, attrs) = match node.word("activation", "")?.as_str() {
        "" => return Ok(src.clone()),
        "Relu" => (OpKind::ReLU, Attrs::new()),
        "Sigmoid" => (OpKind::Sigmoid, Attrs::new()),
        "Tanh" => (OpKind::Tanh, Attrs::new()),
        "Elu" => (OpKind::Elu, alpha(1.0)),
        "LeakyRelu" => (OpKind::LeakyReLU, alpha(0.01)),
        "HardSigmoid" => (OpKind::HardSigmoid, alpha(0.2).with("beta", number(1, 0.5))),
        "Clip" => {
            (OpKind::Clamp, Attrs::new().with("min", number(0, f32::MIN)).with("max", number(1, f32::MAX)))
        }
        other => return Err(node.unsupported(format!("the activation {other:?} is not read"))),
    };
    network.op(node, kind, &[src], attrs)
}

/// `RMSNormalization`, and `SimplifiedLayerNormalization` as ONNX Runtime called it before: by the root of the mean of squares.
pub(super) fn rms(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (src, scale) = (floats(node, 0)?.clone(), floats(node, 1)?);
    let axis = super::source::axis(node, -1, src.rank())?;
    refuse_statistics(node, &[1])?;
    if scale.dims[..] != src.dims[axis..] || scale.data_type != src.data_type {
        let why = format!("a scale of {} for a source of {} is not read", scale.dims, src.dims);
        return Err(node.unsupported(why));
    }
    Ok(vec![rms_of(network, node, &src, scale, axis, node.float("epsilon", 1e-5)?)?])
}

fn rms_of(
    network: &mut Network,
    node: &Node,
    src: &Value,
    scale: &Value,
    axis: usize,
    epsilon: f32,
) -> Result<Value> {
    let attrs = Attrs::new().with("epsilon", epsilon).with("begin_norm_axis", axis as i64);
    network.op(node, OpKind::RMSNorm, &[src, scale], attrs)
}

/// `SkipLayerNormalization` and `SkipSimplifiedLayerNormalization`: of the sum with what went around, and that sum.
pub(super) fn skip_norm(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let is_simple = node.operator() == "SkipSimplifiedLayerNormalization";
    let bias = if is_simple { 3 } else { 4 };
    refuse_statistics(node, &[1, 2])?;
    let src = sum(network, node, &[Some(floats(node, 0)?), Some(floats(node, 1)?), node.optional(bias)])?;
    let axis = src.rank().saturating_sub(1);
    let scale = floats(node, 2)?;
    let made = if is_simple {
        rms_of(network, node, &src, scale, axis, node.float("epsilon", 1e-5)?)?
    } else {
        layer_norm(network, node, &src, [Some(scale), node.optional(3)])?
    };
    Ok(with_sum(node, made, src))
}

/// `EmbedLayerNormalization`: rows of tables for words, places and segments, summed up and normalised; the number of words that the mask has;
/// and the sum.
pub(super) fn embed(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let words = node.input(0)?;
    let [batch, length] = words.dims[..] else {
        return Err(node.invalid("words", &words.dims, "[batch, length]"));
    };
    let mut all = vec![rows(network, node, floats(node, 2)?, words)?];
    let places = floats(node, 3)?;
    all.push(match node.optional(8) {
        Some(numbers) => rows(network, node, places, numbers)?,
        None if places.rank() == 2 && places.dims[0] >= length => part(network, node, places, 0, 0, length)?,
        None => return Err(node.invalid("places", &places.dims, format!("at least {length} rows"))),
    });
    if let (Some(segments), Some(table)) = (node.optional(1), node.optional(4)) {
        all.push(rows(network, node, table, segments)?);
    }
    let src = sum(network, node, &all.iter().map(Some).collect::<Vec<_>>())?;
    let made = layer_norm(network, node, &src, [Some(floats(node, 5)?), node.optional(6)])?;
    let count = match node.optional(7) {
        None => {
            network.constant(&format!("{}/mask", node.name()), HostTensor::zeros([batch], DataType::S32)?)?
        }
        Some(mask) => {
            let mask = network.converted(node, mask, DataType::F32)?;
            let along = Attrs::new().with("axes", vec![1_i64]).with("keep_dims", false);
            let count = network.op(node, OpKind::ReduceSum, &[&mask], along)?;
            network.converted(node, &count, DataType::S32)?
        }
    };
    Ok(vec![made, count, src])
}

/// Rows of a table by their numbers.
fn rows(network: &mut Network, node: &Node, table: &Value, numbers: &Value) -> Result<Value> {
    let attrs = Attrs::new().with("mode", "axis").with("axis", 0_i64);
    network.op(node, OpKind::Gather, &[table, numbers], attrs)
}

/// Over the last dimension; an epsilon of the node that is absent is 1e-12.
fn layer_norm(
    network: &mut Network,
    node: &Node,
    src: &Value,
    [scale, shift]: [Option<&Value>; 2],
) -> Result<Value> {
    let axis = src.rank().saturating_sub(1);
    let epsilon = node.float("epsilon", 1e-12)?;
    let attrs =
        Attrs::new().with("epsilon", epsilon).with("keep_stats", false).with("begin_norm_axis", axis as i64);
    let (Some(scale), inner) = (scale, Dims::new(&src.dims[axis..])) else {
        return network.op(node, OpKind::LayerNorm, &[src], attrs.with("use_affine", false));
    };
    let shift = match shift {
        Some(shift) => shift.clone(),
        None => {
            network.constant(&format!("{}/zero", node.name()), HostTensor::zeros(inner, scale.data_type)?)?
        }
    };
    network.op(node, OpKind::LayerNorm, &[src, scale, &shift], attrs)
}

/// The sum of what is there.
pub(super) fn sum(network: &mut Network, node: &Node, values: &[Option<&Value>]) -> Result<Value> {
    let mut values = values.iter().flatten();
    let first = values.next().ok_or_else(|| node.invalid("inputs", "none", "at least one"))?;
    values
        .try_fold((*first).clone(), |sum, value| network.op(node, OpKind::Add, &[&sum, value], Attrs::new()))
}

/// Refuses outputs that only training needs.
fn refuse_statistics(node: &Node, outputs: &[usize]) -> Result<()> {
    match outputs.iter().find(|&&output| node.names_output(output)) {
        Some(output) => {
            Err(node.unsupported(format!("output {output}, a statistic for training, is not made")))
        }
        None => Ok(()),
    }
}

/// The result and, as the fourth output, the sum; those between have no names.
fn with_sum(node: &Node, made: Value, sum: Value) -> Vec<Value> {
    match node.outputs() {
        0..4 => vec![made],
        _ => vec![made.clone(), made.clone(), made, sum],
    }
}
