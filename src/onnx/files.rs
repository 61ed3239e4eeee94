//! The files of a model, mapped into memory.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Component, Path, PathBuf};

use anydnn_backend::{Error, Result};
use memmap2::Mmap;
use prost::bytes::Bytes;

use super::proto::TensorProto;

/// The bytes of a regular file, mapped.
pub(super) fn map(path: &Path) -> Result<Bytes> {
    let io = |error: std::io::Error| Error::io(path.display(), error);
    // Asked before it is opened: a pipe that nobody writes to waits for ever.
    let metadata = std::fs::metadata(path).map_err(io)?;
    if !metadata.is_file() {
        let given = if metadata.is_dir() { "a folder" } else { "a pipe or device" };
        return Err(Error::invalid(path.display().to_string(), "kind of file", given, "a regular file"));
    }
    let file = File::open(path).map_err(io)?;
    if metadata.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY:
    // - The mapping is private and only read, through `Bytes` that own it.
    // - Nothing relies on two reads of a byte giving the same value: lengths are checked against the mapping and every element of a
    //   weight may be any bits. That nobody shortens the file meanwhile is said to be the caller's part in the docs of `Model::load`.
    let map = unsafe { Mmap::map(&file) }.map_err(io)?;
    Ok(Bytes::from_owner(map))
}

/// The files beside a model that hold its weights.
#[derive(Debug)]
pub(super) struct ExternalData<'a> {
    folder: Option<&'a Path>,
    mapped: HashMap<String, Bytes>,
}

impl<'a> ExternalData<'a> {
    /// The files in a folder; none for a model that came without one.
    pub(super) fn new(folder: Option<&'a Path>) -> Self {
        Self { folder, mapped: HashMap::new() }
    }

    /// The bytes of a tensor, `size` in number.
    pub(super) fn bytes(&mut self, tensor: &TensorProto, size: usize) -> Result<Bytes> {
        let wrong = |what: &str, given: &str, expected: String| {
            Error::invalid("external data", what, given.to_owned(), expected)
        };
        let entry = |key: &str| {
            let found = tensor.external_data.iter().find(|entry| entry.key.as_deref() == Some(key));
            found.and_then(|entry| entry.value.as_deref())
        };
        let number = |key: &str| match entry(key) {
            None => Ok(None),
            Some(text) => match text.trim().parse::<usize>() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(wrong(key, &format!("{text:?}"), "a number of bytes".into())),
            },
        };
        let location = entry("location").ok_or_else(|| wrong("location", "missing", "a file".into()))?;
        let offset = number("offset")?.unwrap_or(0);
        let length = number("length")?.unwrap_or(size);
        if length != size {
            let expected = format!("{size}, the bytes of the tensor's type and shape");
            return Err(wrong("length", &length.to_string(), expected));
        }
        let file = self.file(location)?;
        match offset.checked_add(length) {
            Some(end) if end <= file.len() => Ok(file.slice(offset..end)),
            _ => {
                let given = format!("{length} bytes from {offset}");
                Err(wrong("range", &given, format!("within the {} bytes of {location:?}", file.len())))
            }
        }
    }

    fn file(&mut self, location: &str) -> Result<Bytes> {
        if let Some(bytes) = self.mapped.get(location) {
            return Ok(bytes.clone());
        }
        let bytes = map(&inside(self.folder, location)?)?;
        self.mapped.insert(location.to_owned(), bytes.clone());
        Ok(bytes)
    }
}

/// A file in the model's folder or below, links resolved.
fn inside(folder: Option<&Path>, location: &str) -> Result<PathBuf> {
    let outside = || {
        let expected = "a file in the model's folder or below";
        Error::invalid("external data", "location", format!("{location:?}"), expected)
    };
    let folder = folder.ok_or_else(|| {
        Error::unsupported(
            format!("external data {location:?}"),
            "the model was read from bytes, not from a folder",
        )
    })?;
    let relative = Path::new(location);
    let plain = |part: Component| matches!(part, Component::Normal(_) | Component::CurDir);
    if location.is_empty() || !relative.components().all(plain) {
        return Err(outside());
    }
    let path = folder.join(relative);
    let resolved = |path: &Path| path.canonicalize().map_err(|error| Error::io(path.display(), error));
    if resolved(&path)?.starts_with(resolved(folder)?) { Ok(path) } else { Err(outside()) }
}
