//! One slab: all levels of folds, then the results.

use anydnn_backend::Result;
use anydnn_backend::op::{Expression, Fold, Node};
use rayon::prelude::*;

use super::super::CHUNK;
use super::super::element::Float;
use super::super::operands::Operands;
use super::fold::Groups;
use super::{Leaves, Plan, Space};
use anydnn_backend::Arg;

/// Some groups along the outer axes with all of the folded and inner ones, and the results' elements there.
#[derive(Debug)]
pub(super) struct Slab<'o, T> {
    pub(super) first: usize,
    pub(super) outer: usize,
    pub(super) outputs: Vec<&'o mut [T]>,
}

/// A result: the node, and whether it has the space's dimensions or one value for each group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    pub(super) node: usize,
    pub(super) full: bool,
}

/// The plans of an expression, level by level.
#[derive(Debug)]
pub(super) struct Program<'a> {
    op: &'a Expression,
    space: &'a Space,
    outputs: &'a [Output],
    /// Leaves at positions of the whole space, and of its folded form.
    leaves: Leaves<'a>,
    group_leaves: Leaves<'a>,
    /// Which nodes have one value for each group.
    grouped: Vec<bool>,
    levels: Vec<Level>,
    /// The plan of the full results.
    last: Option<Plan>,
}

/// What is known with so many folds done.
#[derive(Debug)]
struct Level {
    /// The folds that end at this level, with the plan of what they fold.
    folds: Vec<(usize, Fold)>,
    fold_plan: Option<Plan>,
    /// The other values of groups, with their plan.
    values: Vec<usize>,
    value_plan: Option<Plan>,
}

impl<'a> Program<'a> {
    pub(super) fn new(
        op: &'a Expression,
        operands: &Operands<'a>,
        space: &'a Space,
        outputs: &'a [Output],
    ) -> Result<Self> {
        let dims_of = |i: u16| operands.desc.find(Arg::Src(i)).map(|desc| desc.dims().clone());
        let grouped: Vec<bool> = if op.folded.is_empty() {
            vec![false; op.nodes.len()]
        } else {
            op.varies(dims_of).iter().map(|varies| !varies).collect()
        };
        let levels = levels(op);
        // Values of groups that something outside of the groups' own computations reads.
        let mut wanted = vec![false; op.nodes.len()];
        for (i, node) in op.nodes.iter().enumerate() {
            if !grouped[i] || matches!(node, Node::Fold(..)) {
                node.uses().for_each(|used| wanted[used] |= grouped[used]);
            }
        }
        for output in outputs {
            wanted[output.node] |= grouped[output.node];
        }
        let is_fold = |i: usize| matches!(op.nodes[i], Node::Fold(..));
        let is_grouped = |i: usize| grouped[i];
        let plan = |targets: &[usize], leaf: &dyn Fn(usize) -> bool| {
            (!targets.is_empty()).then(|| Plan::new(op, targets, leaf)).transpose()
        };
        let mut all = Vec::new();
        for level in 0..=levels.iter().copied().max().unwrap_or(0) {
            let here = |i: usize| levels[i] == level;
            let mut folds = Vec::new();
            let mut folded = Vec::new();
            for (i, node) in op.nodes.iter().enumerate() {
                if let Node::Fold(fold, argument) = *node
                    && grouped[i]
                    && here(i)
                {
                    folds.push((i, fold));
                    folded.push(argument);
                }
            }
            let values: Vec<usize> =
                (0..op.nodes.len()).filter(|&i| here(i) && wanted[i] && !is_fold(i)).collect();
            all.push(Level {
                fold_plan: plan(&folded, &is_grouped)?,
                value_plan: plan(&values, &|_| false)?,
                folds,
                values,
            });
        }
        let full: Vec<usize> =
            outputs.iter().filter(|output| output.full).map(|output| output.node).collect();
        let source = |i: u16| Some(Arg::Src(i));
        Ok(Self {
            op,
            space,
            outputs,
            leaves: Leaves::new(operands, op, &op.dims, &space.order, source)?,
            group_leaves: Leaves::new(operands, op, &op.folded_dims(), &space.order, source)?,
            last: plan(&full, &is_grouped)?,
            grouped,
            levels: all,
        })
    }

    /// Computes the results of one slab.
    pub(super) fn run<T: Float>(&self, slab: Slab<'_, T>) {
        let mut groups = Groups::new(self.space, slab.first, slab.outer, self.op.nodes.len());
        for level in &self.levels {
            if let Some(plan) = &level.fold_plan {
                let load = |groups: &Groups<'_, T>, node: usize, at: usize, values: &mut [T]| {
                    self.load(groups, node, at, values);
                };
                groups.fold(plan, &level.folds, load);
            }
            if let Some(plan) = &level.value_plan {
                self.values_of_groups(&mut groups, plan, &level.values);
            }
        }
        let (mut full, mut folded) = (Vec::new(), Vec::new());
        for (output, values) in self.outputs.iter().zip(slab.outputs) {
            if output.full { full.push(values) } else { folded.push((output.node, values)) }
        }
        for (node, values) in folded {
            values.copy_from_slice(groups.get(node));
        }
        if let Some(plan) = &self.last {
            self.full_results(&groups, plan, full);
        }
    }

    fn load<T: Float>(&self, groups: &Groups<'_, T>, node: usize, at: usize, values: &mut [T]) {
        if self.grouped[node] { groups.expand(node, at, values) } else { self.leaves.load(node, at, values) }
    }

    fn values_of_groups<T: Float>(&self, groups: &mut Groups<'_, T>, plan: &Plan, nodes: &[usize]) {
        let count = groups.count();
        let mut values: Vec<Vec<T>> = nodes.iter().map(|_| Vec::with_capacity(count)).collect();
        let mut slots = plan.slots();
        for start in (0..count).step_by(CHUNK) {
            let length = CHUNK.min(count - start);
            plan.run(&mut slots, start, length, |node, at, values| {
                if matches!(self.op.nodes[node], Node::Fold(..)) {
                    values.copy_from_slice(&groups.get(node)[at..][..length]);
                } else {
                    self.group_leaves.load(node, groups.first() + at, values);
                }
            });
            for (i, values) in values.iter_mut().enumerate() {
                values.extend_from_slice(plan.target(&slots, i, length));
            }
        }
        for (&node, values) in nodes.iter().zip(values) {
            groups.set(node, values);
        }
    }

    /// Everything that has the space's dimensions, in chunks side by side.
    fn full_results<T: Float>(&self, groups: &Groups<'_, T>, plan: &Plan, outputs: Vec<&mut [T]>) {
        let elements = groups.elements();
        let mut chunks: Vec<(usize, Vec<&mut [T]>)> =
            (0..elements).step_by(CHUNK).map(|start| (start, Vec::with_capacity(outputs.len()))).collect();
        for output in outputs {
            for ((_, parts), part) in chunks.iter_mut().zip(output.chunks_mut(CHUNK)) {
                parts.push(part);
            }
        }
        let work = |slots: &mut super::plan::Slots<T>, (start, parts): (usize, Vec<&mut [T]>)| {
            let length = CHUNK.min(elements - start);
            let first = groups.start() + start;
            plan.run(slots, first, length, |node, at, values| self.load(groups, node, at, values));
            for (i, part) in parts.into_iter().enumerate() {
                part.copy_from_slice(plan.target(slots, i, length));
            }
        };
        if elements > 2 * super::SLAB {
            chunks.into_par_iter().with_min_len(4).for_each_init(|| plan.slots(), work);
        } else {
            let mut slots = plan.slots();
            for chunk in chunks {
                work(&mut slots, chunk);
            }
        }
    }
}

/// How many folds stand one behind another before each node.
fn levels(op: &Expression) -> Vec<usize> {
    let mut levels: Vec<usize> = Vec::with_capacity(op.nodes.len());
    for node in &op.nodes {
        let below = node.uses().map(|used| levels[used]).max().unwrap_or(0);
        levels.push(below + usize::from(matches!(node, Node::Fold(..))));
    }
    levels
}
