//! The arguments of a primitive and how it touches them.

use std::fmt;

/// One argument of a primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Arg {
    /// The `i`-th source.
    Src(u16),
    /// Weights of a matmul or convolution.
    Weights,
    /// A bias along the channels (the last dimension of a matmul, dimension 1 of a convolution).
    Bias,
    /// Means of a normalisation.
    Mean,
    /// Variances of a normalisation.
    Variance,
    /// The factor of a normalisation (gamma).
    Scale,
    /// The summand of a normalisation (beta).
    Shift,
    /// The second operand of the `i`-th post-operation.
    PostOp(u16),
    /// The third operand of the `i`-th post-operation.
    PostOpOther(u16),
    /// The scales that dequantise an operand.
    ScaleOf(Quantized),
    /// The zero points that dequantise an operand.
    ZeroPointOf(Quantized),
    /// The `i`-th result.
    Dst(u16),
    /// Working memory of [`Primitive::scratchpad_size`](crate::Primitive::scratchpad_size) bytes.
    Scratchpad,
}

/// An operand that may be dequantised as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Quantized {
    /// The `i`-th source.
    Src(u16),
    /// The weights.
    Weights,
}

impl Quantized {
    /// The operand.
    pub const fn arg(self) -> Arg {
        match self {
            Self::Src(i) => Arg::Src(i),
            Self::Weights => Arg::Weights,
        }
    }
}

impl Arg {
    /// The first source.
    pub const SRC: Self = Self::Src(0);
    /// The first result.
    pub const DST: Self = Self::Dst(0);
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Src(i) => write!(f, "src{i}"),
            Self::Weights => f.write_str("weights"),
            Self::Bias => f.write_str("bias"),
            Self::Mean => f.write_str("mean"),
            Self::Variance => f.write_str("variance"),
            Self::Scale => f.write_str("scale"),
            Self::Shift => f.write_str("shift"),
            Self::PostOp(i) => write!(f, "post_op{i}"),
            Self::PostOpOther(i) => write!(f, "post_op{i}_other"),
            Self::ScaleOf(of) => write!(f, "scale_of_{}", of.arg()),
            Self::ZeroPointOf(of) => write!(f, "zero_point_of_{}", of.arg()),
            Self::Dst(i) => write!(f, "dst{i}"),
            Self::Scratchpad => f.write_str("scratchpad"),
        }
    }
}

/// How a primitive touches an argument. Dependency trackers and race checks work from this declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Only read.
    Read,
    /// Every byte of every element is overwritten; what was there does not matter.
    Write,
    /// Read, then written.
    ReadWrite,
}

impl Access {
    /// Whether the old content matters.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::ReadWrite)
    }

    /// Whether the content changes.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::ReadWrite)
    }

    /// Whether two accesses to the same bytes must be ordered.
    pub const fn conflicts(self, other: Self) -> bool {
        self.writes() || other.writes()
    }
}
