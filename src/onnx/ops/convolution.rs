//! Convolutions.

use anydnn_backend::{Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::super::window::{Window, signed, sizes};
use super::floats;
use crate::graph::OpKind;

pub(super) fn forward(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    Ok(vec![convolved(network, node, &inputs(node)?)?])
}

/// The convolution of source, weights and, if it is there, bias, with a node's attributes.
pub(super) fn convolved(network: &mut Network, node: &Node, operands: &[&Value]) -> Result<Value> {
    convolved_by(network, node, operands, groups(node)?)
}

/// The same with another number of groups.
pub(super) fn convolved_by(
    network: &mut Network,
    node: &Node,
    operands: &[&Value],
    groups: i64,
) -> Result<Value> {
    let (mut window, spatial) = window(node, operands)?;
    window.slide(node, &spatial, false)?;
    let attrs = window
        .attrs()
        .with("dilations", signed(&window.dilations))
        .with("groups", groups)
        .with("weights_format", "OIX");
    network.op(node, OpKind::Convolution, operands, attrs)
}

pub(super) fn transposed(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let operands = inputs(node)?;
    let (mut window, spatial) = window(node, &operands)?;
    let mut extra = sizes(node, "output_padding", spatial.len(), 0, 0)?;
    let wanted =
        if node.has("output_shape") { Some(sizes(node, "output_shape", spatial.len(), 1, 1)?) } else { None };
    window.slide_transposed(node, &spatial, &mut extra, wanted.as_deref())?;
    let attrs = window
        .attrs()
        .with("dilations", signed(&window.dilations))
        .with("output_padding", signed(&extra))
        .with("groups", groups(node)?)
        .with("weights_format", "IOX");
    Ok(vec![network.op(node, OpKind::ConvTranspose, &operands, attrs)?])
}

pub(super) fn groups(node: &Node) -> Result<i64> {
    match node.int("group", 1)? {
        groups if groups > 0 => Ok(groups),
        groups => Err(node.invalid("attribute group", groups, "at least 1")),
    }
}

/// Source, weights and, if it is there, bias.
fn inputs<'a>(node: &'a Node) -> Result<Vec<&'a Value>> {
    let mut inputs = vec![floats(node, 0)?, floats(node, 1)?];
    inputs.extend(node.optional(2));
    Ok(inputs)
}

/// The window, and the spatial dimensions of the source.
fn window(node: &Node, operands: &[&Value]) -> Result<(Window, Dims)> {
    let (src, weights) = (operands[0], operands[1]);
    if src.rank() < 3 || weights.rank() != src.rank() {
        let given = format!("{} and {}", src.dims, weights.dims);
        return Err(node.invalid("source and weights", given, "as many dimensions, at least three"));
    }
    let (spatial, kernel) = (Dims::new(&src.dims[2..]), &weights.dims[2..]);
    if sizes(node, "kernel_shape", kernel.len(), 0, 1)? != kernel && node.has("kernel_shape") {
        return Err(node.invalid(
            "attribute kernel_shape",
            "another",
            format!("that of weights {}", weights.dims),
        ));
    }
    Ok((Window::new(node, kernel)?, spatial))
}
