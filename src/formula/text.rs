//! Formulas in words.

use std::fmt;

use super::expr::{Condition, Expr, Number, OpExpr, Step};
use super::parts::{BINARY, GRADIENT, REDUCTION, UNARY};
use super::results::Formula;
use crate::graph::OpKind;

/// Names are explained where they first stand; a result that may be absent stands in brackets.
impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let results = self.results.iter().map(|result| {
            if result.required { result.expr.to_string() } else { format!("[{}]", result.expr) }
        });
        f.write_str(&results.collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("_"),
            Self::It => f.write_str("it"),
            Self::Number(Number::Near(number)) => write!(f, "{number}"),
            Self::Number(Number::AtLeast(least)) => write!(f, ">= {least}"),
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
            Self::Web(web) => write!(f, "({})..", kinds_in_words(&web.kinds)),
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
pub(crate) fn kinds_in_words(kinds: &[OpKind]) -> String {
    let sets: [(_, &[OpKind]); 4] =
        [("Unary", &UNARY), ("Binary", &BINARY), ("Reduction", &REDUCTION), ("Gradient", &GRADIENT)];
    for (name, set) in sets {
        if kinds == set {
            return name.into();
        }
    }
    kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join("|")
}
