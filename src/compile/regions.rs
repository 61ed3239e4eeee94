//! Regions: partitions of few elements that are lowered together, as launching each takes longer than what it computes.
//!
//! What a recurrent cell does behind its products is two dozen functions of some hundred elements, whose results fork and meet again, so
//! that no chain holds them. As one region they are one expression, as far as their shapes go together.

use rustc_hash::FxHashSet;

use super::lower;
use crate::fusion::{Grouping, Partition};
use crate::graph::{Graph, LogicalTensor, Property, TensorId};

/// The fewest partitions of a region, and the most operations: one program serves the expressions of all of them.
const WORTH: usize = 2;
const MOST: usize = 64;

/// Partitions, given each after those it depends on, in such an order again and joined where that pays: functions of at most `few`
/// elements. None where there are none.
pub(super) fn joined(graph: &Graph, partitions: &[Partition], few: usize) -> Option<Vec<Partition>> {
    let small = small(graph, partitions, few);
    let count = |members: &[usize]| members.len() >= WORTH;
    if !count(&small) {
        return None;
    }
    let each = partitions.iter().map(|partition| (partition.pattern, partition.ops.clone()));
    let mut grouping = Grouping::of(graph, each);
    let ops: FxHashSet<usize> = small.iter().flat_map(|&at| &partitions[at].ops).copied().collect();
    for &at in &small {
        let partition = &partitions[at];
        for source in partition.inputs.iter().filter_map(|&id| graph.producer(id)) {
            if ops.contains(&source) {
                grouping.join(source, partition.ops[0], MOST);
            }
        }
    }
    let region_of = |at: &usize| grouping.group_of(partitions[*at].ops[0]);
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); partitions.len()];
    for at in 0..partitions.len() {
        members[region_of(&at).unwrap_or(at)].push(at);
    }
    if !members.iter().any(|members| count(members)) {
        return None;
    }
    let regions = members.into_iter().flat_map(|members| {
        if count(&members) {
            vec![("joined", members.iter().flat_map(|&at| partitions[at].ops.iter().copied()).collect())]
        } else {
            members.iter().map(|&at| (partitions[at].pattern, partitions[at].ops.clone())).collect()
        }
    });
    Some(Grouping::of(graph, regions).finish())
}

/// The partitions that compute functions of a few elements on every execution.
fn small(graph: &Graph, partitions: &[Partition], few: usize) -> Vec<usize> {
    let mut fixed: FxHashSet<TensorId> = FxHashSet::default();
    let is_few = |&id: &TensorId| {
        let dims = graph.tensor(id).and_then(LogicalTensor::known_dims);
        dims.is_some_and(|dims| (1..=few).contains(&dims.elements()))
    };
    let mut small = Vec::new();
    for (at, partition) in partitions.iter().enumerate() {
        let is_fixed = |id: &TensorId| {
            fixed.contains(id)
                || graph.tensor(*id).is_some_and(|tensor| tensor.property == Property::Constant)
        };
        let mut ops = partition.ops.iter().map(|&op| &graph.ops()[op]);
        if partition.inputs.iter().all(is_fixed) {
            // What runs once is not to run each time.
            fixed.extend(&partition.outputs);
        } else if ops.all(|op| lower::is_function(op.kind) && op.outputs.iter().all(is_few)) {
            small.push(at);
        }
    }
    small
}
