//! The Python package: its wheel, installed into a folder of the build, and its tests, types and style.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::{root, run, shown, stream};
use crate::fence;
use crate::python::Environment;
use crate::setup::{self, Variables};
use crate::tally::Tally;
use crate::test::REQUIRED;

/// What the package is built, tested and checked with.
const PACKAGES: &str = include_str!("../../bindings/python/requirements.txt");
/// The package's folder.
const FOLDER: &str = "bindings/python";
/// What the example of Ray needs, apart: Ray asks for versions of its own.
const RAYS_PACKAGES: &str = include_str!("../../examples/ray/requirements.txt");
/// The example's folder.
const RAYS_FOLDER: &str = "examples/ray";
const PYTEST: &[&str] = &["-m", "pytest", "-p", "no:cacheprovider"];

/// Where the package that is checked comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Package {
    /// A wheel for use.
    Release,
    /// A wheel built as tests are.
    Development,
    /// Laid out around the library that the build for tests has made: a wheel builds all below it anew, with the features that it needs alone.
    Built,
}

/// Makes the package and checks it; returns whether nothing is wrong.
pub(crate) fn check(package: Package) -> Result<bool> {
    let ready = setup::setup()?;
    let cache = setup::shared_cache()?;
    let bin = environment(&cache.join("python")).folder.join("bin");
    let (folder, target) = (root().join(FOLDER), fence::target());
    let (wheels, packages) = (target.join("wheels"), target.join("python"));
    for old in [&wheels, &packages] {
        remove(old)?;
    }
    match package {
        Package::Built => lay_out(&folder, &packages)?,
        Package::Release => install(&bin, "release", &wheels, &packages)?,
        Package::Development => install(&bin, "dev", &wheels, &packages)?,
    }
    let variables = environment_of_tests(&ready.variables, &packages);
    let python = |arguments: &[&str]| {
        let mut command = Command::new(bin.join("python"));
        command.args(arguments).current_dir(&folder).envs(&variables);
        command
    };
    let (mut tally, mut wrong) = pytest(&mut python(PYTEST))?;
    let mut ray = Command::new(rays(&cache.join("ray")).folder.join("bin/python"));
    ray.args(PYTEST).current_dir(root().join(RAYS_FOLDER)).envs(&variables);
    let (more, amiss) = pytest(&mut ray)?;
    tally += more;
    wrong.extend(amiss);
    let cache = target.join("mypy");
    let cache = cache.to_string_lossy();
    let examples = root().join(RAYS_FOLDER).display().to_string();
    for arguments in [
        &["-m", "mypy", "--cache-dir", &cache][..],
        &["-m", "mypy.stubtest", "anydnn._native"],
        &["-m", "ruff", "check", "--no-cache", ".", &examples],
        &["-m", "ruff", "format", "--no-cache", "--check", ".", &examples],
    ] {
        let mut command = python(arguments);
        if run(&mut command).is_err() {
            wrong.push(format!("`{}` failed", shown(&command)));
        }
    }
    for line in &wrong {
        eprintln!("error: {line}");
    }
    let failed = tally.failed + wrong.len();
    // As programs of tests in Rust say it, for whoever counts them.
    println!(
        "test result: {}. {} passed; {failed} failed; {} ignored; 0 measured; 0 filtered out; finished",
        if failed == 0 { "ok" } else { "FAILED" },
        tally.passed,
        tally.ignored
    );
    Ok(failed == 0)
}

/// Builds the wheel in a profile of cargo's, and installs it into a folder.
fn install(bin: &Path, profile: &str, wheels: &Path, packages: &Path) -> Result<()> {
    let mut build = Command::new(bin.join("maturin"));
    build.args(["build", "--quiet", "--manifest-path"]).arg(root().join(FOLDER).join("Cargo.toml"));
    run(build.args(["--profile", profile, "--out"]).arg(wheels).current_dir(root()))?;
    let wheel = only_file(wheels)?;
    let mut install = Command::new(bin.join("python"));
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"]);
    run(install.arg(packages).arg(&wheel))
}

/// Lays the package out as a wheel does, around the library that is built.
fn lay_out(folder: &Path, packages: &Path) -> Result<()> {
    let (sources, package) = (folder.join("python/anydnn"), packages.join("anydnn"));
    fs::create_dir_all(&package).with_context(|| format!("making {}", package.display()))?;
    let files = fs::read_dir(&sources).with_context(|| format!("reading {}", sources.display()))?;
    for file in files {
        let file = file?.path();
        if let Some(name) = file.file_name().filter(|_| file.is_file()) {
            fs::copy(&file, package.join(name)).with_context(|| format!("copying {}", file.display()))?;
        }
    }
    let library = fence::library("anydnn_python");
    let copied = fs::copy(&library, package.join("_native.abi3.so"));
    copied.with_context(|| format!("copying {}", library.display())).map(|_| ())
}

/// Installs what the package is built and checked with into `cache` if it is not there, and Ray.
pub(crate) fn ensure(cache: &Path) -> Result<()> {
    environment(&cache.join("python")).ensure("what the Python package is built and tested with")?;
    rays(&cache.join("ray")).ensure("Ray")
}

fn rays(folder: &Path) -> Environment<'_> {
    Environment { folder, packages: RAYS_PACKAGES, needed: &["bin/python"], options: &[], aside: None }
}

/// Runs tests and returns their numbers, and what went wrong beside them.
fn pytest(command: &mut Command) -> Result<(Tally, Vec<String>)> {
    let (mut tally, mut summary) = (Tally::default(), false);
    let status = stream(command, |line| {
        if let Some(told) = pytest_result(line) {
            (tally, summary) = (told, true);
        }
    })?;
    let is_wrong = !summary || (!status.success() && tally.failed == 0);
    Ok((tally, if is_wrong { vec![format!("pytest ended with {status}")] } else { Vec::new() }))
}

fn environment(folder: &Path) -> Environment<'_> {
    let needed = &["bin/python", "bin/maturin"];
    Environment { folder, packages: PACKAGES, needed, options: &[], aside: None }
}

/// The tests see the wheel's package and every backend, and write nothing beside the sources.
fn environment_of_tests(ready: &Variables, packages: &Path) -> Variables {
    let mut all = ready.clone();
    all.extend([
        ("ANYDNN_REQUIRE".to_owned(), REQUIRED.to_owned()),
        ("PYTHONPATH".to_owned(), packages.display().to_string()),
        ("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned()),
    ]);
    all
}

/// The numbers in pytest's last line, such as `1 failed, 296 passed, 2 skipped in 8.07s`.
fn pytest_result(line: &str) -> Option<Tally> {
    let (counts, time) = line.trim_matches(['=', ' ']).rsplit_once(" in ")?;
    time.split_whitespace().next()?.strip_suffix('s')?.parse::<f64>().ok()?;
    let mut tally = Tally::default();
    for part in counts.split(", ") {
        let (number, what) = part.split_once(' ')?;
        let number: usize = number.parse().ok()?;
        match what {
            "passed" => tally.passed += number,
            "skipped" | "xfailed" | "deselected" => tally.ignored += number,
            "failed" | "error" | "errors" | "xpassed" => tally.failed += number,
            _ => {}
        }
    }
    Some(tally)
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    Ok(())
}

fn only_file(folder: &Path) -> Result<PathBuf> {
    let files = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let files = files.map(|file| file.map(|file| file.path())).collect::<Result<Vec<_>, _>>()?;
    match &files[..] {
        [file] => Ok(file.clone()),
        files => bail!("{} has {} files, expected one wheel", folder.display(), files.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_pytest_gives_its_numbers() {
        for (line, passed, failed, ignored) in [
            ("297 passed in 8.07s", 297, 0, 0),
            ("1 failed, 4 passed in 1.27s", 4, 1, 0),
            ("==== 2 failed, 3 passed, 1 skipped, 1 warning, 1 error in 61.00s (0:01:01) ====", 3, 3, 1),
        ] {
            assert_eq!(pytest_result(line), Some(Tally { passed, failed, ignored }), "{line}");
        }
        for line in ["", "....F", "FAILED tests/a.py::b - in 3 steps", "no tests ran in 0.1", "1 in 2s"] {
            assert_eq!(pytest_result(line), None, "{line}");
        }
    }
}
