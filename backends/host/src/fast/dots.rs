//! Products of rows with few columns: each sum runs along the terms, a vector of them at a time, where a panel would be mostly empty.

use anydnn_backend::{DataType, MemoryDesc};

use super::lanes::{Four, Lanes};
use super::level::Level;
use super::tile::Run;

/// The most columns.
pub(super) const MOST_COLUMNS: usize = 4;
/// The most rows of a tile.
pub(super) const MOST_ROWS: usize = 16;
/// Terms of a run from which on vectors of them pay for being joined, by the number of columns.
const LEAST_TERMS: [usize; MOST_COLUMNS] = [32, 64, 256, 256];

/// Whether products with so many columns, whose terms come in runs of so many, are computed here.
pub(super) const fn fits(columns: usize, run: usize) -> bool {
    matches!(columns, 1..=MOST_COLUMNS) && run >= LEAST_TERMS[columns - 1]
}

/// The layout of one matrix `[1.., K, N]` with the terms of a column side by side; none where it is of no use.
pub(super) fn matrix_layout(desc: &MemoryDesc) -> Option<MemoryDesc> {
    let (batch, [terms, columns]) = desc.dims().split_last_chunk::<2>()?;
    if batch.iter().any(|&dim| dim != 1) || !fits(*columns, *terms) {
        return None;
    }
    let letter = |axis: usize| char::from(b'a' + axis as u8);
    let lead: String = (0..batch.len()).map(letter).collect();
    layout(desc, &format!("{lead}{}{}", letter(batch.len() + 1), letter(batch.len())))
}

/// The layout of filters `[O, C / groups, spatial..]` with the terms of a filter side by side; none where it is of no use.
pub(super) fn filters_layout(desc: &MemoryDesc, groups: usize) -> Option<MemoryDesc> {
    if !fits(desc.dims()[0] / groups.max(1), desc.dims()[1]) {
        return None;
    }
    let taps: String = (2..desc.rank()).map(|axis| char::from(b'a' + axis as u8)).collect();
    layout(desc, &format!("a{taps}b"))
}

fn layout(desc: &MemoryDesc, tag: &str) -> Option<MemoryDesc> {
    if desc.data_type() != DataType::F32 || desc.elements() == 0 {
        return None;
    }
    let tagged = MemoryDesc::with_tag(desc.dims().clone(), desc.data_type(), tag).ok()?;
    Some(match desc.label() {
        Some(label) => tagged.labelled(label),
        None => tagged,
    })
}

/// What is multiplied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dots<'a> {
    pub(super) runs: &'a [Run],
    /// For each run a pointer for each of `count` rows, whose terms are neighbours.
    pub(super) rows: &'a [*const f32],
    pub(super) count: usize,
    /// The first term of the first column, whose terms are neighbours.
    pub(super) first: *const f32,
    /// Numbers between the first terms of the columns.
    pub(super) next: usize,
    /// At most [`MOST_COLUMNS`].
    pub(super) columns: usize,
}

/// Computes the sums of each row with all columns, one row behind the other.
///
/// # Safety
/// - `dots.rows` holds `count` pointers for each run, each of which reaches the run's terms.
/// - From `first` on, columns `next` numbers apart reach the terms of all runs.
pub(super) unsafe fn multiply(level: Level, dots: &Dots<'_>, sums: &mut [f32]) {
    assert!(sums.len() >= dots.count * dots.columns, "room for {} rows", dots.count);
    // SAFETY: by the caller; the level's instructions are there.
    unsafe {
        match level {
            Level::Portable => by_columns::<Four>(dots, sums),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => x86::with_avx2(dots, sums),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => x86::with_avx512(dots, sums),
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m256, __m512};

    use super::{Dots, by_columns};

    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn with_avx2(dots: &Dots<'_>, sums: &mut [f32]) {
        // SAFETY: by the caller of `multiply`.
        unsafe { by_columns::<__m256>(dots, sums) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    pub(super) unsafe fn with_avx512(dots: &Dots<'_>, sums: &mut [f32]) {
        // SAFETY: by the caller of `multiply`.
        unsafe { by_columns::<__m512>(dots, sums) }
    }
}

/// Rows and columns share what is loaded; eight sums at a time keep their vectors in registers at every level.
#[inline(always)]
unsafe fn by_columns<L: Lanes>(dots: &Dots<'_>, sums: &mut [f32]) {
    // SAFETY: by the caller of `multiply`.
    unsafe {
        match dots.columns {
            1 => {
                let row = in_steps::<L, 8, 1>(dots, 0, sums);
                let row = in_steps::<L, 4, 1>(dots, row, sums);
                in_steps::<L, 1, 1>(dots, row, sums);
            }
            2 => {
                let row = in_steps::<L, 4, 2>(dots, 0, sums);
                in_steps::<L, 1, 2>(dots, row, sums);
            }
            3 => {
                let row = in_steps::<L, 2, 3>(dots, 0, sums);
                in_steps::<L, 1, 3>(dots, row, sums);
            }
            _ => {
                let row = in_steps::<L, 2, 4>(dots, 0, sums);
                in_steps::<L, 1, 4>(dots, row, sums);
            }
        }
    }
}

/// As many times `ROWS` rows as there are from a row on; gives the first row that is left.
#[inline(always)]
unsafe fn in_steps<L: Lanes, const ROWS: usize, const COLUMNS: usize>(
    dots: &Dots<'_>,
    mut row: usize,
    sums: &mut [f32],
) -> usize {
    while row + ROWS <= dots.count {
        // SAFETY: by the caller of `multiply`.
        let made = unsafe { tile::<L, ROWS, COLUMNS>(dots, row) };
        for (to, made) in sums[row * COLUMNS..].chunks_exact_mut(COLUMNS).zip(made) {
            to.copy_from_slice(&made);
        }
        row += ROWS;
    }
    row
}

#[inline(always)]
unsafe fn tile<L: Lanes, const ROWS: usize, const COLUMNS: usize>(
    dots: &Dots<'_>,
    first: usize,
) -> [[f32; COLUMNS]; ROWS] {
    // SAFETY: pointers reach what is read, by the caller of `multiply`.
    unsafe {
        let mut sums = [[L::splat(0.0); COLUMNS]; ROWS];
        for (number, run) in dots.runs.iter().enumerate() {
            let rows: [*const f32; ROWS] =
                std::array::from_fn(|i| *dots.rows.get_unchecked(number * dots.count + first + i));
            let columns: [*const f32; COLUMNS] =
                std::array::from_fn(|c| dots.first.add(c * dots.next + run.first));
            let whole = run.terms - run.terms % L::COUNT;
            for term in (0..whole).step_by(L::COUNT) {
                let of_columns: [L; COLUMNS] = std::array::from_fn(|c| L::load(columns[c].add(term)));
                for row in 0..ROWS {
                    let terms = L::load(rows[row].add(term));
                    for column in 0..COLUMNS {
                        sums[row][column] = sums[row][column].plus_product(terms, of_columns[column]);
                    }
                }
            }
            let rest = run.terms - whole;
            if rest > 0 {
                let of_columns: [L; COLUMNS] =
                    std::array::from_fn(|c| L::load_some(columns[c].add(whole), rest));
                for row in 0..ROWS {
                    let terms = L::load_some(rows[row].add(whole), rest);
                    for column in 0..COLUMNS {
                        sums[row][column] = sums[row][column].plus_product(terms, of_columns[column]);
                    }
                }
            }
        }
        sums.map(|row| row.map(|sum| sum.total()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_every_level_and_number_of_rows_and_columns_are_those_of_the_terms() {
        let data: Vec<f32> = (0..4000).map(|i| ((i * 7) % 31) as f32 - 15.0).collect();
        let weights: Vec<f32> = (0..400).map(|i| ((i * 5) % 17) as f32 - 8.0).collect();
        let runs = [Run { first: 0, terms: 37 }, Run { first: 37, terms: 16 }, Run { first: 53, terms: 3 }];
        for &level in Level::available() {
            for (count, columns) in (1..=MOST_ROWS).flat_map(|n| (1..=MOST_COLUMNS).map(move |c| (n, c))) {
                let at = |run: usize, row: usize| row * 61 + run * 100;
                let rows: Vec<*const f32> = (0..runs.len())
                    .flat_map(|run| (0..count).map(move |row| (run, row)))
                    .map(|(run, row)| data[at(run, row)..].as_ptr())
                    .collect();
                let dots =
                    Dots { runs: &runs, rows: &rows, count, first: weights.as_ptr(), next: 57, columns };
                let mut sums = vec![f32::NAN; count * columns];
                // SAFETY: data and weights are longer than what rows and columns reach.
                unsafe { multiply(level, &dots, &mut sums) };
                for (row, column) in (0..count).flat_map(|row| (0..columns).map(move |c| (row, c))) {
                    let of = |(number, run): (usize, &Run)| -> f32 {
                        (0..run.terms)
                            .map(|k| data[at(number, row) + k] * weights[column * 57 + run.first + k])
                            .sum()
                    };
                    let expected: f32 = runs.iter().enumerate().map(of).sum();
                    assert_eq!(sums[row * columns + column], expected, "{level:?} {count} {columns}");
                }
            }
        }
    }
}
