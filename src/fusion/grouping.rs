//! Covers a graph with partitions.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::partition::{Whole, leaves};
use super::pattern::Pattern;
use super::{Partition, Policy, patterns};
use crate::formula::Matcher;
use crate::graph::Graph;

/// The partitions of a graph, every one after those it depends on and otherwise ordered by their last operations.
pub(super) fn group(graph: &Graph, policy: Policy) -> Vec<Partition> {
    let mut grouping = Grouping::new(graph);
    if policy == Policy::Fusion {
        // Stronger patterns choose first: a matmul takes the addition behind it before that addition starts a chain of its own.
        for pattern in patterns::all() {
            grouping.take(pattern);
        }
    }
    grouping.finish()
}

/// Groups of operations that never depend on each other in a cycle.
pub(crate) struct Grouping<'g> {
    graph: &'g Graph,
    taken: Vec<bool>,
    /// The group of each operation, an index into `groups`.
    group_of: Vec<Option<usize>>,
    groups: Vec<(&'static str, Vec<usize>)>,
    /// Whether a group has results at several operations: only then can groups depend on each other in a cycle.
    has_exits: bool,
}

impl<'g> Grouping<'g> {
    fn new(graph: &'g Graph) -> Self {
        let count = graph.ops().len();
        Self {
            graph,
            taken: vec![false; count],
            group_of: vec![None; count],
            groups: Vec::new(),
            has_exits: false,
        }
    }

    /// Groups that are known to have no cycle, numbered as they come.
    pub(crate) fn of(graph: &'g Graph, groups: impl IntoIterator<Item = (&'static str, Vec<usize>)>) -> Self {
        let mut grouping = Self::new(graph);
        for (name, members) in groups {
            grouping.add(name, members);
        }
        grouping
    }

    /// The group that an operation is in.
    pub(crate) fn group_of(&self, op: usize) -> Option<usize> {
        self.group_of.get(op).copied().flatten()
    }

    /// Makes the groups of two operations one of at most so many, unless something outside stands between them.
    pub(crate) fn join(&mut self, from: usize, to: usize, most: usize) {
        let (Some(from), Some(to)) = (self.group_of(from), self.group_of(to)) else { return };
        let mut members = [&self.groups[from].1[..], &self.groups[to].1].concat();
        members.sort_unstable();
        if from == to || members.len() > most || !self.stays_acyclic(&members) {
            return;
        }
        self.has_exits |= self.exits(&members) > 1;
        for &op in &members {
            self.group_of[op] = Some(from);
        }
        self.groups[from].1 = members;
        self.groups[to].1.clear();
    }

    /// Takes every place where a pattern fits. A place whose result comes later includes those within it, so it is tried first.
    fn take(&mut self, pattern: &Pattern) {
        let ops = self.graph.ops();
        for root in (0..ops.len()).rev() {
            if self.taken[root] || !pattern.formula.heads().contains(&ops[root].kind) {
                continue;
            }
            let scope = Whole { graph: self.graph, taken: &self.taken };
            let found = Matcher::new(&scope).find(&pattern.formula, root);
            if let Some(found) = found
                && self.stays_acyclic(&found.ops)
            {
                self.add(pattern.name, found.ops);
            }
        }
    }

    fn add(&mut self, name: &'static str, members: Vec<usize>) {
        self.has_exits |= self.exits(&members) > 1;
        for &op in &members {
            self.taken[op] = true;
            self.group_of[op] = Some(self.groups.len());
        }
        self.groups.push((name, members));
    }

    /// How many operations make something that is seen outside.
    fn exits(&self, members: &[usize]) -> usize {
        let seen = |op: &usize| {
            self.graph.ops()[*op].outputs.iter().any(|&tensor| leaves(self.graph, members, tensor))
        };
        members.iter().filter(|op| seen(op)).count()
    }

    /// Whether nothing leads from these operations out and back into them, other groups being passed as a whole.
    fn stays_acyclic(&self, members: &[usize]) -> bool {
        if !self.has_exits && self.exits(members) <= 1 {
            return true;
        }
        let ops = self.graph.ops();
        let mut is_member = vec![false; ops.len()];
        for &op in members {
            is_member[op] = true;
        }
        let mut seen = is_member.clone();
        let mut edge = members.to_vec();
        while let Some(op) = edge.pop() {
            for &reader in ops[op].outputs.iter().flat_map(|&id| self.graph.consumers(id)) {
                if is_member[reader] {
                    if !is_member[op] {
                        return false;
                    }
                    continue;
                }
                let whole =
                    self.group_of[reader].map_or(std::slice::from_ref(&reader), |g| &self.groups[g].1);
                for &next in whole {
                    if !std::mem::replace(&mut seen[next], true) {
                        edge.push(next);
                    }
                }
            }
        }
        true
    }

    /// The groups and what is left as partitions, in order.
    pub(crate) fn finish(mut self) -> Vec<Partition> {
        for op in 0..self.taken.len() {
            if !self.taken[op] {
                self.add("single_op", vec![op]);
            }
        }
        let order = self.order();
        let partitions = order.into_iter().enumerate().map(|(id, group)| {
            let (pattern, members) = &self.groups[group];
            Partition { id, ..Partition::of_ops(self.graph, pattern, members.iter().copied()) }
        });
        partitions.collect()
    }

    /// The groups, each after those it depends on; where that leaves a choice, the one whose last operation comes first.
    fn order(&self) -> Vec<usize> {
        let ops = self.graph.ops();
        let last = |group: usize| self.groups[group].1.last().copied();
        let sources = |group: usize| {
            let inputs = self.groups[group].1.iter().flat_map(|&op| &ops[op].inputs);
            let mut sources: Vec<usize> = inputs
                .filter_map(|&id| self.group_of[self.graph.producer(id)?])
                .filter(|&source| source != group)
                .collect();
            sources.sort_unstable();
            sources.dedup();
            sources
        };
        let mut waiting = Vec::with_capacity(self.groups.len());
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); self.groups.len()];
        for group in 0..self.groups.len() {
            let sources = sources(group);
            waiting.push(sources.len());
            for &source in &sources {
                readers[source].push(group);
            }
        }
        let mut ready: BinaryHeap<_> =
            (0..waiting.len()).filter(|&g| waiting[g] == 0).map(|g| Reverse((last(g), g))).collect();
        let mut order = Vec::with_capacity(waiting.len());
        while let Some(Reverse((_, group))) = ready.pop() {
            order.push(group);
            for &reader in &readers[group] {
                waiting[reader] -= 1;
                if waiting[reader] == 0 {
                    ready.push(Reverse((last(reader), reader)));
                }
            }
        }
        order
    }
}
