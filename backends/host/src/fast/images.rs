//! Images `[N, C, spatial..]` with the channels of a pixel side by side, in place or copied.

use anydnn_backend::MemoryDesc;

use super::call::Call;
use super::level::for_levels;
use super::places::strides_of;
use crate::compute::padded;

/// An image as it lies, and how its pixels are found.
#[derive(Debug)]
pub(super) struct Image {
    first: usize,
    batch: usize,
    channels: usize,
    extents: [usize; 3],
    /// Of the given image.
    sample: usize,
    channel: usize,
    given: [usize; 3],
    /// Of the image whose channels are neighbours.
    next_sample: usize,
    strides: [usize; 3],
    is_copied: bool,
    /// Zeros of a copy in front of each axis, and the extents with those behind.
    pads: [usize; 3],
    padded: [usize; 3],
}

impl Image {
    /// `apart` are the channels that are read together: where there is one, it need have no neighbours. None for other types and blocked
    /// layouts.
    pub(super) fn new(desc: &MemoryDesc, apart: usize) -> Option<Self> {
        let dims = desc.dims();
        let (strides, first) = strides_of(desc, dims)?;
        let extents = padded(&dims[2..], 1);
        let given = padded(&strides[2..], 0);
        let (batch, channels) = (dims[0], dims[1]);
        let is_copied = strides[1] != 1 && channels > 1 || apart > channels;
        let (next_sample, strides_of_pixels) = if is_copied {
            let pixels: usize = extents.iter().product();
            let dense = [extents[1] * extents[2] * channels, extents[2] * channels, channels];
            (pixels * channels, dense)
        } else {
            (strides[0], given)
        };
        Some(Self {
            first,
            batch,
            channels,
            extents,
            sample: strides[0],
            channel: strides[1],
            given,
            next_sample,
            strides: strides_of_pixels,
            is_copied,
            pads: [0; 3],
            padded: extents,
        })
    }

    /// The image as a copy with zeros around it: so many in front of each axis, and behind up to the given extents. Places count from the
    /// first of them.
    pub(super) fn with_zeros(mut self, pads: [usize; 3], padded: [usize; 3]) -> Self {
        self.strides = [padded[1] * padded[2] * self.channels, padded[2] * self.channels, self.channels];
        self.next_sample = padded[0] * self.strides[0];
        (self.pads, self.padded, self.is_copied) = (pads, padded, true);
        self
    }

    /// Whether neighbours along an axis are so many numbers apart.
    pub(super) fn is_dense(&self, axis: usize, numbers: usize) -> bool {
        self.strides[axis] == numbers
    }

    /// The place of a pixel's first channel.
    pub(super) fn at(&self, sample: usize, [d, h, w]: [usize; 3]) -> usize {
        sample * self.next_sample + d * self.strides[0] + h * self.strides[1] + w * self.strides[2]
    }

    /// The stride of rows and of pixels.
    pub(super) fn strides(&self) -> [usize; 3] {
        self.strides
    }

    /// Numbers of a copy.
    pub(super) fn room(&self) -> usize {
        if self.is_copied { self.batch * self.next_sample } else { 0 }
    }

    /// The image from its first pixel on, its channels last: in place, or copied into `room`.
    pub(super) fn channels_last<'r>(
        &self,
        call: &Call<'_>,
        data: &'r [f32],
        room: &'r mut [f32],
    ) -> &'r [f32] {
        let data = &data[self.first..];
        if !self.is_copied {
            return data;
        }
        let [planes, rows, pixels] = self.padded;
        let line = pixels * self.channels;
        let zero = call.padding();
        let to = super::Shared::new(room);
        let inside =
            |axis: usize, at: usize| at.checked_sub(self.pads[axis]).filter(|&at| at < self.extents[axis]);
        let work = |number: usize| {
            let (n, rest) = (number / (planes * rows), number % (planes * rows));
            // SAFETY: every line is written by one piece of work.
            let to = unsafe { to.part(number * line, line) };
            let Some((d, h)) = inside(0, rest / rows).zip(inside(1, rest % rows)) else {
                to.fill(zero);
                return;
            };
            let from = &data[n * self.sample + d * self.given[0] + h * self.given[1]..];
            let (before, to) = to.split_at_mut(self.pads[2] * self.channels);
            let (to, behind) = to.split_at_mut(self.extents[2] * self.channels);
            before.fill(zero);
            behind.fill(zero);
            interleave(call.level, from, self.channel, self.given[2], self.channels, to);
        };
        call.crew.run(self.batch * planes * rows, &work);
        room
    }
}

for_levels! {
    /// A line of pixels, the channels of each side by side.
    fn interleave(from: &[f32], channel: usize, pixel: usize, channels: usize, to: &mut [f32]) = interleave_body
}

#[inline(always)]
fn interleave_body(from: &[f32], channel: usize, pixel: usize, channels: usize, to: &mut [f32]) {
    if channel == 1 && pixel == channels {
        to.copy_from_slice(&from[..to.len()]);
        return;
    }
    for (w, to) in to.chunks_exact_mut(channels).enumerate() {
        let from = &from[w * pixel..];
        for (c, to) in to.iter_mut().enumerate() {
            *to = from[c * channel];
        }
    }
}
