//! Products of scaled integers. Operands are dequantised where the device reads them, so that it multiplies the integers themselves, and
//! results are quantised where it writes them.

use anydnn_backend::{DataType, Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::convolution::convolved;
use super::fused::sum;
use super::integers::{channels_last, channels_second};
use super::scales::{Inputs, Parameters};
use crate::graph::{Attrs, OpKind};
use crate::model::HostTensor;

/// `DynamicQuantizeLinear`: scale and zero point from the range of the values, which zero belongs to.
pub(super) fn dynamic(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = node.input(0)?;
    if src.data_type != DataType::F32 {
        return Err(node.unsupported(format!("it is not read for {}", src.data_type)));
    }
    if src.dims.elements() == 0 {
        let zeros = [
            (src.dims.clone(), DataType::U8),
            (Dims::default(), DataType::F32),
            (Dims::default(), DataType::U8),
        ];
        let zeros = zeros.map(|(dims, data_type)| HostTensor::zeros(dims, data_type));
        return zeros.into_iter().map(|zeros| network.constant(node.name(), zeros?)).collect();
    }
    let dims = src.dims.clone();
    // What has no axes is a row of one.
    let src = &network.reshape(node, src, if dims.is_empty() { Dims::from([1]) } else { dims.clone() })?;
    // As the fusion pattern `quantize/dynamic` has it, so that all of it runs as one.
    let low = extreme(network, node, src, OpKind::ReduceMin, OpKind::Minimum)?;
    let high = extreme(network, node, src, OpKind::ReduceMax, OpKind::Maximum)?;
    let range = network.op(node, OpKind::Subtract, &[&high, &low], Attrs::new())?;
    let steps = network.scalar(node, 255.0, &range)?;
    let scale = network.op(node, OpKind::Divide, &[&range, &steps], Attrs::new())?;
    // Zeros alone have no range; any scale leaves them what they are.
    let least = network.scalar(node, f64::from(f32::MIN_POSITIVE), &scale)?;
    let divisor = network.op(node, OpKind::Maximum, &[&scale, &least], Attrs::new())?;
    let below = network.negative(node, &low)?;
    let point = network.op(node, OpKind::Divide, &[&below, &divisor], Attrs::new())?;
    let point = network.op(node, OpKind::Round, &[&point], Attrs::new())?;
    let limits = Attrs::new().with("min", 0.0_f32).with("max", 255.0_f32);
    let point = network.op(node, OpKind::Clamp, &[&point], limits)?;
    // Halves are rounded before the zero point is added, which may be odd.
    let steps = network.op(node, OpKind::Divide, &[src, &divisor], Attrs::new())?;
    let steps = network.op(node, OpKind::Round, &[&steps], Attrs::new())?;
    let moved = network.op(node, OpKind::Add, &[&steps, &point], Attrs::new())?;
    let quantized = network.converted(node, &moved, DataType::U8)?;
    let quantized = network.reshape(node, &quantized, dims)?;
    Ok(vec![quantized, scale, network.converted(node, &point, DataType::U8)?])
}

/// The extreme of all elements and of zero, as a number.
fn extreme(network: &mut Network, node: &Node, src: &Value, fold: OpKind, pair: OpKind) -> Result<Value> {
    let axes: Vec<i64> = (0..src.rank() as i64).collect();
    let attrs = Attrs::new().with("axes", axes).with("keep_dims", false);
    let one = network.op(node, fold, &[src], attrs)?;
    let zero = network.scalar(node, 0.0, &one)?;
    network.op(node, pair, &[&one, &zero], Attrs::new())
}

/// `MatMulInteger`.
pub(super) fn matmul_integer(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    let a = dequantized(network, node, a, Inputs { scale: None, point: 2 }, a.rank().checked_sub(2))?;
    let b = dequantized(network, node, b, Inputs { scale: None, point: 3 }, b.rank().checked_sub(1))?;
    let product = network.op_to(node, OpKind::MatMul, &[&a, &b], Attrs::new(), Some(DataType::F32))?;
    Ok(vec![network.whole(node, &product)?])
}

/// `QLinearMatMul`.
pub(super) fn matmul(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (a, b) = (node.input(0)?, node.input(3)?);
    let a = dequantized(network, node, a, Inputs { scale: Some(1), point: 2 }, a.rank().checked_sub(2))?;
    let b = dequantized(network, node, b, Inputs { scale: Some(4), point: 5 }, b.rank().checked_sub(1))?;
    let product = network.op_to(node, OpKind::MatMul, &[&a, &b], Attrs::new(), Some(DataType::F32))?;
    Ok(vec![requantized(network, node, &product, 6)?])
}

/// `ConvInteger`.
pub(super) fn convolution_integer(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (src, weights) = (node.input(0)?, node.input(1)?);
    let src = dequantized(network, node, src, Inputs { scale: None, point: 2 }, None)?;
    let weights = dequantized(network, node, weights, Inputs { scale: None, point: 3 }, Some(0))?;
    let sums = convolved(network, node, &[&src, &weights])?;
    Ok(vec![network.whole(node, &sums)?])
}

/// `QLinearConv`, in ONNX Runtime's own domain also with channels at the end.
pub(super) fn convolution(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let weights = node.input(3)?;
    let src = &channels_second(network, node, node.input(0)?)?;
    let bias = node.optional(8).map(|bias| bias_of(network, node, bias)).transpose()?;
    let src = dequantized(network, node, src, Inputs { scale: Some(1), point: 2 }, None)?;
    let weights = dequantized(network, node, weights, Inputs { scale: Some(4), point: 5 }, Some(0))?;
    let mut operands = vec![&src, &weights];
    operands.extend(&bias);
    let sums = convolved(network, node, &operands)?;
    let made = requantized(network, node, &sums, 6)?;
    Ok(vec![channels_last(network, node, &made)?])
}

/// `MatMulIntegerToFloat`: the product of scaled integers as floats, and a bias.
pub(super) fn matmul_to_floats(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    let a = dequantized(network, node, a, Inputs { scale: Some(2), point: 4 }, a.rank().checked_sub(2))?;
    let b = dequantized(network, node, b, Inputs { scale: Some(3), point: 5 }, b.rank().checked_sub(1))?;
    let product = network.op_to(node, OpKind::MatMul, &[&a, &b], Attrs::new(), Some(DataType::F32))?;
    Ok(vec![sum(network, node, &[Some(&product), node.optional(6)])?])
}

/// `DynamicQuantizeMatMul`: floats, quantised as `DynamicQuantizeLinear` does, times scaled integers, and a bias.
pub(super) fn matmul_of_floats(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let made = dynamic(network, node)?;
    let [a, scale, point] = &made[..] else { return Err(node.invalid("operands", made.len(), "three")) };
    let inputs = [
        Some(a),
        node.optional(1),
        Some(scale),
        node.optional(2),
        Some(point),
        node.optional(3),
        node.optional(4),
    ];
    matmul_to_floats(network, &node.given(inputs.map(Option::<&Value>::cloned).to_vec()))
}

/// A bias of 32 bits as floats: its scale is the product of those of source and weights, inputs 1 and 4.
pub(super) fn bias_of(network: &mut Network, node: &Node, bias: &Value) -> Result<Value> {
    let numbers = |value: &Value| network.known(value).map(HostTensor::to_f64s);
    let (Some(bias), Some(src), Some(weights)) =
        (numbers(bias), numbers(node.input(1)?), numbers(node.input(4)?))
    else {
        return Err(node.unsupported("a bias or scales that are given on execution are not read"));
    };
    let ([src], true) = (&src[..], weights.len() == 1 || weights.len() == bias.len()) else {
        let expected = format!("one for the source, and one or {} for the weights", bias.len());
        return Err(node.invalid("scales", format!("{} and {}", src.len(), weights.len()), expected));
    };
    let scaled: Vec<f32> = (0..bias.len())
        .map(|channel| (bias[channel] * src * weights[if weights.len() == 1 { 0 } else { channel }]) as f32)
        .collect();
    network.computed(&format!("{}/bias", node.name()), Dims::from([scaled.len()]), &scaled)
}

/// An operand as floats, with one scale and zero point or one for each index along `axis`.
pub(super) fn dequantized(
    network: &mut Network,
    node: &Node,
    src: &Value,
    inputs: Inputs,
    axis: Option<usize>,
) -> Result<Value> {
    if !matches!(src.data_type, DataType::U8 | DataType::S8) {
        return Err(node.unsupported(format!("operands of {} are not read", src.data_type)));
    }
    if network.is_narrow() {
        return Err(node.unsupported("sums of integers are not computed in types narrower than f32"));
    }
    let parameters = Parameters::of(network, node, inputs, (src, axis))?;
    parameters.apply(network, node, src, [OpKind::Dequantize, OpKind::DynamicDequantize], DataType::F32)
}

/// A result in scaled integers, with scale and zero point in two inputs.
pub(super) fn requantized(network: &mut Network, node: &Node, value: &Value, index: usize) -> Result<Value> {
    let to = node.optional(index + 1).map_or(DataType::U8, |point| point.data_type);
    if !matches!(to, DataType::U8 | DataType::S8) {
        return Err(node.unsupported(format!("results of {to} are not read")));
    }
    let inputs = Inputs { scale: Some(index), point: index + 1 };
    let parameters = Parameters::of(network, node, inputs, (value, None))?;
    parameters.quantize(network, node, value, to)
}
