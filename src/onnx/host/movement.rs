//! Elements in other places.

use anydnn_backend::{Dims, Result};

use super::super::axes::transpose_order;
use super::super::tensor::dims as checked_dims;
use super::super::views;
use super::call::Call;
use super::numbers::{around, cells, of_cells, picked, picked_or, places, product, strides, walk};
use crate::graph::normalize_axis;
use crate::model::HostTensor;

pub(in crate::onnx) fn identity(call: &mut Call) -> Result<Vec<HostTensor>> {
    Ok(vec![call.tensor(0)?.clone()])
}

pub(in crate::onnx) fn reshape(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let dims = views::reshaped(call.node, src.dims(), &call.ints(1)?)?;
    Ok(vec![src.clone().reshaped(dims)?])
}

pub(in crate::onnx) fn squeeze(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let axes = call.int_list(1, "axes")?;
    Ok(vec![src.clone().reshaped(views::squeezed(call.node, src.dims(), axes.as_deref())?)?])
}

pub(in crate::onnx) fn unsqueeze(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let axes = call.int_list(1, "axes")?;
    Ok(vec![src.clone().reshaped(views::unsqueezed(call.node, src.dims(), axes.as_deref())?)?])
}

pub(in crate::onnx) fn gather(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (src, indices) = (call.tensor(0)?, call.tensor(1)?);
    let axis = call.axis(0, src.dims().len())?;
    let taken = positions(call, &call.ints(1)?, src.dims()[axis])?;
    let (outer, extent, inner) = around(src.dims(), axis);
    let (before, after) = (&src.dims()[..axis], &src.dims()[axis + 1..]);
    let dims: Dims = before.iter().chain(indices.dims().iter()).chain(after).copied().collect();
    call.take(&dims, src.data_type())?;
    let taken = &taken;
    let blocks = (0..outer).flat_map(|o| taken.iter().map(move |index| (o * extent + index) * inner));
    Ok(vec![picked(src, dims, blocks.flat_map(|start| start..start + inner))?])
}

/// Indices counted from the front, all within an extent.
pub(super) fn positions(call: &Call, indices: &[i64], extent: usize) -> Result<Vec<usize>> {
    let at = |index: &i64| {
        normalize_axis(*index, extent)
            .map_err(|_| call.invalid("index", index, format!("within a dimension of {extent}")))
    };
    indices.iter().map(at).collect()
}

pub(in crate::onnx) fn slice(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let missing = |name: &str| call.invalid(name, "missing", "a list of integers");
    let starts = call.int_list(1, "starts")?.ok_or_else(|| missing("starts"))?;
    let ends = call.int_list(2, "ends")?.ok_or_else(|| missing("ends"))?;
    let axes = call.int_list(3, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = call.int_list(4, "steps")?.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        let expected = "starts, ends, axes and steps for each axis";
        return Err(call.invalid("lists", "of different lengths", expected));
    }
    let mut dims = src.dims().clone();
    let mut strides = strides(src.dims());
    let mut first = 0;
    for (i, &axis) in axes.iter().enumerate() {
        let axis = normalize_axis(axis, dims.len())?;
        let (extent, step) = (src.dims()[axis] as i64, steps[i]);
        if step == 0 || step == i64::MIN {
            return Err(call.invalid("step", step, "a distance other than zero"));
        }
        let from_front = |index: i64| if index < 0 { index.saturating_add(extent) } else { index };
        // Backwards the element before the first may be the end.
        let (low, high) = if step > 0 { (0, extent) } else { (-1, extent - 1) };
        let start = from_front(starts[i]).clamp(0, high.max(0));
        let end = from_front(ends[i]).clamp(low, high.max(low));
        let span = if step > 0 { end - start } else { start - end };
        let span = if extent == 0 { 0 } else { usize::try_from(span).unwrap_or(0) };
        dims[axis] = span.div_ceil(step.unsigned_abs() as usize);
        first += start * strides[axis];
        // With at most one element there is no next one, however far it would be.
        strides[axis] = if dims[axis] > 1 { strides[axis] * step } else { 0 };
    }
    call.take(&dims, src.data_type())?;
    let places = if dims.elements() == 0 { Vec::new() } else { walk(&dims, &strides, first) };
    Ok(vec![picked(src, dims, places)?])
}

/// Parts along an axis: of given sizes, of `num_outputs`, or as many as there are outputs.
pub(in crate::onnx) fn split(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let axis = call.axis(0, src.dims().len())?;
    let extent = src.dims()[axis];
    let sizes: Vec<usize> = if let Some(sizes) = call.int_list(1, "split")? {
        checked_dims(&sizes, src.data_type())?.to_vec()
    } else {
        let count = usize::try_from(call.node.int("num_outputs", call.node.outputs() as i64)?).unwrap_or(0);
        if count == 0 || count > extent.max(1) {
            return Err(call.invalid("number of parts", count, format!("from 1 to {extent}")));
        }
        let size = extent.div_ceil(count);
        (0..count).map(|i| size.min(extent.saturating_sub(i * size))).collect()
    };
    if sizes.iter().copied().fold(0, usize::saturating_add) != extent {
        return Err(call.invalid("parts", format!("{sizes:?}"), format!("sizes with the sum {extent}")));
    }
    let strides = strides(src.dims());
    let (mut parts, mut start) = (Vec::new(), 0);
    for size in sizes {
        let mut dims = src.dims().clone();
        dims[axis] = size;
        let places =
            if dims.elements() == 0 { Vec::new() } else { walk(&dims, &strides, start * strides[axis]) };
        call.take(&dims, src.data_type())?;
        parts.push(picked(src, dims, places)?);
        start += size as i64;
    }
    Ok(parts)
}

pub(in crate::onnx) fn concat(call: &mut Call) -> Result<Vec<HostTensor>> {
    let inputs = call.all()?;
    let axis = call.axis(1, inputs[0].dims().len())?;
    Ok(vec![concat_along(call, &inputs, axis)?])
}

/// Tensors one after the other along an axis.
pub(super) fn concat_along(call: &mut Call, inputs: &[&HostTensor], axis: usize) -> Result<HostTensor> {
    let first = inputs[0];
    let mut dims = first.dims().clone();
    dims[axis] = 0;
    let mut sources = Vec::with_capacity(inputs.len());
    for src in inputs {
        let fits = src.data_type() == first.data_type()
            && src.dims().len() == dims.len()
            && (0..dims.len()).all(|d| d == axis || src.dims()[d] == first.dims()[d]);
        if !fits {
            let expected = format!("the type and, but for axis {axis}, the dimensions of {}", first.desc());
            return Err(call.invalid("input", src.desc(), expected));
        }
        dims[axis] = dims[axis].saturating_add(src.dims()[axis]);
        let cells = cells(src);
        let row = product(&src.dims()[axis..]) * cells.size;
        sources.push((cells.bytes, row));
    }
    call.take(&dims, first.data_type())?;
    let outer = product(&dims[..axis]);
    let rows =
        (0..outer).flat_map(|o| sources.iter().map(move |(bytes, row)| &bytes[o * row..(o + 1) * row]));
    let bytes: Vec<u8> = rows.flatten().copied().collect();
    of_cells(dims, first.data_type(), bytes)
}

pub(in crate::onnx) fn expand(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let shape = call.ints(1)?;
    let dims = src.dims().broadcast(&checked_dims(&shape, src.data_type())?)?;
    call.take(&dims, src.data_type())?;
    let places = places(src.dims(), &dims);
    Ok(vec![picked(src, dims, places)?])
}

pub(in crate::onnx) fn tile(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let repeats = checked_dims(&call.ints(1)?, src.data_type())?;
    if repeats.len() != src.dims().len() {
        return Err(call.invalid("repeats", repeats, "one for each dimension"));
    }
    let dims: Dims =
        src.dims().iter().zip(repeats.iter()).map(|(&dim, &times)| dim.saturating_mul(times)).collect();
    call.take(&dims, src.data_type())?;
    let strides = src.dims().row_major_strides();
    // Each dimension is one of repeats, which do not move, and one of the source.
    let both: Vec<usize> =
        repeats.iter().zip(src.dims().iter()).flat_map(|(&times, &dim)| [times, dim]).collect();
    let steps: Vec<i64> = strides.iter().flat_map(|&stride| [0, stride as i64]).collect();
    Ok(vec![picked(src, dims, walk(&both, &steps, 0))?])
}

pub(in crate::onnx) fn transpose(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let order = transpose_order(call.node, src.dims().len())?;
    call.take(src.dims(), src.data_type())?;
    Ok(vec![transposed(src, &order)?])
}

/// A tensor with its dimensions in another order.
pub(super) fn transposed(src: &HostTensor, order: &[usize]) -> Result<HostTensor> {
    let strides = strides(src.dims());
    let dims: Dims = order.iter().map(|&axis| src.dims()[axis]).collect();
    let moved: Vec<i64> = order.iter().map(|&axis| strides[axis]).collect();
    let places = walk(&dims, &moved, 0);
    picked(src, dims, places)
}

/// Channels become blocks of the image.
pub(in crate::onnx) fn depth_to_space(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.ranked(0, 4)?;
    let block = block(call)?;
    let [n, c, h, w] = [0, 1, 2, 3].map(|i| src.dims()[i]);
    if !c.is_multiple_of(block * block) {
        return Err(call.invalid("channels", c, format!("a multiple of {}", block * block)));
    }
    let depth = c / (block * block);
    let (split, order) = if call.node.word("mode", "DCR")? == "CRD" {
        ([n, depth, block, block, h, w], [0, 1, 4, 2, 5, 3])
    } else {
        ([n, block, block, depth, h, w], [0, 3, 4, 1, 5, 2])
    };
    call.take(src.dims(), src.data_type())?;
    let moved = transposed(&src.clone().reshaped(split)?, &order)?;
    Ok(vec![moved.reshaped([n, depth, h * block, w * block])?])
}

/// Blocks of the image become channels.
pub(in crate::onnx) fn space_to_depth(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.ranked(0, 4)?;
    let block = block(call)?;
    let [n, c, h, w] = [0, 1, 2, 3].map(|i| src.dims()[i]);
    if !h.is_multiple_of(block) || !w.is_multiple_of(block) {
        return Err(call.invalid("source", src.desc(), format!("an image of blocks of {block}")));
    }
    call.take(src.dims(), src.data_type())?;
    let split = src.clone().reshaped([n, c, h / block, block, w / block, block])?;
    let moved = transposed(&split, &[0, 3, 5, 1, 2, 4])?;
    Ok(vec![moved.reshaped([n, c * block * block, h / block, w / block])?])
}

fn block(call: &Call) -> Result<usize> {
    let given = call.node.int("blocksize", 0)?;
    let block = usize::try_from(given).ok().filter(|block| (1..1 << 16).contains(block));
    block.ok_or_else(|| call.invalid("attribute blocksize", given, "at least 1"))
}

/// Sequences of a batch, each reversed up to its length.
pub(in crate::onnx) fn reverse_sequence(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (src, lengths) = (call.tensor(0)?, call.ints(1)?);
    let rank = src.dims().len();
    let batch = normalize_axis(call.node.int("batch_axis", 1)?, rank)?;
    let time = normalize_axis(call.node.int("time_axis", 0)?, rank)?;
    let (count, steps) = (src.dims()[batch], src.dims()[time] as i64);
    if batch == time || lengths.len() != count || lengths.iter().any(|length| !(0..=steps).contains(length)) {
        let expected = format!("one from 0 to {steps} for each of {count} sequences");
        return Err(call.invalid("lengths", format!("{lengths:?}"), expected));
    }
    call.take(src.dims(), src.data_type())?;
    let strides = strides(src.dims());
    let places = src.dims().indices().map(|index| {
        let (at, length) = (index[time] as i64, lengths[index[batch]]);
        let from = if at < length { length - 1 - at } else { at };
        let place: i64 = index.iter().zip(&strides).map(|(&i, stride)| i as i64 * stride).sum();
        (place + (from - at) * strides[time]) as usize
    });
    Ok(vec![picked(src, src.dims().clone(), places)?])
}

/// The upper or lower triangle of matrices, zero elsewhere.
pub(in crate::onnx) fn triangle(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let rank = src.dims().len();
    if rank < 2 {
        return Err(call.invalid("input 0", src.desc(), "at least two dimensions"));
    }
    let (rows, columns) = (src.dims()[rank - 2], src.dims()[rank - 1]);
    let (upper, shift) = (call.node.flag("upper", true)?, call.int(1)?.unwrap_or(0));
    call.take(src.dims(), src.data_type())?;
    let places = (0..src.dims().elements()).map(|place| {
        let (row, column) = ((place / columns % rows) as i64, (place % columns) as i64);
        let right = column.saturating_sub(row);
        (if upper { right >= shift } else { right <= shift }).then_some(place)
    });
    Ok(vec![picked_or(src, src.dims().clone(), places, &[0; 8])?])
}
