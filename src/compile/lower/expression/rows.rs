//! Softmax and reductions as nodes.

use anydnn_backend::Result;
use anydnn_backend::op::{BinaryAlgorithm, Eltwise, Fold};

use super::draft::Scope;
use crate::graph::OpKind as K;

/// `e^(x - max) / sum`, or its logarithm; and the logarithm of the sum of `e^x`.
pub(super) fn softmax(scope: &mut Scope<'_, '_>) -> Result<()> {
    let op = scope.op;
    let x = scope.input(0)?;
    let max = scope.fold(Fold::Max, x);
    if op.kind == K::LogSoftmax {
        let shifted = scope.subtract(x, max);
        let exp = scope.eltwise(Eltwise::Exp, shifted);
        let sum = scope.fold(Fold::Sum, exp);
        let log = scope.eltwise(Eltwise::Log, sum);
        let y = scope.subtract(shifted, log);
        scope.output(0, y);
        return Ok(());
    }
    let zeros = op.attrs.says("mode", "inf_as_zero");
    // Rows of minus infinity alone give zeros, and zero as their statistics.
    let (zero, one) = (scope.constant(0.0), scope.constant(1.0));
    let masked = if zeros {
        let least = scope.constant(f32::MIN);
        Some(scope.binary(BinaryAlgorithm::Less, max, least))
    } else {
        None
    };
    let shift = masked.map_or(max, |masked| scope.select(masked, zero, max));
    let shifted = scope.subtract(x, shift);
    let exp = scope.eltwise(Eltwise::Exp, shifted);
    let sum = scope.fold(Fold::Sum, exp);
    let total = masked.map_or(sum, |masked| scope.select(masked, one, sum));
    let y = scope.divide(exp, total);
    scope.output(0, y);
    if op.outputs.len() > 1 {
        let log = scope.eltwise(Eltwise::Log, total);
        let stats = scope.add(log, shift);
        scope.output(1, stats);
    }
    Ok(())
}

/// The gradient of softmax from its result and that result's gradient.
pub(super) fn softmax_backward(scope: &mut Scope<'_, '_>) -> Result<()> {
    let (diff, y) = (scope.input(0)?, scope.input(1)?);
    let result = if scope.op.kind == K::LogSoftmaxBackward {
        let sum = scope.fold(Fold::Sum, diff);
        let exp = scope.eltwise(Eltwise::Exp, y);
        let share = scope.multiply(exp, sum);
        scope.subtract(diff, share)
    } else {
        let product = scope.multiply(diff, y);
        let sum = scope.fold(Fold::Sum, product);
        let centred = scope.subtract(diff, sum);
        scope.multiply(y, centred)
    };
    scope.output(0, result);
    Ok(())
}

pub(super) fn is_reduction(kind: K) -> bool {
    matches!(
        kind,
        K::ReduceL1
            | K::ReduceL2
            | K::ReduceMax
            | K::ReduceMean
            | K::ReduceMin
            | K::ReduceProd
            | K::ReduceSum
    )
}

pub(super) fn reduction(scope: &mut Scope<'_, '_>) -> Result<()> {
    let x = scope.input(0)?;
    // Without axes a reduction is the identity, whatever the fold would make of single elements.
    let y = match scope.op.kind {
        _ if scope.layout.folded.is_empty() => x,
        K::ReduceL1 => {
            let abs = scope.eltwise(Eltwise::Abs, x);
            scope.fold(Fold::Sum, abs)
        }
        K::ReduceL2 => {
            let square = scope.eltwise(Eltwise::Square, x);
            let sum = scope.fold(Fold::Sum, square);
            scope.eltwise(Eltwise::Sqrt, sum)
        }
        K::ReduceMax => scope.fold(Fold::Max, x),
        K::ReduceMin => scope.fold(Fold::Min, x),
        K::ReduceProd => scope.fold(Fold::Product, x),
        K::ReduceMean => scope.mean(x),
        _ => scope.fold(Fold::Sum, x),
    };
    scope.output(0, y);
    Ok(())
}
