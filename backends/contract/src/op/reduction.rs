use super::{ErrorGrowth, Operation, shape_error};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::op::primitive_desc::{Operands, PrimitiveDesc};

/// How elements fold into one.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ReductionAlgorithm {
    /// The sum.
    Sum,
    /// The sum over the count.
    Mean,
    /// The product.
    Product,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// The sum of absolute values.
    NormL1,
    /// The square root of the sum of squares.
    NormL2,
}

impl ReductionAlgorithm {
    /// Every algorithm.
    pub const ALL: [Self; 7] =
        [Self::Sum, Self::Mean, Self::Product, Self::Max, Self::Min, Self::NormL1, Self::NormL2];

    /// The algorithm's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Product => "product",
            Self::Max => "max",
            Self::Min => "min",
            Self::NormL1 => "norm_l1",
            Self::NormL2 => "norm_l2",
        }
    }
}

/// A fold of `src` into a result of the same rank: each dimension of the result equals the source's or is one, and then is folded.
/// Without any element, a sum is zero, a product one, a maximum minus infinity, a minimum infinity, a mean NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduction {
    /// How elements fold.
    pub algorithm: ReductionAlgorithm,
}

impl Reduction {
    /// A fold by `algorithm`; the result's dimensions say along which axes.
    pub const fn new(algorithm: ReductionAlgorithm) -> Self {
        Self { algorithm }
    }
}

impl Operation for Reduction {
    fn name(&self) -> &'static str {
        "reduction"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let name = self.name();
        let src = operands.only(name, &[Arg::SRC], &[])?.required(Arg::SRC)?;
        let Some(dst) = operands.dst() else {
            return Err(shape_error(
                name,
                "dst",
                "missing",
                "a descriptor with ones in the dimensions to fold",
            ));
        };
        let fits = dst.rank() == src.rank()
            && dst.dims().iter().zip(src.dims().iter()).all(|(d, s)| d == s || *d == 1);
        if !fits {
            return Err(shape_error(
                name,
                "dst dimensions",
                dst.dims().to_string(),
                format!("{} with ones in the dimensions to fold", src.dims()),
            ));
        }
        Ok((dst.dims().clone(), src.data_type()))
    }

    fn error_growth(&self, desc: &PrimitiveDesc) -> ErrorGrowth {
        if matches!(self.algorithm, ReductionAlgorithm::Max | ReductionAlgorithm::Min) {
            return ErrorGrowth::default();
        }
        ErrorGrowth::of_sum(desc.src().elements() / desc.dst().elements().max(1))
    }
}
