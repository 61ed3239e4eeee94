//! Builds the shared library, and programs that use it.

#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::unwrap_used, reason = "this is a part of tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A folder that holds the library as programs look for it: `libdnnl.so.3`, and `libdnnl.so` for the linker.
pub(crate) fn library() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = scratch("lib");
        place(&build("anydnn-dnnl", "libdnnl.so"), &folder.join("libdnnl.so.3"));
        let link = folder.join("libdnnl.so");
        if !link.exists() {
            // Another test may make it at the same time.
            let made = std::os::unix::fs::symlink("libdnnl.so.3", &link);
            assert!(made.is_ok() || link.exists(), "{}: {made:?}", link.display());
        }
        folder
    })
}

/// The file of a shared library: in the folder that `ANYDNN_C_LIBRARIES` names, or else built with the profile of the tests.
pub(crate) fn build(package: &str, file: &str) -> PathBuf {
    if let Some(folder) = std::env::var_os("ANYDNN_C_LIBRARIES") {
        return PathBuf::from(folder).join(file);
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = run(Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--message-format=json-render-diagnostics",
            "--package",
            package,
            "--target-dir",
        ])
        .arg(target())
        .current_dir(env!("CARGO_MANIFEST_DIR")));
    let messages: Vec<serde_json::Value> =
        output.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let built = messages
        .iter()
        .filter_map(|message| message["filenames"].as_array())
        .flatten()
        .filter_map(|name| name.as_str().map(PathBuf::from))
        .find(|path| path.file_name().is_some_and(|name| name == file));
    built.unwrap_or_else(|| panic!("cargo built no {file}:\n{output}"))
}

/// Compiles `tests/programs/NAME` against oneDNN's published headers and the library, runs it, and returns what it prints.
/// Without headers the test ends, which is a failure where backends are required.
pub(crate) fn compile_and_run(name: &str) -> Option<String> {
    let include = include()?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name);
    let program = scratch("programs").join(format!("{}.{}", name.replace('.', "-"), std::process::id()));
    let (variable, compiler, standard) = match source.extension().and_then(|e| e.to_str()) {
        Some("c") => ("CC", "cc", "-std=c11"),
        _ => ("CXX", "c++", "-std=c++17"),
    };
    let compiler = std::env::var_os(variable).unwrap_or_else(|| compiler.into());
    run(Command::new(compiler)
        .args([
            standard,
            "-Wall",
            "-Wextra",
            "-Werror",
            "-D_GNU_SOURCE",
            "-DCL_TARGET_OPENCL_VERSION=300",
            "-isystem",
        ])
        .arg(include)
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(library())
        .args(["-ldnnl", "-ldl", "-pthread", "-lm"]));
    let printed = run(Command::new(&program).env("LD_LIBRARY_PATH", library()));
    fs::remove_file(&program).unwrap();
    Some(printed)
}

/// The folder of oneDNN's published headers.
pub(crate) fn include() -> Option<PathBuf> {
    required("ANYDNN_ONEDNN_INCLUDE", "oneDNN's published headers")
}

/// The path that a variable names. Without it the test tells so and ends; where backends are required it fails.
pub(crate) fn required(variable: &str, what: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    if path.is_none() {
        let message = format!("{variable} does not name {what}; `cargo xtask setup` installs them and tells");
        assert!(std::env::var_os("ANYDNN_REQUIRE").is_none(), "{message}");
        eprintln!("NOT TESTED: {message}");
    }
    path
}

/// Runs a command that must succeed; returns what it prints.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// A folder for files of these tests.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let folder = target().join("tmp/c-abi").join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Copies a file in one step, as programs of other tests may have it open.
fn place(from: &Path, to: &Path) {
    let new = to.with_extension(format!("{}.new", std::process::id()));
    fs::copy(from, &new).unwrap();
    fs::rename(&new, to).unwrap();
}

/// Cargo's target folder, which holds this program and a mark of cargo's.
fn target() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists()).unwrap().to_owned()
}
