//! Makes available what the tests require: OpenCL platforms, a C++ compiler, oneDNN's headers and library, ONNX's node
//! tests, ONNX Runtime, mdbook, and what the Python package is built and tested with.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::vendors::Registered;
use crate::{book, intel, onednn, onnx, packages, platforms, python, vendors, wheel};

/// Environment variables for the programs that use OpenCL.
pub(crate) type Variables = BTreeMap<String, String>;

/// OpenCL as it is after the set-up.
#[derive(Debug)]
pub(crate) struct Ready {
    /// The platforms that were seen.
    pub(crate) platforms: Vec<platforms::Platform>,
    /// What programs need in their environment to see them too.
    pub(crate) variables: Variables,
}

/// Installs what is missing and checks that it is really there. Doing it again changes nothing.
pub(crate) fn setup() -> Result<Ready> {
    let mut ready = platforms()?;
    let cache = cache()?;
    let _lock = lock(&cache)?;
    if !packages::compilers_are_ready() || !python::is_ready() {
        println!("A C++ compiler, OpenCL's headers or Python's venv is missing: installing packages");
        packages::install()?;
    }
    let shared = shared_cache()?;
    ready.variables.extend(onednn::ensure(&shared)?);
    ready.variables.extend(onnx::ensure(&shared)?);
    book::ensure(&shared)?;
    wheel::ensure(&shared)?;
    Ok(ready)
}

/// The two platforms.
fn platforms() -> Result<Ready> {
    let seen = platforms::list(&Variables::new());
    if let Some(ready) = ready(seen.clone(), Variables::new()) {
        return Ok(ready);
    }
    let cache = cache()?;
    let _lock = lock(&cache)?;
    if platforms::find(&seen, platforms::POCL).is_none() || !python::is_ready() {
        println!("PoCL, clinfo or Python's venv is missing: installing packages");
        packages::install()?;
    }
    let mut variables = Variables::new();
    if platforms::find(&platforms::list(&variables), platforms::INTEL_CPU).is_none() {
        let driver = intel::ensure(&cache)?;
        if let Registered::Aside(folder) =
            vendors::register(&driver, &vendors::folder(), &cache.join("vendors"))?
        {
            variables.insert(vendors::VARIABLE.to_owned(), folder.display().to_string());
        }
    }
    let seen = platforms::list(&variables);
    let listing = if seen.is_empty() { "none".to_owned() } else { names(&seen) };
    let Some(ready) = ready(seen, variables) else {
        bail!(
            "after the set-up `clinfo --list` shows {listing}; expected devices of {} and {}; \
             the vendor files in {} may tell why",
            platforms::POCL,
            platforms::INTEL_CPU,
            vendors::folder().display()
        );
    };
    Ok(ready)
}

impl Ready {
    /// The platform that serves `opencl:pocl` or `opencl:intel`.
    pub(crate) fn platform_of(&self, backend: &str) -> Option<&platforms::Platform> {
        let name = match backend {
            "opencl:pocl" => platforms::POCL,
            "opencl:intel" => platforms::INTEL_CPU,
            _ => return None,
        };
        platforms::find(&self.platforms, name)
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenCL is ready: {}", names(&self.platforms))?;
        for (name, value) in &self.variables {
            write!(f, "\nIn your own shell, first: export {name}={value}")?;
        }
        Ok(())
    }
}

fn ready(platforms: Vec<platforms::Platform>, variables: Variables) -> Option<Ready> {
    let ready = Ready { platforms, variables };
    let both = ["opencl:pocl", "opencl:intel"].iter().all(|backend| ready.platform_of(backend).is_some());
    both.then_some(ready)
}

fn names(platforms: &[platforms::Platform]) -> String {
    let name = |platform: &platforms::Platform| match &platform.devices[..] {
        [] => format!("{} (no device)", platform.name),
        devices => format!("{} ({})", platform.name, devices.join(", ")),
    };
    platforms.iter().map(name).collect::<Vec<_>>().join("; ")
}

/// The folder for what is installed outside the repository; it outlives `cargo clean` and serves every clone.
pub(crate) fn cache() -> Result<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(std::env::home_dir()?.join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME names a folder to install into")?;
    let cache = base.join("anydnn/opencl");
    fs::create_dir_all(&cache).with_context(|| format!("making {}", cache.display()))?;
    Ok(cache)
}

/// The folder around [`cache`], for what is not about OpenCL.
pub(crate) fn shared_cache() -> Result<PathBuf> {
    let cache = cache()?;
    Ok(cache.parent().map_or_else(|| cache.clone(), Path::to_owned))
}

/// Keeps a second set-up waiting until this one ends.
fn lock(cache: &Path) -> Result<fs::File> {
    let path = cache.join("lock");
    let locking = || format!("locking {}", path.display());
    let file = fs::File::create(&path).with_context(locking)?;
    if file.try_lock().is_err() {
        println!("Waiting for another set-up");
        file.lock().with_context(locking)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platforms::{INTEL_CPU, POCL, Platform};

    fn platform(name: &str, devices: &[&str]) -> Platform {
        Platform { name: name.to_owned(), devices: devices.iter().map(ToString::to_string).collect() }
    }

    #[test]
    fn ready_means_a_device_of_each_platform() {
        let intel = || platform(INTEL_CPU, &["CPU"]);
        assert!(ready(vec![intel(), platform(POCL, &["pthread"])], Variables::new()).is_some());
        assert!(ready(vec![intel(), platform(POCL, &[])], Variables::new()).is_none());
        assert!(ready(vec![intel()], Variables::new()).is_none());
        assert!(ready(Vec::new(), Variables::new()).is_none());
    }

    #[test]
    fn the_variable_to_export_is_told() {
        let variables = Variables::from([(vendors::VARIABLE.to_owned(), "/a/folder".to_owned())]);
        let platforms = vec![platform(INTEL_CPU, &["CPU"]), platform(POCL, &["pthread"])];
        let text = ready(platforms, variables).unwrap().to_string();
        assert!(text.contains("Portable Computing Language (pthread)"), "{text}");
        assert!(text.contains("export OCL_ICD_VENDORS=/a/folder"), "{text}");
    }

    #[test]
    fn a_lock_holds_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let held = lock(folder.path()).unwrap();
        let other = fs::File::create(folder.path().join("lock")).unwrap();
        assert!(other.try_lock().is_err());
        drop(held);
        assert!(other.try_lock().is_ok());
    }
}
