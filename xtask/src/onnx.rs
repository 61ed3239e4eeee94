//! What sessions are compared with, from the Python package index: the node tests of the `onnx` package, models with inputs and the
//! outputs that are expected of them; and ONNX Runtime.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::python::Environment;
use crate::setup::Variables;

/// The package; newer ones do not carry the tests.
const PACKAGE: &str = "onnx==1.22.0";
/// Where the tests lie in it.
const TESTS: &str = "package/onnx/backend/test/data";
/// ONNX Runtime and what it needs, in the folder where `anydnn bench` has them.
const PEER: &str = include_str!("../../cli/src/bench/peers/packages/onnxruntime.txt");

/// What tests need in their environment to find both in `cache`, which are installed if they are not there.
pub(crate) fn ensure(cache: &Path) -> Result<Variables> {
    let (tests, peer) = (cache.join("onnx"), cache.join("peers/onnxruntime"));
    node_tests(&tests).ensure("ONNX's node tests")?;
    onnx_runtime(&peer).ensure("ONNX Runtime, which models are compared with,")?;
    let path = |path: PathBuf| path.display().to_string();
    Ok(Variables::from([
        ("ANYDNN_ONNX_TESTS".to_owned(), path(data(cache))),
        ("ANYDNN_PEER_PYTHON".to_owned(), path(peer.join("bin/python"))),
    ]))
}

/// The folder of the node tests' data in `cache`.
pub(crate) fn data(cache: &Path) -> PathBuf {
    cache.join("onnx").join(TESTS)
}

fn node_tests(folder: &Path) -> Environment<'_> {
    Environment {
        folder,
        packages: PACKAGE,
        needed: &["package/onnx/backend/test/data/node/test_abs/model.onnx"],
        options: &["--no-deps"],
        // The tests are files; nothing of the package is executed.
        aside: Some("package"),
    }
}

fn onnx_runtime(folder: &Path) -> Environment<'_> {
    Environment { folder, packages: PEER, needed: &["bin/python"], options: &[], aside: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::python::pretend;

    #[test]
    fn tests_are_told_where_both_are() {
        let cache = tempfile::tempdir().unwrap();
        pretend(&node_tests(&cache.path().join("onnx")));
        pretend(&onnx_runtime(&cache.path().join("peers/onnxruntime")));
        let variables = ensure(cache.path()).unwrap();
        assert!(variables["ANYDNN_ONNX_TESTS"].ends_with(TESTS));
        assert!(variables["ANYDNN_PEER_PYTHON"].ends_with("peers/onnxruntime/bin/python"));
    }
}
