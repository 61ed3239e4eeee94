use super::{Operands, Tensor};
use crate::Arg;
use crate::op::Softmax;

pub(super) fn softmax(op: &Softmax, operands: &Operands) -> Tensor {
    let src = operands.get(Arg::SRC);
    Tensor::from_fn(operands.dst_dims(), |index| {
        let row: Vec<f64> = (0..src.dims[op.axis])
            .map(|i| {
                let mut at = index.to_vec();
                at[op.axis] = i;
                src.at(&at)
            })
            .collect();
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if op.inf_as_zero && row.iter().all(|x| *x == f64::NEG_INFINITY) {
            return 0.0;
        }
        let sum: f64 = row.iter().map(|x| (x - largest).exp()).sum();
        let x = src.at(index) - largest;
        if op.log { x - sum.ln() } else { x.exp() / sum }
    })
}
