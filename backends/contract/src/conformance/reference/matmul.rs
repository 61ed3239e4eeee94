use super::{Operands, Tensor};
use crate::op::GatedMatMul;
use crate::{Arg, Dims};

pub(super) fn matmul(operands: &Operands) -> Tensor {
    let products = product(operands.get(Arg::SRC), operands.get(Arg::Weights), operands.dst_dims());
    Tensor::from_fn(&products.dims, |index| {
        products.at(index) + operands.find(Arg::Bias).map_or(0.0, |bias| bias.broadcast_at(index))
    })
}

pub(super) fn gated(op: GatedMatMul, operands: &Operands) -> Tensor {
    let src = operands.get(Arg::SRC);
    let up = product(src, operands.get(Arg::Weights), operands.dst_dims());
    let gate = product(src, operands.get(Arg::Src(1)), operands.dst_dims());
    Tensor::from_fn(&up.dims, |index| up.at(index) * op.activation.reference(gate.at(index)))
}

fn product(src: &Tensor, weights: &Tensor, dims: &Dims) -> Tensor {
    let rank = src.dims.len();
    let (row, column) = (rank - 2, rank - 1);
    Tensor::from_fn(dims, |index| {
        let term = |k: usize| {
            let (mut left, mut right) = (index.to_vec(), index.to_vec());
            left[column] = k;
            right[row] = k;
            src.broadcast_at(&left) * weights.broadcast_at(&right)
        };
        (0..src.dims[column]).map(term).sum()
    })
}
