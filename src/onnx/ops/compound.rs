//! Operators made of several operations of the graph.

use anydnn_backend::{DataType, Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::indexing::{check_bytes, part};
use super::source::axis;
use super::{floats, known_number};
use crate::graph::{Attrs, OpKind, normalize_axis};
use crate::model::HostTensor;

/// Extents up to which a running sum is a product with a triangle of ones.
const MOST_SUMMED: usize = 1024;

/// `ArgMax` and `ArgMin`: the first or last index among those of the extreme elements.
pub(super) fn extreme_index(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let axis = axis(node, 0, src.rank())?;
    let extent = src.dims[axis];
    // Indices are compared as floats of 24 bits.
    if extent == 0 || extent > 1 << 24 || src.data_type != DataType::F32 {
        return Err(node.unsupported(format!("it is not read for {extent} elements of {}", src.data_type)));
    }
    let largest = node.operator() == "ArgMax";
    let (extreme, compare) = if largest {
        (OpKind::ReduceMax, OpKind::GreaterEqual)
    } else {
        (OpKind::ReduceMin, OpKind::LessEqual)
    };
    let last = node.flag("select_last_index", false)?;
    let (pick, nowhere) =
        if last { (OpKind::ReduceMax, 0.0) } else { (OpKind::ReduceMin, (extent - 1) as f64) };
    let along = |keep: bool| Attrs::new().with("axes", vec![axis as i64]).with("keep_dims", keep);
    let limit = network.op(node, extreme, &[src], along(true))?;
    let found = network.op(node, compare, &[src, &limit], Attrs::new())?;
    let indices = counted(network, node, src.rank(), axis, extent, DataType::F32)?;
    let nowhere = network.scalar(node, nowhere, src)?;
    let places = network.op(node, OpKind::Select, &[&found, &indices, &nowhere], Attrs::new())?;
    let place = network.op(node, pick, &[&places], along(node.flag("keepdims", true)?))?;
    Ok(vec![network.converted(node, &place, DataType::S64)?])
}

/// `Hardmax`: one at the first of the largest elements along an axis, zeros elsewhere.
pub(super) fn hardmax(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let axis = axis(node, -1, src.rank())?;
    let extent = src.dims[axis];
    if node.opset() < 13 || extent == 0 || extent > 1 << 24 || src.data_type != DataType::F32 {
        return Err(node.unsupported(format!("it is not read for {extent} elements of {}", src.data_type)));
    }
    let along = || Attrs::new().with("axes", vec![axis as i64]).with("keep_dims", true);
    let largest = network.op(node, OpKind::ReduceMax, &[src], along())?;
    let found = network.op(node, OpKind::GreaterEqual, &[src, &largest], Attrs::new())?;
    let indices = counted(network, node, src.rank(), axis, extent, DataType::F32)?;
    let behind = network.scalar(node, extent as f64, src)?;
    let places = network.op(node, OpKind::Select, &[&found, &indices, &behind], Attrs::new())?;
    let first = network.op(node, OpKind::ReduceMin, &[&places], along())?;
    let here = network.op(node, OpKind::Equal, &[&indices, &first], Attrs::new())?;
    let (zero, one) = (network.scalar(node, 0.0, src)?, network.scalar(node, 1.0, src)?);
    Ok(vec![network.op(node, OpKind::Select, &[&here, &one, &zero], Attrs::new())?])
}

/// `CumSum` of floats.
pub(super) fn running_sum(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let rank = src.rank();
    let Some(axis) = known_number(network, node, node.input(1)?)? else {
        return Err(node.unsupported("an axis that is given on execution is not read"));
    };
    let axis = normalize_axis(axis as i64, rank)?;
    let extent = src.dims[axis];
    if extent > MOST_SUMMED || src.data_type == DataType::F64 {
        return Err(node.unsupported(format!("sums over {extent} of {} are not made here", src.data_type)));
    }
    let (exclusive, reverse) = (node.flag("exclusive", false)?, node.flag("reverse", false)?);
    let takes = |from: usize, to: usize| {
        let (first, second) = if reverse { (to, from) } else { (from, to) };
        first < second || first == second && !exclusive
    };
    let ones: Vec<f64> =
        (0..extent * extent).map(|i| f64::from(u8::from(takes(i / extent, i % extent)))).collect();
    let triangle = HostTensor::from_f64([extent, extent], src.data_type, &ones)?;
    let triangle = network.constant(&format!("{}/ones", node.name()), triangle)?;
    let mut order: Vec<i64> = (0..rank as i64).collect();
    order.swap(axis, rank - 1);
    let swap = |network: &mut Network, value: &Value| {
        if axis + 1 == rank {
            return Ok(value.clone());
        }
        network.op(node, OpKind::StaticTranspose, &[value], Attrs::new().with("order", order.clone()))
    };
    let turned = swap(network, src)?;
    let flat = network.reshape(node, &turned, [turned.dims.elements() / extent.max(1), extent].into())?;
    let sums = network.op(node, OpKind::MatMul, &[&flat, &triangle], Attrs::new())?;
    let sums = network.reshape(node, &sums, turned.dims.clone())?;
    Ok(vec![swap(network, &sums)?])
}

/// `ReverseSequence`: of each sequence so many elements the other way round, gathered from where they are.
pub(super) fn reverse_sequence(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (src, lengths) = (node.input(0)?, node.input(1)?);
    check_bytes(node, src)?;
    let batch = normalize_axis(node.int("batch_axis", 1)?, src.rank())?;
    let time = normalize_axis(node.int("time_axis", 0)?, src.rank())?;
    if batch + time != 1 || *lengths.dims != [src.dims[batch]] {
        return Err(node.unsupported("only sequences along the first two dimensions are read"));
    }
    let rows = src.dims[0].saturating_mul(src.dims[1]);
    if rows == 0 || rows > i32::MAX as usize {
        return Err(node.unsupported(format!("{rows} elements are not gathered here")));
    }
    let lengths = network.converted(node, lengths, DataType::S32)?;
    let mut dims = [1, 1];
    dims[batch] = src.dims[batch];
    let lengths = network.reshape(node, &lengths, Dims::from(dims))?;
    let [steps, samples] = [time, batch].map(|axis| (axis, src.dims[axis]));
    let steps = counted(network, node, 2, steps.0, steps.1, DataType::S32)?;
    let samples = counted(network, node, 2, samples.0, samples.1, DataType::S32)?;
    let turns = network.op(node, OpKind::Less, &[&steps, &lengths], Attrs::new())?;
    let one = network.scalar(node, 1.0, &lengths)?;
    let last = network.op(node, OpKind::Subtract, &[&lengths, &one], Attrs::new())?;
    let turned = network.op(node, OpKind::Subtract, &[&last, &steps], Attrs::new())?;
    let from = network.op(node, OpKind::Select, &[&turns, &turned, &steps], Attrs::new())?;
    // A row of all behind those of the first dimension's elements before it.
    let inner = network.scalar(node, src.dims[1] as f64, &from)?;
    let (first, second) = if time == 0 { (&from, &samples) } else { (&samples, &from) };
    let start = network.op(node, OpKind::Multiply, &[first, &inner], Attrs::new())?;
    let places = network.op(node, OpKind::Add, &[&start, second], Attrs::new())?;
    let flat = Dims::from([&[rows], &src.dims[2..]].concat());
    let flat = network.reshape(node, src, flat)?;
    let places = network.reshape(node, &places, Dims::from([rows]))?;
    let attrs = Attrs::new().with("mode", "axis").with("axis", 0_i64);
    let made = network.op(node, OpKind::Gather, &[&flat, &places], attrs)?;
    Ok(vec![network.reshape(node, &made, src.dims.clone())?])
}

/// `OneHot`: one of two values, by whether an index is that of the place.
pub(super) fn one_hot(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (given, values) = (node.input(0)?, node.input(2)?);
    if !matches!(given.data_type, DataType::S32 | DataType::S64) || values.dims.elements() != 2 {
        return Err(node.unsupported(format!("indices of {} are not read", given.data_type)));
    }
    let depth = known_number(network, node, node.input(1)?)?;
    let Some(depth) = depth.filter(|depth| (0.0..=f64::from(1 << 24)).contains(depth)) else {
        return Err(node.unsupported("a depth that is given on execution is not read"));
    };
    let rank = given.rank() + 1;
    let axis = normalize_axis(node.int("axis", -1)?, rank)?;
    let mut dims = given.dims.to_vec();
    dims.insert(axis, 1);
    let indices = network.reshape(node, given, Dims::from(dims))?;
    let (zero, number) = (network.scalar(node, 0.0, given)?, network.scalar(node, depth, given)?);
    let negative = network.op(node, OpKind::Less, &[&indices, &zero], Attrs::new())?;
    let turned = network.op(node, OpKind::Add, &[&indices, &number], Attrs::new())?;
    let indices = network.op(node, OpKind::Select, &[&negative, &turned, &indices], Attrs::new())?;
    let places = counted(network, node, rank, axis, depth as usize, given.data_type)?;
    let here = network.op(node, OpKind::Equal, &[&indices, &places], Attrs::new())?;
    let (off, on) = (part(network, node, values, 0, 0, 1)?, part(network, node, values, 0, 1, 1)?);
    Ok(vec![network.op(node, OpKind::Select, &[&here, &on, &off], Attrs::new())?])
}

/// `Trilu`: what is above or below a diagonal, and zeros.
pub(super) fn triangle(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = node.input(0)?;
    let [.., height, width] = src.dims[..] else {
        return Err(node.invalid("input", &src.dims, "at least two dimensions"));
    };
    let diagonal = match node.optional(1) {
        Some(value) => known_number(network, node, value)?,
        None => Some(0.0),
    };
    let Some(diagonal) = diagonal else {
        return Err(node.unsupported("a diagonal that is given on execution is not read"));
    };
    let (upper, diagonal) = (node.flag("upper", true)?, diagonal as i64);
    super::super::tensor::check_size(&Dims::from([height, width]), DataType::F64)?;
    if height.saturating_mul(width) > 1 << 24 {
        return Err(node.unsupported(format!("triangles of {height} times {width} are not read")));
    }
    let kept = |i: usize| {
        let beyond = (i % width) as i64 - (i / width) as i64 - diagonal;
        f64::from(u8::from(if upper { beyond >= 0 } else { beyond <= 0 }))
    };
    let mask: Vec<f64> = (0..height * width).map(kept).collect();
    let mask = HostTensor::from_f64([height, width], DataType::Boolean, &mask)?;
    let mask = network.constant(&format!("{}/mask", node.name()), mask)?;
    let zero = network.scalar(node, 0.0, src)?;
    Ok(vec![network.op(node, OpKind::Select, &[&mask, src, &zero], Attrs::new())?])
}

/// The indices along one of `rank` dimensions, the others being one.
fn counted(
    network: &mut Network,
    node: &Node,
    rank: usize,
    axis: usize,
    extent: usize,
    data_type: DataType,
) -> Result<Value> {
    let mut dims = vec![1; rank];
    dims[axis] = extent;
    let values: Vec<f64> = (0..extent).map(|i| i as f64).collect();
    let tensor = HostTensor::from_f64(Dims::from(dims), data_type, &values)?;
    network.constant(&format!("{}/indices", node.name()), tensor)
}
