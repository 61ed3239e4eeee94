use super::{Operands, Tensor};
use crate::op::{GatedMatMul, GroupedMatMul};
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

pub(super) fn grouped(op: GroupedMatMul, operands: &Operands) -> Tensor {
    let (src, weights) = (operands.get(Arg::SRC), operands.get(Arg::Weights));
    let ends = operands.get(Arg::Src(1)).values.iter().map(|end| *end as i64);
    let axis = usize::from(op == GroupedMatMul::Terms);
    let groups: Vec<_> = GroupedMatMul::groups(ends, src.dims[axis]).collect();
    Tensor::from_fn(operands.dst_dims(), |index| match (op, index) {
        (GroupedMatMul::Rows, &[m, n]) => groups.iter().position(|rows| rows.contains(&m)).map_or(0.0, |g| {
            let bias = operands.find(Arg::Src(2)).map_or(0.0, |bias| bias.at(&[g, n]));
            (0..src.dims[1]).map(|k| src.at(&[m, k]) * weights.at(&[g, k, n])).sum::<f64>() + bias
        }),
        (_, index) => {
            let (g, m, n) = (index[0], index[1], index[2]);
            groups[g].clone().map(|k| src.at(&[m, k]) * weights.at(&[k, n])).sum()
        }
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
