//! Normalisations: a value less its mean, over the root of its variance.

use anydnn_backend::DataType;

use super::{Made, Rewrite, has_exponent};
use crate::formula::{Expr, Formula, Match, Scope, any, at_least, number, one_of, op};
use crate::graph::OpKind::{
    Add, Divide, LayerNorm, Multiply, Pow, RMSNorm, Reciprocal, ReduceMean, Sqrt, Square, SquaredDifference,
    Subtract,
};
use crate::graph::{Attrs, Graph, LogicalTensor, Op, TensorId, normalize_axis};

/// `x - mean(x)` over `sqrt(mean((x - mean(x))^2) + epsilon)`, the means over the last dimensions. Factors and summands behind it ride on
/// it.
pub(super) fn rewrite() -> Rewrite {
    let difference = || difference("difference");
    let quotient = op(Divide).of([difference(), root(variance())]);
    let product = op(Multiply).of([difference(), inverse_root(variance())]);
    Rewrite { formula: Formula::new(one_of([quotient, product])), make: |scope, found| plain(scope, found) }
}

/// The same with a factor for each element of a row and a summand, as Keras has it: the factor over the root is multiplied by `x`, and by its
/// mean, which the summand is less.
pub(super) fn affine() -> Rewrite {
    let factor = || op(Multiply).of([inverse_root(variance()), any().named("gamma")]).named("factor");
    let apart = op(Add).of([
        op(Multiply).of([x(), factor()]),
        op(Subtract).of([any().named("beta"), op(Multiply).of([mean(), factor()])]),
    ]);
    let together = op(Add).of([op(Multiply).of([difference("difference"), factor()]), any().named("beta")]);
    let make = |scope: &dyn Scope, found: &Match| {
        let made = plain(scope, found)?;
        let others = vec![found.tensor("gamma")?, found.tensor("beta")?];
        let tensor = |id| scope.graph().tensor(id);
        let rows = tensor(made.x)?.known_dims()?;
        let row = &rows[usize::try_from(made.attrs.s64("begin_norm_axis").ok()?).ok()?..];
        let fits = |&id: &TensorId| {
            let dims = tensor(id).filter(|own| own.data_type == Some(DataType::F32));
            dims.and_then(LogicalTensor::known_dims)
                .is_some_and(|dims| dims.ends_with(row) && dims.elements() == row.iter().product::<usize>())
        };
        let attrs = made.attrs.clone().with("use_affine", true);
        others.iter().all(fits).then_some(Made { attrs, others, ..made })
    };
    Rewrite { formula: Formula::new(one_of([apart, together])), make }
}

/// `x` over `sqrt(mean(x^2) + epsilon)`, the mean over the last dimensions.
pub(super) fn root_mean_square() -> Rewrite {
    let mean_square = || op(Add).of([average(square(x)), at_least(0.0).named("epsilon")]);
    let quotient = op(Divide).of([x(), root(mean_square())]);
    let product = op(Multiply).of([x(), inverse_root(mean_square())]);
    let make = |scope: &dyn Scope, found: &Match| {
        let (axis, epsilon) = axis_and_epsilon(scope, found)?;
        Made::of(found, RMSNorm, Attrs::new().with("epsilon", epsilon).with("begin_norm_axis", axis))
    };
    Rewrite { formula: Formula::new(one_of([quotient, product])), make }
}

fn plain(scope: &dyn Scope, found: &Match) -> Option<Made> {
    let (axis, epsilon) = axis_and_epsilon(scope, found)?;
    let attrs = Attrs::new().with("epsilon", epsilon).with("keep_stats", false);
    Made::of(found, LayerNorm, attrs.with("use_affine", false).with("begin_norm_axis", axis))
}

/// The first of the axes that all means are over.
fn axis_and_epsilon(scope: &dyn Scope, found: &Match) -> Option<(i64, f32)> {
    let mut axes = found.all("mean").map(|mean| first_axis(scope.graph(), &scope.graph().ops()[mean]));
    let axis = axes.next()??;
    let epsilon = scope.number(found.tensor("epsilon")?)? as f32;
    axes.all(|other| other == Some(axis)).then_some((axis, epsilon))
}

fn x() -> Expr {
    any().named("x")
}

/// The difference may be written once or twice, and so may its mean.
fn mean() -> Expr {
    one_of(["mean", "other mean"].map(|name| average(x()).named(name)))
}

fn difference(name: &'static str) -> Expr {
    op(Subtract).of([x(), mean()]).named(name)
}

/// The variance and what is added to it.
fn variance() -> Expr {
    let again = || one_of(["difference", "other difference"].map(difference));
    let square = one_of([square(again), op(SquaredDifference).of([x(), mean()])]);
    op(Add).of([average(square), at_least(0.0).named("epsilon")])
}

fn square(of: impl Fn() -> Expr) -> Expr {
    let power = op(Pow).of([of()]).when("its exponent is 2", |_, op| has_exponent(op, 2.0));
    one_of([op(Square).of([of()]), power, op(Multiply).of([of(), of()])])
}

fn root(of: Expr) -> Expr {
    let power = op(Pow).of([of.clone()]).when("its exponent is a half", |_, op| has_exponent(op, 0.5));
    one_of([op(Sqrt).of([of]), power])
}

fn inverse_root(of: Expr) -> Expr {
    let power = op(Pow).of([of.clone()]).when("its exponent is less a half", |_, op| has_exponent(op, -0.5));
    let root = root(of);
    one_of([op(Reciprocal).of([root.clone()]), op(Divide).of([number(1.0), root]), power])
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
