//! Vendor files: each names the library of one OpenCL driver, for the loader to find.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The variable that sends the loader to another folder of vendor files.
pub(crate) const VARIABLE: &str = "OCL_ICD_VENDORS";
const SYSTEM: &str = "/etc/OpenCL/vendors";
const INTEL: &str = "anydnn-intel-cpu.icd";

/// The folder in which the loader looks: the one named by the environment, else the system's.
pub(crate) fn folder() -> PathBuf {
    std::env::var_os(VARIABLE).map(PathBuf::from).filter(|path| path.is_dir()).unwrap_or(SYSTEM.into())
}

/// Where a driver was made known.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Registered {
    /// In the loader's folder.
    InPlace,
    /// In another folder, which the environment must name.
    Aside(PathBuf),
}

/// Makes `driver` known to the loader: in `folder` if that can be written to, else in `aside` beside a copy of all that `folder`
/// holds. A file of an earlier run that names another library is rewritten.
pub(crate) fn register(driver: &Path, folder: &Path, aside: &Path) -> Result<Registered> {
    match write_if_other(&folder.join(INTEL), &line(driver)) {
        Ok(()) => return Ok(Registered::InPlace),
        Err(error) => println!("{} cannot be written to ({error})", folder.display()),
    }
    let place = || format!("making vendor files in {}", aside.display());
    copy_vendor_files(folder, aside).with_context(place)?;
    write_if_other(&aside.join(INTEL), &line(driver)).with_context(place)?;
    Ok(Registered::Aside(aside.to_owned()))
}

/// Makes `driver` the only one in `folder`, for a loader that is sent there.
pub(crate) fn alone(driver: &Path, folder: &Path) -> Result<()> {
    let writing = || format!("making a vendor file in {}", folder.display());
    write_if_other(&folder.join("anydnn-alone.icd"), &line(driver)).with_context(writing)
}

/// Makes `to` hold the vendor files of the loader's folder that name a library like `name`, and no others.
pub(crate) fn copy_of(name: &str, to: &Path) -> Result<()> {
    let copying = || format!("copying the vendor file of {name} to {}", to.display());
    fs::create_dir_all(to).with_context(copying)?;
    for path in vendor_files(to).with_context(copying)? {
        fs::remove_file(path).with_context(copying)?;
    }
    let mut found = false;
    for path in vendor_files(&folder()).with_context(copying)? {
        let text = fs::read_to_string(&path).with_context(copying)?;
        if text.contains(name) {
            fs::write(to.join(path.file_name().unwrap_or_default()), text).with_context(copying)?;
            found = true;
        }
    }
    if found { Ok(()) } else { bail!("no vendor file in {} names {name}", folder().display()) }
}

fn line(driver: &Path) -> String {
    format!("{}\n", driver.display())
}

fn write_if_other(path: &Path, text: &str) -> std::io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(path, text)?;
    println!("Wrote {}: the loader finds the driver by it", path.display());
    Ok(())
}

/// Makes `to` hold exactly the vendor files of `from`.
fn copy_vendor_files(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for path in vendor_files(to)? {
        let name = path.file_name().unwrap_or_default();
        if name != INTEL && !from.join(name).exists() {
            fs::remove_file(&path)?;
        }
    }
    for path in vendor_files(from)? {
        write_if_other(&to.join(path.file_name().unwrap_or_default()), &fs::read_to_string(&path)?)?;
    }
    Ok(())
}

fn vendor_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    Ok(paths
        .into_iter()
        .filter(|path| path.is_file() && path.extension().is_some_and(|end| end == "icd"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIVER: &str = "/opt/intel/libintelocl.so";

    fn read(path: PathBuf) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_writable_folder_gets_the_file_and_keeps_the_others() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("pocl.icd"), "libpocl.so").unwrap();
        let aside = home.path().join("aside");
        for _ in 0..2 {
            let registered = register(DRIVER.as_ref(), home.path(), &aside).unwrap();
            assert_eq!(registered, Registered::InPlace);
        }
        assert_eq!(read(home.path().join(INTEL)), format!("{DRIVER}\n"));
        assert_eq!(read(home.path().join("pocl.icd")), "libpocl.so");
        assert!(!aside.exists());
    }

    #[test]
    fn a_driver_alone_has_one_file() {
        let home = tempfile::tempdir().unwrap();
        for driver in ["/old/liboclgrind.so", DRIVER] {
            alone(driver.as_ref(), home.path()).unwrap();
        }
        let files = vendor_files(home.path()).unwrap();
        assert_eq!(files.len(), 1);
        assert_eq!(read(files[0].clone()), format!("{DRIVER}\n"));
    }

    #[test]
    fn a_stale_file_is_rewritten() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(INTEL), "/gone/libintelocl.so\n").unwrap();
        register(DRIVER.as_ref(), home.path(), &home.path().join("aside")).unwrap();
        assert_eq!(read(home.path().join(INTEL)), format!("{DRIVER}\n"));
    }

    #[test]
    fn what_cannot_be_written_to_is_copied_aside() {
        let home = tempfile::tempdir().unwrap();
        let (system, aside) = (home.path().join("system"), home.path().join("made/aside"));
        // A folder in the file's place keeps even root from writing it.
        fs::create_dir_all(system.join(INTEL)).unwrap();
        fs::write(system.join("pocl.icd"), "libpocl.so.2").unwrap();
        let registered = register(DRIVER.as_ref(), &system, &aside).unwrap();
        assert_eq!(registered, Registered::Aside(aside.clone()));
        assert_eq!(read(aside.join(INTEL)), format!("{DRIVER}\n"));
        assert_eq!(read(aside.join("pocl.icd")), "libpocl.so.2");
    }

    #[test]
    fn a_missing_folder_is_no_reason_to_fail() {
        let home = tempfile::tempdir().unwrap();
        let aside = home.path().join("aside");
        let registered = register(DRIVER.as_ref(), &home.path().join("missing"), &aside).unwrap();
        assert_eq!(registered, Registered::Aside(aside.clone()));
        assert_eq!(read(aside.join(INTEL)), format!("{DRIVER}\n"));
    }

    #[test]
    fn no_place_to_write_is_an_error_that_names_it() {
        let home = tempfile::tempdir().unwrap();
        let aside = home.path().join("a-file");
        fs::write(&aside, "").unwrap();
        let error = register(DRIVER.as_ref(), &home.path().join("missing"), &aside).unwrap_err();
        assert!(format!("{error:#}").contains("a-file"), "{error:#}");
    }

    #[test]
    fn a_copy_follows_its_source() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        fs::create_dir_all(&from).unwrap();
        fs::write(from.join("pocl.icd"), "libpocl.so.2").unwrap();
        fs::write(from.join("notes.txt"), "not a vendor file").unwrap();
        copy_vendor_files(&from, &to).unwrap();
        assert_eq!(read(to.join("pocl.icd")), "libpocl.so.2");
        assert!(!to.join("notes.txt").exists());

        fs::remove_file(from.join("pocl.icd")).unwrap();
        fs::write(to.join(INTEL), DRIVER).unwrap();
        copy_vendor_files(&from, &to).unwrap();
        assert!(!to.join("pocl.icd").exists());
        assert_eq!(read(to.join(INTEL)), DRIVER);
    }
}
