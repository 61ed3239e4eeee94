use super::{Eltwise, MatMul, shape_error};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::primitive_desc::Operands;

/// Two matrix products of one source, one of them the other's gate: `dst = (src0 * weights) . activation(src0 * src1)`, element by
/// element, in one pass.
///
/// Operands: `src0` `[.., M, K]`, `weights` (up) and `src1` (gate) `[.., K, N]`, both of the same dimensions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GatedMatMul {
    /// Applied to the gate.
    pub activation: Eltwise,
}

impl GatedMatMul {
    /// A gated product.
    pub const fn new(activation: Eltwise) -> Self {
        Self { activation }
    }

    pub(super) fn infer(self, operands: &Operands) -> Result<(Dims, DataType)> {
        let name = "gated_matmul";
        let operands = operands.only(name, &[Arg::Src(0), Arg::Src(1), Arg::Weights], &[])?;
        let (src, gate) = (operands.required(Arg::Src(0))?, operands.required(Arg::Src(1))?);
        let weights = operands.required(Arg::Weights)?;
        if gate.dims() != weights.dims() {
            let expected = format!("{}, as the weights", weights.dims());
            return Err(shape_error(name, "src1 dimensions", gate.dims().to_string(), expected));
        }
        MatMul::product(name, src, weights)
    }
}
