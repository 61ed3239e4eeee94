//! The elements of a tensor of any type: as numbers to compute with, as cells of bytes to move, and where they lie.

use std::borrow::Cow;

use anydnn_backend::{DataType, Dims, MemoryDesc, Result};

use crate::model::HostTensor;

/// The elements of a tensor, each held exactly.
pub(super) enum Numbers {
    /// Integers and truth values.
    Ints(Vec<i64>),
    /// Integers without sign of 64 bits.
    Words(Vec<u64>),
    /// Floats of every width.
    Floats(Vec<f64>),
}

/// What elements are computed as.
pub(super) trait Number: Copy + PartialOrd {
    fn wrap(values: Vec<Self>) -> Numbers;
    fn of(value: f64) -> Self;
    fn real(self) -> f64;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn whole(self) -> i64;
    /// A number of one kind as one of another.
    fn like<S: Number>(value: S) -> Self;
}

/// Integers, which wrap around.
macro_rules! integers {
    ($($integer:ty => $numbers:ident),*) => {$(
        impl Number for $integer {
            fn wrap(values: Vec<Self>) -> Numbers {
                Numbers::$numbers(values)
            }
            fn of(value: f64) -> Self {
                value as Self
            }
            fn real(self) -> f64 {
                self as f64
            }
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn like<S: Number>(value: S) -> Self {
                value.whole() as Self
            }
            fn whole(self) -> i64 {
                self as i64
            }
        }
    )*};
}

integers!(i64 => Ints, u64 => Words);

impl Number for f64 {
    fn wrap(values: Vec<Self>) -> Numbers {
        Numbers::Floats(values)
    }
    fn of(value: f64) -> Self {
        value
    }
    fn real(self) -> f64 {
        self
    }
    fn plus(self, other: Self) -> Self {
        self + other
    }
    fn times(self, other: Self) -> Self {
        self * other
    }
    fn like<S: Number>(value: S) -> Self {
        value.real()
    }
    fn whole(self) -> i64 {
        self as i64
    }
}

/// Computes the same with the elements as whatever they are.
macro_rules! each {
    ($tensor:expr, $values:ident => $body:expr) => {
        match $crate::onnx::host::numbers::numbers($tensor) {
            $crate::onnx::host::numbers::Numbers::Ints($values) => $body,
            $crate::onnx::host::numbers::Numbers::Words($values) => $body,
            $crate::onnx::host::numbers::Numbers::Floats($values) => $body,
        }
    };
}
pub(super) use each;

pub(super) fn numbers(tensor: &HostTensor) -> Numbers {
    if let Some(words) = unsigned(tensor) {
        return Numbers::Words(words);
    }
    ints(tensor).map_or_else(|| Numbers::Floats(tensor.to_f64s()), Numbers::Ints)
}

/// The elements of a tensor of integers without sign of 64 bits.
pub(super) fn unsigned(tensor: &HostTensor) -> Option<Vec<u64>> {
    (tensor.data_type() == DataType::U64).then(|| words(tensor.bytes()).map(u64::from_ne_bytes).collect())
}

/// The elements of a tensor of integers or truth values; none where one is beyond 2^63.
pub(in crate::onnx) fn ints(tensor: &HostTensor) -> Option<Vec<i64>> {
    match tensor.data_type() {
        DataType::S64 => Some(words(tensor.bytes()).map(i64::from_ne_bytes).collect()),
        DataType::S32 => {
            Some(words(tensor.bytes()).map(|word| i64::from(i32::from_ne_bytes(word))).collect())
        }
        DataType::U64 => {
            words(tensor.bytes()).map(|word| i64::try_from(u64::from_ne_bytes(word)).ok()).collect()
        }
        data_type if data_type.is_float() => None,
        _ => Some(tensor.to_f64s().into_iter().map(|value| value as i64).collect()),
    }
}

/// A tensor of numbers. Floats are rounded, integers are cut off at the top where they do not fit.
pub(super) fn tensor(dims: Dims, data_type: DataType, values: &Numbers) -> Result<HostTensor> {
    match values {
        Numbers::Ints(values) => of_ints(dims, data_type, values),
        Numbers::Words(values) => {
            let values: Vec<i64> = values.iter().map(|&value| value as i64).collect();
            of_ints(dims, data_type, &values)
        }
        Numbers::Floats(values) => HostTensor::from_f64(dims, data_type, values),
    }
}

/// A tensor of integers or truth values. Values out of range are cut off at the top, as conversions do it.
pub(super) fn of_ints(dims: Dims, data_type: DataType, values: &[i64]) -> Result<HostTensor> {
    let bytes = match data_type {
        DataType::S64 | DataType::U64 => bytemuck::cast_slice(values).to_vec(),
        DataType::S16 | DataType::U16 => {
            let words: Vec<u16> = values.iter().map(|&value| value as u16).collect();
            bytemuck::cast_slice(&words).to_vec()
        }
        DataType::S32 | DataType::U32 => {
            let words: Vec<i32> = values.iter().map(|&value| value as i32).collect();
            bytemuck::cast_slice(&words).to_vec()
        }
        DataType::Boolean => values.iter().map(|&value| u8::from(value != 0)).collect(),
        DataType::S8 | DataType::U8 => values.iter().map(|&value| value as u8).collect(),
        DataType::S4 | DataType::U4 | DataType::S2 | DataType::U2 => {
            return of_cells(dims, data_type, values.iter().map(|&value| value as u8).collect());
        }
        _ => {
            let values: Vec<_> = values.iter().map(|&value| value as f64).collect();
            return HostTensor::from_f64(dims, data_type, &values);
        }
    };
    HostTensor::new(MemoryDesc::new(dims, data_type), bytes)
}

/// A tensor of s64, as shapes and indices are.
pub(super) fn indices(dims: impl Into<Dims>, values: &[i64]) -> Result<HostTensor> {
    of_ints(dims.into(), DataType::S64, values)
}

/// Elements as whole bytes.
pub(super) struct Cells<'a> {
    pub(super) bytes: Cow<'a, [u8]>,
    pub(super) size: usize,
}

impl Cells<'_> {
    pub(super) fn at(&self, place: usize) -> &[u8] {
        &self.bytes[place * self.size..(place + 1) * self.size]
    }
}

/// The elements of a tensor as whole bytes; those of less than 8 bits take one each.
pub(super) fn cells(tensor: &HostTensor) -> Cells<'_> {
    let bits = tensor.data_type().bits();
    if bits >= 8 {
        return Cells { bytes: Cow::Borrowed(tensor.bytes()), size: bits / 8 };
    }
    let parts = tensor.bytes().iter().flat_map(|byte| {
        (0..8 / bits).map(move |i| (u32::from(*byte) >> (i * bits)) as u8 & ((1 << bits) - 1))
    });
    Cells { bytes: Cow::Owned(parts.take(tensor.dims().elements()).collect()), size: 1 }
}

/// A tensor of elements as whole bytes.
pub(super) fn of_cells(dims: Dims, data_type: DataType, mut bytes: Vec<u8>) -> Result<HostTensor> {
    let bits = data_type.bits();
    if bits < 8 {
        let low = (1_u8 << bits) - 1;
        let put = |(i, part): (usize, &u8)| (part & low) << (i * bits);
        bytes = bytes.chunks(8 / bits).map(|parts| parts.iter().enumerate().map(put).sum()).collect();
    }
    HostTensor::new(MemoryDesc::new(dims, data_type), bytes)
}

/// The elements of a tensor at places in row-major order.
pub(super) fn picked(
    src: &HostTensor,
    dims: Dims,
    places: impl IntoIterator<Item = usize>,
) -> Result<HostTensor> {
    picked_or(src, dims, places.into_iter().map(Some), &[0; 8])
}

/// The elements of a tensor at places in row-major order, and another where there is none.
pub(super) fn picked_or(
    src: &HostTensor,
    dims: Dims,
    places: impl IntoIterator<Item = Option<usize>>,
    absent: &[u8],
) -> Result<HostTensor> {
    let cells = cells(src);
    let mut bytes = Vec::with_capacity(dims.elements().saturating_mul(cells.size));
    for place in places {
        bytes.extend_from_slice(place.map_or(&absent[..cells.size], |place| cells.at(place)));
    }
    of_cells(dims, src.data_type(), bytes)
}

/// The places that an index over `dims` visits in row-major order, from `start` with a stride for each dimension.
pub(super) fn walk(dims: &[usize], strides: &[i64], start: i64) -> Vec<usize> {
    let mut places = vec![start];
    for (&dim, &stride) in dims.iter().zip(strides) {
        let mut next = Vec::with_capacity(places.len().saturating_mul(dim));
        for place in places {
            next.extend((0..dim as i64).map(|i| place + i * stride));
        }
        places = next;
    }
    places.into_iter().map(|place| place as usize).collect()
}

/// The place in a tensor of each element of what it broadcasts to.
pub(super) fn places(from: &Dims, to: &Dims) -> Vec<usize> {
    walk(to, &broadcast_strides(from, to), 0)
}

/// The strides of a tensor along the dimensions of what it broadcasts to.
pub(super) fn broadcast_strides(from: &Dims, to: &Dims) -> Vec<i64> {
    let from = from.padded_to_rank(to.len());
    let strides = from.row_major_strides();
    strides.iter().zip(from.iter()).map(|(&stride, &dim)| if dim == 1 { 0 } else { stride as i64 }).collect()
}

/// The strides of the dense row-major layout as offsets.
pub(super) fn strides(dims: &Dims) -> Vec<i64> {
    dims.row_major_strides().iter().map(|&stride| stride as i64).collect()
}

/// How many elements lie before an axis, along it and behind it.
pub(super) fn around(dims: &[usize], axis: usize) -> (usize, usize, usize) {
    (product(&dims[..axis]), dims[axis], product(&dims[axis + 1..]))
}

pub(super) fn product(dims: &[usize]) -> usize {
    Dims::new(dims).elements()
}

fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks().0.iter().copied()
}
