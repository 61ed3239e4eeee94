//! Types and tensors of ONNX as ours.

use std::sync::Arc;

use anydnn_backend::{DataType, Dims, Error, MAX_DIMS, MemoryDesc, Result};
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};
use prost::bytes::Bytes;

use super::files::{ExternalData, Part, Place};
use super::proto::TensorProto;
use crate::model::{HostTensor, native_order};

/// The names of ONNX's types by their numbers, and our types where we have them.
const TYPES: [(&str, Option<DataType>); 27] = [
    ("undefined", None),
    ("float", Some(DataType::F32)),
    ("uint8", Some(DataType::U8)),
    ("int8", Some(DataType::S8)),
    ("uint16", Some(DataType::U16)),
    ("int16", Some(DataType::S16)),
    ("int32", Some(DataType::S32)),
    ("int64", Some(DataType::S64)),
    ("string", None),
    ("bool", Some(DataType::Boolean)),
    ("float16", Some(DataType::F16)),
    ("double", Some(DataType::F64)),
    ("uint32", Some(DataType::U32)),
    ("uint64", Some(DataType::U64)),
    ("complex64", None),
    ("complex128", None),
    ("bfloat16", Some(DataType::BF16)),
    ("float8e4m3fn", Some(DataType::F8E4M3)),
    ("float8e4m3fnuz", Some(DataType::F8E4M3Fnuz)),
    ("float8e5m2", Some(DataType::F8E5M2)),
    ("float8e5m2fnuz", Some(DataType::F8E5M2Fnuz)),
    ("uint4", Some(DataType::U4)),
    ("int4", Some(DataType::S4)),
    ("float4e2m1", Some(DataType::F4E2M1)),
    ("float8e8m0", Some(DataType::E8M0)),
    ("uint2", Some(DataType::U2)),
    ("int2", Some(DataType::S2)),
];

/// The least bytes that a tensor shares with its file: copies of fewer cost less than pages do.
const SHARED: usize = 1 << 16;

/// Our type for a number of ONNX's types.
///
/// # Errors
/// [`Error::Unsupported`] with the type's name where we have none.
pub(super) fn data_type(number: i32) -> Result<DataType> {
    match usize::try_from(number).ok().and_then(|number| TYPES.get(number)) {
        Some((_, Some(data_type))) => Ok(*data_type),
        Some((name, None)) => Err(Error::unsupported(format!("data type {name}"), "anydnn has no such type")),
        None => Err(Error::unsupported(format!("data type {number}"), "it is not known")),
    }
}

/// The dimensions, whose number and whose size in bytes are within bounds.
pub(super) fn dims(given: &[i64], data_type: DataType) -> Result<Dims> {
    let wrong = |expected: &str| Error::invalid("tensor", "dimensions", shown(given), expected);
    if given.len() > MAX_DIMS {
        return Err(wrong("at most 12 dimensions"));
    }
    let dims: Option<Dims> = given.iter().map(|&dim| usize::try_from(dim).ok()).collect();
    let dims = dims.ok_or_else(|| wrong("no negative dimension"))?;
    check_size(&dims, data_type)?;
    Ok(dims)
}

/// Checks that a tensor's bytes can be counted.
pub(super) fn check_size(dims: &Dims, data_type: DataType) -> Result<()> {
    let factors = dims.iter().filter(|&&dim| dim > 0);
    let bytes = factors.copied().try_fold(data_type.bits().div_ceil(8), usize::checked_mul);
    if dims.len() > MAX_DIMS || bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
        let expected = "at most 12 dimensions and a size in the address space";
        return Err(Error::invalid("tensor", "dimensions", dims.to_string(), expected));
    }
    Ok(())
}

/// A tensor of the file or beside it. Its size is compared with the bytes that are there before memory is asked for.
pub(super) fn host_tensor(tensor: &TensorProto, external: &mut ExternalData) -> Result<HostTensor> {
    match stored(tensor, external)? {
        Stored::Here(tensor) => Ok(tensor),
        in_file @ Stored::InFile { .. } => in_file.read(),
    }
}

/// A tensor with the place of its elements.
#[derive(Debug)]
pub(super) enum Stored {
    Here(HostTensor),
    /// As many bytes of a file as it takes.
    InFile {
        desc: MemoryDesc,
        place: Place,
    },
}

impl Stored {
    pub(super) fn desc(&self) -> &MemoryDesc {
        match self {
            Self::Here(tensor) => tensor.desc(),
            Self::InFile { desc, .. } => desc,
        }
    }

    /// The tensor.
    pub(super) fn read(&self) -> Result<HostTensor> {
        match self {
            Self::Here(tensor) => Ok(tensor.clone()),
            Self::InFile { desc, place } => of_file(desc.clone(), place.part()),
        }
    }
}

/// A tensor of the file or beside it, its size compared with the bytes that are there. Bytes of files are not read.
pub(super) fn stored(tensor: &TensorProto, external: &mut ExternalData) -> Result<Stored> {
    let data_type = data_type(tensor.data_type.unwrap_or(0))?;
    let dims = dims(&tensor.dims, data_type)?;
    let desc = MemoryDesc::new(dims, data_type);
    let size = data_type.bytes_for(desc.elements());
    if tensor.data_location == Some(1) {
        return Ok(Stored::InFile { place: external.place(tensor, size)?, desc });
    }
    match &tensor.raw_data {
        Some(raw) if !raw.is_empty() || size == 0 => {
            let place = external.own(checked(raw, size, &desc)?.clone());
            Ok(Stored::InFile { desc, place })
        }
        _ => HostTensor::new(desc.clone(), of_numbers(tensor, &desc)?).map(Stored::Here),
    }
}

/// A tensor of a file's bytes, which it shares where they are elements as they lie.
fn of_file(desc: MemoryDesc, part: Part) -> Result<HostTensor> {
    let data_type = desc.data_type();
    let bytes = part.as_ref();
    match data_type {
        DataType::Boolean => HostTensor::new(desc, bytes.iter().map(|&byte| u8::from(byte != 0)).collect()),
        _ if cfg!(target_endian = "little") && bytes.len() >= SHARED => {
            HostTensor::shared(desc, Arc::new(part))
        }
        _ => HostTensor::new(desc, native_order(data_type, bytes)),
    }
}

fn checked<'a>(raw: &'a Bytes, size: usize, desc: &MemoryDesc) -> Result<&'a Bytes> {
    if raw.len() == size {
        return Ok(raw);
    }
    let expected = format!("{size} for {desc}");
    Err(Error::invalid("tensor", "number of bytes", raw.len().to_string(), expected))
}

/// The fields with a number for each element; types of at most 32 bits that are no floats of 32 share one.
fn of_numbers(tensor: &TensorProto, desc: &MemoryDesc) -> Result<Vec<u8>> {
    let data_type = desc.data_type();
    let count = |given: usize| {
        // Elements of less than 8 bits share a number.
        let expected = if data_type.bits() < 8 { desc.size() } else { desc.elements() };
        if given == expected {
            return Ok(());
        }
        let expected = format!("{expected} for {desc}");
        Err(Error::invalid("tensor", "number of values", given.to_string(), expected))
    };
    let small = &tensor.int32_data;
    Ok(match data_type {
        DataType::F32 => {
            count(tensor.float_data.len())?;
            tensor.float_data.iter().flat_map(|value| value.to_ne_bytes()).collect()
        }
        DataType::F64 => {
            count(tensor.double_data.len())?;
            tensor.double_data.iter().flat_map(|value| value.to_ne_bytes()).collect()
        }
        DataType::S64 => {
            count(tensor.int64_data.len())?;
            tensor.int64_data.iter().flat_map(|value| value.to_ne_bytes()).collect()
        }
        DataType::U64 => {
            count(tensor.uint64_data.len())?;
            tensor.uint64_data.iter().flat_map(|value| value.to_ne_bytes()).collect()
        }
        DataType::U32 => {
            count(tensor.uint64_data.len())?;
            tensor.uint64_data.iter().flat_map(|&value| (value as u32).to_ne_bytes()).collect()
        }
        DataType::S32 => {
            count(small.len())?;
            small.iter().flat_map(|value| value.to_ne_bytes()).collect()
        }
        DataType::F16 | DataType::BF16 | DataType::S16 | DataType::U16 => {
            count(small.len())?;
            small.iter().flat_map(|&value| (value as u16).to_ne_bytes()).collect()
        }
        DataType::Boolean => {
            count(small.len())?;
            small.iter().map(|&value| u8::from(value != 0)).collect()
        }
        _ => {
            count(small.len())?;
            small.iter().map(|&value| value as u8).collect()
        }
    })
}

/// Dimensions as given, of which a wrong file may have many.
fn shown(dims: &[i64]) -> String {
    let some: Vec<_> = dims.iter().take(16).map(ToString::to_string).collect();
    let more = if dims.len() > 16 { format!("... ({} in all)", dims.len()) } else { String::new() };
    format!("[{}{more}]", some.join(", "))
}

/// Elements that are made narrower at a time.
const LINE: usize = 1024;

/// Values of f32 in a narrower type. What is too large for it becomes its largest number: masks add or multiply the least f32, and zero times
/// infinity would be no number.
pub(super) fn narrowed(tensor: &HostTensor, narrow: DataType) -> HostTensor {
    let is_half = narrow == DataType::F16;
    let most = if is_half { f16::MAX.to_f32() } else { bf16::MAX.to_f32() };
    let mut values = tensor.to_f32s();
    for value in values.iter_mut().filter(|value| value.is_finite()) {
        *value = value.clamp(-most, most);
    }
    let mut bytes = vec![0; values.len() * 2];
    let places = bytes.as_chunks_mut::<2>().0;
    // Whole lines at a time, which processors have instructions for.
    for (values, places) in values.chunks(LINE).zip(places.chunks_mut(LINE)) {
        let mut bits = [0; LINE];
        let bits = &mut bits[..values.len()];
        if is_half {
            bits.reinterpret_cast_mut::<f16>().convert_from_f32_slice(values);
        } else {
            bits.reinterpret_cast_mut::<bf16>().convert_from_f32_slice(values);
        }
        for (place, bits) in places.iter_mut().zip(bits) {
            *place = bits.to_ne_bytes();
        }
    }
    let desc = MemoryDesc::new(tensor.dims().clone(), narrow);
    HostTensor::new(desc, bytes).unwrap_or_else(|_| tensor.cast(narrow))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As one by one, whatever the length; what is finite stays so.
    #[test]
    fn narrower_values_are_the_nearest_finite_ones() {
        let spread = |i: u32| f32::from_bits(i.wrapping_mul(0x9e37_79b9));
        let ends = [
            f32::MAX,
            f32::MIN,
            65_519.0,
            65_520.0,
            -65_520.0,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
            -0.0,
        ];
        let values: Vec<f32> = (0..5000).map(spread).chain(ends).collect();
        let wide = HostTensor::from_f32([values.len()], &values).unwrap();
        for narrow in [DataType::F16, DataType::BF16] {
            let most = if narrow == DataType::F16 { 65_504.0 } else { f64::from(bf16::MAX) };
            let made = narrowed(&wide, narrow);
            assert_eq!(made.data_type(), narrow);
            for (made, &value) in made.to_f64s().into_iter().zip(&values) {
                let value = f64::from(value);
                let limited = if value.is_finite() { value.clamp(-most, most) } else { value };
                let nearest = narrow.stored(limited);
                assert!(
                    made.to_bits() == nearest.to_bits() || (made.is_nan() && nearest.is_nan()),
                    "{value}: {made}"
                );
            }
        }
        assert_eq!(narrowed(&HostTensor::from_f32([0], &[]).unwrap(), DataType::F16).bytes().len(), 0);
    }
}
