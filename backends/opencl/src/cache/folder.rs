//! A folder of files that several processes share, none of which trusts the others' files blindly.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// How names of entries end.
pub(super) const EXTENSION: &str = ".program";

/// How names of files that are still being written begin.
const TEMPORARY: &str = ".writing-";

/// When a file that is still being written was left behind by a process that ended.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// Whether a folder has no entries, or is not there.
pub(super) fn is_empty(path: &Path) -> bool {
    let is_entry = |name: &std::ffi::OsStr| name.to_string_lossy().ends_with(EXTENSION);
    match fs::read_dir(path) {
        Ok(mut files) => !files.any(|file| file.is_ok_and(|file| is_entry(&file.file_name()))),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// A folder with a bound on the bytes in it.
pub(super) struct Folder {
    path: PathBuf,
    max_bytes: u64,
    /// Bytes written since the files were last counted; enough to count at the first write.
    uncounted: AtomicU64,
    /// Whether somebody was told already that the folder cannot be used.
    complained: AtomicBool,
}

/// What is under a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    File(Vec<u8>),
    /// Something that must not be used, and why.
    Untrusted(String),
}

impl Folder {
    pub(super) fn new(path: PathBuf, max_bytes: u64) -> Self {
        Self { path, max_bytes, uncounted: AtomicU64::new(u64::MAX / 2), complained: AtomicBool::new(false) }
    }

    /// The file under a name, marked as used now.
    pub(super) fn read(&self, name: &str) -> Found {
        match self.try_read(name) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Nothing,
            Err(error) => {
                self.complain(&error);
                Found::Nothing
            }
        }
    }

    /// Puts a file under a name, in one step for every reader. What stands in the way is logged.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) {
        if bytes.len() as u64 > self.max_bytes {
            tracing::debug!(
                bytes = bytes.len(),
                max_bytes = self.max_bytes,
                "a program is too large to cache"
            );
            return;
        }
        if let Err(error) = self.try_write(name, bytes) {
            self.complain(&error);
            return;
        }
        // Counting takes a look at every file, so it is done once for many writes.
        let written = bytes.len() as u64;
        if self.uncounted.fetch_add(written, Ordering::Relaxed) + written > self.max_bytes / 16 {
            self.uncounted.store(0, Ordering::Relaxed);
            if let Err(error) = self.evict() {
                self.complain(&error);
            }
        }
    }

    fn try_read(&self, name: &str) -> io::Result<Found> {
        self.check()?;
        let mut file = match open(&self.path.join(name)) {
            Err(error) if is_symbolic_link(&error) => {
                return Ok(Found::Untrusted("it is a symbolic link".into()));
            }
            file => file?,
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(Found::Untrusted("it is no plain file".into()));
        }
        if let Err(why) = private(&metadata) {
            return Ok(Found::Untrusted(why));
        }
        if metadata.len() > self.max_bytes {
            return Ok(Found::Untrusted(format!("it has {} bytes", metadata.len())));
        }
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(self.max_bytes).read_to_end(&mut bytes)?;
        // What is not marked is merely evicted sooner.
        let _ = file.set_modified(SystemTime::now());
        Ok(Found::File(bytes))
    }

    fn try_write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        create(&self.path)?;
        self.check()?;
        let mut file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(&self.path)?;
        file.write_all(bytes)?;
        file.persist(self.path.join(name)).map(drop).map_err(|error| error.error)
    }

    /// Checks that nobody else can put files into the folder.
    fn check(&self) -> io::Result<()> {
        private(&fs::metadata(&self.path)?).map_err(io::Error::other)
    }

    /// Deletes what was not used for the longest time until three quarters of the bound are left, and what other processes left
    /// behind. Other processes may do the same at the same time.
    fn evict(&self) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let (name, Ok(metadata)) = (entry.file_name(), entry.metadata()) else { continue };
            let (Some(name), true) = (name.to_str(), metadata.is_file()) else { continue };
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if name.starts_with(TEMPORARY) && used.elapsed().is_ok_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(entry.path());
            } else if is_entry(name) {
                files.push((used, metadata.len(), entry.path()));
            }
        }
        let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        if total <= self.max_bytes {
            return Ok(());
        }
        files.sort_unstable();
        for (_, bytes, path) in files {
            if total <= self.max_bytes / 4 * 3 {
                break;
            }
            tracing::debug!(path = %path.display(), bytes, "evicted");
            // One that is gone already was another process's to delete.
            let _ = fs::remove_file(path);
            total -= bytes;
        }
        Ok(())
    }

    fn complain(&self, error: &io::Error) {
        if !self.complained.swap(true, Ordering::Relaxed) {
            tracing::warn!(folder = %self.path.display(), %error, "compiled programs are not cached on disk");
        }
    }
}

/// Whether a name is one that this cache gives.
fn is_entry(name: &str) -> bool {
    let hash = name.strip_suffix(EXTENSION).unwrap_or_default();
    hash.len() == 2 * blake3::OUT_LEN && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Opens a file to read, but no symbolic link, and without waiting for whoever would write to a pipe.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOFOLLOW | libc::O_NONBLOCK);
    options.open(path)
}

/// Makes a folder, for the current user alone.
fn create(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(unix)]
fn is_symbolic_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

#[cfg(not(unix))]
fn is_symbolic_link(_error: &io::Error) -> bool {
    false
}

/// Checks that a file or folder is the current user's and that not everybody can write to it.
#[cfg(unix)]
fn private(metadata: &Metadata) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    // SAFETY: the call has no preconditions.
    let user = unsafe { libc::geteuid() };
    is_private(metadata.uid(), metadata.mode(), user)
}

#[cfg(not(unix))]
fn private(_metadata: &Metadata) -> Result<(), String> {
    Ok(())
}

#[cfg(unix)]
fn is_private(owner: u32, mode: u32, user: u32) -> Result<(), String> {
    const WRITABLE_BY_OTHERS: u32 = 0o002;
    if owner != user {
        return Err(format!("it belongs to user {owner}, expected {user}"));
    }
    if mode & WRITABLE_BY_OTHERS != 0 {
        return Err(format!("everybody can write to it (mode {:o})", mode & 0o7777));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: u8) -> String {
        format!("{}{EXTENSION}", blake3::hash(&[n]).to_hex())
    }

    fn names(path: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn used(folder: &Folder, name: &str, seconds_ago: u64) {
        let file = File::options().write(true).open(folder.path.join(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds_ago)).unwrap();
    }

    #[test]
    fn a_folder_is_empty_without_entries() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("programs");
        assert!(is_empty(&path));
        let folder = Folder::new(path.clone(), 1000);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("notes.txt"), "not one").unwrap();
        assert!(is_empty(&path));
        folder.write(&name(0), &[1]);
        assert!(!is_empty(&path));
        assert!(!is_empty(&path.join("notes.txt")), "nothing is known of what is no folder");
    }

    #[test]
    fn the_least_recently_used_make_room() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Folder::new(scratch.path().join("deep/programs"), 1000);
        for n in 0..3 {
            folder.write(&name(n), &[n; 300]);
            used(&folder, &name(n), 1000 - u64::from(n));
        }
        fs::write(folder.path.join("notes.txt"), [0; 5000]).unwrap();
        fs::create_dir(folder.path.join(name(9))).unwrap();
        fs::write(folder.path.join(".writing-long-ago"), [0; 10]).unwrap();
        used(&folder, ".writing-long-ago", 2 * 3600);
        fs::write(folder.path.join(".writing-now"), [0; 10]).unwrap();
        // Used now, so the next one goes in its place.
        assert_eq!(folder.read(&name(0)), Found::File(vec![0; 300]));
        folder.write(&name(3), &[3; 300]);
        let mut left = vec![".writing-now".to_owned(), name(0), name(3), name(9), "notes.txt".into()];
        left.sort();
        assert_eq!(names(&folder.path), left);
        assert_eq!(folder.read(&name(1)), Found::Nothing);
        folder.write(&name(4), &[4; 1001]);
        assert_eq!(folder.read(&name(4)), Found::Nothing, "larger than the bound");
        for n in 10..60 {
            folder.write(&name(n), &[n; 100]);
            let entries = names(&folder.path).into_iter().filter(|name| name.ends_with(EXTENSION));
            let files =
                entries.map(|name| fs::metadata(folder.path.join(name)).unwrap()).filter(Metadata::is_file);
            assert!(files.map(|file| file.len()).sum::<u64>() <= 1000);
        }
    }

    #[cfg(unix)]
    #[test]
    fn files_are_private_and_nothing_else_is_read() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let scratch = tempfile::tempdir().unwrap();
        let folder = Folder::new(scratch.path().join("programs"), 1000);
        folder.write(&name(0), b"private");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let path = folder.path.join(name(0));
        assert_eq!((mode(&folder.path), mode(&path)), (0o700, 0o600));
        assert_eq!(folder.read(&name(0)), Found::File(b"private".into()));

        symlink(&path, folder.path.join(name(1))).unwrap();
        fs::create_dir(folder.path.join(name(2))).unwrap();
        let pipe = std::ffi::CString::new(folder.path.join(name(3)).to_str().unwrap()).unwrap();
        // SAFETY: the path is a live string that ends with NUL.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        let untrusted = |name: &str| matches!(folder.read(name), Found::Untrusted(_));
        assert!([1, 2, 3].iter().all(|n| untrusted(&name(*n))));
        // Links are replaced, not followed.
        folder.write(&name(1), b"mine");
        assert_eq!(folder.read(&name(1)), Found::File(b"mine".into()));
        assert_eq!(folder.read(&name(0)), Found::File(b"private".into()));
        // Folders stay.
        folder.write(&name(2), b"mine");
        assert!(untrusted(&name(2)));

        fs::set_permissions(&path, fs::Permissions::from_mode(0o602)).unwrap();
        assert!(untrusted(&name(0)));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(&folder.path, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(folder.read(&name(0)), Found::Nothing, "everybody can write to the folder");
        let before = names(&folder.path);
        folder.write(&name(5), b"mine");
        assert_eq!(names(&folder.path), before);
        assert!(is_private(1000, 0o644, 1000).is_ok());
        assert!(is_private(1001, 0o600, 1000).is_err());
        assert!(is_private(0, 0o600, 1000).is_err());
    }

    #[test]
    fn a_folder_that_cannot_be_is_no_error() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("file"), b"in the way").unwrap();
        for path in [scratch.path().join("file"), scratch.path().join("file/programs")] {
            let folder = Folder::new(path, 1000);
            folder.write(&name(0), b"lost");
            assert_eq!(folder.read(&name(0)), Found::Nothing);
            assert!(folder.complained.load(Ordering::Relaxed));
        }
        assert_eq!(fs::read(scratch.path().join("file")).unwrap(), b"in the way");
    }
}
