//! The order of operations.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anydnn_backend::{Error, InvalidKind, Result};
use smallvec::SmallVec;

use super::op::Op;
use super::tensor::ByTensor;

/// The operations that read a tensor: mostly one.
pub(super) type Readers = SmallVec<[usize; 2]>;

/// The operation that makes each tensor.
///
/// # Errors
/// [`Error::Invalid`] when two operations make the same tensor.
pub(super) fn producers(ops: &[Op]) -> Result<ByTensor<usize>> {
    let mut producers = ByTensor::default();
    for (i, op) in ops.iter().enumerate() {
        for &id in &op.outputs {
            if let Some(first) = producers.insert(id, i) {
                let given = format!("made by {} and {}", ops[first], op);
                return Err(graph_error(format!("tensor {id}"), given, "made by one operation"));
            }
        }
    }
    Ok(producers)
}

/// The operations that read each tensor, ascending, once for each reading input.
pub(super) fn consumers(ops: &[Op]) -> ByTensor<Readers> {
    let mut consumers: ByTensor<Readers> = ByTensor::default();
    for (i, op) in ops.iter().enumerate() {
        for &id in &op.inputs {
            consumers.entry(id).or_default().push(i);
        }
    }
    consumers
}

/// The operations with each after those it depends on, and which of them makes each tensor; where the order is free it stays as given.
///
/// # Errors
/// [`Error::Invalid`] that names the operations on a cycle, or two that make the same tensor.
pub(super) fn sort(ops: Vec<Op>) -> Result<(Vec<Op>, ByTensor<usize>)> {
    let producers = producers(&ops)?;
    let is_sorted = |(i, op): (usize, &Op)| {
        op.inputs.iter().all(|id| producers.get(id).is_none_or(|&producer| producer < i))
    };
    if ops.iter().enumerate().all(is_sorted) {
        return Ok((ops, producers));
    }
    let consumers = consumers(&ops);
    let mut waiting: Vec<usize> =
        ops.iter().map(|op| op.inputs.iter().filter(|id| producers.contains_key(*id)).count()).collect();
    let mut ready: BinaryHeap<_> = (0..ops.len()).filter(|&i| waiting[i] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(ops.len());
    while let Some(Reverse(i)) = ready.pop() {
        order.push(i);
        for reader in ops[i].outputs.iter().filter_map(|id| consumers.get(id)).flatten() {
            waiting[*reader] -= 1;
            if waiting[*reader] == 0 {
                ready.push(Reverse(*reader));
            }
        }
    }
    if order.len() < ops.len() {
        return Err(cycle(&ops, &producers, &waiting));
    }
    let mut ops: Vec<_> = ops.into_iter().map(Some).collect();
    let ops: Vec<Op> = order.into_iter().filter_map(|i| ops[i].take()).collect();
    let producers = self::producers(&ops)?;
    Ok((ops, producers))
}

/// The error for the cycle that is found by going from an unsorted operation to the makers of its inputs.
fn cycle(ops: &[Op], producers: &ByTensor<usize>, waiting: &[usize]) -> Error {
    const SHOWN: usize = 16;
    let unsorted = |i: &usize| waiting[*i] > 0;
    let mut path = Vec::new();
    let mut seen = vec![None; ops.len()];
    let mut next = (0..ops.len()).find(unsorted);
    while let Some(i) = next {
        if let Some(start) = seen[i] {
            path.drain(..start);
            break;
        }
        seen[i] = Some(path.len());
        path.push(i);
        next = ops[i].inputs.iter().filter_map(|id| producers.get(id).copied()).find(unsorted);
    }
    path.reverse();
    let mut names: Vec<_> = path.iter().take(SHOWN).map(|&i| format!("{:?}", ops[i].name)).collect();
    if path.len() > SHOWN {
        names.push(format!("{} more", path.len() - SHOWN));
    }
    names.extend(path.first().map(|&i| format!("{:?}", ops[i].name)));
    graph_error("order of operations", format!("a cycle: {}", names.join(" -> ")), "acyclic")
}

pub(super) fn graph_error(
    subject: impl Into<String>,
    given: impl Into<String>,
    expected: impl Into<String>,
) -> Error {
    Error::invalid_kind(InvalidKind::Graph, "graph", subject, given, expected)
}
