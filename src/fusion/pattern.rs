//! The words that patterns are written in.
//!
//! A pattern is a formula over tensors that is read from left to right: `op(MatMul).maybe(BiasAdd).repeat(0..=20, post_op())`. What
//! comes along from the left is [`it`]; side inputs are written where they enter, `op(Add).of([it(), any()])`. A formula that is used
//! twice under one [name](Expr::named) means one tensor, so that results may share what they are made of.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use anydnn_backend::DataType;

use crate::graph::{Graph, Op, OpKind};

/// A named pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// `group/name`.
    pub(super) name: &'static str,
    /// Higher ones choose first.
    pub(super) priority: u32,
    /// What it is for, in words.
    pub(super) covers: &'static [&'static str],
    /// Its results; the first is looked for in the whole graph, the others around it.
    pub(super) results: Vec<Outcome>,
    /// The kinds that can make the first result.
    pub(super) heads: Vec<OpKind>,
}

/// A result of a pattern.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) expr: Expr,
    pub(super) required: bool,
    pub(super) heads: Vec<OpKind>,
}

/// A formula: what a tensor is made of.
#[derive(Clone, Debug)]
pub(super) enum Expr {
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
}

/// What follows in a chain.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A formula in which [`it`] is what came before.
    Then(Expr),
    /// So many times one of these chains.
    Times { least: usize, most: usize, choices: Vec<Vec<Step>> },
}

/// An operation in a formula.
#[derive(Clone, Debug)]
pub(super) struct OpExpr {
    pub(super) kinds: Vec<OpKind>,
    /// What its first inputs are; the others are any tensor.
    pub(super) inputs: Vec<Expr>,
    /// Whether the last of `inputs` stands for every further input, and may be absent.
    pub(super) each: bool,
    /// Whether the first two inputs may stand in either order, whatever the operation.
    pub(super) either: bool,
    /// Outputs that may be seen outside.
    pub(super) open: Vec<usize>,
    pub(super) conditions: Vec<Condition>,
}

/// A condition on an operation.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    /// The first input is of one of these types.
    Reads(&'static [DataType]),
    /// What comes along has the shape of the result.
    KeepsShape,
    /// Anything else, in words.
    When(&'static str, fn(&Graph, &Op) -> bool),
}

/// Any tensor, from outside or inside.
pub(super) fn any() -> Expr {
    Expr::Any
}

/// What comes along from the left.
pub(super) fn it() -> Expr {
    Expr::It
}

/// The result of an operation of one of these kinds.
pub(super) fn op(kinds: impl Kinds) -> Expr {
    let (inputs, open, conditions) = (Vec::new(), Vec::new(), Vec::new());
    let kinds = kinds.kinds();
    Expr::Op(Arc::new(OpExpr { kinds, inputs, each: false, either: false, open, conditions }))
}

/// The first of these that fits.
pub(super) fn one_of(choices: impl IntoIterator<Item = Expr>) -> Expr {
    Expr::OneOf(choices.into_iter().collect())
}

/// A list of steps that follow one another.
macro_rules! steps {
    ($($step:expr),* $(,)?) => { vec![$($crate::fusion::pattern::Step::from($step)),*] };
}
pub(super) use steps;

/// One or several kinds of operations.
pub(super) trait Kinds {
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
pub(super) fn times(range: RangeInclusive<usize>, choices: Vec<Vec<Step>>) -> Step {
    Step::Times { least: *range.start(), most: *range.end(), choices }
}

/// At most once these.
pub(super) fn perhaps(steps: Vec<Step>) -> Step {
    times(0..=1, vec![steps])
}

impl Expr {
    /// With what the first inputs are.
    pub(super) fn of(self, inputs: impl IntoIterator<Item = Expr>) -> Self {
        self.change(|op| op.inputs = inputs.into_iter().collect())
    }

    /// With what every further input is, if there is one.
    pub(super) fn each(self, input: Expr) -> Self {
        self.change(|op| {
            op.inputs.push(input);
            op.each = true;
        })
    }

    /// The first two inputs may stand in either order. Those of commutative operations always may.
    pub(super) fn either(self) -> Self {
        self.change(|op| op.either = true)
    }

    /// An output that may be seen outside.
    pub(super) fn open(self, output: usize) -> Self {
        self.change(|op| op.open.push(output))
    }

    /// The first input is of one of these types.
    pub(super) fn reads(self, types: &'static [DataType]) -> Self {
        self.change(|op| op.conditions.push(Condition::Reads(types)))
    }

    /// What comes along has the shape of the result: the operation does not stretch it.
    pub(super) fn keeps_shape(self) -> Self {
        self.change(|op| op.conditions.push(Condition::KeepsShape))
    }

    /// With a condition on the operation.
    pub(super) fn when(self, words: &'static str, condition: fn(&Graph, &Op) -> bool) -> Self {
        self.change(|op| op.conditions.push(Condition::When(words, condition)))
    }

    /// The same tensor wherever the name stands.
    pub(super) fn named(self, name: &'static str) -> Self {
        Self::Named(name, Arc::new(self))
    }

    /// With a step behind.
    pub(super) fn then(self, step: impl Into<Step>) -> Self {
        self.follow(step.into())
    }

    /// With steps behind.
    pub(super) fn then_all(self, steps: Vec<Step>) -> Self {
        steps.into_iter().fold(self, Self::follow)
    }

    /// With a step behind that may be absent.
    pub(super) fn maybe(self, step: impl Into<Step>) -> Self {
        self.follow(perhaps(vec![step.into()]))
    }

    /// With so many steps behind, each one of the choices.
    pub(super) fn repeat(self, range: RangeInclusive<usize>, choices: Vec<Vec<Step>>) -> Self {
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
    fn heads(&self, it: &[OpKind]) -> Vec<OpKind> {
        match self {
            Self::Any => Vec::new(),
            Self::It => it.to_vec(),
            Self::Op(op) => op.kinds.clone(),
            Self::Named(_, expr) => expr.heads(it),
            Self::OneOf(choices) => choices.iter().flat_map(|choice| choice.heads(it)).collect(),
            Self::Chain(base, steps) => heads_of(base.heads(it), steps),
        }
    }
}

impl Expr {
    /// The kinds of operations that the formula needs, one list for each, and those that it may have.
    fn collect(
        &self,
        required: bool,
        needed: &mut Vec<Vec<OpKind>>,
        known: &mut Vec<OpKind>,
        names: &mut Vec<&'static str>,
    ) {
        match self {
            Self::Any | Self::It => {}
            Self::Op(op) => {
                if required {
                    needed.push(op.kinds.clone());
                } else {
                    known.extend(&op.kinds);
                }
                op.inputs.iter().for_each(|input| input.collect(required, needed, known, names));
                // Further inputs may be made alike.
                if op.each
                    && let Some(last) = op.inputs.last()
                {
                    last.collect(false, needed, known, names);
                }
            }
            Self::Named(name, expr) => {
                if !names.contains(name) {
                    names.push(name);
                    expr.collect(required, needed, known, names);
                }
            }
            // Of several forms none is needed in particular.
            Self::OneOf(choices) => {
                let plain = choices.iter().any(|choice| matches!(choice, Self::Any | Self::It));
                for (at, choice) in choices.iter().enumerate() {
                    choice.collect(required && at == 0 && !plain, needed, known, names);
                }
            }
            Self::Chain(base, steps) => {
                base.collect(required, needed, known, names);
                collect_steps(steps, required, needed, known, names);
            }
        }
    }
}

fn collect_steps(
    steps: &[Step],
    required: bool,
    needed: &mut Vec<Vec<OpKind>>,
    known: &mut Vec<OpKind>,
    names: &mut Vec<&'static str>,
) {
    for step in steps {
        match step {
            Step::Then(expr) => expr.collect(required, needed, known, names),
            Step::Times { least, choices, .. } => {
                for (at, choice) in choices.iter().enumerate() {
                    collect_steps(choice, required && *least > 0 && at == 0, needed, known, names);
                }
            }
        }
    }
}

fn heads_of(start: Vec<OpKind>, steps: &[Step]) -> Vec<OpKind> {
    steps.iter().fold(start, |before, step| match step {
        Step::Then(expr) => expr.heads(&before),
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

impl Pattern {
    /// A pattern with one result.
    pub(super) fn new(
        name: &'static str,
        priority: u32,
        covers: &'static [&'static str],
        result: Expr,
    ) -> Self {
        let pattern = Self { name, priority, covers, results: Vec::new(), heads: Vec::new() };
        let pattern = pattern.and(result);
        Self { heads: pattern.results[0].heads.clone(), ..pattern }
    }

    /// With another result.
    pub(super) fn and(self, result: Expr) -> Self {
        self.with(result, true)
    }

    /// With another result that may be absent.
    pub(super) fn and_maybe(self, result: Expr) -> Self {
        self.with(result, false)
    }

    fn with(mut self, expr: Expr, required: bool) -> Self {
        let heads = expr.heads(&[]);
        self.results.push(Outcome { expr, required, heads });
        self
    }

    /// How many operations of these kinds the pattern has no place for, with those that it would need besides; among equally distant
    /// patterns the one that asks for more comes first.
    pub(super) fn distance(&self, kinds: &[OpKind]) -> (usize, std::cmp::Reverse<usize>) {
        let (mut needed, mut known, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for result in &self.results {
            result.expr.collect(result.required, &mut needed, &mut known, &mut names);
        }
        let (mut left, asked) = (kinds.to_vec(), needed.len());
        needed.retain(|wanted: &Vec<OpKind>| match left.iter().position(|kind| wanted.contains(kind)) {
            Some(at) => {
                left.swap_remove(at);
                false
            }
            None => true,
        });
        let distance = needed.len() + left.iter().filter(|kind| !known.contains(kind)).count();
        (distance, std::cmp::Reverse(asked))
    }

    /// The pattern as a formula, one line for each result; names are explained where they first stand.
    pub(super) fn formula(&self) -> String {
        let results = self.results.iter().map(|result| {
            if result.required { result.expr.to_string() } else { format!("[{}]", result.expr) }
        });
        results.collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("_"),
            Self::It => f.write_str("it"),
            Self::Op(op) => op.fmt(f),
            Self::Named(name, expr) if matches!(**expr, Self::Any) => f.write_str(name),
            Self::Named(name, expr) => write!(f, "{name}: ({expr})"),
            Self::OneOf(choices) => {
                let choices: Vec<_> = choices.iter().map(ToString::to_string).collect();
                write!(f, "({})", choices.join(" | "))
            }
            Self::Chain(base, steps) => match **base {
                // What a chain starts from is left out where it is any tensor.
                Self::Any | Self::It => f.write_str(&sequence(steps)),
                _ => write!(f, "{base} + {}", sequence(steps)),
            },
        }
    }
}

impl fmt::Display for OpExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&kinds_in_words(&self.kinds))?;
        if self.inputs.iter().any(|input| !matches!(input, Expr::Any | Expr::It))
            || self.inputs.len() > 1 && self.inputs.iter().skip(1).any(|input| matches!(input, Expr::It))
        {
            let inputs: Vec<_> = self.inputs.iter().map(ToString::to_string).collect();
            let each = if self.each { ".." } else { "" };
            write!(f, "({}{each})", inputs.join(", "))?;
        }
        for condition in &self.conditions {
            if let Condition::When(words, _) = condition {
                write!(f, " if {words}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Then(expr) => expr.fmt(f),
            Self::Times { least, most, choices } => {
                let choices: Vec<_> = choices.iter().map(|choice| sequence(choice)).collect();
                let choices = choices.join(" | ");
                match (least, most) {
                    (0, 1) => write!(f, "[{choices}]"),
                    (1, 1) => write!(f, "({choices})"),
                    _ => write!(f, "({choices}){{{least}..{most}}}"),
                }
            }
        }
    }
}

fn sequence(steps: &[Step]) -> String {
    steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + ")
}

/// Kinds by the name of their set, or one by one.
pub(super) fn kinds_in_words(kinds: &[OpKind]) -> String {
    use super::kinds::{BINARY, REDUCTION, UNARY};
    for (name, set) in [("Unary", UNARY.as_slice()), ("Binary", &BINARY), ("Reduction", &REDUCTION)] {
        if kinds == set {
            return name.into();
        }
    }
    kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join("|")
}
