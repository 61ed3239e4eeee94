//! Lets the feature `ocl-core` link where OpenCL's loader is installed without its development package.
//!
//! `cl-sys`, below `ocl-core`, links `-lOpenCL`. The file of that name belongs to the development package; the loader itself is
//! `libOpenCL.so.1`. So a link of the missing name is made in the build folder, which Cargo puts on the search path of whatever links this crate.

use std::io;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let native = env::var_os("HOST") == env::var_os("TARGET");
    if env::var_os("CARGO_FEATURE_OCL_CORE").is_none() || !native || !cfg!(target_os = "linux") {
        return Ok(());
    }
    let Some(library) = find() else {
        println!(
            "cargo::warning=the feature ocl-core links OpenCL's loader, and there is no libOpenCL.so.1 in the \
             system's folders (Debian: ocl-icd-libopencl1)"
        );
        return Ok(());
    };
    let folder = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    link(&library, &folder.join("libOpenCL.so"))?;
    println!("cargo::rerun-if-changed={}", library.display());
    println!("cargo::rustc-link-search=native={}", folder.display());
    Ok(())
}

/// The loader in the folders where systems keep their libraries.
fn find() -> Option<PathBuf> {
    let multiarch = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
    let folders = ["/usr/local/lib", &multiarch, "/usr/lib64", "/usr/lib", "/lib64", "/lib"];
    let files = folders
        .iter()
        .flat_map(|folder| ["libOpenCL.so.1", "libOpenCL.so"].map(|name| Path::new(folder).join(name)));
    files.into_iter().find(|path| path.exists())
}

/// Makes `name` lead to `library`.
#[cfg(unix)]
fn link(library: &Path, name: &Path) -> io::Result<()> {
    match fs::remove_file(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::os::unix::fs::symlink(library, name)
}

#[cfg(not(unix))]
fn link(library: &Path, name: &Path) -> io::Result<()> {
    fs::copy(library, name).map(drop)
}
