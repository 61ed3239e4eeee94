//! The Gaussian error linear unit as exporters write it: a product of three factors.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI, SQRT_2};

use anydnn_backend::Result;

use super::super::network::{Network, Value};
use super::super::node::Node;
use crate::graph::{Attrs, OpKind};

/// The unit that a product of two values is: `x`, one half and `1 + erf(x / sqrt 2)`, or the same with a hyperbolic tangent, in any
/// order. What only led to it is left out of the graph in the end.
pub(super) fn of_product(network: &mut Network, node: &Node, a: &Value, b: &Value) -> Result<Option<Value>> {
    let factors = [factors(network, a, 2), factors(network, b, 2)].concat();
    if factors.len() != 3 {
        return Ok(None);
    }
    for (half, one, other) in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)] {
        let x = &factors[one];
        if !is_number(network, &factors[half], 0.5) {
            continue;
        }
        let Some(mode) = gate(network, x, &factors[other]) else { continue };
        let attrs = Attrs::new().with("mode", mode);
        return network.op(node, OpKind::GELU, &[x], attrs).map(Some);
    }
    Ok(None)
}

/// Which form of the unit a factor beside `x` belongs to.
fn gate(network: &Network, x: &Value, factor: &Value) -> Option<&'static str> {
    let (OpKind::Add, parts) = network.maker(factor)? else { return None };
    let function = besides(network, &parts, 1.0)?;
    let (kind, inputs) = network.maker(function)?;
    let argument = inputs.first()?;
    match kind {
        OpKind::Erf => {
            let (kind, parts) = network.maker(argument)?;
            let scaled = match kind {
                OpKind::Multiply => besides(network, &parts, FRAC_1_SQRT_2)?,
                OpKind::Divide if is_number(network, &parts[1], SQRT_2) => &parts[0],
                _ => return None,
            };
            scaled.is(x).then_some("gelu_erf")
        }
        OpKind::Tanh => {
            let (OpKind::Multiply, parts) = network.maker(argument)? else { return None };
            let (OpKind::Add, parts) = network.maker(besides(network, &parts, FRAC_2_PI.sqrt())?)? else {
                return None;
            };
            let [a, b] = &parts[..] else { return None };
            let cubic = if a.is(x) { b } else { a };
            ((a.is(x) || b.is(x)) && is_cubic(network, x, cubic)).then_some("gelu_tanh")
        }
        _ => None,
    }
}

/// Whether a value is 0.044715 times the third power of `x`.
fn is_cubic(network: &Network, x: &Value, value: &Value) -> bool {
    let mut power = 0;
    let mut scaled = false;
    for factor in factors(network, value, 3) {
        match network.maker(&factor) {
            _ if factor.is(x) => power += 1,
            _ if is_number(network, &factor, 0.044_715) => scaled = true,
            Some((OpKind::Square, inputs)) if inputs[0].is(x) => power += 2,
            Some((OpKind::Pow, inputs)) if inputs[0].is(x) && exponent(network, &factor) == Some(3.0) => {
                power += 3;
            }
            _ => return false,
        }
    }
    scaled && power == 3
}

/// The exponent of a power.
fn exponent(network: &Network, power: &Value) -> Option<f32> {
    network.attrs(power)?.f32("beta").ok()
}

/// The other one of two values of which one is a number.
pub(super) fn besides<'v>(network: &Network, parts: &'v [Value], number: f64) -> Option<&'v Value> {
    match parts {
        [a, b] if is_number(network, b, number) => Some(a),
        [a, b] if is_number(network, a, number) => Some(b),
        _ => None,
    }
}

/// Whether a value is known to be a number, as near as narrow floats have it.
pub(super) fn is_number(network: &Network, value: &Value, number: f64) -> bool {
    let near = |found: f64| (found - number).abs() <= 1e-3 * number.abs();
    value.dims.elements() == 1
        && network
            .known(value)
            .is_some_and(|tensor| tensor.to_f64s().first().is_some_and(|&found| near(found)))
}

/// What a value is the product of, as far as products of its own shape go.
fn factors(network: &Network, value: &Value, depth: usize) -> Vec<Value> {
    match network.maker(value) {
        Some((OpKind::Multiply, parts)) if depth > 0 => {
            parts.iter().flat_map(|part| factors(network, part, depth - 1)).collect()
        }
        _ => vec![value.clone()],
    }
}
