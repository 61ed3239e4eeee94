//! oneDNN's published headers and its library, from the Python package index: programs of the C ABI's tests are compiled against the
//! headers, and descriptors are compared with the library's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::run;
use crate::setup::Variables;

/// The headers, the library, and what the library loads; `anydnn bench` installs the same.
const PACKAGES: &str = include_str!("../../cli/src/bench/peers/packages/onednn.txt");

const HEADER: &str = "include/oneapi/dnnl/dnnl.h";
const LIBRARY: &str = "lib/libdnnl.so.3";
/// Written last, so that an interrupted installation lacks it; names what was installed.
const RECEIPT: &str = "anydnn-installed";

/// What tests need in their environment to find the headers and the library in `cache`, which are installed if they are not there.
pub(crate) fn ensure(cache: &Path) -> Result<Variables> {
    let folder = cache.join("onednn");
    if !is_whole(&folder) {
        println!(
            "Installing oneDNN's headers and library into {}: the tests compare with them",
            folder.display()
        );
        install(&folder).context("installing oneDNN's headers and library")?;
    }
    Ok(variables(&folder))
}

fn variables(folder: &Path) -> Variables {
    let path = |end: PathBuf| end.display().to_string();
    Variables::from([
        ("ANYDNN_ONEDNN_INCLUDE".to_owned(), path(folder.join("include"))),
        ("ANYDNN_ONEDNN_LIBRARY".to_owned(), path(folder.join(LIBRARY))),
    ])
}

fn is_whole(folder: &Path) -> bool {
    fs::read_to_string(folder.join(RECEIPT)).is_ok_and(|text| text == receipt())
        && [HEADER, LIBRARY].iter().all(|file| folder.join(file).is_file())
}

/// What an installation of these packages says of itself.
fn receipt() -> &'static str {
    PACKAGES.trim_end()
}

fn install(folder: &Path) -> Result<()> {
    if folder.exists() {
        println!("{} is incomplete or of another version: removing it", folder.display());
        fs::remove_dir_all(folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    run(Command::new(folder.join("bin/python"))
        .args(["-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--no-cache-dir"])
        // The dependencies are listed above; others are for computing, which is not done here.
        .args(["--progress-bar", "off", "--no-deps"])
        .args(PACKAGES.lines()))?;
    fs::write(folder.join(RECEIPT), receipt())
        .with_context(|| format!("writing {}", folder.join(RECEIPT).display()))?;
    if !is_whole(folder) {
        bail!("{} lacks {HEADER} or {LIBRARY}", folder.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installation_is_whole_with_its_files_and_its_receipt() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("onednn");
        for file in [HEADER, LIBRARY] {
            assert!(!is_whole(&folder));
            fs::create_dir_all(folder.join(file).parent().unwrap()).unwrap();
            fs::write(folder.join(file), "").unwrap();
        }
        assert!(!is_whole(&folder));
        fs::write(folder.join(RECEIPT), receipt()).unwrap();
        let variables = ensure(cache.path()).unwrap();
        assert!(variables["ANYDNN_ONEDNN_INCLUDE"].ends_with("onednn/include"));
        assert!(variables["ANYDNN_ONEDNN_LIBRARY"].ends_with("onednn/lib/libdnnl.so.3"));
        fs::write(folder.join(RECEIPT), "onednn==1\n").unwrap();
        assert!(!is_whole(&folder));
    }
}
