//! Sums of products of 8-bit integers, exact in 32 bits: four terms are a word, which takes the place of a number in a [`Tile`].

use super::level::{Level, for_levels};
use super::sink::WIDTH;
use super::tile::{ROWS, Tile};

/// What makes numbers of integer sums.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a> {
    /// For each column: subtracted from the sum, and multiplied with what is left.
    pub(super) offsets: &'a [i32],
    pub(super) scales: &'a [f32],
    /// What padding is read as.
    pub(super) zero: u8,
}

impl Words<'_> {
    /// Replaces sums, [`WIDTH`] apart, of so many rows and of columns from one on.
    pub(super) fn finish(&self, level: Level, rows: usize, first: usize, columns: usize, sums: &mut [f32]) {
        let (offsets, scales) = (&self.offsets[first..][..columns], &self.scales[first..][..columns]);
        for sums in sums.chunks_exact_mut(WIDTH).take(rows) {
            scale(level, offsets, scales, &mut sums[..columns]);
        }
    }

    /// A word of padding.
    pub(super) fn padding(&self) -> f32 {
        f32::from_bits(u32::from_ne_bytes([self.zero; 4]))
    }
}

for_levels! {
    /// Integers in the place of numbers become numbers.
    fn scale(offsets: &[i32], scales: &[f32], sums: &mut [f32]) = scale_body
}

#[inline(always)]
fn scale_body(offsets: &[i32], scales: &[f32], sums: &mut [f32]) {
    for ((sum, offset), scale) in sums.iter_mut().zip(offsets).zip(scales) {
        *sum = sum.to_bits().cast_signed().wrapping_sub(*offset) as f32 * scale;
    }
}

/// Computes `count` rows of integer sums, [`WIDTH`] numbers apart: rows of unsigned bytes by columns of signed ones. Terms of runs are words,
/// and the panel has [`Tile::stride`] of them for each term.
///
/// # Safety
/// - `tile.rows` holds `count` pointers for each run, each of which reaches the run's words.
/// - `tile.panel` reaches the words of all runs, each with `tile.stride` columns, a multiple of 16 and at most [`WIDTH`].
/// - `1 <= count <= most_rows(level)`.
pub(super) unsafe fn multiply(level: Level, count: usize, tile: &Tile<'_>, sums: &mut [f32; ROWS * WIDTH]) {
    debug_assert!(tile.stride <= WIDTH && tile.stride.is_multiple_of(16), "whole panels");
    #[cfg(target_arch = "x86_64")]
    if level == Level::Avx512 && is_x86_feature_detected!("avx512vnni") {
        // SAFETY: by the caller; the processor has the instructions.
        unsafe { x86::with_vnni(count, tile, sums) };
        return;
    }
    // SAFETY: by the caller.
    unsafe { plain(level, count, tile, sums) };
}

/// A column of a word: four signed terms.
type Word = [i8; 4];

/// # Safety
/// As for [`multiply`].
unsafe fn plain(level: Level, count: usize, tile: &Tile<'_>, sums: &mut [f32; ROWS * WIDTH]) {
    for (row, sums) in sums.chunks_exact_mut(WIDTH).enumerate().take(count) {
        let mut totals = [0; WIDTH];
        for (number, run) in tile.runs.iter().enumerate() {
            // SAFETY: by the caller.
            let (words, columns) = unsafe {
                let panel = tile.panel.add(run.first * tile.stride).cast::<Word>();
                (
                    std::slice::from_raw_parts(tile.rows[number * count + row].cast::<[u8; 4]>(), run.terms),
                    std::slice::from_raw_parts(panel, run.terms * tile.stride),
                )
            };
            add(level, words, columns, tile.stride, &mut totals);
        }
        sums.iter_mut().zip(totals).for_each(|(sum, total)| *sum = f32::from_bits(total.cast_unsigned()));
    }
}

for_levels! {
    fn add(words: &[[u8; 4]], columns: &[Word], stride: usize, totals: &mut [i32; WIDTH]) = add_body
}

#[inline(always)]
fn add_body(words: &[[u8; 4]], columns: &[Word], stride: usize, totals: &mut [i32; WIDTH]) {
    for (word, columns) in words.iter().zip(columns.chunks_exact(stride)) {
        let word = word.map(i32::from);
        for (total, column) in totals.iter_mut().zip(columns) {
            let products: [i32; 4] = std::array::from_fn(|i| word[i] * i32::from(column[i]));
            *total += products.iter().sum::<i32>();
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m512i, _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_set1_epi32, _mm512_setzero_si512,
        _mm512_storeu_si512,
    };

    use super::{ROWS, Tile, WIDTH};

    /// Columns of a vector.
    const COLUMNS: usize = 16;

    /// Calls [`sums`] with the number of rows as a constant.
    macro_rules! by_rows {
        ($count:expr, $vectors:literal, $tile:expr, $to:expr, $($rows:literal)+) => {
            match $count {
                $($rows => sums::<$rows, $vectors>($tile, $to),)+
                _ => {}
            }
        };
    }

    /// # Safety
    /// As for `multiply`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
    pub(super) unsafe fn with_vnni(count: usize, tile: &Tile<'_>, to: &mut [f32; ROWS * WIDTH]) {
        // SAFETY: by the caller.
        unsafe {
            if tile.stride > COLUMNS {
                by_rows!(count, 2, tile, to, 1 2 3 4 5 6 7 8 9 10 11 12 13 14);
            } else {
                by_rows!(count, 1, tile, to, 1 2 3 4 5 6 7 8 9 10 11 12 13 14);
            }
        }
    }

    #[expect(clippy::needless_range_loop, reason = "constant bounds, which the compiler unrolls")]
    #[inline(always)]
    unsafe fn sums<const COUNT: usize, const VECTORS: usize>(tile: &Tile<'_>, to: &mut [f32; ROWS * WIDTH]) {
        // SAFETY: pointers reach what the loops read, by the caller of `multiply`.
        unsafe {
            let mut sums = [[_mm512_setzero_si512(); VECTORS]; COUNT];
            for (number, run) in tile.runs.iter().enumerate() {
                let rows: [*const i32; COUNT] =
                    std::array::from_fn(|i| tile.rows.get_unchecked(number * COUNT + i).cast());
                let panel = tile.panel.add(run.first * tile.stride).cast::<i32>();
                for term in 0..run.terms {
                    let at = panel.add(term * tile.stride);
                    let columns: [__m512i; VECTORS] =
                        std::array::from_fn(|v| _mm512_loadu_si512(at.add(v * COLUMNS).cast()));
                    for row in 0..COUNT {
                        let word = _mm512_set1_epi32(rows[row].add(term).read_unaligned());
                        for vector in 0..VECTORS {
                            sums[row][vector] = _mm512_dpbusd_epi32(sums[row][vector], word, columns[vector]);
                        }
                    }
                }
            }
            for row in 0..COUNT {
                for vector in 0..VECTORS {
                    let to = to.as_mut_ptr().add(row * WIDTH + vector * COLUMNS);
                    _mm512_storeu_si512(to.cast(), sums[row][vector]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fast::tile::{Run, most_rows};

    #[test]
    fn sums_are_exact_at_every_level() {
        let terms = 40;
        let words: Vec<f32> = (0..20 * terms)
            .map(|i| f32::from_ne_bytes([(i * 37 % 256) as u8, 255, (i % 7) as u8, 128]))
            .collect();
        let bytes: &[[u8; 4]] = bytemuck::cast_slice(&words);
        for (stride, &level) in
            [16, 32].into_iter().flat_map(|s| Level::available().iter().map(move |l| (s, l)))
        {
            let panel: Vec<Word> =
                (0..2 * terms * stride).map(|i| [(i * 91 % 256) as i8, -128, 127, (i % 5) as i8]).collect();
            let runs = [Run { first: 0, terms }, Run { first: terms, terms: 3 }];
            for count in 1..=most_rows(level) {
                let first = (0..count).map(|i| words[i * terms..].as_ptr());
                let second = (0..count).map(|i| words[i * 3..].as_ptr());
                let rows: Vec<*const f32> = first.chain(second).collect();
                let tile = Tile {
                    runs: &runs,
                    rows: &rows,
                    step: 1,
                    panel: panel.as_ptr().cast(),
                    stride,
                    columns: stride,
                };
                let mut sums = [0.0; ROWS * WIDTH];
                // SAFETY: the bytes are longer than all rows and the panel than all terms.
                unsafe { multiply(level, count, &tile, &mut sums) };
                for (i, j) in (0..count).flat_map(|i| (0..stride).map(move |j| (i, j))) {
                    let of = |run: &Run, at: usize| -> i32 {
                        let dot = |a: [u8; 4], b: Word| {
                            (0..4).map(|t| i32::from(a[t]) * i32::from(b[t])).sum::<i32>()
                        };
                        (0..run.terms).map(|k| dot(bytes[at + k], panel[(run.first + k) * stride + j])).sum()
                    };
                    let expected = of(&runs[0], i * terms) + of(&runs[1], i * 3);
                    let sum = sums[i * WIDTH + j].to_bits().cast_signed();
                    assert_eq!(sum, expected, "{level:?} {count} {stride}: {i} {j}");
                }
            }
        }
    }
}
