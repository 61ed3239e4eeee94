//! Why there is no OpenCL, or less of it than expected.

use std::fmt;
use std::path::{Path, PathBuf};

use anydnn_backend::{Error, Result};

use crate::driver::platform::{OpenClDevice, platforms};

/// Looks for devices and for reasons why a driver is missing. Loads every driver that the vendors folder names.
pub fn availability() -> Availability {
    let mut found = Availability { devices: Vec::new(), problems: Vec::new() };
    if let Err(cause) = cl3::load_library() {
        found.problems.push(Problem::NoLibrary { cause: cause.to_string() });
        return found;
    }
    match platforms() {
        Err(error) => {
            found.problems.push(Problem::Platform { name: "OpenCL".into(), cause: error.to_string() });
        }
        Ok(platforms) => {
            for platform in platforms {
                match platform.devices() {
                    Ok(devices) if devices.is_empty() => {
                        found.problems.push(Problem::NoDevices { platform: platform.name });
                    }
                    Ok(devices) => found.devices.extend(devices),
                    Err(error) => found
                        .problems
                        .push(Problem::Platform { name: platform.name, cause: error.to_string() }),
                }
            }
        }
    }
    if cfg!(unix) {
        found.problems.extend(vendor_problems(&vendors_folder()));
    }
    found
}

/// The devices there are and what stood in the way of others, made by [`availability`].
#[derive(Clone, Debug)]
pub struct Availability {
    /// The devices.
    pub devices: Vec<OpenClDevice>,
    /// What is wrong with the installation.
    pub problems: Vec<Problem>,
}

impl Availability {
    /// The devices.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with every problem found when there is no device.
    pub fn into_devices(self) -> Result<Vec<OpenClDevice>> {
        if self.devices.is_empty() {
            Err(Error::unavailable("OpenCL", self.reason()))
        } else {
            Ok(self.devices)
        }
    }

    /// Every problem in words.
    pub fn reason(&self) -> String {
        if self.problems.is_empty() {
            return if self.devices.is_empty() { "no platform has a device" } else { "nothing is wrong" }
                .into();
        }
        self.problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; ")
    }
}

/// One thing that is wrong with an OpenCL installation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// There is no OpenCL library (the loader).
    NoLibrary {
        /// The system's word on it.
        cause: String,
    },
    /// The folder where drivers register is missing or names no driver.
    NoVendors {
        /// The folder.
        folder: PathBuf,
    },
    /// A registered driver's library cannot be loaded.
    BrokenVendor {
        /// The entry in the vendors folder.
        entry: PathBuf,
        /// The library that it names.
        library: String,
        /// The system's word on it.
        cause: String,
    },
    /// A platform fails.
    Platform {
        /// The platform's name.
        name: String,
        /// Its error.
        cause: String,
    },
    /// A platform has no device.
    NoDevices {
        /// The platform's name.
        platform: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLibrary { cause } => write!(
                f,
                "no OpenCL library could be loaded ({cause}); install an OpenCL loader (ocl-icd), or name one in OPENCL_DYLIB_PATH"
            ),
            Self::NoVendors { folder } => {
                write!(f, "no driver is registered in {}; install one, such as PoCL", folder.display())
            }
            Self::BrokenVendor { entry, library, cause } => {
                write!(f, "{} names {library:?}, which cannot be loaded ({cause})", entry.display())
            }
            Self::Platform { name, cause } => write!(f, "platform {name:?} fails ({cause})"),
            Self::NoDevices { platform } => write!(f, "platform {platform:?} has no device"),
        }
    }
}

/// Where drivers register: `OCL_ICD_VENDORS`, or else `OPENCL_VENDOR_PATH`, or else the system's folder.
fn vendors_folder() -> PathBuf {
    ["OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH"]
        .iter()
        .find_map(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
        .map_or_else(|| PathBuf::from("/etc/OpenCL/vendors"), PathBuf::from)
}

/// The entries of a vendors folder (or a single entry) whose library cannot be loaded.
fn vendor_problems(vendors: &Path) -> Vec<Problem> {
    let is_entry = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "icd");
    let mut entries: Vec<PathBuf> = if vendors.is_file() {
        vec![vendors.to_owned()]
    } else {
        let files = std::fs::read_dir(vendors).into_iter().flatten();
        files.filter_map(|file| Some(file.ok()?.path())).filter(is_entry).collect()
    };
    if entries.is_empty() {
        return vec![Problem::NoVendors { folder: vendors.to_owned() }];
    }
    entries.sort();
    entries.into_iter().filter_map(vendor_problem).collect()
}

fn vendor_problem(entry: PathBuf) -> Option<Problem> {
    let text = match std::fs::read_to_string(&entry) {
        Ok(text) => text,
        Err(cause) => {
            return Some(Problem::BrokenVendor { entry, library: String::new(), cause: cause.to_string() });
        }
    };
    let library = text.lines().next().unwrap_or_default().trim().to_owned();
    match dlopen2::raw::Library::open(&library) {
        Ok(loaded) => {
            // Drivers do not expect to be unloaded.
            std::mem::forget(loaded);
            None
        }
        Err(cause) => Some(Problem::BrokenVendor { entry, library, cause: cause.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_entry_is_reported_with_its_library() {
        let folder = std::env::temp_dir().join(format!("anydnn-vendors-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert_eq!(vendor_problems(&folder), [Problem::NoVendors { folder: folder.clone() }]);
        std::fs::write(folder.join("broken.icd"), "/nonexistent/libbroken.so\n").unwrap();
        std::fs::write(folder.join("ignored.txt"), "/nonexistent/libother.so\n").unwrap();
        let problems = vendor_problems(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        let [Problem::BrokenVendor { entry, library, .. }] = &problems[..] else { panic!("{problems:?}") };
        assert!(entry.ends_with("broken.icd"));
        assert_eq!(library, "/nonexistent/libbroken.so");
    }
}
