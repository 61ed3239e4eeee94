//! Pools.

use anydnn_backend::{DataType, Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::super::window::{Window, signed, sizes};
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
