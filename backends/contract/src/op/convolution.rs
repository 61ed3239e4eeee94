use super::{ErrorGrowth, Operation, expect_dims, expect_spatial, shape_error, window_output};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::memory_desc::MemoryDesc;
use crate::op::primitive_desc::{Operands, PrimitiveDesc};

/// Cross-correlation of `src` `[N, C, spatial..]` with `weights` `[O, C / groups, kernel..]`, one to three spatial dimensions.
///
/// `dst[n, o, x] = bias[o] + sum over c, k of src[n, g*C/groups + c, x*stride - pad + k*dilation] * weights[o, c, k]`, where `g` is the
/// group of output channel `o`; positions outside the source count as zero.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// Steps between windows, one for each spatial dimension.
    pub strides: Dims,
    /// Steps between a window's taps; one is dense.
    pub dilations: Dims,
    /// Padding before each spatial dimension.
    pub pads_begin: Dims,
    /// Padding after each spatial dimension.
    pub pads_end: Dims,
    /// Groups of channels that do not mix.
    pub groups: usize,
}

impl Convolution {
    /// Unit strides, no padding, one group, for `spatial` dimensions.
    pub fn new(spatial: usize) -> Self {
        let all = |value: usize| -> Dims { std::iter::repeat_n(value, spatial).collect() };
        Self { strides: all(1), dilations: all(1), pads_begin: all(0), pads_end: all(0), groups: 1 }
    }

    /// With steps between windows.
    pub fn with_strides(mut self, strides: impl Into<Dims>) -> Self {
        self.strides = strides.into();
        self
    }

    /// With steps between taps.
    pub fn with_dilations(mut self, dilations: impl Into<Dims>) -> Self {
        self.dilations = dilations.into();
        self
    }

    /// With padding before and after.
    pub fn with_pads(mut self, begin: impl Into<Dims>, end: impl Into<Dims>) -> Self {
        (self.pads_begin, self.pads_end) = (begin.into(), end.into());
        self
    }

    /// With groups.
    pub fn with_groups(mut self, groups: usize) -> Self {
        self.groups = groups;
        self
    }

    /// The dimensions of the result.
    pub(super) fn output(&self, name: &str, src: &MemoryDesc, weights: &MemoryDesc) -> Result<Dims> {
        let rank = src.rank();
        if !(3..=5).contains(&rank) || weights.rank() != rank {
            return Err(shape_error(
                name,
                "ranks of src and weights",
                format!("{rank} and {}", weights.rank()),
                "equal, 3 to 5 ([N, C, spatial..])",
            ));
        }
        for (subject, entries) in [
            ("strides", &self.strides),
            ("dilations", &self.dilations),
            ("pads_begin", &self.pads_begin),
            ("pads_end", &self.pads_end),
        ] {
            expect_spatial(name, subject, entries, rank - 2)?;
        }
        let (channels, outputs) = (src.dims()[1], weights.dims()[0]);
        // No channels are a multiple of any number.
        if self.groups == 0
            || self.groups > channels.max(outputs).max(1)
            || !channels.is_multiple_of(self.groups)
            || !outputs.is_multiple_of(self.groups)
        {
            return Err(shape_error(
                name,
                "groups",
                self.groups.to_string(),
                format!("a divisor of {channels} input and {outputs} output channels"),
            ));
        }
        if weights.dims()[1] != channels / self.groups {
            return Err(shape_error(
                name,
                "input channels of weights",
                weights.dims()[1].to_string(),
                format!("{}, {channels} channels in {} groups", channels / self.groups, self.groups),
            ));
        }
        let mut dims = Dims::from([src.dims()[0], outputs]).to_vec();
        for i in 0..rank - 2 {
            let pads = (self.pads_begin[i], self.pads_end[i]);
            dims.push(window_output(
                name,
                i,
                src.dims()[i + 2],
                weights.dims()[i + 2],
                self.strides[i],
                self.dilations[i],
                pads,
                false,
            )?);
        }
        Ok(Dims::from(dims))
    }
}

impl Operation for Convolution {
    fn name(&self) -> &'static str {
        "convolution"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let name = self.name();
        let operands = operands.only(name, &[Arg::SRC, Arg::Weights], &[Arg::Bias])?;
        let (src, weights) = (operands.required(Arg::SRC)?, operands.required(Arg::Weights)?);
        let dims = self.output(name, src, weights)?;
        if let Some(bias) = operands.find(Arg::Bias) {
            expect_dims(name, Arg::Bias, bias, &[weights.dims()[0]])?;
        }
        let integer = src.data_type().is_integer() && weights.data_type().is_integer();
        Ok((dims, if integer { DataType::S32 } else { src.data_type() }))
    }

    fn dequantizes(&self, arg: Arg) -> bool {
        matches!(arg, Arg::Src(0) | Arg::Weights)
    }

    fn reads_post_operands_in_place(&self) -> bool {
        true
    }

    fn error_growth(&self, desc: &PrimitiveDesc) -> ErrorGrowth {
        ErrorGrowth::of_sum(desc.find(Arg::Weights).map_or(1, |w| w.dims()[1..].iter().product()))
    }
}
