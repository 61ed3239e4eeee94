//! Pooling: vectors along the channels where they are neighbours, else along the pixels of a line.

use anydnn_backend::op::{Pooling as Op, PoolingAlgorithm};
use anydnn_backend::{Arg, PrimitiveDesc};
use smallvec::SmallVec;

use super::Fast;
use super::call::{Call, with_own_room};
use super::finish::{Finish, FinishPlan, Rows};
use super::level::for_levels;
use super::places::strides_of;
use crate::compute::{Window, padded};

/// Channels of a task.
const CHANNELS: usize = 256;
/// Taps that one thread visits sooner than another one comes to help.
const ALONE: usize = 1 << 14;

#[derive(Debug)]
pub(super) struct Pooling {
    window: Window,
    pads_end: [usize; 3],
    algorithm: PoolingAlgorithm,
    samples: usize,
    channels: usize,
    first: usize,
    sample: usize,
    channel: usize,
    strides: [usize; 3],
    /// Whether vectors go along the channels.
    by_channels: bool,
    finish: FinishPlan,
}

impl Pooling {
    pub(super) fn new(op: &Op, desc: &PrimitiveDesc) -> Option<Self> {
        let (src, dst) = (desc.src(), desc.dst());
        if src.elements() == 0 || dst.elements() == 0 {
            return None;
        }
        if !matches!(
            op.algorithm,
            PoolingAlgorithm::Max
                | PoolingAlgorithm::AverageExcludePadding
                | PoolingAlgorithm::AverageIncludePadding
        ) {
            return None;
        }
        let window = Window::new(
            &src.dims()[2..],
            &op.kernel,
            &dst.dims()[2..],
            &op.strides,
            &op.dilations,
            &op.pads_begin,
        );
        let (strides, first) = strides_of(src, src.dims())?;
        let by_channels = strides[1] == 1 && src.dims()[1] > 1;
        let last = dst.rank() - 1;
        if !by_channels && strides[last] != 1 && src.dims()[last] > 1 {
            return None;
        }
        let rows: SmallVec<[usize; 6]> = if by_channels {
            (0..dst.rank()).filter(|&axis| axis != 1).collect()
        } else {
            (0..last).collect()
        };
        let finish = FinishPlan::new(desc, &rows, &[if by_channels { 1 } else { last }])?;
        Some(Self {
            window,
            pads_end: padded(&op.pads_end, 0),
            algorithm: op.algorithm,
            samples: dst.dims()[0],
            channels: dst.dims()[1],
            first,
            sample: strides[0],
            channel: strides[1],
            strides: padded(&strides[2..], 0),
            by_channels,
            finish,
        })
    }

    fn is_max(&self) -> bool {
        self.algorithm == PoolingAlgorithm::Max
    }

    fn start(&self) -> f32 {
        if self.is_max() { f32::NEG_INFINITY } else { 0.0 }
    }

    /// What an average divides by, along one axis.
    fn taps(&self, axis: usize, at: usize) -> usize {
        let window = &self.window;
        if self.algorithm == PoolingAlgorithm::AverageExcludePadding {
            return window.taps_inside(axis, at).len();
        }
        let length = window.pads_begin[axis] + window.input[axis] + self.pads_end[axis];
        let rest = length.saturating_sub(at * window.strides[axis]);
        rest.div_ceil(window.dilations[axis]).min(window.kernel[axis])
    }

    /// Rows of the window at a line of the result: where each begins.
    fn rows(&self, out_d: usize, out_h: usize) -> SmallVec<[usize; 16]> {
        let window = &self.window;
        let mut rows = SmallVec::new();
        for d in window.taps_inside(0, out_d).filter_map(|tap| window.position(0, out_d, tap)) {
            for h in window.taps_inside(1, out_h).filter_map(|tap| window.position(1, out_h, tap)) {
                rows.push(d * self.strides[0] + h * self.strides[1]);
            }
        }
        rows
    }

    /// One line of the result, some channels of each pixel.
    fn line_of_channels(&self, call: &Call<'_>, src: &[f32], line: usize, first: usize, finish: &Finish<'_>) {
        let window = &self.window;
        let lines = window.output[0] * window.output[1];
        let (sample, out_d, out_h) = (line / lines, line % lines / window.output[1], line % window.output[1]);
        let count = CHANNELS.min(self.channels - first);
        let rows = self.rows(out_d, out_h);
        let base = self.first + sample * self.sample + first;
        let width = window.output[2];
        let mut offsets = Rows::default();
        finish.rows(line * width, width, &mut offsets);
        let outer = self.taps(0, out_d) * self.taps(1, out_h);
        let step = window.dilations[2] * self.strides[2];
        for at in 0..width {
            let taps = window.taps_inside(2, at);
            let start = window.position(2, at, taps.start).unwrap_or(0) * self.strides[2];
            let mut values = [0.0; CHANNELS];
            let values = &mut values[..count];
            let from = &src[base + start..];
            if self.is_max() {
                max_window(call.level, from, &rows, taps.len(), step, values);
            } else {
                add_window(call.level, from, &rows, taps.len(), step, values);
            }
            if !self.is_max() {
                divide(call.level, values, (outer * self.taps(2, at)) as f32);
            }
            // SAFETY: every line has rows of the result of its own, and its parts have channels of their own.
            unsafe { finish.store(&offsets, at, first, values) };
        }
    }

    /// One line of a plane.
    fn line_of_pixels(&self, call: &Call<'_>, src: &[f32], line: usize, finish: &Finish<'_>) {
        let window = &self.window;
        let lines = window.output[0] * window.output[1];
        let (plane, out_d, out_h) = (line / lines, line % lines / window.output[1], line % window.output[1]);
        let (sample, channel) = (plane / self.channels, plane % self.channels);
        let base = self.first + sample * self.sample + channel * self.channel;
        let mut offsets = Rows::default();
        finish.rows(line, 1, &mut offsets);
        let outer = self.taps(0, out_d) * self.taps(1, out_h);
        with_own_room(window.output[2], |values| {
            values.fill(self.start());
            for row in self.rows(out_d, out_h) {
                // However long a window is, only taps that meet an element somewhere are visited.
                let reach = window.input[2] + window.pads_begin[2];
                let last = reach.div_ceil(window.dilations[2]).min(window.kernel[2]);
                let least = (window.pads_begin[2] + 1)
                    .saturating_sub((window.output[2] - 1) * window.strides[2] + 1)
                    .div_ceil(window.dilations[2])
                    .min(last);
                for tap in least..last {
                    let inside = window.inside(2, tap);
                    let Some(start) = window.position(2, inside.start, tap).filter(|_| !inside.is_empty())
                    else {
                        continue;
                    };
                    let from = &src[base + row + start..];
                    let values = &mut values[inside];
                    if self.is_max() {
                        max_line(call.level, from, window.strides[2], values);
                    } else {
                        add_line(call.level, from, window.strides[2], values);
                    }
                }
            }
            if !self.is_max() {
                for (at, value) in values.iter_mut().enumerate() {
                    *value /= (outer * self.taps(2, at)) as f32;
                }
            }
            // SAFETY: every line has a row of the result of its own.
            unsafe { finish.store(&offsets, 0, 0, values) };
        });
    }
}

impl Fast for Pooling {
    fn name(&self) -> &'static str {
        "host:windows"
    }

    fn run(&self, call: &Call<'_>) {
        let src = call.input(Arg::SRC);
        let finish = self.finish.bind(call);
        let lines = self.samples * self.window.output[0] * self.window.output[1];
        let window = self.window.taps().min(self.window.inputs());
        let visits = lines * self.window.output[2] * self.channels * window;
        let run = |count: usize, work: &(dyn Fn(usize) + Sync)| {
            if visits <= ALONE { (0..count).for_each(work) } else { call.crew.run(count, work) }
        };
        if self.by_channels {
            let parts = self.channels.div_ceil(CHANNELS);
            run(lines * parts, &|task| {
                self.line_of_channels(call, src, task / parts, task % parts * CHANNELS, &finish);
            });
        } else {
            run(lines * self.channels, &|task| self.line_of_pixels(call, src, task, &finish));
        }
    }
}

for_levels! {
    fn max_window(from: &[f32], rows: &[usize], taps: usize, step: usize, values: &mut [f32]) = max_window_body
}

for_levels! {
    fn add_window(from: &[f32], rows: &[usize], taps: usize, step: usize, values: &mut [f32]) = add_window_body
}

for_levels! {
    fn max_line(from: &[f32], step: usize, values: &mut [f32]) = max_line_body
}

for_levels! {
    fn add_line(from: &[f32], step: usize, values: &mut [f32]) = add_line_body
}

for_levels! {
    fn divide(values: &mut [f32], by: f32) = divide_body
}

// A comparison with NaN is false, which keeps the NaN of either side.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if b > a || b.is_nan() { b } else { a }
}

#[inline(always)]
fn max_window_body(from: &[f32], rows: &[usize], taps: usize, step: usize, values: &mut [f32]) {
    window(from, rows, taps, step, f32::NEG_INFINITY, larger, values);
}

#[inline(always)]
fn add_window_body(from: &[f32], rows: &[usize], taps: usize, step: usize, values: &mut [f32]) {
    window(from, rows, taps, step, 0.0, |sum, x| sum + x, values);
}

#[inline(always)]
fn window(
    from: &[f32],
    rows: &[usize],
    taps: usize,
    step: usize,
    start: f32,
    join: impl Fn(f32, f32) -> f32 + Copy,
    values: &mut [f32],
) {
    match values.len() {
        32.. => held::<32>(from, rows, taps, step, start, join, values),
        8.. => held::<8>(from, rows, taps, step, start, join, values),
        2.. => held::<2>(from, rows, taps, step, start, join, values),
        _ => held::<1>(from, rows, taps, step, start, join, values),
    }
}

/// Registers hold so many channels while a window passes by. Where the channels are no multiple of it, the last ones are taken once more.
#[inline(always)]
fn held<const HELD: usize>(
    from: &[f32],
    rows: &[usize],
    taps: usize,
    step: usize,
    start: f32,
    join: impl Fn(f32, f32) -> f32,
    values: &mut [f32],
) {
    let count = values.len();
    let mut first = 0;
    while first < count {
        let at = first.min(count - HELD);
        let mut sums = [start; HELD];
        for row in rows {
            for tap in 0..taps {
                let from = &from[row + tap * step + at..][..HELD];
                for (sum, &x) in sums.iter_mut().zip(from) {
                    *sum = join(*sum, x);
                }
            }
        }
        values[at..at + HELD].copy_from_slice(&sums);
        first += HELD;
    }
}

#[inline(always)]
fn max_line_body(from: &[f32], step: usize, values: &mut [f32]) {
    match step {
        1 => values.iter_mut().zip(from).for_each(|(value, &x)| *value = larger(*value, x)),
        2 => values.iter_mut().zip(from.chunks(2)).for_each(|(value, x)| *value = larger(*value, x[0])),
        _ => values
            .iter_mut()
            .zip(from.iter().step_by(step))
            .for_each(|(value, &x)| *value = larger(*value, x)),
    }
}

#[inline(always)]
fn add_line_body(from: &[f32], step: usize, values: &mut [f32]) {
    match step {
        1 => values.iter_mut().zip(from).for_each(|(value, &x)| *value += x),
        _ => values.iter_mut().zip(from.iter().step_by(step)).for_each(|(value, &x)| *value += x),
    }
}

#[inline(always)]
fn divide_body(values: &mut [f32], by: f32) {
    for value in values.iter_mut() {
        *value /= by;
    }
}
