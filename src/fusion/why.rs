//! Why partitions end, and why operations are not one.

use super::partition::{Stop, Whole};
use super::{Partition, Partitioning, Policy, patterns};
use crate::formula::parts::{BINARY, UNARY};
use crate::formula::{Matcher, Obstacle};
use crate::graph::{Graph, LogicalTensor, OpKind, TensorId};

/// Why nothing is fused under [`Policy::Debug`].
const DEBUG: &str = "the policy is debug: every operation stands alone";

/// The most operations for which every pattern is tried.
const MOST_OPS: usize = 256;

/// Why nothing more joined a partition; none where the graph ends.
pub(super) fn stop(
    graph: &Graph,
    partitioning: &Partitioning,
    policy: Policy,
    part: &Partition,
) -> Option<Stop> {
    let ops = graph.ops();
    if policy == Policy::Debug {
        return Some(Stop { next: None, reason: DEBUG.into() });
    }
    let used = |id: &&TensorId| graph.outputs().contains(id) || !graph.consumers(**id).is_empty();
    if part.ops.len() > 1 && part.outputs.len() > 1 {
        let labels: Vec<_> = part.outputs.iter().map(|&id| graph.label(id)).collect();
        return Some(Stop { next: None, reason: format!("it has several results: {}", labels.join(", ")) });
    }
    if let Some(&second) = part.outputs.iter().skip(1).find(used) {
        let maker = graph.producer(second).map_or_else(String::new, |op| ops[op].to_string());
        let reason = format!("{maker} has a second result in use, {}", graph.label(second));
        return Some(Stop { next: None, reason });
    }
    let tensor = *part.outputs.first()?;
    let label = graph.label(tensor);
    let readers = graph.consumers(tensor);
    let &first = readers.first()?;
    if graph.outputs().contains(&tensor) {
        return Some(Stop { next: Some(first), reason: format!("{label} is also an output of the graph") });
    }
    if readers.len() > 1 {
        let names: Vec<_> = readers.iter().map(|&reader| ops[reader].name.as_str()).collect();
        let reason = format!("{label} is read {} times (by {})", readers.len(), names.join(", "));
        return Some(Stop { next: None, reason });
    }
    let next = &ops[first];
    let other = partitioning.of(first).filter(|other| other.ops.len() > 1);
    let reason = match (stretches(graph, tensor, first), other) {
        _ if !rides(next.kind) => format!("{next} cannot ride on another operation"),
        (Some(reason), _) => reason,
        (None, Some(other)) => format!("{next} is part of partition {} ({})", other.id, other.pattern),
        (None, None) if part.ops.len() == 1 => {
            format!("no pattern starts with {} and goes on with {next}", ops[part.ops[0]].kind)
        }
        (None, None) => format!("{} has no place for {next} here", part.pattern),
    };
    Some(Stop { next: Some(first), reason })
}

/// Whether an operation can follow another one in some chain.
fn rides(kind: OpKind) -> bool {
    use OpKind::{
        BatchNormInference, BiasAdd, Dropout, Quantize, Reorder, Select, StaticReshape, StaticTranspose,
        TypeCast,
    };
    matches!(
        kind,
        BatchNormInference
            | BiasAdd
            | Dropout
            | Quantize
            | Reorder
            | Select
            | StaticReshape
            | StaticTranspose
            | TypeCast
    ) || UNARY.contains(&kind)
        || BINARY.contains(&kind)
}

/// Why a function of several elements cannot work on a tensor in its own shape.
fn stretches(graph: &Graph, tensor: TensorId, op: usize) -> Option<String> {
    let op = &graph.ops()[op];
    if !BINARY.contains(&op.kind) && op.kind != OpKind::Select {
        return None;
    }
    let dims = |id| graph.tensor(id).and_then(LogicalTensor::known_dims);
    match (dims(tensor), op.outputs.first().copied().and_then(dims)) {
        (Some(own), Some(result)) if own == result => None,
        (Some(own), Some(result)) => Some(format!("{op} stretches {own} to {result}")),
        _ => Some(format!("the shapes around {op} are not known")),
    }
}

/// Why these operations are not one partition; none when they are.
pub(super) fn not_fused(graph: &Graph, partitioning: &Partitioning, ops: &[usize]) -> Option<String> {
    let mut parts: Vec<&Partition> = ops.iter().filter_map(|&op| partitioning.of(op)).collect();
    parts.sort_by_key(|part| part.id);
    parts.dedup_by_key(|part| part.id);
    if parts.len() < 2 {
        return None;
    }
    // What runs as one already stays together.
    let mut ops: Vec<usize> = parts.iter().flat_map(|part| part.ops.iter().copied()).collect();
    ops.sort_unstable();
    if let Some(reason) = scattered(graph, &ops).or_else(|| detour(graph, &ops)) {
        return Some(reason);
    }
    let mut reasons: Vec<String> = parts[..parts.len() - 1]
        .iter()
        .map(|part| {
            let reason = part.stopped.as_ref().map_or("nothing follows it", |stop| &stop.reason);
            format!("{} ({}): {reason}", names(graph, &part.ops), part.pattern)
        })
        .collect();
    let is_debug = |part: &&Partition| part.stopped.as_ref().is_some_and(|stop| stop.reason == DEBUG);
    if ops.len() <= MOST_OPS && !parts.iter().any(is_debug) {
        reasons.extend(closest(graph, partitioning, &ops));
    }
    Some(reasons.join("; "))
}

/// Operations that no tensor connects.
fn scattered(graph: &Graph, ops: &[usize]) -> Option<String> {
    let all = graph.ops();
    let touches = |a: usize, b: usize| {
        let of = |op: usize| all[op].inputs.iter().chain(&all[op].outputs);
        of(a).any(|id| of(b).any(|other| id == other))
    };
    let mut found = vec![*ops.first()?];
    let mut left: Vec<usize> = ops[1..].to_vec();
    let mut at = 0;
    while let Some(&op) = found.get(at) {
        let (near, far): (Vec<usize>, Vec<usize>) = left.into_iter().partition(|&other| touches(op, other));
        found.extend(near);
        left = far;
        at += 1;
    }
    let apart = left.first()?;
    Some(format!("no tensor connects {} with {}", all[*apart], names(graph, &found)))
}

/// A way out of the operations and back into them.
fn detour(graph: &Graph, ops: &[usize]) -> Option<String> {
    let all = graph.ops();
    let inside = |op: usize| ops.binary_search(&op).is_ok();
    let mut from: Vec<Option<usize>> = vec![None; all.len()];
    let mut edge: Vec<usize> = ops.to_vec();
    while let Some(op) = edge.pop() {
        for &tensor in &all[op].outputs {
            for &reader in graph.consumers(tensor) {
                if !inside(reader) {
                    if from[reader].is_none() {
                        from[reader] = Some(op);
                        edge.push(reader);
                    }
                } else if !inside(op) {
                    let mut way = vec![op];
                    while let Some(before) = from[way[way.len() - 1]].filter(|&before| !inside(before)) {
                        way.push(before);
                    }
                    way.reverse();
                    let way: Vec<_> = way.into_iter().map(|op| all[op].to_string()).collect();
                    let label = graph.label(tensor);
                    return Some(format!(
                        "{} needs {label}, which comes back to it through {}, not one of these",
                        all[reader],
                        way.join(", ")
                    ));
                }
            }
        }
    }
    None
}

/// The pattern that these operations are least far from, and what stands against it.
fn closest(graph: &Graph, partitioning: &Partitioning, ops: &[usize]) -> Option<String> {
    let mut taken = vec![true; graph.ops().len()];
    for &op in ops {
        taken[op] = false;
    }
    let kinds: Vec<OpKind> = ops.iter().map(|&op| graph.ops()[op].kind).collect();
    let scope = Whole { graph, taken: &taken };
    let tries = patterns::all().iter().map(|pattern| {
        let (mut members, mut obstacle): (Vec<usize>, Option<Obstacle>) = (Vec::new(), None);
        for &root in
            ops.iter().rev().filter(|&&root| pattern.formula.heads().contains(&graph.ops()[root].kind))
        {
            let mut matcher = Matcher::explaining(&scope);
            match matcher.find(&pattern.formula, root) {
                Some(found) if found.ops.len() > members.len() => members = found.ops,
                Some(_) => {}
                None => {
                    let known = obstacle.as_ref().map_or((true, 0), |known| known.rank);
                    obstacle = matcher.obstacle().filter(|new| new.rank > known).or(obstacle);
                }
            }
        }
        let obstacle = obstacle.filter(|obstacle| obstacle.members.len() >= members.len());
        (pattern, members, obstacle)
    });
    let depth = |members: &[usize], obstacle: &Option<Obstacle>| {
        members.len().max(obstacle.as_ref().map_or(0, |obstacle| obstacle.members.len()))
    };
    let (pattern, members, obstacle) = tries
        .filter(|(_, members, obstacle)| depth(members, obstacle) > 0)
        .min_by_key(|(pattern, members, obstacle)| {
            (pattern.formula.distance(&kinds), std::cmp::Reverse(depth(members, obstacle)))
        })?;
    let name = pattern.name;
    if members == ops {
        let other = ops.iter().filter_map(|&op| partitioning.of(op)).find(|part| part.ops.len() > 1)?;
        return Some(format!(
            "{name} fits, but {} are partition {} ({})",
            names(graph, &other.ops),
            other.id,
            other.pattern
        ));
    }
    if let Some(obstacle) = obstacle {
        let with = names(graph, &obstacle.members);
        let expected = match &obstacle.expected[..] {
            [] => String::new(),
            words => format!(" where it expects {}", words.join(" or ")),
        };
        return Some(format!("{name} comes closest: with {with} matched, {}{expected}", obstacle.reason));
    }
    let left = ops.iter().copied().filter(|op| !members.contains(op));
    let missing = left.max_by_key(|&op| (touches(graph, &members, op), std::cmp::Reverse(op)))?;
    Some(format!(
        "{name} comes closest: it takes {} and has no place for {}",
        names(graph, &members),
        graph.ops()[missing]
    ))
}

/// Whether an operation reads what these make or makes what they read.
fn touches(graph: &Graph, members: &[usize], op: usize) -> bool {
    let op = &graph.ops()[op];
    members.iter().map(|&member| &graph.ops()[member]).any(|member| {
        member.outputs.iter().any(|id| op.inputs.contains(id))
            || op.outputs.iter().any(|id| member.inputs.contains(id))
    })
}

fn names(graph: &Graph, ops: &[usize]) -> String {
    let mut ops = ops.to_vec();
    ops.sort_unstable();
    ops.iter().map(|&op| graph.ops()[op].name.as_str()).collect::<Vec<_>>().join(" + ")
}
