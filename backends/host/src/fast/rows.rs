//! Softmax and layer normalisation: a row at a time, or rows side by side where their elements are apart.

use anydnn_backend::op::{LayerNormalization, Softmax};
use anydnn_backend::{Arg, BinaryAlgorithm, DataType, Op, PrimitiveDesc};
use smallvec::SmallVec;

use super::call::{Call, with_own_room};
use super::finish::{Finish, FinishPlan, Rows};
use super::level::for_levels;
use super::math::exp_negative;
use super::places::{Places, strides_of};
use super::short_rows::{Normalization, SHORTEST, ShortRows};
use super::weights::scale_row;
use super::{Fast, Shared, functions, short_rows, sums};

/// Elements that one thread does sooner than another one comes to help, and those of a task.
const ALONE: usize = 1 << 12;
const TASK: usize = 1 << 14;
/// Numbers of short rows that are taken together.
const SHORT: usize = 2048;
/// Rows side by side.
const BESIDE: usize = 128;

/// How an operation on rows is computed.
pub(super) fn plan(desc: &PrimitiveDesc) -> Option<Box<dyn Fast>> {
    let dims = desc.src().dims();
    if dims.elements() == 0 {
        return None;
    }
    let (strides, _) = strides_of(desc.src(), dims)?;
    match desc.op() {
        Op::Softmax(op) if strides[op.axis] != 1 && dims[op.axis] > 1 => {
            SoftmaxBeside::new(*op, desc).map(|made| Box::new(made) as Box<dyn Fast>)
        }
        _ => OverRows::new(desc).map(|made| Box::new(made) as Box<dyn Fast>),
    }
}

/// An operation on rows whose elements are neighbours.
#[derive(Debug)]
struct OverRows {
    work: Work,
    first: usize,
    rows: Places,
    count: usize,
    length: usize,
    finish: FinishPlan,
}

#[derive(Debug)]
enum Work {
    Softmax(Softmax),
    Normalization { op: LayerNormalization, scales: bool, shifts: bool, has_mean: bool, has_variance: bool },
}

impl OverRows {
    fn new(desc: &PrimitiveDesc) -> Option<Self> {
        let dims = desc.src().dims();
        let (work, columns): (Work, std::ops::Range<usize>) = match desc.op() {
            Op::Softmax(op) => (Work::Softmax(*op), op.axis..op.axis + 1),
            Op::LayerNormalization(op) => {
                let inner: SmallVec<[usize; 6]> = dims[op.begin_axis..].iter().copied().collect();
                for arg in [Arg::Scale, Arg::Shift] {
                    if let Some(operand) = desc.find(arg)
                        && !(operand.is_row_major()
                            && operand.data_type() == DataType::F32
                            && operand.elements() == inner.iter().product::<usize>())
                    {
                        return None;
                    }
                }
                for arg in [Arg::Mean, Arg::Variance] {
                    if let Some(operand) = desc.find(arg)
                        && !(operand.is_row_major() && operand.data_type() == DataType::F32)
                    {
                        return None;
                    }
                }
                let has = |arg: Arg| desc.find(arg).is_some();
                let work = Work::Normalization {
                    op: *op,
                    scales: has(Arg::Scale),
                    shifts: has(Arg::Shift),
                    has_mean: has(Arg::Mean),
                    has_variance: has(Arg::Variance),
                };
                (work, op.begin_axis..dims.len())
            }
            _ => return None,
        };
        let (strides, first) = strides_of(desc.src(), dims)?;
        let is_column = |axis: &usize| columns.contains(axis);
        let places = |which: bool| {
            let axes = (0..dims.len()).filter(|axis| is_column(axis) == which);
            Places::new(axes.map(|axis| (dims[axis], strides[axis])))
        };
        let length = columns.clone().map(|axis| dims[axis]).product::<usize>();
        if !matches!(places(true).stride(), Some(0 | 1)) || length > 1 && places(true).stride() != Some(1) {
            return None;
        }
        let rows: SmallVec<[usize; 6]> = (0..dims.len()).filter(|axis| !is_column(axis)).collect();
        let columns: SmallVec<[usize; 6]> = columns.clone().collect();
        let count = dims.elements() / length;
        let finish = FinishPlan::new(desc, &rows, &columns)?;
        Some(Self { work, first, rows: places(false), count, length, finish })
    }

    /// Whether rows are computed in registers.
    fn is_short(&self) -> bool {
        self.length <= SHORTEST
            && matches!(
                self.work,
                Work::Softmax(_) | Work::Normalization { has_mean: false, has_variance: false, .. }
            )
    }

    /// Some rows, the first of which is at the beginning of `src`, `next` elements apart.
    fn short_rows(
        &self,
        call: &Call<'_>,
        src: &[f32],
        next: usize,
        all: std::ops::Range<usize>,
        finish: &Finish<'_>,
    ) {
        let together = (SHORT / self.length).clamp(1, all.len());
        with_own_room(together * self.length, |room| {
            for first in all.clone().step_by(together) {
                let some = first..(first + together).min(all.end);
                let data = &src[(first - all.start) * next..];
                let rows = ShortRows { data, next, length: self.length, count: some.len() };
                let make = |to: &mut [f32]| match &self.work {
                    Work::Softmax(op) => short_rows::softmax(call.level, *op, rows, to),
                    Work::Normalization { op, scales, shifts, .. } => {
                        let by = Normalization {
                            rms: op.rms,
                            epsilon: op.epsilon,
                            scale: scales.then(|| &call.input(Arg::Scale)[..self.length]),
                            shift: shifts.then(|| &call.input(Arg::Shift)[..self.length]),
                        };
                        short_rows::normalize(call.level, by, rows, to);
                    }
                };
                let room = &mut room[..some.len() * self.length];
                // SAFETY: every row of the result is written by one task.
                unsafe { finish.make_rows(some, 0, room, make) };
            }
        });
    }

    fn row(&self, call: &Call<'_>, from: &[f32], row: usize, to: &mut [f32], statistics: &[Shared<'_>; 2]) {
        let level = call.level;
        match &self.work {
            Work::Softmax(op) => {
                let max = sums::max(level, from);
                if op.inf_as_zero && max == f32::NEG_INFINITY {
                    to.fill(0.0);
                } else if op.log {
                    let sum = exponentials(level, from, max, to);
                    log_row(level, from, max, sum.ln(), to);
                } else {
                    let sum = exponentials(level, from, max, to);
                    scale_row(level, to, 1.0 / sum);
                }
            }
            Work::Normalization { op, scales, shifts, has_mean, has_variance } => {
                let count = self.length as f32;
                let mean = if op.rms { 0.0 } else { sums::sum(level, from) / count };
                let variance = sums::squares(level, from, mean) / count;
                let inverse = 1.0 / (variance + op.epsilon).sqrt();
                let scale = scales.then(|| &call.input(Arg::Scale)[..self.length]);
                let shift = shifts.then(|| &call.input(Arg::Shift)[..self.length]);
                normalize_row(level, from, [mean, inverse], scale, shift, to);
                for (statistic, (has, value)) in
                    statistics.iter().zip([(has_mean, mean), (has_variance, variance)])
                {
                    if *has {
                        // SAFETY: every row has an element of its own.
                        let own = unsafe { statistic.part(row, 1) };
                        own[0] = value;
                    }
                }
            }
        }
    }
}

impl Fast for OverRows {
    fn name(&self) -> &'static str {
        "host:rows"
    }

    fn run(&self, call: &Call<'_>) {
        let src = call.input(Arg::SRC);
        let finish = self.finish.bind(call);
        let statistics = [call.output(Arg::Mean), call.output(Arg::Variance)];
        by_tasks(call, self.count, self.length, &|first, count| {
            if let (true, Some(next)) = (self.is_short(), self.rows.stride()) {
                self.short_rows(call, &src[self.first + first * next..], next, first..first + count, &finish);
                return;
            }
            with_own_room(self.length, |room| {
                for row in first..first + count {
                    let from = &src[self.first + self.rows.at(row)..][..self.length];
                    // SAFETY: every row of the result is written by one task.
                    unsafe {
                        finish.make_rows(row..row + 1, 0, room, |to| {
                            self.row(call, from, row, to, &statistics);
                        });
                    }
                }
            });
        });
    }
}

/// Calls `work` with the first row and the number of rows of each task.
fn by_tasks(call: &Call<'_>, rows: usize, length: usize, work: &(dyn Fn(usize, usize) + Sync)) {
    let together = (TASK / length.max(1)).max(1);
    let elements = rows * length;
    let tasks =
        if elements <= ALONE { 1 } else { rows.div_ceil(together).max(call.crew.threads()).min(rows) };
    call.crew.run(tasks, &|task| {
        let (start, end) = (rows * task / tasks, rows * (task + 1) / tasks);
        if end > start {
            work(start, end - start);
        }
    });
}

/// Softmax along an axis whose elements are apart: its rows lie side by side.
#[derive(Debug)]
struct SoftmaxBeside {
    op: Softmax,
    first: usize,
    outer: Places,
    outer_count: usize,
    length: usize,
    stride: usize,
    beside: usize,
    finish: FinishPlan,
}

impl SoftmaxBeside {
    fn new(op: Softmax, desc: &PrimitiveDesc) -> Option<Self> {
        let dims = desc.src().dims();
        let (strides, first) = strides_of(desc.src(), dims)?;
        let places = |axes: &[usize]| Places::new(axes.iter().map(|&axis| (dims[axis], strides[axis])));
        // Axes that are neighbours in memory, from the last one on.
        let mut axes: SmallVec<[usize; 6]> =
            (0..dims.len()).filter(|&axis| axis != op.axis && dims[axis] != 1).collect();
        axes.sort_by_key(|&axis| std::cmp::Reverse(strides[axis]));
        let mut from = axes.len();
        while from > 0 && matches!(places(&axes[from - 1..]).stride(), Some(1)) {
            from -= 1;
        }
        if from == axes.len() {
            return None;
        }
        let (outer, beside) = axes.split_at(from);
        let rows: SmallVec<[usize; 6]> = outer.iter().copied().chain([op.axis]).collect();
        let count = |axes: &[usize]| axes.iter().map(|&axis| dims[axis]).product::<usize>();
        Some(Self {
            op,
            first,
            outer: places(outer),
            outer_count: count(outer),
            length: dims[op.axis],
            stride: strides[op.axis],
            beside: count(beside),
            finish: FinishPlan::new(desc, &rows, beside)?,
        })
    }

    fn block(&self, call: &Call<'_>, src: &[f32], outer: usize, column: usize, finish: &Finish<'_>) {
        let width = BESIDE.min(self.beside - column);
        let from = &src[self.first + self.outer.at(outer) + column..];
        let row = |number: usize| &from[number * self.stride..][..width];
        let mut rows = Rows::default();
        finish.rows(outer * self.length, self.length, &mut rows);
        let (mut max, mut sum) = ([f32::NEG_INFINITY; BESIDE], [0.0; BESIDE]);
        let (max, sum) = (&mut max[..width], &mut sum[..width]);
        for number in 0..self.length {
            larger_rows(call.level, row(number), max);
        }
        with_own_room(self.length * width, |room| {
            for (number, room) in room.chunks_exact_mut(width).enumerate() {
                exponentials_beside(call.level, row(number), max, room, sum);
            }
            if self.op.log {
                sum.iter_mut().zip(&*max).for_each(|(sum, max)| *sum = sum.ln() + max);
            } else {
                for sum in sum.iter_mut() {
                    *sum = 1.0 / *sum;
                }
            }
            for (number, room) in room.chunks_exact_mut(width).enumerate() {
                if self.op.log {
                    room.iter_mut().zip(row(number)).zip(&*sum).for_each(|((to, x), sum)| *to = x - sum);
                } else {
                    functions::binary(call.level, BinaryAlgorithm::Multiply, room, sum, false);
                }
                if self.op.inf_as_zero {
                    let masked = |max: &f32| *max == f32::NEG_INFINITY;
                    room.iter_mut().zip(&*max).filter(|(_, max)| masked(max)).for_each(|(to, _)| *to = 0.0);
                }
                // SAFETY: every block has rows or columns of the result of its own.
                unsafe { finish.store(&rows, number, column, room) };
            }
        });
    }
}

impl Fast for SoftmaxBeside {
    fn name(&self) -> &'static str {
        "host:rows"
    }

    fn run(&self, call: &Call<'_>) {
        let src = call.input(Arg::SRC);
        let finish = self.finish.bind(call);
        let blocks = self.beside.div_ceil(BESIDE);
        let work = |number: usize| self.block(call, src, number / blocks, number % blocks * BESIDE, &finish);
        let count = self.outer_count * blocks;
        if self.outer_count * self.beside * self.length <= ALONE {
            (0..count).for_each(work);
        } else {
            call.crew.run(count, &work);
        }
    }
}

for_levels! {
    /// `e^(x - max)` of each element, and their sum.
    fn exponentials(from: &[f32], max: f32, to: &mut [f32]) -> f32 = fused exponentials_body
}

for_levels! {
    fn log_row(from: &[f32], max: f32, log_sum: f32, to: &mut [f32]) = log_row_body
}

for_levels! {
    /// `(x - mean) * inverse * scale + shift` of each element.
    fn normalize_row(from: &[f32], by: [f32; 2], scale: Option<&[f32]>, shift: Option<&[f32]>, to: &mut [f32]) = normalize_row_body
}

for_levels! {
    fn larger_rows(from: &[f32], max: &mut [f32]) = larger_rows_body
}

for_levels! {
    fn exponentials_beside(from: &[f32], max: &[f32], to: &mut [f32], sum: &mut [f32]) = fused exponentials_beside_body
}

/// Elements between two visits of the sums.
const LANES: usize = 32;

#[inline(always)]
fn exponentials_body<const FUSED: bool>(from: &[f32], max: f32, to: &mut [f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = from.as_chunks::<LANES>();
    let (to_chunks, to_rest) = to.as_chunks_mut::<LANES>();
    for (from, to) in chunks.iter().zip(to_chunks) {
        for ((&x, to), lane) in from.iter().zip(to).zip(&mut lanes) {
            let e = exp_negative::<FUSED>(x - max);
            *to = e;
            *lane += e;
        }
    }
    if !rest.is_empty() {
        let mut last = [f32::NEG_INFINITY; LANES];
        last[..rest.len()].copy_from_slice(rest);
        for (x, lane) in last.iter_mut().zip(&mut lanes) {
            *x = exp_negative::<FUSED>(*x - max);
            *lane += *x;
        }
        to_rest[..rest.len()].copy_from_slice(&last[..rest.len()]);
    }
    sums::joined(lanes, |a, b| a + b)
}

#[inline(always)]
fn log_row_body(from: &[f32], max: f32, log_sum: f32, to: &mut [f32]) {
    to.iter_mut().zip(from).for_each(|(to, &x)| *to = (x - max) - log_sum);
}

#[inline(always)]
fn normalize_row_body(
    from: &[f32],
    [mean, inverse]: [f32; 2],
    scale: Option<&[f32]>,
    shift: Option<&[f32]>,
    to: &mut [f32],
) {
    let all = to.iter_mut().zip(from);
    match (scale, shift) {
        (None, None) => all.for_each(|(to, &x)| *to = (x - mean) * inverse),
        (Some(scale), None) => {
            all.zip(scale).for_each(|((to, &x), scale)| *to = (x - mean) * inverse * scale);
        }
        (None, Some(shift)) => {
            all.zip(shift).for_each(|((to, &x), shift)| *to = (x - mean) * inverse + shift);
        }
        (Some(scale), Some(shift)) => {
            all.zip(scale)
                .zip(shift)
                .for_each(|(((to, &x), scale), shift)| *to = (x - mean) * inverse * scale + shift);
        }
    }
}

#[inline(always)]
fn larger_rows_body(from: &[f32], max: &mut [f32]) {
    for (max, &x) in max.iter_mut().zip(from) {
        *max = if x > *max || x.is_nan() { x } else { *max };
    }
}

#[inline(always)]
fn exponentials_beside_body<const FUSED: bool>(from: &[f32], max: &[f32], to: &mut [f32], sum: &mut [f32]) {
    for (((to, &x), &max), sum) in to.iter_mut().zip(from).zip(max).zip(sum) {
        let e = exp_negative::<FUSED>(x - max);
        *to = e;
        *sum += e;
    }
}
