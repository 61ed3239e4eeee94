//! The sums of products of some rows with a panel of columns, in registers.
//!
//! Rows are wherever pointers say, so that the pixels of an image meet the taps of a filter in place: each run of terms has a pointer for
//! every row. This is the register blocking of Goto and van de Geijn (*Anatomy of High-Performance Matrix Multiplication*, 2008), with the
//! indirection of Dukhan (*The Indirect Convolution Algorithm*, 2019).

use super::lanes::{Four, Lanes, opaque};
use super::level::Level;
pub(super) use super::sink::ROWS;
use super::sink::{Sink, Target, ToSums, ToTarget, WIDTH};

/// Terms that follow one another in every row, and in the panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The first one's place in the panel.
    pub(super) first: usize,
    pub(super) terms: usize,
}

/// What a tile multiplies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile<'a> {
    pub(super) runs: &'a [Run],
    /// For each run a pointer for each row.
    pub(super) rows: &'a [*const f32],
    /// Numbers between the terms of a row.
    pub(super) step: usize,
    /// The first column of the first term.
    pub(super) panel: *const f32,
    /// Numbers between the terms of the panel.
    pub(super) stride: usize,
    /// At most [`WIDTH`]; the panel is readable up to the next multiple of a vector.
    pub(super) columns: usize,
}

/// The most rows of a tile.
pub(super) const fn most_rows(level: Level) -> usize {
    match level {
        Level::Portable => 4,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => 6,
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => ROWS,
    }
}

/// Computes `count` rows of sums, [`WIDTH`] numbers apart; with `add` they grow by what they were.
///
/// # Safety
/// - `tile.rows` holds `count` pointers for each run, each of which reaches the run's terms.
/// - `tile.panel` reaches the terms of all runs, each with its columns up to a multiple of the level's lanes.
/// - `1 <= count <= most_rows(level)` and `1 <= tile.columns <= WIDTH`.
pub(super) unsafe fn multiply(
    level: Level,
    count: usize,
    tile: &Tile<'_>,
    sums: &mut [f32; ROWS * WIDTH],
    add: bool,
) {
    for_vectors(level, tile, |tile, first| {
        let to = sums[first..].as_mut_ptr();
        // SAFETY: by the caller; two vectors end within the width, and the level's instructions are there.
        unsafe { by_level(level, count, tile, &ToSums { to, add }) };
    });
}

/// Computes `count` rows of sums and stores them behind the target's steps.
///
/// # Safety
/// - As for [`multiply`].
/// - The target has an offset for each row, and so have its steps. At all of them there are `tile.columns` numbers from its column on, those of
///   the target nobody else's.
pub(super) unsafe fn multiply_into(level: Level, count: usize, tile: &Tile<'_>, target: &Target<'_>) {
    let lanes = 2 * level.lanes();
    for_vectors(level, tile, |tile, first| {
        let (columns, first) = (tile.columns.min(lanes), target.column + first);
        // SAFETY: by the caller; the level's instructions are there.
        unsafe { by_level(level, count, tile, &ToTarget { target, first, columns }) };
    });
}

/// Calls `work` with the columns from each two vectors on, and the first one's number. A tile of no more is handed on as it is: vectors that
/// copy what was written number by number wait for every store before it, among them the results of the tile before.
#[inline(always)]
fn for_vectors(level: Level, tile: &Tile<'_>, mut work: impl FnMut(&Tile<'_>, usize)) {
    let lanes = 2 * level.lanes();
    if tile.columns <= lanes {
        return work(tile, 0);
    }
    for first in (0..tile.columns).step_by(lanes) {
        let panel = tile.panel.wrapping_add(first);
        work(&Tile { panel, columns: tile.columns - first, ..*tile }, first);
    }
}

/// The sums of at most two vectors of columns.
///
/// # Safety
/// As for [`multiply`].
unsafe fn by_level(level: Level, count: usize, tile: &Tile<'_>, sink: &impl Sink) {
    // SAFETY: by the caller; the level's instructions are there.
    unsafe {
        match level {
            Level::Portable => portable(count, tile, sink),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => x86::with_avx2(count, tile, sink),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => x86::with_avx512(count, tile, sink),
        }
    }
}

/// Calls [`sums`] with the number of rows as a constant.
macro_rules! by_rows {
    ($count:expr, $lanes:ty, $vectors:literal, $tile:expr, $sink:expr, $($rows:literal)+) => {
        match $count {
            $($rows => sums::<$lanes, $rows, $vectors>($tile, $sink),)+
            _ => {}
        }
    };
}

unsafe fn portable(count: usize, tile: &Tile<'_>, sink: &impl Sink) {
    // SAFETY: by the caller of `multiply`.
    unsafe {
        if tile.columns > Four::COUNT {
            by_rows!(count, Four, 2, tile, sink, 1 2 3 4);
        } else {
            by_rows!(count, Four, 1, tile, sink, 1 2 3 4);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m256, __m512};

    use super::{Lanes, Sink, Tile, sums};

    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn with_avx2(count: usize, tile: &Tile<'_>, sink: &impl Sink) {
        // SAFETY: by the caller of `multiply`.
        unsafe {
            if tile.columns > <__m256 as Lanes>::COUNT {
                by_rows!(count, __m256, 2, tile, sink, 1 2 3 4 5 6);
            } else {
                by_rows!(count, __m256, 1, tile, sink, 1 2 3 4 5 6);
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    pub(super) unsafe fn with_avx512(count: usize, tile: &Tile<'_>, sink: &impl Sink) {
        // SAFETY: by the caller of `multiply`.
        unsafe {
            if tile.columns > <__m512 as Lanes>::COUNT {
                by_rows!(count, __m512, 2, tile, sink, 1 2 3 4 5 6 7 8 9 10 11 12 13 14);
            } else {
                by_rows!(count, __m512, 1, tile, sink, 1 2 3 4 5 6 7 8 9 10 11 12 13 14);
            }
        }
    }
}

/// Terms of a panel that are on their way to the first cache level while others are multiplied.
const AHEAD: usize = 20;
/// Rows of a tile up to which the processor finds out itself what it will read.
const FEW: usize = 4;

/// Rows of a tile up to which the pointers to all of them lie in registers.
const HELD: usize = 11;
/// Terms of a run from which on it pays to look whether its rows lie evenly.
const LONG: usize = 32;
/// Rows that share a pointer where they lie evenly: the distance of rows comes with an address once or twice.
const SHARING: usize = 3;
/// Pointers to the rows of a tile that lie evenly.
const SHARED: usize = ROWS.div_ceil(SHARING);

/// Sums of one row that do not wait for one another, where few rows leave registers free.
const fn apart(rows: usize) -> usize {
    match rows {
        1 => 4,
        2 => 2,
        _ => 1,
    }
}

#[inline(always)]
unsafe fn sums<L: Lanes, const ROWS: usize, const VECTORS: usize>(tile: &Tile<'_>, sink: &impl Sink) {
    // SAFETY: by the caller of `multiply`.
    unsafe {
        match (apart(ROWS), tile.step) {
            (4, _) => sums_apart::<L, ROWS, VECTORS, 4>(tile, sink, tile.step),
            (2, _) => sums_apart::<L, ROWS, VECTORS, 2>(tile, sink, tile.step),
            (_, 1) => sums_apart::<L, ROWS, VECTORS, 1>(tile, sink, 1),
            _ => sums_apart::<L, ROWS, VECTORS, 1>(tile, sink, tile.step),
        }
    }
}

#[expect(clippy::needless_range_loop, reason = "constant bounds, which the compiler unrolls")]
#[inline(always)]
unsafe fn sums_apart<L: Lanes, const ROWS: usize, const VECTORS: usize, const APART: usize>(
    tile: &Tile<'_>,
    sink: &impl Sink,
    step: usize,
) {
    // SAFETY: pointers reach what the loops read, by the caller of `multiply`.
    unsafe {
        let mut sums = [[[L::splat(0.0); VECTORS]; ROWS]; APART];
        for (number, run) in tile.runs.iter().enumerate() {
            let rows: [*const f32; ROWS] =
                std::array::from_fn(|i| *tile.rows.get_unchecked(number * ROWS + i));
            let panel = tile.panel.add(run.first * tile.stride);
            if ROWS > HELD
                && APART == 1
                && step == 1
                && run.terms >= LONG
                && let Some(distance) = even_distance(&rows)
            {
                add_even(rows[0], distance, panel, tile.stride, run.terms, &mut sums[0]);
                continue;
            }
            let whole = run.terms - run.terms % APART;
            let mut term = 0;
            while term < whole {
                for apart in 0..APART {
                    add_term(&rows, panel, tile.stride, step, term + apart, &mut sums[apart]);
                }
                term += APART;
            }
            while term < run.terms {
                add_term(&rows, panel, tile.stride, step, term, &mut sums[0]);
                term += 1;
            }
        }
        let mut made = sums[0];
        for apart in 1..APART {
            for row in 0..ROWS {
                for vector in 0..VECTORS {
                    made[row][vector] = made[row][vector].add(sums[apart][row][vector]);
                }
            }
        }
        sink.put(made);
    }
}

#[inline(always)]
unsafe fn add_term<L: Lanes, const ROWS: usize, const VECTORS: usize>(
    rows: &[*const f32; ROWS],
    panel: *const f32,
    stride: usize,
    step: usize,
    term: usize,
    sums: &mut [[L; VECTORS]; ROWS],
) {
    // SAFETY: by the caller of `multiply`.
    unsafe {
        if ROWS > FEW {
            let ahead = panel.wrapping_add((term + AHEAD) * stride);
            (0..VECTORS).for_each(|v| L::prefetch(ahead.wrapping_add(v * L::COUNT)));
        }
        let columns: [L; VECTORS] = std::array::from_fn(|v| L::load(panel.add(term * stride + v * L::COUNT)));
        for row in 0..ROWS {
            let value = L::splat(*rows[row].add(term * step));
            for vector in 0..VECTORS {
                sums[row][vector] = sums[row][vector].plus_product(value, columns[vector]);
            }
        }
    }
}

/// The bytes from each row to the next one, where these are as many.
#[inline(always)]
fn even_distance<const ROWS: usize>(rows: &[*const f32; ROWS]) -> Option<isize> {
    let distance = rows[1].addr().wrapping_sub(rows[0].addr());
    let is_even = (2..ROWS).all(|i| rows[i].addr().wrapping_sub(rows[0].addr()) == distance.wrapping_mul(i));
    is_even.then_some(distance.cast_signed())
}

/// The terms of rows that lie `distance` bytes apart. A third as many pointers are in registers then: pointers to each of many rows are not, and
/// those that are read from memory for every term cost a twentieth of the time.
#[inline(always)]
unsafe fn add_even<L: Lanes, const ROWS: usize, const VECTORS: usize>(
    first: *const f32,
    distance: isize,
    panel: *const f32,
    stride: usize,
    terms: usize,
    sums: &mut [[L; VECTORS]; ROWS],
) {
    let mut pointers: [*const f32; SHARED] =
        std::array::from_fn(|i| first.wrapping_byte_offset((SHARING * i) as isize * distance));
    let mut panel = panel;
    for _ in 0..terms {
        // SAFETY: by the caller of `multiply`.
        unsafe {
            let ahead = panel.wrapping_add(AHEAD * stride);
            (0..VECTORS).for_each(|v| L::prefetch(ahead.wrapping_add(v * L::COUNT)));
            let columns: [L; VECTORS] = std::array::from_fn(|v| L::load(panel.add(v * L::COUNT)));
            // Else the compiler makes a pointer for every row again.
            pointers = pointers.map(opaque);
            for (shared, pointer) in pointers.into_iter().enumerate() {
                for i in 0..SHARING {
                    let row = shared * SHARING + i;
                    if row < ROWS {
                        let value = L::splat(*pointer.wrapping_byte_offset(i as isize * distance));
                        for vector in 0..VECTORS {
                            sums[row][vector] = sums[row][vector].plus_product(value, columns[vector]);
                        }
                    }
                }
            }
        }
        pointers = pointers.map(|pointer| pointer.wrapping_add(1));
        panel = panel.wrapping_add(stride);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_of_every_level_and_height_give_the_sums() {
        // Long and short runs, of rows that lie evenly and of others.
        let (terms, stride) = (43, 37);
        let data: Vec<f32> = (0..64 * terms).map(|i| ((i * 7) % 31) as f32 - 15.0).collect();
        let panel: Vec<f32> = (0..stride * 2 * terms + WIDTH).map(|i| ((i * 5) % 17) as f32 - 8.0).collect();
        let places: [fn(usize) -> usize; 3] = [|i| i * 43, |i| i * 5, |i| 14 + i * i - 3 * i];
        let runs =
            [Run { first: 0, terms }, Run { first: terms, terms: 3 }, Run { first: terms + 3, terms: 33 }];
        for &level in Level::available() {
            for (count, columns, step) in (1..=most_rows(level))
                .flat_map(|c| [(c, 1, 1), (c, 9, 2), (c, 17, 1), (c, 32, 3), (c, 32, 1)])
            {
                let rows = places.map(|at| (0..count).map(at));
                let rows: Vec<*const f32> =
                    rows.into_iter().flatten().map(|at| data[at..].as_ptr()).collect();
                let tile = Tile { runs: &runs, rows: &rows, step, panel: panel.as_ptr(), stride, columns };
                let mut sums = [1.0; ROWS * WIDTH];
                // SAFETY: the data is longer than all rows and the panel than all terms.
                unsafe { multiply(level, count, &tile, &mut sums, true) };
                for (i, j) in (0..count).flat_map(|i| (0..columns).map(move |j| (i, j))) {
                    let of = |run: &Run, at: usize| -> f32 {
                        (0..run.terms)
                            .map(|k| data[at + k * step] * panel[(run.first + k) * stride + j])
                            .sum()
                    };
                    let all = runs.iter().zip(places).map(|(run, at)| of(run, at(i)));
                    let expected = 1.0 + all.sum::<f32>();
                    assert_eq!(sums[i * WIDTH + j], expected, "{level:?} {count} {columns} {step}: {i} {j}");
                }
            }
        }
    }
}
