//! NumPy's files of one array.

use std::path::Path;

use anydnn_backend::{DataType, Dims, Error, MAX_DIMS, MemoryDesc, Result};

use super::HostTensor;
use super::files::{native_order, read_bytes, shown};

/// The tensor of a `.npy` file, of the versions 1 to 3 of NumPy's format.
///
/// # Errors
/// [`Error::Io`] when it cannot be read; [`Error::Invalid`] when it is malformed; [`Error::Unsupported`] for a type that anydnn has not,
/// for columns before rows, and for elements whose high byte comes first.
pub fn read_npy(path: impl AsRef<Path>) -> Result<HostTensor> {
    let path = path.as_ref();
    parse(&read_bytes(path)?).map_err(|error| error.at(shown(path)))
}

fn parse(bytes: &[u8]) -> Result<HostTensor> {
    let (header, data) =
        split(bytes).ok_or_else(|| wrong("beginning", "other bytes", "that of a .npy file"))?;
    let after = |key: &str| {
        let found = header.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start());
        found.ok_or_else(|| {
            wrong("header", header.chars().take(200).collect::<String>(), format!("the key {key}"))
        })
    };
    let quoted = after("descr")?.strip_prefix('\'').and_then(|rest| rest.split_once('\''));
    let (name, _) = quoted.ok_or_else(|| Error::unsupported("NumPy array", "its elements are records"))?;
    let data_type = data_type(name)
        .ok_or_else(|| Error::unsupported(format!("NumPy type {name:?}"), "anydnn has no such type"))?;
    let shape = after("shape")?.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let numbers = shape.map_or("?", |(numbers, _)| numbers);
    let parts = numbers.split(',').map(str::trim).filter(|part| !part.is_empty());
    let dims: Dims = parts
        .map(str::parse::<usize>)
        .collect::<std::result::Result<_, _>>()
        .map_err(|_| wrong("shape", numbers, "a list of sizes"))?;
    if dims.len() > MAX_DIMS {
        return Err(wrong("number of dimensions", dims.len().to_string(), "at most 12"));
    }
    let either_way = dims.iter().filter(|&&dim| dim > 1).count() < 2;
    if !after("fortran_order")?.starts_with("False") && !either_way {
        return Err(Error::unsupported("NumPy array", "its columns come before its rows"));
    }
    HostTensor::new(MemoryDesc::new(dims, data_type), native_order(data_type, data))
}

/// The header and the elements.
fn split(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let rest = bytes.strip_prefix(b"\x93NUMPY")?;
    let (version, rest) = rest.split_at_checked(2)?;
    let (length, rest) = match version[0] {
        1 => rest.split_first_chunk().map(|(length, rest)| (u16::from_le_bytes(*length) as usize, rest))?,
        2 | 3 => {
            rest.split_first_chunk().map(|(length, rest)| (u32::from_le_bytes(*length) as usize, rest))?
        }
        _ => return None,
    };
    let (header, data) = rest.split_at_checked(length)?;
    let header = std::str::from_utf8(header).ok()?;
    header.trim_end().ends_with('}').then_some((header, data))
}

fn data_type(name: &str) -> Option<DataType> {
    Some(match name {
        "<f4" => DataType::F32,
        "<f2" => DataType::F16,
        "<f8" => DataType::F64,
        "<i4" => DataType::S32,
        "<i8" => DataType::S64,
        "<i2" => DataType::S16,
        "<u2" => DataType::U16,
        "<u4" => DataType::U32,
        "<u8" => DataType::U64,
        "|i1" => DataType::S8,
        "|u1" => DataType::U8,
        "|b1" => DataType::Boolean,
        _ => return None,
    })
}

fn wrong(subject: &str, given: impl Into<String>, expected: impl Into<String>) -> Error {
    Error::invalid("NumPy array", subject, given, expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn arrays_are_read_and_wrong_ones_refused() {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }\n";
        let data: Vec<u8> = [1.5_f32, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        let tensor = parse(&file(header, &data)).unwrap();
        assert_eq!((tensor.dims().to_vec(), tensor.to_f32s()), (vec![2, 1], vec![1.5, -2.0]));
        let scalar = parse(&file("{'descr': '|u1', 'fortran_order': False, 'shape': ()}", &[7])).unwrap();
        assert_eq!((scalar.dims().len(), scalar.to_f32s()), (0, vec![7.0]));
        let words =
            parse(&file("{'descr': '<u2', 'fortran_order': False, 'shape': (1,)}", &[0, 0x80])).unwrap();
        assert_eq!((words.data_type(), words.to_f32s()), (DataType::U16, vec![32768.0]));
        let refused = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
        assert!(refused(&file(header, &data[1..])).contains("bytes"));
        assert!(refused(b"PK").contains(".npy"));
        assert!(refused(&file(&header.replace("<f4", ">f4"), &data)).contains(">f4"));
        assert!(refused(&file(&header.replace("(2, 1)", "(2, x)"), &data)).contains("2, x"));
        let columns = header.replace("False", "True").replace("(2, 1)", "(2, 2)");
        assert!(refused(&file(&columns, &[0; 16])).contains("columns"));
        for end in 0..header.len() - 1 {
            assert!(parse(&file(&header[..end], &data)).is_err());
        }
    }
}
