//! Formulas for operations with several results.

use std::cmp::Reverse;

#[cfg(feature = "onnx")]
use super::expr::Condition;
use super::expr::{Expr, Step};
use crate::graph::OpKind;

/// What results are made of: the first is looked for in the whole graph, the others around it.
#[derive(Clone, Debug)]
pub(crate) struct Formula {
    pub(super) results: Vec<Outcome>,
}

/// A result of a formula.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) expr: Expr,
    pub(super) required: bool,
    pub(super) heads: Vec<OpKind>,
}

impl Formula {
    /// A formula with one result.
    pub(crate) fn new(result: Expr) -> Self {
        Self { results: Vec::new() }.with(result, true)
    }

    /// With another result.
    pub(crate) fn and(self, result: Expr) -> Self {
        self.with(result, true)
    }

    /// With another result that may be absent.
    pub(crate) fn and_maybe(self, result: Expr) -> Self {
        self.with(result, false)
    }

    fn with(mut self, expr: Expr, required: bool) -> Self {
        let heads = expr.heads(&[]);
        self.results.push(Outcome { expr, required, heads });
        self
    }

    /// The kinds that can make the first result.
    pub(crate) fn heads(&self) -> &[OpKind] {
        self.results.first().map_or(&[], |result| &result.heads)
    }

    /// Tells the conditions, with the kinds of operations that they are put on.
    #[cfg(feature = "onnx")]
    pub(crate) fn each_condition(&self, told: &mut dyn FnMut(&[OpKind], &Condition)) {
        self.results.iter().for_each(|result| result.expr.each_condition(told));
    }

    /// How many operations of these kinds the formula has no place for, with those that it would need besides; among equally distant
    /// formulas the one that asks for more comes first.
    pub(crate) fn distance(&self, kinds: &[OpKind]) -> (usize, Reverse<usize>) {
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
        (distance, Reverse(asked))
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
            Self::Any | Self::It | Self::Number(_) => {}
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

#[cfg(feature = "onnx")]
impl Expr {
    fn each_condition(&self, told: &mut dyn FnMut(&[OpKind], &Condition)) {
        match self {
            Self::Any | Self::It | Self::Number(_) => {}
            Self::Op(op) => {
                op.conditions.iter().for_each(|condition| told(&op.kinds, condition));
                op.inputs.iter().for_each(|input| input.each_condition(told));
            }
            Self::Named(_, expr) => expr.each_condition(told),
            Self::OneOf(choices) => choices.iter().for_each(|choice| choice.each_condition(told)),
            Self::Chain(base, steps) => {
                base.each_condition(told);
                steps.iter().for_each(|step| step.each_condition(told));
            }
        }
    }
}

#[cfg(feature = "onnx")]
impl Step {
    fn each_condition(&self, told: &mut dyn FnMut(&[OpKind], &Condition)) {
        match self {
            Self::Then(expr) => expr.each_condition(told),
            Self::Web(_) => {}
            Self::Times { choices, .. } => {
                choices.iter().flatten().for_each(|step| step.each_condition(told));
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
            Step::Web(web) => known.extend(&web.kinds),
            Step::Times { least, choices, .. } => {
                for (at, choice) in choices.iter().enumerate() {
                    collect_steps(choice, required && *least > 0 && at == 0, needed, known, names);
                }
            }
        }
    }
}
