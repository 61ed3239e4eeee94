//! Blocks of a matrix whose rows become columns.

use super::level::Level;

/// Rows and columns of a block.
pub(super) const BLOCK: usize = 8;

/// Copies a block of `from`, whose rows begin `stride` numbers apart, to `to`, where they are columns of rows that begin `next` numbers apart.
/// By exchanges of neighbours, of pairs and of halves between vectors, where the processor has them.
///
/// # Panics
/// Where the block ends behind `from` or `to`.
#[inline(always)]
pub(super) fn block(level: Level, from: &[f32], stride: usize, to: &mut [f32], next: usize) {
    let (from, to) = (&from[..(BLOCK - 1) * stride + BLOCK], &mut to[..(BLOCK - 1) * next + BLOCK]);
    match level {
        Level::Portable => plain(from, stride, to, next),
        // SAFETY: the levels beyond the first have AVX2; both slices reach the rows of a block.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => unsafe { x86::block(from.as_ptr(), stride, to.as_mut_ptr(), next) },
    }
}

#[inline(always)]
fn plain(from: &[f32], stride: usize, to: &mut [f32], next: usize) {
    let rows: [&[f32]; BLOCK] = std::array::from_fn(|row| &from[row * stride..][..BLOCK]);
    for column in 0..BLOCK {
        let to = &mut to[column * next..][..BLOCK];
        to.iter_mut().zip(rows).for_each(|(to, row)| *to = row[column]);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256, _mm256_loadu_ps, _mm256_permute2f128_ps, _mm256_shuffle_ps, _mm256_storeu_ps,
        _mm256_unpackhi_ps, _mm256_unpacklo_ps,
    };

    use super::BLOCK;

    /// # Safety
    /// - The processor has AVX.
    /// - Both pointers reach eight rows of eight numbers.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn block(from: *const f32, stride: usize, to: *mut f32, next: usize) {
        // SAFETY: by the caller.
        let rows: [__m256; BLOCK] =
            std::array::from_fn(|row| unsafe { _mm256_loadu_ps(from.add(row * stride)) });
        // Neighbours of two rows, in the order of columns 0 and 1 of each half, and of 2 and 3.
        let pairs: [__m256; BLOCK] = std::array::from_fn(|i| {
            let (low, high) = (rows[i / 2 * 2], rows[i / 2 * 2 + 1]);
            if i % 2 == 0 { _mm256_unpacklo_ps(low, high) } else { _mm256_unpackhi_ps(low, high) }
        });
        // A column of four rows in each half: columns i and i + 4 of the first four rows, then of the last four.
        let fours: [__m256; BLOCK] = std::array::from_fn(|i| {
            let first = i / 4 * 4 + i % 4 / 2;
            let (a, b) = (pairs[first], pairs[first + 2]);
            if i % 2 == 0 { _mm256_shuffle_ps::<0x44>(a, b) } else { _mm256_shuffle_ps::<0xee>(a, b) }
        });
        for i in 0..BLOCK / 2 {
            let low = _mm256_permute2f128_ps::<0x20>(fours[i], fours[i + 4]);
            let high = _mm256_permute2f128_ps::<0x31>(fours[i], fours[i + 4]);
            // SAFETY: by the caller.
            unsafe {
                _mm256_storeu_ps(to.add(i * next), low);
                _mm256_storeu_ps(to.add((i + 4) * next), high);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_every_level_have_rows_for_columns() {
        let (stride, next) = (11, 9);
        let from: Vec<f32> = (0..7 * stride + BLOCK).map(|i| i as f32).collect();
        for &level in Level::available() {
            let mut to = vec![-1.0; 7 * next + BLOCK];
            block(level, &from, stride, &mut to, next);
            for (i, &to) in to.iter().enumerate() {
                let (row, column) = (i / next, i % next);
                let expected = if column < BLOCK { from[column * stride + row] } else { -1.0 };
                assert_eq!(to, expected, "{level:?}: {row} {column}");
            }
        }
    }
}
