//! Functions and pools of scaled integers, after the reference of ONNX Runtime's domain `com.microsoft`: operands are dequantised where the
//! device reads them, and results quantised where it writes them. Where a node says so, channels are the last dimension.

use anydnn_backend::{DataType, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::activation::scaled;
use super::fused::sum;
use super::movement::flat;
use super::pooling;
use super::quantized::{bias_of, dequantized, requantized};
use super::scales::Inputs;
use crate::graph::{Attrs, OpKind, normalize_axis};

/// The source of an operator of one tensor.
const SOURCE: Inputs = Inputs { scale: Some(1), point: 2 };

/// `QLinearAdd` and `QLinearMul`.
pub(super) fn pair(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (a, b) = (node.input(0)?, node.input(3)?);
    let is_sum = node.operator() == "QLinearAdd";
    let fits = |value: &Value| matches!(value.data_type, DataType::U8 | DataType::S8);
    if is_sum
        && fits(a)
        && fits(b)
        && !network.is_narrow()
        && let Some(sum) = sum_in_steps(network, node)?
    {
        return Ok(vec![sum]);
    }
    let a = dequantized(network, node, a, SOURCE, None)?;
    let b = dequantized(network, node, b, Inputs { scale: Some(4), point: 5 }, None)?;
    let kind = if is_sum { OpKind::Add } else { OpKind::Multiply };
    let made = network.op(node, kind, &[&a, &b], Attrs::new())?;
    Ok(vec![requantized(network, node, &made, 6)?])
}

/// A sum of integers whose scales and zero points are known, in steps of the result: `a A/C + (b B/C + (c - (A/C a' + B/C b')))` with the
/// scales `A`, `B`, `C` and the zero points `a'`, `b'`, `c`. Sums in steps are halves where those of ONNX Runtime are, which computes
/// them so (found by comparing each of 60 million sums); dequantised ones are beside them.
fn sum_in_steps(network: &mut Network, node: &Node) -> Result<Option<Value>> {
    let number = |index: usize, absent: Option<f32>| match node.optional(index) {
        None => absent,
        Some(value) => network.known(value)?.to_f32s().try_into().ok().map(|[number]: [f32; 1]| number),
    };
    let scales = [1, 4, 6].map(|index| number(index, None));
    let points = [2, 5, 7].map(|index| number(index, Some(0.0)));
    let ([Some(a), Some(b), Some(scale)], [Some(a_point), Some(b_point), Some(point)]) = (scales, points)
    else {
        return Ok(None);
    };
    let to = node.optional(7).map_or(DataType::U8, |point| point.data_type);
    if !matches!(to, DataType::U8 | DataType::S8) {
        return Ok(None);
    }
    let (a, b) = (a / scale, b / scale);
    let fixed = point - (a * a_point + b * b_point);
    if ![a, b, fixed].iter().all(|number| number.is_finite()) {
        return Ok(None);
    }
    let scaled = |scale: f32| {
        Attrs::new().with("qtype", "per_tensor").with("scales", vec![scale]).with("zps", vec![0_i64])
    };
    let a = network.op(node, OpKind::Dequantize, &[node.input(0)?], scaled(a))?;
    let b = network.op(node, OpKind::Dequantize, &[node.input(3)?], scaled(b))?;
    let fixed = network.scalar(node, f64::from(fixed), &b)?;
    let b = network.op(node, OpKind::Add, &[&b, &fixed], Attrs::new())?;
    let sum = network.op(node, OpKind::Add, &[&a, &b], Attrs::new())?;
    Ok(Some(network.op_to(node, OpKind::Quantize, &[&sum], scaled(1.0), Some(to))?))
}

/// `QLinearSigmoid` and `QLinearLeakyRelu`.
pub(super) fn function(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = dequantized(network, node, node.input(0)?, SOURCE, None)?;
    let made = if node.operator() == "QLinearSigmoid" {
        network.op(node, OpKind::Sigmoid, &[&src], Attrs::new())?
    } else {
        let attrs = Attrs::new().with("alpha", node.float("alpha", 0.01)?);
        network.op(node, OpKind::LeakyReLU, &[&src], attrs)?
    };
    Ok(vec![requantized(network, node, &made, 3)?])
}

/// `QLinearSoftmax`. Up to opset 12 of the operator that it stands for, it is taken over all dimensions from the axis on.
pub(super) fn softmax(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = dequantized(network, node, node.input(0)?, SOURCE, None)?;
    let axis = normalize_axis(node.int("axis", -1)?, src.rank())?;
    let (rows, axis) = match node.int("opset", 13)? {
        ..13 => (network.reshape(node, &src, flat(&src.dims, axis))?, 1),
        _ => (src.clone(), axis),
    };
    let made = network.op(node, OpKind::SoftMax, &[&rows], Attrs::new().with("axis", axis as i64))?;
    let made = network.reshape(node, &made, src.dims.clone())?;
    Ok(vec![requantized(network, node, &made, 3)?])
}

/// `QLinearReduceMean`: along axes, or along all.
pub(super) fn mean(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = dequantized(network, node, node.input(0)?, SOURCE, None)?;
    let axes: Vec<i64> = match node.ints("axes")? {
        Some(axes) if !axes.is_empty() => axes,
        _ => (0..src.rank() as i64).collect(),
    };
    let attrs = Attrs::new().with("axes", axes).with("keep_dims", node.flag("keepdims", true)?);
    let made = network.op(node, OpKind::ReduceMean, &[&src], attrs)?;
    Ok(vec![requantized(network, node, &made, 3)?])
}

/// `QLinearWhere`: a choice between two, each with its own scale.
pub(super) fn choose(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let condition = node.input(0)?;
    if condition.data_type != DataType::Boolean {
        return Err(node.invalid("condition", condition.data_type, "a truth value"));
    }
    let a = dequantized(network, node, node.input(1)?, Inputs { scale: Some(2), point: 3 }, None)?;
    let b = dequantized(network, node, node.input(4)?, Inputs { scale: Some(5), point: 6 }, None)?;
    let made = network.op(node, OpKind::Select, &[condition, &a, &b], Attrs::new())?;
    Ok(vec![requantized(network, node, &made, 7)?])
}

/// `QLinearConcat`: the result's scale and zero point come first, then each part with its own.
pub(super) fn concat(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let parts = node.inputs().len().saturating_sub(2);
    if parts == 0 || !parts.is_multiple_of(3) {
        return Err(node.invalid("inputs", node.inputs().len(), "two, and three for each part"));
    }
    let mut all = Vec::with_capacity(parts / 3);
    for at in (2..2 + parts).step_by(3) {
        let inputs = Inputs { scale: Some(at + 1), point: at + 2 };
        all.push(dequantized(network, node, node.input(at)?, inputs, None)?);
    }
    let axis = normalize_axis(node.int("axis", 0)?, all[0].rank())?;
    let all: Vec<&Value> = all.iter().collect();
    let made = match &all[..] {
        [only] => (*only).clone(),
        all => network.op(node, OpKind::Concat, all, Attrs::new().with("axis", axis as i64))?,
    };
    Ok(vec![requantized(network, node, &made, 0)?])
}

/// `QGemm`: alpha times the sum of a product of matrices and a bias of 32 bits; floats where no scale of the result is given.
pub(super) fn gemm(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (a, b) = (node.input(0)?, node.input(3)?);
    if a.rank() != 2 || b.rank() != 2 {
        return Err(node.invalid("inputs", format!("{} and {}", a.dims, b.dims), "two matrices"));
    }
    let (trans_a, trans_b) = (node.flag("transA", false)?, node.flag("transB", false)?);
    let a = dequantized(network, node, a, SOURCE, None)?;
    let columns = usize::from(!trans_b);
    let b = dequantized(network, node, b, Inputs { scale: Some(4), point: 5 }, Some(columns))?;
    let attrs = Attrs::new().with("transpose_a", trans_a).with("transpose_b", trans_b);
    let product = network.op_to(node, OpKind::MatMul, &[&a, &b], attrs, Some(DataType::F32))?;
    let bias = match node.optional(6) {
        None => None,
        Some(bias) => {
            let line = bias_of(network, node, bias)?;
            Some(network.reshape(node, &line, bias.dims.clone())?)
        }
    };
    let made = sum(network, node, &[Some(&product), bias.as_ref()])?;
    let made = scaled(network, node, &made, f64::from(node.float("alpha", 1.0)?))?;
    match node.optional(7) {
        None => Ok(vec![made]),
        Some(_) => Ok(vec![requantized(network, node, &made, 7)?]),
    }
}

/// `QLinearAveragePool`.
pub(super) fn average(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = channels_second(network, node, node.input(0)?)?;
    let src = dequantized(network, node, &src, SOURCE, None)?;
    let made = pooling::average(network, &node.given(vec![Some(src)]))?;
    let made = requantized(network, node, &made[0], 3)?;
    Ok(vec![channels_last(network, node, &made)?])
}

/// `QLinearGlobalAveragePool`.
pub(super) fn global_average(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = channels_second(network, node, node.input(0)?)?;
    let src = dequantized(network, node, &src, SOURCE, None)?;
    let axes: Vec<i64> = (2..src.rank() as i64).collect();
    let along = Attrs::new().with("axes", axes).with("keep_dims", true);
    let made = network.op(node, OpKind::ReduceMean, &[&src], along)?;
    let made = requantized(network, node, &made, 3)?;
    Ok(vec![channels_last(network, node, &made)?])
}

/// `NhwcMaxPool`: a pool of integers with channels at the end.
pub(super) fn nhwc_max(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = turned(network, node, node.input(0)?, true)?;
    let made = pooling::max(network, &node.given(vec![Some(src)]))?;
    Ok(vec![turned(network, node, &made[0], false)?])
}

/// A source with the channels as the second dimension, where the node has them at the end.
pub(super) fn channels_second(network: &mut Network, node: &Node, value: &Value) -> Result<Value> {
    if node.flag("channels_last", false)? { turned(network, node, value, true) } else { Ok(value.clone()) }
}

/// A result with the channels at the end, where the node wants them there.
pub(super) fn channels_last(network: &mut Network, node: &Node, value: &Value) -> Result<Value> {
    if node.flag("channels_last", false)? { turned(network, node, value, false) } else { Ok(value.clone()) }
}

/// The last dimension moved to the second place, or back.
pub(super) fn turned(network: &mut Network, node: &Node, value: &Value, to_second: bool) -> Result<Value> {
    let rank = value.rank() as i64;
    if rank < 3 {
        return Err(node.invalid("source", &value.dims, "at least three dimensions"));
    }
    let order: Vec<i64> = if to_second {
        [0, rank - 1].into_iter().chain(1..rank - 1).collect()
    } else {
        std::iter::once(0).chain(2..rank).chain([1]).collect()
    };
    network.op(node, OpKind::StaticTranspose, &[value], Attrs::new().with("order", order))
}
