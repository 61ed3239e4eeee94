//! Links of the Markdown files: what they lead to is there.
//!
//! Links within the repository are relative; from a page of the book to a file that is no part of it they go by the repository's address,
//! since the book holds only its pages. Either is looked up in the working tree, addresses of others are not.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

/// The folder of the book, and the page that lists its pages.
const BOOK: &str = "docs";
const SUMMARY: &str = "SUMMARY.md";
/// How the repository is addressed, before a path in it.
const REPOSITORY: [&str; 2] =
    ["https://github.com/anydnn/anydnn/blob/main/", "https://github.com/anydnn/anydnn/tree/main/"];

/// What is wrong with the links of all Markdown files below `root`, a line each.
///
/// # Errors
/// A file or folder that cannot be read.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    find(root, root, &mut files)?;
    let mut wrong = Vec::new();
    let mut listed = BTreeSet::from([Path::new(BOOK).join(SUMMARY)]);
    for file in &files {
        let text = read(&root.join(file))?;
        for (line, target) in links(&text) {
            match resolve(root, file, &target) {
                Ok(found) if file == &Path::new(BOOK).join(SUMMARY) => listed.extend(found),
                Ok(_) => {}
                Err(said) => wrong.push(format!("{}:{line}: {target}: {said}", file.display())),
            }
        }
        for (line, target) in includes(&text).filter(|_| file.starts_with(BOOK)) {
            if let Err(said) = resolve_include(root, file, &target) {
                wrong.push(format!("{}:{line}: {target}: {said}", file.display()));
            }
        }
    }
    let pages = files.iter().filter(|file| file.starts_with(BOOK) && !listed.contains(*file));
    wrong.extend(pages.map(|page| format!("{}: no line of {SUMMARY} leads here", page.display())));
    Ok(wrong)
}

/// All Markdown files, but none of hidden folders and of what is built.
fn find(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let reading = || format!("reading {}", folder.display());
    let mut entries =
        fs::read_dir(folder).with_context(reading)?.collect::<Result<Vec<_>, _>>().with_context(reading)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        let kind = entry.file_type().with_context(reading)?;
        if kind.is_dir() {
            let is_source = !name.to_string_lossy().starts_with('.') && path != root.join("target");
            is_source.then(|| find(root, &path, files)).transpose()?;
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "md") {
            files.push(path.strip_prefix(root).unwrap_or(&path).to_owned());
        }
    }
    Ok(())
}

/// The file of the repository that a link of `file` leads to, none where it leads elsewhere; or what is wrong with it.
fn resolve(root: &Path, file: &Path, target: &str) -> Result<Option<PathBuf>, String> {
    let (target, anchor) =
        target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let by_address = REPOSITORY.iter().find_map(|start| target.strip_prefix(start));
    let found = match by_address {
        Some(path) => PathBuf::from(path),
        None if target.contains(':') => return Ok(None),
        None if target.is_empty() => file.to_owned(),
        None => normal(&file.with_file_name(target)).ok_or("it leads out of the repository")?,
    };
    if file.starts_with(BOOK) && by_address.is_none() && !found.starts_with(BOOK) {
        return Err("a page of the book leads out of it by the repository's address only".into());
    }
    if file.starts_with(BOOK) && file.file_name() != Some(SUMMARY.as_ref()) && is_renamed(&found) {
        return Err("mdbook gives pages of that name another one, so no page can lead there".into());
    }
    if !root.join(&found).exists() {
        return Err("there is no such file".into());
    }
    if let Some(anchor) = anchor {
        let text = read(&root.join(&found)).map_err(|error| error.to_string())?;
        if !anchors(&text).iter().any(|known| known == anchor) {
            return Err(format!("{} has no heading of that name", found.display()));
        }
    }
    Ok(Some(found))
}

/// Whether a page becomes `index.html` in the built book, which links to its own name miss.
fn is_renamed(page: &Path) -> bool {
    page.starts_with(BOOK) && page.file_name().is_some_and(|name| name == "README.md")
}

/// Whether the file that is included is there, with the part of it that is named.
fn resolve_include(root: &Path, file: &Path, target: &str) -> Result<(), String> {
    let (path, part) = target.split_once(':').map_or((target, ""), |(path, part)| (path, part));
    let found = normal(&file.with_file_name(path)).ok_or("it leads out of the repository")?;
    let text = fs::read_to_string(root.join(&found)).map_err(|error| error.to_string())?;
    let is_lines = part.chars().all(|c| c.is_ascii_digit() || c == ':');
    if !is_lines && !["ANCHOR", "ANCHOR_END"].iter().all(|mark| text.contains(&format!("{mark}: {part}"))) {
        return Err(format!("{} has no part of that name", found.display()));
    }
    Ok(())
}

/// A path without `.` and `..`; none if it leads above its start.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::CurDir => {}
            Component::ParentDir => normal.pop().then_some(())?,
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(normal)
}

/// The targets of the inline links and pictures of a text, with their lines, counted from one.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(line);
        for (at, _) in line.match_indices("](") {
            let target = line[at + 2..].split([')', ' ']).next().unwrap_or_default();
            links.push((number, target.to_owned()));
        }
    }
    links
}

/// What a text includes of other files, with the lines.
fn includes(text: &str) -> impl Iterator<Item = (usize, String)> {
    let of = |line: &str| {
        let directive = line.split_once("{{#")?.1.split_once("}}")?.0;
        let (word, target) = directive.split_once(' ')?;
        word.ends_with("include").then(|| target.trim().to_owned())
    };
    text.lines().enumerate().filter_map(move |(line, text)| Some((line + 1, of(text)?)))
}

/// The names by which links find the headings of a text.
fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let letter = |c: char| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            _ => c.is_alphanumeric().then_some(c),
        };
        let name: String = title.trim().to_lowercase().chars().filter_map(letter).collect();
        let again = (1..=anchors.len()).map(|n| format!("{name}-{n}"));
        let free = std::iter::once(name.clone()).chain(again).find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

/// The lines outside of blocks of code, counted from one.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(line, text)| {
        let is_fence = text.trim_start().starts_with("```");
        fenced ^= is_fence;
        (!fenced && !is_fence).then_some((line + 1, text))
    })
}

/// A line with the code in it left out.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::root;

    /// What is wrong with a repository of these files.
    fn checked(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        check(folder.path()).unwrap()
    }

    #[test]
    fn every_link_of_this_repository_leads_somewhere() {
        assert_eq!(check(root()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn links_to_what_is_there_are_right() {
        let wrong = checked(&[
            ("README.md", "[a](docs/a.md#two-words) [b](docs) [c](https://example.org/none)\n`[d](none)`\n"),
            ("docs/SUMMARY.md", "- [a](a.md)\n- [b](b/c.md)\n"),
            (
                "docs/a.md",
                "# A\n\n## Two words\n[b](b/c.md#two-words-1) [self](#a)\n```text\n[d](none)\n```\n",
            ),
            (
                "docs/b/c.md",
                "## `Two` words\n## Two words\n[a](../a.md)\n{{#include ../../src/lib.rs:part}}\n",
            ),
            ("src/lib.rs", "// ANCHOR: part\nmod a;\n// ANCHOR_END: part\n"),
            ("target/none.md", "[none](none)"),
        ]);
        assert_eq!(wrong, Vec::<String>::new());
    }

    #[test]
    fn links_to_nothing_are_told_with_their_lines() {
        let wrong = checked(&[
            ("README.md", "\n[a](docs/none.md)\n[b](../above.md)\n"),
            ("docs/SUMMARY.md", "- [a](a.md)\n"),
            (
                "docs/a.md",
                "![a](a.svg)\n[b](#none)\n[c](../README.md)\n[d](https://github.com/anydnn/anydnn/blob/main/none)\n",
            ),
            ("docs/README.md", ""),
            (
                "docs/b.md",
                "[up](README.md) {{#include a.md:part}}\n{{#rustdoc_include none.rs}}\n{{#include a.md:1:2}}\n",
            ),
        ]);
        let starts = [
            "README.md:2: docs/none.md: there is no such file",
            "README.md:3: ../above.md: it leads out of the repository",
            "docs/a.md:1: a.svg: there is no such file",
            "docs/a.md:2: #none: docs/a.md has no heading of that name",
            "docs/a.md:3: ../README.md: a page of the book",
            "docs/a.md:4: https://github.com/anydnn/anydnn/blob/main/none: there is no such file",
            "docs/b.md:1: README.md: mdbook gives",
            "docs/b.md:1: a.md:part: docs/a.md has no part of that name",
            "docs/b.md:2: none.rs: No such file",
            "docs/README.md: no line of SUMMARY.md leads here",
            "docs/b.md: no line of SUMMARY.md leads here",
        ];
        assert_eq!(wrong.len(), starts.len(), "{wrong:#?}");
        for (said, start) in wrong.iter().zip(starts) {
            assert!(said.starts_with(start), "{said}, expected {start}");
        }
    }
}
