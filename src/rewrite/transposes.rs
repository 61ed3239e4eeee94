//! A transposed product with a transposed matrix is the product the other way round: matrices that lie in rows are multiplied by rows then.

use super::Known;
use crate::formula::Scope;
use crate::graph::{Op, OpKind, TensorId, exchanges_last_axes};

/// What takes the place of an operation that transposes the product of a matrix and a transposed one, as exporters of TensorFlow write
/// products with what they keep on the left: the second matrix, times the first one transposed.
pub(super) fn product(scope: &Known, transpose: &Op) -> Option<Op> {
    let product = before(scope, transpose)?;
    let (&[a, b], &[made]) = (&product.inputs[..], &product.outputs[..]) else { return None };
    if product.kind != OpKind::MatMul || scope.graph().consumers(made).len() != 1 || is_output(scope, made) {
        return None;
    }
    let second = scope.graph().producer(b).map(|at| &scope.graph().ops()[at])?;
    let &[rows] = &second.inputs[..] else { return None };
    if !exchanges_last(scope, transpose) || !exchanges_last(scope, second) || rank(scope, a)? < 2 {
        return None;
    }
    let of = |name: &str| product.attrs.bool(name).unwrap_or(false);
    let (of_a, of_b) = (of("transpose_a"), of("transpose_b"));
    let attrs = product.attrs.clone().with("transpose_a", of_b).with("transpose_b", !of_a);
    let (id, name, outputs) = (transpose.id, transpose.name.clone(), transpose.outputs.clone());
    Some(Op { id, name, kind: OpKind::MatMul, attrs, inputs: vec![rows, a], outputs })
}

fn before<'g>(scope: &'g Known, op: &Op) -> Option<&'g Op> {
    let graph = scope.graph();
    op.inputs.first().and_then(|&id| graph.producer(id)).map(|at| &graph.ops()[at])
}

fn is_output(scope: &Known, id: TensorId) -> bool {
    scope.graph().outputs().contains(&id)
}

fn rank(scope: &Known, id: TensorId) -> Option<usize> {
    Some(scope.graph().tensor(id)?.known_dims()?.len())
}

/// Whether an operation transposes matrices and leaves what is before them where it is.
fn exchanges_last(scope: &Known, op: &Op) -> bool {
    let rank = op.inputs.first().and_then(|&id| rank(scope, id));
    op.kind == OpKind::StaticTranspose && rank.is_some_and(|rank| exchanges_last_axes(op, rank))
}
