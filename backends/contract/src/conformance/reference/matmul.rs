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
    Tensor::from_fn(&up.dims, |index| {
        op.join.reference(up.at(index), op.activation.reference(gate.at(index)))
    })
}

fn product(src: &Tensor, weights: &Tensor, dims: &Dims) -> Tensor {
    let rank = src.dims.len();
    let (terms, columns) = (src.dims[rank - 1], weights.dims[rank - 1]);
    if terms == 0 {
        return Tensor::from_fn(dims, |_| 0.0);
    }
    Tensor::from_fn(dims, |index| {
        let (mut left, mut right) = (Dims::new(index), Dims::new(index));
        left[rank - 1] = 0;
        right[rank - 2] = 0;
        let row = &src.values[src.broadcast_place(&left)..];
        let column = &weights.values[weights.broadcast_place(&right)..];
        (0..terms).map(|k| row[k] * column[k * columns]).sum()
    })
}
