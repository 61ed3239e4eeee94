use super::{ErrorGrowth, Operation, expect_axis, expect_dims, expect_float, shape_error};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::op::primitive_desc::{Operands, PrimitiveDesc};

/// `(x - mean) / sqrt(variance + epsilon) * scale + shift` over the trailing dimensions, or `x / sqrt(mean of x^2 + epsilon) * scale` when
/// `rms`. The variance is the biased one.
///
/// Operands: `src`; optional `scale` and `shift` with the dimensions from `begin_axis` on. Optional results beside `dst`: `mean` and
/// `variance` with the dimensions before `begin_axis` followed by ones up to the rank, or without those ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerNormalization {
    /// The first normalised dimension.
    pub begin_axis: usize,
    /// Added to the variance.
    pub epsilon: f32,
    /// Root-mean-square normalisation: no mean is subtracted.
    pub rms: bool,
}

/// `(x - mean[c]) / sqrt(variance[c] + epsilon) * scale[c] + shift[c]` with given statistics; channels are dimension 1.
///
/// Operands: `src` `[N, C, ..]`, `mean` and `variance` `[C]`, optional `scale` and `shift` `[C]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNormalization {
    /// Added to the variance.
    pub epsilon: f32,
}

/// Normalisation over each sample's groups of channels (dimension 1) and all spatial dimensions, by their own statistics.
///
/// Operands: `src` `[N, C, ..]`; optional `scale` and `shift` `[C]`. Optional results beside `dst`: `mean` and `variance` `[N, groups]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupNormalization {
    /// The number of groups, a divisor of the channels.
    pub groups: usize,
    /// Added to the variance.
    pub epsilon: f32,
}

impl LayerNormalization {
    /// Layer normalisation from `begin_axis` on.
    pub const fn new(begin_axis: usize, epsilon: f32) -> Self {
        Self { begin_axis, epsilon, rms: false }
    }

    /// Root-mean-square normalisation from `begin_axis` on.
    pub const fn rms(begin_axis: usize, epsilon: f32) -> Self {
        Self { begin_axis, epsilon, rms: true }
    }
}

impl Operation for LayerNormalization {
    fn name(&self) -> &'static str {
        "layer_normalization"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let name = self.name();
        let operands =
            operands.only(name, &[Arg::SRC], &[Arg::Scale, Arg::Shift, Arg::Mean, Arg::Variance])?;
        let src = operands.required(Arg::SRC)?;
        expect_float(name, Arg::SRC, src)?;
        expect_axis(name, self.begin_axis, src.rank())?;
        let (outer, inner) = src.dims().split_at(self.begin_axis);
        for arg in [Arg::Scale, Arg::Shift] {
            if let Some(desc) = operands.find(arg) {
                expect_dims(name, arg, desc, inner)?;
            }
        }
        for arg in [Arg::Mean, Arg::Variance] {
            if let Some(desc) = operands.find(arg)
                && **desc.dims() != *outer
            {
                let kept: Vec<usize> = outer.iter().copied().chain(inner.iter().map(|_| 1)).collect();
                expect_dims(name, arg, desc, &kept)?;
            }
        }
        Ok((src.dims().clone(), src.data_type()))
    }

    fn error_growth(&self, desc: &PrimitiveDesc) -> ErrorGrowth {
        ErrorGrowth::of_sum(desc.src().dims()[self.begin_axis..].iter().product())
    }
}

impl BatchNormalization {
    /// Normalisation by given statistics.
    pub const fn new(epsilon: f32) -> Self {
        Self { epsilon }
    }
}

impl Operation for BatchNormalization {
    fn name(&self) -> &'static str {
        "batch_normalization"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let name = self.name();
        let operands =
            operands.only(name, &[Arg::SRC, Arg::Mean, Arg::Variance], &[Arg::Scale, Arg::Shift])?;
        let src = operands.required(Arg::SRC)?;
        expect_float(name, Arg::SRC, src)?;
        expect_channel_vectors(name, operands, &[Arg::Mean, Arg::Variance, Arg::Scale, Arg::Shift])?;
        Ok((src.dims().clone(), src.data_type()))
    }

    fn is_elementwise(&self) -> bool {
        true
    }

    /// The statistics are given.
    fn is_result(&self, arg: Arg) -> bool {
        matches!(arg, Arg::Dst(_))
    }

    fn error_growth(&self, _desc: &PrimitiveDesc) -> ErrorGrowth {
        ErrorGrowth { cancels: true, ..ErrorGrowth::default() }
    }
}

impl GroupNormalization {
    /// Normalisation over `groups` groups of channels.
    pub const fn new(groups: usize, epsilon: f32) -> Self {
        Self { groups, epsilon }
    }
}

impl Operation for GroupNormalization {
    fn name(&self) -> &'static str {
        "group_normalization"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let name = self.name();
        let operands =
            operands.only(name, &[Arg::SRC], &[Arg::Scale, Arg::Shift, Arg::Mean, Arg::Variance])?;
        let src = operands.required(Arg::SRC)?;
        expect_float(name, Arg::SRC, src)?;
        expect_channel_vectors(name, operands, &[Arg::Scale, Arg::Shift])?;
        let channels = src.dims()[1];
        // No channels are a multiple of any number.
        if self.groups == 0 || self.groups > channels.max(1) || !channels.is_multiple_of(self.groups) {
            return Err(shape_error(
                name,
                "groups",
                self.groups.to_string(),
                format!("a divisor of {channels} channels"),
            ));
        }
        for arg in [Arg::Mean, Arg::Variance] {
            if let Some(desc) = operands.find(arg) {
                expect_dims(name, arg, desc, &[src.dims()[0], self.groups])?;
            }
        }
        Ok((src.dims().clone(), src.data_type()))
    }

    fn error_growth(&self, desc: &PrimitiveDesc) -> ErrorGrowth {
        ErrorGrowth::of_sum(desc.src().dims()[1..].iter().product::<usize>() / self.groups.max(1))
    }

    /// The reference looks at each element for each group.
    fn visits(&self, desc: &PrimitiveDesc) -> usize {
        self.error_growth(desc).terms.max(desc.src().dims()[0] * self.groups)
    }
}

fn expect_channel_vectors(name: &str, operands: &Operands, args: &[Arg]) -> Result<()> {
    let src = operands.required(Arg::SRC)?;
    if src.rank() < 2 {
        return Err(shape_error(name, "rank of src", src.rank().to_string(), "at least 2 ([N, C, ..])"));
    }
    for &arg in args {
        if let Some(desc) = operands.find(arg) {
            expect_dims(name, arg, desc, &src.dims()[1..2])?;
        }
    }
    Ok(())
}
