//! One value on the host.

use std::fmt;

use half::{bf16, f16};

use crate::data_type::DataType;
use crate::error::{Error, Result};
use crate::memory_desc::MemoryDesc;

/// One value on the host with its data type, as an argument that needs no device memory.
///
/// ```
/// use anydnn_backend::{DataType, HostScalar};
/// let mut scale = HostScalar::new(0.5_f32);
/// assert_eq!((scale.data_type(), scale.as_f64()), (DataType::F32, 0.5));
/// scale.set(2.0_f32).unwrap();
/// assert!(scale.set(2_i32).is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HostScalar {
    data_type: DataType,
    /// In the host's byte order, from the first byte on; the rest is zero.
    bytes: [u8; 8],
}

impl HostScalar {
    /// A value of a type that Rust has.
    pub fn new(value: impl Into<Self>) -> Self {
        value.into()
    }

    /// A value of any type from its bytes in the host's order. A 4-bit type takes a byte, of which the upper half is dropped.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there are more or fewer bytes than the type has; [`Error::Unsupported`] for a
    /// [type that no primitive takes](DataType::HOST_ONLY).
    pub fn from_bytes(data_type: DataType, bytes: &[u8]) -> Result<Self> {
        if data_type.is_host_only() {
            return Err(Error::unsupported(format!("host scalar of {data_type}"), "no primitive takes it"));
        }
        let expected = data_type.bytes_for(1);
        if bytes.len() != expected {
            return Err(Error::invalid(
                "host scalar",
                "value",
                format!("{} bytes", bytes.len()),
                format!("{expected} for {data_type}"),
            ));
        }
        let mut scalar = Self { data_type, bytes: [0; 8] };
        scalar.bytes[..expected].copy_from_slice(bytes);
        if data_type.bits() == 4 {
            scalar.bytes[0] &= 0xf;
        }
        Ok(scalar)
    }

    /// The value's type.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// The value's bytes in the host's order.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.data_type.bytes_for(1)]
    }

    /// The value, rounded where it is an integer beyond 2^53.
    pub fn as_f64(&self) -> f64 {
        self.data_type.read_at(&self.bytes, 0)
    }

    /// Replaces the value by another one of the same type.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the type differs.
    pub fn set(&mut self, value: impl Into<Self>) -> Result<()> {
        let value = value.into();
        if value.data_type != self.data_type {
            let (given, expected) = (value.data_type.name(), self.data_type.name());
            return Err(Error::invalid("host scalar", "type", given, expected));
        }
        *self = value;
        Ok(())
    }

    /// The descriptor of the value: no dimensions, one element.
    pub fn desc(&self) -> MemoryDesc {
        MemoryDesc::new([], self.data_type)
    }
}

macro_rules! from {
    ($($rust:ty => $data_type:ident),* $(,)?) => {$(
        impl From<$rust> for HostScalar {
            fn from(value: $rust) -> Self {
                let mut bytes = [0; 8];
                bytes[..size_of::<$rust>()].copy_from_slice(&value.to_ne_bytes());
                Self { data_type: DataType::$data_type, bytes }
            }
        }
    )*};
}

from! { f32 => F32, f64 => F64, f16 => F16, bf16 => BF16, i32 => S32, i64 => S64, i8 => S8, u8 => U8 }

impl From<bool> for HostScalar {
    fn from(value: bool) -> Self {
        Self { data_type: DataType::Boolean, ..u8::from(value).into() }
    }
}

impl fmt::Debug for HostScalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.data_type, self.as_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_round_trips_through_its_bytes() {
        for data_type in DataType::ALL {
            let mut bytes = [0x9a; 8];
            bytes[1..].copy_from_slice(&[0x12, 0x34, 0x40, 1, 2, 3, 0x40]);
            let bytes = &bytes[..data_type.bytes_for(1)];
            let scalar = HostScalar::from_bytes(data_type, bytes).unwrap();
            let kept: &[u8] = if data_type.bits() == 4 { &[0xa] } else { bytes };
            assert_eq!((scalar.data_type(), scalar.bytes()), (data_type, kept));
            assert_eq!(scalar.desc().size(), bytes.len());
            assert!(HostScalar::from_bytes(data_type, &[0; 9]).is_err());
            assert!(HostScalar::from_bytes(data_type, &[]).is_err());
        }
    }

    #[test]
    #[allow(clippy::float_cmp, reason = "all values are exact")]
    fn values_are_read_as_their_type() {
        let rust: [HostScalar; 9] = [
            (-1.5_f32).into(),
            (-1.5_f64).into(),
            f16::from_f32(-1.5).into(),
            bf16::from_f32(-1.5).into(),
            (-7_i32).into(),
            (-7_i64).into(),
            (-7_i8).into(),
            249_u8.into(),
            true.into(),
        ];
        let values = rust.map(|scalar| scalar.as_f64());
        assert_eq!(values, [-1.5, -1.5, -1.5, -1.5, -7.0, -7.0, -7.0, 249.0, 1.0]);
        let byte = |data_type, byte| HostScalar::from_bytes(data_type, &[byte]).unwrap().as_f64();
        assert_eq!([byte(DataType::S4, 0xf9), byte(DataType::S4, 0x17)], [-7.0, 7.0]);
        assert_eq!([byte(DataType::U4, 0xf9), byte(DataType::Boolean, 1)], [9.0, 1.0]);
        assert_eq!([byte(DataType::F8E4M3, 0x7e), byte(DataType::F8E4M3, 0x81)], [448.0, -(2_f64.powi(-9))]);
        assert_eq!(
            [byte(DataType::F8E5M2, 0x7b), byte(DataType::F8E5M2, 0xfc)],
            [57344.0, f64::NEG_INFINITY]
        );
        assert!(byte(DataType::F8E4M3, 0xff).is_nan());
    }

    #[test]
    fn setting_keeps_the_type() {
        let mut scalar = HostScalar::new(1_i32);
        let error = scalar.set(1.0_f32).unwrap_err().to_string();
        assert!(error.contains("f32") && error.contains("s32"), "{error}");
        scalar.set(-3_i32).unwrap();
        assert_eq!(format!("{scalar:?}"), "s32:-3");
    }
}
