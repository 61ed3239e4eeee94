//! The piecewise linear units: `x + 3`, limited to 0 and 6, over 6.

use super::{Made, Rewrite};
use crate::formula::{Expr, Formula, Match, Scope, any, number, one_of, op};
use crate::graph::OpKind::{Add, Clamp, Divide, HardSigmoid, HardSwish, Multiply};
use crate::graph::{Attrs, Graph, Op};

/// `x` times its piecewise linear sigmoid, which may be written out.
pub(super) fn swish() -> Rewrite {
    let given = op(HardSigmoid).of([x()]).when("it is a sixth and a half", is_sixth_and_half);
    let gate = one_of([given, sixth(&limited())]);
    let product = op(Multiply).of([x(), gate]);
    let formula = Formula::new(one_of([product, sixth(&op(Multiply).of([x(), limited()]))]));
    Rewrite { formula, make: |_, found| Made::of(found, HardSwish, Attrs::new()) }
}

/// The piecewise linear sigmoid.
pub(super) fn sigmoid() -> Rewrite {
    let make = |_: &dyn Scope, found: &Match| {
        let attrs = Attrs::new().with("alpha", 1.0_f32 / 6.0).with("beta", 0.5_f32);
        Made::of(found, HardSigmoid, attrs)
    };
    Rewrite { formula: Formula::new(sixth(&limited())), make }
}

fn x() -> Expr {
    any().named("x")
}

/// `x + 3`, limited to 0 and 6.
fn limited() -> Expr {
    let limits =
        |_: &Graph, op: &Op| op.attrs.f32("min").ok() == Some(0.0) && op.attrs.f32("max").ok() == Some(6.0);
    op(Clamp).of([op(Add).of([number(3.0), x()])]).when("it limits to 0 and 6", limits)
}

fn sixth(tensor: &Expr) -> Expr {
    one_of([
        op(Divide).of([tensor.clone(), number(6.0)]),
        op(Multiply).of([number(1.0 / 6.0), tensor.clone()]),
    ])
}

fn is_sixth_and_half(_: &Graph, op: &Op) -> bool {
    let near = |name, number: f32| op.attrs.f32(name).is_ok_and(|found| (found - number).abs() < 1e-5);
    near("alpha", 1.0 / 6.0) && near("beta", 0.5)
}
