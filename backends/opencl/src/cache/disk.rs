//! The cache on disk: one file for each program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::folder::{Folder, Found};
use super::frame::{self, CacheMiss, Magic};
use super::key::DeviceKey;

const MAGIC: Magic = *b"anyDNNpr";

/// What the files may take together unless somebody says otherwise: 1 GiB.
const MAX_BYTES: u64 = 1 << 30;

/// Where an engine keeps compiled programs for later processes.
///
/// An engine starts with [`DiskCache::from_env`]. Each program is one file, written whole and then renamed into its place, so that any
/// number of processes may share a folder. A file is used only if it belongs to the current user, nobody else can write to it, its
/// checksum matches, and it holds this very program for this very device, driver and library. A folder that cannot be used is logged
/// once; programs are then built from source.
///
/// ```
/// use anydnn_opencl::{DiskCache, OpenClEngine};
///
/// for device in anydnn_opencl::devices()? {
///     let engine = OpenClEngine::on_device(&device)?.with_disk_cache(DiskCache::off());
/// #   let _ = engine;
/// }
/// assert_eq!(DiskCache::at("/var/tmp/programs").folder(), Some("/var/tmp/programs".as_ref()));
/// # Ok::<(), anydnn_backend::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskCache {
    folder: Option<PathBuf>,
    max_bytes: u64,
}

impl DiskCache {
    /// What the environment says.
    ///
    /// - `ANYDNN_CACHE`: `0` for no cache on disk.
    /// - `ANYDNN_CACHE_DIR`: the folder; else `anydnn/programs` in the user's folder for caches, `$XDG_CACHE_HOME` or `~/.cache` on
    ///   Linux. There is no cache for a user without such a folder.
    /// - `ANYDNN_CACHE_MAX_BYTES`: the most bytes of all files, 1 GiB if not given.
    pub fn from_env() -> Self {
        Self::from_variables(|name| std::env::var_os(name), dirs::cache_dir)
    }

    /// A folder, which is made when the first program is written.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Some(folder.into()), max_bytes: MAX_BYTES }
    }

    /// No cache on disk.
    pub fn off() -> Self {
        Self { folder: None, max_bytes: MAX_BYTES }
    }

    /// Bounds the bytes of all files. When they exceed it, those that were not used for the longest time are deleted. Files of other
    /// names are left alone.
    pub fn with_max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// The folder; none when there is no cache on disk.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The most bytes of all files.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Whether there is a folder for programs with none in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.folder.as_deref().is_some_and(super::folder::is_empty)
    }

    fn from_variables(
        variable: impl Fn(&str) -> Option<OsString>,
        user_folder: impl Fn() -> Option<PathBuf>,
    ) -> Self {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        if given("ANYDNN_CACHE").is_some_and(|value| value == "0") {
            return Self::off();
        }
        let folder = given("ANYDNN_CACHE_DIR").map(PathBuf::from);
        let folder = folder.or_else(|| user_folder().map(|caches| caches.join("anydnn").join("programs")));
        let max_bytes = given("ANYDNN_CACHE_MAX_BYTES").map_or(MAX_BYTES, |value| {
            let bytes = value.to_str().and_then(|text| text.trim().parse().ok());
            bytes.unwrap_or_else(|| {
                tracing::warn!(?value, "ANYDNN_CACHE_MAX_BYTES is no number of bytes");
                MAX_BYTES
            })
        });
        Self { folder, max_bytes }
    }
}

impl Default for DiskCache {
    fn default() -> Self {
        Self::from_env()
    }
}

/// Everything that an entry depends on.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct EntryKey<'a> {
    pub(super) device: &'a DeviceKey,
    /// The hash of the source.
    pub(super) source: [u8; blake3::OUT_LEN],
    pub(super) options: &'a str,
}

/// A file's body.
#[derive(Deserialize)]
struct Entry<'a> {
    device: DeviceKey,
    source: [u8; blake3::OUT_LEN],
    options: &'a str,
    payload: &'a [u8],
}

/// The entries in a folder.
pub(super) struct Store {
    folder: Folder,
}

impl Store {
    /// The store that is asked for; none when it is off.
    pub(super) fn new(config: DiskCache) -> Option<Self> {
        let max_bytes = config.max_bytes;
        config.folder.map(|path| Self { folder: Folder::new(path, max_bytes) })
    }

    /// An entry's payload, if there is one; the reason if there is one that must not be used.
    pub(super) fn load(&self, key: &EntryKey<'_>) -> Result<Option<Arc<[u8]>>, CacheMiss> {
        let Some(name) = file_name(key) else { return Ok(None) };
        let bytes = match self.folder.read(&name) {
            Found::Nothing => return Ok(None),
            Found::Untrusted(why) => return Err(CacheMiss::Untrusted(why)),
            Found::File(bytes) => bytes,
        };
        let entry: Entry<'_> = frame::open(MAGIC, &bytes)?;
        key.device.accept(&entry.device)?;
        let foreign = |what: &str, given: String, expected: String| {
            Err(CacheMiss::Foreign { what: what.into(), given, expected })
        };
        if entry.options != key.options {
            return foreign("options", format!("{:?}", entry.options), format!("{:?}", key.options));
        }
        if entry.source != key.source {
            return foreign("source's hash", hex(entry.source), hex(key.source));
        }
        if entry.payload.is_empty() {
            return Err(CacheMiss::Malformed("the program is empty".into()));
        }
        Ok(Some(Arc::from(entry.payload)))
    }

    /// Writes an entry. What stands in the way is logged.
    pub(super) fn save(&self, key: &EntryKey<'_>, payload: &[u8]) {
        let body = (key.device, key.source, key.options, payload);
        match (file_name(key), frame::seal(MAGIC, &body)) {
            (Some(name), Ok(bytes)) => self.folder.write(&name, &bytes),
            (_, Err(error)) => tracing::debug!(%error, "a program is not cached"),
            (None, Ok(_)) => {}
        }
    }
}

/// The name of an entry's file: the hash of its key.
fn file_name(key: &EntryKey<'_>) -> Option<String> {
    let bytes = postcard::to_allocvec(key).ok()?;
    Some(format!("{}{}", blake3::hash(&bytes).to_hex(), super::folder::EXTENSION))
}

fn hex(bytes: [u8; blake3::OUT_LEN]) -> String {
    blake3::Hash::from_bytes(bytes).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(variables: &[(&str, &str)], caches: Option<&str>) -> DiskCache {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(*value))
        };
        DiskCache::from_variables(variable, || caches.map(PathBuf::from))
    }

    #[test]
    fn the_environment_chooses_folder_size_and_off() {
        assert_eq!(from(&[], Some("/home/me/.cache")), DiskCache::at("/home/me/.cache/anydnn/programs"));
        assert_eq!(from(&[], None), DiskCache::off());
        let dir = ("ANYDNN_CACHE_DIR", "/fast");
        assert_eq!(from(&[dir], Some("/home/me/.cache")), DiskCache::at("/fast"));
        assert_eq!(from(&[dir], None).folder(), Some(Path::new("/fast")));
        assert_eq!(from(&[("ANYDNN_CACHE_DIR", "")], Some("/c")), DiskCache::at("/c/anydnn/programs"));
        assert_eq!(from(&[dir, ("ANYDNN_CACHE", "0")], Some("/c")), DiskCache::off());
        assert_eq!(from(&[dir, ("ANYDNN_CACHE", "1")], Some("/c")), DiskCache::at("/fast"));
        let sized = from(&[dir, ("ANYDNN_CACHE_MAX_BYTES", "4096")], None);
        assert_eq!(sized, DiskCache::at("/fast").with_max_bytes(4096));
        assert_eq!(from(&[dir, ("ANYDNN_CACHE_MAX_BYTES", "much")], None).max_bytes(), MAX_BYTES);
    }

    #[test]
    fn an_entry_under_the_wrong_name_is_foreign() {
        let scratch = tempfile::tempdir().unwrap();
        let store = Store::new(DiskCache::at(scratch.path().join("programs"))).unwrap();
        let Some(device) = crate::devices().unwrap().into_iter().next() else { return };
        let device = DeviceKey::of(&device).unwrap();
        let key = EntryKey { device: &device, source: [1; 32], options: "-DN=1" };
        assert_eq!(store.load(&key), Ok(None));
        store.save(&key, &[1, 2, 3]);
        assert_eq!(store.load(&key), Ok(Some(Arc::from([1, 2, 3]))));

        let mut newer = device.clone();
        newer.library.push('x');
        let others = [
            ("options", EntryKey { options: "-DN=2", ..key }),
            ("source's hash", EntryKey { source: [2; 32], ..key }),
            ("library version", EntryKey { device: &newer, ..key }),
        ];
        let folder = scratch.path().join("programs");
        for (what, other) in others {
            assert_eq!(store.load(&other), Ok(None));
            std::fs::copy(folder.join(file_name(&key).unwrap()), folder.join(file_name(&other).unwrap()))
                .unwrap();
            let Err(CacheMiss::Foreign { what: named, .. }) = store.load(&other) else { panic!("{what}") };
            assert_eq!(named, what);
        }
        store.save(&key, &[]);
        assert!(matches!(store.load(&key), Err(CacheMiss::Malformed(_))));
    }
}
