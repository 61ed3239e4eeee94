use super::expression::pointwise;
use super::{Operands, Tensor, Tensors};
use crate::op::Attention;
use crate::{Arg, Dims};

pub(super) fn attention(op: &Attention, operands: &Operands) -> Tensors {
    let (query, key, value) =
        (operands.get(Arg::Src(0)), operands.get(Arg::Src(1)), operands.get(Arg::Src(2)));
    let rank = query.dims.len();
    let (row, column) = (rank - 2, rank - 1);
    let (depth, length) = (query.dims[column], key.dims[row]);
    // A matrix of the key or value: the batch of the query falls on it by blocks.
    let matrix_at = |tensor: &Tensor, index: &[usize], i: usize, j: usize| {
        let mut at = index.to_vec();
        (at[row], at[column]) = (i, j);
        let mut space = query.dims.to_vec();
        (space[row], space[column]) = (tensor.dims[row], tensor.dims[column]);
        tensor.block_at(&at, &space)
    };
    let products = Tensor::from_fn(&op.scores.dims, |index| {
        (0..depth)
            .map(|k| {
                let mut at = index.to_vec();
                at[column] = k;
                query.at(&at) * matrix_at(key, index, index[column], k)
            })
            .sum()
    });
    let source = |first: &Tensor, i: u16| -> Tensor {
        if i == 0 { first.clone() } else { operands.get(Arg::Src(i + 2)).clone() }
    };
    let count = op.sources() as u16 - 2;
    let sources: Vec<Tensor> = (0..count).map(|i| source(&products, i)).collect();
    let scores = pointwise(&op.scores, &|i| &sources[usize::from(i)]);
    let mut stats_dims = Dims::new(&query.dims);
    stats_dims[column] = 1;
    let row_of = |index: &[usize]| -> Vec<f64> {
        let mut at = index.to_vec();
        (0..length)
            .map(|i| {
                at[column] = i;
                scores.at(&at)
            })
            .collect()
    };
    let stats = Tensor::from_fn(&stats_dims, |index| log_sum(&row_of(index)));
    let rows = stats.clone();
    let weights = Tensor::from_fn(&op.scores.dims, |index| {
        let log_sum = rows.broadcast_at(index);
        if op.inf_as_zero && log_sum == f64::NEG_INFINITY {
            return 0.0;
        }
        (scores.at(index) - log_sum).exp()
    });
    let weights = match &op.weights {
        None => weights,
        Some(expression) => {
            let sources: Vec<Tensor> = (0..count).map(|i| source(&weights, i)).collect();
            pointwise(expression, &|i| &sources[usize::from(i)])
        }
    };
    let dst = Tensor::from_fn(operands.dst_dims(), |index| {
        (0..length)
            .map(|i| {
                let mut at = index.to_vec();
                at[column] = i;
                weights.at(&at) * matrix_at(value, index, i, index[column])
            })
            .sum()
    });
    Tensors::from([(Arg::DST, dst), (Arg::Dst(1), stats)])
}

/// The logarithm of the sum of exponentials; minus infinity of none.
fn log_sum(row: &[f64]) -> f64 {
    let largest =
        row.iter().copied().fold(f64::NEG_INFINITY, |max, x| if x > max || x.is_nan() { x } else { max });
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    largest + row.iter().map(|x| (x - largest).exp()).sum::<f64>().ln()
}
