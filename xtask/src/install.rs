//! Lays the C libraries out under a prefix, as a C program's build expects them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::command::{cargo, root, run};
use crate::header;

/// A library: cargo's package, its file, the files of the installation from the loaded one to the linked one, its pkg-config name.
struct Library {
    package: &'static str,
    built: &'static str,
    files: [&'static str; 2],
    name: &'static str,
    version: &'static str,
    description: &'static str,
}

const LIBRARIES: [Library; 2] = [
    Library {
        package: "anydnn-dnnl",
        built: "libdnnl.so",
        files: ["libdnnl.so.3", "libdnnl.so"],
        name: "dnnl",
        // Of the API.
        version: "3.13.2",
        description: "oneDNN's C API on any OpenCL device, by anydnn",
    },
    Library {
        package: "anydnn-shared",
        built: "libanydnn.so",
        files: ["libanydnn.so.0", "libanydnn.so"],
        name: "anydnn",
        version: env!("CARGO_PKG_VERSION"),
        description: "Deep-learning primitives on any OpenCL device",
    },
];

/// Builds the libraries for release and installs them with the header and the pkg-config files under `prefix`.
pub(crate) fn install(prefix: &Path) -> Result<()> {
    let target = root().join("target/install");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(target, PathBuf::from);
    let mut build = cargo();
    build.args(["build", "--release", "--target-dir"]).arg(&target).current_dir(root());
    for library in &LIBRARIES {
        build.args(["--package", library.package]);
    }
    run(&mut build)?;
    lay_out(&target.join("release"), prefix)?;
    println!("installed into {}", prefix.display());
    Ok(())
}

fn lay_out(built: &Path, prefix: &Path) -> Result<()> {
    fs::create_dir_all(prefix).with_context(|| format!("making {}", prefix.display()))?;
    let prefix = prefix.canonicalize().with_context(|| format!("finding {}", prefix.display()))?;
    let (lib, include, pkgconfig) =
        (prefix.join("lib"), prefix.join("include"), prefix.join("lib/pkgconfig"));
    for folder in [&include, &pkgconfig] {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    copy(&header::path(), &include.join("anydnn.h"))?;
    for library in &LIBRARIES {
        let [loaded, linked] = library.files.map(|file| lib.join(file));
        copy(&built.join(library.built), &loaded)?;
        match fs::remove_file(&linked) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("replacing {}", linked.display()));
            }
            _ => {
                symlink(library.files[0], &linked)
                    .with_context(|| format!("linking {}", linked.display()))?;
            }
        }
        let file = pkgconfig.join(format!("{}.pc", library.name));
        fs::write(&file, library.pkgconfig(&prefix))
            .with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}

impl Library {
    fn pkgconfig(&self, prefix: &Path) -> String {
        format!(
            "prefix={}\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\n\
             Name: {}\nDescription: {}\nVersion: {}\nLibs: -L${{libdir}} -l{}\nCflags: -I${{includedir}}\n",
            prefix.display(),
            self.name,
            self.description,
            self.version,
            self.name
        )
    }
}

/// Replaces the file in one step, as programs may have it open.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let new = to.with_extension("new");
    fs::copy(from, &new)
        .and_then(|_| fs::rename(&new, to))
        .with_context(|| format!("copying {} to {}", from.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_where_a_build_looks_for_them() {
        let folder = tempfile::tempdir().unwrap();
        let (built, prefix) = (folder.path().join("built"), folder.path().join("prefix"));
        fs::create_dir_all(&built).unwrap();
        for library in &LIBRARIES {
            fs::write(built.join(library.built), library.name).unwrap();
        }
        // Doing it again replaces what is there.
        for _ in 0..2 {
            lay_out(&built, &prefix).unwrap();
        }
        assert_eq!(fs::read_to_string(prefix.join("lib/libdnnl.so")).unwrap(), "dnnl");
        assert_eq!(fs::read_link(prefix.join("lib/libdnnl.so")).unwrap(), Path::new("libdnnl.so.3"));
        assert_eq!(fs::read_link(prefix.join("lib/libanydnn.so")).unwrap(), Path::new("libanydnn.so.0"));
        assert!(prefix.join("include/anydnn.h").is_file());
        let file = fs::read_to_string(prefix.join("lib/pkgconfig/dnnl.pc")).unwrap();
        assert!(file.contains("Libs: -L${libdir} -ldnnl\n") && file.contains("Version: 3.13.2\n"), "{file}");
        assert!(prefix.join("lib/pkgconfig/anydnn.pc").is_file());
    }
}
