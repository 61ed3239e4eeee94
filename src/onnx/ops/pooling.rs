//! Pools.

use anydnn_backend::{DataType, Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::super::window::{Window, signed, sizes};
use super::activation::scaled;
use super::floats;
use crate::graph::{Attrs, OpKind};

pub(super) fn max(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    // Integers of eight bits are floats as they are.
    let src = node.input(0)?;
    if matches!(src.data_type, DataType::U8 | DataType::S8) && node.outputs() < 2 {
        let floats = network.converted(node, src, DataType::F32)?;
        let made = max(network, &node.given(vec![Some(floats)]))?;
        return Ok(vec![network.converted(node, &made[0], src.data_type)?]);
    }
    let (mut window, spatial) = window(node)?;
    window.slide(node, &spatial, node.flag("ceil_mode", false)?)?;
    let attrs =
        window.attrs().with("dilations", signed(&window.dilations)).with("kernel", signed(&window.kernel));
    Ok(vec![network.op(node, OpKind::MaxPool, &[node.input(0)?], attrs)?])
}

pub(super) fn average(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let (mut window, spatial) = window(node)?;
    if window.dilations.iter().any(|&dilation| dilation != 1) {
        return Err(node.unsupported("dilations of average pools are not read"));
    }
    let counts_pads = node.flag("count_include_pad", false)?;
    let given = window.pads_end.clone();
    window.slide(node, &spatial, node.flag("ceil_mode", false)?)?;
    if counts_pads && node.flag("ceil_mode", false)? && window.pads_end != given {
        return Err(node.unsupported("an average that counts padding and has a part of a window at the end"));
    }
    let attrs = window.attrs().with("exclude_pad", !counts_pads).with("kernel", signed(&window.kernel));
    Ok(vec![network.op(node, OpKind::AvgPool, &[src], attrs)?])
}

/// One result for each channel.
pub(super) fn global(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let kind = if node.operator() == "GlobalMaxPool" { OpKind::ReduceMax } else { OpKind::ReduceMean };
    let axes: Vec<i64> = (2..src.rank() as i64).collect();
    Ok(vec![network.op(node, kind, &[src], Attrs::new().with("axes", axes).with("keep_dims", true))?])
}

/// `LpPool`: the root of the sum of powers of each window, which is its average times its size.
pub(super) fn by_norm(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let (mut window, spatial) = window(node)?;
    if window.dilations.iter().any(|&dilation| dilation != 1) {
        return Err(node.unsupported("dilations of average pools are not read"));
    }
    window.slide(node, &spatial, node.flag("ceil_mode", false)?)?;
    let attrs = window.attrs().with("exclude_pad", false).with("kernel", signed(&window.kernel));
    let p = node.int("p", 2)? as f32;
    let powers = power(network, node, src, p)?;
    let averages = network.op(node, OpKind::AvgPool, &[&powers], attrs)?;
    let count: f64 = window.kernel.iter().map(|&taps| taps as f64).product();
    let sums = scaled(network, node, &averages, count)?;
    Ok(vec![root(network, node, &sums, p)?])
}

/// `GlobalLpPool`: one such root for each channel.
pub(super) fn global_norm(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let p = node.int("p", 2)? as f32;
    let axes: Vec<i64> = (2..src.rank() as i64).collect();
    if axes.is_empty() {
        return Err(node.unsupported("roots of single elements are not read"));
    }
    let powers = power(network, node, src, p)?;
    let attrs = Attrs::new().with("axes", axes).with("keep_dims", true);
    let sums = network.op(node, OpKind::ReduceSum, &[&powers], attrs)?;
    Ok(vec![root(network, node, &sums, p)?])
}

/// Sizes to a power.
#[expect(clippy::float_cmp, reason = "only exactly these have a shorter form")]
fn power(network: &mut Network, node: &Node, src: &Value, p: f32) -> Result<Value> {
    if p == 2.0 {
        return network.op(node, OpKind::Square, &[src], Attrs::new());
    }
    let sizes = network.op(node, OpKind::Abs, &[src], Attrs::new())?;
    if p == 1.0 {
        return Ok(sizes);
    }
    network.op(node, OpKind::Pow, &[&sizes], Attrs::new().with("beta", p))
}

#[expect(clippy::float_cmp, reason = "only exactly these have a shorter form")]
fn root(network: &mut Network, node: &Node, sums: &Value, p: f32) -> Result<Value> {
    if p == 1.0 {
        return Ok(sums.clone());
    }
    if p == 2.0 {
        return network.op(node, OpKind::Sqrt, &[sums], Attrs::new());
    }
    network.op(node, OpKind::Pow, &[sums], Attrs::new().with("beta", 1.0 / p))
}

/// The window, and the spatial dimensions of the source.
fn window(node: &Node) -> Result<(Window, Dims)> {
    let src = floats(node, 0)?;
    if src.rank() < 3 {
        return Err(node.invalid("source", &src.dims, "at least three dimensions"));
    }
    let spatial = Dims::new(&src.dims[2..]);
    if !node.has("kernel_shape") {
        return Err(node.invalid("attribute kernel_shape", "missing", "a list of sizes"));
    }
    let kernel = sizes(node, "kernel_shape", spatial.len(), 1, 1)?;
    Ok((Window::new(node, &kernel)?, spatial))
}
