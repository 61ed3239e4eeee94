//! Convolutions of one channel by few filters: vectors along the pixels of a line, which the taps multiply as numbers.

use std::ops::Range;

use anydnn_backend::op::Convolution as Op;
use anydnn_backend::{Arg, PrimitiveDesc};
use smallvec::SmallVec;

use super::Fast;
use super::call::{Call, Rooms};
use super::finish::{Along, Finish, FinishPlan, Rows};
use super::images::Image;
use super::places::strides_of;
use super::sink::WIDTH;
use super::tile::{self, ROWS, Run, Tile};
use crate::compute::{Window, padded, split};

/// The most filters: of more, the sums of a pixel fill a vector.
const MOST_FILTERS: usize = 8;
/// Pixels that a line has at least.
const LEAST_PIXELS: usize = 16;
/// Multiplications that one thread does sooner than another one comes to help.
const ALONE: usize = 1 << 16;

/// Whether a convolution is one of those that are computed here.
pub(super) fn fits(op: &Op, desc: &PrimitiveDesc) -> bool {
    let (inputs, outputs) = (desc.src().dims()[1], desc.dst().dims()[1]);
    let is_long = desc.dst().dims().last().is_some_and(|&pixels| pixels >= LEAST_PIXELS);
    op.groups == 1 && inputs == 1 && outputs <= MOST_FILTERS && is_long && op.strides.last() == Some(&1)
}

#[derive(Debug)]
pub(super) struct Lines {
    /// Over an image that has the padding in itself.
    window: Window,
    image: Image,
    samples: usize,
    filters: usize,
    /// The first tap of the first filter, and how far filters and taps are apart.
    first: usize,
    filter: usize,
    taps: [usize; 3],
    finish: FinishPlan,
    rooms: Rooms,
}

impl Lines {
    pub(super) fn new(op: &Op, desc: &PrimitiveDesc) -> Option<Self> {
        let (src, dst, weights) = (desc.src(), desc.dst(), desc.find(Arg::Weights)?);
        let window = Window::new(
            &src.dims()[2..],
            &weights.dims()[2..],
            &dst.dims()[2..],
            &op.strides,
            &op.dilations,
            &op.pads_begin,
        );
        let whole = window.without_padding();
        if whole.inputs() > window.inputs().saturating_mul(3) {
            return None;
        }
        let (strides, first) = strides_of(weights, weights.dims())?;
        // Vectors may reach beyond the last pixel of a line.
        let [planes, rows, pixels] = whole.input;
        let image = Image::new(src, 1)?.with_zeros(window.pads_begin, [planes, rows, pixels + WIDTH]);
        let dims = dst.dims();
        let axes = [0].into_iter().chain(2..dst.rank() - 1).chain([1]);
        let rows: SmallVec<[Along; 8]> =
            axes.map(|axis| Along { axis, length: dims[axis], step: 1 }).collect();
        Some(Self {
            window: whole,
            image,
            samples: dims[0],
            filters: dims[1],
            first,
            filter: strides[0],
            taps: padded(&strides[2..], 0),
            finish: FinishPlan::with_rows(desc, &rows, &[dst.rank() - 1])?,
            rooms: Rooms::default(),
        })
    }

    /// Runs of taps with where their pixels begin, behind those of the line, and pointers to the taps of some filters.
    fn runs(&self, filters: &[f32], some: Range<usize>) -> (SmallVec<[Run; 16]>, Vec<*const f32>) {
        let Self { window, image, taps, .. } = self;
        let strides = image.strides();
        // Neighbouring taps meet neighbouring pixels.
        let together = if window.dilations[2] == 1 && window.kernel[2] > 1 { window.kernel[2] } else { 1 };
        let (mut runs, mut rows) = (SmallVec::new(), Vec::new());
        for tap in (0..window.taps()).step_by(together) {
            let at = split(tap, &window.kernel);
            let along = |steps: &[usize; 3]| (0..3).map(|axis| at[axis] * steps[axis]).sum::<usize>();
            let step: [usize; 3] = std::array::from_fn(|axis| window.dilations[axis] * strides[axis]);
            runs.push(Run { first: along(&step), terms: together });
            let reach = (together - 1) * taps[2] + 1;
            let place = self.first + along(taps);
            rows.extend(some.clone().map(|o| filters[place + o * self.filter..][..reach].as_ptr()));
        }
        (runs, rows)
    }

    /// Lines of output pixels of some filters.
    fn some(
        &self,
        call: &Call<'_>,
        data: &[f32],
        lines: Range<usize>,
        some: Range<usize>,
        finish: &Finish<'_>,
    ) {
        let Self { window, image, .. } = self;
        let (runs, rows) = self.runs(call.input(Arg::Weights), some.clone());
        let reach = runs.iter().map(|run| run.first + run.terms - 1).max().unwrap_or(0);
        let (count, width) = (some.len(), window.output[2]);
        let strides = image.strides();
        let mut offsets = Rows::default();
        let mut sums = [0.0; ROWS * WIDTH];
        for line in lines {
            let in_sample = window.output[0] * window.output[1];
            let (sample, rest) = (line / in_sample, line % in_sample);
            let (d, h) = (rest / window.output[1], rest % window.output[1]);
            let start = image.at(sample, [0; 3])
                + d * window.strides[0] * strides[0]
                + h * window.strides[1] * strides[1];
            finish.rows(line * self.filters + some.start, count, &mut offsets);
            for at in (0..width).step_by(WIDTH) {
                let columns = WIDTH.min(width - at);
                let panel = &data[start + at..][..reach + WIDTH];
                let tile = Tile {
                    runs: &runs,
                    rows: &rows,
                    step: self.taps[2],
                    panel: panel.as_ptr(),
                    stride: 1,
                    columns,
                };
                // SAFETY: each run has a pointer to the taps of every filter, and the panel reaches the pixels of all runs with those of
                // whole vectors behind them. No other task has these lines of these filters.
                unsafe {
                    tile::multiply(call.level, count, &tile, &mut sums, false);
                    finish.store_all(&offsets, 0..count, at, &mut sums, WIDTH, columns);
                }
            }
        }
    }
}

impl Fast for Lines {
    fn name(&self) -> &'static str {
        "host:lines"
    }

    fn reads_in_place(&self, arg: Arg) -> bool {
        self.finish.reads_in_place(arg)
    }

    fn run(&self, call: &Call<'_>) {
        let finish = self.finish.bind(call);
        let given = call.input(Arg::SRC);
        let Self { window, .. } = self;
        let lines = self.samples * window.output[0] * window.output[1];
        let products = lines * window.output[2] * window.taps() * self.filters;
        let tasks = if products < ALONE { 1 } else { 4 * call.crew.threads() }.min(lines);
        let most = tile::most_rows(call.level);
        self.rooms.with(self.image.room(), |room| {
            let data = self.image.channels_last(call, given, room);
            let work = |task: usize| {
                let own = lines * task / tasks..lines * (task + 1) / tasks;
                for first in (0..self.filters).step_by(most) {
                    let some = first..self.filters.min(first + most);
                    self.some(call, data, own.clone(), some, &finish);
                }
            };
            call.crew.run(tasks, &work);
        });
    }
}
