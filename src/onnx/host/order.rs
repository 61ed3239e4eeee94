//! Elements by their order and their value: greatest, running totals, different ones.

use std::cmp::Ordering;

use anydnn_backend::{Dims, Result};

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
    let mut taken = vec![0; dims.elements()];
    let room = 2 * count + MOST_BESIDE;
    each!(src, values => {
        let mut line = Vec::with_capacity(room);
        for o in 0..outer {
            for k in 0..inner {
                // Of equal ones the first comes first.
                let first = |a: &(_, usize), b: &(_, usize)| {
                    let order = compared(a.0, b.0);
                    (if largest { order.reverse() } else { order }).then(a.1.cmp(&b.1))
                };
                line.clear();
                // Of those that are taken up to here the last one, which most of the others are behind.
                let mut last = None;
                for i in 0..extent {
                    let one = (values[(o * extent + i) * inner + k], i);
                    if last.as_ref().is_some_and(|last| first(&one, last).is_gt()) {
                        continue;
                    }
                    line.push(one);
                    if line.len() >= room && count > 0 {
                        line.select_nth_unstable_by(count - 1, first);
                        line.truncate(count);
                        last = line.last().copied();
                    }
                }
                line.sort_unstable_by(first);
                for (i, &(_, from)) in line[..count].iter().enumerate() {
                    taken[(o * count + i) * inner + k] = from;
                }
            }
        }
    });
    let place = |(i, &from): (usize, &usize)| {
        let (o, k) = (i / (count * inner).max(1), i % inner.max(1));
        (o * extent + from) * inner + k
    };
    let values = picked(src, dims.clone(), taken.iter().enumerate().map(place))?;
    let taken: Vec<i64> = taken.into_iter().map(|from| from as i64).collect();
    Ok(vec![values, indices(dims, &taken)?])
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
    let values = src.to_f64s();
    let found: Vec<Dims> =
        src.dims().indices().zip(values).filter(|(_, value)| *value != 0.0).map(|(index, _)| index).collect();
    let rank = src.dims().len();
    let rows: Vec<i64> = (0..rank).flat_map(|d| found.iter().map(move |index| index[d] as i64)).collect();
    Ok(vec![indices([rank, found.len()], &rows)?])
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
