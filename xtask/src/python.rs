//! Environments of packages from the Python package index, made once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::{run, succeeds};

/// Written last, so that an interrupted installation lacks it; names what was installed.
const RECEIPT: &str = "anydnn-installed";

/// A virtual environment with packages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Environment<'a> {
    pub(crate) folder: &'a Path,
    /// Names with versions, a line each.
    pub(crate) packages: &'a str,
    /// Files and folders that an installation cannot do without, within the folder.
    pub(crate) needed: &'a [&'a str],
    /// More options of `pip install`.
    pub(crate) options: &'a [&'a str],
    /// Where packages go, within the folder, if they are not to be executed.
    pub(crate) aside: Option<&'a str>,
}

impl Environment<'_> {
    /// Installs the packages if they are not there in whole; `what` says what for.
    pub(crate) fn ensure(&self, what: &str) -> Result<()> {
        if self.is_whole() {
            return Ok(());
        }
        println!("Installing {what} into {}", self.folder.display());
        self.install().with_context(|| format!("installing {what}"))
    }

    pub(crate) fn is_whole(&self) -> bool {
        fs::read_to_string(self.receipt()).is_ok_and(|text| text == self.contents())
            && self.needed.iter().all(|file| self.folder.join(file).exists())
    }

    fn install(&self) -> Result<()> {
        if self.folder.exists() {
            println!("{} is incomplete or of another version: removing it", self.folder.display());
            fs::remove_dir_all(self.folder).with_context(|| format!("removing {}", self.folder.display()))?;
        }
        run(Command::new("python3").args(["-m", "venv"]).arg(self.folder))?;
        let aside = self.aside.map(|aside| self.folder.join(aside));
        let aside = aside.iter().flat_map(|aside| ["--no-compile".into(), "--target".into(), aside.clone()]);
        run(Command::new(self.folder.join("bin/python"))
            .args(["-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--no-cache-dir"])
            .args(["--progress-bar", "off"])
            .args(self.options)
            .args(aside)
            .args(self.contents().lines()))?;
        fs::write(self.receipt(), self.contents())
            .with_context(|| format!("writing {}", self.receipt().display()))?;
        if !self.is_whole() {
            bail!("{} lacks one of {}", self.folder.display(), self.needed.join(", "));
        }
        Ok(())
    }

    fn receipt(&self) -> PathBuf {
        self.folder.join(RECEIPT)
    }

    /// What an installation of these packages says of itself.
    fn contents(&self) -> String {
        self.packages.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    }
}

/// Whether Python is there and can make environments; Debian packages the two apart.
pub(crate) fn is_ready() -> bool {
    succeeds("python3", &["-c", "import ensurepip, venv"])
}

/// Lays out what an installation has, without installing.
#[cfg(test)]
pub(crate) fn pretend(environment: &Environment<'_>) {
    for file in environment.needed {
        let file = environment.folder.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "").unwrap();
    }
    fs::write(environment.receipt(), environment.contents()).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_whole_with_its_files_and_its_receipt() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("own");
        let environment = Environment {
            folder: &folder,
            packages: "one==1\ntwo==2\n",
            needed: &["lib/libone.so", "bin/two"],
            options: &[],
            aside: None,
        };
        assert!(!environment.is_whole());
        pretend(&environment);
        assert!(environment.is_whole());
        environment.ensure("nothing").unwrap();
        // Another version, a missing file and an interrupted installation.
        assert!(!Environment { packages: "one==2\ntwo==2\n", ..environment }.is_whole());
        assert!(!Environment { needed: &["lib/libthree.so"], ..environment }.is_whole());
        fs::remove_file(folder.join("bin/two")).unwrap();
        assert!(!environment.is_whole());
        fs::write(folder.join("bin/two"), "").unwrap();
        fs::remove_file(folder.join(RECEIPT)).unwrap();
        assert!(!environment.is_whole());
    }
}
