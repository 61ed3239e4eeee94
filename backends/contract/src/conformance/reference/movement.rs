use super::{Operands, Tensor};
use crate::Arg;
use crate::op::Concat;

pub(super) fn concat(op: Concat, operands: &Operands) -> Tensor {
    Tensor::from_fn(operands.dst_dims(), |index| {
        let mut at = index.to_vec();
        let mut source = 0;
        loop {
            let src = operands.get(Arg::Src(source));
            if at[op.axis] < src.dims[op.axis] {
                return src.at(&at);
            }
            at[op.axis] -= src.dims[op.axis];
            source += 1;
        }
    })
}
