//! Attention: some query rows of a head at a time, whose scores stay in the cache.

use std::ops::Range;

use anydnn_backend::op::Attention as Op;
use anydnn_backend::{Arg, DataType, Dims, PrimitiveDesc};
use smallvec::SmallVec;

use super::call::{Call, with_own_room};
use super::finish::{Finish, FinishPlan, Rows};
use super::level::for_levels;
use super::math::plus;
use super::panels::Plain;
use super::places::{Places, strides_of};
use super::scores::Scores;
use super::sink::{Step, Target, WIDTH};
use super::tile::{self, ROWS, Run, Tile};
use super::weights::{Folds, exponentials, scale_row};
use super::{Fast, Shared, sums};

/// Numbers of keys that are copied into panels once for all query rows of a task.
const KEPT_KEYS: usize = 1 << 15;
/// Scores that are held at a time, unless a row has more: beside keys that were copied, in the first cache level with what they meet, else in
/// the second one, so that each panel of keys is made for more rows.
const SCORES: usize = 1 << 12;
const SCORES_WITHOUT_KEYS: usize = 1 << 16;
/// The most query rows whose scores are held at a time.
const MOST_ROWS: usize = 128;
/// Rows from which on keys are copied into panels.
const PACKED_ROWS: usize = 3;
/// Tasks for each thread, where there are rows for so many.
const PIECES: usize = 8;

#[derive(Debug)]
pub(super) struct Attention {
    queries: Matrices,
    keys: Matrices,
    values: Matrices,
    heads: usize,
    /// For each head the matrix of the key and of the value.
    of_key: Vec<usize>,
    of_value: Vec<usize>,
    sequence: usize,
    length: usize,
    depth: usize,
    columns: usize,
    depths: Places,
    lengths: Places,
    scores: Scores,
    weights: Option<Scores>,
    inf_as_zero: bool,
    has_sums: bool,
    finish: FinishPlan,
}

/// Matrices in one tensor.
#[derive(Debug)]
struct Matrices {
    first: usize,
    batch: Places,
    row: usize,
    column: usize,
}

impl Matrices {
    fn new(desc: &anydnn_backend::MemoryDesc) -> Option<Self> {
        let dims = desc.dims();
        let rank = dims.len();
        let (strides, first) = strides_of(desc, dims)?;
        let batch = Places::new((0..rank - 2).map(|axis| (dims[axis], strides[axis])));
        Some(Self { first, batch, row: strides[rank - 2], column: strides[rank - 1] })
    }

    fn at<'a>(&self, data: &'a [f32], number: usize) -> &'a [f32] {
        &data[self.first + self.batch.at(number)..]
    }
}

impl Attention {
    pub(super) fn new(op: &Op, desc: &PrimitiveDesc) -> Option<Self> {
        let (query, key, value) = (desc.src(), desc.find(Arg::Src(1))?, desc.find(Arg::Src(2))?);
        let rank = query.rank();
        if desc.dst().elements() == 0 || key.elements() == 0 || query.elements() == 0 {
            return None;
        }
        if let Some(sums) = desc.find(Arg::Dst(1))
            && !(sums.is_row_major() && sums.data_type() == DataType::F32)
        {
            return None;
        }
        let batch = Dims::new(&query.dims()[..rank - 2]);
        let matrices = |own: &[usize]| -> Vec<usize> {
            let at = |index: Dims| {
                let steps = index.iter().zip(batch.iter()).zip(own);
                steps.fold(0, |at, ((i, length), &own)| at * own + i / (length / own))
            };
            batch.indices().map(at).collect()
        };
        let rows: SmallVec<[usize; 6]> = (0..rank - 1).collect();
        let (keys, values) = (Matrices::new(key)?, Matrices::new(value)?);
        let (depth, length) = (query.dims()[rank - 1], key.dims()[rank - 2]);
        Some(Self {
            queries: Matrices::new(query)?,
            heads: batch.elements(),
            of_key: matrices(&key.dims()[..rank - 2]),
            of_value: matrices(&value.dims()[..rank - 2]),
            sequence: query.dims()[rank - 2],
            length,
            depth,
            columns: value.dims()[rank - 1],
            depths: Places::new([(depth, keys.column)]),
            lengths: Places::new([(length, values.row)]),
            keys,
            values,
            scores: Scores::new(&op.scores, desc)?,
            weights: match &op.weights {
                None => None,
                Some(weights) => Some(Scores::new(weights, desc)?),
            },
            inf_as_zero: op.inf_as_zero,
            has_sums: desc.find(Arg::Dst(1)).is_some(),
            finish: FinishPlan::new(desc, &rows, &[rank - 1])?,
        })
    }

    /// Whether keys are copied into panels once for all rows of a task.
    fn keeps_keys(&self) -> bool {
        self.depth * self.length.next_multiple_of(WIDTH) <= KEPT_KEYS
    }

    /// Some rows of a head.
    fn rows(
        &self,
        call: &Call<'_>,
        head: usize,
        rows: Range<usize>,
        finish: &Finish<'_>,
        sums_to: Shared<'_>,
    ) {
        let padded = self.length.next_multiple_of(WIDTH);
        let keeps_keys = self.keeps_keys();
        let scores = if keeps_keys { SCORES } else { SCORES_WITHOUT_KEYS };
        let most = (scores / self.length).clamp(ROWS, MOST_ROWS);
        let blocks = rows.len().div_ceil(most);
        let count = rows.len().div_ceil(blocks);
        let keys = self.depth * if keeps_keys { padded } else { WIDTH };
        let panel = self.length * WIDTH;
        let expression =
            self.scores.room(self.length).max(self.weights.as_ref().map_or(0, |w| w.room(self.length)));
        with_own_room(count * padded + keys + panel + expression, |room| {
            let (scores, room) = room.split_at_mut(count * padded);
            let (keys, room) = room.split_at_mut(keys);
            let (panel, room) = room.split_at_mut(panel);
            if keeps_keys && !self.is_by_dots(count) {
                for (number, panel) in keys.chunks_exact_mut(self.depth * WIDTH).enumerate() {
                    self.pack_keys(call, head, number, panel);
                }
            }
            for i in 0..blocks {
                let part = |i: usize| rows.start + rows.len() * i / blocks;
                let block = Block { call, head, first: part(i), count: part(i + 1) - part(i), padded };
                let scores = &mut scores[..block.count * padded];
                let factors = self.weigh(&block, scores, keys, room, sums_to);
                self.results(&block, scores, &factors, panel, finish);
            }
        });
    }

    /// Whether a few rows meet the keys as they lie.
    fn is_by_dots(&self, count: usize) -> bool {
        count < PACKED_ROWS && self.queries.column == 1 && self.keys.column == 1
    }

    /// Copies the keys of a panel.
    fn pack_keys(&self, call: &Call<'_>, head: usize, number: usize, panel: &mut [f32]) {
        let key = self.keys.at(call.input(Arg::Src(1)), self.of_key[head]);
        let plain = Plain { data: key, terms: &self.depths, column: self.keys.row };
        let first = number * WIDTH;
        plain.pack(call.level, first, WIDTH.min(self.length - first), WIDTH, panel);
    }

    /// The weights of some rows, and a number for each row that they are still to be multiplied by.
    fn weigh(
        &self,
        block: &Block<'_, '_>,
        scores: &mut [f32],
        keys: &mut [f32],
        room: &mut [f32],
        sums_to: Shared<'_>,
    ) -> SmallVec<[f32; MOST_ROWS]> {
        let Block { call, padded, .. } = *block;
        let first_row = block.head * self.sequence + block.first;
        if !self.products(block, scores, keys) {
            for (i, scores) in scores.chunks_exact_mut(padded).enumerate() {
                self.scores.apply(call, first_row + i, &mut scores[..self.length], room);
            }
        }
        let mut folds: SmallVec<[Folds; MOST_ROWS]> = SmallVec::from_elem(Folds::default(), block.count);
        exponentials(call.level, scores, padded, self.length, &mut folds);
        if self.has_sums {
            // SAFETY: every row has an element of its own.
            let own = unsafe { sums_to.part(first_row, block.count) };
            own.iter_mut().zip(&folds).for_each(|(own, folds)| *own = folds.log_sum());
        }
        let mut factors: SmallVec<[f32; MOST_ROWS]> =
            folds.iter().map(|folds| folds.factor(self.inf_as_zero)).collect();
        if let Some(weights) = &self.weights {
            for (i, (scores, factor)) in scores.chunks_exact_mut(padded).zip(&mut factors).enumerate() {
                let scores = &mut scores[..self.length];
                scale_row(call.level, scores, std::mem::replace(factor, 1.0));
                weights.apply(call, first_row + i, scores, room);
            }
        }
        factors
    }

    /// The products of some query rows with all keys; gives whether they are scores already. `keys` are all panels, or room for one.
    fn products(&self, block: &Block<'_, '_>, scores: &mut [f32], keys: &mut [f32]) -> bool {
        let Block { call, head, first, count, padded } = *block;
        let query = self.queries.at(call.input(Arg::Src(0)), head);
        let row = |i: usize| &query[(first + i) * self.queries.row..];
        if self.is_by_dots(count) {
            let key = self.keys.at(call.input(Arg::Src(1)), self.of_key[head]);
            for (i, scores) in scores.chunks_exact_mut(padded).enumerate() {
                dots(call.level, &row(i)[..self.depth], key, self.keys.row, &mut scores[..self.length]);
            }
            return false;
        }
        let reach = (self.depth - 1) * self.queries.column + 1;
        let pointers: SmallVec<[*const f32; MOST_ROWS]> =
            (0..count).map(|i| row(i)[..reach].as_ptr()).collect();
        let runs = [Run { first: 0, terms: self.depth }];
        let offsets: [usize; ROWS] = std::array::from_fn(|i| i * padded);
        let links = self.scores.links(call, head * self.sequence + first, count);
        let keeps_keys = self.keeps_keys();
        for column in (0..self.length).step_by(WIDTH) {
            let columns = WIDTH.min(self.length - column);
            let size = self.depth * WIDTH;
            let panel = if keeps_keys {
                &keys[column / WIDTH * size..][..size]
            } else {
                self.pack_keys(call, head, column / WIDTH, &mut keys[..size]);
                &keys[..size]
            };
            for_tiles(call, count, |start, rows| {
                let tile = Tile {
                    runs: &runs,
                    rows: &pointers[start..start + rows],
                    step: self.queries.column,
                    panel: panel.as_ptr(),
                    stride: WIDTH,
                    columns,
                };
                let to = scores[start * padded..][..rows * padded].as_mut_ptr();
                let steps = links.as_ref().map(|links| links.steps(start..start + rows, column, columns));
                let steps = steps.as_deref().unwrap_or_default();
                let target = Target { steps, to: to.wrapping_add(column), rows: &offsets[..rows], column: 0 };
                // SAFETY: every row reaches its terms, the panel holds all of them with all columns, the steps' operands reach the columns,
                // and the rows of scores are there and the caller's alone.
                unsafe { tile::multiply_into(call.level, rows, &tile, &target) };
            });
        }
        links.is_some()
    }

    /// The products of rows of weights with all values, each row multiplied by its factor.
    fn results(
        &self,
        block: &Block<'_, '_>,
        weights: &[f32],
        factors: &[f32],
        panel: &mut [f32],
        finish: &Finish<'_>,
    ) {
        let Block { call, head, first, count, padded } = *block;
        let value = self.values.at(call.input(Arg::Src(2)), self.of_value[head]);
        let plain = Plain { data: value, terms: &self.lengths, column: self.values.column };
        let pointers: SmallVec<[*const f32; MOST_ROWS]> =
            (0..count).map(|i| weights[i * padded..][..self.length].as_ptr()).collect();
        let runs = [Run { first: 0, terms: self.length }];
        let mut offsets = Rows::default();
        finish.rows(head * self.sequence + first, count, &mut offsets);
        for column in (0..self.columns).step_by(WIDTH) {
            let columns = WIDTH.min(self.columns - column);
            let (from, stride) = plain.panel(call.level, column..column + columns, WIDTH, true, panel);
            for_tiles(call, count, |start, rows| {
                let tile = Tile {
                    runs: &runs,
                    rows: &pointers[start..start + rows],
                    step: 1,
                    panel: from,
                    stride,
                    columns,
                };
                let (all, factors) = (start..start + rows, &factors[start..start + rows]);
                finish.expect(&offsets, all.clone(), column, columns);
                let before = Some(Step::MultiplyRows(factors.as_ptr()));
                let is_stored =
                    finish.with_target(&offsets, all.clone(), column, columns, before, |target| {
                        // SAFETY: as below; there is a factor for each row, and the target's rows reach their columns.
                        unsafe { tile::multiply_into(call.level, rows, &tile, target) };
                    });
                if is_stored {
                    return;
                }
                let mut sums = [0.0; ROWS * WIDTH];
                // SAFETY: every row reaches its terms, and the panel holds all of them with all columns. Blocks have rows of the result
                // of their own.
                unsafe {
                    tile::multiply(call.level, rows, &tile, &mut sums, false);
                    for (sums, factor) in sums.chunks_exact_mut(WIDTH).zip(factors) {
                        scale_row(call.level, sums, *factor);
                    }
                    finish.store_all(&offsets, all, column, &mut sums, WIDTH, columns);
                }
            });
        }
    }
}

/// Some query rows of a head, whose scores are held at a time.
#[derive(Clone, Copy)]
struct Block<'b, 'c> {
    call: &'b Call<'c>,
    head: usize,
    first: usize,
    count: usize,
    /// Numbers between rows of scores.
    padded: usize,
}

/// Calls `work` with the first row and the number of rows of tiles of about the same height.
fn for_tiles(call: &Call<'_>, count: usize, mut work: impl FnMut(usize, usize)) {
    let tiles = count.div_ceil(tile::most_rows(call.level));
    for i in 0..tiles {
        let (start, end) = (count * i / tiles, count * (i + 1) / tiles);
        work(start, end - start);
    }
}

impl Fast for Attention {
    fn name(&self) -> &'static str {
        "host:flash"
    }

    fn run(&self, call: &Call<'_>) {
        let finish = self.finish.bind(call);
        let sums = call.output(Arg::Dst(1));
        let wanted = (PIECES * call.crew.threads()).div_ceil(self.heads).min(self.sequence.div_ceil(ROWS));
        let blocks = if self.keeps_keys() {
            wanted
        } else {
            let most = (SCORES_WITHOUT_KEYS / self.length).clamp(ROWS, MOST_ROWS);
            self.sequence.div_ceil(most).max(wanted)
        };
        let work = |task: usize| {
            let (head, block) = (task / blocks, task % blocks);
            let (start, end) = (self.sequence * block / blocks, self.sequence * (block + 1) / blocks);
            self.rows(call, head, start..end, &finish, sums);
        };
        let tasks = self.heads * blocks;
        if self.heads * self.sequence * self.length * self.depth < 1 << 14 {
            (0..tasks).for_each(work);
        } else {
            call.crew.run(tasks, &work);
        }
    }
}

for_levels! {
    /// The products of a row with rows that are `stride` apart.
    fn dots(row: &[f32], others: &[f32], stride: usize, to: &mut [f32]) = fused dots_body
}

/// Elements of a row that are multiplied at a time.
const LANES: usize = 16;

#[inline(always)]
fn dots_body<const FUSED: bool>(row: &[f32], others: &[f32], stride: usize, to: &mut [f32]) {
    let (chunks, rest) = row.as_chunks::<LANES>();
    let mut last = [0.0; LANES];
    last[..rest.len()].copy_from_slice(rest);
    for (number, to) in to.iter_mut().enumerate() {
        let other = &others[number * stride..][..row.len()];
        let mut sums = [[0.0_f32; LANES]; 2];
        let (other_chunks, other_rest) = other.as_chunks::<LANES>();
        for (number, (a, b)) in chunks.iter().zip(other_chunks).enumerate() {
            for ((sum, &a), &b) in sums[number % 2].iter_mut().zip(a).zip(b) {
                *sum = plus::<FUSED>(a, b, *sum);
            }
        }
        if !rest.is_empty() {
            let mut other = [0.0; LANES];
            other[..rest.len()].copy_from_slice(other_rest);
            for ((sum, &a), &b) in sums[0].iter_mut().zip(&last).zip(&other) {
                *sum = plus::<FUSED>(a, b, *sum);
            }
        }
        let [mut sum, other] = sums;
        sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
        *to = sums::joined(sum, |a, b| a + b);
    }
}
