use super::{ErrorGrowth, Operation, expect_dims, shape_error};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::memory_desc::MemoryDesc;
use crate::op::primitive_desc::{Operands, PrimitiveDesc};

/// `dst[.., m, n] = sum over k of src[.., m, k] * weights[.., k, n] + bias`, batch dimensions broadcast (numpy).
///
/// Operands: `src` `[.., M, K]`, `weights` `[.., K, N]` of the same rank, optional `bias` that broadcasts to the result. A transposed
/// operand is one with permuted strides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MatMul;

impl MatMul {
    /// The dimensions and element type of a product.
    pub(super) fn product(name: &str, src: &MemoryDesc, weights: &MemoryDesc) -> Result<(Dims, DataType)> {
        let rank = src.rank();
        if rank < 2 || weights.rank() != rank {
            return Err(shape_error(
                name,
                "ranks of src and weights",
                format!("{rank} and {}", weights.rank()),
                "equal and at least 2",
            ));
        }
        let (m, k) = (src.dims()[rank - 2], src.dims()[rank - 1]);
        let (weights_k, n) = (weights.dims()[rank - 2], weights.dims()[rank - 1]);
        if k != weights_k {
            return Err(shape_error(
                name,
                "K of weights",
                weights_k.to_string(),
                format!("{k}, the K of src {}", src.dims()),
            ));
        }
        let batch = Dims::new(&src.dims()[..rank - 2]).broadcast(&Dims::new(&weights.dims()[..rank - 2]))?;
        let dims: Dims = batch.iter().copied().chain([m, n]).collect();
        let integer = src.data_type().is_integer() && weights.data_type().is_integer();
        Ok((dims, if integer { DataType::S32 } else { src.data_type() }))
    }
}

impl Operation for MatMul {
    fn name(&self) -> &'static str {
        "matmul"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let name = self.name();
        let operands = operands.only(name, &[Arg::SRC, Arg::Weights], &[Arg::Bias])?;
        let (src, weights) = (operands.required(Arg::SRC)?, operands.required(Arg::Weights)?);
        let (dims, data_type) = Self::product(name, src, weights)?;
        if let Some(bias) = operands.find(Arg::Bias)
            && !bias.dims().broadcasts_to(&dims)
        {
            return Err(shape_error(
                name,
                "bias dimensions",
                bias.dims().to_string(),
                format!("dimensions that broadcast to {dims}"),
            ));
        }
        if let Some(dst) = operands.dst() {
            expect_dims(name, Arg::DST, dst, &dims)?;
        }
        Ok((dims, data_type))
    }

    fn dequantizes(&self, arg: Arg) -> bool {
        matches!(arg, Arg::Src(0) | Arg::Weights)
    }

    fn reads_post_operands_in_place(&self) -> bool {
        true
    }

    fn error_growth(&self, desc: &PrimitiveDesc) -> ErrorGrowth {
        let src = desc.src().dims();
        ErrorGrowth::of_sum(src[src.len() - 1])
    }
}
