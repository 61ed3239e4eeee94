//! Softmax of rows that are hidden whole: their weights, which are no numbers, become zeros.

use super::{Made, Rewrite};
use crate::formula::{Formula, Match, Scope, any, number, op};
use crate::graph::OpKind::{NotEqual, Select, SoftMax};

/// `isnan(p) ? 0 : p` of `p = softmax(x)`, which the exporter of `torch` writes behind each softmax of attention. A row of `-inf` becomes zeros; a
/// row that has not-a-numbers of its own keeps them.
pub(super) fn rewrite() -> Rewrite {
    let softmax = || op(SoftMax).of([any().named("x")]).capture("softmax").named("softmax");
    let unequal = op(NotEqual).of([softmax(), softmax()]);
    Rewrite { formula: Formula::new(op(Select).of([unequal, number(0.0), softmax()])), make }
}

fn make(scope: &dyn Scope, found: &Match) -> Option<Made> {
    let softmax = &scope.graph().ops()[found.op("softmax")?];
    Made::of(found, SoftMax, softmax.attrs.clone().with("mode", "inf_as_zero"))
}
