//! The node tests of the `onnx` package, from the Python package index: models with inputs and the outputs that are expected of them.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::run;
use crate::setup::Variables;

/// The package; newer ones do not carry the tests.
const PACKAGE: &str = "onnx==1.22.0";
/// Where the tests lie in it.
const TESTS: &str = "package/onnx/backend/test/data";
/// Written last, so that an interrupted installation lacks it; names what was installed.
const RECEIPT: &str = "anydnn-installed";

/// What tests need in their environment to find the node tests in `cache`, which are installed if they are not there.
pub(crate) fn ensure(cache: &Path) -> Result<Variables> {
    let folder = cache.join("onnx");
    if !is_whole(&folder) {
        println!("Installing ONNX's node tests into {}: sessions are compared with them", folder.display());
        install(&folder).context("installing ONNX's node tests")?;
    }
    let tests = folder.join(TESTS).display().to_string();
    Ok(Variables::from([("ANYDNN_ONNX_TESTS".to_owned(), tests)]))
}

fn is_whole(folder: &Path) -> bool {
    fs::read_to_string(folder.join(RECEIPT)).is_ok_and(|text| text == PACKAGE)
        && folder.join(TESTS).join("node").is_dir()
}

fn install(folder: &Path) -> Result<()> {
    if folder.exists() {
        println!("{} is incomplete or of another version: removing it", folder.display());
        fs::remove_dir_all(folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    run(Command::new(folder.join("bin/python"))
        .args(["-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--no-cache-dir"])
        // The tests are files; nothing of the package is executed.
        .args(["--progress-bar", "off", "--no-deps", "--no-compile", "--target"])
        .arg(folder.join("package"))
        .arg(PACKAGE))?;
    fs::write(folder.join(RECEIPT), PACKAGE)
        .with_context(|| format!("writing {}", folder.join(RECEIPT).display()))?;
    if !is_whole(folder) {
        bail!("{} lacks {TESTS}/node", folder.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installation_is_whole_with_its_tests_and_its_receipt() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("onnx");
        fs::create_dir_all(folder.join(TESTS).join("node")).unwrap();
        assert!(!is_whole(&folder));
        fs::write(folder.join(RECEIPT), PACKAGE).unwrap();
        assert!(ensure(cache.path()).unwrap()["ANYDNN_ONNX_TESTS"].ends_with(TESTS));
        fs::write(folder.join(RECEIPT), "onnx==1").unwrap();
        assert!(!is_whole(&folder));
    }
}
