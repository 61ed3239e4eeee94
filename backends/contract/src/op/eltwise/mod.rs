//! Functions of one element: their table, and what follows from it.

#[macro_use]
mod define;
mod formulas;
mod function;
mod table;

pub use function::{Attributes, Domain, Function, Parameter, Spelling};
pub use table::Eltwise;

use super::{ErrorGrowth, Operation};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::primitive_desc::{Operands, PrimitiveDesc};

impl Eltwise {
    /// The row of the table.
    pub fn row(self) -> &'static Function {
        // Every variant comes from a row.
        Self::TABLE.iter().find(|row| row.name == self.name()).unwrap_or(&Self::TABLE[0])
    }
}

impl Operation for Eltwise {
    fn name(&self) -> &'static str {
        "eltwise"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let src = operands.only(Operation::name(self), &[Arg::SRC], &[])?.required(Arg::SRC)?;
        Ok((src.dims().clone(), src.data_type()))
    }

    fn is_elementwise(&self) -> bool {
        true
    }

    fn error_growth(&self, _desc: &PrimitiveDesc) -> ErrorGrowth {
        ErrorGrowth { cancels: self.row().cancels, ..ErrorGrowth::default() }
    }
}

#[cfg(test)]
mod tests;
