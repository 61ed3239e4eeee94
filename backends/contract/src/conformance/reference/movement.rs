use super::{Operands, Tensor};
use crate::op::{Concat, Gather, Remap};
use crate::{Arg, Dims};

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

pub(super) fn remap(op: &Remap, operands: &Operands) -> Tensor {
    let src = operands.get(Arg::SRC);
    let fill = operands.find(Arg::Src(1)).map_or(0.0, |fill| fill.values[0]);
    Tensor::from_fn(operands.dst_dims(), |index| {
        let at = |axis: usize| {
            let place = op.starts[axis] + op.steps[axis] * index[axis] as i64;
            op.border.index(place, src.dims[axis])
        };
        let place: Option<Dims> = (0..index.len()).map(at).collect();
        place.map_or(fill, |place| src.at(&place))
    })
}

pub(super) fn gather(op: Gather, operands: &Operands) -> Tensor {
    let (src, indices) = (operands.get(Arg::Src(0)), operands.get(Arg::Src(1)));
    Tensor::from_fn(operands.dst_dims(), |index| {
        let place = op.place(&src.dims, &indices.dims, index, |at| indices.at(at) as i64);
        place.map_or(0.0, |place| src.at(&place))
    })
}
