//! How programs for one shape cut lines into register tiles (`convolution/blocked.cl`).

use super::Shape;
use crate::primitive::window::Window;

/// The most positions of a register tile, and register tiles of a program beside those of one position.
const MOST: usize = 14;
const MOST_SIZES: u32 = 4;
/// Sums that are added to at once while the first of them is not done: fewer take as long.
const IN_FLIGHT: usize = 8;
/// A register tile more has to save this share of the time: it has to be compiled.
const SHARE: usize = 100;

/// The tiles of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tiles {
    /// Positions of a tile; behind the first so many tiles each has one less.
    pub(super) size: usize,
    pub(super) long: usize,
    /// Positions of the register tiles that compute them, the largest first, beside those of one position.
    pub(super) sizes: Vec<usize>,
}

impl Tiles {
    /// Tiles of up to so many positions that cut a line evenly, with register tiles for what is left where the last line `is_cut` short.
    pub(super) fn even(line: usize, largest: usize, is_cut: bool) -> Self {
        let tiles = line.div_ceil(largest).max(1);
        let size = line.div_ceil(tiles);
        let long = tiles - (tiles * size - line);
        let mut sizes = vec![size];
        if is_cut {
            sizes.extend([size.div_ceil(2), size.div_ceil(4)]);
        } else if long < tiles {
            sizes.push(size - 1);
        }
        sizes.retain(|&size| size > 1);
        sizes.dedup();
        Self { size, long, sizes }
    }
}

impl Shape<'_> {
    /// Whether every position of a line sees all taps of a row.
    pub(super) fn sees_all_across(&self) -> bool {
        let Window { src, dst, kernel, strides, dilations, pads_begin, .. } = self.window;
        let Some(last) = src.len().checked_sub(1) else { return false };
        let reach = (dst[last].max(1) - 1) * strides[last] + (kernel[last] - 1) * dilations[last];
        pads_begin[last] == 0 && reach < src[last]
    }

    /// The positions of register tiles that suit what the taps of a line's tiles of this size see, of so many vectors a position.
    pub(super) fn seen_sizes(&self, tile_size: usize, vectors: usize, lines: usize) -> Vec<usize> {
        let line = self.window.dst.last().copied().unwrap_or(1);
        let largest = tile_size.min(line).min(MOST);
        sizes_for(&self.taps_by_positions(largest), largest, vectors, lines)
    }

    /// How many taps of a line's tiles are seen by so many of a tile's positions.
    fn taps_by_positions(&self, tile_size: usize) -> [usize; MOST + 1] {
        let mut taps = [0; MOST + 1];
        let Window { src, dst, kernel, strides, dilations, pads_begin, .. } = self.window;
        let Some(last) = src.len().checked_sub(1) else { return taps };
        let (line, pad, stride) = (dst[last], pads_begin[last], strides[last]);
        // The first position that sees a tap, and that behind the last one.
        let seen = |tap: usize| {
            let at = tap * dilations[last];
            (pad.saturating_sub(at).div_ceil(stride), (src[last] + pad).saturating_sub(at).div_ceil(stride))
        };
        let (all_from, all_to) = (seen(0).0, seen(kernel[last] - 1).1);
        let (tile_size, mut start) = (tile_size.max(1), 0);
        while start < line {
            // Between the ends all tiles are the same, of which long lines have many.
            let inside =
                if all_from <= start { all_to.min(line).saturating_sub(start) / tile_size } else { 0 };
            if inside > 0 {
                taps[tile_size] += inside * kernel[last];
                start += inside * tile_size;
                continue;
            }
            let end = (start + tile_size).min(line);
            for (from, to) in (0..kernel[last]).map(seen) {
                taps[to.min(end).saturating_sub(from.max(start))] += 1;
            }
            start = end;
        }
        taps
    }
}

/// The positions of register tiles that take the least time for runs of so many positions: `runs[n]` of n in each line.
fn sizes_for(runs: &[usize; MOST + 1], largest: usize, vectors: usize, lines: usize) -> Vec<usize> {
    // Multiply-adds, or loads of as many terms and weights.
    let tile = |size: usize| (size * vectors).max(size + vectors).max(IN_FLIGHT);
    let has = |sizes: u32, size: usize| size == 1 || sizes & (1 << size) != 0;
    let time = |sizes: u32| -> usize {
        (1..=largest)
            .filter(|&run| runs[run] > 0)
            .map(|run| {
                let covering = (run..=largest).find(|&size| has(sizes, size)).unwrap_or(largest);
                // At the end of the source no tile may reach further than the run.
                let mut rest = run;
                let mut exact = 0;
                for size in (1..=run).rev().filter(|&size| has(sizes, size)) {
                    exact += rest / size * tile(size);
                    rest %= size;
                }
                runs[run] * (tile(covering) * (lines.max(1) - 1) + exact)
            })
            .sum()
    };
    let first = 1 << largest;
    let others =
        (0..first).filter(|others: &u32| others.trailing_zeros() >= 2 && others.count_ones() < MOST_SIZES);
    let best = others.min_by_key(|&others| time(first | others) * (SHARE + others.count_ones() as usize));
    let sizes = first | best.unwrap_or(0);
    (2..=largest).rev().filter(|&size| has(sizes, size)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_evenly() {
        let tiles = |line| Tiles::even(line, 14, false);
        let of = |size, long, sizes: &[usize]| Tiles { size, long, sizes: sizes.to_vec() };
        assert_eq!(tiles(16), of(8, 2, &[8]));
        assert_eq!(tiles(46), of(12, 2, &[12, 11]));
        assert_eq!([1, 2, 15].map(tiles), [of(1, 1, &[]), of(2, 1, &[2]), of(8, 1, &[8, 7])]);
        assert_eq!(Tiles::even(28, 14, true), of(14, 2, &[14, 7, 4]));
        for line in 1..200 {
            let Tiles { size, long, sizes } = tiles(line);
            let tiles = line.div_ceil(14);
            assert_eq!(long * size + (tiles - long) * (size - 1), line);
            assert!(sizes.is_sorted_by(|a, b| a > b), "{line}: {sizes:?}");
        }
    }

    #[test]
    fn register_tiles_are_what_taps_see() {
        let of = |runs: &[(usize, usize)], largest, vectors| {
            let mut all = [0; MOST + 1];
            for &(run, taps) in runs {
                all[run] += taps;
            }
            sizes_for(&all, largest, vectors, 100)
        };
        // Lines of seven by windows of seven: four to seven positions see a tap.
        let sevens = [(4, 2), (5, 2), (6, 2), (7, 1)];
        assert_eq!(of(&sevens, 7, 4), [7, 6, 5, 4]);
        // Of one vector a few positions take as long as more, but not those at the end of the source.
        assert_eq!(of(&sevens, 7, 1), [7, 4]);
        // Long lines: what the last tile has counts more than what the ends miss.
        assert_eq!(of(&[(14, 30), (3, 3)], 14, 2), [14, 3]);
        assert_eq!(of(&[(1, 3)], 1, 2), [0; 0]);
    }
}
