//! Elements written to places. Where these are known when the model is imported, the result is gathered from source and updates; one place
//! along an axis may come with an execution, as of the row that a round of a loop writes.

use anydnn_backend::{DataType, Dims, Result};

use super::super::host::{element_places, list_places};
use super::super::network::{Network, Value};
use super::super::node::Node;
use super::indexing::check_bytes;
use super::source::axis;
use crate::graph::{Attrs, OpKind, normalize_axis};
use crate::model::HostTensor;

/// The most blocks that a result is gathered from.
const MOST: usize = 1 << 22;

/// Places before this one are floats without loss.
const EXACT: usize = 1 << 24;

pub(super) fn scatter(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (src, indices, updates) = (node.input(0)?, node.input(1)?, node.input(2)?);
    check_bytes(node, src)?;
    if node.word("reduction", "none")? != "none" {
        return Err(node.unsupported("only updates that replace are written on a device"));
    }
    if updates.data_type != src.data_type {
        let expected = format!("elements of {}", src.data_type);
        return Err(node.invalid("updates", updates.data_type, expected));
    }
    let Some(known) = network.known(indices) else {
        return at_one_place(network, node)?.map(|made| vec![made]).ok_or_else(|| {
            node.unsupported("indices that are given on execution are read for one place along an axis")
        });
    };
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

/// The source with one place along an axis replaced, which indices tell for each element across it or for all of them; none where they tell
/// more. A place that is not there replaces nothing.
fn at_one_place(network: &mut Network, node: &Node) -> Result<Option<Value>> {
    let (src, indices, updates) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let rank = src.rank();
    if rank == 0 || !matches!(indices.data_type, DataType::S32 | DataType::S64) {
        return Ok(None);
    }
    let axis = match node.operator() {
        "ScatterND" => 0,
        _ => normalize_axis(node.int("axis", 0)?, rank)?,
    };
    let extent = src.dims[axis];
    // Of the replaced place, and of what the indices tell.
    let mut place: Vec<usize> = src.dims.to_vec();
    place[axis] = 1;
    let (told, fits) = match node.operator() {
        "ScatterND" => (vec![1; rank], indices.dims.elements() == 1),
        _ => (place.clone(), indices.dims[..] == place[..]),
    };
    if !fits || updates.dims.elements() != place.iter().product::<usize>() {
        return Ok(None);
    }
    let mut indices = network.reshape(node, indices, Dims::new(&told))?;
    // Comparisons of floats and the choice between floats are one function.
    if src.data_type == DataType::F32 && extent < EXACT && !network.is_narrow() {
        indices = network.converted(node, &indices, DataType::F32)?;
    }
    let updates = network.reshape(node, updates, Dims::new(&place))?;
    let mut line = vec![1; rank];
    line[axis] = extent;
    let mut is_there = |first: f64, what: &str| -> Result<Value> {
        let places: Vec<f64> = (0..extent).map(|at| first + at as f64).collect();
        let places = HostTensor::from_f64(Dims::new(&line), indices.data_type, &places)?;
        let places = network.constant(&format!("{}/{what}", node.name()), places)?;
        network.op(node, OpKind::Equal, &[&places, &indices], Attrs::new())
    };
    // Negative ones count from the end.
    let (from_begin, from_end) =
        (is_there(0.0, "places")?, is_there(-(extent as f64), "places from the end")?);
    let is_there = network.op(node, OpKind::Or, &[&from_begin, &from_end], Attrs::new())?;
    network.op(node, OpKind::Select, &[&is_there, &updates, src], Attrs::new()).map(Some)
}

/// `TensorScatter` of one element along the axis, as a decoder keeps the keys and values of one more token: what is new at its place, and what
/// was there elsewhere.
pub(super) fn into_cache(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (src, update) = (node.input(0)?, node.input(1)?);
    check_bytes(node, src)?;
    let rank = src.rank();
    let axis = axis(node, -2, rank)?;
    let mut expected = src.dims.clone();
    expected[axis] = 1;
    let is_linear = node.word("mode", "linear")? == "linear";
    let Some(at) = node.optional(2).filter(|_| axis > 0 && is_linear && update.dims == expected) else {
        return Err(
            node.unsupported(format!("updates of {} to {} are not written here", update.dims, src.dims))
        );
    };
    let mut dims = vec![1; rank];
    dims[0] = src.dims[0];
    let at = network.reshape(node, at, Dims::from(dims.clone()))?;
    (dims[0], dims[axis]) = (1, src.dims[axis]);
    let places: Vec<f64> = (0..src.dims[axis]).map(|place| place as f64).collect();
    let places = HostTensor::from_f64(Dims::from(dims), at.data_type, &places)?;
    let places = network.constant(&format!("{}/places", node.name()), places)?;
    let here = network.op(node, OpKind::Equal, &[&places, &at], Attrs::new())?;
    Ok(vec![network.op(node, OpKind::Select, &[&here, update, src], Attrs::new())?])
}
