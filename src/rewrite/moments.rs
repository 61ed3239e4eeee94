//! Normalisations: a value less its mean, over the root of its variance.

use super::{Made, Rewrite, has_exponent};
use crate::formula::{Expr, Formula, Match, Scope, any, at_least, one_of, op};
use crate::graph::OpKind::{Add, Divide, LayerNorm, Multiply, Pow, ReduceMean, Sqrt, Square, Subtract};
use crate::graph::{Attrs, Graph, LogicalTensor, Op, normalize_axis};

/// `x - mean(x)` over `sqrt(mean((x - mean(x))^2) + epsilon)`, the means over the last dimensions. Factors and summands behind it ride on
/// it.
pub(super) fn rewrite() -> Rewrite {
    // The difference may be written once or twice, and so may its mean.
    let x = || any().named("x");
    let mean = || one_of(["mean", "other mean"].map(|name| average(x()).named(name)));
    let difference = |name| op(Subtract).of([x(), mean()]).named(name);
    let again = || one_of(["difference", "other difference"].map(&difference));
    let square = one_of([
        op(Square).of([again()]),
        op(Pow).of([again()]).when("its exponent is 2", |_, op| has_exponent(op, 2.0)),
        op(Multiply).of([again(), again()]),
    ]);
    let sum = op(Add).of([average(square), at_least(0.0).named("epsilon")]);
    let root = one_of([
        op(Sqrt).of([sum.clone()]),
        op(Pow).of([sum]).when("its exponent is a half", |_, op| has_exponent(op, 0.5)),
    ]);
    Rewrite { formula: Formula::new(op(Divide).of([difference("difference"), root])), make }
}

fn make(scope: &dyn Scope, found: &Match) -> Option<Made> {
    let mut axes = found.all("mean").map(|mean| first_axis(scope.graph(), &scope.graph().ops()[mean]));
    let axis = axes.next()??;
    let epsilon = scope.number(found.tensor("epsilon")?)? as f32;
    if axes.any(|other| other != Some(axis)) {
        return None;
    }
    let attrs = Attrs::new()
        .with("epsilon", epsilon)
        .with("keep_stats", false)
        .with("use_affine", false)
        .with("begin_norm_axis", axis);
    Made::of(found, LayerNorm, attrs)
}

/// A mean over the last dimensions, which stay as ones.
fn average(source: Expr) -> Expr {
    let fits = |graph: &Graph, op: &Op| first_axis(graph, op).is_some();
    op(ReduceMean).of([source]).when("it is over the last axes, which stay", fits).capture("mean")
}

/// The first of the last axes that a mean is over.
fn first_axis(graph: &Graph, mean: &Op) -> Option<i64> {
    let rank = graph.tensor(*mean.inputs.first()?).and_then(LogicalTensor::known_dims)?.len();
    let axes = mean.attrs.s64s("axes").ok().filter(|axes| !axes.is_empty())?;
    let axes: Result<Vec<usize>, _> = axes.iter().map(|&axis| normalize_axis(axis, rank)).collect();
    let mut axes = axes.ok()?;
    axes.sort_unstable();
    let first = rank.checked_sub(axes.len())?;
    let are_last = axes.into_iter().eq(first..rank);
    (are_last && mean.attrs.bool("keep_dims").ok()?).then_some(first as i64)
}
