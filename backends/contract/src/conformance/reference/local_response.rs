//! Normalisation by the squares around each element.

use super::{Operands, Tensor};
use crate::op::LocalResponseNormalization;
use crate::{Arg, Dims};

pub(super) fn forward(op: &LocalResponseNormalization, operands: &Operands) -> Tensor {
    let src = operands.get(Arg::SRC);
    Tensor::from_fn(operands.dst_dims(), |index| {
        src.at(index) * base(op, src, index).powf(-f64::from(op.beta))
    })
}

/// An element is the middle of its own window, and lies in those of others.
pub(super) fn backward(op: &LocalResponseNormalization, operands: &Operands) -> Tensor {
    let (diff, src) = (operands.get(Arg::Src(0)), operands.get(Arg::Src(1)));
    let (alpha, beta) = (f64::from(op.alpha) / op.count as f64, f64::from(op.beta));
    let mirrored = op.clone().with_window(op.after.clone(), op.before.clone());
    Tensor::from_fn(operands.dst_dims(), |index| {
        let own = diff.at(index) * base(op, src, index).powf(-beta);
        let others: f64 = around(&mirrored, &src.dims, index)
            .map(|at| diff.at(&at) * src.at(&at) * base(op, src, &at).powf(-beta - 1.0))
            .sum();
        own - 2.0 * alpha * beta * src.at(index) * others
    })
}

fn base(op: &LocalResponseNormalization, src: &Tensor, index: &[usize]) -> f64 {
    let sum: f64 = around(op, &src.dims, index).map(|at| src.at(&at).powi(2)).sum();
    f64::from(op.k) + f64::from(op.alpha) / op.count as f64 * sum
}

/// The indices in the window around an element.
fn around(op: &LocalResponseNormalization, dims: &Dims, index: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let windows: Vec<_> =
        (0..dims.len() - 1).map(|axis| op.window(axis, index[axis + 1], dims[axis + 1])).collect();
    let sizes: Dims = windows.iter().map(ExactSizeIterator::len).collect();
    let image = index[0];
    let places: Vec<Vec<usize>> = sizes
        .indices()
        .map(|tap| std::iter::once(image).chain(tap.iter().zip(&windows).map(|(i, w)| w.start + i)).collect())
        .collect();
    places.into_iter()
}
