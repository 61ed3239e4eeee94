use super::{Convolution, ErrorGrowth, Operation, shape_error};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::op::primitive_desc::{Operands, PrimitiveDesc};

/// The gradient of a [`Convolution`] for its weights: `src0` is the convolution's source `[N, C, spatial..]`, `src1` the gradient of its
/// result `[N, O, spatial..]`; the result `[O, C / groups, kernel..]` must be given, because strides leave its size open.
///
/// `dst[o, c, k] = sum over n, x of src0[n, g*C/groups + c, x*stride - pad + k*dilation] * src1[n, o, x]`, `g` the group of `o`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvolutionWeights {
    /// The convolution.
    pub convolution: Convolution,
}

impl ConvolutionWeights {
    /// The gradient of a convolution.
    pub const fn new(convolution: Convolution) -> Self {
        Self { convolution }
    }
}

impl Operation for ConvolutionWeights {
    fn name(&self) -> &'static str {
        "convolution_weights"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let name = self.name();
        let operands = operands.only(name, &[Arg::Src(0), Arg::Src(1)], &[])?;
        let (src, diff) = (operands.required(Arg::Src(0))?, operands.required(Arg::Src(1))?);
        let Some(dst) = operands.dst() else {
            return Err(shape_error(name, "dst", "missing", "the descriptor of the weights"));
        };
        let forward = self.convolution.output(name, src, dst)?;
        if forward != *diff.dims() {
            let expected =
                format!("{forward}, what the convolution makes of {} and {}", src.dims(), dst.dims());
            return Err(shape_error(name, "src1 dimensions", diff.dims().to_string(), expected));
        }
        Ok((dst.dims().clone(), dst.data_type()))
    }

    fn error_growth(&self, desc: &PrimitiveDesc) -> ErrorGrowth {
        ErrorGrowth::of_sum(desc.find(Arg::Src(1)).map_or(1, |diff| diff.elements() / diff.dims()[1].max(1)))
    }
}
