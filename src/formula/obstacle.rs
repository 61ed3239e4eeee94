//! Where searches get stuck.

use super::expr::OpExpr;
use super::matcher::Matcher;
use super::text::kinds_in_words;
use crate::graph::{Graph, TensorId};

/// Where a search got stuck.
#[derive(Clone, Debug)]
pub(crate) struct Obstacle {
    /// What it had matched by then.
    pub(crate) members: Vec<usize>,
    /// The operation that did not fit; none where a tensor comes from outside the graph.
    op: Option<usize>,
    /// Whether that operation was to be had, and how much was matched.
    pub(crate) rank: (bool, usize),
    /// What was wrong, in words.
    pub(crate) reason: String,
    /// What kinds of operations would have done.
    pub(crate) expected: Vec<String>,
}

impl Matcher<'_> {
    /// Remembers a failure if it is the deepest; false, so that the search goes on.
    pub(super) fn stuck(
        &mut self,
        op: Option<usize>,
        expected: Option<&OpExpr>,
        reason: impl FnOnce() -> String,
    ) -> bool {
        if !self.explains {
            return false;
        }
        let deepest = &mut self.obstacle;
        let expected = expected.map(|expected| kinds_in_words(&expected.kinds));
        // What lies among the operations that are to be had says more than that there are no others.
        let rank = (op.is_some_and(|op| self.scope.is_free(op)), self.members.len());
        if let Some(known) = deepest {
            if known.rank > rank {
                return false;
            }
            // That an operation is of the right kind, but for a condition, says more than what else could be there.
            let is_nearer = known.op == op && expected.is_none() && !known.expected.is_empty();
            if known.rank == rank && !is_nearer {
                if let Some(expected) = expected
                    && known.op == op
                    && known.members == self.members
                    && !known.expected.contains(&expected)
                {
                    known.expected.push(expected);
                }
                return false;
            }
        }
        let (members, expected) = (self.members.clone(), expected.into_iter().collect());
        *deepest = Some(Obstacle { members, op, rank, reason: reason(), expected });
        false
    }
}

/// Who sees a tensor that is made inside, in words.
pub(super) fn seen_outside(graph: &Graph, ops: &[usize], tensor: TensorId) -> String {
    let label = graph.label(tensor);
    let outside: Vec<String> = graph
        .consumers(tensor)
        .iter()
        .filter(|reader| ops.binary_search(reader).is_err())
        .map(|&reader| graph.ops()[reader].to_string())
        .collect();
    if outside.is_empty() {
        return format!("{label} is also an output of the graph");
    }
    format!("{label} is also read by {}", outside.join(", "))
}
