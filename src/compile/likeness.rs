//! What plans for other extents have in common.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use crate::fusion::Answers;
use crate::graph::Graph;

/// What tells whether the partitions of one graph are those of another.
#[derive(Debug)]
pub(crate) struct Likeness {
    /// Of all below and of the structure.
    hash: u64,
    answers: Answers,
}

impl Likeness {
    pub(crate) fn of(graph: &Graph) -> Self {
        let answers = Answers::of(graph);
        let mut hasher = FxHasher::default();
        graph.hash_structure(&mut hasher);
        answers.hash(&mut hasher);
        Self { hash: hasher.finish(), answers }
    }

    /// Whether two graphs, of which these are, have the same partitions.
    pub(crate) fn unites(&self, graph: &Graph, other: &Self, its: &Graph) -> bool {
        self.hash == other.hash && self.answers == other.answers && graph.has_structure_of(its)
    }
}
