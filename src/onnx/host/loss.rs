//! Losses of classifications.

use anydnn_backend::{Dims, Result};

use super::call::Call;
use super::numbers::product;
use crate::model::HostTensor;

/// The negated scores of the wanted classes, weighed.
pub(in crate::onnx) fn negative_log_likelihood(call: &mut Call) -> Result<Vec<HostTensor>> {
    let scores = call.tensor(0)?.to_f64s();
    lost(call, &scores)
}

/// The same of the logarithm of softmax, which is the second output.
pub(in crate::onnx) fn cross_entropy(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let (classes, inner) = sizes(call, src)?;
    let mut scores = src.to_f64s();
    for sample in scores.chunks_mut((classes * inner).max(1)) {
        for k in 0..inner {
            let most = (0..classes).map(|c| sample[c * inner + k]).fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = (0..classes).map(|c| (sample[c * inner + k] - most).exp()).sum();
            (0..classes).for_each(|c| sample[c * inner + k] -= most + sum.ln());
        }
    }
    let mut made = lost(call, &scores)?;
    made.push(call.floats(src.dims().clone(), src.data_type(), &scores)?);
    Ok(made)
}

/// The number of classes, and of elements behind them.
fn sizes(call: &Call, src: &HostTensor) -> Result<(usize, usize)> {
    if src.dims().len() < 2 {
        return Err(call.invalid("scores", src.desc(), "samples and classes"));
    }
    Ok((src.dims()[1], product(&src.dims()[2..])))
}

fn lost(call: &mut Call, scores: &[f64]) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let (classes, inner) = sizes(call, src)?;
    let wanted = call.ints(1)?;
    let dims: Dims = src.dims().iter().enumerate().filter(|(d, _)| *d != 1).map(|(_, &dim)| dim).collect();
    let weights = call.values_or(2, classes, 1.0)?;
    let ignored = if call.node.has("ignore_index") { Some(call.node.int("ignore_index", 0)?) } else { None };
    if *call.tensor(1)?.dims() != dims {
        return Err(call.invalid("classes", call.tensor(1)?.desc(), format!("dimensions {dims}")));
    }
    let (mut losses, mut total) = (Vec::with_capacity(wanted.len()), 0.0);
    for (i, &class) in wanted.iter().enumerate() {
        if Some(class) == ignored {
            losses.push(0.0);
            continue;
        }
        let index = usize::try_from(class).ok().filter(|&index| index < classes);
        let index = index.ok_or_else(|| call.invalid("class", class, format!("one of {classes}")))?;
        let at = (i / inner.max(1) * classes + index) * inner + i % inner.max(1);
        losses.push(-scores[at] * weights[index]);
        total += weights[index];
    }
    let sum: f64 = losses.iter().sum();
    match call.node.word("reduction", "mean")?.as_str() {
        "none" => call.output(dims, src.data_type(), &losses),
        "sum" => call.output(Dims::default(), src.data_type(), &[sum]),
        _ => call.output(Dims::default(), src.data_type(), &[sum / total]),
    }
}
