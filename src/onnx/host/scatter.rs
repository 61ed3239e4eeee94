//! Elements read from and written to places that indices give.

use anydnn_backend::{DataType, Dims, Result};

use super::call::Call;
use super::movement::positions;
use super::numbers::{Number, around, cells, each, of_cells, picked, places, product, strides};
use crate::graph::normalize_axis;
use crate::model::HostTensor;
use crate::onnx::node::Node;
use crate::onnx::room::Room;

/// Along an axis, each element from a place of its own.
pub(in crate::onnx) fn gather_elements(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (src, indices) = (call.tensor(0)?, call.tensor(1)?);
    let places = along(call, src.dims(), indices.dims(), 1)?;
    call.take(indices.dims(), src.data_type())?;
    Ok(vec![picked(src, indices.dims().clone(), places)?])
}

/// The places in a tensor that the known indices of a `ScatterElements` name.
pub(in crate::onnx) fn element_places(node: &Node, dims: &Dims, indices: &HostTensor) -> Result<Vec<usize>> {
    let inputs = [None, Some(indices)];
    along(&Call::new(node, &inputs, &mut Room::default()), dims, indices.dims(), 1)
}

/// Where the blocks begin that the known indices of a `ScatterND` name, and how many elements each has.
pub(in crate::onnx) fn list_places(
    node: &Node,
    dims: &Dims,
    indices: &HostTensor,
) -> Result<(Vec<usize>, usize)> {
    let inputs = [None, Some(indices)];
    blocks(&Call::new(node, &inputs, &mut Room::default()), dims, indices, 0)
}

/// The places in a tensor that indices along an axis name.
fn along(call: &Call, dims: &Dims, indices: &Dims, input: usize) -> Result<Vec<usize>> {
    let axis = call.axis(0, dims.len())?;
    let within =
        (0..dims.len()).all(|d| d == axis || indices.get(d).is_some_and(|&extent| extent <= dims[d]));
    if indices.len() != dims.len() || !within {
        return Err(call.invalid("indices", indices, format!("dimensions within {dims}")));
    }
    let taken = positions(call, &call.ints(input)?, dims[axis])?;
    if (0..dims.len()).all(|d| d == axis || indices[d] == dims[d]) {
        let (_, extent, inner) = around(dims, axis);
        let line = indices[axis] * inner;
        let place = |(at, taken): (usize, usize)| (at / line * extent + taken) * inner + at % inner;
        return Ok(taken.into_iter().enumerate().map(place).collect());
    }
    let strides = dims.row_major_strides();
    let place = |(index, taken): (Dims, usize)| {
        (0..dims.len()).map(|d| if d == axis { taken } else { index[d] } * strides[d]).sum()
    };
    Ok(indices.indices().zip(taken).map(place).collect())
}

/// Writes updates along an axis, each to a place of its own, or combines them with what is there.
pub(in crate::onnx) fn scatter_elements(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (src, updates) = (call.tensor(0)?, call.tensor(2)?);
    let places = along(call, src.dims(), updates.dims(), 1)?;
    if call.tensor(1)?.dims() != updates.dims() {
        return Err(call.invalid("updates", updates.desc(), "the dimensions of the indices"));
    }
    written(call, src, updates, &places)
}

/// Blocks that tuples of indices name, after dimensions of batches.
pub(in crate::onnx) fn gather_nd(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (src, indices) = (call.tensor(0)?, call.tensor(1)?);
    let batch = usize::try_from(call.node.int("batch_dims", 0)?).unwrap_or(usize::MAX);
    let (starts, inner) = blocks(call, src.dims(), indices, batch)?;
    let depth = batch + indices.dims().last().copied().unwrap_or(0);
    let leading = &indices.dims()[..indices.dims().len() - 1];
    let dims: Dims = leading.iter().chain(&src.dims()[depth..]).copied().collect();
    call.take(&dims, src.data_type())?;
    Ok(vec![picked(src, dims, starts.into_iter().flat_map(|start| start..start + inner))?])
}

/// Writes blocks to where tuples of indices say, or combines them with what is there.
pub(in crate::onnx) fn scatter_nd(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (src, indices, updates) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let (starts, inner) = blocks(call, src.dims(), indices, 0)?;
    let places: Vec<usize> = starts.into_iter().flat_map(|start| start..start + inner).collect();
    if places.len() != updates.dims().elements() {
        return Err(call.invalid("updates", updates.desc(), format!("{} elements", places.len())));
    }
    written(call, src, updates, &places)
}

/// Where the blocks begin that tuples of indices name, and how many elements each has.
fn blocks(call: &Call, dims: &Dims, indices: &HostTensor, batch: usize) -> Result<(Vec<usize>, usize)> {
    let rank = indices.dims().len();
    let length = indices.dims().last().copied().unwrap_or(0);
    let fits = batch < rank
        && batch.saturating_add(length) <= dims.len()
        && dims[..batch] == indices.dims()[..batch];
    if !fits {
        return Err(call.invalid("indices", indices.desc(), format!("tuples of indices for {dims}")));
    }
    let values = call.ints(1)?;
    let strides = dims.row_major_strides();
    let tuples = product(&indices.dims()[..rank - 1]);
    let batches = product(&dims[..batch]);
    let each = tuples / batches.max(1);
    let size = product(&dims[batch..]);
    let mut starts = Vec::with_capacity(tuples);
    for at in 0..tuples {
        let mut start = at / each.max(1) * size;
        for (d, &index) in values[at * length..(at + 1) * length].iter().enumerate() {
            let extent = dims[batch + d];
            let index = normalize_axis(index, extent)
                .map_err(|_| call.invalid("index", index, format!("within a dimension of {extent}")))?;
            start += index * strides[batch + d];
        }
        starts.push(start);
    }
    Ok((starts, product(&dims[batch + length..])))
}

/// A tensor with updates written to places of it.
fn written(
    call: &mut Call,
    src: &HostTensor,
    updates: &HostTensor,
    places: &[usize],
) -> Result<Vec<HostTensor>> {
    if src.data_type() != updates.data_type() {
        return Err(call.invalid("updates", updates.desc(), format!("elements of {}", src.data_type())));
    }
    call.take(src.dims(), src.data_type())?;
    let way = call.node.word("reduction", "none")?;
    if way == "none" {
        let (cells_of_updates, mut made) = (cells(updates), cells(src).bytes.into_owned());
        let size = cells_of_updates.size;
        for (i, place) in places.iter().enumerate() {
            made[place * size..(place + 1) * size].copy_from_slice(cells_of_updates.at(i));
        }
        return Ok(vec![of_cells(src.dims().clone(), src.data_type(), made)?]);
    }
    each!(src, values => {
        let updates = updates_like(&values, updates);
        let made = combined(call, &way, values, &updates, places)?;
        Ok(vec![call.numbers(src.dims().clone(), src.data_type(), made)?])
    })
}

/// The updates as numbers of the same kind.
fn updates_like<T: Number>(_: &[T], updates: &HostTensor) -> Vec<T> {
    each!(updates, values => values.into_iter().map(T::like).collect())
}

fn combined<T: Number>(
    call: &Call,
    way: &str,
    mut made: Vec<T>,
    updates: &[T],
    places: &[usize],
) -> Result<Vec<T>> {
    let of: fn(T, T) -> T = match way {
        "add" => T::plus,
        "mul" => T::times,
        "max" => |a, b| if b > a { b } else { a },
        "min" => |a, b| if b < a { b } else { a },
        other => return Err(call.invalid("attribute reduction", other, "none, add, mul, max or min")),
    };
    for (&place, &update) in places.iter().zip(updates) {
        made[place] = of(made[place], update);
    }
    Ok(made)
}

/// Writes updates into a cache, at an index for each of the batch: up to its end, or round and round.
pub(in crate::onnx) fn tensor_scatter(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (src, update) = (call.tensor(0)?, call.tensor(1)?);
    let axis = call.axis(-2, src.dims().len())?;
    let circular = call.node.word("mode", "linear")? == "circular";
    let batch = src.dims()[0];
    let starts = if call.optional(2).is_some() { call.ints(2)? } else { vec![0; batch] };
    let mut expected = src.dims().clone();
    expected[axis] = update.dims().get(axis).copied().unwrap_or(0);
    if axis == 0 || *update.dims() != expected || starts.len() != batch {
        return Err(call.invalid("update", update.desc(), format!("blocks of {}", src.desc())));
    }
    let (extent, strides) = (src.dims()[axis], strides(src.dims()));
    let mut targets = Vec::with_capacity(update.dims().elements());
    for index in update.dims().indices() {
        let at = usize::try_from(starts[index[0]]).unwrap_or(usize::MAX).saturating_add(index[axis]);
        let at = if circular { at % extent.max(1) } else { at };
        if at >= extent {
            return Err(call.invalid("index", at, format!("within a dimension of {extent}")));
        }
        let place: i64 = index.iter().zip(&strides).map(|(&i, stride)| i as i64 * stride).sum();
        targets.push((place + (at as i64 - index[axis] as i64) * strides[axis]) as usize);
    }
    written(call, src, update, &targets)
}

/// One-hot rows: the values of `off` and `on` where indices say.
pub(super) fn hot(
    call: &mut Call,
    (dims, data_type): (Dims, DataType),
    choices: &[bool],
    values: &HostTensor,
) -> Result<Vec<HostTensor>> {
    call.take(&dims, data_type)?;
    Ok(vec![picked(values, dims, choices.iter().map(|&on| usize::from(on)))?])
}

/// The values of a tensor where it broadcasts to other dimensions.
pub(super) fn spread(src: &HostTensor, dims: &Dims) -> Vec<f64> {
    let values = src.to_f64s();
    places(src.dims(), dims).into_iter().map(|place| values[place]).collect()
}
