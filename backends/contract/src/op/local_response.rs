use super::{ErrorGrowth, Operation, expect_dims, expect_float, shape_error};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::{Error, Result};
use crate::memory_desc::MemoryDesc;
use crate::op::primitive_desc::{Operands, PrimitiveDesc};

/// Local response normalisation of `src` `[N, C, spatial..]`: each element is multiplied by `(k + alpha / count * sum)^-beta`, the sum of
/// squares being over a window around it (Krizhevsky, Sutskever and Hinton, 2012, 3.3). What lies outside of the source counts as zero.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalResponseNormalization {
    /// The window's elements before the middle, for the channels and each spatial dimension.
    pub before: Dims,
    /// Those behind the middle.
    pub after: Dims,
    /// What the sum is divided by: the elements of a whole window as a rule.
    pub count: usize,
    /// The factor of the mean.
    pub alpha: f32,
    /// The power, negated.
    pub beta: f32,
    /// What is added to the mean.
    pub k: f32,
}

/// The gradient of a [`LocalResponseNormalization`] for its source. `src0` is the gradient of its result, `src1` its source; all have the
/// same dimensions.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalResponseNormalizationBackward {
    /// The normalisation.
    pub forward: LocalResponseNormalization,
}

impl LocalResponseNormalization {
    /// Over `size` channels, the middle one first where their number is even, for `spatial` dimensions behind the channels.
    pub fn across_channels(size: usize, spatial: usize) -> Self {
        let widths: Dims = std::iter::once(size).chain(std::iter::repeat_n(1, spatial)).collect();
        Self::over(&widths)
    }

    /// Over `size` elements along each of `spatial` dimensions, in one channel.
    pub fn within_channel(size: usize, spatial: usize) -> Self {
        let widths: Dims = std::iter::once(1).chain(std::iter::repeat_n(size, spatial)).collect();
        Self::over(&widths)
    }

    /// With a window's elements before and behind the middle, for the channels and each spatial dimension.
    pub fn with_window(mut self, before: impl Into<Dims>, after: impl Into<Dims>) -> Self {
        (self.before, self.after) = (before.into(), after.into());
        self
    }

    /// With another number that the sum is divided by.
    pub fn with_count(mut self, count: usize) -> Self {
        self.count = count;
        self
    }

    /// With other factors.
    pub fn with_factors(mut self, alpha: f32, beta: f32, k: f32) -> Self {
        (self.alpha, self.beta, self.k) = (alpha, beta, k);
        self
    }

    /// The window's first element and the one behind its last, around `at` in a dimension of `size` elements; `axis` counts from the
    /// channels.
    pub fn window(&self, axis: usize, at: usize, size: usize) -> std::ops::Range<usize> {
        at.saturating_sub(self.before[axis])..at.saturating_add(self.after[axis]).saturating_add(1).min(size)
    }

    fn over(widths: &[usize]) -> Self {
        Self {
            before: widths.iter().map(|width| width.saturating_sub(1) / 2).collect(),
            after: widths.iter().map(|width| width / 2).collect(),
            count: widths.iter().fold(1, |count: usize, &width| count.saturating_mul(width)).max(1),
            alpha: 1e-4,
            beta: 0.75,
            k: 1.0,
        }
    }

    fn check(&self, name: &str, src: &MemoryDesc) -> Result<()> {
        let rank = src.rank();
        if !(2..=5).contains(&rank) {
            return Err(shape_error(name, "rank of src", rank.to_string(), "2 to 5 ([N, C, spatial..])"));
        }
        for (subject, entries) in [("before", &self.before), ("after", &self.after)] {
            if entries.len() != rank - 1 {
                let expected = format!("{}, one for the channels and each spatial dimension", rank - 1);
                return Err(shape_error(name, subject, format!("{} numbers", entries.len()), expected));
            }
        }
        if self.count == 0 {
            return Err(Error::invalid(name, "count", "0", "a positive number"));
        }
        Ok(())
    }

    /// The elements of the largest window in a source.
    fn elements(&self, desc: &PrimitiveDesc) -> usize {
        let dims = desc.src().dims();
        let widths = dims[1..].iter().enumerate().map(|(axis, &size)| {
            self.before[axis].saturating_add(self.after[axis]).saturating_add(1).min(size).max(1)
        });
        widths.fold(1, usize::saturating_mul)
    }
}

impl LocalResponseNormalizationBackward {
    /// The gradient of a normalisation.
    pub const fn new(forward: LocalResponseNormalization) -> Self {
        Self { forward }
    }
}

impl Operation for LocalResponseNormalization {
    fn name(&self) -> &'static str {
        "local_response_normalization"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let name = self.name();
        let src = operands.only(name, &[Arg::SRC], &[])?.required(Arg::SRC)?;
        expect_float(name, Arg::SRC, src)?;
        self.check(name, src)?;
        Ok((src.dims().clone(), src.data_type()))
    }

    fn error_growth(&self, desc: &PrimitiveDesc) -> ErrorGrowth {
        // A power multiplies the relative error of what it is taken of.
        ErrorGrowth {
            functions: 2,
            sums: f64::from(self.beta).abs().max(1.0),
            ..ErrorGrowth::of_sum(self.elements(desc))
        }
    }
}

impl Operation for LocalResponseNormalizationBackward {
    fn name(&self) -> &'static str {
        "local_response_normalization_backward"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let name = self.name();
        let operands = operands.only(name, &[Arg::Src(0), Arg::Src(1)], &[])?;
        let (diff, src) = (operands.required(Arg::Src(0))?, operands.required(Arg::Src(1))?);
        expect_float(name, Arg::Src(0), diff)?;
        expect_float(name, Arg::Src(1), src)?;
        self.forward.check(name, src)?;
        expect_dims(name, Arg::Src(0), diff, src.dims())?;
        Ok((src.dims().clone(), src.data_type()))
    }

    fn error_growth(&self, desc: &PrimitiveDesc) -> ErrorGrowth {
        let terms = self.forward.elements(desc);
        ErrorGrowth {
            functions: 4,
            sums: 1.0 + f64::from(self.forward.beta).abs(),
            inner_terms: terms,
            cancels: true,
            ..ErrorGrowth::of_sum(terms)
        }
    }

    fn visits(&self, desc: &PrimitiveDesc) -> usize {
        let terms = self.forward.elements(desc);
        terms.saturating_mul(terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(dims: &[usize]) -> MemoryDesc {
        MemoryDesc::new(dims, DataType::F32)
    }

    #[test]
    fn windows_lie_around_their_middle_and_end_with_the_source() {
        let across = LocalResponseNormalization::across_channels(4, 1);
        assert_eq!(
            (across.window(0, 0, 9), across.window(0, 4, 9), across.window(0, 8, 9)),
            (0..3, 3..7, 7..9)
        );
        assert_eq!((across.window(1, 3, 9), across.count), (3..4, 4));
        assert_eq!(LocalResponseNormalization::within_channel(3, 2).count, 9);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let forward = |op: LocalResponseNormalization, dims: &[usize], data_type| {
            PrimitiveDesc::builder(op).src(MemoryDesc::new(dims, data_type)).build()
        };
        let across = || LocalResponseNormalization::across_channels(5, 2);
        assert_eq!(**forward(across(), &[2, 7, 3, 3], DataType::F32).unwrap().dst().dims(), [2, 7, 3, 3]);
        assert!(forward(LocalResponseNormalization::across_channels(5, 0), &[2, 7], DataType::F32).is_ok());
        assert!(forward(across(), &[2, 7, 3], DataType::F32).unwrap_err().to_string().contains("before"));
        assert!(forward(across(), &[2, 7, 3, 3], DataType::S8).unwrap_err().to_string().contains("floating"));
        assert!(forward(across().with_count(0), &[2, 7, 3, 3], DataType::F32).is_err());
        assert!(
            forward(LocalResponseNormalization::across_channels(5, 4), &[1, 1, 1, 1, 1, 1], DataType::F32)
                .is_err()
        );
        let backward = |diff: &[usize]| {
            let op = LocalResponseNormalizationBackward::new(across());
            PrimitiveDesc::builder(op).src(tensor(diff)).src(tensor(&[2, 7, 3, 3])).build()
        };
        assert!(backward(&[2, 7, 3, 3]).is_ok());
        assert!(backward(&[2, 7, 3, 1]).unwrap_err().to_string().contains("src0 dimensions"));
    }
}
