//! Functions of one element: their table, and what follows from it.

#[macro_use]
mod define;
mod formulas;
mod function;
mod table;

pub use function::{Attributes, Domain, Function, Parameter, Spelling};
pub use table::Eltwise;

impl Eltwise {
    /// The row of the table.
    pub fn row(self) -> &'static Function {
        // Every variant comes from a row.
        Self::TABLE.iter().find(|row| row.name == self.name()).unwrap_or(&Self::TABLE[0])
    }
}

#[cfg(test)]
mod tests;
