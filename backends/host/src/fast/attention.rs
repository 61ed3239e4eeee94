//! Attention: some query rows of a head at a time, whose scores stay in the cache.

use anydnn_backend::op::Attention as Op;
use anydnn_backend::{Arg, DataType, Dims, PrimitiveDesc};
use smallvec::SmallVec;

use super::call::{Call, with_own_room};
use super::finish::{Finish, FinishPlan, Rows};
use super::level::for_levels;
use super::math::{exp_negative, plus};
use super::panels::Plain;
use super::places::{Places, strides_of};
use super::rows::scale_row;
use super::scores::Scores;
use super::short_rows::{self, SHORTEST};
use super::sink::{Target, WIDTH};
use super::tile::{self, ROWS, Run, Tile};
use super::{Fast, Shared, sums};

/// Scores that a task holds, unless a row has more.
const SCORES: usize = 1 << 16;
/// The most query rows of a task.
const MOST_ROWS: usize = 8 * ROWS;
/// Rows from which on keys are copied into panels.
const PACKED_ROWS: usize = 3;

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

    /// Some rows of a head.
    fn block(
        &self,
        call: &Call<'_>,
        head: usize,
        first: usize,
        count: usize,
        finish: &Finish<'_>,
        sums_to: Shared<'_>,
    ) {
        let padded = self.length.next_multiple_of(WIDTH);
        let panel = self.depth.max(self.length) * WIDTH;
        let expression =
            self.scores.room(self.length).max(self.weights.as_ref().map_or(0, |w| w.room(self.length)));
        with_own_room(count * padded + panel + expression, |room| {
            let (scores, room) = room.split_at_mut(count * padded);
            let (panel, room) = room.split_at_mut(panel);
            self.products(call, head, first, count, scores, padded, panel);
            let is_short = self.length <= SHORTEST && !self.has_sums && !self.inf_as_zero;
            if is_short {
                for (i, scores) in scores.chunks_exact_mut(padded).enumerate() {
                    let row = head * self.sequence + first + i;
                    self.scores.apply(call, row, &mut scores[..self.length], room);
                }
                short_rows::softmax_in_place(call.level, scores, padded, self.length);
            }
            let each = if is_short && self.weights.is_none() { 0 } else { count };
            for (i, scores) in scores.chunks_exact_mut(padded).enumerate().take(each) {
                let row = head * self.sequence + first + i;
                let scores = &mut scores[..self.length];
                let log_sum = if is_short {
                    0.0
                } else {
                    self.scores.apply(call, row, scores, room);
                    self.softmax(call, scores)
                };
                if self.has_sums {
                    // SAFETY: every row has an element of its own.
                    let own = unsafe { sums_to.part(row, 1) };
                    own[0] = log_sum;
                }
                if let Some(weights) = &self.weights {
                    weights.apply(call, row, scores, room);
                }
            }
            self.results(call, head, first, count, scores, padded, panel, finish);
        });
    }

    /// The products of some query rows with all keys.
    fn products(
        &self,
        call: &Call<'_>,
        head: usize,
        first: usize,
        count: usize,
        scores: &mut [f32],
        padded: usize,
        panel: &mut [f32],
    ) {
        let query = self.queries.at(call.input(Arg::Src(0)), head);
        let key = self.keys.at(call.input(Arg::Src(1)), self.of_key[head]);
        let row = |i: usize| &query[(first + i) * self.queries.row..];
        if count < PACKED_ROWS && self.queries.column == 1 && self.keys.column == 1 {
            for (i, scores) in scores.chunks_exact_mut(padded).enumerate() {
                dots(call.level, &row(i)[..self.depth], key, self.keys.row, &mut scores[..self.length]);
            }
            return;
        }
        let plain = Plain { data: key, terms: &self.depths, column: self.keys.row };
        let reach = (self.depth - 1) * self.queries.column + 1;
        let pointers: SmallVec<[*const f32; 128]> = (0..count).map(|i| row(i)[..reach].as_ptr()).collect();
        let runs = [Run { first: 0, terms: self.depth }];
        let offsets: [usize; ROWS] = std::array::from_fn(|i| i * padded);
        for column in (0..self.length).step_by(WIDTH) {
            let columns = WIDTH.min(self.length - column);
            let panel = &mut panel[..self.depth * WIDTH];
            plain.pack(call.level, column, columns, WIDTH, panel);
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
                let target = Target { steps: &[], to: to.wrapping_add(column), rows: &offsets[..rows] };
                // SAFETY: every row reaches its terms, the panel holds all of them with all columns, and the rows of scores are there and
                // the caller's alone.
                unsafe { tile::multiply_into(call.level, rows, &tile, &target) };
            });
        }
    }

    /// Turns a row of scores into weights and gives the logarithm of the sum of their exponentials.
    fn softmax(&self, call: &Call<'_>, row: &mut [f32]) -> f32 {
        let max = sums::max(call.level, row);
        if max == f32::NEG_INFINITY {
            row.fill(if self.inf_as_zero { 0.0 } else { f32::NAN });
            return max;
        }
        let sum = exponentials(call.level, row, max);
        scale_row(call.level, row, 1.0 / sum);
        max + sum.ln()
    }

    /// The products of rows of weights with all values.
    fn results(
        &self,
        call: &Call<'_>,
        head: usize,
        first: usize,
        count: usize,
        weights: &[f32],
        padded: usize,
        panel: &mut [f32],
        finish: &Finish<'_>,
    ) {
        let value = self.values.at(call.input(Arg::Src(2)), self.of_value[head]);
        let plain = Plain { data: value, terms: &self.lengths, column: self.values.column };
        let pointers: SmallVec<[*const f32; 128]> =
            (0..count).map(|i| weights[i * padded..][..self.length].as_ptr()).collect();
        let runs = [Run { first: 0, terms: self.length }];
        let mut offsets = Rows::default();
        finish.rows(head * self.sequence + first, count, &mut offsets);
        for column in (0..self.columns).step_by(WIDTH) {
            let columns = WIDTH.min(self.columns - column);
            let panel = &mut panel[..self.length * WIDTH];
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
                let mut sums = [0.0; ROWS * WIDTH];
                // SAFETY: every row reaches its terms, and the panel holds all of them with all columns. Blocks have rows of the result
                // of their own.
                unsafe {
                    tile::multiply(call.level, rows, &tile, &mut sums, false);
                    finish.store_all(&offsets, start..start + rows, column, &mut sums, WIDTH, columns);
                }
            });
        }
    }
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
        let most = (SCORES / self.length).clamp(ROWS, MOST_ROWS);
        let wanted = (2 * call.crew.threads()).div_ceil(self.heads);
        let blocks = self.sequence.div_ceil(most).max(wanted.min(self.sequence.div_ceil(ROWS)));
        let work = |task: usize| {
            let (head, block) = (task / blocks, task % blocks);
            let (start, end) = (self.sequence * block / blocks, self.sequence * (block + 1) / blocks);
            self.block(call, head, start, end - start, &finish, sums);
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

for_levels! {
    /// `e^(x - max)` of each element, and their sum.
    fn exponentials(row: &mut [f32], max: f32) -> f32 = fused exponentials_body
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

#[inline(always)]
fn exponentials_body<const FUSED: bool>(row: &mut [f32], max: f32) -> f32 {
    let mut lanes = [0.0; 2 * LANES];
    let (chunks, rest) = row.as_chunks_mut::<{ 2 * LANES }>();
    for chunk in chunks {
        for (x, lane) in chunk.iter_mut().zip(&mut lanes) {
            *x = exp_negative::<FUSED>(*x - max);
            *lane += *x;
        }
    }
    if !rest.is_empty() {
        let mut last = [f32::NEG_INFINITY; 2 * LANES];
        last[..rest.len()].copy_from_slice(rest);
        for (x, lane) in last.iter_mut().zip(&mut lanes) {
            *x = exp_negative::<FUSED>(*x - max);
            *lane += *x;
        }
        let length = rest.len();
        rest.copy_from_slice(&last[..length]);
    }
    sums::joined(lanes, |a, b| a + b)
}
