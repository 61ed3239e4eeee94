//! Classical machine learning as scikit-learn's exporters write it, after the reference of the domain `ai.onnx.ml`: trees, linear models, and
//! what prepares features, on tensors of numbers.

mod trees;

use std::collections::HashMap;

use anydnn_backend::{DataType, Dims, Result};

use super::super::files::{ExternalData, Origin};
use super::super::tensor::host_tensor;
use super::call::Call;
use crate::model::HostTensor;
pub(in crate::onnx) use trees::{tree_classifier, tree_regressor};

/// Products of rows and coefficients, with intercepts, one column for each target.
pub(in crate::onnx) fn linear_regressor(call: &mut Call) -> Result<Vec<HostTensor>> {
    let targets = usize::try_from(call.node.int("targets", 1)?).unwrap_or(0).max(1);
    let (rows, mut made) = products(call, targets)?;
    for line in made.chunks_mut(targets) {
        transform(call, line)?;
    }
    call.output(Dims::from([rows, targets]), DataType::F32, &made)
}

/// The class of each row by the greatest product with its coefficients, and the products of all classes.
pub(in crate::onnx) fn linear_classifier(call: &mut Call) -> Result<Vec<HostTensor>> {
    let labels = labels(call, "classlabels_ints")?;
    let coefficients = call.node.floats("coefficients")?.unwrap_or_default().len();
    let classes = coefficients / matrix(call)?.2.max(1);
    if classes < 2 || labels.len() != classes {
        let expected = format!("one for each of {}, at least two", labels.len());
        return Err(call.invalid("classes with coefficients", classes, expected));
    }
    let (rows, mut made) = products(call, classes)?;
    let mut chosen = Vec::with_capacity(rows);
    for line in made.chunks_mut(classes) {
        chosen.push(labels[greatest(line)]);
        transform(call, line)?;
    }
    outputs(call, &chosen, [rows, classes], &made)
}

/// The difference from an offset, scaled.
pub(in crate::onnx) fn scaler(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (_, values, width) = matrix(call)?;
    let column = |name: &str, absent: f32| -> Result<Vec<f64>> {
        let given = call.node.floats(name)?.unwrap_or_else(|| vec![absent]);
        match given.len() {
            1 => Ok(vec![f64::from(given[0]); width]),
            count if count == width => Ok(given.into_iter().map(f64::from).collect()),
            count => Err(call.invalid(&format!("attribute {name}"), count, format!("1 or {width} numbers"))),
        }
    };
    let (offsets, scales) = (column("offset", 0.0)?, column("scale", 1.0)?);
    let made: Vec<f64> = values
        .iter()
        .enumerate()
        .map(|(i, value)| (value - offsets[i % width.max(1)]) * scales[i % width.max(1)])
        .collect();
    call.output(call.tensor(0)?.dims().clone(), DataType::F32, &made)
}

/// Rows by their norm; rows without any stay as they are.
pub(in crate::onnx) fn normalizer(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (_, mut values, width) = matrix(call)?;
    let norm = call.node.word("norm", "MAX")?;
    for row in values.chunks_mut(width.max(1)) {
        let size = match norm.as_str() {
            "MAX" => row.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            "L1" => row.iter().map(|value| value.abs()).sum(),
            "L2" => row.iter().map(|value| value * value).sum::<f64>().sqrt(),
            other => return Err(call.invalid("attribute norm", other, "MAX, L1 or L2")),
        };
        if size != 0.0 {
            row.iter_mut().for_each(|value| *value /= size);
        }
    }
    call.output(call.tensor(0)?.dims().clone(), DataType::F32, &values)
}

/// Another number in place of missing ones.
#[expect(clippy::float_cmp, reason = "missing is what equals the one number that stands for it")]
pub(in crate::onnx) fn imputer(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (_, mut values, width) = matrix(call)?;
    let src = call.tensor(0)?;
    let is_whole = src.data_type().is_integer();
    let (given, replaced) = if is_whole {
        let given = call.node.ints("imputed_value_int64s")?.unwrap_or_default();
        (given.iter().map(|&value| value as f64).collect(), call.node.int("replaced_value_int64", 0)? as f64)
    } else {
        let given = call.node.floats("imputed_value_floats")?.unwrap_or_default();
        let replaced = f64::from(call.node.float("replaced_value_float", 0.0)?);
        (given.into_iter().map(f64::from).collect::<Vec<f64>>(), replaced)
    };
    if given.len() != 1 && given.len() != width {
        return Err(call.invalid("imputed values", given.len(), format!("1 or {width}")));
    }
    for (i, value) in values.iter_mut().enumerate() {
        if *value == replaced || value.is_nan() && replaced.is_nan() {
            *value = given[if given.len() == 1 { 0 } else { i % width }];
        }
    }
    call.output(src.dims().clone(), src.data_type(), &values)
}

/// Other numbers in place of keys.
pub(in crate::onnx) fn label_encoder(call: &mut Call) -> Result<Vec<HostTensor>> {
    let node = call.node;
    let src = call.tensor(0)?;
    let list = |way: &str| -> Result<Option<(Vec<f64>, DataType)>> {
        if let Some(ints) = node.ints(&format!("{way}_int64s"))? {
            return Ok(Some((ints.into_iter().map(|value| value as f64).collect(), DataType::S64)));
        }
        if let Some(floats) = node.floats(&format!("{way}_floats"))? {
            return Ok(Some((floats.into_iter().map(f64::from).collect(), DataType::F32)));
        }
        let Some(tensor) = node.tensor(&format!("{way}_tensor"))? else { return Ok(None) };
        let tensor = host_tensor(tensor, &mut ExternalData::new(&Origin::default()))?;
        Ok(Some((tensor.to_f64s(), tensor.data_type())))
    };
    let (Some((keys, _)), Some((values, to))) = (list("keys")?, list("values")?) else {
        return Err(node.unsupported("keys and values that are strings are not read"));
    };
    if keys.len() != values.len() {
        return Err(call.invalid("values", values.len(), format!("one for each of {} keys", keys.len())));
    }
    let absent = match node.tensor("default_tensor")? {
        Some(tensor) => host_tensor(tensor, &mut ExternalData::new(&Origin::default()))?.number(),
        None if to == DataType::S64 => Some(node.int("default_int64", -1)? as f64),
        None => Some(f64::from(node.float("default_float", -0.0)?)),
    };
    let absent = absent.ok_or_else(|| call.invalid("attribute default_tensor", "several", "one number"))?;
    let places: HashMap<u64, f64> = keys.iter().map(|&key| bits(key)).zip(values).collect();
    let made: Vec<f64> =
        src.to_f64s().into_iter().map(|key| places.get(&bits(key)).copied().unwrap_or(absent)).collect();
    call.output(src.dims().clone(), to, &made)
}

/// The numbers of two classes for the score of the second.
fn of_one(call: &Call, score: f64, are_positive: bool) -> Result<[f64; 2]> {
    match call.node.word("post_transform", "NONE")?.as_str() {
        "LOGISTIC" => Ok([logistic(-score), logistic(score)]),
        "NONE" | "SOFTMAX" | "SOFTMAX_ZERO" if are_positive => Ok([1.0 - score, score]),
        "NONE" | "SOFTMAX" | "SOFTMAX_ZERO" => Ok([-score, score]),
        other => Err(call.node.unsupported(format!("the transformation {other} of two classes is not read"))),
    }
}

/// The transformation of a row that the node names.
fn transform(call: &Call, row: &mut [f64]) -> Result<()> {
    match call.node.word("post_transform", "NONE")?.as_str() {
        "NONE" => {}
        "LOGISTIC" => row.iter_mut().for_each(|value| *value = logistic(*value)),
        way @ ("SOFTMAX" | "SOFTMAX_ZERO") => {
            let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            // What is nearly zero stays so with the latter.
            let keeps = |value: f64| way == "SOFTMAX_ZERO" && value.abs() <= 1e-7;
            for value in row.iter_mut() {
                *value = if keeps(*value) { 0.0 } else { (*value - most).exp() };
            }
            let sum: f64 = row.iter().sum();
            row.iter_mut().filter(|_| sum != 0.0).for_each(|value| *value /= sum);
        }
        other => return Err(call.node.unsupported(format!("the transformation {other} is not read"))),
    }
    Ok(())
}

fn logistic(value: f64) -> f64 {
    1.0 / (1.0 + (-value).exp())
}

/// Rows times the coefficients of columns, with intercepts.
fn products(call: &Call, columns: usize) -> Result<(usize, Vec<f64>)> {
    let (rows, values, width) = matrix(call)?;
    let coefficients = call.node.floats("coefficients")?.unwrap_or_default();
    let intercepts = call.node.floats("intercepts")?.unwrap_or_else(|| vec![0.0; columns]);
    if coefficients.len() != columns * width || intercepts.len() != columns {
        let given = format!("{} and {}", coefficients.len(), intercepts.len());
        let expected = format!("{columns} times {width}, and {columns}");
        return Err(call.invalid("coefficients and intercepts", given, expected));
    }
    let mut made = Vec::with_capacity(rows * columns);
    for row in values.chunks(width.max(1)).take(rows) {
        for (column, own) in coefficients.chunks(width.max(1)).enumerate() {
            let sum: f64 = row.iter().zip(own).map(|(a, b)| a * f64::from(*b)).sum();
            made.push(sum + f64::from(intercepts[column]));
        }
    }
    Ok((rows, made))
}

/// The rows of the source, its values, and how many each row has. One row may come without the dimension.
fn matrix(call: &Call) -> Result<(usize, Vec<f64>, usize)> {
    let src = call.tensor(0)?;
    match src.dims()[..] {
        [width] => Ok((1, src.to_f64s(), width)),
        [rows, width] => Ok((rows, src.to_f64s(), width)),
        _ => Err(call.invalid("input 0", src.desc(), "[rows, features]")),
    }
}

fn labels(call: &Call, name: &str) -> Result<Vec<i64>> {
    match call.node.ints(name)? {
        Some(labels) if !labels.is_empty() => Ok(labels),
        _ => Err(call.node.unsupported("classes that are strings are not read")),
    }
}

fn outputs(call: &mut Call, chosen: &[i64], dims: [usize; 2], scores: &[f64]) -> Result<Vec<HostTensor>> {
    let labels = call.numbers(Dims::from([dims[0]]), DataType::S64, chosen.to_vec())?;
    Ok(vec![labels, call.floats(Dims::from(dims), DataType::F32, scores)?])
}

/// The first of the greatest.
fn greatest(row: &[f64]) -> usize {
    (1..row.len()).fold(0, |best, at| if row[at] > row[best] { at } else { best })
}

/// Floats of an attribute, or of its form as a tensor, which has them in f64.
fn numbers(call: &Call, name: &str) -> Result<Option<Vec<f64>>> {
    if let Some(floats) = call.node.floats(name)? {
        return Ok(Some(floats.into_iter().map(f64::from).collect()));
    }
    let Some(tensor) = call.node.tensor(&format!("{name}_as_tensor"))? else { return Ok(None) };
    Ok(Some(host_tensor(tensor, &mut ExternalData::new(&Origin::default()))?.to_f64s()))
}

/// A number as a key; all that are none are one key, and so are both zeros.
fn bits(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}
