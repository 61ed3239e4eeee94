//! Elements in other places: slices, paddings, repetitions, elements by indices.

use anydnn_backend::{DataType, Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::super::{host, tensor};
use super::source::axis;
use super::{input_or_ints, known_ints, known_number};
use crate::graph::{Attrs, OpKind, normalize_axis};
use crate::model::HostTensor;

pub(super) fn slice(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    if let Some(part) = stretch(network, node)? {
        return Ok(vec![part]);
    }
    let src = node.input(0)?;
    let missing = |name: &str| node.invalid(name, "missing", "a list of integers");
    let starts = input_or_ints(network, node, 1, "starts")?.ok_or_else(|| missing("starts"))?;
    let ends = input_or_ints(network, node, 2, "ends")?.ok_or_else(|| missing("ends"))?;
    let axes = input_or_ints(network, node, 3, "axes")?;
    let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = input_or_ints(network, node, 4, "steps")?.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        let expected = "starts, ends, axes and steps for each axis";
        return Err(node.invalid("lists", "of different lengths", expected));
    }
    let mut map = Map::new(src);
    for (i, &axis) in axes.iter().enumerate() {
        let axis = normalize_axis(axis, src.rank())?;
        let (extent, step) = (src.dims[axis] as i64, steps[i]);
        if step == 0 || step == i64::MIN {
            return Err(node.invalid("step", step, "a distance other than zero"));
        }
        let from_front = |index: i64| if index < 0 { index.saturating_add(extent) } else { index };
        // Backwards the element before the first may be the end.
        let (low, high) = if step > 0 { (0, extent) } else { (-1, extent - 1) };
        let start = from_front(starts[i]).clamp(0, high.max(0));
        let end = from_front(ends[i]).clamp(low, high.max(low));
        let span = if step > 0 { end - start } else { start - end };
        let count = usize::try_from(span).unwrap_or(0).div_ceil(step.unsigned_abs() as usize);
        map.dims[axis] = if extent == 0 { 0 } else { count };
        // A step beyond the only element is no step.
        let step = if count > 1 { step } else { 1 };
        (map.starts[axis], map.steps[axis]) = (start, step);
    }
    Ok(vec![map.apply(network, node, src)?])
}

/// A few elements along one axis from where each round of a loop says, which are gathered: a graph for each place would be one for each round.
fn stretch(network: &mut Network, node: &Node) -> Result<Option<Value>> {
    let (src, Some(start), Some(end)) = (node.input(0)?, node.optional(1), node.optional(2)) else {
        return Ok(None);
    };
    let is_known = |index: usize| node.optional(index).is_none_or(|value| network.is_known(value));
    if start.rank() != 1 || src.data_type.bits() < 8 || !is_known(3) || !is_known(4) {
        return Ok(None);
    }
    let (axes, steps) = (input_or_ints(network, node, 3, "axes")?, input_or_ints(network, node, 4, "steps")?);
    let (axis, step) = match (axes.as_deref().unwrap_or(&[0]), steps.as_deref().unwrap_or(&[1])) {
        (&[axis], &[step]) => (normalize_axis(axis, src.rank())?, step),
        _ => return Ok(None),
    };
    if step != 1 {
        return Ok(None);
    }
    let Some(length) = network.stretch(start, end, src.dims[axis]) else { return Ok(None) };
    let mut places = start.clone();
    if length > 1 {
        let behind: Vec<f64> = (0..length).map(|at| at as f64).collect();
        let behind = HostTensor::from_f64([length], start.data_type, &behind)?;
        let behind = network.constant(&format!("{}/places", node.name()), behind)?;
        places = network.op(node, OpKind::Add, &[start, &behind], Attrs::new())?;
    }
    let attrs = Attrs::new().with("mode", "axis").with("axis", axis as i64);
    network.op(node, OpKind::Gather, &[src, &places], attrs).map(Some)
}

pub(super) fn split(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = node.input(0)?;
    let axis = axis(node, 0, src.rank())?;
    let extent = src.dims[axis];
    let parts = node.output_count();
    let sizes = input_or_ints(network, node, 1, "split")?.unwrap_or_else(|| {
        // The last part is the smaller one.
        let part = extent.div_ceil(parts.max(1));
        (0..parts).map(|i| extent.saturating_sub(i * part).min(part) as i64).collect()
    });
    let total = sizes.iter().try_fold(0_usize, |total, &size| total.checked_add(usize::try_from(size).ok()?));
    if total != Some(extent) || sizes.len() != parts {
        let expected = format!("{parts} sizes that make {extent}");
        return Err(node.invalid("split", format!("{sizes:?}"), expected));
    }
    let mut start = 0;
    let mut made = Vec::with_capacity(parts);
    for size in sizes {
        let mut map = Map::new(src);
        map.dims[axis] = size as usize;
        map.starts[axis] = start;
        start += size;
        made.push(map.apply(network, node, src)?);
    }
    Ok(made)
}

/// A stretch along an axis.
pub(super) fn part(
    network: &mut Network,
    node: &Node,
    value: &Value,
    axis: usize,
    start: usize,
    count: usize,
) -> Result<Value> {
    let mut map = Map::new(value);
    map.dims[axis] = count;
    map.starts[axis] = start as i64;
    map.apply(network, node, value)
}

/// The elements along an axis the other way round.
pub(super) fn reversed(network: &mut Network, node: &Node, value: &Value, axis: usize) -> Result<Value> {
    let mut map = Map::new(value);
    map.starts[axis] = value.dims[axis].saturating_sub(1) as i64;
    map.steps[axis] = -1;
    map.apply(network, node, value)
}

pub(super) fn pad(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = node.input(0)?;
    let rank = src.rank();
    let pads = input_or_ints(network, node, 1, "pads")?;
    let pads = pads.ok_or_else(|| node.invalid("pads", "missing", "a list of integers"))?;
    let axes: Vec<usize> = match input_or_ints(network, node, 3, "axes")? {
        Some(axes) => axes.iter().map(|&axis| normalize_axis(axis, rank)).collect::<Result<_>>()?,
        None => (0..rank).collect(),
    };
    if pads.len() != 2 * axes.len() {
        let expected = format!("two numbers for each of {} axes", axes.len());
        return Err(node.invalid("pads", format!("{pads:?}"), expected));
    }
    let border = match node.word("mode", "constant")?.as_str() {
        "constant" => "fill",
        "edge" => "edge",
        "reflect" => "reflect",
        "wrap" => "wrap",
        other => return Err(node.invalid("attribute mode", other, "constant, reflect, edge or wrap")),
    };
    let mut map = Map { border, ..Map::new(src) };
    for (i, &axis) in axes.iter().enumerate() {
        let (before, behind) = (pads[i], pads[axes.len() + i]);
        let dim = (src.dims[axis] as i64).checked_add(before).and_then(|dim| dim.checked_add(behind));
        let dim = dim.and_then(|dim| usize::try_from(dim).ok());
        map.dims[axis] = dim.ok_or_else(|| {
            node.invalid(
                "pads",
                format!("{pads:?}"),
                format!("no more taken from {} than there is", src.dims),
            )
        })?;
        map.starts[axis] = -before;
    }
    let fill = if border != "fill" {
        None
    } else if node.has("value") {
        Some(network.scalar(node, f64::from(node.float("value", 0.0)?), src)?)
    } else {
        node.optional(2).cloned()
    };
    let fill = match fill {
        // Zero bits are there without it; those of negative zero are others.
        Some(fill) => match known_number(network, node, &fill)? {
            Some(0.0) if !fill.data_type.is_float() => None,
            Some(number) if number.to_bits() == 0 => None,
            _ => Some(fill),
        },
        None => None,
    };
    Ok(vec![map.filled(network, node, src, fill.as_ref())?])
}

pub(super) fn tile(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = node.input(0)?;
    let repeats = known_ints(network, node, node.input(1)?, "repeats")?;
    let mut map = Map { border: "wrap", ..Map::new(src) };
    let fits: Option<Vec<usize>> = repeats.iter().map(|&count| usize::try_from(count).ok()).collect();
    let Some(counts) = fits.filter(|counts| counts.len() == src.rank()) else {
        let expected = format!("a number for each dimension of {}", src.dims);
        return Err(node.invalid("repeats", format!("{repeats:?}"), expected));
    };
    for (dim, count) in map.dims.iter_mut().zip(counts) {
        *dim = dim.saturating_mul(count);
    }
    Ok(vec![map.apply(network, node, src)?])
}

pub(super) fn expand(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = node.input(0)?;
    let shape = known_ints(network, node, node.input(1)?, "the new dimensions")?;
    let dims = src.dims.broadcast(&tensor::dims(&shape, src.data_type)?)?;
    let src = network.reshape(node, src, src.dims.padded_to_rank(dims.len()))?;
    let map = Map { dims, border: "wrap", ..Map::new(&src) };
    Ok(vec![map.apply(network, node, &src)?])
}

pub(super) fn gather(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (src, indices) = (node.input(0)?, node.input(1)?);
    let axis = axis(node, 0, src.rank())?;
    if let Some(first) = network.known(indices).and_then(consecutive) {
        // Known indices one after the other are a slice.
        let count = indices.dims.elements();
        let start = normalize_axis(first, src.dims[axis]).map_err(|error| node.place(error))?;
        normalize_axis(first.saturating_add(count as i64 - 1), src.dims[axis])
            .map_err(|error| node.place(error))?;
        let mut map = Map::new(src);
        (map.dims[axis], map.starts[axis]) = (count, start as i64);
        let part = map.apply(network, node, src)?;
        let dims = [&src.dims[..axis], &indices.dims, &src.dims[axis + 1..]].concat();
        return Ok(vec![network.reshape(node, &part, Dims::new(&dims))?]);
    }
    // Of one part there is, one index says nothing.
    if src.dims[axis] == 1 && indices.dims.elements() == 1 {
        check_indices(node, indices)?;
        let dims = [&src.dims[..axis], &indices.dims, &src.dims[axis + 1..]].concat();
        return Ok(vec![network.reshape(node, src, Dims::new(&dims))?]);
    }
    let attrs = Attrs::new().with("mode", "axis").with("axis", axis as i64);
    chosen(network, node, attrs)
}

/// The first of indices of which each is one more than the one before, all on the same side of zero.
fn consecutive(indices: &HostTensor) -> Option<i64> {
    let indices = host::ints(indices)?;
    let (&first, &last) = (indices.first()?, indices.last()?);
    let follows = indices.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]));
    (follows && (first < 0) == (last < 0)).then_some(first)
}

pub(super) fn gather_elements(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let axis = axis(node, 0, node.input(0)?.rank())?;
    chosen(network, node, Attrs::new().with("mode", "elements").with("axis", axis as i64))
}

pub(super) fn gather_lists(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let batch = node.int("batch_dims", 0)?;
    chosen(network, node, Attrs::new().with("mode", "lists").with("batch_dims", batch))
}

fn check_indices(node: &Node, indices: &Value) -> Result<()> {
    match indices.data_type {
        DataType::S32 | DataType::S64 => Ok(()),
        other => Err(node.invalid("type of the indices", other, "int32 or int64")),
    }
}

fn chosen(network: &mut Network, node: &Node, attrs: Attrs) -> Result<Vec<Value>> {
    let (src, indices) = (node.input(0)?, node.input(1)?);
    check_bytes(node, src)?;
    check_indices(node, indices)?;
    Ok(vec![network.op(node, OpKind::Gather, &[src, indices], attrs)?])
}

pub(super) fn depth_to_space(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (src, block) = blocks(node)?;
    let [images, channels, height, width] = src.dims[..] else { return Err(no_image(node, src)) };
    let Some(depth) = channels.checked_div(block * block).filter(|depth| depth * block * block == channels)
    else {
        return Err(node.invalid("channels", channels, format!("a multiple of {block} times {block}")));
    };
    let (split, order) = match node.word("mode", "DCR")?.as_str() {
        "CRD" => ([images, depth, block, block, height, width], [0, 1, 4, 2, 5, 3]),
        _ => ([images, block, block, depth, height, width], [0, 3, 4, 1, 5, 2]),
    };
    let to = [images, depth, height * block, width * block];
    reordered(network, node, src, &split, order, &to)
}

pub(super) fn space_to_depth(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (src, block) = blocks(node)?;
    let [images, channels, height, width] = src.dims[..] else { return Err(no_image(node, src)) };
    if !height.is_multiple_of(block) || !width.is_multiple_of(block) {
        return Err(node.invalid("height and width", &src.dims, format!("multiples of {block}")));
    }
    let split = [images, channels, height / block, block, width / block, block];
    let to = [images, channels * block * block, height / block, width / block];
    reordered(network, node, src, &split, [0, 3, 5, 1, 2, 4], &to)
}

/// The source and the side of its blocks.
fn blocks<'a>(node: &'a Node) -> Result<(&'a Value, usize)> {
    let block = node.int("blocksize", 0)?;
    let wrong = || node.invalid("attribute blocksize", block, "1 to 65536");
    let block = usize::try_from(block).ok().filter(|block| (1..=65536).contains(block)).ok_or_else(wrong)?;
    Ok((node.input(0)?, block))
}

fn no_image(node: &Node, src: &Value) -> anydnn_backend::Error {
    node.invalid("input", &src.dims, "four dimensions")
}

/// Dimensions taken apart, put into another order and together again.
fn reordered(
    network: &mut Network,
    node: &Node,
    src: &Value,
    split: &[usize],
    order: [i64; 6],
    to: &[usize],
) -> Result<Vec<Value>> {
    let apart = network.reshape(node, src, Dims::new(split))?;
    let attrs = Attrs::new().with("order", order);
    let moved = network.op(node, OpKind::StaticTranspose, &[&apart], attrs)?;
    Ok(vec![network.reshape(node, &moved, Dims::new(to))?])
}

pub(super) fn check_bytes(node: &Node, value: &Value) -> Result<()> {
    if value.data_type.bits() >= 8 {
        return Ok(());
    }
    Err(node.unsupported(format!("elements of {} are not moved on a device", value.data_type)))
}

/// Where elements come from, along each dimension.
struct Map {
    dims: Dims,
    starts: Vec<i64>,
    steps: Vec<i64>,
    border: &'static str,
}

impl Map {
    /// Everything where it is.
    fn new(src: &Value) -> Self {
        let rank = src.rank();
        Self { dims: src.dims.clone(), starts: vec![0; rank], steps: vec![1; rank], border: "fill" }
    }

    fn apply(self, network: &mut Network, node: &Node, src: &Value) -> Result<Value> {
        self.filled(network, node, src, None)
    }

    fn filled(self, network: &mut Network, node: &Node, src: &Value, fill: Option<&Value>) -> Result<Value> {
        let still = self.starts.iter().all(|&start| start == 0) && self.steps.iter().all(|&step| step == 1);
        if still && self.dims == src.dims {
            return Ok(src.clone());
        }
        check_bytes(node, src)?;
        tensor::check_size(&self.dims, src.data_type)?;
        let shape: Vec<i64> = self.dims.iter().map(|&dim| dim as i64).collect();
        let attrs = Attrs::new()
            .with("starts", self.starts)
            .with("steps", self.steps)
            .with("shape", shape)
            .with("border", self.border);
        let inputs: Vec<&Value> = std::iter::once(src).chain(fill).collect();
        network.op(node, OpKind::Remap, &inputs, attrs)
    }
}
