//! Normalizations.

use anydnn_backend::{DataType, Dims, Result};

use super::call::Call;
use super::numbers::{around, product};
use super::reduction::targets;
use super::scatter::spread;
use crate::graph::normalize_axis;
use crate::model::HostTensor;

/// One at the greatest value along an axis or, before opset 13, over all inner dimensions; zeros elsewhere.
pub(in crate::onnx) fn hardmax(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let rank = src.dims().len();
    let old = call.node.opset() < 13;
    let axis = call.axis(if old { 1 } else { -1 }, rank)?;
    let (outer, extent, inner) = around(src.dims(), axis);
    let (extent, inner) = if old { (extent * inner, 1) } else { (extent, inner) };
    let mut values = src.to_f64s();
    for o in 0..outer {
        for k in 0..inner {
            let at = |i: usize| (o * extent + i) * inner + k;
            let most = (0..extent).map(|i| values[at(i)]).fold(f64::NEG_INFINITY, f64::max);
            let first = (0..extent).find(|&i| values[at(i)] >= most);
            (0..extent).for_each(|i| values[at(i)] = f64::from(Some(i) == first));
        }
    }
    call.output(src.dims().clone(), src.data_type(), &values)
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
