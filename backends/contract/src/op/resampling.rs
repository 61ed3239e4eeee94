use super::{ErrorGrowth, Operation, shape_error};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::op::primitive_desc::{Operands, PrimitiveDesc};

/// How positions between elements are filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResamplingAlgorithm {
    /// The nearest element, the later one of two that are equally near.
    Nearest,
    /// Linear along each spatial dimension, clamped at the borders.
    Linear,
}

/// Resampling of the spatial dimensions of `src` `[N, C, spatial..]` (one to three) to those of the result, which must be given.
///
/// Index `x` of `X` results lies at the source's position `(x + 1/2) * S / X - 1/2`, or with aligned corners at
/// `x * (S - 1) / (X - 1)` (zero where `X` is one), `S` the source's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resampling {
    /// Nearest or linear.
    pub algorithm: ResamplingAlgorithm,
    /// Whether the first and last elements of both tensors lie on each other.
    pub align_corners: bool,
}

/// The gradient of a [`Resampling`] for its source: `src0` is the gradient of its result, the result `[N, C, spatial..]` like the
/// source must be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResamplingBackward {
    /// The resampling.
    pub resampling: Resampling,
}

impl Resampling {
    /// Resampling with half-pixel centres.
    pub const fn new(algorithm: ResamplingAlgorithm) -> Self {
        Self { algorithm, align_corners: false }
    }

    /// With the first and last elements of both tensors on each other.
    pub const fn with_align_corners(mut self, align_corners: bool) -> Self {
        self.align_corners = align_corners;
        self
    }

    /// The source's position of index `x` of `to` results over `from` elements.
    pub fn position(self, x: usize, from: usize, to: usize) -> f64 {
        let (x, from, to) = (x as f64, from as f64, to as f64);
        match (self.align_corners, to > 1.0) {
            (true, true) => x * (from - 1.0) / (to - 1.0),
            (true, false) => 0.0,
            (false, _) => (x + 0.5) * from / to - 0.5,
        }
    }
}

impl Operation for Resampling {
    fn name(&self) -> &'static str {
        "resampling"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        infer(self.name(), operands)
    }

    fn error_growth(&self, desc: &PrimitiveDesc) -> ErrorGrowth {
        match self.algorithm {
            ResamplingAlgorithm::Linear => ErrorGrowth::of_sum(1 << (desc.src().rank() - 2)),
            ResamplingAlgorithm::Nearest => ErrorGrowth::default(),
        }
    }

    fn is_exact(&self, _result: Arg) -> bool {
        self.algorithm == ResamplingAlgorithm::Nearest
    }
}

impl ResamplingBackward {
    /// The gradient of a resampling.
    pub const fn new(resampling: Resampling) -> Self {
        Self { resampling }
    }
}

impl Operation for ResamplingBackward {
    fn name(&self) -> &'static str {
        "resampling_backward"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        infer(self.name(), operands)
    }

    /// Results within less than one element on either side of an element take part of it.
    fn error_growth(&self, desc: &PrimitiveDesc) -> ErrorGrowth {
        let (src, dst) = (&desc.src().dims()[2..], &desc.dst().dims()[2..]);
        let takers = src.iter().zip(dst).map(|(x, s)| (2 * x).div_ceil((*s).max(1)) + 1);
        ErrorGrowth::of_sum(takers.product())
    }
}

fn infer(name: &str, operands: &Operands) -> Result<(Dims, DataType)> {
    let operands = operands.only(name, &[Arg::SRC], &[])?;
    let src = operands.required(Arg::SRC)?;
    let Some(dst) = operands.dst() else {
        return Err(shape_error(name, "dst", "missing", "a descriptor with the wanted spatial dimensions"));
    };
    let (s, d) = (src.dims(), dst.dims());
    let empty = s.contains(&0) != d.contains(&0);
    if !(3..=5).contains(&s.len()) || d.len() != s.len() || s[..2] != d[..2] || empty {
        let expected = "[N, C, spatial..] of rank 3 to 5, equal but for the sizes of the spatial dimensions";
        return Err(shape_error(name, "dimensions of src and dst", format!("{s} and {d}"), expected));
    }
    Ok((d.clone(), src.data_type()))
}
