//! Normalisations as exporters wrote them before they were operators: a value less its mean, over the root of its variance.

use anydnn_backend::Result;

use super::super::network::{Network, Value};
use super::super::node::Node;
use crate::graph::{Attrs, OpKind};

/// The normalisation that a quotient of two values is: `x - mean(x)` and `sqrt(mean((x - mean(x))^2) + epsilon)`, over the last
/// dimensions. What only led to it is left out of the graph in the end; factors and summands behind it ride on it.
pub(super) fn of_quotient(network: &mut Network, node: &Node, a: &Value, b: &Value) -> Result<Option<Value>> {
    let Some((x, axis, epsilon)) = found(network, a, b) else { return Ok(None) };
    let attrs = Attrs::new()
        .with("epsilon", epsilon)
        .with("keep_stats", false)
        .with("use_affine", false)
        .with("begin_norm_axis", axis);
    network.op(node, OpKind::LayerNorm, &[&x], attrs).map(Some)
}

/// The source, the first dimension that it is normalised over, and the number that is added to the variance.
fn found(network: &Network, a: &Value, b: &Value) -> Option<(Value, i64, f32)> {
    let (x, axis) = centred(network, a)?;
    let sum = rooted(network, b)?;
    let (OpKind::Add, parts) = network.maker(&sum)? else { return None };
    let [p, q] = &parts[..] else { return None };
    let (variance, epsilon) = if network.known(p).is_some() { (q, p) } else { (p, q) };
    let epsilon = match &network.known(epsilon)?.to_f32s()[..] {
        [epsilon] if *epsilon >= 0.0 => *epsilon,
        _ => return None,
    };
    let (OpKind::ReduceMean, squares) = network.maker(variance)? else { return None };
    // The difference may have been written twice.
    let (again, over) = centred(network, &square_root(network, squares.first()?)?)?;
    let same = again.is(&x) && over == axis && mean_axis(network, variance)? == axis;
    same.then_some((x, axis, epsilon))
}

/// The `x` of a value that is `x - mean(x)`, and the first dimension of the mean.
fn centred(network: &Network, value: &Value) -> Option<(Value, i64)> {
    let (OpKind::Subtract, parts) = network.maker(value)? else { return None };
    let [x, mean] = &parts[..] else { return None };
    let (OpKind::ReduceMean, inputs) = network.maker(mean)? else { return None };
    if !inputs.first()?.is(x) {
        return None;
    }
    Some((x.clone(), mean_axis(network, mean)?))
}

/// The first dimension of a mean over the last ones, which stay as ones.
fn mean_axis(network: &Network, mean: &Value) -> Option<i64> {
    let (_, inputs) = network.maker(mean)?;
    let rank = inputs.first()?.rank() as i64;
    let attrs = network.attrs(mean)?;
    let axes = attrs.s64s("axes").ok()?;
    let first = rank.checked_sub(i64::try_from(axes.len()).ok()?)?;
    let last = !axes.is_empty() && axes.iter().copied().eq(first..rank);
    (last && attrs.bool("keep_dims").ok()?).then_some(first)
}

/// The value that another one is the root of.
fn rooted(network: &Network, value: &Value) -> Option<Value> {
    let (kind, inputs) = network.maker(value)?;
    let exponent = || network.attrs(value)?.f32("beta").ok();
    let is_root = match kind {
        OpKind::Sqrt => true,
        OpKind::Pow => exponent() == Some(0.5),
        _ => false,
    };
    inputs.into_iter().next().filter(|_| is_root)
}

/// The value that another one is the square of.
fn square_root(network: &Network, value: &Value) -> Option<Value> {
    let (kind, inputs) = network.maker(value)?;
    let exponent = || network.attrs(value)?.f32("beta").ok();
    let is_square = match (kind, &inputs[..]) {
        (OpKind::Square, _) => true,
        (OpKind::Pow, _) => exponent() == Some(2.0),
        (OpKind::Multiply, [a, b]) => a.is(b),
        _ => false,
    };
    inputs.into_iter().next().filter(|_| is_square)
}
