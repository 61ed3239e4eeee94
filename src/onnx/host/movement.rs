//! Elements in other places.

use anydnn_backend::{DataType, Dims, Error, MemoryDesc, Result};

use super::super::network::Room;
use super::super::node::Node;
use super::arithmetic::places;
use super::{Known, integers, ints, known, of_ints, one_output, unfit};
use crate::graph::normalize_axis;
use crate::model::HostTensor;

pub(in crate::onnx) fn gather(node: &Node, inputs: Known, room: &mut Room) -> Result<Vec<HostTensor>> {
    let (src, indices) = (known(node, inputs, 0)?, known(node, inputs, 1)?);
    let axis = normalize_axis(node.int("axis", 0)?, src.dims().len())?;
    let index_values = integers(node, indices)?;
    let extent = src.dims()[axis];
    let at = |index: &i64| {
        normalize_axis(*index, extent)
            .map_err(|_| node.invalid("index", index, format!("within a dimension of {extent}")))
    };
    let taken: Vec<usize> = index_values.iter().map(at).collect::<Result<_>>()?;
    let (before, after) = (&src.dims()[..axis], &src.dims()[axis + 1..]);
    let dims: Dims = before.iter().chain(indices.dims().iter()).chain(after).copied().collect();
    let (outer, inner) = (Dims::new(before).elements(), Dims::new(after).elements());
    room.take(&dims, src.data_type())?;
    let taken = &taken;
    let blocks = (0..outer).flat_map(|o| taken.iter().map(move |index| (o * extent + index) * inner));
    picked(src, dims, blocks.flat_map(|start| start..start + inner))
}

pub(in crate::onnx) fn slice(node: &Node, inputs: Known, room: &mut Room) -> Result<Vec<HostTensor>> {
    let src = known(node, inputs, 0)?;
    let list = |index: usize, name: &str| match inputs.get(index).copied().flatten() {
        Some(tensor) => Ok(ints(tensor)),
        None => node.ints(name),
    };
    let missing = |name: &str| node.invalid(name, "missing", "a list of integers");
    let starts = list(1, "starts")?.ok_or_else(|| missing("starts"))?;
    let ends = list(2, "ends")?.ok_or_else(|| missing("ends"))?;
    let axes = list(3, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = list(4, "steps")?.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        return Err(node.invalid(
            "lists",
            "of different lengths",
            "starts, ends, axes and steps for each axis",
        ));
    }
    let mut dims = src.dims().clone();
    let mut walks: Vec<(i64, i64)> = vec![(0, 1); dims.len()];
    for (i, &axis) in axes.iter().enumerate() {
        let axis = normalize_axis(axis, dims.len())?;
        let (extent, step) = (src.dims()[axis] as i64, steps[i]);
        if step == 0 || step == i64::MIN {
            return Err(node.invalid("step", step, "a distance other than zero"));
        }
        let from_front = |index: i64| if index < 0 { index.saturating_add(extent) } else { index };
        // Backwards the element before the first may be the end.
        let (low, high) = if step > 0 { (0, extent) } else { (-1, extent - 1) };
        let start = from_front(starts[i]).clamp(0, high.max(0));
        let end = from_front(ends[i]).clamp(low, high.max(low));
        let span = if step > 0 { end - start } else { start - end };
        dims[axis] = if extent == 0 {
            0
        } else {
            usize::try_from(span).unwrap_or(0).div_ceil(step.unsigned_abs() as usize)
        };
        walks[axis] = (start, step);
    }
    room.take(&dims, src.data_type())?;
    let strides = src.dims().row_major_strides();
    let shape = dims.clone();
    let place = move |index: Dims| {
        let parts = index.iter().zip(&walks).zip(strides.iter());
        parts.map(|((&i, (start, step)), &stride)| (start + i as i64 * step) as usize * stride).sum()
    };
    picked(src, dims, shape.indices().map(place))
}

pub(in crate::onnx) fn concat(node: &Node, inputs: Known, room: &mut Room) -> Result<Vec<HostTensor>> {
    let first = known(node, inputs, 0)?;
    let axis = normalize_axis(node.int("axis", 1)?, first.dims().len())?;
    let mut dims = first.dims().clone();
    dims[axis] = 0;
    let mut sources = Vec::with_capacity(inputs.len());
    for index in 0..inputs.len() {
        let src = known(node, inputs, index)?;
        let fits = src.data_type() == first.data_type()
            && src.dims().len() == dims.len()
            && (0..dims.len()).all(|d| d == axis || src.dims()[d] == first.dims()[d]);
        if !fits || src.data_type().bits() < 8 {
            return Err(unfit(node, src));
        }
        dims[axis] = dims[axis].saturating_add(src.dims()[axis]);
        let row = Dims::new(&src.dims()[axis..]).elements() * src.data_type().bits() / 8;
        sources.push((src.bytes(), row));
    }
    room.take(&dims, first.data_type())?;
    let outer = Dims::new(&dims[..axis]).elements();
    let rows =
        (0..outer).flat_map(|o| sources.iter().map(move |(bytes, row)| &bytes[o * row..(o + 1) * row]));
    let bytes: Vec<u8> = rows.flatten().copied().collect();
    HostTensor::new(MemoryDesc::new(dims, first.data_type()), bytes).map(one_output)
}

pub(in crate::onnx) fn expand(node: &Node, inputs: Known, room: &mut Room) -> Result<Vec<HostTensor>> {
    let src = known(node, inputs, 0)?;
    let shape = integers(node, known(node, inputs, 1)?)?;
    let dims = src.dims().broadcast(&super::super::tensor::dims(&shape, src.data_type())?)?;
    room.take(&dims, src.data_type())?;
    let places = places(src.dims(), &dims);
    picked(src, dims, places)
}

pub(in crate::onnx) fn transpose(node: &Node, inputs: Known, room: &mut Room) -> Result<Vec<HostTensor>> {
    let src = known(node, inputs, 0)?;
    let rank = src.dims().len();
    let order = super::super::ops::transpose_order(node, rank)?;
    room.take(src.dims(), src.data_type())?;
    transposed(src, &order)
}

/// A tensor with its dimensions in another order.
fn transposed(src: &HostTensor, order: &[usize]) -> Result<Vec<HostTensor>> {
    let strides = src.dims().row_major_strides();
    let dims: Dims = order.iter().map(|&axis| src.dims()[axis]).collect();
    let moved: Vec<usize> = order.iter().map(|&axis| strides[axis]).collect();
    let shape = dims.clone();
    let place = move |index: Dims| index.iter().zip(&moved).map(|(i, stride)| i * stride).sum();
    picked(src, dims, shape.indices().map(place))
}

/// Numbers from a start to before a limit.
pub(in crate::onnx) fn range(node: &Node, inputs: Known, room: &mut Room) -> Result<Vec<HostTensor>> {
    let start = known(node, inputs, 0)?;
    let one = |index: usize| -> Result<Option<i64>> {
        Ok(ints(known(node, inputs, index)?).and_then(|values| values.first().copied()))
    };
    let (Some(first), Some(limit), Some(step)) = (one(0)?, one(1)?, one(2)?) else {
        return Err(unfit(node, start));
    };
    if step == 0 {
        return Err(node.invalid("delta", 0, "a distance other than zero"));
    }
    let span = if step > 0 { limit.saturating_sub(first) } else { first.saturating_sub(limit) };
    let count = usize::try_from(span)
        .unwrap_or(0)
        .div_ceil(usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX));
    room.take(&Dims::from([count]), start.data_type())?;
    let values: Vec<i64> = (0..count as i64).map(|i| first.wrapping_add(i.wrapping_mul(step))).collect();
    of_ints(Dims::from([count]), start.data_type(), &values).map(one_output)
}

/// One value everywhere: zero of f32 unless the node says another.
pub(in crate::onnx) fn constant_of_shape(
    node: &Node,
    inputs: Known,
    room: &mut Room,
) -> Result<Vec<HostTensor>> {
    let shape = ints(known(node, inputs, 0)?);
    let shape = shape.ok_or_else(|| node.invalid("shape", "no integers", "a list of integers"))?;
    let value = match node.tensor("value")? {
        Some(value) => {
            super::super::tensor::host_tensor(value, &mut super::super::files::ExternalData::new(None))?
        }
        None => HostTensor::zeros([1], DataType::F32)?,
    };
    if value.desc().elements() != 1 || value.data_type().bits() < 8 {
        return Err(node.invalid("value", value.desc(), "one element of at least a byte"));
    }
    let dims = super::super::tensor::dims(&shape, value.data_type())?;
    room.take(&dims, value.data_type())?;
    let mut tensor = HostTensor::zeros(dims, value.data_type())?;
    let element = value.bytes();
    if element.iter().any(|&byte| byte != 0) {
        tensor.bytes_mut().chunks_exact_mut(element.len()).for_each(|to| to.copy_from_slice(element));
    }
    Ok(vec![tensor])
}

/// The elements at places in row-major order; not for types of half a byte.
fn picked(src: &HostTensor, dims: Dims, places: impl Iterator<Item = usize>) -> Result<Vec<HostTensor>> {
    let bits = src.data_type().bits();
    if bits < 8 {
        return Err(Error::unsupported("tensor", "elements of half a byte are not moved"));
    }
    let size = bits / 8;
    let mut bytes = Vec::with_capacity(dims.elements() * size);
    for place in places {
        bytes.extend_from_slice(&src.bytes()[place * size..(place + 1) * size]);
    }
    HostTensor::new(MemoryDesc::new(dims, src.data_type()), bytes).map(one_output)
}
