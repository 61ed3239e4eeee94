//! What a search found.

use crate::graph::TensorId;

/// The operations that fit a formula, and what stands for its names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Match {
    /// All operations (indices into [`Graph::ops`](crate::graph::Graph::ops)), ascending.
    pub(crate) ops: Vec<usize>,
    /// Operations by the name that captures them, in the order in which they were matched: from results to sources.
    pub(super) captures: Vec<(&'static str, usize)>,
    pub(super) names: Vec<(&'static str, TensorId)>,
}

impl Match {
    /// The first operation that a name captured.
    pub(crate) fn op(&self, name: &str) -> Option<usize> {
        self.all(name).next()
    }

    /// The operations that a name captured, from results to sources; those of one operation's inputs in their order.
    pub(crate) fn all<'m>(&'m self, name: &'m str) -> impl Iterator<Item = usize> + 'm {
        self.captures.iter().filter(move |(known, _)| *known == name).map(|&(_, op)| op)
    }

    /// The tensor that a name stands for.
    pub(crate) fn tensor(&self, name: &str) -> Option<TensorId> {
        self.names.iter().find(|(known, _)| *known == name).map(|&(_, tensor)| tensor)
    }
}
