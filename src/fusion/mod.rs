//! Fusion: which operations of a graph run as one.
//!
//! [`partition`] covers every operation of a graph with partitions. What makes a partition is written down as patterns, which read as
//! formulas (`patterns/`); an operation that none of them takes stands alone. Wherever a partition ends, it says
//! [why](Partition::stopped). `docs/reference/patterns.md` lists the patterns.
//!
//! Partitions never depend on each other in a cycle. One whose results all come from one operation cannot be part of a cycle with others of
//! the kind: their last operations would have to be before each other. Where a partition has results at several operations, every later
//! one is checked.

#[cfg(feature = "onnx")]
mod answers;
mod grouping;
mod partition;
mod pattern;
mod patterns;
#[cfg(test)]
mod tests;
mod why;

use std::fmt::Write as _;

#[cfg(feature = "onnx")]
pub(crate) use answers::Answers;
pub(crate) use grouping::Grouping;
pub use partition::{Partition, Stop};

use crate::graph::Graph;

/// How far fusion goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Chains become one partition wherever a pattern matches.
    #[default]
    Fusion,
    /// Every operation is a partition of its own, to find the one that misbehaves.
    Debug,
}

/// The partitions of a graph, every one after those it depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Partitioning {
    /// The partitions; where their order is free, by their last operation.
    pub partitions: Vec<Partition>,
}

/// Covers every operation of a graph with partitions.
pub fn partition(graph: &Graph, policy: Policy) -> Partitioning {
    explained(graph, policy, grouped(graph, policy))
}

/// The same without reasons. A graph of the same [structure](Graph::has_structure_of) as another one that gives the same [`Answers`] has
/// the same.
pub(crate) fn grouped(graph: &Graph, policy: Policy) -> Partitioning {
    Partitioning { partitions: grouping::group(graph, policy) }
}

/// With the reasons why no more operations joined.
pub(crate) fn explained(graph: &Graph, policy: Policy, mut partitioning: Partitioning) -> Partitioning {
    let stop = |part| why::stop(graph, &partitioning, policy, part);
    let stops: Vec<_> = partitioning.partitions.iter().map(stop).collect();
    for (part, stopped) in partitioning.partitions.iter_mut().zip(stops) {
        part.stopped = stopped;
    }
    partitioning
}

/// A fusion pattern in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternInfo {
    /// The name that its partitions carry, `group/name`.
    pub name: &'static str,
    /// Where a graph fits several patterns, the one with the highest priority takes it.
    pub priority: u32,
    /// What it is for.
    pub covers: &'static [&'static str],
    /// The pattern itself; `docs/reference/patterns.md` says how to read it.
    pub formula: String,
}

/// All fusion patterns in the order in which they choose.
///
/// ```
/// let attention = anydnn::fusion::patterns().find(|pattern| pattern.name == "sdp/float").unwrap();
/// assert!(attention.formula.contains("SoftMax"));
/// ```
pub fn patterns() -> impl Iterator<Item = PatternInfo> {
    patterns::all().iter().map(|pattern| PatternInfo {
        name: pattern.name,
        priority: pattern.priority,
        covers: pattern.covers,
        formula: pattern.formula.to_string(),
    })
}

impl Partitioning {
    /// The partition that an operation (an index into [`Graph::ops`]) is in.
    pub fn of(&self, op: usize) -> Option<&Partition> {
        self.partitions.iter().find(|p| p.ops.contains(&op))
    }

    /// Why these operations (indices into [`Graph::ops`]) are not one partition: where those that hold them end, and what stands against
    /// the pattern that comes closest; none when they are one.
    pub fn why_not_fused(&self, graph: &Graph, ops: &[usize]) -> Option<String> {
        why::not_fused(graph, self, ops)
    }

    /// The partitions in words, one to a line, with the reason where a chain ended.
    pub fn describe(&self, graph: &Graph) -> String {
        let mut text = String::new();
        for partition in &self.partitions {
            let ops: Vec<_> = partition
                .ops
                .iter()
                .map(|&op| format!("{} {}", graph.ops()[op].kind, graph.ops()[op].name))
                .collect();
            let _ = writeln!(text, "{:>3}  {:<22} {}", partition.id, partition.pattern, ops.join(" + "));
            if let Some(stop) = &partition.stopped {
                let _ = writeln!(text, "     {:<22} ends here: {stop}", "");
            }
        }
        text
    }
}
