//! Operators on one tensor, element by element.

use anydnn_backend::Result;
use anydnn_backend::op::{Eltwise, Parameter, Spelling};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::{floats, is_standard, is_whole, known_number, numbers};
use crate::graph::{Attrs, OpKind};

/// The function that an operator is in the standard's domain, with its graph operation.
fn function(node: &Node) -> Option<(Spelling, Spelling)> {
    let spellings = Eltwise::TABLE.iter().filter_map(|row| row.onnx.zip(row.graph));
    spellings.into_iter().find(|(onnx, _)| is_standard(node.domain()) && onnx.operation == node.operator())
}

/// Whether an operator is a function of one element that has the same parameters, or none, in the graph.
pub(super) fn is_plain(node: &Node) -> bool {
    function(node).is_some_and(|(onnx, graph)| {
        let is_constant = |one: &Spelling| one.parameters.iter().all(|it| matches!(it, Parameter::Always(_)));
        is_constant(&onnx) && is_constant(&graph) && onnx.chosen_by.is_none()
    })
}

/// Those without attributes.
pub(super) fn plain(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    if node.operator() == "Abs" && is_whole(node.input(0)?.data_type) {
        // The larger of a number and its negative, with all digits.
        let src = node.input(0)?;
        let other = network.negative(node, src)?;
        return Ok(vec![network.op(node, OpKind::Maximum, &[src, &other], Attrs::new())?]);
    }
    let src = floats(node, 0)?;
    let kind = function(node).and_then(|(_, graph)| graph.operation.parse().ok());
    let kind: OpKind = kind.ok_or_else(|| node.unsupported("the graph has no such function"))?;
    Ok(vec![network.op(node, kind, &[src], Attrs::new())?])
}

/// Those with a slope for negative values.
pub(super) fn sloped(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (kind, absent) =
        if node.operator() == "Elu" { (OpKind::Elu, 1.0) } else { (OpKind::LeakyReLU, 0.01) };
    let attrs = Attrs::new().with("alpha", node.float("alpha", absent)?);
    Ok(vec![network.op(node, kind, &[floats(node, 0)?], attrs)?])
}

pub(super) fn hard_sigmoid(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let attrs = Attrs::new().with("alpha", node.float("alpha", 0.2)?).with("beta", node.float("beta", 0.5)?);
    Ok(vec![network.op(node, OpKind::HardSigmoid, &[floats(node, 0)?], attrs)?])
}

pub(super) fn gelu(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let mode = match node.word("approximate", "none")?.as_str() {
        "none" => "gelu_erf",
        "tanh" => "gelu_tanh",
        other => return Err(node.invalid("attribute approximate", other, "none or tanh")),
    };
    Ok(vec![network.op(node, OpKind::GELU, &[floats(node, 0)?], Attrs::new().with("mode", mode))?])
}

pub(super) fn softplus(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let attrs = Attrs::new().with("beta", 1.0_f32);
    Ok(vec![network.op(node, OpKind::SoftPlus, &[floats(node, 0)?], attrs)?])
}

/// What is greater than a number; zero else.
pub(super) fn thresholded(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let limit = network.scalar(node, f64::from(node.float("alpha", 1.0)?), src)?;
    let zero = network.scalar(node, 0.0, src)?;
    let is_above = network.op(node, OpKind::Greater, &[src, &limit], Attrs::new())?;
    Ok(vec![network.op(node, OpKind::Select, &[&is_above, src, &zero], Attrs::new())?])
}

/// Numbers nearer to zero by one number; zero where they are within another of it.
pub(super) fn shrink(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let (bias, limit) = (f64::from(node.float("bias", 0.0)?), f64::from(node.float("lambd", 0.5)?));
    let mut scalar = |number: f64| network.scalar(node, number, src);
    let (bias, zero, above, below) = (scalar(bias)?, scalar(0.0)?, scalar(limit)?, scalar(-limit)?);
    let is_above = network.op(node, OpKind::Greater, &[src, &above], Attrs::new())?;
    let less = network.op(node, OpKind::Subtract, &[src, &bias], Attrs::new())?;
    let result = network.op(node, OpKind::Select, &[&is_above, &less, &zero], Attrs::new())?;
    let is_below = network.op(node, OpKind::Less, &[src, &below], Attrs::new())?;
    let more = network.op(node, OpKind::Add, &[src, &bias], Attrs::new())?;
    Ok(vec![network.op(node, OpKind::Select, &[&is_below, &more, &result], Attrs::new())?])
}

pub(super) fn negated(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    if is_whole(node.input(0)?.data_type) {
        return Ok(vec![network.negative(node, node.input(0)?)?]);
    }
    Ok(vec![scaled(network, node, floats(node, 0)?, -1.0)?])
}

/// x / (1 + |x|).
pub(super) fn softsign(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let size = network.op(node, OpKind::Abs, &[src], Attrs::new())?;
    let one = network.scalar(node, 1.0, src)?;
    let divisor = network.op(node, OpKind::Add, &[&size, &one], Attrs::new())?;
    Ok(vec![network.op(node, OpKind::Divide, &[src, &divisor], Attrs::new())?])
}

/// x times the logistic function of alpha x.
pub(super) fn swish(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let alpha = node.float("alpha", 1.0)?;
    let steep = scaled(network, node, src, f64::from(alpha))?;
    let gate = network.op(node, OpKind::Sigmoid, &[&steep], Attrs::new())?;
    Ok(vec![network.op(node, OpKind::Multiply, &[src, &gate], Attrs::new())?])
}

/// A multiple of the exponential linear unit.
pub(super) fn selu(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let alpha = node.float("alpha", 1.673_263_2)?;
    let gamma = node.float("gamma", 1.050_701)?;
    let attrs = Attrs::new().with("alpha", alpha);
    let unit = network.op(node, OpKind::Elu, &[floats(node, 0)?], attrs)?;
    Ok(vec![scaled(network, node, &unit, f64::from(gamma))?])
}

/// The exponential linear unit of x / alpha, times alpha: smooth at zero.
pub(super) fn celu(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let alpha = f64::from(node.float("alpha", 1.0)?);
    let inner = scaled(network, node, floats(node, 0)?, 1.0 / alpha)?;
    let unit = network.op(node, OpKind::Elu, &[&inner], Attrs::new().with("alpha", 1.0_f32))?;
    Ok(vec![scaled(network, node, &unit, alpha)?])
}

/// Limits in attributes, or since opset 11 in inputs, each of which may be absent.
pub(super) fn clip(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = numbers(node, 0)?;
    let mut limits: [Option<Value>; 2] = [node.optional(1).cloned(), node.optional(2).cloned()];
    for (limit, name) in limits.iter_mut().zip(["min", "max"]) {
        if limit.is_none() && node.has(name) {
            *limit = Some(network.scalar(node, f64::from(node.float(name, 0.0)?), src)?);
        }
    }
    let [low, high] = limits;
    if let (Some(low), Some(high)) = (&low, &high)
        && src.data_type.is_float()
        && let (Some(min), Some(max)) =
            (known_number(network, node, low)?, known_number(network, node, high)?)
        && min <= max
    {
        let attrs = Attrs::new().with("min", min as f32).with("max", max as f32);
        return Ok(vec![network.op(node, OpKind::Clamp, &[src], attrs)?]);
    }
    let mut result = src.clone();
    for (limit, kind) in [(low, OpKind::Maximum), (high, OpKind::Minimum)] {
        let Some(limit) = limit else { continue };
        if limit.dims.elements() != 1 || limit.rank() > src.rank().max(1) {
            return Err(node.invalid("limit", &limit.dims, "one number"));
        }
        result = network.op(node, kind, &[&result, &limit], Attrs::new())?;
    }
    Ok(vec![result])
}

/// Slopes that broadcast to the source.
pub(super) fn prelu(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (src, slope) = (floats(node, 0)?, floats(node, 1)?);
    if !slope.dims.broadcasts_to(&src.dims) {
        return Err(node.invalid("slope", &slope.dims, format!("dimensions that broadcast to {}", src.dims)));
    }
    let full = slope.dims.padded_to_rank(src.rank());
    let channels = src.dims.get(1).copied().unwrap_or(1);
    // One for each channel is what the graph's operation has a short form for; others are told apart by their full shape.
    let per_channel = src.rank() > 1 && full[1] == channels && full.elements() == channels;
    let dims = if per_channel { [channels].into() } else { full };
    let slope = network.reshape(node, slope, dims)?;
    let format = if per_channel { "NCX" } else { "NXC" };
    let attrs = Attrs::new().with("data_format", format).with("per_channel_broadcast", per_channel);
    Ok(vec![network.op(node, OpKind::PReLU, &[src, &slope], attrs)?])
}

/// A tensor times a number.
#[expect(clippy::float_cmp, reason = "only exactly one changes nothing")]
pub(super) fn scaled(network: &mut Network, node: &Node, src: &Value, factor: f64) -> Result<Value> {
    if factor == 1.0 {
        return Ok(src.clone());
    }
    let factor = network.scalar(node, factor, src)?;
    network.op(node, OpKind::Multiply, &[src, &factor], Attrs::new())
}
