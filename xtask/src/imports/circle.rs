//! Circles among the modules of a folder.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::{self, Display, Formatter};

use super::package::{Import, Package, Place};

/// How many imports between two modules are shown.
const SHOWN: usize = 5;

/// The modules that lie next to each other in one, and what they import from each other.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) place: Place,
    /// Those that hold modules themselves.
    folders: BTreeSet<String>,
    /// The modules that each imports from, with the imports.
    pub(super) modules: BTreeMap<String, BTreeMap<String, Vec<Import>>>,
}

/// Modules that import each other in turn, the last from the first.
#[derive(Debug)]
pub(super) struct Circle {
    steps: Vec<(String, String, Vec<Import>)>,
}

impl Folder {
    /// The modules in the one at `place`. Its own source, such as a `mod.rs`, belongs to all of them and is none of them; only that
    /// of the crate's root is.
    pub(super) fn new(package: &Package, imports: &[Import], place: &[String]) -> Self {
        let name = |module: &Place| match module.strip_prefix(place) {
            Some([name, ..]) => Some(name.clone()),
            Some([]) if place.is_empty() => Some("(root)".to_owned()),
            _ => None,
        };
        let folders =
            package.below(place).filter(|below| below.len() > place.len() + 1).filter_map(name).collect();
        let mut modules: BTreeMap<String, BTreeMap<String, Vec<Import>>> =
            package.below(place).filter_map(name).map(|name| (name, BTreeMap::new())).collect();
        for import in imports {
            if let (Some(from), Some(to)) = (name(&import.from), name(&import.to))
                && from != to
            {
                modules.entry(from).or_default().entry(to).or_default().push(import.clone());
            }
        }
        Self { place: place.to_vec(), folders, modules }
    }

    /// The modules in an order in which each imports from earlier ones alone, as far as there is one; files that import from each
    /// other in a circle stand together.
    pub(super) fn order(&self) -> Vec<Vec<&String>> {
        let mut groups: Vec<Vec<&String>> = Vec::new();
        for name in self.modules.keys() {
            let mutual = |other: &String| {
                other == name || (self.way(name, other).is_some() && self.way(other, name).is_some())
            };
            match groups.iter_mut().find(|group| mutual(group[0])) {
                Some(group) => group.push(name),
                None => groups.push(vec![name]),
            }
        }
        let mut order: Vec<Vec<&String>> = Vec::new();
        while !groups.is_empty() {
            let ready = |group: &Vec<&String>| {
                let known = |other: &String| group.contains(&other) || order.concat().contains(&other);
                group.iter().all(|name| self.modules[*name].keys().all(known))
            };
            // Groups have no circles among them, so one is always ready.
            let Some(next) = groups.iter().position(ready) else { break };
            order.push(groups.remove(next));
        }
        order
    }

    /// Circles that folders are in, the shortest first, no two of which share an import. Files that lie next to each other may be written
    /// in terms of each other, so circles of files alone do not count.
    pub(super) fn circles(&self) -> Vec<Circle> {
        let mut circles = Vec::new();
        for (from, others) in self.modules.iter().filter(|(name, _)| self.folders.contains(*name)) {
            for to in others.keys() {
                let Some(mut names) = self.way(to, from) else { continue };
                names.insert(0, from);
                let step = |pair: &[&String]| {
                    (pair[0].clone(), pair[1].clone(), self.modules[pair[0]][pair[1]].clone())
                };
                circles.push(Circle { steps: names.windows(2).map(step).collect() });
            }
        }
        circles.sort_by_key(|circle| circle.steps.len());
        let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
        circles.retain(|circle| {
            let steps = || circle.steps.iter().map(|(from, to, _)| (from.clone(), to.clone()));
            let is_new = steps().all(|step| !seen.contains(&step));
            seen.extend(steps().filter(|_| is_new));
            is_new
        });
        circles
    }

    /// A shortest way along imports, both ends included.
    fn way<'a>(&'a self, from: &'a String, to: &String) -> Option<Vec<&'a String>> {
        let mut before: BTreeMap<&String, &String> = BTreeMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(name) = queue.pop_front() {
            if name == to {
                let mut way = vec![name];
                while let Some(name) = way.last().filter(|name| **name != from) {
                    way.push(before[*name]);
                }
                way.reverse();
                return Some(way);
            }
            for next in self.modules.get(name)?.keys() {
                if next != from && !before.contains_key(next) {
                    before.insert(next, name);
                    queue.push_back(next);
                }
            }
        }
        None
    }
}

impl Display for Circle {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (from, to, imports) in &self.steps {
            writeln!(f, "  `{from}` imports from `{to}`:")?;
            for import in imports.iter().take(SHOWN) {
                writeln!(f, "    {}: {}", import.location, import.path)?;
            }
            if imports.len() > SHOWN {
                writeln!(f, "    and {} more", imports.len() - SHOWN)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(modules: &[(&str, &str)], place: &[&str]) -> Folder {
        let package = Package::of(modules);
        let place: Place = place.iter().map(|&name| name.to_owned()).collect();
        Folder::new(&package, &package.imports(), &place)
    }

    #[test]
    fn imports_one_way_have_an_order_and_no_circle() {
        let folder = folder(
            &[("", "mod a; mod b; mod c;"), ("a", "use crate::b::B;"), ("b", "use crate::c::C;"), ("c", "")],
            &[],
        );
        assert!(folder.circles().is_empty());
        assert_eq!(folder.order().concat(), ["c", "b", "a"]);
    }

    #[test]
    fn a_circle_is_told_once_with_its_imports() {
        let folder = folder(
            &[
                ("", "mod a; mod b; mod c; mod d;"),
                ("a", "mod e;"),
                ("a::e", "use crate::b::B;"),
                ("b", "\nuse crate::c::C;"),
                ("c", "fn f() { crate::a::g() }"),
                ("d", "use crate::a::A;"),
            ],
            &[],
        );
        let circles = folder.circles();
        assert_eq!(circles.len(), 1);
        let text = circles[0].to_string();
        assert!(text.contains("`a` imports from `b`:\n    a/e.rs:1: crate::b::B"), "{text}");
        assert!(text.contains("`b` imports from `c`:\n    b.rs:2: crate::c::C"), "{text}");
        assert!(text.contains("`c` imports from `a`:\n    c.rs:1: crate::a::g"), "{text}");
        assert!(!text.contains("`d`"), "{text}");
    }

    #[test]
    fn an_import_shows_in_the_shortest_of_its_circles_alone() {
        let modules = [
            ("", "mod a; mod b; mod c;"),
            ("a", "mod d;"),
            ("a::d", "use crate::b::B; use crate::c::C;"),
            ("b", "use crate::c::C;"),
            ("c", "use crate::a::A;"),
        ];
        let circles = folder(&modules, &[]).circles();
        assert_eq!(circles.len(), 1);
        assert_eq!(circles[0].steps.len(), 2);
    }

    #[test]
    fn files_next_to_each_other_may_import_from_each_other() {
        let modules = [
            ("", "mod a; mod b; mod c;"),
            ("a", "use crate::b::B;"),
            ("b", "use crate::a::A;"),
            ("c", "use crate::b::B;"),
        ];
        let folder = folder(&modules, &[]);
        assert!(folder.circles().is_empty());
        assert_eq!(folder.order(), [vec!["a", "b"], vec!["c"]]);
    }

    #[test]
    fn a_folder_of_a_folder_is_looked_at_too() {
        let modules = [
            ("", "mod a;"),
            ("a", "mod c; mod d; pub struct A;"),
            ("a::c", "mod e; use super::d::D; use super::A;"),
            ("a::c::e", ""),
            ("a::d", "use super::c::C;"),
        ];
        assert!(folder(&modules, &[]).circles().is_empty());
        assert_eq!(folder(&modules, &["a"]).circles().len(), 1);
    }

    #[test]
    fn the_root_of_a_crate_is_one_of_its_modules() {
        let modules = [
            ("", "mod a; use a::f; pub struct A;"),
            ("a", "mod b; pub fn f() {}"),
            ("a::b", "use crate::A;"),
        ];
        assert_eq!(folder(&modules, &[]).circles().len(), 1);
    }
}
