use super::{Operands, Tensor};
use crate::op::{Reduction, ReductionAlgorithm};
use crate::{Arg, Dims};

pub(super) fn reduction(op: &Reduction, operands: &Operands) -> Tensor {
    let src = operands.get(Arg::SRC);
    let dst = operands.dst_dims();
    // The extent of the fold along each dimension: all of a folded one, a single step of the others.
    let folded: Dims =
        src.dims.iter().zip(dst.iter()).map(|(&from, &to)| if from == to { 1 } else { from }).collect();
    Tensor::from_fn(dst, |index| {
        let members: Vec<f64> = folded
            .indices()
            .map(|step| {
                let at: Dims = index.iter().zip(step.iter()).map(|(i, s)| i + s).collect();
                src.at(&at)
            })
            .collect();
        match op.algorithm {
            ReductionAlgorithm::Sum => members.iter().sum(),
            ReductionAlgorithm::Mean => members.iter().sum::<f64>() / members.len() as f64,
            ReductionAlgorithm::Product => members.iter().product(),
            ReductionAlgorithm::Max => members
                .iter()
                .copied()
                .fold(f64::NEG_INFINITY, |max, x| if x > max || x.is_nan() { x } else { max }),
            ReductionAlgorithm::Min => members
                .iter()
                .copied()
                .fold(f64::INFINITY, |min, x| if x < min || x.is_nan() { x } else { min }),
            ReductionAlgorithm::NormL1 => members.iter().map(|x| x.abs()).sum(),
            ReductionAlgorithm::NormL2 => members.iter().map(|x| x * x).sum::<f64>().sqrt(),
        }
    })
}
