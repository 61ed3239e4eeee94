use super::{Operands, Tensor, Tensors};
use crate::op::{BatchNormalization, GroupNormalization, LayerNormalization};
use crate::{Arg, Dims};

/// The mean of a root-mean-square normalisation is zero and its variance the mean square.
pub(super) fn layer(op: &LayerNormalization, operands: &Operands) -> Tensors {
    let src = operands.get(Arg::SRC);
    let (outer, inner) = src.dims.split_at(op.begin_axis);
    let (outer, inner) = (Dims::new(outer), Dims::new(inner));
    let row = |lead: &[usize]| -> Vec<f64> {
        inner.indices().map(|tail| src.at(&[lead, tail.as_ref()].concat())).collect()
    };
    let statistics = |lead: &[usize]| {
        let row = row(lead);
        if op.rms { (0.0, mean(row.iter().map(|x| x * x))) } else { moments(&row) }
    };
    let dst = Tensor::from_fn(&src.dims, |index| {
        let (lead, tail) = index.split_at(op.begin_axis);
        let (mean, variance) = statistics(lead);
        affine(operands, tail, normalized(src.at(index), mean, variance, op.epsilon))
    });
    let all: Vec<(f64, f64)> = outer.indices().map(|lead| statistics(&lead)).collect();
    with_statistics(operands, dst, &all)
}

pub(super) fn batch(op: &BatchNormalization, operands: &Operands) -> Tensor {
    let src = operands.get(Arg::SRC);
    let (mean, variance) = (operands.get(Arg::Mean), operands.get(Arg::Variance));
    Tensor::from_fn(&src.dims, |index| {
        let channel = &index[1..2];
        let x = normalized(src.at(index), mean.at(channel), variance.at(channel), op.epsilon);
        affine(operands, channel, x)
    })
}

pub(super) fn group(op: &GroupNormalization, operands: &Operands) -> Tensors {
    let src = operands.get(Arg::SRC);
    let per_group = src.dims[1] / op.groups;
    let statistics = |sample: usize, group: usize| {
        let members: Vec<f64> = src
            .dims
            .indices()
            .filter(|index| index[0] == sample && index[1] / per_group == group)
            .map(|index| src.at(&index))
            .collect();
        moments(&members)
    };
    let all: Vec<(f64, f64)> =
        Dims::from([src.dims[0], op.groups]).indices().map(|at| statistics(at[0], at[1])).collect();
    let dst = Tensor::from_fn(&src.dims, |index| {
        let (mean, variance) = all[index[0] * op.groups + index[1] / per_group];
        affine(operands, &index[1..2], normalized(src.at(index), mean, variance, op.epsilon))
    });
    with_statistics(operands, dst, &all)
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

/// Mean and biased variance.
fn moments(values: &[f64]) -> (f64, f64) {
    let middle = mean(values.iter().copied());
    (middle, mean(values.iter().map(|x| (x - middle) * (x - middle))))
}

fn normalized(x: f64, mean: f64, variance: f64, epsilon: f32) -> f64 {
    (x - mean) / (variance + f64::from(epsilon)).sqrt()
}

fn affine(operands: &Operands, index: &[usize], x: f64) -> f64 {
    let scale = operands.find(Arg::Scale).map_or(1.0, |scale| scale.at(index));
    let shift = operands.find(Arg::Shift).map_or(0.0, |shift| shift.at(index));
    x * scale + shift
}

/// The result with the statistics that the description asks for.
fn with_statistics(operands: &Operands, dst: Tensor, statistics: &[(f64, f64)]) -> Tensors {
    let mut results = operands.result(dst);
    let mut add = |arg: Arg, values: Vec<f64>| {
        if let Some(dims) = operands.dims(arg) {
            results.insert(arg, Tensor { dims: dims.clone(), values });
        }
    };
    add(Arg::Mean, statistics.iter().map(|s| s.0).collect());
    add(Arg::Variance, statistics.iter().map(|s| s.1).collect());
    results
}
