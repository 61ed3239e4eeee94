//! The words that formulas are written in.
//!
//! A formula says what a tensor is made of and is read from left to right: `op(MatMul).maybe(BiasAdd).repeat(0..=20, post_op())`. What
//! comes along from the left is [`it`]; side inputs are written where they enter, `op(Add).of([it(), any()])`. A formula that is used
//! twice under one [name](Expr::named) means one tensor, so that results may share what they are made of. Tensors by their names and
//! operations by those of [`Expr::capture`] are what a match keeps.

use std::ops::RangeInclusive;
use std::sync::Arc;

use anydnn_backend::DataType;

use crate::graph::{Graph, Op, OpKind};

/// A formula: what a tensor is made of.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    /// Any tensor, from outside or inside.
    Any,
    /// What comes along from the left.
    It,
    /// The result of an operation.
    Op(Arc<OpExpr>),
    /// A formula and what follows it.
    Chain(Arc<Expr>, Arc<[Step]>),
    /// The same tensor wherever the name stands.
    Named(&'static str, Arc<Expr>),
    /// The first of these that fits.
    OneOf(Arc<[Expr]>),
    /// A tensor of one element that is known.
    Number(Number),
}

/// What a known element has to be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    /// This number, as near as narrow floats have it.
    Near(f64),
    /// At least this number.
    AtLeast(f64),
}

impl Number {
    /// Whether an element is such a number.
    pub(crate) fn fits(self, element: f64) -> bool {
        match self {
            Self::Near(number) => (element - number).abs() <= 1e-3 * number.abs(),
            Self::AtLeast(least) => element >= least,
        }
    }
}

/// What follows in a chain.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A formula in which [`it`] is what came before.
    Then(Expr),
    /// Any operations between two tensors.
    Web(Web),
    /// So many times one of these chains.
    Times { least: usize, most: usize, choices: Vec<Vec<Step>> },
}

/// Any number of operations of some kinds, however they hang together, all of which follow from what comes before; nothing else sees what
/// they make.
#[derive(Clone, Debug)]
pub(crate) struct Web {
    pub(crate) kinds: Vec<OpKind>,
    /// What a match calls them.
    pub(crate) capture: &'static str,
    /// Kinds that belong to it also where they follow from other tensors, if nothing else reads what they make, and what a match calls
    /// those operations.
    pub(crate) aside: (Vec<OpKind>, &'static str),
}

/// An operation in a formula.
#[derive(Clone, Debug)]
pub(crate) struct OpExpr {
    pub(crate) kinds: Vec<OpKind>,
    /// What its first inputs are; the others are any tensor.
    pub(crate) inputs: Vec<Expr>,
    /// Whether the last of `inputs` stands for every further input, and may be absent.
    pub(crate) each: bool,
    /// Whether the first two inputs may stand in either order, whatever the operation.
    pub(crate) either: bool,
    /// Outputs that may be seen outside.
    pub(crate) open: Vec<usize>,
    /// Whether it is looked at alone: no operation of the match, and whoever likes may see what it makes.
    pub(crate) beside: bool,
    /// What a match calls it.
    pub(crate) capture: Option<&'static str>,
    pub(crate) conditions: Vec<Condition>,
}

/// Whether something holds of an operation.
pub(crate) type Ask = fn(&Graph, &Op) -> bool;

/// A condition on an operation.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    /// The first input is of one of these types.
    Reads(&'static [DataType]),
    /// What comes along has the shape of the result.
    KeepsShape,
    /// Anything else, in words.
    When(&'static str, Ask),
}

/// Any tensor, from outside or inside.
pub(crate) fn any() -> Expr {
    Expr::Any
}

/// What comes along from the left.
pub(crate) fn it() -> Expr {
    Expr::It
}

/// The result of an operation of one of these kinds.
pub(crate) fn op(kinds: impl Kinds) -> Expr {
    let (inputs, open, conditions) = (Vec::new(), Vec::new(), Vec::new());
    let (kinds, each, either, beside, capture) = (kinds.kinds(), false, false, false, None);
    Expr::Op(Arc::new(OpExpr { kinds, inputs, each, either, open, beside, capture, conditions }))
}

/// The first of these that fits.
pub(crate) fn one_of(choices: impl IntoIterator<Item = Expr>) -> Expr {
    Expr::OneOf(choices.into_iter().collect())
}

/// A tensor whose one element is known to be this number, as near as narrow floats have it.
pub(crate) fn number(number: f64) -> Expr {
    Expr::Number(Number::Near(number))
}

/// A tensor whose one element is known to be at least this.
pub(crate) fn at_least(least: f64) -> Expr {
    Expr::Number(Number::AtLeast(least))
}

/// A list of steps that follow one another.
macro_rules! steps {
    ($($step:expr),* $(,)?) => { vec![$($crate::formula::Step::from($step)),*] };
}
pub(crate) use steps;

/// One or several kinds of operations.
pub(crate) trait Kinds {
    /// The list.
    fn kinds(self) -> Vec<OpKind>;
}

impl Kinds for OpKind {
    fn kinds(self) -> Vec<OpKind> {
        vec![self]
    }
}

impl<const N: usize> Kinds for [OpKind; N] {
    fn kinds(self) -> Vec<OpKind> {
        self.to_vec()
    }
}

impl Kinds for &[OpKind] {
    fn kinds(self) -> Vec<OpKind> {
        self.to_vec()
    }
}

impl Kinds for Vec<OpKind> {
    fn kinds(self) -> Vec<OpKind> {
        self
    }
}

impl From<Web> for Step {
    fn from(web: Web) -> Self {
        Self::Web(web)
    }
}

impl From<Expr> for Step {
    fn from(expr: Expr) -> Self {
        Self::Then(expr)
    }
}

impl<K: Kinds> From<K> for Step {
    fn from(kinds: K) -> Self {
        Self::Then(op(kinds).of([it()]))
    }
}

/// So many times one of these, as a step of its own.
pub(crate) fn times(range: RangeInclusive<usize>, choices: Vec<Vec<Step>>) -> Step {
    Step::Times { least: *range.start(), most: *range.end(), choices }
}

/// At most once these.
pub(crate) fn perhaps(steps: Vec<Step>) -> Step {
    times(0..=1, vec![steps])
}

impl Expr {
    /// With what the first inputs are.
    pub(crate) fn of(self, inputs: impl IntoIterator<Item = Expr>) -> Self {
        self.change(|op| op.inputs = inputs.into_iter().collect())
    }

    /// With what every further input is, if there is one.
    pub(crate) fn each(self, input: Expr) -> Self {
        self.change(|op| {
            op.inputs.push(input);
            op.each = true;
        })
    }

    /// The first two inputs may stand in either order. Those of commutative operations always may.
    pub(crate) fn either(self) -> Self {
        self.change(|op| op.either = true)
    }

    /// An output that may be seen outside.
    pub(crate) fn open(self, output: usize) -> Self {
        self.change(|op| op.open.push(output))
    }

    /// The operation is looked at alone: it is none of the match, and whoever likes may see what it makes.
    pub(crate) fn beside(self) -> Self {
        self.change(|op| op.beside = true)
    }

    /// A match keeps the operation by this name, among all that carry it.
    pub(crate) fn capture(self, name: &'static str) -> Self {
        self.change(|op| op.capture = Some(name))
    }

    /// The first input is of one of these types.
    pub(crate) fn reads(self, types: &'static [DataType]) -> Self {
        self.change(|op| op.conditions.push(Condition::Reads(types)))
    }

    /// What comes along has the shape of the result: the operation does not stretch it.
    pub(crate) fn keeps_shape(self) -> Self {
        self.change(|op| op.conditions.push(Condition::KeepsShape))
    }

    /// With a condition on the operation.
    pub(crate) fn when(self, words: &'static str, condition: Ask) -> Self {
        self.change(|op| op.conditions.push(Condition::When(words, condition)))
    }

    /// The same tensor wherever the name stands; a match keeps it.
    pub(crate) fn named(self, name: &'static str) -> Self {
        Self::Named(name, Arc::new(self))
    }

    /// With a step behind.
    pub(crate) fn then(self, step: impl Into<Step>) -> Self {
        self.follow(step.into())
    }

    /// With steps behind.
    pub(crate) fn then_all(self, steps: Vec<Step>) -> Self {
        steps.into_iter().fold(self, Self::follow)
    }

    /// With a step behind that may be absent.
    pub(crate) fn maybe(self, step: impl Into<Step>) -> Self {
        self.follow(perhaps(vec![step.into()]))
    }

    /// With so many steps behind, each one of the choices.
    pub(crate) fn repeat(self, range: RangeInclusive<usize>, choices: Vec<Vec<Step>>) -> Self {
        self.follow(times(range, choices))
    }

    fn follow(self, step: Step) -> Self {
        match self {
            Self::Chain(base, steps) => Self::Chain(base, steps.iter().cloned().chain([step]).collect()),
            base => Self::Chain(Arc::new(base), Arc::new([step])),
        }
    }

    /// Only an operation has inputs, outputs and conditions: elsewhere the words would have no meaning and change nothing.
    fn change(self, change: impl FnOnce(&mut OpExpr)) -> Self {
        match self {
            Self::Op(mut op) => {
                change(Arc::make_mut(&mut op));
                Self::Op(op)
            }
            other => {
                debug_assert!(false, "{other} is no operation");
                other
            }
        }
    }

    /// The kinds of operations that can make this tensor, where `it` is made by one of `it`.
    pub(super) fn heads(&self, it: &[OpKind]) -> Vec<OpKind> {
        match self {
            Self::Any | Self::Number(_) => Vec::new(),
            Self::It => it.to_vec(),
            Self::Op(op) => op.kinds.clone(),
            Self::Named(_, expr) => expr.heads(it),
            Self::OneOf(choices) => choices.iter().flat_map(|choice| choice.heads(it)).collect(),
            Self::Chain(base, steps) => heads_of(base.heads(it), steps),
        }
    }
}

fn heads_of(start: Vec<OpKind>, steps: &[Step]) -> Vec<OpKind> {
    steps.iter().fold(start, |before, step| match step {
        Step::Then(expr) => expr.heads(&before),
        Step::Web(web) => [before, web.kinds.clone()].concat(),
        Step::Times { least, choices, .. } => {
            let mut heads: Vec<OpKind> =
                choices.iter().flat_map(|choice| heads_of(before.clone(), choice)).collect();
            if *least == 0 {
                heads.extend(before);
            }
            heads.sort_unstable();
            heads.dedup();
            heads
        }
    })
}
