//! What an instruction of a unit multiplies.

use anydnn_backend::{DataType, FpMath};

/// What one instruction adds to the sums `[m, n]`: the product of `A[m, k]` and `B[k, n]`.
#[derive(Debug)]
pub(crate) struct Instruction {
    pub(crate) factor: Multiplicand,
    pub(crate) sum: DataType,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
}

/// The type of an instruction's factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Multiplicand {
    /// Bytes, signed or not.
    Bytes,
    /// Bytes that become words of 16 bits first.
    Words,
    /// Floats of eight bits, of either kind.
    F8,
    F16,
    BF16,
    /// f32 with the precision of f16.
    Tf32,
    /// What arithmetic in f32 serves.
    F32,
}

impl Multiplicand {
    /// Whether elements of a type are such factors, where as much precision may be given up.
    pub(crate) fn takes(self, data_type: DataType, fpmath: FpMath) -> bool {
        match self {
            Self::Bytes | Self::Words => matches!(data_type, DataType::S8 | DataType::U8),
            Self::F8 => matches!(data_type, DataType::F8E4M3 | DataType::F8E5M2),
            Self::F16 => data_type == DataType::F16,
            Self::BF16 => data_type == DataType::BF16,
            Self::Tf32 => data_type == DataType::F32 && fpmath.allows_tf32(),
            Self::F32 => true,
        }
    }

    /// The name in instructions.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bytes => "s8",
            Self::Words => "s16",
            Self::F8 => "f8",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::Tf32 => "tf32",
            Self::F32 => "f32",
        }
    }

    /// Bytes of one.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Bytes | Self::F8 => 1,
            Self::Words | Self::F16 | Self::BF16 => 2,
            Self::Tf32 | Self::F32 => 4,
        }
    }
}
