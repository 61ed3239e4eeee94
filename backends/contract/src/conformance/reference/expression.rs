//! Expressions, node after node over the whole space.

use super::{Operands, Tensor, Tensors};
use crate::op::{Expression, Node, keeps, random};
use crate::{Arg, Dims};

pub(super) fn expression(op: &Expression, operands: &Operands) -> Tensors {
    let values = evaluate(op, &|i| operands.get(Arg::Src(i)));
    let mut results = Tensors::new();
    for (i, &node) in op.results.iter().enumerate() {
        let arg = Arg::Dst(i as u16);
        if let Some(dims) = operands.dims(arg) {
            results.insert(arg, Tensor::from_fn(dims, |index| values[node].broadcast_at(index)));
        }
    }
    results
}

/// Every node's values; those that do not vary along the folded axes have dimensions of one there.
pub(super) fn evaluate<'a>(op: &Expression, source: &dyn Fn(u16) -> &'a Tensor) -> Vec<Tensor> {
    let varies = op.varies(|i| Some(source(i).dims.clone()));
    let folded = op.folded_dims();
    let mut values: Vec<Tensor> = Vec::new();
    for (node, varies) in op.nodes.iter().zip(varies) {
        let dims = if varies { &op.dims } else { &folded };
        let at = |i: usize, index: &[usize]| values[i].broadcast_at(index);
        let tensor =
            match *node {
                Node::Operand(i) => Tensor::from_fn(dims, |index| source(i).block_at(index, &op.dims)),
                Node::Constant(value) => Tensor::from_fn(dims, |_| f64::from(value)),
                Node::Index(axis) => Tensor::from_fn(dims, |index| index[axis] as f64),
                Node::Eltwise(function, a) => Tensor::from_fn(dims, |index| function.reference(at(a, index))),
                Node::Gradient { function, of_result, at: a, diff } => {
                    Tensor::from_fn(dims, |index| function.gradient(of_result, at(a, index), at(diff, index)))
                }
                Node::Binary(algorithm, a, b) => {
                    Tensor::from_fn(dims, |index| algorithm.reference(at(a, index), at(b, index)))
                }
                Node::Select(condition, a, b) => Tensor::from_fn(dims, |index| {
                    if at(condition, index) == 0.0 { at(b, index) } else { at(a, index) }
                }),
                Node::Cast(data_type, a) => Tensor::from_fn(dims, |index| data_type.stored(at(a, index))),
                Node::Fold(fold, a) => {
                    let mut joined = Tensor::from_fn(dims, |_| fold.start());
                    for index in op.dims.indices() {
                        let value = at(a, &index);
                        let old = joined.at_folded(&index);
                        *old = fold.join(*old, value);
                    }
                    joined
                }
                Node::Keep { seed, offset, probability } => {
                    let scalar = |i: u16| source(i).values[0];
                    let (seed, offset) = (scalar(seed) as i64, scalar(offset) as i64);
                    let probability = scalar(probability) as f32;
                    Tensor::from_fn(dims, |index| {
                        f64::from(u8::from(keeps(seed, offset, place(op, index), probability)))
                    })
                }
                Node::Random { seed, offset } => {
                    let scalar = |i: u16| source(i).values[0] as i64;
                    let (seed, offset) = (scalar(seed), scalar(offset));
                    Tensor::from_fn(dims, |index| random(seed, offset, place(op, index)))
                }
            };
        values.push(tensor);
    }
    values
}

/// The row-major index of a place in the space.
fn place(op: &Expression, index: &[usize]) -> u64 {
    index.iter().zip(op.dims.iter()).fold(0, |place, (i, dim)| place * dim + i) as u64
}

/// The value of one node over the whole space of an expression without folds.
pub(super) fn pointwise<'a>(op: &Expression, source: &dyn Fn(u16) -> &'a Tensor) -> Tensor {
    let values = evaluate(op, source);
    Tensor::from_fn(&op.dims, |index| values[op.results[0]].broadcast_at(index))
}

impl Tensor {
    /// The element that broadcasting by blocks puts at an index of a space.
    pub(super) fn block_at(&self, index: &[usize], space: &[usize]) -> f64 {
        let lead = index.len() - self.dims.len();
        let own: Dims = index[lead..]
            .iter()
            .zip(&space[lead..])
            .zip(self.dims.iter())
            .map(|((&i, &length), &dim)| if dim == 1 { 0 } else { i / (length / dim) })
            .collect();
        self.at(&own)
    }

    /// The element that an index of a larger shape falls on where dimensions of one stand for all.
    fn at_folded(&mut self, index: &[usize]) -> &mut f64 {
        let place = index
            .iter()
            .zip(self.dims.iter())
            .fold(0, |place, (&i, &dim)| place * dim + if dim == 1 { 0 } else { i });
        &mut self.values[place]
    }
}
