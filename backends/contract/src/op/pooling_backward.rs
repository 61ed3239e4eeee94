use super::{ErrorGrowth, Operation, Pooling, PoolingAlgorithm, shape_error};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::op::primitive_desc::{Operands, PrimitiveDesc};

/// The gradient of a [`Pooling`] for its source. `src0` is the gradient of its result; a maximum also reads `src1`, its source, and
/// gives each window's gradient to the window's first largest element in row-major order. The result, `[N, C, spatial..]` like the
/// source, must be given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolingBackward {
    /// The pooling.
    pub pooling: Pooling,
}

impl PoolingBackward {
    /// The gradient of a pooling.
    pub const fn new(pooling: Pooling) -> Self {
        Self { pooling }
    }
}

impl Operation for PoolingBackward {
    fn name(&self) -> &'static str {
        "pooling_backward"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let name = self.name();
        let reads_source = self.pooling.algorithm == PoolingAlgorithm::Max;
        let sources = [Arg::Src(0), Arg::Src(1)];
        let operands = operands.only(name, &sources[..=usize::from(reads_source)], &[])?;
        let diff = operands.required(Arg::Src(0))?;
        let Some(dst) = operands.dst() else {
            return Err(shape_error(name, "dst", "missing", "a descriptor like the pooling's source"));
        };
        let forward = self.pooling.output(name, dst)?;
        if forward != *diff.dims() {
            let expected = format!("{forward}, what the pooling makes of {}", dst.dims());
            return Err(shape_error(name, "src0 dimensions", diff.dims().to_string(), expected));
        }
        if reads_source {
            super::expect_dims(name, Arg::Src(1), operands.required(Arg::Src(1))?, dst.dims())?;
        }
        Ok((dst.dims().clone(), dst.data_type()))
    }

    fn error_growth(&self, _desc: &PrimitiveDesc) -> ErrorGrowth {
        ErrorGrowth::of_sum(self.pooling.kernel.iter().product())
    }
}
