//! Regions: partitions of few elements that are lowered together, as launching each takes longer than what it computes.
//!
//! What a recurrent cell does behind its products is two dozen functions of some hundred elements, whose results fork and meet again, so
//! that no chain holds them. As one region they are one expression, as far as their shapes go together.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashSet;

use super::lower;
use crate::fusion::Partition;
use crate::graph::{Graph, LogicalTensor, Property, TensorId};

/// Elements up to which a launch takes longer than what it computes.
const FEW: usize = 16 << 10;
/// The fewest partitions that are worth a program of their own, and the most operations of a region.
const WORTH: usize = 3;
const MOST: usize = 64;

/// Partitions, given each after those it depends on, joined where that pays; in such an order again.
pub(super) fn joined<'p>(graph: &Graph, partitions: &'p [Partition]) -> Vec<Cow<'p, Partition>> {
    let small = small(graph, partitions);
    let mut regions = Regions::new(graph, partitions);
    for (at, _) in small.iter().enumerate().filter(|(_, small)| **small) {
        for source in regions.sources[at].clone() {
            if small[source] {
                regions.join(source, at);
            }
        }
    }
    regions.take()
}

/// Which partitions compute functions of a few elements on every execution.
fn small(graph: &Graph, partitions: &[Partition]) -> Vec<bool> {
    let mut fixed: FxHashSet<TensorId> = FxHashSet::default();
    let few = |&id: &TensorId| {
        let dims = graph.tensor(id).and_then(LogicalTensor::known_dims);
        dims.is_some_and(|dims| (1..=FEW).contains(&dims.elements()))
    };
    let mut small = Vec::with_capacity(partitions.len());
    for partition in partitions {
        let is_fixed = |id: &TensorId| {
            fixed.contains(id)
                || graph.tensor(*id).is_some_and(|tensor| tensor.property == Property::Constant)
        };
        let is_once = partition.inputs.iter().all(is_fixed);
        if is_once {
            fixed.extend(&partition.outputs);
        }
        let ops = || partition.ops.iter().map(|&op| &graph.ops()[op]);
        small.push(
            !is_once
                && ops().all(|op| lower::is_function(op.kind))
                && ops().flat_map(|op| &op.outputs).all(few),
        );
    }
    small
}

struct Regions<'g, 'p> {
    graph: &'g Graph,
    partitions: &'p [Partition],
    /// The partitions that each reads from, and those that read from it.
    sources: Vec<Vec<usize>>,
    readers: Vec<Vec<usize>>,
    /// The region of each partition, and the partitions of each region, which is none once it is part of another one.
    region_of: Vec<usize>,
    members: Vec<Vec<usize>>,
}

impl<'g, 'p> Regions<'g, 'p> {
    fn new(graph: &'g Graph, partitions: &'p [Partition]) -> Self {
        let count = partitions.len();
        let mut maker = vec![usize::MAX; graph.ops().len()];
        for (at, partition) in partitions.iter().enumerate() {
            for &op in &partition.ops {
                maker[op] = at;
            }
        }
        let mut readers = vec![Vec::new(); count];
        let mut sources = Vec::with_capacity(count);
        for (at, partition) in partitions.iter().enumerate() {
            let made = |id: &TensorId| graph.producer(*id).map(|op| maker[op]);
            let mut of: Vec<usize> =
                partition.inputs.iter().filter_map(made).filter(|&from| from < at).collect();
            of.sort_unstable();
            of.dedup();
            for &source in &of {
                readers[source].push(at);
            }
            sources.push(of);
        }
        let members = (0..count).map(|at| vec![at]).collect();
        Self { graph, partitions, sources, readers, region_of: (0..count).collect(), members }
    }

    /// Joins the regions of two partitions, unless something outside both stands between them.
    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.region_of[a], self.region_of[b]);
        if a == b {
            return;
        }
        let union = [&self.members[a][..], &self.members[b]].concat();
        let ops: usize = union.iter().map(|&at| self.partitions[at].ops.len()).sum();
        if ops > MOST || self.leads_back(&union) {
            return;
        }
        for &at in &union {
            self.region_of[at] = a;
        }
        self.members[a] = union;
        self.members[b].clear();
    }

    /// Whether anything leads from these partitions out and back into them, other regions being passed as a whole.
    fn leads_back(&self, union: &[usize]) -> bool {
        let last = union.iter().copied().max().unwrap_or(0);
        let mut seen = vec![false; self.partitions.len()];
        let mut open = union.to_vec();
        while let Some(at) = open.pop() {
            let is_inside = union.contains(&at);
            for &reader in &self.readers[at] {
                if union.contains(&reader) {
                    if !is_inside {
                        return true;
                    }
                    continue;
                }
                let whole = &self.members[self.region_of[reader]];
                // Partitions alone lead only to later ones.
                if whole.len() == 1 && reader > last {
                    continue;
                }
                for &next in whole {
                    if !std::mem::replace(&mut seen[next], true) {
                        open.push(next);
                    }
                }
            }
        }
        false
    }

    /// The regions as partitions, each after those it depends on; where that leaves a choice, the one whose last operation comes first.
    fn take(mut self) -> Vec<Cow<'p, Partition>> {
        let partitions = self.partitions;
        for region in 0..self.members.len() {
            if self.members[region].len() > 1 && self.members[region].len() < WORTH {
                for at in std::mem::take(&mut self.members[region]) {
                    self.region_of[at] = at;
                    self.members[at] = vec![at];
                }
            }
        }
        if self.members.iter().all(|members| members.len() <= 1) {
            return partitions.iter().map(Cow::Borrowed).collect();
        }
        let of = |region: usize| -> Cow<'p, Partition> {
            match self.members[region][..] {
                [only] => Cow::Borrowed(&partitions[only]),
                ref members => {
                    let ops = members.iter().flat_map(|&at| partitions[at].ops.iter().copied());
                    Cow::Owned(Partition::of_ops(self.graph, "joined", ops))
                }
            }
        };
        let last = |region: usize| {
            let ops = self.members[region].iter().filter_map(|&at| partitions[at].ops.last());
            Reverse((ops.max().copied(), region))
        };
        let sources = |region: usize| {
            let all = self.members[region].iter().flat_map(|&at| &self.sources[at]);
            let mut sources: Vec<usize> =
                all.map(|&from| self.region_of[from]).filter(|&from| from != region).collect();
            sources.sort_unstable();
            sources.dedup();
            sources
        };
        let mut waiting = vec![0; self.members.len()];
        let mut readers = vec![Vec::new(); self.members.len()];
        let mut ready = BinaryHeap::new();
        for region in (0..self.members.len()).filter(|&region| !self.members[region].is_empty()) {
            let sources = sources(region);
            waiting[region] = sources.len();
            for &source in &sources {
                readers[source].push(region);
            }
            if sources.is_empty() {
                ready.push(last(region));
            }
        }
        let mut order = Vec::with_capacity(partitions.len());
        while let Some(Reverse((_, region))) = ready.pop() {
            order.push(of(region));
            for &reader in &readers[region] {
                waiting[reader] -= 1;
                if waiting[reader] == 0 {
                    ready.push(last(reader));
                }
            }
        }
        order
    }
}

#[cfg(test)]
mod tests;
