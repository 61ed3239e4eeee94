//! Folds along axes: of neighbours into one, or of rows into a row.

use std::ops::Range;

use anydnn_backend::op::{Reduction as Op, ReductionAlgorithm};
use anydnn_backend::{Arg, PrimitiveDesc};
use smallvec::SmallVec;

use super::call::{Call, Rooms};
use super::finish::{FinishPlan, Rows};
use super::places::{Places, strides_of};
use super::{Fast, Shared, functions, sums};

/// Elements that one thread does sooner than another one comes to help.
const ALONE: usize = 1 << 14;
/// Elements of a part of a fold. It does not depend on the number of threads, so that neither do the sums.
const PART: usize = 1 << 16;
/// Results that a task makes.
const TOGETHER: usize = 64;
/// Columns of a task.
const COLUMNS: usize = 512;
/// Rows of a piece.
const PIECE_ROWS: usize = 64;
/// The most factors of a product: of many near one the same part is lost in each step, and such errors add up.
const FACTORS: usize = 1 << 12;

#[derive(Debug)]
pub(super) struct Reduction {
    algorithm: ReductionAlgorithm,
    first: usize,
    /// The innermost axes: folded, or kept.
    inner: usize,
    is_inner_folded: bool,
    folded: Places,
    folded_count: usize,
    kept: Places,
    kept_count: usize,
    /// Elements behind a result.
    count: usize,
    parts: usize,
    finish: FinishPlan,
    /// Whether the results are columns of one row.
    is_one_row: bool,
    rooms: Rooms,
}

impl Reduction {
    pub(super) fn new(op: Op, desc: &PrimitiveDesc) -> Option<Self> {
        let (dims, kept_dims) = (desc.src().dims(), desc.dst().dims());
        if dims.elements() == 0 || kept_dims.elements() == 0 {
            return None;
        }
        let (strides, first) = strides_of(desc.src(), dims)?;
        let mut axes: SmallVec<[usize; 6]> = (0..dims.len()).filter(|&axis| dims[axis] != 1).collect();
        axes.sort_by_key(|&axis| std::cmp::Reverse(strides[axis]));
        let is_folded = |axis: usize| kept_dims[axis] != dims[axis];
        let places = |axes: &[usize]| Places::new(axes.iter().map(|&axis| (dims[axis], strides[axis])));
        let count = |axes: &[usize]| axes.iter().map(|&axis| dims[axis]).product::<usize>();
        let is_inner_folded = axes.last().is_none_or(|&axis| is_folded(axis));
        let mut from = axes.len();
        while from > 0
            && is_folded(axes[from - 1]) == is_inner_folded
            && places(&axes[from - 1..]).stride() == Some(1)
        {
            from -= 1;
        }
        let (outer, inner) = axes.split_at(from);
        if !axes.is_empty() && inner.is_empty() {
            return None;
        }
        let part = |folded: bool| -> SmallVec<[usize; 6]> {
            outer.iter().copied().filter(|&axis| is_folded(axis) == folded).collect()
        };
        let (folded, kept) = (part(true), part(false));
        let mut is_one_row = false;
        let finish = if is_inner_folded {
            let one = FinishPlan::new(desc, &[], &kept);
            is_one_row = one.is_some();
            one.or_else(|| FinishPlan::new(desc, &kept, &[]))?
        } else {
            FinishPlan::new(desc, &kept, inner)?
        };
        let elements = dims.elements() / kept_dims.elements();
        if op.algorithm == ReductionAlgorithm::Product && elements > FACTORS {
            return None;
        }
        let results = kept_dims.elements();
        // A fold of few results is parted.
        let parts =
            if results * 4 <= elements.div_ceil(PART) * TOGETHER { elements.div_ceil(PART) } else { 1 };
        let over = if is_inner_folded && folded.is_empty() { count(inner) } else { count(&folded) };
        Some(Self {
            algorithm: op.algorithm,
            first,
            inner: count(inner),
            is_inner_folded,
            folded: places(&folded),
            folded_count: count(&folded),
            kept: places(&kept),
            kept_count: count(&kept),
            count: elements,
            parts: parts.min(over),
            finish,
            is_one_row,
            rooms: Rooms::default(),
        })
    }

    /// Part of a fold into some results.
    fn fold(&self, call: &Call<'_>, src: &[f32], part: usize, kept: usize, column: usize, into: &mut [f32]) {
        let base = self.first + self.kept.at(kept);
        let of = |count: usize| count * part / self.parts..count * (part + 1) / self.parts;
        into.fill(sums::start(self.algorithm));
        if !self.is_inner_folded {
            self.fold_rows(call, &src[base + column..], of(self.folded_count), into);
            return;
        }
        let (outer, inner) = if self.folded_count == 1 {
            (0..1, of(self.inner))
        } else {
            (of(self.folded_count), 0..self.inner)
        };
        for position in outer {
            let from = &src[base + self.folded.at(position)..][inner.clone()];
            // Long runs in pieces, whose sums have small errors.
            for piece in from.chunks(1 << 13) {
                let folded = sums::fold(call.level, self.algorithm, piece);
                into[0] = sums::join(self.algorithm, into[0], folded);
            }
        }
    }

    /// Part of a fold of rows into one. Many rows are summed in pieces, whose sums have small errors.
    fn fold_rows(&self, call: &Call<'_>, src: &[f32], rows: Range<usize>, into: &mut [f32]) {
        if rows.len() <= PIECE_ROWS || !sums::adds(self.algorithm) {
            return self.fold_piece(call, src, rows, into);
        }
        let mut piece = [0.0; COLUMNS];
        for (number, into) in into.chunks_mut(COLUMNS).enumerate() {
            let (src, piece) = (&src[number * COLUMNS..], &mut piece[..into.len()]);
            for start in rows.clone().step_by(PIECE_ROWS) {
                piece.fill(0.0);
                self.fold_piece(call, src, start..rows.end.min(start + PIECE_ROWS), piece);
                functions::add_to_rows(call.level, piece, into, piece.len());
            }
        }
    }

    fn fold_piece(&self, call: &Call<'_>, src: &[f32], rows: Range<usize>, into: &mut [f32]) {
        if let Some(stride) = self.folded.stride() {
            return sums::fold_rows(
                call.level,
                self.algorithm,
                &src[rows.start * stride..],
                rows.len(),
                stride,
                into,
            );
        }
        for position in rows {
            sums::fold_rows(call.level, self.algorithm, &src[self.folded.at(position)..], 1, 0, into);
        }
    }

    /// Results that lie together, and the number of groups of them.
    fn width(&self) -> usize {
        if self.is_inner_folded { 1 } else { self.inner }
    }
}

impl Fast for Reduction {
    fn name(&self) -> &'static str {
        "host:folds"
    }

    fn run(&self, call: &Call<'_>) {
        let src = call.input(Arg::SRC);
        let finish = self.finish.bind(call);
        let width = self.width();
        let end = |folded: &mut f32| *folded = sums::end(self.algorithm, *folded, self.count);
        let store = |first: usize, column: usize, results: &mut [f32]| {
            results.iter_mut().for_each(end);
            let mut rows = Rows::default();
            if self.is_one_row {
                finish.rows(0, 1, &mut rows);
                // SAFETY: each task has results of its own.
                unsafe { finish.store(&rows, 0, first, results) };
                return;
            }
            let own = if self.is_inner_folded { 1 } else { results.len() };
            finish.rows(first, results.len() / own, &mut rows);
            for (row, results) in results.chunks_mut(own).enumerate() {
                // SAFETY: as above.
                unsafe { finish.store(&rows, row, column, results) };
            }
        };
        let elements = self.count * self.kept_count * width;
        let run = |count: usize, work: &(dyn Fn(usize) + Sync)| {
            if elements <= ALONE { (0..count).for_each(work) } else { call.crew.run(count, work) }
        };
        if self.parts > 1 {
            let results = self.kept_count * width;
            self.rooms.with(self.parts * results, |room| {
                let shared = Shared::new(room);
                run(self.parts * self.kept_count, &|task| {
                    let (part, kept) = (task / self.kept_count, task % self.kept_count);
                    // SAFETY: every task has a part of its own.
                    let into = unsafe { shared.part(part * results + kept * width, width) };
                    self.fold(call, src, part, kept, 0, into);
                });
                let (total, others) = room.split_at_mut(results);
                for other in others.chunks_exact(results) {
                    total.iter_mut().zip(other).for_each(|(a, &b)| *a = sums::join(self.algorithm, *a, b));
                }
                for kept in 0..self.kept_count {
                    store(kept, 0, &mut total[kept * width..][..width]);
                }
            });
        } else if self.is_inner_folded {
            run(self.kept_count.div_ceil(TOGETHER), &|task| {
                let first = task * TOGETHER;
                let mut results = [0.0; TOGETHER];
                let results = &mut results[..TOGETHER.min(self.kept_count - first)];
                for (i, result) in results.iter_mut().enumerate() {
                    self.fold(call, src, 0, first + i, 0, std::slice::from_mut(result));
                }
                store(first, 0, results);
            });
        } else {
            let blocks = width.div_ceil(COLUMNS);
            run(self.kept_count * blocks, &|task| {
                let (kept, column) = (task / blocks, task % blocks * COLUMNS);
                let mut results = [0.0; COLUMNS];
                let results = &mut results[..COLUMNS.min(width - column)];
                self.fold(call, src, 0, kept, column, results);
                store(kept, column, results);
            });
        }
    }
}
