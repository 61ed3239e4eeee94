use super::{BinaryAlgorithm, Eltwise, ErrorGrowth, MatMul, Operation, shape_error};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::op::primitive_desc::{Operands, PrimitiveDesc};

/// Two matrix products of one source, one of them the other's gate: `dst = join(src0 * weights, activation(src0 * src1))`, element by
/// element, in one pass. They are multiplied unless another function [joins](GatedMatMul::with_join) them.
///
/// Operands: `src0` `[.., M, K]`, `weights` (up) and `src1` (gate) `[.., K, N]`, both of the same dimensions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GatedMatMul {
    /// Applied to the gate.
    pub activation: Eltwise,
    /// What joins the product and the gate, in this order.
    pub join: BinaryAlgorithm,
}

impl GatedMatMul {
    /// A gated product.
    pub const fn new(activation: Eltwise) -> Self {
        Self { activation, join: BinaryAlgorithm::Multiply }
    }

    /// With another function that joins product and gate.
    #[must_use]
    pub const fn with_join(self, join: BinaryAlgorithm) -> Self {
        Self { join, ..self }
    }
}

impl Operation for GatedMatMul {
    fn name(&self) -> &'static str {
        "gated_matmul"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let name = self.name();
        let operands = operands.only(name, &[Arg::Src(0), Arg::Src(1), Arg::Weights], &[])?;
        let (src, gate) = (operands.required(Arg::Src(0))?, operands.required(Arg::Src(1))?);
        let weights = operands.required(Arg::Weights)?;
        if gate.dims() != weights.dims() {
            let expected = format!("{}, as the weights", weights.dims());
            return Err(shape_error(name, "src1 dimensions", gate.dims().to_string(), expected));
        }
        MatMul::product(name, src, weights)
    }

    fn dequantizes(&self, arg: Arg) -> bool {
        matches!(arg, Arg::Src(0 | 1) | Arg::Weights)
    }

    /// A product that gates another one adds its own error.
    fn error_growth(&self, desc: &PrimitiveDesc) -> ErrorGrowth {
        let src = desc.src().dims();
        ErrorGrowth {
            terms: src[src.len() - 1],
            sums: 2.0,
            functions: 2,
            cancels: self.activation.row().cancels || self.join != BinaryAlgorithm::Multiply,
            ..ErrorGrowth::default()
        }
    }
}
