//! Tensors made from numbers and sizes.

use std::f64::consts::PI;

use anydnn_backend::{DataType, Dims, MemoryDesc, Result};

use super::super::files::ExternalData;
use super::super::large;
use super::super::tensor::{data_type, dims as checked_dims, host_tensor};
use super::call::Call;
use super::numbers::{Numbers, ints};
use super::scatter::hot;
use crate::model::HostTensor;

/// One value everywhere: zero of f32 unless the node says another.
pub(in crate::onnx) fn constant_of_shape(call: &mut Call) -> Result<Vec<HostTensor>> {
    let shape = call.ints(0)?;
    let value = match call.node.tensor("value")? {
        Some(value) => host_tensor(value, &mut ExternalData::default())?,
        None => HostTensor::zeros([1], DataType::F32)?,
    };
    if value.desc().elements() != 1 {
        return Err(call.invalid("value", value.desc(), "one element"));
    }
    let dims = checked_dims(&shape, value.data_type())?;
    call.take(&dims, value.data_type())?;
    let desc = MemoryDesc::new(dims, value.data_type());
    let mut element = value.bytes().to_vec();
    if value.data_type().bits() < 8 {
        let bits = value.data_type().bits();
        element[0] = (0..8 / bits).fold(0, |byte, i| byte | (element[0] & ((1 << bits) - 1)) << (i * bits));
    }
    if element.iter().all(|&byte| byte == 0) {
        return Ok(vec![HostTensor::zeros(desc.dims().clone(), desc.data_type())?]);
    }
    // Ever longer runs of what is written already.
    let tensor = large::filled(&desc, |bytes| {
        let mut written = element.len().min(bytes.len());
        bytes[..written].copy_from_slice(&element[..written]);
        while written < bytes.len() {
            let more = written.min(bytes.len() - written);
            bytes.copy_within(..more, written);
            written += more;
        }
    })?;
    Ok(vec![tensor])
}

/// Numbers from a start to before a limit.
pub(in crate::onnx) fn range(call: &mut Call) -> Result<Vec<HostTensor>> {
    let start = call.tensor(0)?;
    let data_type = start.data_type();
    if ints(start).is_some() {
        let missing = || call.invalid("inputs", "missing", "a start, a limit and a distance");
        let first = call.int(0)?.ok_or_else(missing)?;
        let (limit, step) = (call.int(1)?.ok_or_else(missing)?, call.int(2)?.ok_or_else(missing)?);
        if step == 0 {
            return Err(call.invalid("delta", 0, "a distance other than zero"));
        }
        let span = if step > 0 { limit.saturating_sub(first) } else { first.saturating_sub(limit) };
        let span = usize::try_from(span).unwrap_or(0);
        let count = span.div_ceil(usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX));
        call.take(&[count].into(), data_type)?;
        let values = (0..count as i64).map(|i| first.wrapping_add(i.wrapping_mul(step))).collect();
        return call.made([count].into(), data_type, &Numbers::Ints(values));
    }
    let number = |index: usize| call.number(index).map(|number| number.unwrap_or(f64::NAN));
    let (first, limit, step) = (number(0)?, number(1)?, number(2)?);
    let count = ((limit - first) / step).ceil();
    if count.is_nan() {
        return Err(call.invalid("delta", step, "a distance other than zero"));
    }
    let count = count.max(0.0) as usize;
    call.take(&[count].into(), data_type)?;
    let values: Vec<f64> = (0..count).map(|i| first + i as f64 * step).collect();
    call.output([count].into(), data_type, &values)
}

/// Ones on a diagonal of a matrix.
pub(in crate::onnx) fn eye(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.ranked(0, 2)?;
    let to = match call.node.int("dtype", 0)? {
        0 => src.data_type(),
        number => data_type(i32::try_from(number).unwrap_or(-1))?,
    };
    let (dims, shift) = (src.dims().clone(), call.node.int("k", 0)?);
    let on = |index: Dims| f64::from((index[0] as i64).checked_add(shift) == Some(index[1] as i64));
    let values: Vec<f64> = dims.indices().map(on).collect();
    call.output(dims, to, &values)
}

/// One element of `depth` is the second of two values, the others are the first.
pub(in crate::onnx) fn one_hot(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (taken, values) = (call.tensor(0)?, call.tensor(2)?);
    let depth = call.number(1)?.unwrap_or(0.0) as i64;
    if depth < 1 || values.dims().elements() != 2 {
        return Err(call.invalid("depth", depth, "at least 1, with two values"));
    }
    let rank = taken.dims().len();
    let axis = call.axis(-1, rank + 1)?;
    let mut dims = taken.dims().to_vec();
    dims.insert(axis, depth as usize);
    let (before, after) = (&dims[..axis], &dims[axis + 1..]);
    let (outer, inner) = (super::numbers::product(before), super::numbers::product(after));
    let data_type = values.data_type();
    call.take(&Dims::new(&dims), data_type)?;
    let indices = taken.to_f64s();
    let mut choices = Vec::with_capacity(outer * inner * depth as usize);
    for o in 0..outer {
        for d in 0..depth {
            choices.extend(indices[o * inner..(o + 1) * inner].iter().map(|&index| {
                let index = index as i64;
                // Indices out of range choose nothing.
                (-depth..depth).contains(&index) && index.rem_euclid(depth) == d
            }));
        }
    }
    hot(call, (dims.into(), data_type), &choices, values)
}

/// The windows of Blackman, Hamming and Hann, as sums of cosines.
pub(in crate::onnx) fn window(call: &mut Call) -> Result<Vec<HostTensor>> {
    let size = call.int(0)?.and_then(|size| usize::try_from(size).ok());
    let size = size.ok_or_else(|| call.invalid("size", "negative or missing", "a number of elements"))?;
    let to = data_type(i32::try_from(call.node.int("output_datatype", 1)?).unwrap_or(-1))?;
    let parts: [f64; 3] = match call.operator() {
        "BlackmanWindow" => [0.42, 0.5, 0.08],
        "HammingWindow" => [25.0 / 46.0, 21.0 / 46.0, 0.0],
        _ => [0.5, 0.5, 0.0],
    };
    let period = if call.node.flag("periodic", true)? { size } else { size.saturating_sub(1) }.max(1) as f64;
    call.take(&[size].into(), to)?;
    let of = |i: usize| {
        let angle = 2.0 * PI * i as f64 / period;
        parts[0] - parts[1] * angle.cos() + parts[2] * (2.0 * angle).cos()
    };
    let values: Vec<f64> = (0..size).map(of).collect();
    call.output([size].into(), to, &values)
}

/// Triangles over the bins of a spectrum, evenly spaced on the mel scale.
pub(in crate::onnx) fn mel(call: &mut Call) -> Result<Vec<HostTensor>> {
    let number = |index: usize| call.number(index).map(|number| number.unwrap_or(0.0));
    let (bands, length, rate) = (number(0)? as i64, number(1)? as i64, number(2)?);
    let to_mel = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
    let (low, high) = (to_mel(number(3)?), to_mel(number(4)?));
    let to = data_type(i32::try_from(call.node.int("output_datatype", 1)?).unwrap_or(-1))?;
    let dims = checked_dims(&[length / 2 + 1, bands], to)?;
    if rate <= 0.0 || length < 1 {
        return Err(call.invalid("sample rate and length", format!("{rate} and {length}"), "at least 1"));
    }
    call.take(&dims, to)?;
    // The bins at which the triangles begin, peak and end.
    let bin = |i: i64| {
        let mel = low + (high - low) * i as f64 / (bands + 2) as f64;
        let hertz = 700.0 * (10_f64.powf(mel / 2595.0) - 1.0);
        ((length + 1) as f64 * hertz / rate).floor() as i64
    };
    let of = |index: Dims| {
        let (at, band) = (index[0] as i64, index[1] as i64);
        let (begin, peak, end) = (bin(band), bin(band + 1), bin(band + 2));
        if at == peak {
            1.0
        } else if (begin..peak).contains(&at) {
            (at - begin) as f64 / (peak - begin) as f64
        } else if (peak..end).contains(&at) {
            (end - at) as f64 / (end - peak) as f64
        } else {
            0.0
        }
    };
    let values: Vec<f64> = dims.indices().map(of).collect();
    call.output(dims, to, &values)
}
