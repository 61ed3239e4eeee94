//! The files of a model, mapped into memory.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use anydnn_backend::{Error, Result};
use memmap2::Mmap;
use prost::bytes::Bytes;

use super::proto::TensorProto;

/// A file in memory, and where the files beside it lie.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    /// None for a model from bytes, which has none beside it.
    pub(super) folder: Option<PathBuf>,
    /// None where the file is empty or came as bytes.
    map: Option<Arc<Mmap>>,
}

impl Origin {
    /// Maps a file; those beside it lie in its folder.
    pub(super) fn open(path: &Path) -> Result<(Self, Bytes)> {
        // The parent of a bare file name is an empty path.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let map = map(path)?;
        let bytes = map.as_ref().map_or_else(Bytes::new, |map| Bytes::from_owner(Owner(Arc::clone(map))));
        Ok((Self { folder: Some(folder.to_owned()), map }, bytes))
    }

    /// Gives the pages of the file back, once what they hold is elsewhere: what reads them again finds them in the file.
    pub(super) fn give_back(&self) {
        if let Some(map) = &self.map {
            give_back(map, 0, map.len());
        }
    }
}

/// Keeps a mapping as long as bytes of it are there.
#[derive(Debug)]
struct Owner(Arc<Mmap>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Where bytes of a file are.
#[derive(Clone, Debug)]
pub(super) struct Place {
    bytes: Bytes,
    map: Option<Arc<Mmap>>,
}

impl Place {
    /// The bytes, to be read.
    pub(super) fn part(&self) -> Part {
        Part { bytes: self.bytes.clone(), map: self.map.clone() }
    }
}

/// The least bytes whose pages are given back: fewer cost less than asking, again and again, where plans are made for many shapes.
const WORTH_GIVING: usize = 1 << 16;

/// Part of a file. Where this is mapped its pages are given back when nobody needs the part any more: what reads them again finds them in
/// the file.
#[derive(Debug)]
pub(super) struct Part {
    bytes: Bytes,
    map: Option<Arc<Mmap>>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(map) = self.map.as_ref().filter(|_| self.bytes.len() >= WORTH_GIVING)
            && let Some(offset) = within(map, &self.bytes)
        {
            give_back(map, offset, self.bytes.len());
        }
    }
}

/// Lets the system take the pages of part of a mapping.
fn give_back(map: &Mmap, offset: usize, bytes: usize) {
    #[cfg(unix)]
    // SAFETY: the mapping is of a file and never written, so that its pages hold the file's bytes when they are read again.
    let given = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, offset, bytes) };
    // It costs memory alone.
    #[cfg(unix)]
    if let Err(error) = given {
        tracing::debug!(%error, "pages of a file stay");
    }
    #[cfg(not(unix))]
    let _ = (map, offset, bytes);
}

/// Where bytes lie in a mapping; none where they are elsewhere.
fn within(map: &Mmap, bytes: &[u8]) -> Option<usize> {
    let offset = (bytes.as_ptr() as usize).checked_sub(map.as_ptr() as usize)?;
    (offset + bytes.len() <= map.len()).then_some(offset)
}

/// A regular file, mapped unless it is empty.
fn map(path: &Path) -> Result<Option<Arc<Mmap>>> {
    let io = |error: std::io::Error| Error::io(path.display(), error);
    // Asked before it is opened: a pipe that nobody writes to waits for ever.
    let metadata = std::fs::metadata(path).map_err(io)?;
    if !metadata.is_file() {
        let given = if metadata.is_dir() { "a folder" } else { "a pipe or device" };
        return Err(Error::invalid(path.display().to_string(), "kind of file", given, "a regular file"));
    }
    let file = File::open(path).map_err(io)?;
    if metadata.len() == 0 {
        return Ok(None);
    }
    // SAFETY:
    // - The mapping is private and only read, through `Bytes` that own it.
    // - Nothing relies on two reads of a byte giving the same value: lengths are checked against the mapping and every element of a
    //   weight may be any bits. That nobody shortens the file meanwhile is said to be the caller's part in the docs of `Model::load`.
    let map = unsafe { Mmap::map(&file) }.map_err(io)?;
    Ok(Some(Arc::new(map)))
}

/// The files that hold a model's weights: its own and those beside it.
#[derive(Debug, Default)]
pub(super) struct ExternalData<'a> {
    folder: Option<&'a Path>,
    own: Option<Arc<Mmap>>,
    mapped: HashMap<String, Option<Arc<Mmap>>>,
}

impl<'a> ExternalData<'a> {
    /// The files of a model; without one there are no others beside it.
    pub(super) fn new(origin: &'a Origin) -> Self {
        Self { folder: origin.folder.as_deref(), own: origin.map.clone(), mapped: HashMap::new() }
    }

    /// Bytes of the model's own file.
    pub(super) fn own(&self, bytes: Bytes) -> Place {
        Place { bytes, map: self.own.clone() }
    }

    /// The bytes of a tensor, `size` in number.
    pub(super) fn place(&mut self, tensor: &TensorProto, size: usize) -> Result<Place> {
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
        let map = self.file(location)?;
        let file = map.as_ref().map_or_else(Bytes::new, |map| Bytes::from_owner(Owner(Arc::clone(map))));
        match offset.checked_add(length) {
            Some(end) if end <= file.len() => Ok(Place { bytes: file.slice(offset..end), map }),
            _ => {
                let given = format!("{length} bytes from {offset}");
                Err(wrong("range", &given, format!("within the {} bytes of {location:?}", file.len())))
            }
        }
    }

    fn file(&mut self, location: &str) -> Result<Option<Arc<Mmap>>> {
        if let Some(map) = self.mapped.get(location) {
            return Ok(map.clone());
        }
        let map = map(&inside(self.folder, location)?)?;
        self.mapped.insert(location.to_owned(), map.clone());
        Ok(map)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_were_given_back_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let content: Vec<u8> = (0..150_000_usize).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let (origin, bytes) = Origin::open(&path).unwrap();
        assert_eq!(bytes, content);
        let map = origin.map.clone().unwrap();
        let part = || ExternalData::new(&origin).own(bytes.slice(4_097..140_000)).part();
        assert_eq!(within(&map, part().as_ref()), Some(4_097));
        drop(part());
        assert_eq!((part().as_ref(), &bytes[..]), (&content[4_097..140_000], &content[..]));
        // Bytes from elsewhere are not touched.
        let own = Bytes::from(content.clone());
        assert_eq!(within(&map, &own), None);
        drop(ExternalData::new(&origin).own(own.clone()).part());
        assert_eq!(own, content);
    }
}
