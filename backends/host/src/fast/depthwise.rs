//! Convolutions with a filter for each channel: vectors along the channels, some pixels of a row at a time.

use anydnn_backend::op::Convolution as Op;
use anydnn_backend::{Arg, DataType, MemoryDesc, PrimitiveDesc};
use smallvec::SmallVec;

use super::Fast;
use super::call::{Call, Rooms};
use super::finish::{Finish, FinishPlan, Rows};
use super::images::Image;
use super::level::{Level, for_levels};
use super::places::{Places, strides_of};
use crate::compute::Window;

/// Channels of a task.
const CHANNELS: usize = 64;
/// Multiplications that one thread does sooner than another one comes to help.
const ALONE: usize = 1 << 15;

/// Whether each channel has one filter.
pub(super) fn fits(op: &Op, desc: &PrimitiveDesc) -> bool {
    let (inputs, outputs) = (desc.src().dims()[1], desc.dst().dims()[1]);
    op.groups > 1 && inputs == op.groups && outputs == op.groups
}

/// The layout of filters `[C, 1, spatial..]` with the channels of a tap side by side.
pub(super) fn filters_layout(desc: &MemoryDesc) -> Option<MemoryDesc> {
    let taps: String = (2..desc.rank()).map(|axis| char::from(b'a' + axis as u8)).collect();
    let tagged = MemoryDesc::with_tag(desc.dims().clone(), DataType::F32, &format!("{taps}ba")).ok()?;
    (desc.data_type() == DataType::F32).then_some(())?;
    Some(match desc.label() {
        Some(label) => tagged.labelled(label),
        None => tagged,
    })
}

#[derive(Debug)]
pub(super) struct Depthwise {
    window: Window,
    image: Image,
    channels: usize,
    samples: usize,
    /// Where the taps of the filters lie, and how far channels are apart.
    first: usize,
    taps: Places,
    channel: usize,
    finish: FinishPlan,
    rooms: Rooms,
}

impl Depthwise {
    pub(super) fn new(op: &Op, desc: &PrimitiveDesc) -> Option<Self> {
        let (src, dst, weights) = (desc.src(), desc.dst(), desc.find(Arg::Weights)?);
        let kernel = &weights.dims()[2..];
        let window = Window::new(
            &src.dims()[2..],
            kernel,
            &dst.dims()[2..],
            &op.strides,
            &op.dilations,
            &op.pads_begin,
        );
        let (strides, first) = strides_of(weights, weights.dims())?;
        let taps = Places::new(kernel.iter().copied().zip(strides[2..].iter().copied()));
        let axes: SmallVec<[usize; 6]> = (0..dst.rank()).filter(|&axis| axis != 1).collect();
        Some(Self {
            window,
            image: Image::new(src, src.dims()[1])?,
            channels: src.dims()[1],
            samples: dst.dims()[0],
            first,
            taps,
            channel: strides[0],
            finish: FinishPlan::new(desc, &axes, &[1])?,
            rooms: Rooms::default(),
        })
    }

    /// One line of output pixels, some channels of each.
    fn line(&self, level: Level, number: usize, first: usize, data: &[f32], filters: &[f32], finish: &Finish<'_>) {
        let window = &self.window;
        let count = CHANNELS.min(self.channels - first);
        let width = window.output[2];
        let lines = window.output[0] * window.output[1];
        let (sample, rest) = (number / lines, number % lines);
        let (out_d, out_h) = (rest / window.output[1], rest % window.output[1]);
        // Rows of taps that lie inside: where they begin in the image and among the taps.
        let mut inside: SmallVec<[(usize, usize); 16]> = SmallVec::new();
        for d in window.taps_inside(0, out_d) {
            for h in window.taps_inside(1, out_h) {
                if let (Some(at_d), Some(at_h)) = (window.position(0, out_d, d), window.position(1, out_h, h)) {
                    let row = self.image.at(sample, [at_d, at_h, 0]) + first;
                    inside.push((row, (d * window.kernel[1] + h) * window.kernel[2]));
                }
            }
        }
        let mut offsets = Rows::default();
        finish.rows(number * width, width, &mut offsets);
        let pixel = self.image.strides()[2];
        for at in 0..width {
            let mut sums = [0.0; CHANNELS];
            let taps = window.taps_inside(2, at);
            let start = window.position(2, at, taps.start).unwrap_or(0);
            for &(row, tap) in &inside {
                for (i, tap) in (tap + taps.start..tap + taps.end).enumerate() {
                    let from = row + (start + i * window.dilations[2]) * pixel;
                    let filter = &filters[tap * self.channels + first..];
                    add_products(level, &data[from..from + count], &filter[..count], &mut sums);
                }
            }
            // SAFETY: every line has rows of the result of its own, and each of its parts has channels of its own.
            unsafe { finish.store(&offsets, at, first, &mut sums[..count]) };
        }
    }
}

impl Fast for Depthwise {
    fn name(&self) -> &'static str {
        "host:depthwise"
    }

    fn run(&self, call: &Call<'_>) {
        let finish = self.finish.bind(call);
        let (given, weights) = (call.input(Arg::SRC), call.input(Arg::Weights));
        let taps = self.window.taps();
        let is_dense = self.channel == 1 && self.taps.stride() == Some(self.channels) || (self.channel == 1 && taps == 1);
        let copied = if is_dense { 0 } else { taps * self.channels };
        self.rooms.with(copied + self.image.room(), |room| {
            let (filters, room) = room.split_at_mut(copied);
            let filters: &[f32] = if is_dense {
                &weights[self.first..]
            } else {
                for (tap, to) in filters.chunks_exact_mut(self.channels).enumerate() {
                    let from = &weights[self.first + self.taps.at(tap)..];
                    to.iter_mut().enumerate().for_each(|(channel, to)| *to = from[channel * self.channel]);
                }
                filters
            };
            let data = self.image.channels_last(call, given, room);
            let lines = self.samples * self.window.output[0] * self.window.output[1];
            let parts = self.channels.div_ceil(CHANNELS);
            let work = |number: usize| {
                self.line(call.level, number / parts, number % parts * CHANNELS, data, filters, &finish);
            };
            let tasks = lines * parts;
            if lines * self.window.output[2] * self.channels * taps < ALONE {
                (0..tasks).for_each(work);
            } else {
                call.crew.run(tasks, &work);
            }
        });
    }
}

for_levels! {
    fn add_products(data: &[f32], filter: &[f32], sums: &mut [f32; CHANNELS]) = add_products_body
}

#[inline(always)]
fn add_products_body(data: &[f32], filter: &[f32], sums: &mut [f32; CHANNELS]) {
    for ((sum, &x), &w) in sums.iter_mut().zip(data).zip(filter) {
        *sum += x * w;
    }
}

