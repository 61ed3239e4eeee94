//! The Gaussian error linear unit: a product of three factors.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI, SQRT_2};

use super::{Made, Rewrite, has_exponent};
use crate::formula::{Expr, Formula, Match, Scope, any, number, one_of, op};
use crate::graph::Attrs;
use crate::graph::OpKind::{Add, Divide, Erf, GELU, Multiply, Pow, Square, Tanh};

/// `x`, one half and `1 + erf(x / sqrt 2)`, or `1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))`, in any order.
pub(super) fn rewrite() -> Rewrite {
    let scaled = one_of([times(number(FRAC_1_SQRT_2), x()), op(Divide).of([x(), number(SQRT_2)])]);
    let erf = op(Erf).of([scaled]).capture("erf");
    let tanh = op(Tanh).of([times(number(FRAC_2_PI.sqrt()), op(Add).of([x(), cubic()]))]);
    let gate = || op(Add).of([number(1.0), one_of([erf.clone(), tanh.clone()])]);
    let half = || number(0.5);
    let formula = Formula::new(one_of([
        times(half(), times(x(), gate())),
        times(x(), times(half(), gate())),
        times(times(half(), x()), gate()),
    ]));
    let make = |_: &dyn Scope, found: &Match| {
        let mode = if found.op("erf").is_some() { "gelu_erf" } else { "gelu_tanh" };
        Made::of(found, GELU, Attrs::new().with("mode", mode))
    };
    Rewrite { formula, make }
}

fn x() -> Expr {
    any().named("x")
}

fn times(a: Expr, b: Expr) -> Expr {
    op(Multiply).of([a, b])
}

/// `0.044715 x^3`, multiplied in any order.
fn cubic() -> Expr {
    let factor = || number(0.044_715);
    let square = || {
        let power = op(Pow).of([x()]).when("its exponent is 2", |_, op| has_exponent(op, 2.0));
        one_of([op(Square).of([x()]), times(x(), x()), power])
    };
    let power = op(Pow).of([x()]).when("its exponent is 3", |_, op| has_exponent(op, 3.0));
    let cube = one_of([power, times(x(), square())]);
    one_of([
        times(factor(), cube),
        times(x(), one_of([times(factor(), square()), times(x(), times(factor(), x()))])),
        times(times(factor(), x()), square()),
    ])
}
