//! oneDNN's published headers and its library, from the Python package index: programs of the C ABI's tests are compiled against the
//! headers, and descriptors are compared with the library's.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::python::Environment;
use crate::setup::Variables;

/// The headers, the library, and what the library loads; `anydnn bench` installs the same.
const PACKAGES: &str = include_str!("../../cli/src/bench/peers/packages/onednn.txt");

const HEADER: &str = "include/oneapi/dnnl/dnnl.h";
const LIBRARY: &str = "lib/libdnnl.so.3";

/// What tests need in their environment to find the headers and the library in `cache`, which are installed if they are not there.
pub(crate) fn ensure(cache: &Path) -> Result<Variables> {
    let folder = cache.join("onednn");
    environment(&folder).ensure("oneDNN's headers and library, which the tests compare with,")?;
    Ok(variables(&folder))
}

fn variables(folder: &Path) -> Variables {
    let path = |end: PathBuf| end.display().to_string();
    Variables::from([
        ("ANYDNN_ONEDNN_INCLUDE".to_owned(), path(folder.join("include"))),
        ("ANYDNN_ONEDNN_LIBRARY".to_owned(), path(folder.join(LIBRARY))),
    ])
}

fn environment(folder: &Path) -> Environment<'_> {
    Environment {
        folder,
        packages: PACKAGES,
        needed: &[HEADER, LIBRARY],
        // The dependencies are listed above; others are for computing, which is not done here.
        options: &["--no-deps"],
        aside: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_told_where_headers_and_library_are() {
        let cache = tempfile::tempdir().unwrap();
        crate::python::pretend(&environment(&cache.path().join("onednn")));
        let variables = ensure(cache.path()).unwrap();
        assert!(variables["ANYDNN_ONEDNN_INCLUDE"].ends_with("onednn/include"));
        assert!(variables["ANYDNN_ONEDNN_LIBRARY"].ends_with("onednn/lib/libdnnl.so.3"));
    }
}
