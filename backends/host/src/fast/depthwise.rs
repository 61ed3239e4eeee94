//! Convolutions with a filter for each channel: vectors along the channels, some pixels of a row at a time.

use anydnn_backend::op::Convolution as Op;
use anydnn_backend::{Arg, DataType, MemoryDesc, PrimitiveDesc};
use smallvec::SmallVec;

use super::Fast;
use super::call::{Call, Rooms, with_own_room};
use super::finish::{Finish, FinishPlan, Rows};
use super::images::Image;
use super::level::Level;
use super::places::{Places, is_narrow, strides_of};
use crate::compute::Window;

/// Channels of a task.
const CHANNELS: usize = 64;
/// Pixels that meet a tap of the filters together.
const PIXELS: usize = 4;
/// Pixels that are stored together.
const TOGETHER: usize = 64;
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
    let is_known = desc.data_type() == DataType::F32 || is_narrow(desc.data_type());
    is_known.then_some(())?;
    let tagged = MemoryDesc::with_tag(desc.dims().clone(), desc.data_type(), &format!("{taps}ba")).ok()?;
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
    fn line(
        &self,
        level: Level,
        number: usize,
        first: usize,
        data: &[f32],
        filters: &[f32],
        finish: &Finish<'_>,
    ) {
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
                if let (Some(at_d), Some(at_h)) = (window.position(0, out_d, d), window.position(1, out_h, h))
                {
                    let row = self.image.at(sample, [at_d, at_h, 0]) + first;
                    inside.push((row, (d * window.kernel[1] + h) * window.kernel[2]));
                }
            }
        }
        let mut offsets = Rows::default();
        finish.rows(number * width, width, &mut offsets);
        let pixel = self.image.strides()[2];
        let whole = {
            let (first, last) = (window.inside(2, 0), window.inside(2, window.kernel[2] - 1));
            first.start.max(last.start)..first.end.min(last.end)
        };
        with_own_room(width.min(TOGETHER) * count, |room| {
            for some in (0..width).step_by(TOGETHER) {
                let some = some..width.min(some + TOGETHER);
                let mut sums = &mut room[..some.len() * count];
                let mut at = some.start;
                while at < some.end {
                    let pixels = if whole.contains(&at) && at + PIXELS <= whole.end.min(some.end) {
                        PIXELS
                    } else {
                        1
                    };
                    let taps = window.taps_inside(2, at);
                    let start = window.position(2, at, taps.start).unwrap_or(0) * pixel;
                    let line = lanes::Line {
                        data,
                        filters,
                        rows: if taps.is_empty() { &[] } else { &inside },
                        start,
                        first_tap: taps.start,
                        taps: taps.len(),
                        step: window.dilations[2] * pixel,
                        pixel: window.strides[2] * pixel,
                        filter: self.channels,
                        first,
                        channels: count,
                    };
                    let (own, others) = sums.split_at_mut(pixels * count);
                    line.add(level, pixels, own);
                    sums = others;
                    at += pixels;
                }
                let sums = &mut room[..some.len() * count];
                // SAFETY: every line has rows of the result of its own, and each of its parts has channels of its own.
                unsafe { finish.store_all(&offsets, some, first, sums, count, count) };
            }
        });
    }
}

impl Fast for Depthwise {
    fn name(&self) -> &'static str {
        "host:depthwise"
    }

    fn reads_in_place(&self, arg: Arg) -> bool {
        self.finish.reads_in_place(arg)
    }

    fn run(&self, call: &Call<'_>) {
        let finish = self.finish.bind(call);
        let (given, weights) = (call.input(Arg::SRC), call.input(Arg::Weights));
        let taps = self.window.taps();
        let is_dense = self.channel == 1 && (taps == 1 || self.taps.stride() == Some(self.channels));
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

/// The sums of a line in registers.
mod lanes {
    use super::super::lanes::{Four, Lanes};
    use super::super::level::Level;
    use super::PIXELS;

    /// Pixels whose windows begin `pixel` numbers apart.
    pub(super) struct Line<'a> {
        pub(super) data: &'a [f32],
        pub(super) filters: &'a [f32],
        /// Rows of taps: where each begins in the image and among the taps.
        pub(super) rows: &'a [(usize, usize)],
        /// From the beginning of a row to the first pixel's first tap.
        pub(super) start: usize,
        pub(super) first_tap: usize,
        pub(super) taps: usize,
        pub(super) step: usize,
        pub(super) pixel: usize,
        /// Numbers between the taps of the filters.
        pub(super) filter: usize,
        pub(super) first: usize,
        pub(super) channels: usize,
    }

    impl Line<'_> {
        /// Writes the sums of one or of [`PIXELS`] pixels, one behind the other.
        pub(super) fn add(&self, level: Level, pixels: usize, sums: &mut [f32]) {
            assert_eq!(sums.len(), pixels * self.channels, "sums of all channels");
            for &(row, tap) in self.rows {
                let last = row + self.start + (pixels - 1) * self.pixel + (self.taps - 1) * self.step;
                let filter = (tap + self.first_tap + self.taps - 1) * self.filter + self.first;
                assert!(
                    last + self.channels <= self.data.len() && filter + self.channels <= self.filters.len(),
                    "a line lies inside of its image"
                );
            }
            // SAFETY: the last taps of all rows lie inside, with all channels, and so do the sums; the level's instructions are there.
            unsafe {
                match level {
                    Level::Portable => self.vectors::<Four>(pixels, sums),
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => self.with_avx2(pixels, sums),
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => self.with_avx512(pixels, sums),
                }
            }
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        unsafe fn with_avx2(&self, pixels: usize, sums: &mut [f32]) {
            // SAFETY: by the caller.
            unsafe { self.vectors::<std::arch::x86_64::__m256>(pixels, sums) }
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        unsafe fn with_avx512(&self, pixels: usize, sums: &mut [f32]) {
            // SAFETY: by the caller.
            unsafe { self.vectors::<std::arch::x86_64::__m512>(pixels, sums) }
        }

        /// All channels by vectors, of which the last one may not be whole.
        #[inline(always)]
        unsafe fn vectors<L: Lanes>(&self, pixels: usize, sums: &mut [f32]) {
            let whole = self.channels - self.channels % L::COUNT;
            for channel in (0..self.channels).step_by(L::COUNT) {
                // SAFETY: by the caller; the sums have as many channels.
                unsafe {
                    match (pixels == PIXELS, channel < whole) {
                        (true, true) => self.vector::<L, PIXELS, true>(channel, sums),
                        (false, true) => self.vector::<L, 1, true>(channel, sums),
                        (true, false) => self.vector::<L, PIXELS, false>(channel, sums),
                        (false, false) => self.vector::<L, 1, false>(channel, sums),
                    }
                }
            }
        }

        #[inline(always)]
        unsafe fn vector<L: Lanes, const COUNT: usize, const WHOLE: bool>(
            &self,
            channel: usize,
            sums: &mut [f32],
        ) {
            let some = self.channels - channel;
            // SAFETY: by the caller.
            unsafe {
                let mut made = [L::splat(0.0); COUNT];
                for &(row, tap) in self.rows {
                    let data = self.data.as_ptr().add(row + self.start + channel);
                    let filter = self
                        .filters
                        .as_ptr()
                        .add((tap + self.first_tap) * self.filter + self.first + channel);
                    for tap in 0..self.taps {
                        let weight = load::<L, WHOLE>(filter.add(tap * self.filter), some);
                        for (pixel, sum) in made.iter_mut().enumerate() {
                            let from = data.add(tap * self.step + pixel * self.pixel);
                            let value = load::<L, WHOLE>(from, some);
                            *sum = sum.plus_product(value, weight);
                        }
                    }
                }
                for (pixel, sum) in made.into_iter().enumerate() {
                    let to = sums.as_mut_ptr().add(pixel * self.channels + channel);
                    if WHOLE { sum.store(to) } else { sum.store_some(to, some) }
                }
            }
        }
    }

    /// A vector, or its first numbers.
    #[inline(always)]
    unsafe fn load<L: Lanes, const WHOLE: bool>(from: *const f32, some: usize) -> L {
        // SAFETY: by the caller, whose pointer reaches the numbers of all channels from its own on.
        unsafe { if WHOLE { L::load(from) } else { L::load_some(from, some) } }
    }
}
