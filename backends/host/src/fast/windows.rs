//! A line of pooled windows, by vectors along the channels of its pixels or along the pixels themselves.

use super::level::for_levels;

/// What the pixels of a line have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    /// The maximum of the windows, else their mean.
    pub(super) is_max: bool,
    /// Where the lines of the windows begin.
    pub(super) rows: &'a [usize],
    /// How many lines a mean divides by.
    pub(super) outer: usize,
}

/// A pixel of the result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pixel {
    /// Where its window begins in a line.
    pub(super) first: usize,
    /// How many of the line's elements are in the window.
    pub(super) taps: usize,
    /// How many elements of a line a mean divides by.
    pub(super) divisor: usize,
}

/// A place in the window: the pixels of a line at which it lies inside, and where the first one meets it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tap {
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) from: usize,
}

for_levels! {
    /// `count` channels of each pixel, where the elements of a window are `step` apart.
    pub(super) fn line_of_channels(
        from: &[f32], line: &Line<'_>, pixels: &[Pixel], step: usize, count: usize, values: &mut [f32],
    ) = channels_body
}

for_levels! {
    /// One channel of each pixel, the pixels `stride` elements apart.
    pub(super) fn line_of_pixels(
        from: &[f32], line: &Line<'_>, taps: &[Tap], pixels: &[Pixel], stride: usize, values: &mut [f32],
    ) = pixels_body
}

// A comparison with NaN is false, which keeps the NaN of either side.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if b > a || b.is_nan() { b } else { a }
}

#[inline(always)]
fn channels_body(
    from: &[f32],
    line: &Line<'_>,
    pixels: &[Pixel],
    step: usize,
    count: usize,
    values: &mut [f32],
) {
    match count {
        32.. => held::<32>(from, line, pixels, step, count, values),
        16.. => held::<16>(from, line, pixels, step, count, values),
        8.. => held::<8>(from, line, pixels, step, count, values),
        4.. => held::<4>(from, line, pixels, step, count, values),
        2.. => held::<2>(from, line, pixels, step, count, values),
        _ => held::<1>(from, line, pixels, step, count, values),
    }
}

#[inline(always)]
fn held<const HELD: usize>(
    from: &[f32],
    line: &Line<'_>,
    pixels: &[Pixel],
    step: usize,
    count: usize,
    values: &mut [f32],
) {
    for (pixel, values) in pixels.iter().zip(values.chunks_exact_mut(count)) {
        let from = &from[pixel.first..];
        if line.is_max {
            window::<HELD>(from, line.rows, pixel.taps, step, f32::NEG_INFINITY, larger, values);
        } else {
            window::<HELD>(from, line.rows, pixel.taps, step, 0.0, |sum, x| sum + x, values);
            let divisor = (line.outer * pixel.divisor) as f32;
            for value in values.iter_mut() {
                *value /= divisor;
            }
        }
    }
}

/// Registers hold so many channels while a window passes by. Where the channels are no multiple of it, the last ones are taken once more.
#[inline(always)]
fn window<const HELD: usize>(
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
fn pixels_body(
    from: &[f32],
    line: &Line<'_>,
    taps: &[Tap],
    pixels: &[Pixel],
    stride: usize,
    values: &mut [f32],
) {
    if line.is_max {
        values.fill(f32::NEG_INFINITY);
        joined(from, line.rows, taps, stride, larger, values);
    } else {
        values.fill(0.0);
        joined(from, line.rows, taps, stride, |sum, x| sum + x, values);
        for (value, pixel) in values.iter_mut().zip(pixels) {
            *value /= (line.outer * pixel.divisor) as f32;
        }
    }
}

#[inline(always)]
fn joined(
    from: &[f32],
    rows: &[usize],
    taps: &[Tap],
    stride: usize,
    join: impl Fn(f32, f32) -> f32,
    values: &mut [f32],
) {
    for row in rows {
        for tap in taps {
            let from = &from[row + tap.from..];
            let values = &mut values[tap.first..][..tap.count];
            match stride {
                1 => values.iter_mut().zip(from).for_each(|(value, &x)| *value = join(*value, x)),
                2 => {
                    values.iter_mut().zip(from.chunks(2)).for_each(|(value, x)| *value = join(*value, x[0]));
                }
                _ => values
                    .iter_mut()
                    .zip(from.iter().step_by(stride))
                    .for_each(|(value, &x)| *value = join(*value, x)),
            }
        }
    }
}
