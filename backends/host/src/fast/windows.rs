//! Windows over lines of pixels, one axis after the other: lines are joined to a line, then its pixels to windows.

use super::level::for_levels;
use super::sums::larger;

/// How elements of a window become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Join {
    Sum,
    /// The largest, where no element is NaN.
    Max,
    /// The largest, or NaN if one is.
    MaxOrNan,
}

for_levels! {
    /// Whether an element is NaN.
    pub(super) fn has_nan(values: &[f32]) -> bool = has_nan_body
}

for_levels! {
    /// Joins rows, which begin at the given places, to one.
    pub(super) fn join_rows(join: Join, from: &[f32], rows: &[usize], to: &mut [f32]) = join_rows_body
}

for_levels! {
    /// Joins the pixels of windows, `channels` elements of each. Windows are `next` elements apart, the pixels of one `step`; those of a line
    /// begin at a place of `lines`.
    pub(super) fn join_pixels(join: Join, from: &[f32], lines: &[usize], windows: &Windows, to: &mut [f32]) = join_pixels_body
}

for_levels! {
    /// Copies `channels` elements of every `next` ones; those of a line begin at a place of `lines`.
    pub(super) fn pick(from: &[f32], lines: &[usize], windows: &Windows, to: &mut [f32]) = pick_body
}

for_levels! {
    /// Divides the elements of a line.
    pub(super) fn divide(values: &mut [f32], divisors: &[f32], factor: f32) = divide_body
}

/// The windows of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    pub(super) width: usize,
    pub(super) channels: usize,
    pub(super) next: usize,
    pub(super) taps: usize,
    pub(super) step: usize,
}

#[inline(always)]
fn has_nan_body(values: &[f32]) -> bool {
    // Without their signs NaNs are above the infinities.
    values.iter().fold(0, |most, x| (x.to_bits() << 1).max(most)) > f32::INFINITY.to_bits() << 1
}

// One instruction of vectors, which gives the second of two numbers where one is NaN.
#[inline(always)]
fn largest(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

#[inline(always)]
fn join_rows_body(join: Join, from: &[f32], rows: &[usize], to: &mut [f32]) {
    match join {
        Join::Sum => rows_with(from, rows, to, |a, b| a + b),
        Join::Max => rows_with(from, rows, to, largest),
        Join::MaxOrNan => rows_with(from, rows, to, larger),
    }
}

/// Up to four rows at a time, so that the result is read and written once for them.
#[inline(always)]
fn rows_with(from: &[f32], rows: &[usize], to: &mut [f32], join: impl Fn(f32, f32) -> f32) {
    let length = to.len();
    let row = |place: usize| &from[place..][..length];
    let mut groups = rows.chunks(4);
    match *groups.next().unwrap_or_default() {
        [a] => to.copy_from_slice(row(a)),
        [a, b] => {
            for ((to, &a), &b) in to.iter_mut().zip(row(a)).zip(row(b)) {
                *to = join(a, b);
            }
        }
        [a, b, c] => {
            for (((to, &a), &b), &c) in to.iter_mut().zip(row(a)).zip(row(b)).zip(row(c)) {
                *to = join(join(a, b), c);
            }
        }
        [a, b, c, d] => {
            for ((((to, &a), &b), &c), &d) in to.iter_mut().zip(row(a)).zip(row(b)).zip(row(c)).zip(row(d)) {
                *to = join(join(a, b), join(c, d));
            }
        }
        _ => {}
    }
    for group in groups {
        match *group {
            [a] => to.iter_mut().zip(row(a)).for_each(|(to, &a)| *to = join(*to, a)),
            [a, b] => {
                for ((to, &a), &b) in to.iter_mut().zip(row(a)).zip(row(b)) {
                    *to = join(*to, join(a, b));
                }
            }
            [a, b, c] => {
                for (((to, &a), &b), &c) in to.iter_mut().zip(row(a)).zip(row(b)).zip(row(c)) {
                    *to = join(*to, join(join(a, b), c));
                }
            }
            [a, b, c, d] => {
                for ((((to, &a), &b), &c), &d) in
                    to.iter_mut().zip(row(a)).zip(row(b)).zip(row(c)).zip(row(d))
                {
                    *to = join(*to, join(join(a, b), join(c, d)));
                }
            }
            _ => {}
        }
    }
}

#[inline(always)]
fn join_pixels_body(join: Join, from: &[f32], lines: &[usize], windows: &Windows, to: &mut [f32]) {
    match join {
        Join::Sum => pixels_with(from, lines, windows, to, |a, b| a + b),
        Join::Max => pixels_with(from, lines, windows, to, largest),
        Join::MaxOrNan => pixels_with(from, lines, windows, to, larger),
    }
}

#[inline(always)]
fn pixels_with(
    from: &[f32],
    lines: &[usize],
    windows: &Windows,
    to: &mut [f32],
    join: impl Fn(f32, f32) -> f32,
) {
    match windows.channels {
        32.. => held::<32>(from, lines, windows, to, join),
        16.. => held::<16>(from, lines, windows, to, join),
        8.. => held::<8>(from, lines, windows, to, join),
        4.. => held::<4>(from, lines, windows, to, join),
        2.. => held::<2>(from, lines, windows, to, join),
        _ => held::<1>(from, lines, windows, to, join),
    }
}

/// Registers hold so many channels while a window passes by. Where the channels are no multiple of it, the last ones are taken once more.
#[inline(always)]
fn held<const HELD: usize>(
    from: &[f32],
    lines: &[usize],
    windows: &Windows,
    to: &mut [f32],
    join: impl Fn(f32, f32) -> f32,
) {
    let Windows { width, channels, next, taps, step } = *windows;
    for (&line, to) in lines.iter().zip(to.chunks_exact_mut(width * channels)) {
        for (pixel, to) in to.chunks_exact_mut(channels).enumerate() {
            let from = &from[line + pixel * next..][..(taps - 1) * step + channels];
            let mut first = 0;
            while first < channels {
                let at = first.min(channels - HELD);
                let mut sums: [f32; HELD] = *from[at..].first_chunk().unwrap_or(&[0.0; HELD]);
                for tap in 1..taps {
                    let from = &from[tap * step + at..][..HELD];
                    for (sum, &x) in sums.iter_mut().zip(from) {
                        *sum = join(*sum, x);
                    }
                }
                to[at..at + HELD].copy_from_slice(&sums);
                first += HELD;
            }
        }
    }
}

#[inline(always)]
fn pick_body(from: &[f32], lines: &[usize], windows: &Windows, to: &mut [f32]) {
    let Windows { width, channels, next, .. } = *windows;
    if width * channels == 1 {
        to.iter_mut().zip(lines).for_each(|(to, &line)| *to = from[line]);
        return;
    }
    for (&line, to) in lines.iter().zip(to.chunks_exact_mut(width * channels)) {
        let from = &from[line..][..(width - 1) * next + channels];
        if next == channels {
            to.copy_from_slice(from);
            continue;
        }
        match (channels, next) {
            (1, 2) => to.iter_mut().zip(from.chunks(2)).for_each(|(to, from)| *to = from[0]),
            (1, _) => to.iter_mut().zip(from.iter().step_by(next)).for_each(|(to, &x)| *to = x),
            (2..=4, _) => few::<4>(from, next, channels, to),
            (5..=8, _) => few::<8>(from, next, channels, to),
            (9..=16, _) => few::<16>(from, next, channels, to),
            _ => {
                for (to, from) in to.chunks_exact_mut(channels).zip(from.chunks(next)) {
                    to.copy_from_slice(&from[..channels]);
                }
            }
        }
    }
}

/// Copies whole vectors, of which the next pixel overwrites what is not its predecessor's.
#[inline(always)]
fn few<const COUNT: usize>(from: &[f32], next: usize, channels: usize, to: &mut [f32]) {
    for pixel in 0..to.len() / channels {
        let (from, to) = (&from[pixel * next..], &mut to[pixel * channels..]);
        match (from.first_chunk::<COUNT>(), to.first_chunk_mut::<COUNT>()) {
            (Some(from), Some(to)) => *to = *from,
            _ => to[..channels].copy_from_slice(&from[..channels]),
        }
    }
}

#[inline(always)]
fn divide_body(values: &mut [f32], divisors: &[f32], factor: f32) {
    for (value, divisor) in values.iter_mut().zip(divisors) {
        *value /= divisor * factor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fast::level::Level;

    #[test]
    fn nan_is_found_and_stays() {
        for &level in Level::available() {
            for place in [0, 63, 64, 129] {
                let mut values = vec![1.0; 130];
                assert!(!has_nan(level, &values));
                values[place] = f32::NAN;
                assert!(has_nan(level, &values));
                for rows in [&[0, 0][..], &[0, 0, 0], &[0, 0, 0, 0], &[0, 0, 0, 0, 0, 0, 0]] {
                    let mut to = vec![0.0; 130];
                    join_rows(level, Join::MaxOrNan, &values, rows, &mut to);
                    assert!(to.iter().enumerate().all(|(i, x)| x.is_nan() == (i == place)));
                }
            }
        }
    }

    #[test]
    fn rows_of_every_number_are_joined() {
        let from: Vec<f32> = (0..200).map(|i| ((i * 37) % 101) as f32).collect();
        for count in 1..=11 {
            let rows: Vec<usize> = (0..count).map(|i| i * 13).collect();
            for (&level, join) in
                Level::available().iter().flat_map(|level| [(level, Join::Sum), (level, Join::Max)])
            {
                let mut to = vec![0.0; 19];
                join_rows(level, join, &from, &rows, &mut to);
                for (i, made) in to.iter().enumerate() {
                    let column = rows.iter().map(|row| from[row + i]);
                    let expected = if join == Join::Sum { column.sum() } else { column.fold(0.0, f32::max) };
                    assert_eq!(*made, expected, "{count} rows at {level:?}");
                }
            }
        }
    }
}
