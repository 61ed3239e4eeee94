//! Pooling: the lines of a window are joined first, then the pixels of what they became, so that vectors go along whole lines.

use std::ops::Range;

use anydnn_backend::op::{Pooling as Op, PoolingAlgorithm};
use anydnn_backend::{Arg, PrimitiveDesc};
use smallvec::SmallVec;

use super::Fast;
use super::call::Call;
use super::finish::FinishPlan;
use super::places::strides_of;
use crate::compute::{Window, padded};

/// Elements of a block's lines, which stay in the first cache levels with what is made of them.
const BLOCK: usize = 1 << 12;
/// Channels that are worth a block.
const LEAST: usize = 32;
/// Taps that one thread visits sooner than another one comes to help.
const ALONE: usize = 1 << 14;

#[derive(Debug)]
pub(super) struct Pooling {
    pub(super) window: Window,
    pads_end: [usize; 3],
    pub(super) algorithm: PoolingAlgorithm,
    samples: usize,
    channels: usize,
    first: usize,
    sample: usize,
    channel: usize,
    pub(super) strides: [usize; 3],
    /// Whether the channels of a pixel are neighbours; else a plane is that of one channel.
    pub(super) by_channels: bool,
    /// What a mean divides the elements of a line by.
    pub(super) divisors: Vec<f32>,
    finish: FinishPlan,
}

/// Windows that are computed together: some planes, or some lines of a plane, or some pixels of a line.
pub(super) struct Block {
    pub(super) planes: Range<usize>,
    pub(super) depth: usize,
    pub(super) lines: Range<usize>,
    pub(super) pixels: Range<usize>,
    pub(super) channels: Range<usize>,
}

/// How the windows are parted into blocks.
#[derive(Debug)]
struct Blocks {
    planes: usize,
    lines: usize,
    pixels: usize,
    channels: usize,
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
        // However long a window is, most of it should be on elements.
        let whole = window.without_padding();
        let is_mostly_padding =
            (0..3).any(|axis| whole.input[axis] > window.input[axis].saturating_add(8).saturating_mul(4));
        let (strides, first) = strides_of(src, src.dims())?;
        let by_channels = strides[1] == 1 && src.dims()[1] > 1;
        let last = dst.rank() - 1;
        if is_mostly_padding || !by_channels && strides[last] != 1 && src.dims()[last] > 1 {
            return None;
        }
        let rows: SmallVec<[usize; 6]> = if by_channels {
            (0..dst.rank()).filter(|&axis| axis != 1).collect()
        } else {
            (0..last).collect()
        };
        let finish = FinishPlan::new(desc, &rows, &[if by_channels { 1 } else { last }])?;
        let channels = dst.dims()[1];
        let mut pooling = Self {
            window,
            pads_end: padded(&op.pads_end, 0),
            algorithm: op.algorithm,
            samples: dst.dims()[0],
            channels,
            first,
            sample: strides[0],
            channel: strides[1],
            strides: padded(&strides[2..], 0),
            by_channels,
            divisors: Vec::new(),
            finish,
        };
        if op.algorithm != PoolingAlgorithm::Max {
            let of_pixel = if by_channels { channels } else { 1 };
            let taps = (0..window.output[2]).map(|at| pooling.taps(2, at) as f32);
            pooling.divisors = taps.flat_map(|taps| std::iter::repeat_n(taps, of_pixel)).collect();
        }
        Some(pooling)
    }

    /// What an average divides by, along one axis.
    pub(super) fn taps(&self, axis: usize, at: usize) -> usize {
        let window = &self.window;
        if self.algorithm == PoolingAlgorithm::AverageExcludePadding {
            return window.taps_inside(axis, at).len();
        }
        let length = window.pads_begin[axis] + window.input[axis] + self.pads_end[axis];
        let rest = length.saturating_sub(at * window.strides[axis]);
        rest.div_ceil(window.dilations[axis]).min(window.kernel[axis])
    }

    /// Planes of windows, and the channels of a pixel in one.
    pub(super) fn planes(&self) -> (usize, usize) {
        if self.by_channels { (self.samples, self.channels) } else { (self.samples * self.channels, 1) }
    }

    /// Where a plane begins.
    pub(super) fn plane(&self, number: usize) -> usize {
        if self.by_channels {
            return self.first + number * self.sample;
        }
        self.first + number / self.channels * self.sample + number % self.channels * self.channel
    }

    /// The distance of all planes, where they have one.
    pub(super) fn next_plane(&self) -> Option<usize> {
        match (self.by_channels, self.channels, self.samples) {
            (true, ..) | (false, 1, _) => Some(self.sample),
            (false, _, 1) => Some(self.channel),
            _ => (self.sample == self.channels * self.channel).then_some(self.channel),
        }
    }

    fn blocks(&self, threads: usize) -> Blocks {
        let window = &self.window;
        let (planes, channels) = self.planes();
        let [_, height, width] = window.output;
        let line = window.without_padding().input[2] * channels;
        let of_line = line * window.strides[1];
        let is_flat = window.input[0] == 1 && window.output[0] == 1 && self.next_plane().is_some();
        let plane = window.without_padding().input[1] * line;
        let mut blocks = Blocks { planes: 1, lines: 1, pixels: width, channels };
        // Enough blocks for all threads.
        let parts = if self.visits() <= ALONE { 1 } else { 2 * threads };
        if is_flat && 2 * plane <= BLOCK {
            blocks.planes = (BLOCK / plane).min(planes.div_ceil(parts)).max(1);
        }
        if blocks.planes > 1 || plane <= BLOCK && planes >= parts {
            blocks.lines = height;
            return blocks;
        }
        let lines = planes * window.output[0] * height;
        blocks.lines = (BLOCK / of_line).min(lines.div_ceil(parts)).clamp(1, height);
        // Pixels at both ends of a part are joined twice.
        let ends = (window.kernel[2] - 1) * window.dilations[2];
        if blocks.lines == 1 && line > 2 * BLOCK && 4 * ends * channels <= BLOCK {
            blocks.pixels = (2 * BLOCK / (window.strides[2] * channels)).clamp(1, width);
        }
        if lines * width.div_ceil(blocks.pixels) < parts {
            blocks.channels = channels.div_ceil(parts).max(LEAST).min(channels);
        }
        blocks
    }

    fn visits(&self) -> usize {
        let (planes, channels) = self.planes();
        let window = &self.window;
        planes * channels * window.outputs() * window.taps().min(window.inputs())
    }
}

impl Fast for Pooling {
    fn name(&self) -> &'static str {
        "host:windows"
    }

    fn run(&self, call: &Call<'_>) {
        let src = call.input(Arg::SRC);
        let finish = self.finish.bind(call);
        let (planes, channels) = self.planes();
        let [depth, height, width] = self.window.output;
        let parts = self.blocks(call.crew.threads());
        let counts = [
            planes.div_ceil(parts.planes),
            depth,
            height.div_ceil(parts.lines),
            width.div_ceil(parts.pixels),
            channels.div_ceil(parts.channels),
        ];
        let work = |task: usize| {
            let (mut rest, mut at) = (task, [0; 5]);
            for (at, count) in at.iter_mut().zip(counts).rev() {
                (*at, rest) = (rest % count, rest / count);
            }
            let part = |at: usize, length: usize, all: usize| at * length..all.min((at + 1) * length);
            let block = Block {
                planes: part(at[0], parts.planes, planes),
                depth: at[1],
                lines: part(at[2], parts.lines, height),
                pixels: part(at[3], parts.pixels, width),
                channels: part(at[4], parts.channels, channels),
            };
            self.block(call, src, &block, &finish);
        };
        let tasks = counts.iter().product();
        if self.visits() <= ALONE { (0..tasks).for_each(work) } else { call.crew.run(tasks, &work) }
    }
}
