//! Intel's CPU runtime for OpenCL, from the Python package index into an environment of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::{run, succeeds};

/// The second package holds libraries that the first one's driver loads and does not declare.
const PACKAGES: [&str; 2] = ["intel-opencl-rt==2026.2.0", "intel-cmplr-lib-rt==2026.2.0"];

/// The driver and one library of each package that it cannot be loaded without.
const LIBRARIES: [&str; 4] = ["libintelocl.so", "libcommon_clang.so", "libimf.so", "libsvml.so"];

/// The driver of the runtime in `cache`, which is installed if it is not there in whole.
pub(crate) fn ensure(cache: &Path) -> Result<PathBuf> {
    let environment = Environment { folder: cache.join("intel-cpu") };
    if environment.is_whole() {
        println!("Intel's CPU runtime is in {}", environment.folder.display());
        return Ok(environment.driver());
    }
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!("Intel's CPU runtime exists for x86-64 Linux only; the tests need it there");
    }
    println!("Installing Intel's CPU runtime into {}: the tests run on it", environment.folder.display());
    environment.install().context("installing Intel's CPU runtime")?;
    Ok(environment.driver())
}

struct Environment {
    folder: PathBuf,
}

impl Environment {
    fn driver(&self) -> PathBuf {
        self.folder.join("lib/libintelocl.so")
    }

    /// Written last, so that an interrupted installation lacks it; names what was installed.
    fn receipt(&self) -> PathBuf {
        self.folder.join("anydnn-installed")
    }

    fn is_whole(&self) -> bool {
        fs::read_to_string(self.receipt()).is_ok_and(|text| text == contents())
            && LIBRARIES.iter().all(|library| self.folder.join("lib").join(library).is_file())
    }

    fn install(&self) -> Result<()> {
        self.remove()?;
        run(Command::new("python3").args(["-m", "venv"]).arg(&self.folder))?;
        let python = self.folder.join("bin/python");
        run(Command::new(python)
            .args(["-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--no-cache-dir"])
            .args(["--progress-bar", "off"])
            .args(PACKAGES))?;
        fs::write(self.receipt(), contents())
            .with_context(|| format!("writing {}", self.receipt().display()))?;
        if !self.is_whole() {
            bail!("{} lacks one of {}", self.folder.join("lib").display(), LIBRARIES.join(", "));
        }
        Ok(())
    }

    fn remove(&self) -> Result<()> {
        if self.folder.exists() {
            println!("{} is incomplete or of another version: removing it", self.folder.display());
            fs::remove_dir_all(&self.folder)
                .with_context(|| format!("removing {}", self.folder.display()))?;
        }
        Ok(())
    }
}

/// Whether Python is there and can make environments; Debian packages the two apart.
pub(crate) fn python_is_ready() -> bool {
    succeeds("python3", &["-c", "import ensurepip, venv"])
}

fn contents() -> String {
    PACKAGES.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(folder: &Path) -> Environment {
        let environment = Environment { folder: folder.join("intel-cpu") };
        fs::create_dir_all(environment.folder.join("lib")).unwrap();
        for library in LIBRARIES {
            fs::write(environment.folder.join("lib").join(library), "").unwrap();
        }
        fs::write(environment.receipt(), contents()).unwrap();
        environment
    }

    #[test]
    fn an_environment_is_whole_with_all_libraries_and_its_receipt() {
        let folder = tempfile::tempdir().unwrap();
        let environment = whole(folder.path());
        assert!(environment.is_whole());
        assert_eq!(ensure(folder.path()).unwrap(), environment.driver());
    }

    #[test]
    fn an_interrupted_installation_is_not_whole() {
        let folder = tempfile::tempdir().unwrap();
        let environment = whole(folder.path());
        fs::remove_file(environment.receipt()).unwrap();
        assert!(!environment.is_whole());
        environment.remove().unwrap();
        assert!(!environment.folder.exists());
        environment.remove().unwrap();
    }

    #[test]
    fn another_version_or_a_missing_library_is_not_whole() {
        let folder = tempfile::tempdir().unwrap();
        let environment = whole(folder.path());
        fs::write(environment.receipt(), "intel-opencl-rt==1\n").unwrap();
        assert!(!environment.is_whole());
        fs::write(environment.receipt(), contents()).unwrap();
        fs::remove_file(environment.folder.join("lib/libimf.so")).unwrap();
        assert!(!environment.is_whole());
    }
}
