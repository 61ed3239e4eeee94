//! Other sizes of the spatial dimensions.

use super::{Operands, Tensor};
use crate::op::{Resampling, ResamplingAlgorithm};
use crate::{Arg, Dims};

pub(super) fn forward(op: Resampling, operands: &Operands) -> Tensor {
    let src = operands.get(Arg::SRC);
    let to = operands.dst_dims();
    Tensor::from_fn(to, |index| {
        sources(op, index, &src.dims, to).iter().map(|(from, weight)| weight * src.at(from)).sum()
    })
}

pub(super) fn backward(op: Resampling, operands: &Operands) -> Tensor {
    let diff = operands.get(Arg::SRC);
    let mut dst = Tensor::from_fn(operands.dst_dims(), |_| 0.0);
    for index in diff.dims.indices() {
        for (to, weight) in sources(op, &index, &dst.dims.clone(), &diff.dims) {
            dst.add(&to, weight * diff.at(&index));
        }
    }
    dst
}

/// The source's elements behind a result element, with their weights.
fn sources(op: Resampling, index: &[usize], from: &Dims, to: &Dims) -> Vec<(Vec<usize>, f64)> {
    let mut all = vec![(index[..2].to_vec(), 1.0)];
    for axis in 2..index.len() {
        let position = op.position(index[axis], from[axis], to[axis]);
        let last = (from[axis] - 1) as f64;
        let neighbours = match op.algorithm {
            ResamplingAlgorithm::Nearest => vec![((position + 0.5).floor(), 1.0)],
            ResamplingAlgorithm::Linear => {
                let (below, part) = (position.floor(), position - position.floor());
                vec![(below, 1.0 - part), (below + 1.0, part)]
            }
        };
        all = all
            .iter()
            .flat_map(|(index, weight)| {
                neighbours.iter().map(move |(at, part)| {
                    ([&index[..], &[at.clamp(0.0, last) as usize]].concat(), weight * part)
                })
            })
            .collect();
    }
    all
}
