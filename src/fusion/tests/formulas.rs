//! Every pattern takes the graphs of its cases whole, and nothing like them.

use std::fmt::Write as _;

use super::cases::{self, Case};
use super::text;
use crate::fusion::{Policy, partition, patterns};

/// The names of the partitions' patterns.
fn names(text: &str) -> (Vec<&'static str>, String) {
    let graph = text::graph(text);
    let parts = partition(&graph, Policy::Fusion);
    (parts.partitions.iter().map(|part| part.pattern).collect(), parts.describe(&graph))
}

#[test]
fn every_pattern_takes_its_graph_whole() {
    let mut wrong = String::new();
    for Case { pattern, text, .. } in cases::all() {
        let (names, words) = names(text);
        if names != [pattern] {
            let _ = write!(wrong, "{pattern}:\n{words}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn near_misses_are_left_alone() {
    let mut wrong = String::new();
    for Case { pattern, text, misses, .. } in cases::all() {
        for (from, to) in misses {
            assert!(text.contains(from), "{pattern}: {from}");
            let (names, words) = names(&text.replacen(from, to, 1));
            if names == [pattern] {
                let _ = write!(wrong, "{pattern} with {to}:\n{words}\n");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_use_of_every_pattern_has_a_case() {
    let cases = cases::all();
    for pattern in patterns::all() {
        let own = || cases.iter().filter(|case| case.pattern == pattern.name);
        assert!(own().any(|case| !case.misses.is_empty()), "{}: no near miss", pattern.name);
        for covered in pattern.covers {
            assert!(own().any(|case| case.covers == *covered), "{}: no case of {covered:?}", pattern.name);
        }
    }
    for Case { pattern, covers, .. } in &cases {
        let known = patterns::all().iter().any(|p| p.name == *pattern && p.covers.contains(covers));
        assert!(known, "{pattern} says nothing of {covers:?}");
    }
    let mut names: Vec<_> = patterns::all().iter().map(|pattern| pattern.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), patterns::all().len(), "names are unique");
}
