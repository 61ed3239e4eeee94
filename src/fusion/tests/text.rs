//! Graphs written as [text](Graph::from_text) that is right.

use crate::graph::Graph;

/// The graph of a text.
pub(super) fn graph(text: &str) -> Graph {
    Graph::from_text(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}
