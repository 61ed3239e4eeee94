//! The element types that memory may hold: the one place where they are converted.

use anydnn_backend::{DataType, Error, Result};
use bytemuck::{Pod, Zeroable};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::element::Element;

/// The data types that this backend stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    F32,
    F16,
    BF16,
    F64,
    S64,
    S32,
    S8,
    U8,
    Boolean,
}

impl Kind {
    /// Every data type that this backend stores.
    pub(crate) const DATA_TYPES: [DataType; 9] = [
        DataType::F32,
        DataType::F16,
        DataType::BF16,
        DataType::F64,
        DataType::S64,
        DataType::S32,
        DataType::S8,
        DataType::U8,
        DataType::Boolean,
    ];

    pub(crate) fn of(data_type: DataType) -> Result<Self> {
        Ok(match data_type {
            DataType::F32 => Self::F32,
            DataType::F16 => Self::F16,
            DataType::BF16 => Self::BF16,
            DataType::F64 => Self::F64,
            DataType::S64 => Self::S64,
            DataType::S32 => Self::S32,
            DataType::S8 => Self::S8,
            DataType::U8 => Self::U8,
            DataType::Boolean => Self::Boolean,
            other => {
                return Err(Error::unsupported(
                    format!("data type {other} on the host"),
                    "the host backend has no conversion for it; reorder to s8, u8 or bf16",
                ));
            }
        })
    }

    /// Bytes of one element.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::F64 | Self::S64 => 8,
            Self::F32 | Self::S32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::S8 | Self::U8 | Self::Boolean => 1,
        }
    }
}

/// Evaluates an expression with `$storage` standing for the storage type of a [`Kind`].
macro_rules! with_storage {
    ($kind:expr, $storage:ident => $body:expr) => {{
        use $crate::compute::storage::{Bool, Kind};
        match $kind {
            Kind::F32 => {
                type $storage = f32;
                $body
            }
            Kind::F16 => {
                type $storage = half::f16;
                $body
            }
            Kind::BF16 => {
                type $storage = half::bf16;
                $body
            }
            Kind::F64 => {
                type $storage = f64;
                $body
            }
            Kind::S64 => {
                type $storage = i64;
                $body
            }
            Kind::S32 => {
                type $storage = i32;
                $body
            }
            Kind::S8 => {
                type $storage = i8;
                $body
            }
            Kind::U8 => {
                type $storage = u8;
                $body
            }
            Kind::Boolean => {
                type $storage = Bool;
                $body
            }
        }
    }};
}
pub(crate) use with_storage;

/// An element as memory holds it. Bytes may lie at any address.
pub(crate) trait Storage: Pod {
    const BYTES: usize = size_of::<Self>();

    fn get<T: Element>(self) -> T;
    fn put<T: Element>(value: T) -> Self;

    /// The element in exactly [`Storage::BYTES`] bytes.
    fn read(bytes: &[u8]) -> Self {
        bytemuck::pod_read_unaligned(bytes)
    }

    fn write(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(bytemuck::bytes_of(&self));
    }

    /// Converts neighbours in memory.
    fn read_run<T: Element>(bytes: &[u8], values: &mut [T]) {
        for (value, bytes) in values.iter_mut().zip(bytes.chunks_exact(Self::BYTES)) {
            *value = Self::read(bytes).get();
        }
    }

    /// Converts to neighbours in memory.
    fn write_run<T: Element>(values: &[T], bytes: &mut [u8]) {
        for (value, bytes) in values.iter().zip(bytes.chunks_exact_mut(Self::BYTES)) {
            Self::put(*value).write(bytes);
        }
    }
}

/// Converts neighbours in memory of a type known at run time.
pub(crate) fn read_run<T: Element>(kind: Kind, bytes: &[u8], values: &mut [T]) {
    with_storage!(kind, S => S::read_run(bytes, values));
}

/// Converts to neighbours in memory of a type known at run time.
pub(crate) fn write_run<T: Element>(kind: Kind, values: &[T], bytes: &mut [u8]) {
    with_storage!(kind, S => S::write_run(values, bytes));
}

/// A truth value in a byte.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub(crate) struct Bool(u8);

impl Storage for Bool {
    fn get<T: Element>(self) -> T {
        T::from_i32(i32::from(self.0 != 0))
    }

    fn put<T: Element>(value: T) -> Self {
        Self(u8::from(value.is_nonzero()))
    }
}

impl Storage for f32 {
    fn get<T: Element>(self) -> T {
        T::from_f32(self)
    }

    fn put<T: Element>(value: T) -> Self {
        value.to_f32()
    }
}

impl Storage for f64 {
    fn get<T: Element>(self) -> T {
        T::from_f64(self)
    }

    fn put<T: Element>(value: T) -> Self {
        value.to_f64()
    }
}

impl Storage for i64 {
    fn get<T: Element>(self) -> T {
        T::from_i64(self)
    }

    fn put<T: Element>(value: T) -> Self {
        value.to_i64()
    }
}

impl Storage for i32 {
    fn get<T: Element>(self) -> T {
        T::from_i32(self)
    }

    fn put<T: Element>(value: T) -> Self {
        value.to_i32()
    }
}

impl Storage for i8 {
    fn get<T: Element>(self) -> T {
        T::from_i32(i32::from(self))
    }

    fn put<T: Element>(value: T) -> Self {
        value.to_i32().clamp(i32::from(Self::MIN), i32::from(Self::MAX)) as Self
    }
}

impl Storage for u8 {
    fn get<T: Element>(self) -> T {
        T::from_i32(i32::from(self))
    }

    fn put<T: Element>(value: T) -> Self {
        value.to_i32().clamp(0, i32::from(Self::MAX)) as Self
    }
}

/// Whole runs of the 16-bit floats convert with vector instructions where both sides are aligned.
macro_rules! impl_half {
    ($half:ty) => {
        impl Storage for $half {
            fn get<T: Element>(self) -> T {
                T::from_f32(self.to_f32())
            }

            fn put<T: Element>(value: T) -> Self {
                Self::from_f32(value.to_f32_for_narrowing())
            }

            fn read_run<T: Element>(bytes: &[u8], values: &mut [T]) {
                if T::DATA_TYPE == DataType::F32
                    && let Ok(halves) = bytemuck::try_cast_slice::<u8, Self>(bytes)
                    && let Ok(values) = bytemuck::try_cast_slice_mut::<T, f32>(values)
                {
                    return halves.convert_to_f32_slice(values);
                }
                for (value, bytes) in values.iter_mut().zip(bytes.chunks_exact(Self::BYTES)) {
                    *value = Self::read(bytes).get();
                }
            }

            fn write_run<T: Element>(values: &[T], bytes: &mut [u8]) {
                if T::DATA_TYPE == DataType::F32
                    && let Ok(values) = bytemuck::try_cast_slice::<T, f32>(values)
                    && let Ok(halves) = bytemuck::try_cast_slice_mut::<u8, Self>(bytes)
                {
                    return halves.convert_from_f32_slice(values);
                }
                for (value, bytes) in values.iter().zip(bytes.chunks_exact_mut(Self::BYTES)) {
                    Self::put(*value).write(bytes);
                }
            }
        }
    };
}

impl_half!(f16);
impl_half!(bf16);

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(data_type: DataType, values: &[f32]) -> Vec<f32> {
        let kind = Kind::of(data_type).unwrap();
        let mut bytes = vec![0; values.len() * kind.bytes() + 1];
        // An odd address, where nothing but bytes is aligned.
        write_run(kind, values, &mut bytes[1..]);
        let mut back = vec![0.0; values.len()];
        read_run(kind, &bytes[1..], &mut back);
        let mut aligned = vec![0_u64; values.len()];
        let aligned = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut aligned)[..values.len() * kind.bytes()];
        write_run(kind, values, aligned);
        assert_eq!(aligned, &bytes[1..], "{data_type}");
        back
    }

    #[test]
    fn every_kind_is_named_once() {
        for data_type in Kind::DATA_TYPES {
            assert_eq!(Kind::of(data_type).unwrap().bytes() * 8, data_type.bits(), "{data_type}");
        }
        assert!(matches!(Kind::of(DataType::S4), Err(Error::Unsupported { .. })));
    }

    #[test]
    fn values_convert_as_the_type_says() {
        let values = [1.0, -2.5, 300.0, 0.1, -0.4];
        assert_eq!(round_trip(DataType::F32, &values), values);
        assert_eq!(round_trip(DataType::S8, &values), [1.0, -2.0, 127.0, 0.0, 0.0]);
        assert_eq!(round_trip(DataType::U8, &values), [1.0, 0.0, 255.0, 0.0, 0.0]);
        assert_eq!(round_trip(DataType::Boolean, &[0.0, -0.0, 0.5, f32::NAN]), [0.0, 0.0, 1.0, 1.0]);
        // 0.1 in bf16 is 0x3dcd, in f16 0x2e66.
        assert_eq!(round_trip(DataType::BF16, &values)[3], f32::from_bits(0x3dcd_0000));
        assert_eq!(round_trip(DataType::F16, &values)[3], 0.099_975_586);
        assert!(round_trip(DataType::F16, &[1e6])[0].is_infinite());
        assert!(round_trip(DataType::BF16, &[f32::NAN])[0].is_nan());
    }
}
