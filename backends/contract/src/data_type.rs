//! Element types.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The type of one element of a tensor.
///
/// ```
/// use anydnn_backend::DataType;
/// assert_eq!(DataType::BF16.bits(), 16);
/// assert_eq!("f8_e4m3".parse::<DataType>().unwrap(), DataType::F8E4M3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DataType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of binary32.
    BF16,
    /// Signed 32-bit integer.
    S32,
    /// Signed 8-bit integer.
    S8,
    /// Unsigned 8-bit integer.
    U8,
    /// One byte, zero for false and one for true.
    Boolean,
    /// IEEE 754 binary64.
    F64,
    /// Signed 64-bit integer.
    S64,
    /// 8-bit float, 5 exponent and 2 mantissa bits (OCP).
    F8E5M2,
    /// 8-bit float, 4 exponent and 3 mantissa bits (OCP).
    F8E4M3,
    /// Signed 4-bit integer, two to a byte, low nibble first.
    S4,
    /// Unsigned 4-bit integer, two to a byte, low nibble first.
    U4,
    /// Signed 16-bit integer; [only in host memory](DataType::HOST_ONLY), as all that follow.
    S16,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
    /// Signed 2-bit integer, four to a byte, low bits first.
    S2,
    /// Unsigned 2-bit integer, four to a byte, low bits first.
    U2,
    /// 8-bit float, 5 exponent and 2 mantissa bits, without infinity and negative zero.
    F8E5M2Fnuz,
    /// 8-bit float, 4 exponent and 3 mantissa bits, without infinity and negative zero.
    F8E4M3Fnuz,
    /// A power of two from 2^-127 to 2^127: an exponent without sign and mantissa (OCP).
    E8M0,
    /// 4-bit float, 2 exponent and 1 mantissa bits, two to a byte, low nibble first (OCP).
    F4E2M1,
}

impl DataType {
    /// Every data type that primitives and graphs compute with, in the order of declaration.
    pub const ALL: [Self; 13] = [
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::S32,
        Self::S8,
        Self::U8,
        Self::Boolean,
        Self::F64,
        Self::S64,
        Self::F8E5M2,
        Self::F8E4M3,
        Self::S4,
        Self::U4,
    ];

    /// Data types of tensors in host memory that models hold and hosts compute with, and no primitive.
    pub const HOST_ONLY: [Self; 10] = [
        Self::S16,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::S2,
        Self::U2,
        Self::F8E5M2Fnuz,
        Self::F8E4M3Fnuz,
        Self::E8M0,
        Self::F4E2M1,
    ];

    /// Whether the type is one of [`DataType::HOST_ONLY`].
    pub const fn is_host_only(self) -> bool {
        matches!(
            self,
            Self::S16
                | Self::U16
                | Self::U32
                | Self::U64
                | Self::S2
                | Self::U2
                | Self::F8E5M2Fnuz
                | Self::F8E4M3Fnuz
                | Self::E8M0
                | Self::F4E2M1
        )
    }

    /// The size of an element in bits.
    pub const fn bits(self) -> usize {
        match self {
            Self::F64 | Self::S64 | Self::U64 => 64,
            Self::F32 | Self::S32 | Self::U32 => 32,
            Self::F16 | Self::BF16 | Self::S16 | Self::U16 => 16,
            Self::S4 | Self::U4 | Self::F4E2M1 => 4,
            Self::S2 | Self::U2 => 2,
            Self::S8
            | Self::U8
            | Self::Boolean
            | Self::F8E5M2
            | Self::F8E4M3
            | Self::F8E5M2Fnuz
            | Self::F8E4M3Fnuz
            | Self::E8M0 => 8,
        }
    }

    /// The bytes that `elements` consecutive elements take, rounded up to a whole byte; at most `usize::MAX`.
    pub const fn bytes_for(self, elements: usize) -> usize {
        let bytes = (elements as u128 * self.bits() as u128).div_ceil(8);
        if bytes > usize::MAX as u128 { usize::MAX } else { bytes as usize }
    }

    /// Whether the type is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::BF16 | Self::F64 | Self::F8E5M2 | Self::F8E4M3)
            || matches!(self, Self::F8E5M2Fnuz | Self::F8E4M3Fnuz | Self::E8M0 | Self::F4E2M1)
    }

    /// Whether the type is an integer type; [`DataType::Boolean`] is not.
    pub const fn is_integer(self) -> bool {
        matches!(self, Self::S32 | Self::S8 | Self::U8 | Self::S64 | Self::S4 | Self::U4)
            || matches!(self, Self::S16 | Self::U16 | Self::U32 | Self::U64 | Self::S2 | Self::U2)
    }

    /// The name that graph JSON and the command line use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::S32 => "s32",
            Self::S8 => "s8",
            Self::U8 => "u8",
            Self::Boolean => "boolean",
            Self::F64 => "f64",
            Self::S64 => "s64",
            Self::F8E5M2 => "f8_e5m2",
            Self::F8E4M3 => "f8_e4m3",
            Self::S4 => "s4",
            Self::U4 => "u4",
            Self::S16 => "s16",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::S2 => "s2",
            Self::U2 => "u2",
            Self::F8E5M2Fnuz => "f8_e5m2fnuz",
            Self::F8E4M3Fnuz => "f8_e4m3fnuz",
            Self::E8M0 => "e8m0",
            Self::F4E2M1 => "f4_e2m1",
        }
    }

    /// Unit roundoff of a floating-point type (half the distance from one to the next value), zero for the others.
    pub const fn unit_roundoff(self) -> f64 {
        match self {
            Self::F64 => 1.110_223_024_625_156_5e-16,
            Self::F32 => 5.960_464_477_539_063e-8,
            Self::F16 => 4.882_812_5e-4,
            Self::BF16 => 3.906_25e-3,
            Self::F8E5M2 | Self::F8E5M2Fnuz => 0.125,
            Self::F8E4M3 | Self::F8E4M3Fnuz => 0.0625,
            Self::F4E2M1 => 0.25,
            Self::E8M0 => 0.5,
            _ => 0.0,
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DataType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|t| t.name() == text).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|t| t.name()).collect();
            Error::invalid("data type", "name", format!("{text:?}"), format!("one of {}", known.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for data_type in DataType::ALL {
            assert_eq!(data_type.name().parse::<DataType>().unwrap(), data_type);
            assert!(!data_type.is_host_only());
        }
    }

    #[test]
    fn no_primitive_takes_types_of_the_host() {
        for data_type in DataType::HOST_ONLY {
            assert!(data_type.is_host_only() && !DataType::ALL.contains(&data_type));
            assert!(data_type.is_float() != data_type.is_integer());
            assert!(data_type.name().parse::<DataType>().is_err());
            assert!(crate::HostScalar::from_bytes(data_type, &[0; 8][..data_type.bytes_for(1)]).is_err());
        }
    }

    #[test]
    fn unknown_name_lists_the_known_ones() {
        let error = "f31".parse::<DataType>().unwrap_err().to_string();
        assert!(error.contains("\"f31\"") && error.contains("bf16"), "{error}");
    }

    #[test]
    fn sub_byte_types_round_up() {
        assert_eq!(DataType::S4.bytes_for(3), 2);
        assert_eq!(DataType::U2.bytes_for(5), 2);
        assert_eq!(DataType::F64.bytes_for(1 << 61), usize::MAX);
        assert_eq!(DataType::S8.bytes_for(usize::MAX), usize::MAX);
    }
}
