//! Formulas over graphs, and the one search for what they describe.
//!
//! A [`Formula`] says what operations belong together. [`Matcher`] looks for it in a [`Scope`], and a [`Match`] keeps which operation and
//! which tensor stands for each name of the formula: whoever wrote the formula makes something of them. Fusion's partitions, the units of
//! lowering and the rewriting of graphs are formulas.

mod expr;
mod found;
mod matcher;
mod obstacle;
pub(crate) mod parts;
mod results;
mod scope;
#[cfg(test)]
mod tests;
mod text;

#[cfg(feature = "onnx")]
pub(crate) use expr::{Ask, Condition};
pub(crate) use expr::{Expr, Step, Web, any, at_least, it, number, one_of, op, perhaps, steps, times};
pub(crate) use found::Match;
pub(crate) use matcher::{Matcher, find_map};
pub(crate) use obstacle::Obstacle;
pub(crate) use results::Formula;
pub(crate) use scope::Scope;
