//! Normalizations and softmax.

use anydnn_backend::{DataType, Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::super::tensor::data_type;
use super::activation::scaled;
use super::movement::flat;
use super::source::axis;
use super::{floats, folding};
use crate::graph::{Attrs, OpKind, normalize_axis};
use crate::model::HostTensor;

/// With given statistics, or, for training, with those of the batch.
pub(super) fn batch(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    if node.int("spatial", 1)? == 0 {
        return Err(node.unsupported("only one statistic for each channel is read"));
    }
    node.check_inference()?;
    let src = floats(node, 0)?;
    if src.rank() < 2 {
        return Err(node.invalid("source", &src.dims, "a batch and channels"));
    }
    if node.flag("training_mode", false)? {
        return batch_in_training(network, node, src);
    }
    if let Some(folded) = folding::normalized(network, node, node.float("epsilon", 1e-5)?)? {
        return Ok(vec![folded]);
    }
    normalized(network, node, [node.input(3)?, node.input(4)?]).map(|made| vec![made])
}

/// The batch with its own statistics, and running averages of these.
fn batch_in_training(network: &mut Network, node: &Node, src: &Value) -> Result<Vec<Value>> {
    let axes: Vec<i64> = (0..src.rank() as i64).filter(|&axis| axis != 1).collect();
    let [mean, variance] = statistics(network, node, src, &axes)?;
    let channels = Dims::new(&src.dims[1..2]);
    let own = [network.reshape(node, &mean, channels.clone())?, network.reshape(node, &variance, channels)?];
    let mut made = vec![normalized(network, node, [&own[0], &own[1]])?];
    let momentum = f64::from(node.float("momentum", 0.9)?);
    for (index, new) in [(3, &own[0]), (4, &own[1])] {
        let old = floats(node, index)?;
        let new = network.converted(node, new, old.data_type)?;
        let (old, new) =
            (scaled(network, node, old, momentum)?, scaled(network, node, &new, 1.0 - momentum)?);
        made.push(network.op(node, OpKind::Add, &[&old, &new], Attrs::new())?);
    }
    Ok(made)
}

/// Scaled and shifted with a mean and a variance for each channel.
fn normalized(network: &mut Network, node: &Node, [mean, variance]: [&Value; 2]) -> Result<Value> {
    let inputs = [node.input(0)?, node.input(1)?, node.input(2)?, mean, variance];
    let attrs = epsilon(node)?.with("data_format", "NCX");
    network.op(node, OpKind::BatchNormInference, &inputs, attrs)
}

/// Mean and variance over axes, which stay as dimensions of one.
fn statistics(network: &mut Network, node: &Node, src: &Value, axes: &[i64]) -> Result<[Value; 2]> {
    let along = || Attrs::new().with("axes", axes.to_vec()).with("keep_dims", true);
    let mean = network.op(node, OpKind::ReduceMean, &[src], along())?;
    let rest = network.op(node, OpKind::Subtract, &[src, &mean], Attrs::new())?;
    let squares = network.op(node, OpKind::Square, &[&rest], Attrs::new())?;
    let variance = network.op(node, OpKind::ReduceMean, &[&squares], along())?;
    Ok([mean, variance])
}

/// Less their mean over axes and divided by their deviation, to which the standard's formula adds a little.
pub(super) fn mean_variance(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let axes = node.ints("axes")?.unwrap_or_else(|| vec![0, 2, 3]);
    let mut unlike = Vec::with_capacity(axes.len());
    for axis in axes {
        let axis = normalize_axis(axis, src.rank())? as i64;
        if !unlike.contains(&axis) {
            unlike.push(axis);
        }
    }
    let [mean, variance] = statistics(network, node, src, &unlike)?;
    let rest = network.op(node, OpKind::Subtract, &[src, &mean], Attrs::new())?;
    let deviation = network.op(node, OpKind::Sqrt, &[&variance], Attrs::new())?;
    let little = network.scalar(node, 1e-9, src)?;
    let divisor = network.op(node, OpKind::Add, &[&deviation, &little], Attrs::new())?;
    Ok(vec![network.op(node, OpKind::Divide, &[&rest, &divisor], Attrs::new())?])
}

/// `LRN`: each channel by the squares of those around it, whose sums are averages of a window over the channels.
pub(super) fn local_response(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let [batch, channels, spatial @ ..] = &src.dims[..] else {
        return Err(node.invalid("source", &src.dims, "a batch and channels"));
    };
    let size = node.int("size", 1)?.max(1);
    // Nothing is beyond all channels.
    let most = *channels as i64;
    let (before, behind) = (((size - 1) / 2).min(most), (size / 2).min(most));
    let reach = before + behind + 1;
    let squares = network.op(node, OpKind::Square, &[src], Attrs::new())?;
    let lines = Dims::from([*batch, 1, *channels, spatial.iter().product()]);
    let squares = network.reshape(node, &squares, lines)?;
    let attrs = Attrs::new()
        .with("strides", [1_i64, 1])
        .with("pads_begin", [before, 0])
        .with("pads_end", [behind, 0])
        .with("kernel", [reach, 1])
        .with("exclude_pad", false)
        .with("data_format", "NCX");
    let averages = network.op(node, OpKind::AvgPool, &[&squares], attrs)?;
    let averages = network.reshape(node, &averages, src.dims.clone())?;
    let alpha = f64::from(node.float("alpha", 1e-4)?) * reach as f64 / size as f64;
    let steps = scaled(network, node, &averages, alpha)?;
    let bias = network.scalar(node, f64::from(node.float("bias", 1.0)?), src)?;
    let base = network.op(node, OpKind::Add, &[&steps, &bias], Attrs::new())?;
    let attrs = Attrs::new().with("beta", -node.float("beta", 0.75)?);
    let factors = network.op(node, OpKind::Pow, &[&base], attrs)?;
    Ok(vec![network.op(node, OpKind::Multiply, &[src, &factors], Attrs::new())?])
}

/// Along an axis by the sum of sizes or the root of the sum of squares; zeros stay.
pub(super) fn by_norm(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let kind = if node.int("p", 2)? == 1 { OpKind::ReduceL1 } else { OpKind::ReduceL2 };
    let attrs = Attrs::new().with("axes", [node.int("axis", -1)?]).with("keep_dims", true);
    let norm = network.op(node, kind, &[src], attrs)?;
    let (zero, one) = (network.scalar(node, 0.0, src)?, network.scalar(node, 1.0, src)?);
    let is_zero = network.op(node, OpKind::Equal, &[&norm, &zero], Attrs::new())?;
    let divisor = network.op(node, OpKind::Select, &[&is_zero, &one, &norm], Attrs::new())?;
    Ok(vec![network.op(node, OpKind::Divide, &[src, &divisor], Attrs::new())?])
}

/// Over the dimensions from an axis on, then scaled and shifted; with the means and the inverse deviations where the node lists them.
pub(super) fn layer(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let axis = axis(node, -1, src.rank())?;
    let mut made = vec![layer_alone(network, node, src, axis)?];
    if node.outputs() > 1 {
        let stash = data_type(i32::try_from(node.int("stash_type", 1)?).unwrap_or(-1))?;
        let wide = network.converted(node, src, DataType::F32)?;
        let axes: Vec<i64> = (axis..src.rank()).map(|axis| axis as i64).collect();
        let [mean, variance] = statistics(network, node, &wide, &axes)?;
        let epsilon = network.scalar(node, f64::from(node.float("epsilon", 1e-5)?), &variance)?;
        let variance = network.op(node, OpKind::Add, &[&variance, &epsilon], Attrs::new())?;
        let inverse = network.op(node, OpKind::Pow, &[&variance], Attrs::new().with("beta", -0.5_f32))?;
        for value in [mean, inverse] {
            made.push(network.converted(node, &value, stash)?);
        }
    }
    Ok(made)
}

fn layer_alone(network: &mut Network, node: &Node, src: &Value, axis: usize) -> Result<Value> {
    let inner = Dims::new(&src.dims[axis..]);
    let (scale, shift) = (floats(node, 1)?, node.optional(2));
    let attrs = epsilon(node)?.with("keep_stats", false).with("begin_norm_axis", axis as i64);
    let whole = |value: &Value| value.dims == inner;
    if whole(scale) && shift.is_none_or(whole) {
        let shift = match shift {
            Some(shift) => shift.clone(),
            None => network
                .constant(&format!("{}/zero", node.name()), HostTensor::zeros(inner, scale.data_type)?)?,
        };
        return network.op(node, OpKind::LayerNorm, &[src, scale, &shift], attrs);
    }
    let mut result = network.op(node, OpKind::LayerNorm, &[src], attrs.with("use_affine", false))?;
    for (value, kind) in [(Some(scale), OpKind::Multiply), (shift, OpKind::Add)] {
        let Some(value) = value else { continue };
        if !value.dims.broadcasts_to(&src.dims) {
            let expected = format!("dimensions that broadcast to {}", src.dims);
            return Err(node.invalid("scale or shift", &value.dims, expected));
        }
        result = network.op(node, kind, &[&result, value], Attrs::new())?;
    }
    Ok(result)
}

/// Over groups of channels. Until opset 20 there was one scale for each group instead of each channel.
pub(super) fn group(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let groups = node.int("num_groups", 0)?;
    let src = floats(node, 0)?;
    let channels = channels(node, src)?;
    let count = usize::try_from(groups).ok().filter(|&groups| groups > 0 && channels.is_multiple_of(groups));
    let count = count.ok_or_else(|| {
        node.invalid("attribute num_groups", groups, format!("a divisor of {channels} channels"))
    })?;
    let (mut scale, mut shift) = (floats(node, 1)?.clone(), floats(node, 2)?.clone());
    for value in [&mut scale, &mut shift] {
        if node.opset() < 21 && count != channels && *value.dims == [count] {
            *value = for_each_channel(network, node, value, channels)?;
        }
    }
    groups_of(network, node, groups, &scale, &shift)
}

/// Every channel by itself.
pub(super) fn instance(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let channels = channels(node, floats(node, 0)?)?;
    groups_of(network, node, channels as i64, floats(node, 1)?, floats(node, 2)?)
}

fn groups_of(
    network: &mut Network,
    node: &Node,
    groups: i64,
    scale: &Value,
    shift: &Value,
) -> Result<Vec<Value>> {
    let attrs = epsilon(node)?.with("groups", groups).with("keep_stats", false).with("data_format", "NCX");
    Ok(vec![network.op(node, OpKind::GroupNorm, &[node.input(0)?, scale, shift], attrs)?])
}

fn channels(node: &Node, src: &Value) -> Result<usize> {
    match src.rank() {
        rank if rank > 2 => Ok(src.dims[1]),
        _ => Err(node.invalid("source", &src.dims, "a batch, channels and spatial dimensions")),
    }
}

/// Every element of a vector as often as a group has channels.
fn for_each_channel(network: &mut Network, node: &Node, value: &Value, channels: usize) -> Result<Value> {
    let Some(known) = network.known(value) else {
        return Err(node.unsupported("scales of groups that are given on execution are not read"));
    };
    let values = known.to_f64s();
    let size = channels / values.len().max(1);
    let values: Vec<f64> = values.into_iter().flat_map(|value| std::iter::repeat_n(value, size)).collect();
    let tensor = HostTensor::from_f64([channels], value.data_type, &values)?;
    network.constant(&format!("{}/each", node.name()), tensor)
}

/// Softmax or its logarithm. Before opset 13 it went over all dimensions from the axis on.
pub(super) fn softmax(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let kind = if node.operator() == "Softmax" { OpKind::SoftMax } else { OpKind::LogSoftmax };
    let over_all = node.opset() < 13;
    let axis = axis(node, if over_all { 1 } else { -1 }, src.rank())?;
    let along = |axis: usize| Attrs::new().with("axis", axis as i64);
    if !over_all || axis + 1 == src.rank() {
        return Ok(vec![network.op(node, kind, &[src], along(axis))?]);
    }
    let rows = network.reshape(node, src, flat(&src.dims, axis))?;
    let result = network.op(node, kind, &[&rows], along(1))?;
    Ok(vec![network.reshape(node, &result, src.dims.clone())?])
}

fn epsilon(node: &Node) -> Result<Attrs> {
    Ok(Attrs::new().with("epsilon", node.float("epsilon", 1e-5)?))
}
