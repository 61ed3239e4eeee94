//! The groups of a slab: their folds, accumulated in f64, and their values.

use anydnn_backend::op::Fold;

use super::super::CHUNK;
use super::super::element::Float;
use super::super::parallel::parallel_map;
use super::{Plan, Space};

/// Elements that one task folds.
const PIECE: usize = 1 << 15;
/// Inner axes of at least this length are split among tasks, shorter ones are folded by whole pieces.
const WIDE: usize = 512;
/// Sums of neighbours run side by side.
const LANES: usize = 8;

/// The values of the nodes that have one for each group, in the order of the space without the folded axes.
#[derive(Debug)]
pub(super) struct Groups<'s, T> {
    space: &'s Space,
    first_outer: usize,
    outer: usize,
    values: Vec<Vec<T>>,
}

impl<'s, T: Float> Groups<'s, T> {
    pub(super) fn new(space: &'s Space, first_outer: usize, outer: usize, nodes: usize) -> Self {
        Self { space, first_outer, outer, values: vec![Vec::new(); nodes] }
    }

    /// The number of groups.
    pub(super) fn count(&self) -> usize {
        self.outer * self.space.inner
    }

    /// The first group's position among all.
    pub(super) fn first(&self) -> usize {
        self.first_outer * self.space.inner
    }

    /// The first element's position in the space.
    pub(super) fn start(&self) -> usize {
        self.first() * self.space.folded
    }

    /// The number of elements.
    pub(super) fn elements(&self) -> usize {
        self.count() * self.space.folded
    }

    pub(super) fn get(&self, node: usize) -> &[T] {
        &self.values[node]
    }

    pub(super) fn set(&mut self, node: usize, values: Vec<T>) {
        self.values[node] = values;
    }

    /// A group's value for each element from a position of the space on.
    pub(super) fn expand(&self, node: usize, at: usize, values: &mut [T]) {
        let groups = &self.values[node];
        let mut at = at - self.start();
        let mut values = values;
        while !values.is_empty() {
            let (group, run) = self.run(at, values.len());
            let (now, later) = values.split_at_mut(run);
            if self.space.inner == 1 {
                now.fill(groups[group]);
            } else {
                now.copy_from_slice(&groups[group..][..run]);
            }
            at += run;
            values = later;
        }
    }

    /// The group of the element at a position of the slab, and how many of the next `most` elements are in the same group, or with inner
    /// axes, in groups that are neighbours.
    fn run(&self, at: usize, most: usize) -> (usize, usize) {
        let (folded, inner) = (self.space.folded, self.space.inner);
        if inner == 1 {
            return (at / folded, most.min(folded - at % folded));
        }
        (at / (folded * inner) * inner + at % inner, most.min(inner - at % inner))
    }

    /// Makes the values of some folds; the plan's targets are what they fold.
    pub(super) fn fold(
        &mut self,
        plan: &Plan,
        folds: &[(usize, Fold)],
        load: impl Fn(&Self, usize, usize, &mut [T]) + Sync,
    ) {
        let elements = self.elements();
        let sums = if self.space.inner >= WIDE {
            self.by_columns(plan, folds, &load)
        } else {
            // So few pieces that their sums are little beside the elements.
            let piece = PIECE.max(elements.div_ceil(64));
            let part = |start: usize| self.piece(plan, folds, start, piece.min(elements - start), &load);
            if elements <= piece {
                part(0)
            } else {
                let starts: Vec<usize> = (0..elements).step_by(piece).collect();
                let parts: Vec<Vec<Vec<f64>>> = parallel_map(starts.len(), &|i| part(starts[i]));
                let join = |mut total: Vec<Vec<f64>>, part: Vec<Vec<f64>>| {
                    for ((total, part), (_, fold)) in total.iter_mut().zip(&part).zip(folds) {
                        join_all(*fold, total, part.iter().copied());
                    }
                    total
                };
                parts.into_iter().reduce(join).unwrap_or_default()
            }
        };
        for ((node, _), sums) in folds.iter().zip(sums) {
            self.values[*node] = sums.into_iter().map(T::from_f64).collect();
        }
    }

    /// The folds of a run of elements, all groups of the slab beside one another.
    fn piece(
        &self,
        plan: &Plan,
        folds: &[(usize, Fold)],
        start: usize,
        length: usize,
        load: &(impl Fn(&Self, usize, usize, &mut [T]) + Sync),
    ) -> Vec<Vec<f64>> {
        let mut sums: Vec<Vec<f64>> =
            folds.iter().map(|(_, fold)| vec![fold.start(); self.count()]).collect();
        let mut slots = plan.slots();
        for first in (start..start + length).step_by(CHUNK) {
            let count = CHUNK.min(start + length - first);
            plan.run(&mut slots, self.start() + first, count, |node, at, values| {
                load(self, node, at, values);
            });
            for (i, ((_, fold), sums)) in folds.iter().zip(&mut sums).enumerate() {
                let mut values = plan.target(&slots, i, count);
                let mut at = first;
                while !values.is_empty() {
                    let (group, run) = self.run(at, values.len());
                    let (now, later) = values.split_at(run);
                    if self.space.inner == 1 {
                        sums[group] = join(*fold, sums[group], fold_run(*fold, now));
                    } else {
                        join_all(*fold, &mut sums[group..][..run], now.iter().map(|value| value.to_f64()));
                    }
                    at += run;
                    values = later;
                }
            }
        }
        sums
    }

    /// The folds of blocks of neighbouring groups, each down its columns.
    fn by_columns(
        &self,
        plan: &Plan,
        folds: &[(usize, Fold)],
        load: &(impl Fn(&Self, usize, usize, &mut [T]) + Sync),
    ) -> Vec<Vec<f64>> {
        let (folded, inner) = (self.space.folded, self.space.inner);
        let blocks: Vec<(usize, usize)> = (0..self.outer)
            .flat_map(|outer| (0..inner).step_by(CHUNK).map(move |column| (outer, column)))
            .collect();
        let block = |(outer, column): (usize, usize)| {
            let width = CHUNK.min(inner - column);
            let mut sums: Vec<Vec<f64>> = folds.iter().map(|(_, fold)| vec![fold.start(); width]).collect();
            let mut slots = plan.slots();
            for row in 0..folded {
                let first = self.start() + (outer * folded + row) * inner + column;
                plan.run(&mut slots, first, width, |node, at, values| load(self, node, at, values));
                for (i, ((_, fold), sums)) in folds.iter().zip(&mut sums).enumerate() {
                    join_all(*fold, sums, plan.target(&slots, i, width).iter().map(|value| value.to_f64()));
                }
            }
            sums
        };
        let parts: Vec<Vec<Vec<f64>>> = parallel_map(blocks.len(), &|i| block(blocks[i]));
        (0..folds.len()).map(|i| parts.iter().flat_map(|part| part[i].iter().copied()).collect()).collect()
    }
}

fn join(fold: Fold, a: f64, b: f64) -> f64 {
    match fold {
        Fold::Sum => a + b,
        Fold::Product => a * b,
        // A comparison with NaN is false, which keeps the NaN of either side.
        Fold::Max if b > a || b.is_nan() => b,
        Fold::Min if b < a || b.is_nan() => b,
        Fold::Max | Fold::Min => a,
        other => other.join(a, b),
    }
}

fn join_all(fold: Fold, sums: &mut [f64], values: impl Iterator<Item = f64>) {
    match fold {
        Fold::Sum => sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value),
        other => sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = join(other, *sum, value)),
    }
}

fn fold_run<T: Float>(fold: Fold, values: &[T]) -> f64 {
    let mut lanes = [fold.start(); LANES];
    let chunks = values.chunks_exact(LANES);
    for (lane, value) in lanes.iter_mut().zip(chunks.remainder()) {
        *lane = value.to_f64();
    }
    for chunk in chunks {
        join_all(fold, &mut lanes, chunk.iter().map(|value| value.to_f64()));
    }
    lanes.into_iter().fold(fold.start(), |a, b| join(fold, a, b))
}
