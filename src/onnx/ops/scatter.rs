//! Elements written to places that are known when the model is imported: the result is gathered from source and updates.

use anydnn_backend::{DataType, Result};

use super::super::host::{element_places, list_places};
use super::super::network::{Network, Value};
use super::super::node::Node;
use super::indexing::check_bytes;
use crate::graph::{Attrs, OpKind};
use crate::model::HostTensor;

/// The most blocks that a result is gathered from.
const MOST: usize = 1 << 22;

pub(super) fn scatter(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (src, indices, updates) = (node.input(0)?, node.input(1)?, node.input(2)?);
    check_bytes(node, src)?;
    if node.word("reduction", "none")? != "none" {
        return Err(node.unsupported("only updates that replace are written on a device"));
    }
    let Some(known) = network.known(indices) else {
        return Err(node.unsupported("indices that are given on execution are not read"));
    };
    if updates.data_type != src.data_type {
        let expected = format!("elements of {}", src.data_type);
        return Err(node.invalid("updates", updates.data_type, expected));
    }
    let (starts, inner) = match node.operator() {
        "ScatterND" => list_places(node, &src.dims, known)?,
        _ => (element_places(node, &src.dims, known)?, 1),
    };
    let given = updates.dims.elements();
    if starts.len().checked_mul(inner) != Some(given) {
        return Err(node.invalid("updates", &updates.dims, format!("{} blocks of {inner}", starts.len())));
    }
    let blocks = src.dims.elements() / inner.max(1);
    if blocks == 0 || given == 0 {
        return Ok(vec![src.clone()]);
    }
    if blocks + starts.len() > MOST {
        return Err(node.unsupported(format!("{blocks} blocks are not gathered one by one")));
    }
    let mut from: Vec<f64> = (0..blocks).map(|block| block as f64).collect();
    for (update, start) in starts.iter().enumerate() {
        from[start / inner] = (blocks + update) as f64;
    }
    let from = HostTensor::from_f64([blocks], DataType::S32, &from)?;
    let from = network.constant(&format!("{}/indices", node.name()), from)?;
    let old = network.reshape(node, src, [blocks, inner].into())?;
    let new = network.reshape(node, updates, [starts.len(), inner].into())?;
    let both = network.op(node, OpKind::Concat, &[&old, &new], Attrs::new().with("axis", 0_i64))?;
    let attrs = Attrs::new().with("mode", "axis").with("axis", 0_i64);
    let made = network.op(node, OpKind::Gather, &[&both, &from], attrs)?;
    Ok(vec![network.reshape(node, &made, src.dims.clone())?])
}
