//! Normalizations.

use anydnn_backend::{DataType, Dims, Result};

use super::super::tensor::data_type;
use super::call::Call;
use super::numbers::{around, product};
use super::reduction::targets;
use super::scatter::spread;
use crate::graph::normalize_axis;
use crate::model::HostTensor;

/// Softmax, its logarithm, and the one at the greatest value, along an axis or, before opset 13, over all inner dimensions.
pub(in crate::onnx) fn softmax(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let rank = src.dims().len();
    let old = call.node.opset() < 13;
    let axis = call.axis(if old { 1 } else { -1 }, rank)?;
    let (outer, extent, inner) = around(src.dims(), axis);
    let (extent, inner) = if old { (extent * inner, 1) } else { (extent, inner) };
    let mut values = src.to_f64s();
    let operator = call.operator();
    for o in 0..outer {
        for k in 0..inner {
            let at = |i: usize| (o * extent + i) * inner + k;
            let most = (0..extent).map(|i| values[at(i)]).fold(f64::NEG_INFINITY, f64::max);
            if operator == "Hardmax" {
                let first = (0..extent).find(|&i| values[at(i)] >= most);
                (0..extent).for_each(|i| values[at(i)] = f64::from(Some(i) == first));
                continue;
            }
            let sum: f64 = (0..extent).map(|i| (values[at(i)] - most).exp()).sum();
            for i in 0..extent {
                let shifted = values[at(i)] - most;
                values[at(i)] = if operator == "Softmax" { shifted.exp() / sum } else { shifted - sum.ln() };
            }
        }
    }
    call.output(src.dims().clone(), src.data_type(), &values)
}

/// Batches with given statistics, or, for training, with their own, and running averages of them.
pub(in crate::onnx) fn batch(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let dims = src.dims().clone();
    let channels = dims.get(1).copied().unwrap_or(1);
    let inner = product(dims.get(2..).unwrap_or_default());
    let channel = |i: usize| if dims.len() > 1 { i / inner.max(1) % channels } else { 0 };
    let (scale, shift) = (call.values(1, channels)?, call.values(2, channels)?);
    let (mut mean, mut variance) = (call.values(3, channels)?, call.values(4, channels)?);
    let epsilon = f64::from(call.node.float("epsilon", 1e-5)?);
    let values = src.to_f64s();
    let mut outputs = Vec::new();
    if call.node.flag("training_mode", false)? {
        let momentum = f64::from(call.node.float("momentum", 0.9)?);
        let count = (values.len() / channels.max(1)) as f64;
        let (mut own, mut spread) = (vec![0.0; channels], vec![0.0; channels]);
        values.iter().enumerate().for_each(|(i, value)| own[channel(i)] += value / count);
        values
            .iter()
            .enumerate()
            .for_each(|(i, value)| spread[channel(i)] += (value - own[channel(i)]).powi(2) / count);
        for (running, own, input) in [(&mut mean, &own, 3), (&mut variance, &spread, 4)] {
            let made: Vec<f64> =
                running.iter().zip(own).map(|(old, new)| old * momentum + new * (1.0 - momentum)).collect();
            outputs.push(call.floats([channels].into(), call.tensor(input)?.data_type(), &made)?);
        }
        (mean, variance) = (own, spread);
    }
    let of = |(i, value): (usize, f64)| {
        let c = channel(i);
        (value - mean[c]) / (variance[c] + epsilon).sqrt() * scale[c] + shift[c]
    };
    let made: Vec<f64> = values.into_iter().enumerate().map(of).collect();
    outputs.insert(0, call.floats(dims, src.data_type(), &made)?);
    Ok(outputs)
}

/// Each channel of each sample by its own statistics.
pub(in crate::onnx) fn instance(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let channels = src.dims().get(1).copied().unwrap_or(1);
    let inner = product(src.dims().get(2..).unwrap_or_default());
    let (scale, shift) = (call.values(1, channels)?, call.values(2, channels)?);
    let made = grouped(call, src, inner, |i| (scale[i / inner % channels], shift[i / inner % channels]))?;
    call.output(src.dims().clone(), src.data_type(), &made)
}

/// Groups of channels by their own statistics; scales are for channels, before opset 21 for groups.
pub(in crate::onnx) fn group(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let channels = src.dims().get(1).copied().unwrap_or(1);
    let inner = product(src.dims().get(2..).unwrap_or_default());
    let given = call.node.int("num_groups", 0)?;
    let groups = usize::try_from(given).ok().filter(|&groups| groups > 0 && channels.is_multiple_of(groups));
    let groups = groups
        .ok_or_else(|| call.invalid("attribute num_groups", given, format!("a divisor of {channels}")))?;
    let size = channels / groups;
    let count = if call.node.opset() < 21 { groups } else { channels };
    let (scale, shift) = (call.values(1, count)?, call.values(2, count)?);
    let factor = |i: usize| {
        let c = i / inner % channels / (channels / count);
        (scale[c], shift[c])
    };
    let made = grouped(call, src, size * inner, factor)?;
    call.output(src.dims().clone(), src.data_type(), &made)
}

/// Runs of elements with mean zero and variance one, times a factor plus a shift for each element.
fn grouped(
    call: &Call,
    src: &HostTensor,
    run: usize,
    factor: impl Fn(usize) -> (f64, f64),
) -> Result<Vec<f64>> {
    let epsilon = f64::from(call.node.float("epsilon", 1e-5)?);
    let mut values = src.to_f64s();
    for (n, part) in values.chunks_mut(run.max(1)).enumerate() {
        let mean = part.iter().sum::<f64>() / part.len() as f64;
        let variance = part.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / part.len() as f64;
        let scale = 1.0 / (variance + epsilon).sqrt();
        for (i, value) in part.iter_mut().enumerate() {
            let (factor, shift) = factor(n * run + i);
            *value = (*value - mean) * scale * factor + shift;
        }
    }
    Ok(values)
}

/// All dimensions from an axis on, with the means and the inverse deviations.
pub(in crate::onnx) fn layer(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let (dims, axis) = (src.dims().clone(), call.axis(-1, src.dims().len())?);
    let run = product(&dims[axis..]).max(1);
    let scale = factors(call, 1, &dims, 1.0)?;
    let shift = factors(call, 2, &dims, 0.0)?;
    let epsilon = f64::from(call.node.float("epsilon", 1e-5)?);
    let (mut values, mut means, mut inverses) = (src.to_f64s(), Vec::new(), Vec::new());
    for (n, part) in values.chunks_mut(run).enumerate() {
        let mean = part.iter().sum::<f64>() / run as f64;
        let variance = part.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / run as f64;
        let inverse = 1.0 / (variance + epsilon).sqrt();
        for (i, value) in part.iter_mut().enumerate() {
            *value = (*value - mean) * inverse * scale[n * run + i] + shift[n * run + i];
        }
        means.push(mean);
        inverses.push(inverse);
    }
    let reduced: Dims = (0..dims.len()).map(|d| if d < axis { dims[d] } else { 1 }).collect();
    let stash = data_type(i32::try_from(call.node.int("stash_type", 1)?).unwrap_or(-1))?;
    Ok(vec![
        call.floats(dims, src.data_type(), &values)?,
        call.floats(reduced.clone(), stash, &means)?,
        call.floats(reduced, stash, &inverses)?,
    ])
}

/// All dimensions from an axis on by the root of the mean of their squares.
pub(in crate::onnx) fn rms(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let (dims, axis) = (src.dims().clone(), call.axis(-1, src.dims().len())?);
    let run = product(&dims[axis..]).max(1);
    let scale = factors(call, 1, &dims, 1.0)?;
    let epsilon = f64::from(call.node.float("epsilon", 1e-5)?);
    let mut values = src.to_f64s();
    for (part, scale) in values.chunks_mut(run).zip(scale.chunks(run)) {
        let square = part.iter().map(|value| value * value).sum::<f64>() / run as f64;
        let inverse = 1.0 / (square + epsilon).sqrt();
        part.iter_mut().zip(scale).for_each(|(value, scale)| *value *= inverse * scale);
    }
    call.output(dims, src.data_type(), &values)
}

/// An input that broadcasts to the source, or the same number everywhere.
fn factors(call: &Call, index: usize, dims: &Dims, absent: f64) -> Result<Vec<f64>> {
    match call.optional(index) {
        None => Ok(vec![absent; dims.elements()]),
        Some(tensor) if tensor.dims().broadcasts_to(dims) => Ok(spread(tensor, dims)),
        Some(tensor) => {
            let expected = format!("dimensions that broadcast to {dims}");
            Err(call.invalid(&format!("input {index}"), tensor.desc(), expected))
        }
    }
}

/// Along an axis by the sum of sizes or the root of the sum of squares; zeros stay.
pub(in crate::onnx) fn lp(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let axis = call.axis(-1, src.dims().len())?;
    let (outer, extent, inner) = around(src.dims(), axis);
    let p = call.node.int("p", 2)?;
    let mut values = src.to_f64s();
    for o in 0..outer {
        for k in 0..inner {
            let at = |i: usize| (o * extent + i) * inner + k;
            let parts = (0..extent).map(|i| values[at(i)]);
            let norm: f64 =
                if p == 1 { parts.map(f64::abs).sum() } else { parts.map(|x| x * x).sum::<f64>().sqrt() };
            (0..extent).for_each(|i| values[at(i)] = if norm == 0.0 { 0.0 } else { values[at(i)] / norm });
        }
    }
    call.output(src.dims().clone(), src.data_type(), &values)
}

/// Mean zero and variance one over axes.
pub(in crate::onnx) fn mean_variance(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let rank = src.dims().len();
    let mut gone = vec![false; rank];
    for axis in call.node.ints("axes")?.unwrap_or_else(|| vec![0, 2, 3]) {
        gone[normalize_axis(axis, rank)?] = true;
    }
    let kept: Dims = src.dims().iter().zip(&gone).map(|(&dim, &gone)| if gone { 1 } else { dim }).collect();
    let targets = targets(src.dims(), &kept, &gone);
    let count = (src.dims().elements() / kept.elements().max(1)) as f64;
    let mut values = src.to_f64s();
    let (mut mean, mut variance) = (vec![0.0; kept.elements()], vec![0.0; kept.elements()]);
    values.iter().zip(&targets).for_each(|(value, &t)| mean[t] += value / count);
    values.iter().zip(&targets).for_each(|(value, &t)| variance[t] += (value - mean[t]).powi(2) / count);
    // The published formula adds this to the deviation.
    values
        .iter_mut()
        .zip(&targets)
        .for_each(|(value, &t)| *value = (*value - mean[t]) / (variance[t].sqrt() + 1e-9));
    call.output(src.dims().clone(), src.data_type(), &values)
}

/// Each channel by the squares of those around it.
pub(in crate::onnx) fn local_response(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    if src.dims().len() < 2 {
        return Err(call.invalid("input 0", src.desc(), "at least two dimensions"));
    }
    let (outer, channels, inner) = around(src.dims(), 1);
    let number = |name: &str, absent: f32| call.node.float(name, absent).map(f64::from);
    let (alpha, beta, bias) = (number("alpha", 1e-4)?, number("beta", 0.75)?, number("bias", 1.0)?);
    let size = usize::try_from(call.node.int("size", 1)?).unwrap_or(1).max(1);
    let values = src.to_f64s();
    let mut made = Vec::with_capacity(values.len());
    for o in 0..outer {
        for c in 0..channels {
            let (first, last) =
                (c.saturating_sub((size - 1) / 2), c.saturating_add(size / 2).min(channels - 1));
            for k in 0..inner {
                let at = |c: usize| values[(o * channels + c) * inner + k];
                let sum: f64 = (first..=last).map(|c| at(c) * at(c)).sum();
                made.push(at(c) / (bias + alpha / size as f64 * sum).powf(beta));
            }
        }
    }
    call.output(src.dims().clone(), src.data_type(), &made)
}

/// The type that a number of ONNX's types names, for computing in it.
pub(super) fn rounded(values: &mut [f64], to: DataType) {
    match to {
        DataType::F64 => {}
        DataType::F16 => values.iter_mut().for_each(|value| *value = half::f16::from_f64(*value).to_f64()),
        DataType::BF16 => values.iter_mut().for_each(|value| *value = half::bf16::from_f64(*value).to_f64()),
        _ => values.iter_mut().for_each(|value| *value = f64::from(*value as f32)),
    }
}
