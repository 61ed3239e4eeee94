//! Files of models, read whole and with bounds.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use anydnn_backend::{DataType, Dims, Error, MAX_DIMS, MemoryDesc, Result, check_host_memory};
use indexmap::IndexMap;
use safetensors::{Dtype, SafeTensors, View};

use super::HostTensor;

/// The most bytes of a JSON file.
const MAX_JSON: u64 = 256 << 20;
/// The most bytes of a file of tensors.
const MAX_TENSORS: u64 = 16 << 30;

/// The tensors of a safetensors file by name, in the order of the names.
///
/// # Errors
/// [`Error::Io`] when it cannot be read; [`Error::Invalid`] when it is malformed, or a tensor has a type that anydnn has not.
pub fn read_safetensors(path: impl AsRef<Path>) -> Result<IndexMap<String, HostTensor>> {
    let path = path.as_ref();
    let bytes = read_bytes(path)?;
    let file = SafeTensors::deserialize(&bytes)
        .map_err(|error| Error::invalid(shown(path), "content", error.to_string(), "a safetensors file"))?;
    let mut names = file.names();
    names.sort_unstable();
    let mut tensors = IndexMap::new();
    for name in names {
        let view = file.tensor(name).map_err(|error| Error::io(path.display(), error))?;
        let wrong = |subject: &str, given: String, expected: &str| {
            Error::invalid(shown(path), format!("{subject} of tensor {name:?}"), given, expected)
        };
        let data_type = data_type(view.dtype()).ok_or_else(|| {
            wrong("type", format!("{:?}", view.dtype()), "a type of anydnn, such as F32 or I8")
        })?;
        if view.shape().len() > MAX_DIMS {
            return Err(wrong("number of dimensions", view.shape().len().to_string(), "at most 12"));
        }
        let desc = MemoryDesc::new(Dims::new(view.shape()), data_type).labelled(name);
        let bytes = native_order(data_type, view.data());
        tensors.insert(name.to_owned(), HostTensor::new(desc, bytes).map_err(|error| error.at(shown(path)))?);
    }
    Ok(tensors)
}

/// Writes tensors as a safetensors file.
///
/// # Errors
/// [`Error::Io`] when it cannot be written; [`Error::Unsupported`] for types that the format has not, as those of 4 bits.
pub fn write_safetensors<'a>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (&'a str, &'a HostTensor)>,
) -> Result<()> {
    let path = path.as_ref();
    let mut named = Vec::new();
    for (name, tensor) in tensors {
        let dtype = dtype(tensor.data_type()).ok_or_else(|| {
            Error::unsupported(shown(path), format!("{} has no name in safetensors", tensor.desc()))
        })?;
        named.push((name.to_owned(), Stored { dtype, tensor }));
    }
    safetensors::serialize_to_file(named, None, path).map_err(|error| Error::io(path.display(), error))
}

/// The bytes of a regular file, of at most 16 GiB and of a size that the host has memory for.
///
/// # Errors
/// [`Error::Io`] when it cannot be read, [`Error::Invalid`] or [`Error::OutOfMemory`] when it is not as said.
pub fn read_bytes(path: impl AsRef<Path>) -> Result<Vec<u8>> {
    read(path.as_ref(), MAX_TENSORS)
}

/// The text of a regular file, of at most 256 MiB.
///
/// # Errors
/// [`Error::Io`] when it cannot be read, [`Error::Invalid`] when it is not as said or not UTF-8.
pub fn read_text(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    String::from_utf8(read(path, MAX_JSON)?)
        .map_err(|error| Error::invalid(shown(path), "content", error.to_string(), "UTF-8 text"))
}

/// A file named in a manifest: beside the manifest or below.
pub(super) fn beside(folder: &Path, name: &str) -> Result<PathBuf> {
    let relative = Path::new(name);
    if name.is_empty()
        || !relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
    {
        let expected = "a file beside the manifest or below";
        return Err(Error::invalid("model manifest", "file name", format!("{name:?}"), expected));
    }
    Ok(folder.join(relative))
}

pub(super) fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let io = |error: std::io::Error| Error::io(path.display(), error);
    // Asked before it is opened: a pipe that nobody writes to waits for ever.
    let metadata = std::fs::metadata(path).map_err(io)?;
    if !metadata.is_file() {
        let given = if metadata.is_dir() { "a folder" } else { "a pipe or device" };
        return Err(Error::invalid(shown(path), "kind of file", given, "a regular file"));
    }
    let file = File::open(path).map_err(io)?;
    let size = metadata.len();
    let too_large = |size: u64| {
        Error::invalid(
            shown(path),
            "file size",
            format!("{size} bytes or more"),
            format!("at most {most} bytes"),
        )
    };
    if size > most {
        return Err(too_large(size));
    }
    check_host_memory(size as usize, || shown(path))?;
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(size as usize)
        .map_err(|_| Error::OutOfMemory { what: shown(path), bytes: size as usize })?;
    // A file may grow: reading is bounded too.
    file.take(most + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > most { Err(too_large(bytes.len() as u64)) } else { Ok(bytes) }
}

/// Elements whose low byte comes first, as most files have them, in the machine's order.
pub(crate) fn native_order(data_type: DataType, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let width = data_type.bits() / 8;
    if cfg!(target_endian = "big") && width > 1 {
        bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
    bytes
}

struct Stored<'a> {
    dtype: Dtype,
    tensor: &'a HostTensor,
}

impl View for Stored<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        self.tensor.dims()
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Owned(native_order(self.tensor.data_type(), self.tensor.bytes()))
    }

    fn data_len(&self) -> usize {
        self.tensor.bytes().len()
    }
}

const PAIRS: [(Dtype, DataType); 15] = [
    (Dtype::F32, DataType::F32),
    (Dtype::F16, DataType::F16),
    (Dtype::BF16, DataType::BF16),
    (Dtype::F64, DataType::F64),
    (Dtype::I8, DataType::S8),
    (Dtype::U8, DataType::U8),
    (Dtype::I32, DataType::S32),
    (Dtype::I64, DataType::S64),
    (Dtype::I16, DataType::S16),
    (Dtype::U16, DataType::U16),
    (Dtype::U32, DataType::U32),
    (Dtype::U64, DataType::U64),
    (Dtype::BOOL, DataType::Boolean),
    (Dtype::F8_E5M2, DataType::F8E5M2),
    (Dtype::F8_E4M3, DataType::F8E4M3),
];

fn data_type(dtype: Dtype) -> Option<DataType> {
    PAIRS.iter().find(|pair| pair.0 == dtype).map(|pair| pair.1)
}

fn dtype(data_type: DataType) -> Option<Dtype> {
    PAIRS.iter().find(|pair| pair.1 == data_type).map(|pair| pair.0)
}
