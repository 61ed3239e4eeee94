//! Which operations become one expression.

use anydnn_backend::Result;

use super::super::exact::is_exact;
use super::layout::{Layout, Part, layout, parts};
use super::plan::{Plan, plan};
use crate::graph::{Graph, TensorId};

/// Parts that one expression computes.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) parts: Vec<Part>,
    pub(super) plan: Plan,
}

/// Groups operations, each group after those that it reads from.
///
/// Every part starts alone. Groups join where one reads what another makes, then where both read the same tensor, as long as the parts
/// of both make an expression and no third group stands between them.
pub(super) fn group(graph: &Graph, ops: &[usize], results: &[TensorId]) -> Result<Vec<Group>> {
    let used = |id: TensorId| !graph.consumers(id).is_empty() || graph.outputs().contains(&id);
    let all: Vec<Part> = ops.iter().flat_map(|&op| parts(graph, op, used)).collect();
    let layouts: Vec<Layout> = all.iter().map(|&part| layout(graph, part)).collect::<Result<_>>()?;
    let tensors = Tensors {
        reads: all.iter().zip(&layouts).map(|(part, layout)| reads(graph, *part, layout)).collect(),
        makes: all.iter().zip(&layouts).map(|(part, layout)| makes(graph, *part, layout)).collect(),
        results: results.iter().copied().filter(|&id| used(id)).collect(),
    };
    let build = |members: &[usize]| -> Result<Plan> {
        let parts: Vec<Part> = members.iter().map(|&k| all[k]).collect();
        plan(graph, &parts, |id| tensors.is_needed(id, members))
    };
    let mut groups: Vec<(Vec<usize>, Plan)> =
        (0..all.len()).map(|k| Ok((vec![k], build(&[k])?))).collect::<Result<_>>()?;
    let apart: Vec<bool> = all.iter().map(|part| is_exact(graph, part.op)).collect();
    for siblings in [false, true] {
        while let Some((a, b, joined)) = next_join(&groups, &tensors, siblings, &apart, &build) {
            groups[a] = joined;
            groups.remove(b);
        }
    }
    let members: Vec<&[usize]> = groups.iter().map(|(members, _)| &members[..]).collect();
    let order = tensors.order(&members);
    Ok(order
        .into_iter()
        .map(|i| Group { parts: groups[i].0.iter().map(|&k| all[k]).collect(), plan: groups[i].1.clone() })
        // Nobody needs what it makes.
        .filter(|group| !group.plan.results.is_empty())
        .collect())
}

/// The first two groups that can join, the nearest before the later one, and what they become.
#[allow(clippy::type_complexity, reason = "two positions and a group")]
fn next_join(
    groups: &[(Vec<usize>, Plan)],
    tensors: &Tensors,
    siblings: bool,
    apart: &[bool],
    build: &impl Fn(&[usize]) -> Result<Plan>,
) -> Option<(usize, usize, (Vec<usize>, Plan))> {
    let members: Vec<&[usize]> = groups.iter().map(|(members, _)| &members[..]).collect();
    let stay = |i: usize| members[i].iter().any(|&k| apart[k]);
    for b in 1..groups.len() {
        for a in (0..b).rev() {
            let related = if siblings {
                tensors.share(members[a], members[b])
            } else {
                tensors.feeds(members[a], members[b]) || tensors.feeds(members[b], members[a])
            };
            if !related || stay(a) || stay(b) || tensors.something_between(&members, a, b) {
                continue;
            }
            let mut union = [members[a], members[b]].concat();
            union.sort_unstable();
            if let Ok(plan) = build(&union) {
                return Some((a, b, (union, plan)));
            }
        }
    }
    None
}

/// What each part reads and makes.
struct Tensors {
    reads: Vec<Vec<TensorId>>,
    makes: Vec<Vec<TensorId>>,
    results: Vec<TensorId>,
}

impl Tensors {
    /// Whether somebody outside a group reads a tensor.
    fn is_needed(&self, id: TensorId, members: &[usize]) -> bool {
        self.results.contains(&id)
            || (0..self.reads.len()).any(|k| !members.contains(&k) && self.reads[k].contains(&id))
    }

    /// Whether one group reads what another makes.
    fn feeds(&self, from: &[usize], to: &[usize]) -> bool {
        from.iter().any(|&k| self.makes[k].iter().any(|id| to.iter().any(|&t| self.reads[t].contains(id))))
    }

    /// Whether two groups read the same tensor.
    fn share(&self, a: &[usize], b: &[usize]) -> bool {
        a.iter().any(|&k| self.reads[k].iter().any(|id| b.iter().any(|&t| self.reads[t].contains(id))))
    }

    /// Whether a third group depends on one of two and the other on it.
    fn something_between(&self, groups: &[&[usize]], a: usize, b: usize) -> bool {
        let reached = |from: usize, to: usize| {
            let mut seen = vec![false; groups.len()];
            let mut open: Vec<usize> = (0..groups.len())
                .filter(|&c| c != to && c != from && self.feeds(groups[from], groups[c]))
                .collect();
            while let Some(c) = open.pop() {
                if c == to {
                    return true;
                }
                if !std::mem::replace(&mut seen[c], true) {
                    open.extend((0..groups.len()).filter(|&d| d != c && self.feeds(groups[c], groups[d])));
                }
            }
            false
        };
        reached(a, b) || reached(b, a)
    }

    /// The groups, each after those that it reads from.
    fn order(&self, groups: &[&[usize]]) -> Vec<usize> {
        let mut left: Vec<usize> = (0..groups.len()).collect();
        let mut order = Vec::new();
        while !left.is_empty() {
            let is_ready = |&i: &usize| left.iter().all(|&j| j == i || !self.feeds(groups[j], groups[i]));
            // Joining never makes a cycle, so one is always ready.
            let at = left.iter().position(is_ready).unwrap_or(0);
            order.push(left.remove(at));
        }
        order
    }
}

fn reads(graph: &Graph, part: Part, layout: &Layout) -> Vec<TensorId> {
    let inputs = graph.ops()[part.op].inputs.iter().zip(&layout.inputs);
    inputs.filter(|(_, fit)| fit.is_some()).map(|(&id, _)| id).collect()
}

fn makes(graph: &Graph, part: Part, layout: &Layout) -> Vec<TensorId> {
    let outputs = &graph.ops()[part.op].outputs;
    layout.outputs.iter().filter_map(|&(i, _)| outputs.get(i).copied()).collect()
}
