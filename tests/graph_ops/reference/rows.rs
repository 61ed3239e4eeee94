//! Sums over dimensions: matrix products, softmax, normalizations and reductions.

use anydnn::graph::{Op, OpKind as K};

use super::super::tensor::{Tensor, indices, stretch};
use super::{channel_axis, front};

pub fn matmul(op: &Op, inputs: &[Tensor]) -> Tensor {
    let (a, b) = (&inputs[0], &inputs[1]);
    let transposed = |t: &Tensor, name: &str| t.rank() > 1 && op.attrs.bool(name).unwrap();
    let (flip_a, flip_b) = (transposed(a, "transpose_a"), transposed(b, "transpose_b"));
    let last = |t: &Tensor, back: usize| t.dims[t.rank() - back];
    let depth = if flip_a { last(a, 2) } else { last(a, 1) };
    let batch = |t: &Tensor| t.dims[..t.rank().saturating_sub(2)].to_vec();
    let mut dims = stretch(&batch(a), &batch(b));
    let batches = dims.len();
    if a.rank() > 1 {
        dims.push(if flip_a { last(a, 1) } else { last(a, 2) });
    }
    if b.rank() > 1 {
        dims.push(if flip_b { last(b, 2) } else { last(b, 1) });
    }
    // An operand's element in a batch of the result; `i` is the row and `j` the column before transposition.
    let element = |t: &Tensor, index: &[usize], i: usize, j: usize| {
        let own = t.rank() - 2;
        let mut at: Vec<usize> = index[batches - own..batches]
            .iter()
            .zip(&t.dims)
            .map(|(&i, &dim)| if dim == 1 { 0 } else { i })
            .collect();
        at.extend([i, j]);
        t.at(&at)
    };
    Tensor::of(&dims, |index| {
        let (row, column) = (index.get(batches).copied(), index.last().copied());
        let product = (0..depth).map(|k| {
            let x = match (a.rank(), flip_a) {
                (1, _) => a.at(&[k]),
                (_, true) => element(a, index, k, row.unwrap()),
                (_, false) => element(a, index, row.unwrap(), k),
            };
            let y = match (b.rank(), flip_b) {
                (1, _) => b.at(&[k]),
                (_, true) => element(b, index, column.unwrap(), k),
                (_, false) => element(b, index, k, column.unwrap()),
            };
            x * y
        });
        product.sum::<f64>() + inputs.get(2).map_or(0.0, |bias| bias.stretched(index))
    })
}

/// `dst`, and the logarithm of each row's sum of powers.
pub fn softmax(op: &Op, src: &Tensor) -> Vec<Tensor> {
    let axis = front(op.attrs.s64("axis").unwrap(), src.rank());
    let row = |index: &[usize]| -> (f64, f64) {
        let row: Vec<f64> = (0..src.dims[axis])
            .map(|i| {
                let mut at = index.to_vec();
                at[axis] = i;
                src.at(&at)
            })
            .collect();
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (largest, row.iter().map(|x| (x - largest).exp()).sum())
    };
    let zeros = op.kind == K::SoftMax && op.attrs.string("mode").unwrap() == "inf_as_zero";
    let masked = |largest: f64| zeros && largest == f64::NEG_INFINITY;
    let dst = Tensor::of(&src.dims, |index| {
        let (largest, sum) = row(index);
        let x = src.at(index) - largest;
        match op.kind {
            K::LogSoftmax => x - sum.ln(),
            _ if masked(largest) => 0.0,
            _ => x.exp() / sum,
        }
    });
    let mut dims = src.dims.clone();
    dims[axis] = 1;
    let stats = Tensor::of(&dims, |index| {
        let (largest, sum) = row(index);
        if masked(largest) { 0.0 } else { largest + sum.ln() }
    });
    vec![dst, stats]
}

/// `dst`, and for layer normalization the mean and variance.
pub fn layer_norm(op: &Op, inputs: &[Tensor]) -> Vec<Tensor> {
    let src = &inputs[0];
    let begin = front(op.attrs.s64("begin_norm_axis").unwrap(), src.rank());
    let (outer, inner) = src.dims.split_at(begin);
    let (mean, mut variance) = moments(src, outer, |index| index[..begin].to_vec());
    let rms = op.kind == K::RMSNorm;
    if rms {
        variance = Tensor::of(outer, |o| variance.at(o) + mean.at(o).powi(2));
    }
    let epsilon = f64::from(op.attrs.f32("epsilon").unwrap());
    let affine = |i: usize, index: &[usize], otherwise: f64| {
        let position = indices(inner).iter().position(|at| *at == index[begin..]).unwrap();
        inputs.get(i).map_or(otherwise, |t| t.values[position])
    };
    let dst = Tensor::of(&src.dims, |index| {
        let shifted = src.at(index) - if rms { 0.0 } else { mean.at(&index[..begin]) };
        shifted / (variance.at(&index[..begin]) + epsilon).sqrt() * affine(1, index, 1.0)
            + affine(2, index, 0.0)
    });
    if rms {
        return vec![dst, variance.map(|v| 1.0 / (v + epsilon).sqrt())];
    }
    vec![dst, mean, variance]
}

pub fn batch_norm(op: &Op, inputs: &[Tensor]) -> Tensor {
    let src = &inputs[0];
    let axis = channel_axis(op, src.rank());
    let epsilon = f64::from(op.attrs.f32("epsilon").unwrap());
    Tensor::of(&src.dims, |index| {
        let [gamma, beta, mean, variance] = [1, 2, 3, 4].map(|i: usize| inputs[i].at(&[index[axis]]));
        (src.at(index) - mean) / (variance + epsilon).sqrt() * gamma + beta
    })
}

/// `dst`, the running mean and variance, those of the batch.
pub fn batch_norm_training(op: &Op, inputs: &[Tensor]) -> Vec<Tensor> {
    let src = &inputs[0];
    let axis = channel_axis(op, src.rank());
    let epsilon = f64::from(op.attrs.f32("epsilon").unwrap());
    let momentum = op.attrs.f32("momentum").map_or(0.5, f64::from);
    let (mean, variance) = moments(src, &[src.dims[axis]], |index| vec![index[axis]]);
    let dst = Tensor::of(&src.dims, |index| {
        let at = [index[axis]];
        let affine = |i: usize, otherwise: f64| inputs.get(i).map_or(otherwise, |t| t.at(&at));
        (src.at(index) - mean.at(&at)) / (variance.at(&at) + epsilon).sqrt() * affine(3, 1.0) + affine(4, 0.0)
    });
    let moved = |running: &Tensor, batch: &Tensor| {
        Tensor::of(&batch.dims, |i| momentum * running.at(i) + (1.0 - momentum) * batch.at(i))
    };
    vec![dst, moved(&inputs[1], &mean), moved(&inputs[2], &variance), mean, variance]
}

pub fn group_norm(op: &Op, inputs: &[Tensor]) -> Vec<Tensor> {
    let src = &inputs[0];
    let axis = channel_axis(op, src.rank());
    let groups = op.attrs.s64("groups").unwrap() as usize;
    let size = src.dims[axis] / groups;
    let of = |index: &[usize]| vec![index[0], index[axis] / size];
    let (mean, variance) = moments(src, &[src.dims[0], groups], of);
    let epsilon = f64::from(op.attrs.f32("epsilon").unwrap());
    let dst = Tensor::of(&src.dims, |index| {
        let affine = |i: usize, otherwise: f64| inputs.get(i).map_or(otherwise, |t| t.at(&[index[axis]]));
        let scaled = (src.at(index) - mean.at(&of(index))) / (variance.at(&of(index)) + epsilon).sqrt();
        scaled * affine(1, 1.0) + affine(2, 0.0)
    });
    vec![dst, mean, variance]
}

/// Mean and variance of the elements that belong to each index of `dims`.
fn moments(src: &Tensor, dims: &[usize], of: impl Fn(&[usize]) -> Vec<usize>) -> (Tensor, Tensor) {
    let all = indices(&src.dims);
    let fold = |value: &dyn Fn(&[usize]) -> f64| {
        Tensor::of(dims, |wanted| {
            let own: Vec<f64> =
                all.iter().filter(|index| of(index) == wanted).map(|index| value(index)).collect();
            own.iter().sum::<f64>() / own.len() as f64
        })
    };
    let mean = fold(&|index| src.at(index));
    let variance = fold(&|index| (src.at(index) - mean.at(&of(index))).powi(2));
    (mean, variance)
}

pub fn reduce(op: &Op, inputs: &[Tensor]) -> Tensor {
    let src = &inputs[0];
    let axes: Vec<i64> = match inputs.get(1) {
        Some(axes) => axes.values.iter().map(|&axis| axis as i64).collect(),
        None => op.attrs.s64s("axes").unwrap_or_default().to_vec(),
    };
    if axes.is_empty() {
        return src.clone();
    }
    let axes: Vec<usize> = axes.iter().map(|&axis| front(axis, src.rank())).collect();
    let keep = op.attrs.bool("keep_dims").unwrap();
    let reduced = |index: &[usize]| -> Vec<usize> {
        let kept = |(axis, &i): (usize, &usize)| match (axes.contains(&axis), keep) {
            (true, false) => None,
            (true, true) => Some(0),
            (false, _) => Some(i),
        };
        index.iter().enumerate().filter_map(kept).collect()
    };
    let dims: Vec<usize> = src
        .dims
        .iter()
        .enumerate()
        .filter(|(axis, _)| keep || !axes.contains(axis))
        .map(|(axis, &dim)| if axes.contains(&axis) { 1 } else { dim })
        .collect();
    let all = indices(&src.dims);
    Tensor::of(&dims, |wanted| {
        let own: Vec<f64> = all.iter().filter(|i| reduced(i) == wanted).map(|i| src.at(i)).collect();
        match op.kind {
            K::ReduceSum => own.iter().sum(),
            K::ReduceMean => own.iter().sum::<f64>() / own.len() as f64,
            K::ReduceProd => own.iter().product(),
            K::ReduceMax => own.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            K::ReduceMin => own.iter().copied().fold(f64::INFINITY, f64::min),
            K::ReduceL1 => own.iter().map(|v| v.abs()).sum(),
            K::ReduceL2 => own.iter().map(|v| v * v).sum::<f64>().sqrt(),
            other => panic!("no reference for {other}"),
        }
    })
}
