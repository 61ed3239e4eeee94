//! The piecewise linear units as exporters write them: `x + 3`, limited to 0 and 6, over 6.

use anydnn_backend::Result;

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::gelu::{besides, is_number};
use crate::graph::{Attrs, OpKind};

/// The unit that a product of two values is. What only led to it is left out of the graph in the end.
pub(super) fn of_product(network: &mut Network, node: &Node, a: &Value, b: &Value) -> Result<Option<Value>> {
    for (x, gate) in [(a, b), (b, a)] {
        if is_gate(network, x, gate) {
            return network.op(node, OpKind::HardSwish, &[x], Attrs::new()).map(Some);
        }
        if is_number(network, gate, 1.0 / 6.0) {
            return of_sixth(network, node, x);
        }
    }
    Ok(None)
}

/// The unit that a quotient of two values is.
pub(super) fn of_quotient(network: &mut Network, node: &Node, a: &Value, b: &Value) -> Result<Option<Value>> {
    if is_number(network, b, 6.0) { of_sixth(network, node, a) } else { Ok(None) }
}

/// The unit that a sixth of a value is.
fn of_sixth(network: &mut Network, node: &Node, value: &Value) -> Result<Option<Value>> {
    if let Some(x) = limited(network, value) {
        let attrs = Attrs::new().with("alpha", 1.0_f32 / 6.0).with("beta", 0.5_f32);
        return network.op(node, OpKind::HardSigmoid, &[&x], attrs).map(Some);
    }
    let Some((OpKind::Multiply, parts)) = network.maker(value) else { return Ok(None) };
    let [a, b] = &parts[..] else { return Ok(None) };
    for (x, gate) in [(a, b), (b, a)] {
        if limited(network, gate).is_some_and(|inner| inner.is(x)) {
            return network.op(node, OpKind::HardSwish, &[x], Attrs::new()).map(Some);
        }
    }
    Ok(None)
}

/// The `x` of a value that is `x + 3`, limited to 0 and 6.
fn limited(network: &Network, value: &Value) -> Option<Value> {
    let (OpKind::Clamp, inputs) = network.maker(value)? else { return None };
    let limits = network.attrs(value)?;
    if limits.f32("min").ok() != Some(0.0) || limits.f32("max").ok() != Some(6.0) {
        return None;
    }
    let (OpKind::Add, parts) = network.maker(inputs.first()?)? else { return None };
    besides(network, &parts, 3.0).cloned()
}

/// Whether a value is the piecewise linear sigmoid of `x` that `HardSwish` has.
fn is_gate(network: &Network, x: &Value, value: &Value) -> bool {
    let near = |found: Option<f32>, number: f32| found.is_some_and(|found| (found - number).abs() < 1e-5);
    match (network.maker(value), network.attrs(value)) {
        (Some((OpKind::HardSigmoid, inputs)), Some(attrs)) => {
            inputs[0].is(x) && near(attrs.f32("alpha").ok(), 1.0 / 6.0) && near(attrs.f32("beta").ok(), 0.5)
        }
        _ => false,
    }
}
