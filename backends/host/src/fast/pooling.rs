//! Pooling: vectors along the channels where they are neighbours, else along the pixels of a line.

use std::ops::Range;

use anydnn_backend::op::{Pooling as Op, PoolingAlgorithm};
use anydnn_backend::{Arg, PrimitiveDesc};
use smallvec::SmallVec;

use super::Fast;
use super::call::{Call, with_own_room};
use super::finish::{Finish, FinishPlan, Rows};
use super::places::strides_of;
use super::windows::{Line, Pixel, Tap, line_of_channels, line_of_pixels};
use crate::compute::{Window, padded};

/// Channels of a task.
const CHANNELS: usize = 256;
/// Taps that a task of several lines visits at least, as far as there are so many.
const TASK: usize = 1 << 12;
/// Numbers of the result that are stored together.
const ROOM: usize = 1 << 12;
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
    /// The pixels of a line.
    pixels: Vec<Pixel>,
    /// What meets the pixels of a line, where vectors go along them.
    taps: Vec<Tap>,
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
        let mut pooling = Self {
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
            pixels: Vec::new(),
            taps: Vec::new(),
            finish,
        };
        pooling.pixels = (0..pooling.window.output[2]).map(|at| pooling.pixel(at)).collect();
        if !by_channels {
            pooling.taps = pooling.taps_of_pixels();
        }
        Some(pooling)
    }

    fn is_max(&self) -> bool {
        self.algorithm == PoolingAlgorithm::Max
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

    fn pixel(&self, at: usize) -> Pixel {
        let taps = self.window.taps_inside(2, at);
        let first = self.window.position(2, at, taps.start).unwrap_or(0);
        Pixel { first: first * self.strides[2], taps: taps.len(), divisor: self.taps(2, at) }
    }

    /// The taps of a line that meet an element somewhere: however long a window is, only these are worth a visit.
    fn taps_of_pixels(&self) -> Vec<Tap> {
        let window = &self.window;
        let last =
            (window.input[2] + window.pads_begin[2]).div_ceil(window.dilations[2]).min(window.kernel[2]);
        let least = (window.pads_begin[2] + 1)
            .saturating_sub((window.output[2] - 1) * window.strides[2] + 1)
            .div_ceil(window.dilations[2])
            .min(last);
        let meets = |tap| {
            let inside = window.inside(2, tap);
            let from = window.position(2, inside.start, tap).filter(|_| !inside.is_empty())?;
            Some(Tap { first: inside.start, count: inside.len(), from })
        };
        (least..last).filter_map(meets).collect()
    }

    /// What the lines of the result have in common with a line's place in a sample.
    fn line<'a>(&self, rows: &'a [usize], out_d: usize, out_h: usize) -> Line<'a> {
        Line { is_max: self.is_max(), rows, outer: self.taps(0, out_d) * self.taps(1, out_h) }
    }

    /// Some lines of the result one behind the other, some channels of each pixel.
    fn lines_of_channels(
        &self,
        call: &Call<'_>,
        src: &[f32],
        lines: Range<usize>,
        channels: Range<usize>,
        finish: &Finish<'_>,
    ) {
        let window = &self.window;
        let (width, count) = (window.output[2], channels.len());
        let of_sample = window.output[0] * window.output[1];
        let step = window.dilations[2] * self.strides[2];
        let mut offsets = Rows::default();
        finish.rows(lines.start * width, lines.len() * width, &mut offsets);
        // Lines are stored together, long ones in parts.
        let part = if lines.len() > 1 { width } else { (ROOM / count).clamp(1, width) };
        with_own_room(lines.len() * part * count, |values| {
            for first in (0..width).step_by(part) {
                let pixels = &self.pixels[first..width.min(first + part)];
                let values = &mut values[..lines.len() * pixels.len() * count];
                for (line, values) in lines.clone().zip(values.chunks_exact_mut(pixels.len() * count)) {
                    let (out_d, out_h) = (line % of_sample / window.output[1], line % window.output[1]);
                    let rows = self.rows(out_d, out_h);
                    let base = self.first + line / of_sample * self.sample + channels.start;
                    line_of_channels(
                        call.level,
                        &src[base..],
                        &self.line(&rows, out_d, out_h),
                        pixels,
                        step,
                        count,
                        values,
                    );
                }
                let some = first..first + lines.len() * pixels.len();
                // SAFETY: every line has rows of the result of its own, and its parts have channels of their own.
                unsafe { finish.store_all(&offsets, some, channels.start, values, count, count) };
            }
        });
    }

    /// Some lines of planes one behind the other.
    fn lines_of_pixels(&self, call: &Call<'_>, src: &[f32], lines: Range<usize>, finish: &Finish<'_>) {
        let window = &self.window;
        let width = window.output[2];
        let of_plane = window.output[0] * window.output[1];
        let mut offsets = Rows::default();
        finish.rows(lines.start, lines.len(), &mut offsets);
        with_own_room(lines.len() * width, |values| {
            for (line, values) in lines.clone().zip(values.chunks_exact_mut(width)) {
                let (plane, out_d, out_h) =
                    (line / of_plane, line % of_plane / window.output[1], line % window.output[1]);
                let (sample, channel) = (plane / self.channels, plane % self.channels);
                let base = self.first + sample * self.sample + channel * self.channel;
                let rows = self.rows(out_d, out_h);
                let line = self.line(&rows, out_d, out_h);
                let from = &src[base..];
                line_of_pixels(call.level, from, &line, &self.taps, &self.pixels, window.strides[2], values);
            }
            // SAFETY: every line has a row of the result of its own.
            unsafe { finish.store_all(&offsets, 0..lines.len(), 0, values, width, width) };
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
        // So many lines one behind the other are a task, at most a room of results.
        let together = |count: usize, numbers: usize| {
            (TASK * count).div_ceil(visits.max(1)).min(ROOM / numbers.max(1)).clamp(1, count)
        };
        let run = |count: usize, together: usize, work: &(dyn Fn(Range<usize>) + Sync)| {
            let task = |task: usize| work(task * together..count.min((task + 1) * together));
            let tasks = count.div_ceil(together);
            if visits <= ALONE { (0..tasks).for_each(task) } else { call.crew.run(tasks, &task) }
        };
        let width = self.window.output[2];
        if !self.by_channels {
            let count = lines * self.channels;
            run(count, together(count, width), &|lines| self.lines_of_pixels(call, src, lines, &finish));
        } else if self.channels <= CHANNELS {
            let together = together(lines, width * self.channels);
            run(lines, together, &|lines| {
                self.lines_of_channels(call, src, lines, 0..self.channels, &finish);
            });
        } else {
            let parts = self.channels.div_ceil(CHANNELS);
            run(lines * parts, 1, &|task| {
                let (line, first) = (task.start / parts, task.start % parts * CHANNELS);
                let channels = first..self.channels.min(first + CHANNELS);
                self.lines_of_channels(call, src, line..line + 1, channels, &finish);
            });
        }
    }
}
