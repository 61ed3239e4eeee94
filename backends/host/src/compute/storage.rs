//! The element types that memory may hold: the one place where they are converted.

use std::sync::LazyLock;

use anydnn_backend::{DataType, Error, MiniFloat, Result};
use bytemuck::{Pod, Zeroable};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::element::Element;

/// Makes the enumeration of the rows' types, and `with_storage`, which evaluates an expression with `$storage` standing for the storage
/// type of a [`Kind`].
macro_rules! kinds {
    (($d:tt) $($kind:ident = $data_type:ident as $type:ty;)*) => {
        /// The data types that this backend stores.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $($kind,)*
        }

        impl Kind {
            /// Every data type that this backend stores.
            pub(crate) const DATA_TYPES: [DataType; [$(stringify!($kind)),*].len()] = [$(DataType::$data_type),*];

            pub(crate) fn of(data_type: DataType) -> Result<Self> {
                match data_type {
                    $(DataType::$data_type => Ok(Self::$kind),)*
                    other => Err(Error::unsupported(
                        format!("data type {other} on the host"),
                        "the host backend has no conversion for it; reorder to s8, u8 or bf16",
                    )),
                }
            }

            /// The data type stored.
            pub(crate) const fn data_type(self) -> DataType {
                match self {
                    $(Self::$kind => DataType::$data_type,)*
                }
            }

            /// Bits of one element.
            pub(crate) const fn bits(self) -> usize {
                self.data_type().bits()
            }
        }

        macro_rules! with_storage {
            ($d kind:expr, $d storage:ident => $d body:expr) => {{
                use $crate::compute::storage::{Bool, E2M1, E4M3, E5M2, Kind, S4, U4};
                match $d kind {
                    $(Kind::$kind => {
                        type $d storage = $type;
                        $d body
                    })*
                }
            }};
        }
    };
}

kinds! {
    ($)
    F32 = F32 as f32;
    F16 = F16 as half::f16;
    BF16 = BF16 as half::bf16;
    F64 = F64 as f64;
    S64 = S64 as i64;
    S32 = S32 as i32;
    S8 = S8 as i8;
    U8 = U8 as u8;
    Boolean = Boolean as Bool;
    E5M2 = F8E5M2 as E5M2;
    E4M3 = F8E4M3 as E4M3;
    S4 = S4 as S4;
    U4 = U4 as U4;
    E2M1 = F4E2M1 as E2M1;
}
#[allow(clippy::single_component_path_imports, reason = "other modules find the macro by this path")]
pub(crate) use with_storage;

/// An element as memory holds it. Bytes may lie at any address; positions count elements.
pub(crate) trait Storage: Copy {
    /// Bits of an element: whole bytes, or half a byte.
    const WIDTH: usize;

    fn get<T: Element>(self) -> T;
    fn put<T: Element>(value: T) -> Self;

    /// The element at a position.
    fn load(bytes: &[u8], at: usize) -> Self;

    /// Replaces the element at a position; other elements in the same byte stay.
    fn store(self, bytes: &mut [u8], at: usize);

    /// Converts the neighbours from a position on.
    fn read_run<T: Element>(bytes: &[u8], at: usize, values: &mut [T]) {
        for (i, value) in values.iter_mut().enumerate() {
            *value = Self::load(bytes, at + i).get();
        }
    }

    /// Converts to the neighbours from a position on.
    fn write_run<T: Element>(values: &[T], bytes: &mut [u8], at: usize) {
        for (i, value) in values.iter().enumerate() {
            Self::put(*value).store(bytes, at + i);
        }
    }
}

/// Converts neighbours in memory of a type known at run time.
pub(crate) fn read_run<T: Element>(kind: Kind, bytes: &[u8], values: &mut [T]) {
    with_storage!(kind, S => S::read_run(bytes, 0, values));
}

/// Converts to neighbours in memory of a type known at run time.
pub(crate) fn write_run<T: Element>(kind: Kind, values: &[T], bytes: &mut [u8]) {
    with_storage!(kind, S => S::write_run(values, bytes, 0));
}

/// The access to elements of whole bytes.
macro_rules! whole_bytes {
    () => {
        const WIDTH: usize = 8 * size_of::<Self>();

        fn load(bytes: &[u8], at: usize) -> Self {
            bytemuck::pod_read_unaligned(&bytes[at * size_of::<Self>()..][..size_of::<Self>()])
        }

        fn store(self, bytes: &mut [u8], at: usize) {
            bytes[at * size_of::<Self>()..][..size_of::<Self>()].copy_from_slice(bytemuck::bytes_of(&self));
        }
    };
}

/// Runs of whole bytes, one element after another.
macro_rules! plain_runs {
    () => {
        fn read_run<T: Element>(bytes: &[u8], at: usize, values: &mut [T]) {
            let bytes = &bytes[at * size_of::<Self>()..];
            for (value, bytes) in values.iter_mut().zip(bytes.chunks_exact(size_of::<Self>())) {
                *value = Self::load(bytes, 0).get();
            }
        }

        fn write_run<T: Element>(values: &[T], bytes: &mut [u8], at: usize) {
            let bytes = &mut bytes[at * size_of::<Self>()..];
            for (value, bytes) in values.iter().zip(bytes.chunks_exact_mut(size_of::<Self>())) {
                Self::put(*value).store(bytes, 0);
            }
        }
    };
}

/// A truth value in a byte.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub(crate) struct Bool(u8);

impl Storage for Bool {
    whole_bytes!();
    plain_runs!();

    fn get<T: Element>(self) -> T {
        T::from_i32(i32::from(self.0 != 0))
    }

    fn put<T: Element>(value: T) -> Self {
        Self(u8::from(value.is_nonzero()))
    }
}

impl Storage for f32 {
    whole_bytes!();
    plain_runs!();

    fn get<T: Element>(self) -> T {
        T::from_f32(self)
    }

    fn put<T: Element>(value: T) -> Self {
        value.to_f32()
    }
}

impl Storage for f64 {
    whole_bytes!();
    plain_runs!();

    fn get<T: Element>(self) -> T {
        T::from_f64(self)
    }

    fn put<T: Element>(value: T) -> Self {
        value.to_f64()
    }
}

impl Storage for i64 {
    whole_bytes!();
    plain_runs!();

    fn get<T: Element>(self) -> T {
        T::from_i64(self)
    }

    fn put<T: Element>(value: T) -> Self {
        value.to_i64()
    }
}

impl Storage for i32 {
    whole_bytes!();
    plain_runs!();

    fn get<T: Element>(self) -> T {
        T::from_i32(self)
    }

    fn put<T: Element>(value: T) -> Self {
        value.to_i32()
    }
}

impl Storage for i8 {
    whole_bytes!();
    plain_runs!();

    fn get<T: Element>(self) -> T {
        T::from_i32(i32::from(self))
    }

    fn put<T: Element>(value: T) -> Self {
        value.to_i32().clamp(i32::from(Self::MIN), i32::from(Self::MAX)) as Self
    }
}

impl Storage for u8 {
    whole_bytes!();
    plain_runs!();

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
            whole_bytes!();

            fn get<T: Element>(self) -> T {
                T::from_f32(self.to_f32())
            }

            fn put<T: Element>(value: T) -> Self {
                Self::from_f32(value.to_f32_for_narrowing())
            }

            fn read_run<T: Element>(bytes: &[u8], at: usize, values: &mut [T]) {
                let bytes = &bytes[2 * at..][..2 * values.len()];
                if T::DATA_TYPE == DataType::F32
                    && let Ok(halves) = bytemuck::try_cast_slice::<u8, Self>(bytes)
                    && let Ok(values) = bytemuck::try_cast_slice_mut::<T, f32>(values)
                {
                    return halves.convert_to_f32_slice(values);
                }
                for (value, bytes) in values.iter_mut().zip(bytes.chunks_exact(2)) {
                    *value = Self::load(bytes, 0).get();
                }
            }

            fn write_run<T: Element>(values: &[T], bytes: &mut [u8], at: usize) {
                let bytes = &mut bytes[2 * at..][..2 * values.len()];
                if T::DATA_TYPE == DataType::F32
                    && let Ok(values) = bytemuck::try_cast_slice::<T, f32>(values)
                    && let Ok(halves) = bytemuck::try_cast_slice_mut::<u8, Self>(bytes)
                {
                    return halves.convert_from_f32_slice(values);
                }
                for (value, bytes) in values.iter().zip(bytes.chunks_exact_mut(2)) {
                    Self::put(*value).store(bytes, 0);
                }
            }
        }
    };
}

impl_half!(f16);
impl_half!(bf16);

/// An 8-bit float: reading looks its value up.
macro_rules! impl_minifloat {
    ($name:ident, $documentation:literal) => {
        #[doc = $documentation]
        #[derive(Clone, Copy, Debug, Pod, Zeroable)]
        #[repr(transparent)]
        pub(crate) struct $name(u8);

        impl Storage for $name {
            whole_bytes!();
            plain_runs!();

            fn get<T: Element>(self) -> T {
                static VALUES: LazyLock<[f32; 256]> =
                    LazyLock::new(|| std::array::from_fn(|bits| MiniFloat::$name.decode(bits as u8) as f32));
                T::from_f32(VALUES[usize::from(self.0)])
            }

            fn put<T: Element>(value: T) -> Self {
                Self(MiniFloat::$name.encode(value.to_f64()))
            }
        }
    };
}

impl_minifloat!(E5M2, "5 exponent and 2 mantissa bits.");
impl_minifloat!(E4M3, "4 exponent and 3 mantissa bits.");

/// The place of half a byte: even positions are in the low one.
fn nibble(bytes: &[u8], at: usize) -> u8 {
    bytes[at / 2] >> (at % 2 * 4) & 0xF
}

/// Replaces half a byte; the other half stays.
fn set_nibble(bits: u8, bytes: &mut [u8], at: usize) {
    let (byte, shift) = (&mut bytes[at / 2], at % 2 * 4);
    *byte = *byte & !(0xF << shift) | (bits & 0xF) << shift;
}

/// An integer in half a byte.
macro_rules! impl_nibble {
    ($name:ident, $range:expr, $documentation:literal) => {
        #[doc = $documentation]
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name(i8);

        impl Storage for $name {
            const WIDTH: usize = 4;

            fn get<T: Element>(self) -> T {
                T::from_i32(i32::from(self.0))
            }

            fn put<T: Element>(value: T) -> Self {
                Self(value.to_i32().clamp(*$range.start(), *$range.end()) as i8)
            }

            fn load(bytes: &[u8], at: usize) -> Self {
                let nibble = nibble(bytes, at) as i8;
                // The upper half of the range stands for negative numbers where there are any.
                Self(if i32::from(nibble) > *$range.end() { nibble - 16 } else { nibble })
            }

            fn store(self, bytes: &mut [u8], at: usize) {
                set_nibble(self.0 as u8, bytes, at);
            }
        }
    };
}

impl_nibble!(S4, -8..=7, "A signed integer in half a byte.");
impl_nibble!(U4, 0..=15, "An unsigned integer in half a byte.");

/// A float in half a byte: 2 exponent bits and 1 mantissa bit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct E2M1(u8);

impl Storage for E2M1 {
    const WIDTH: usize = 4;

    fn get<T: Element>(self) -> T {
        static VALUES: LazyLock<[f32; 16]> =
            LazyLock::new(|| std::array::from_fn(|bits| MiniFloat::E2M1.decode(bits as u8) as f32));
        T::from_f32(VALUES[usize::from(self.0)])
    }

    fn put<T: Element>(value: T) -> Self {
        Self(MiniFloat::E2M1.encode(value.to_f64()))
    }

    fn load(bytes: &[u8], at: usize) -> Self {
        Self(nibble(bytes, at))
    }

    fn store(self, bytes: &mut [u8], at: usize) {
        set_nibble(self.0, bytes, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(data_type: DataType, values: &[f32]) -> Vec<f32> {
        let kind = Kind::of(data_type).unwrap();
        let size = data_type.bytes_for(values.len());
        let mut bytes = vec![0; size + 1];
        // An odd address, where nothing but bytes is aligned.
        write_run(kind, values, &mut bytes[1..]);
        let mut back = vec![0.0; values.len()];
        read_run(kind, &bytes[1..], &mut back);
        let mut aligned = vec![0_u64; values.len()];
        let aligned = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut aligned)[..size];
        write_run(kind, values, aligned);
        assert_eq!(aligned, &bytes[1..], "{data_type}");
        back
    }

    #[test]
    fn every_kind_is_named_once() {
        for data_type in Kind::DATA_TYPES {
            let kind = Kind::of(data_type).unwrap();
            assert_eq!((kind.data_type(), with_storage!(kind, S => S::WIDTH)), (data_type, data_type.bits()));
        }
        assert_eq!(Kind::DATA_TYPES.len(), DataType::ALL.len());
    }

    #[test]
    fn eight_bit_floats_overflow_as_their_format_says() {
        let values = [1.0, -0.3, 449.0, 470.0, 1e6, f32::NAN, f32::NEG_INFINITY, 1e-9];
        let e4m3 = round_trip(DataType::F8E4M3, &values);
        assert_eq!(e4m3[..3], [1.0, -0.3125, 448.0]);
        assert!(e4m3[3..7].iter().all(|v| v.is_nan()) && e4m3[7] == 0.0, "{e4m3:?}");
        let e5m2 = round_trip(DataType::F8E5M2, &values);
        assert_eq!(e5m2[..4], [1.0, -0.3125, 448.0, 448.0]);
        assert_eq!((e5m2[4], e5m2[6], e5m2[7]), (f32::INFINITY, f32::NEG_INFINITY, 0.0));
        assert!(e5m2[5].is_nan());
        // Halfway between 1 and 1.125 lies 1.0625; a little more in f64 must not be lost on the way.
        let kind = Kind::of(DataType::F8E4M3).unwrap();
        let mut bytes = [0; 2];
        write_run(kind, &[1.0625_f64, 1.0625 + 1e-12], &mut bytes);
        let mut back = [0.0_f64; 2];
        read_run(kind, &bytes, &mut back);
        assert_eq!(back, [1.0, 1.125]);
    }

    #[test]
    fn nibbles_round_saturate_and_leave_their_neighbours() {
        let values = [0.5, 1.5, -9.0, 7.6, f32::NAN, 1e9, -0.6];
        assert_eq!(round_trip(DataType::S4, &values), [0.0, 2.0, -8.0, 7.0, 0.0, 7.0, -1.0]);
        assert_eq!(round_trip(DataType::U4, &values), [0.0, 2.0, 0.0, 8.0, 0.0, 15.0, 0.0]);
        assert_eq!(round_trip(DataType::F4E2M1, &values), [0.5, 1.5, -6.0, 6.0, 0.0, 6.0, -0.5]);
        let mut bytes = [0xAB, 0xCD];
        S4::put(-2.0_f32).store(&mut bytes, 1);
        U4::put(3.0_f32).store(&mut bytes, 2);
        assert_eq!(bytes, [0xEB, 0xC3]);
        // Three from an odd position on.
        U4::write_run(&[1_i64, 2, 3], &mut bytes, 1);
        assert_eq!(bytes, [0x1B, 0x32]);
        let mut back = [0_i64; 3];
        S4::read_run(&[0x8F, 0x17], 1, &mut back);
        assert_eq!(back, [-8, 7, 1]);
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
