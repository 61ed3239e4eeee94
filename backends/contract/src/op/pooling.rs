use super::{ErrorGrowth, Operation, expect_spatial, shape_error, window_output};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::memory_desc::MemoryDesc;
use crate::op::primitive_desc::{Operands, PrimitiveDesc};

/// What a pooling takes of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PoolingAlgorithm {
    /// The largest element; padding never wins.
    Max,
    /// The mean over the elements inside the source.
    AverageExcludePadding,
    /// The mean over the window clipped to the padded source, padding counting as zeros.
    AverageIncludePadding,
}

/// Maximum or average of `src` `[N, C, spatial..]` over windows, one to three spatial dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pooling {
    /// Maximum or average.
    pub algorithm: PoolingAlgorithm,
    /// The window, one size for each spatial dimension.
    pub kernel: Dims,
    /// Steps between windows.
    pub strides: Dims,
    /// Steps between a window's taps; one is dense.
    pub dilations: Dims,
    /// Padding before each spatial dimension.
    pub pads_begin: Dims,
    /// Padding after each spatial dimension.
    pub pads_end: Dims,
    /// Whether a last, partial window counts (the output length is rounded up).
    pub ceil: bool,
}

impl Pooling {
    /// Windows of `kernel` with strides of one and no padding.
    pub fn new(algorithm: PoolingAlgorithm, kernel: impl Into<Dims>) -> Self {
        let kernel = kernel.into();
        let all = |value: usize| -> Dims { kernel.iter().map(|_| value).collect() };
        Self {
            algorithm,
            strides: all(1),
            dilations: all(1),
            pads_begin: all(0),
            pads_end: all(0),
            ceil: false,
            kernel,
        }
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

    /// With the output length rounded up.
    pub fn with_ceil(mut self, ceil: bool) -> Self {
        self.ceil = ceil;
        self
    }

    /// The dimensions of the result.
    pub(super) fn output(&self, name: &str, src: &MemoryDesc) -> Result<Dims> {
        let rank = src.rank();
        if !(3..=5).contains(&rank) {
            return Err(shape_error(name, "rank of src", rank.to_string(), "3 to 5 ([N, C, spatial..])"));
        }
        for (subject, entries) in [
            ("kernel", &self.kernel),
            ("strides", &self.strides),
            ("dilations", &self.dilations),
            ("pads_begin", &self.pads_begin),
            ("pads_end", &self.pads_end),
        ] {
            expect_spatial(name, subject, entries, rank - 2)?;
        }
        let mut dims = src.dims()[..2].to_vec();
        for i in 0..rank - 2 {
            let (input, kernel) = (src.dims()[i + 2], self.kernel[i]);
            let pads = (self.pads_begin[i], self.pads_end[i]);
            let mut output =
                window_output(name, i, input, kernel, self.strides[i], self.dilations[i], pads, self.ceil)?;
            // A rounded-up window that starts in the padding behind the source would see nothing.
            if self.ceil && (output - 1).saturating_mul(self.strides[i]) >= input + pads.0 {
                output -= 1;
            }
            dims.push(output);
        }
        Ok(Dims::from(dims))
    }
}

impl Operation for Pooling {
    fn name(&self) -> &'static str {
        "pooling"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let name = self.name();
        let src = operands.only(name, &[Arg::SRC], &[])?.required(Arg::SRC)?;
        Ok((self.output(name, src)?, src.data_type()))
    }

    fn error_growth(&self, _desc: &PrimitiveDesc) -> ErrorGrowth {
        ErrorGrowth::of_sum(self.kernel.iter().product())
    }
}
