//! Intel's CPU runtime for OpenCL, from the Python package index into an environment of its own.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::python::Environment;

/// The second package holds libraries that the first one's driver loads and does not declare.
const PACKAGES: &str = "intel-opencl-rt==2026.2.0\nintel-cmplr-lib-rt==2026.2.0";

const DRIVER: &str = "lib/libintelocl.so";
/// The driver and one library of each package that it cannot be loaded without.
const LIBRARIES: [&str; 4] = [DRIVER, "lib/libcommon_clang.so", "lib/libimf.so", "lib/libsvml.so"];

/// The driver of the runtime in `cache`, which is installed if it is not there in whole.
pub(crate) fn ensure(cache: &Path) -> Result<PathBuf> {
    let folder = cache.join("intel-cpu");
    let environment = environment(&folder);
    if environment.is_whole() {
        println!("Intel's CPU runtime is in {}", folder.display());
    } else if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!("Intel's CPU runtime exists for x86-64 Linux only; the tests need it there");
    }
    environment.ensure("Intel's CPU runtime, which the tests run on,")?;
    Ok(folder.join(DRIVER))
}

fn environment(folder: &Path) -> Environment<'_> {
    Environment { folder, packages: PACKAGES, needed: &LIBRARIES, options: &[], aside: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_of_a_whole_environment_is_told() {
        let cache = tempfile::tempdir().unwrap();
        crate::python::pretend(&environment(&cache.path().join("intel-cpu")));
        assert!(ensure(cache.path()).unwrap().ends_with("intel-cpu/lib/libintelocl.so"));
    }
}
