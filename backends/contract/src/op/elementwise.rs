//! Functions of one element as an operation.

use super::{Eltwise, ErrorGrowth, Operation};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::op::primitive_desc::{Operands, PrimitiveDesc};

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
