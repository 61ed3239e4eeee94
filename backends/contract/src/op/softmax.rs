use super::{ErrorGrowth, Operation, expect_axis};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::op::primitive_desc::{Operands, PrimitiveDesc};

/// `e^(x - max) / sum of e^(x - max)` along an axis, or its logarithm `x - max - ln sum`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Softmax {
    /// The axis of the sums.
    pub axis: usize,
    /// Whether the result is the logarithm.
    pub log: bool,
    /// Whether a row of only negative infinities gives zeros instead of NaN (attention rows masked out entirely).
    pub inf_as_zero: bool,
}

impl Softmax {
    /// Softmax along an axis.
    pub const fn new(axis: usize) -> Self {
        Self { axis, log: false, inf_as_zero: false }
    }

    /// The logarithm of softmax along an axis.
    pub const fn log(axis: usize) -> Self {
        Self { axis, log: true, inf_as_zero: false }
    }
}

impl Operation for Softmax {
    fn name(&self) -> &'static str {
        "softmax"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let src = operands.only(self.name(), &[Arg::SRC], &[])?.required(Arg::SRC)?;
        expect_axis(self.name(), self.axis, src.rank())?;
        Ok((src.dims().clone(), src.data_type()))
    }

    fn error_growth(&self, desc: &PrimitiveDesc) -> ErrorGrowth {
        ErrorGrowth::of_sum(desc.src().dims()[self.axis])
    }
}
