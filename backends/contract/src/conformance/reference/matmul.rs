use super::{Operands, Tensor};
use crate::Arg;

pub(super) fn matmul(operands: &Operands) -> Tensor {
    let (src, weights) = (operands.get(Arg::SRC), operands.get(Arg::Weights));
    let rank = src.dims.len();
    let (row, column) = (rank - 2, rank - 1);
    Tensor::from_fn(operands.dst_dims(), |index| {
        let mut sum = 0.0;
        for k in 0..src.dims[column] {
            let (mut left, mut right) = (index.to_vec(), index.to_vec());
            left[column] = k;
            right[row] = k;
            sum += src.broadcast_at(&left) * weights.broadcast_at(&right);
        }
        sum + operands.find(Arg::Bias).map_or(0.0, |bias| bias.broadcast_at(index))
    })
}
