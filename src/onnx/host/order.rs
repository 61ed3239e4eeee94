//! Elements by their order and their value: greatest, running totals, different ones.

use std::cmp::Ordering;

use anydnn_backend::{DataType, Dims, Result};

use super::call::Call;
use super::numbers::{Number, around, each, indices, picked};
use crate::graph::normalize_axis;
use crate::model::HostTensor;

/// The index of the greatest or least element along an axis.
pub(in crate::onnx) fn arg(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let axis = call.axis(0, src.dims().len())?;
    let (outer, extent, inner) = around(src.dims(), axis);
    if extent == 0 {
        return Err(call.invalid("input 0", src.desc(), format!("at least one element along axis {axis}")));
    }
    let (greatest, last) = (call.operator() == "ArgMax", call.node.flag("select_last_index", false)?);
    let mut dims = src.dims().to_vec();
    if call.node.flag("keepdims", true)? {
        dims[axis] = 1;
    } else {
        dims.remove(axis);
    }
    let found = each!(src, values => {
        let mut found = Vec::with_capacity(outer * inner);
        for o in 0..outer {
            for k in 0..inner {
                let at = |i: usize| values[(o * extent + i) * inner + k];
                let mut best = 0;
                for i in 1..extent {
                    let better = if greatest { at(i) > at(best) } else { at(i) < at(best) };
                    if better || last && compared(at(i), at(best)).is_eq() {
                        best = i;
                    }
                }
                found.push(best as i64);
            }
        }
        found
    });
    Ok(vec![indices(dims, &found)?])
}

/// Elements beside the first few that are put in order with them at a time.
const MOST_BESIDE: usize = 256;

/// The first few along an axis of the elements in order.
pub(in crate::onnx) fn top_k(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let axis = call.axis(-1, src.dims().len())?;
    let (outer, extent, inner) = around(src.dims(), axis);
    let given = match call.int(1)? {
        Some(given) => given,
        None => call.node.int("k", -1)?,
    };
    let count = usize::try_from(given).ok().filter(|count| *count <= extent);
    let count = count.ok_or_else(|| call.invalid("k", given, format!("from 0 to {extent}")))?;
    let largest = call.node.flag("largest", true)?;
    let mut dims = src.dims().clone();
    dims[axis] = count;
    call.take(&dims, src.data_type())?;
    let lines = Lines { outer, extent, inner, count };
    let taken = match keys(src, largest).filter(|_| u32::try_from(extent).is_ok()) {
        Some(keys) => {
            lines.first(|at, i| u64::from(keys[at]) << 32 | i as u64, Ord::cmp, |&key| key as u32 as usize)
        }
        None => each!(src, values => {
            // Of equal ones the first comes first.
            let first = |a: &(_, usize), b: &(_, usize)| {
                let order = compared(a.0, b.0);
                (if largest { order.reverse() } else { order }).then(a.1.cmp(&b.1))
            };
            lines.first(|at, i| (values[at], i), first, |one| one.1)
        }),
    };
    let place = |(i, &from): (usize, &usize)| {
        let (o, k) = (i / (count * inner).max(1), i % inner.max(1));
        (o * extent + from) * inner + k
    };
    let values = picked(src, dims.clone(), taken.iter().enumerate().map(place))?;
    let taken: Vec<i64> = taken.into_iter().map(|from| from as i64).collect();
    Ok(vec![values, indices(dims, &taken)?])
}

/// Lines along an axis, of which the first few elements are taken.
struct Lines {
    outer: usize,
    extent: usize,
    inner: usize,
    count: usize,
}

/// Lines beside one another that are read at once, so that what lies side by side is read together.
const BESIDE: usize = 16;

impl Lines {
    /// The places along the axis of the first few by an order, of what `one` makes of a place in all and along the axis.
    fn first<T>(
        &self,
        one: impl Fn(usize, usize) -> T,
        order: impl Fn(&T, &T) -> Ordering,
        place: impl Fn(&T) -> usize,
    ) -> Vec<usize> {
        let Self { outer, extent, inner, count } = *self;
        let mut taken = vec![0; outer * count * inner];
        let room = 2 * count + MOST_BESIDE;
        let mut lines: Vec<Vec<T>> = Vec::new();
        lines.resize_with(BESIDE.min(inner), Vec::new);
        for (o, start) in (0..outer).flat_map(|o| (0..inner).step_by(BESIDE).map(move |start| (o, start))) {
            let beside = BESIDE.min(inner - start);
            lines.iter_mut().for_each(Vec::clear);
            // Whether the element behind a line's first few is known, which most of the others are behind.
            let mut is_cut = [false; BESIDE];
            for i in 0..extent {
                for (j, line) in lines[..beside].iter_mut().enumerate() {
                    let own = one((o * extent + i) * inner + start + j, i);
                    if is_cut[j] && line.get(count - 1).is_some_and(|last| order(&own, last).is_gt()) {
                        continue;
                    }
                    line.push(own);
                    if line.len() >= room && count > 0 {
                        line.select_nth_unstable_by(count - 1, &order);
                        line.truncate(count);
                        is_cut[j] = true;
                    }
                }
            }
            for (j, line) in lines[..beside].iter_mut().enumerate() {
                line.sort_unstable_by(&order);
                for (i, one) in line[..count].iter().enumerate() {
                    taken[(o * count + i) * inner + start + j] = place(one);
                }
            }
        }
        taken
    }
}

/// Numbers that are in the order of elements, or in the other one where the largest come first; none for elements that 32 bits do not hold.
fn keys(src: &HostTensor, largest: bool) -> Option<Vec<u32>> {
    const SIGN: u32 = 1 << 31;
    let of_float = |value: f32| {
        // Zeros are equal, and what is no number is the greatest.
        let bits = if value == 0.0 { 0 } else { value.to_bits() };
        if value.is_nan() {
            u32::MAX
        } else if bits & SIGN != 0 {
            !bits
        } else {
            bits | SIGN
        }
    };
    let keys: Vec<u32> = match src.data_type() {
        DataType::F32 | DataType::F16 | DataType::BF16 => src.to_f32s().into_iter().map(of_float).collect(),
        DataType::S32 => {
            src.bytes().as_chunks().0.iter().map(|&bytes| u32::from_ne_bytes(bytes) ^ SIGN).collect()
        }
        DataType::U8 => src.bytes().iter().map(|&byte| u32::from(byte)).collect(),
        _ => return None,
    };
    Some(if largest { keys.into_iter().map(|key| !key).collect() } else { keys })
}

/// Order of numbers in which NaN is the greatest.
pub(super) fn compared<T: Number>(a: T, b: T) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.real().is_nan().cmp(&b.real().is_nan()))
}

/// Running sums and products.
pub(in crate::onnx) fn cumulative(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let axis = normalize_axis(call.int(1)?.unwrap_or(0), src.dims().len())?;
    let (outer, extent, inner) = around(src.dims(), axis);
    let (exclusive, reverse) = (call.node.flag("exclusive", false)?, call.node.flag("reverse", false)?);
    let sums = call.operator() == "CumSum";
    each!(src, values => {
        let mut made = values.clone();
        for o in 0..outer {
            for k in 0..inner {
                let mut total = like(&values, if sums { 0.0 } else { 1.0 });
                for i in 0..extent {
                    let at = (o * extent + if reverse { extent - 1 - i } else { i }) * inner + k;
                    let next = if sums { total.plus(values[at]) } else { total.times(values[at]) };
                    made[at] = if exclusive { total } else { next };
                    total = next;
                }
            }
        }
        Ok(vec![call.numbers(src.dims().clone(), src.data_type(), made)?])
    })
}

/// A number of the kind that others are.
fn like<T: Number>(_: &[T], value: f64) -> T {
    T::of(value)
}

/// The indices of elements that are not zero, a column for each.
pub(in crate::onnx) fn non_zero(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let found: Vec<usize> = each!(src, values => {
        values.iter().enumerate().filter(|(_, value)| value.real() != 0.0).map(|(place, _)| place).collect()
    });
    let mut rows = Vec::with_capacity(src.dims().len() * found.len());
    for (stride, &extent) in src.dims().row_major_strides().iter().zip(src.dims().iter()) {
        rows.extend(found.iter().map(|place| (place / stride % extent) as i64));
    }
    Ok(vec![indices([src.dims().len(), found.len()], &rows)?])
}

/// The slices along an axis, or the elements, at which a condition holds.
pub(in crate::onnx) fn compress(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let conditions = call.ints(1)?;
    let (dims, axis) = if call.node.has("axis") {
        (src.dims().clone(), call.axis(0, src.dims().len())?)
    } else {
        (Dims::from([src.dims().elements()]), 0)
    };
    let (outer, extent, inner) = around(&dims, axis);
    let kept: Vec<usize> =
        (0..extent).filter(|&i| conditions.get(i).is_some_and(|&holds| holds != 0)).collect();
    let mut made = dims;
    made[axis] = kept.len();
    call.take(&made, src.data_type())?;
    let kept = &kept;
    let blocks = (0..outer).flat_map(|o| kept.iter().map(move |i| (o * extent + i) * inner));
    Ok(vec![picked(src, made, blocks.flat_map(|start| start..start + inner))?])
}

/// Different elements or slices, where each was first, which of them each is, and how often it is there.
pub(in crate::onnx) fn unique(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let (dims, axis) = if call.node.has("axis") {
        (src.dims().clone(), call.axis(0, src.dims().len())?)
    } else {
        (Dims::from([src.dims().elements()]), 0)
    };
    let (outer, extent, inner) = around(&dims, axis);
    let (first, order) = each!(src, values => {
        let at = |i: usize, o: usize, k: usize| values[(o * extent + i) * inner + k];
        let compare = |a: usize, b: usize| {
            let pairs = (0..outer).flat_map(|o| (0..inner).map(move |k| (o, k)));
            pairs.map(|(o, k)| compared(at(a, o, k), at(b, o, k))).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        };
        let mut order: Vec<usize> = (0..extent).collect();
        order.sort_by(|&a, &b| compare(a, b));
        // The first of each run of equal slices stands for it.
        let mut first = vec![0; extent];
        for (n, &i) in order.iter().enumerate() {
            first[i] = if n > 0 && compare(order[n - 1], i).is_eq() { first[order[n - 1]] } else { i };
        }
        (first, order)
    });
    let in_order: Vec<usize> = if call.node.flag("sorted", true)? { order } else { (0..extent).collect() };
    let kept: Vec<usize> = in_order.into_iter().filter(|&i| first[i] == i).collect();
    let mut place = vec![0; extent];
    kept.iter().enumerate().for_each(|(n, &i)| place[i] = n);
    let inverse: Vec<i64> = first.iter().map(|&i| place[i] as i64).collect();
    let mut counts = vec![0; kept.len()];
    inverse.iter().for_each(|&n| counts[n as usize] += 1);
    let mut made = dims;
    made[axis] = kept.len();
    let blocks: Vec<usize> =
        (0..outer).flat_map(|o| kept.iter().map(move |i| (o * extent + i) * inner)).collect();
    let values = picked(src, made, blocks.into_iter().flat_map(|start| start..start + inner))?;
    let kept: Vec<i64> = kept.into_iter().map(|i| i as i64).collect();
    Ok(vec![
        values,
        indices([kept.len()], &kept)?,
        indices([extent], &inverse)?,
        indices([counts.len()], &counts)?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first few of lines are those of lines in order, of equal ones the first first, whatever lies beside and however long lines are.
    #[test]
    fn the_first_few_are_those_of_lines_in_order() {
        let (outer, extent) = (2, 900);
        for (data_type, inner) in
            [(DataType::F32, 1), (DataType::F32, 19), (DataType::S32, 3), (DataType::U8, 33)]
        {
            let number = |i: usize| match i * 7919 % 1021 {
                0 if data_type == DataType::F32 => f64::NAN,
                1 if data_type == DataType::F32 => -0.0,
                part if data_type == DataType::U8 => (part % 256) as f64,
                part => part as f64 / 2.0 - 200.0,
            };
            let values: Vec<f64> = (0..outer * extent * inner).map(number).collect();
            let src = HostTensor::from_f64([outer, extent, inner], data_type, &values).unwrap();
            let values = src.to_f64s();
            for (count, largest) in
                [(0, true), (1, false), (5, true), (5, false), (400, true), (extent, false)]
            {
                let keys = keys(&src, largest).unwrap();
                let lines = Lines { outer, extent, inner, count };
                let made = lines.first(|at, i| (keys[at], i), Ord::cmp, |one| one.1);
                let mut expected = vec![0; outer * count * inner];
                for (o, k) in (0..outer).flat_map(|o| (0..inner).map(move |k| (o, k))) {
                    let at = |i: &usize| values[(o * extent + i) * inner + k];
                    let mut order: Vec<usize> = (0..extent).collect();
                    order.sort_by(|a, b| {
                        let order = compared(at(a), at(b));
                        if largest { order.reverse() } else { order }
                    });
                    for (i, &from) in order[..count].iter().enumerate() {
                        expected[(o * count + i) * inner + k] = from;
                    }
                }
                assert!(made == expected, "{data_type} {inner} {count} {largest}");
            }
        }
    }
}
