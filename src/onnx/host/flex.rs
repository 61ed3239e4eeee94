//! Attention of which graphs of the file change the scores and the probabilities: the products before and behind these.

use anydnn_backend::{DataType, Dims, Result};

use super::call::Call;
use crate::model::HostTensor;
use crate::onnx::tensor::data_type;

/// The scaled products of queries and keys, in the type that probabilities are computed in.
pub(in crate::onnx) fn flex_scores(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (queries, keys) = (call.ranked(0, 4)?, call.ranked(1, 4)?);
    let made = match (call.node.int("softmax_precision", 0)?, queries.data_type()) {
        (0, DataType::F64) => DataType::F64,
        (0, _) => DataType::F32,
        (number, _) => data_type(i32::try_from(number).unwrap_or(-1))?,
    };
    let (rows, columns, inner) = (queries.dims()[2], keys.dims()[2], queries.dims()[3]);
    let group = group(call, queries, keys)?;
    if keys.dims()[3] != inner {
        return Err(call.invalid("keys", keys.desc(), format!("vectors of {inner} elements")));
    }
    let scale = f64::from(call.node.float("scale", 0.0)?);
    let scale = if call.node.has("scale") { scale } else { 1.0 / (inner.max(1) as f64).sqrt() };
    let dims = Dims::from([queries.dims()[0], queries.dims()[1], rows, columns]);
    call.take(&dims, made)?;
    let (a, b) = (queries.to_f64s(), keys.to_f64s());
    let mut values = Vec::with_capacity(dims.elements());
    for head in 0..dims[0] * dims[1] {
        for row in 0..rows {
            let query = &a[(head * rows + row) * inner..][..inner];
            for column in 0..columns {
                let key = &b[(head / group * columns + column) * inner..][..inner];
                values.push(scale * query.iter().zip(key).map(|(a, b)| a * b).sum::<f64>());
            }
        }
    }
    call.output(dims, made, &values)
}

/// The products of probabilities and values.
pub(in crate::onnx) fn flex_values(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (weights, values) = (call.ranked(0, 4)?, call.ranked(1, 4)?);
    let group = group(call, weights, values)?;
    let (rows, inner, columns) = (weights.dims()[2], weights.dims()[3], values.dims()[3]);
    if values.dims()[2] != inner {
        return Err(call.invalid("values", values.desc(), format!("{inner} of them")));
    }
    let dims = Dims::from([weights.dims()[0], weights.dims()[1], rows, columns]);
    call.take(&dims, values.data_type())?;
    let (a, b) = (weights.to_f64s(), values.to_f64s());
    let mut made = vec![0.0; dims.elements()];
    for (line, made) in made.chunks_mut(columns.max(1)).enumerate() {
        let head = line / rows.max(1) / group;
        for k in 0..inner {
            let from = &b[(head * inner + k) * columns..][..columns];
            made.iter_mut().zip(from).for_each(|(sum, value)| *sum += a[line * inner + k] * value);
        }
    }
    call.output(dims, values.data_type(), &made)
}

/// How many heads of the first share one of the second.
fn group(call: &Call, first: &HostTensor, second: &HostTensor) -> Result<usize> {
    let (batch, heads, shared) = (first.dims()[0], first.dims()[1], second.dims()[1]);
    if batch == second.dims()[0] && shared > 0 && heads > 0 && heads.is_multiple_of(shared) {
        return Ok(heads / shared);
    }
    let expected = format!("the batch of {} and a divisor of its heads", first.desc());
    Err(call.invalid("keys or values", second.desc(), expected))
}
