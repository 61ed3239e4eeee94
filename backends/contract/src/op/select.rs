use super::Operation;
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::op::primitive_desc::Operands;

/// `dst = src1 where src0 is not zero, else src2`, all three broadcast to the result (numpy).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Select;

impl Operation for Select {
    fn name(&self) -> &'static str {
        "select"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let operands = operands.only(self.name(), &[Arg::Src(0), Arg::Src(1), Arg::Src(2)], &[])?;
        let (condition, a, b) = (
            operands.required(Arg::Src(0))?,
            operands.required(Arg::Src(1))?,
            operands.required(Arg::Src(2))?,
        );
        Ok((condition.dims().broadcast(&a.dims().broadcast(b.dims())?)?, a.data_type()))
    }

    fn is_elementwise(&self) -> bool {
        true
    }

    fn is_exact(&self, _result: Arg) -> bool {
        true
    }
}
