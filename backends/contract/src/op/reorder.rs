use super::Operation;
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::op::primitive_desc::Operands;

/// A copy into another layout or element type. Values outside of the result's type saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reorder;

impl Operation for Reorder {
    fn name(&self) -> &'static str {
        "reorder"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let src = operands.only(self.name(), &[Arg::SRC], &[])?.required(Arg::SRC)?;
        Ok((src.dims().clone(), src.data_type()))
    }

    fn is_elementwise(&self) -> bool {
        true
    }

    fn is_exact(&self, _result: Arg) -> bool {
        true
    }
}
