//! Fusion: which operations of a graph run as one.
//!
//! [`partition`] covers every operation of a graph with partitions. A partition is an *anchor* (a matmul, a convolution, a
//! normalisation, ..) and the chain of operations behind it that ride on its results as post-operations. The patterns read as formulas
//! in `patterns.rs`; wherever a chain ends, the partition says [why](Partition::stopped).
//!
//! Partitions never depend on each other in a cycle: a chain has one result, made by its last operation, and every operation of the
//! chain leads to it. Two chains in a cycle would have their last operations before each other.

mod chain;
mod partition;
mod pattern;
mod patterns;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

pub use chain::{Link, Role};
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
    /// The partitions, ordered by their last operation.
    pub partitions: Vec<Partition>,
}

/// Covers every operation of a graph with partitions.
pub fn partition(graph: &Graph, policy: Policy) -> Partitioning {
    let count = graph.ops().len();
    let mut taken = vec![false; count];
    let mut partitions = Vec::new();
    if policy == Policy::Fusion {
        // Stronger patterns choose first: a matmul takes the addition behind it before that addition starts a chain of its own.
        for pattern in patterns::all() {
            for anchor in 0..count {
                if !taken[anchor]
                    && pattern.starts_with(graph.ops()[anchor].kind)
                    && let Some(partition) = chain::grow(graph, &pattern, anchor, &taken)
                {
                    partition.ops.iter().for_each(|&op| taken[op] = true);
                    partitions.push(partition);
                }
            }
        }
    }
    let singles = (0..count).filter(|&op| !taken[op]).map(|op| chain::single(graph, op, policy));
    partitions.extend(singles);
    partitions.sort_by_key(|p| p.ops.last().copied());
    for (id, partition) in partitions.iter_mut().enumerate() {
        partition.id = id;
    }
    Partitioning { partitions }
}

impl Partitioning {
    /// The partition that an operation (an index into [`Graph::ops`]) is in.
    pub fn of(&self, op: usize) -> Option<&Partition> {
        self.partitions.iter().find(|p| p.ops.contains(&op))
    }

    /// Why these operations (indices into [`Graph::ops`]) are not one partition; none when they are.
    pub fn why_not_fused(&self, graph: &Graph, ops: &[usize]) -> Option<String> {
        let mut parts: Vec<&Partition> = ops.iter().filter_map(|&op| self.of(op)).collect();
        parts.sort_by_key(|p| p.id);
        parts.dedup_by_key(|p| p.id);
        if parts.len() < 2 {
            return None;
        }
        let names = |p: &Partition| {
            p.ops.iter().map(|&op| graph.ops()[op].name.as_str()).collect::<Vec<_>>().join(" + ")
        };
        let reasons: Vec<String> = parts
            .iter()
            .take(parts.len() - 1)
            .map(|p| {
                let reason = p.stopped.as_ref().map_or("nothing follows it", |stop| &stop.reason);
                format!("{} ({}): {reason}", names(p), p.pattern)
            })
            .collect();
        Some(reasons.join("; "))
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
