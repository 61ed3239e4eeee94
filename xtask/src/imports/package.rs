//! The modules of one crate and what each imports from which.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use proc_macro2::TokenStream;

use super::source::{Body, Module, read};
use crate::command::root;

/// A module's place: its names from the root of the crate.
pub(super) type Place = Vec<String>;

/// The modules of a crate.
#[derive(Debug, Default)]
pub(super) struct Package {
    modules: BTreeMap<Place, Module>,
    files: BTreeMap<Place, PathBuf>,
}

/// One module that imports from another.
#[derive(Clone, Debug)]
pub(super) struct Import {
    pub(super) from: Place,
    pub(super) to: Place,
    /// The path as it is written.
    pub(super) path: String,
    /// The file and the line of it.
    pub(super) location: String,
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Module(Place),
    /// Something that is defined in the module.
    Item(Place),
    Foreign,
}

impl Package {
    /// Reads the crate whose root is this file.
    pub(super) fn load(root: &Path) -> Result<Self> {
        let mut package = Self::default();
        let folder = root.parent().context("a source file lies in a folder")?;
        package.file(&Place::new(), root, folder)?;
        Ok(package)
    }

    fn file(&mut self, place: &Place, file: &Path, folder: &Path) -> Result<()> {
        let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        let tokens = text.parse().map_err(|error| anyhow!("{}: {error}", file.display()))?;
        self.source(place, tokens, file, folder)
    }

    /// Adds a module and those below it; the files of its children lie in `folder`.
    fn source(&mut self, place: &Place, tokens: TokenStream, file: &Path, folder: &Path) -> Result<()> {
        let (module, children) = read(tokens);
        self.add(place.clone(), module, file);
        for child in children {
            let mut below = place.clone();
            below.push(child.name.clone());
            let inside = folder.join(&child.name);
            match child.body {
                Body::Inline(tokens) => self.source(&below, tokens, file, &inside)?,
                Body::File => {
                    let flat = folder.join(format!("{}.rs", child.name));
                    let file = if flat.exists() { flat } else { inside.join("mod.rs") };
                    self.file(&below, &file, &inside)?;
                }
            }
        }
        Ok(())
    }

    /// Adds a module; one that is declared twice, under different conditions, is both.
    fn add(&mut self, place: Place, module: Module, file: &Path) {
        let crate_root = self.modules.entry(Place::new()).or_default();
        for name in &module.exported {
            crate_root.names.insert(name.clone(), [place.as_slice(), std::slice::from_ref(name)].concat());
        }
        self.files.insert(place.clone(), file.strip_prefix(root()).unwrap_or(file).to_owned());
        let known = self.modules.entry(place).or_default();
        known.children.extend(module.children);
        known.items.extend(module.items);
        known.names.extend(module.names);
        known.globs.extend(module.globs);
        known.mentions.extend(module.mentions);
    }

    /// All modules that lie in a module.
    pub(super) fn below(&self, place: &[String]) -> impl Iterator<Item = &Place> {
        self.modules.keys().filter(move |other| other.len() > place.len() && other.starts_with(place))
    }

    /// The modules that hold others, the root among them.
    pub(super) fn parents(&self) -> impl Iterator<Item = &Place> {
        self.modules.keys().filter(|place| self.below(place).next().is_some())
    }

    /// What modules of this crate import from others of it, by where it is defined, whatever exports it again on the way.
    pub(super) fn imports(&self) -> Vec<Import> {
        let mut imports = Vec::new();
        for (from, module) in &self.modules {
            for mention in &module.mentions {
                let path: &[String] = match mention.path.split_last() {
                    Some((last, path)) if last == "*" => path,
                    _ => &mention.path,
                };
                let (Target::Module(to) | Target::Item(to)) = self.resolve(from, path, 0) else { continue };
                if to != *from {
                    imports.push(Import {
                        from: from.clone(),
                        to,
                        path: mention.path.join("::"),
                        location: format!("{}:{}", self.files[from].display(), mention.line),
                    });
                }
            }
        }
        imports
    }

    /// What a path in a module leads to. Names that lead in a circle are nobody's.
    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Target {
        if depth > 32 {
            return Target::Foreign;
        }
        let mut segments = path.iter();
        let mut place = from.to_vec();
        let mut explicit = false;
        let mut names = segments.clone();
        while let Some(segment) = segments.next() {
            match segment.as_str() {
                "crate" => place.clear(),
                "self" => {}
                "super" => {
                    place.pop();
                }
                _ => break,
            }
            explicit = true;
            names = segments.clone();
        }
        for (i, name) in names.enumerate() {
            match self.look_up(&place, name, depth) {
                Some(Target::Module(below)) => place = below,
                Some(other) => return other,
                // A macro may have defined it.
                None if explicit || i > 0 => return Target::Item(place),
                None => return Target::Foreign,
            }
        }
        Target::Module(place)
    }

    fn look_up(&self, place: &[String], name: &String, depth: usize) -> Option<Target> {
        let module = self.modules.get(place)?;
        if module.children.contains(name) {
            return Some(Target::Module([place, std::slice::from_ref(name)].concat()));
        }
        if module.items.contains(name) {
            return Some(Target::Item(place.to_vec()));
        }
        if let Some(path) = module.names.get(name) {
            return Some(self.resolve(place, path, depth + 1));
        }
        module.globs.iter().find_map(|glob| match self.resolve(place, glob, depth + 1) {
            Target::Module(other) if other != place && depth < 32 => self.look_up(&other, name, depth + 1),
            _ => None,
        })
    }
}

#[cfg(test)]
impl Package {
    /// A crate of these modules, each with its source.
    pub(super) fn of(modules: &[(&str, &str)]) -> Self {
        let mut package = Self::default();
        for (place, text) in modules {
            let place: Place =
                place.split("::").filter(|name| !name.is_empty()).map(ToOwned::to_owned).collect();
            let file = PathBuf::from(format!("{}.rs", place.join("/")));
            package.add(place, read(text.parse().unwrap()).0, &file);
        }
        package
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(modules: &[(&str, &str)]) -> Vec<String> {
        let imports = Package::of(modules).imports();
        imports
            .iter()
            .map(|import| format!("{} <- {}", import.from.join("::"), import.to.join("::")))
            .collect()
    }

    #[test]
    fn paths_lead_to_the_module_that_defines_the_name() {
        let modules = [
            ("", "mod a; mod b; pub use b::B;"),
            ("a", "use crate::B; fn f() { super::b::g() }"),
            ("b", "pub struct B; pub fn g() {}"),
        ];
        assert_eq!(imports(&modules), [" <- b", "a <- b", "a <- b"]);
    }

    #[test]
    fn names_come_through_globs_and_imported_modules() {
        let modules = [
            ("", "mod a; mod b;"),
            ("a", "use crate::b::{c, *}; fn f() { c::g(); D::new() }"),
            ("b", "mod c; pub(crate) use c::D;"),
            ("b::c", "pub struct D; pub fn g() {}"),
        ];
        assert_eq!(imports(&modules), ["a <- b::c", "a <- b", "a <- b::c", "a <- b::c", "b <- b::c"]);
    }

    #[test]
    fn an_exported_macro_is_found_at_the_root_and_leads_to_its_module() {
        let modules = [
            ("", "mod a; mod b;"),
            ("a", "mod c;"),
            ("a::c", "#[macro_export] macro_rules! m { () => {} }"),
            ("b", "use crate::m;"),
        ];
        assert_eq!(imports(&modules), ["b <- a::c"]);
    }

    #[test]
    fn what_comes_from_other_crates_is_no_import() {
        let modules = [("", "mod a;"), ("a", "use std::fmt; fn f() { fmt::format(); Vec::new() }")];
        assert!(imports(&modules).is_empty());
    }

    #[test]
    fn names_that_lead_in_a_circle_end() {
        let modules = [("", "mod a; mod b;"), ("a", "pub use crate::b::X;"), ("b", "pub use crate::a::X;")];
        assert!(imports(&modules).is_empty());
    }
}
