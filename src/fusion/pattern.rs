//! A formula with a name and a place in the order in which partitions are chosen.

use crate::formula::{Expr, Formula};

/// A named pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// `group/name`.
    pub(super) name: &'static str,
    /// Higher ones choose first.
    pub(super) priority: u32,
    /// What it is for, in words.
    pub(super) covers: &'static [&'static str],
    /// Its operations.
    pub(super) formula: Formula,
}

impl Pattern {
    /// A pattern with one result.
    pub(super) fn new(
        name: &'static str,
        priority: u32,
        covers: &'static [&'static str],
        result: Expr,
    ) -> Self {
        Self { name, priority, covers, formula: Formula::new(result) }
    }

    /// With another result.
    pub(super) fn and(self, result: Expr) -> Self {
        Self { formula: self.formula.and(result), ..self }
    }

    /// With another result that may be absent.
    pub(super) fn and_maybe(self, result: Expr) -> Self {
        Self { formula: self.formula.and_maybe(result), ..self }
    }
}
