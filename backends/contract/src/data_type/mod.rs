//! Element types.

mod elements;
mod table;

use std::fmt;
use std::str::FromStr;

pub use table::DataType;

use crate::error::{Error, Result};
use crate::minifloat::MiniFloat;

/// What the bits of an element mean.
#[derive(Clone, Copy, Debug)]
enum Format {
    /// IEEE 754 binary64, binary32, binary16, and the upper half of binary32.
    Double,
    Single,
    Half,
    Brain,
    /// A smaller float.
    Mini(MiniFloat),
    /// An exponent without sign and mantissa; all ones are NaN.
    Exponent,
    /// Two's complement.
    Signed,
    Unsigned,
    /// Zero for false.
    Boolean,
}

impl Format {
    /// The bits of a float's mantissa, and the exponent of its least normal number.
    const fn float(self) -> Option<(i32, i32)> {
        match self {
            Self::Double => Some((52, -1022)),
            Self::Single => Some((23, -126)),
            Self::Half => Some((10, -14)),
            Self::Brain => Some((7, -126)),
            Self::Mini(format) => Some((format.mantissa_bits() as i32, format.least_exponent())),
            Self::Exponent => Some((0, -127)),
            Self::Signed | Self::Unsigned | Self::Boolean => None,
        }
    }
}

impl DataType {
    /// The bytes that `elements` consecutive elements take, rounded up to a whole byte; at most `usize::MAX`.
    pub const fn bytes_for(self, elements: usize) -> usize {
        let bytes = (elements as u128 * self.bits() as u128).div_ceil(8);
        if bytes > usize::MAX as u128 { usize::MAX } else { bytes as usize }
    }

    /// Whether the type is a floating-point type.
    pub const fn is_float(self) -> bool {
        self.format().float().is_some()
    }

    /// Whether the type is an integer type; [`DataType::Boolean`] is not.
    pub const fn is_integer(self) -> bool {
        matches!(self.format(), Format::Signed | Format::Unsigned)
    }

    /// Unit roundoff of a floating-point type (half the distance from one to the next value), zero for the others.
    pub const fn unit_roundoff(self) -> f64 {
        match self.format().float() {
            Some((mantissa, _)) => power_of_two(-mantissa - 1),
            None => 0.0,
        }
    }

    /// The least positive normal number of a floating-point type, zero for the others.
    pub const fn least_normal(self) -> f64 {
        match self.format().float() {
            Some((_, exponent)) => power_of_two(exponent),
            None => 0.0,
        }
    }

    /// The greatest finite number of a float of at most 8 bits, none for the others.
    pub fn greatest_of_mini(self) -> Option<f64> {
        match self.format() {
            Format::Mini(format) => Some(format.decode(format.greatest())),
            _ => None,
        }
    }
}

/// `2^exponent` of a normal number.
const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
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

    #[test]
    #[allow(clippy::float_cmp, reason = "powers of two are exact")]
    fn floats_know_their_precision_and_range() {
        let of = |data_type: DataType| (data_type.unit_roundoff(), data_type.least_normal());
        assert_eq!(of(DataType::F64), (f64::EPSILON / 2.0, f64::MIN_POSITIVE));
        assert_eq!(of(DataType::F32), (f64::from(f32::EPSILON) / 2.0, f64::from(f32::MIN_POSITIVE)));
        assert_eq!(of(DataType::F16), (f64::exp2(-11.0), f64::exp2(-14.0)));
        assert_eq!(of(DataType::BF16), (f64::exp2(-8.0), f64::from(f32::MIN_POSITIVE)));
        assert_eq!(of(DataType::F8E5M2), (0.125, f64::exp2(-14.0)));
        assert_eq!(of(DataType::F8E4M3), (0.0625, f64::exp2(-6.0)));
        assert_eq!(of(DataType::F4E2M1), (0.25, 1.0));
        assert_eq!(of(DataType::E8M0).0, 0.5);
        assert_eq!(of(DataType::S8), (0.0, 0.0));
        assert_eq!(DataType::F8E4M3.greatest_of_mini(), Some(448.0));
        assert_eq!(DataType::F8E5M2Fnuz.greatest_of_mini(), Some(57344.0));
        assert_eq!(DataType::F16.greatest_of_mini(), None);
    }
}
