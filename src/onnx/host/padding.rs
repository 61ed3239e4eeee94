//! Tensors with edges added, and cut off.

use anydnn_backend::{Dims, Result};

use super::super::window::{Window, sizes};
use super::call::Call;
use super::convolution::Taps;
use super::numbers::{cells, picked_or, product, strides};
use crate::graph::normalize_axis;
use crate::model::HostTensor;

/// Edges of a constant, of the nearest element, mirrored, or from the other side; negative ones cut off.
pub(in crate::onnx) fn pad(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let rank = src.dims().len();
    let pads =
        call.int_list(1, "pads")?.ok_or_else(|| call.invalid("pads", "missing", "a list of integers"))?;
    let axes = match call.optional(3) {
        Some(_) => call.ints(3)?,
        None => (0..rank as i64).collect(),
    };
    if pads.len() != 2 * axes.len() {
        return Err(call.invalid("pads", pads.len(), format!("two for each of {} axes", axes.len())));
    }
    let mode = call.node.word("mode", "constant")?;
    let mut begins = vec![0; rank];
    let mut dims = src.dims().clone();
    for (i, &axis) in axes.iter().enumerate() {
        let axis = normalize_axis(axis, rank)?;
        let (begin, end) = (pads[i], pads[axes.len() + i]);
        let extent = (dims[axis] as i64).saturating_add(begin).saturating_add(end);
        let fits = mode == "constant" || src.dims()[axis] > 0 || extent == 0;
        let extent = usize::try_from(extent).ok().filter(|_| fits);
        dims[axis] = extent
            .ok_or_else(|| call.invalid("pads", format!("{pads:?}"), format!("edges for {}", src.desc())))?;
        begins[axis] = begin;
    }
    call.take(&dims, src.data_type())?;
    let value = match call.optional(2) {
        Some(value) if value.dims().elements() == 1 && value.data_type() == src.data_type() => value.clone(),
        Some(value) => {
            return Err(call.invalid("constant", value.desc(), format!("one {}", src.data_type())));
        }
        None => HostTensor::from_f64(
            Dims::default(),
            src.data_type(),
            &[f64::from(call.node.float("value", 0.0)?)],
        )?,
    };
    let source = |at: i64, extent: i64| -> Option<i64> {
        if (0..extent).contains(&at) {
            return Some(at);
        }
        match mode.as_str() {
            "edge" => Some(at.clamp(0, extent - 1)),
            "wrap" => Some(at.rem_euclid(extent)),
            "reflect" if extent == 1 => Some(0),
            "reflect" => {
                // The first and the last element are not repeated.
                let at = at.rem_euclid(2 * extent - 2);
                Some(at.min(2 * extent - 2 - at))
            }
            _ => None,
        }
    };
    if !matches!(mode.as_str(), "constant" | "edge" | "wrap" | "reflect") {
        return Err(call.invalid("attribute mode", mode, "constant, reflect, edge or wrap"));
    }
    Ok(vec![moved(src, dims, &value, |axis, at| source(at as i64 - begins[axis], src.dims()[axis] as i64))?])
}

/// The elements of a tensor where an index of each axis comes from one of the source, and a value elsewhere.
fn moved(
    src: &HostTensor,
    dims: Dims,
    value: &HostTensor,
    source: impl Fn(usize, usize) -> Option<i64>,
) -> Result<HostTensor> {
    let strides = strides(src.dims());
    let tables: Vec<Vec<Option<i64>>> = (0..dims.len())
        .map(|axis| (0..dims[axis]).map(|at| source(axis, at).map(|from| from * strides[axis])).collect())
        .collect();
    let mut places = vec![Some(0)];
    for table in tables {
        places =
            places.iter().flat_map(|&place| table.iter().map(move |from| Some(place? + (*from)?))).collect();
    }
    let places: Vec<Option<usize>> =
        places.into_iter().map(|place: Option<i64>| Some(place? as usize)).collect();
    picked_or(src, dims, places, &cells(value).bytes)
}

/// The middle of a tensor, or the tensor in the middle of zeros.
pub(in crate::onnx) fn center(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let rank = src.dims().len();
    let shape = call.ints(1)?;
    let axes = call.node.ints("axes")?.unwrap_or_else(|| (0..rank as i64).collect());
    if axes.len() != shape.len() {
        return Err(call.invalid("shape", format!("{shape:?}"), format!("{} numbers", axes.len())));
    }
    let mut begins = vec![0; rank];
    let mut dims = src.dims().clone();
    for (&axis, &wanted) in axes.iter().zip(&shape) {
        let axis = normalize_axis(axis, rank)?;
        let extent = usize::try_from(wanted).ok();
        dims[axis] = extent.ok_or_else(|| call.invalid("shape", wanted, "no negative dimension"))?;
        let more = wanted - src.dims()[axis] as i64;
        begins[axis] = if more >= 0 { more / 2 } else { -(-more / 2) };
    }
    call.take(&dims, src.data_type())?;
    let zero = HostTensor::zeros(Dims::default(), src.data_type())?;
    let source = |axis: usize, at: usize| {
        let at = at as i64 - begins[axis];
        (0..src.dims()[axis] as i64).contains(&at).then_some(at)
    };
    Ok(vec![moved(src, dims, &zero, source)?])
}

/// Sums columns, each what a window covers, to the image they were taken from.
pub(in crate::onnx) fn column_to_image(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.ranked(0, 3)?;
    let lists = |index: usize| -> Result<Vec<usize>> {
        let values = call.ints(index)?;
        let sizes: Option<Vec<usize>> =
            values.iter().map(|&value| usize::try_from(value).ok().filter(|&v| v > 0)).collect();
        sizes.ok_or_else(|| {
            call.invalid(&format!("input {index}"), format!("{values:?}"), "sizes of at least 1")
        })
    };
    let (image, kernel) = (lists(1)?, lists(2)?);
    let pads = sizes(call.node, "pads", 2 * image.len(), 0, 0)?;
    let mut window = Window::new(call.node, &kernel)?;
    if pads.len() != 2 * kernel.len() {
        return Err(call.invalid("block", format!("{kernel:?}"), "as many dimensions as the image"));
    }
    window.slide(call.node, &image, false)?;
    let result = window.results(&image);
    let taps = Taps::new(&window, &image, &result);
    let [n, rows, columns] = [0, 1, 2].map(|i| src.dims()[i]);
    let channels = rows / taps.count.max(1);
    if channels * taps.count != rows || columns != product(&result) {
        let expected = format!("multiples of {} rows and {} columns", taps.count, product(&result));
        return Err(call.invalid("input 0", src.desc(), expected));
    }
    let dims: Dims = [n, channels].into_iter().chain(image.iter().copied()).collect();
    call.take(&dims, src.data_type())?;
    let size = product(&image);
    let (values, mut made) = (src.to_f64s(), vec![0.0; dims.elements()]);
    for nc in 0..n * channels {
        for position in 0..columns {
            for (t, place) in taps.of(position) {
                made[nc * size + place] += values[(nc * taps.count + t) * columns + position];
            }
        }
    }
    call.output(dims, src.data_type(), &made)
}
