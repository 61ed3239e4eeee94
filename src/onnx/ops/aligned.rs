//! Second operands of opsets before 7, which do not broadcast by the last dimensions: a node names the axis of the first operand that
//! the second one begins at, and that of a `PRelu` begins at the channels.

use anydnn_backend::{Dims, Result};

use super::super::network::Network;
use super::super::node::Node;
use crate::graph::normalize_axis;
use crate::model::HostTensor;

/// The operators.
const OPERATORS: [&str; 12] =
    ["Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "PRelu", "Pow", "Sub", "Xor"];

/// The node with a second operand that broadcasts by the last dimensions, where it was another one.
pub(super) fn in_graph<'a>(network: &mut Network, node: &Node<'a>) -> Result<Option<Node<'a>>> {
    let (Some(first), Some(second)) = (node.optional(0), node.optional(1)) else { return Ok(None) };
    let Some(dims) = aligned(node, &first.dims, &second.dims)? else { return Ok(None) };
    let mut inputs = node.inputs().to_vec();
    inputs[1] = Some(network.reshape(node, second, dims)?);
    Ok(Some(node.given(inputs)))
}

/// The second operand for the host, likewise.
pub(super) fn on_host(node: &Node, inputs: &[Option<&HostTensor>]) -> Result<Option<HostTensor>> {
    let &[Some(first), Some(second)] = inputs else { return Ok(None) };
    let dims = aligned(node, first.dims(), second.dims())?;
    dims.map(|dims| second.clone().reshaped(dims)).transpose()
}

/// The dimensions of the second operand with as many ones behind as it lacks of the first one's.
fn aligned(node: &Node, first: &Dims, second: &Dims) -> Result<Option<Dims>> {
    if node.opset() >= 7 || !OPERATORS.contains(&node.operator()) {
        return Ok(None);
    }
    let axis = match node.operator() {
        "PRelu" if second.elements() > 1 => 1,
        "PRelu" => return Ok(None),
        _ if node.flag("broadcast", false)? && node.has("axis") => {
            normalize_axis(node.int("axis", 0)?, first.len())?
        }
        _ => return Ok(None),
    };
    let behind = first.len().checked_sub(axis + second.len()).ok_or_else(|| {
        let expected = format!(
            "at most {} dimensions from axis {axis} of {first} on",
            first.len() - axis.min(first.len())
        );
        node.invalid("second operand", second, expected)
    })?;
    Ok(Some(second.iter().copied().chain(std::iter::repeat_n(1, behind)).collect()))
}
