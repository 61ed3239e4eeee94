//! Whether imports go one way: within a package, no folders or files import from each other in a circle.

mod circle;
mod package;
mod source;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use self::circle::Folder;
use self::package::Package;
use crate::command::root;

/// What to do about a circle.
const ADVICE: &str = "Imports within a package go one way. Break each circle at one of its imports: move what is imported to the lower \
    module or one below both; or have the lower module take a value, a closure or a trait in its place; or, if the two are one, \
    make them one module.";

/// Prints the modules of each package, each behind those that it imports from; false if there is a circle.
pub(crate) fn check() -> Result<bool> {
    let (orders, circles) = look()?;
    print!("{orders}");
    if !circles.is_empty() {
        eprintln!("{circles}\n{ADVICE}");
    }
    Ok(circles.is_empty())
}

/// The order of the modules in every folder of the workspace's crates, and the circles.
fn look() -> Result<(String, String)> {
    let mut orders = String::new();
    let mut circles = String::new();
    for (name, file) in crates()? {
        let package = Package::load(&file)?;
        let imports = package.imports();
        for place in package.parents().filter(|place| {
            place.is_empty() || package.below(place).any(|below| below.len() > place.len() + 1)
        }) {
            let folder = Folder::new(&package, &imports, place);
            let title = [std::slice::from_ref(&name), folder.place.as_slice()].concat().join("::");
            writeln!(orders, "{title}")?;
            for modules in folder.order() {
                let from: BTreeSet<&str> = modules
                    .iter()
                    .flat_map(|module| folder.modules[*module].keys())
                    .filter(|from| !modules.contains(from))
                    .map(String::as_str)
                    .collect();
                let names: Vec<&str> = modules.into_iter().map(String::as_str).collect();
                let from: Vec<&str> = from.into_iter().collect();
                writeln!(orders, "    {} <- {}", names.join(", "), from.join(", "))?;
            }
            for circle in folder.circles() {
                write!(circles, "{title}: a circle of imports\n{circle}")?;
            }
        }
    }
    Ok((orders, circles))
}

/// The crates of the workspace, without tests, examples and benchmarks, each with the file of its root.
fn crates() -> Result<Vec<(String, PathBuf)>> {
    let mut metadata = Command::new("cargo");
    metadata.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(root());
    let output = metadata.output().context("`cargo metadata` does not start")?;
    ensure!(output.status.success(), "`cargo metadata`: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let mut crates = Vec::new();
    for target in metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|package| package["targets"].as_array().into_iter().flatten())
    {
        let kind = target["kind"][0].as_str().context("a target has a kind")?;
        if !["test", "example", "bench", "custom-build"].contains(&kind) {
            let name = target["name"].as_str().context("a target has a name")?;
            let file = target["src_path"].as_str().context("a target has a source")?;
            crates.push((format!("{name} ({kind})"), PathBuf::from(file)));
        }
    }
    ensure!(!crates.is_empty(), "the workspace has no crates");
    Ok(crates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_imports_of_every_package_go_one_way() {
        let (orders, circles) = look().unwrap();
        for package in ["anydnn_opencl (lib)\n", "anydnn (lib)\n", "xtask (bin)\n"] {
            assert!(orders.contains(package), "{package}");
        }
        assert!(circles.is_empty(), "{circles}\n{ADVICE}");
    }
}
