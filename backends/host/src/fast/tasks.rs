//! How a product is parted into tasks.

use std::ops::{Range, RangeInclusive};

use super::dots;
use super::level::Level;
use super::product::{Columns, Grid};
use super::tile;

/// Multiplications that one thread does sooner than another one comes to help.
const ALONE: usize = 1 << 16;
/// The same where vectors are full of products.
const ALONE_BY_DOTS: usize = 1 << 18;
/// Bytes of rows that stay in the second cache level while panels pass by.
const BLOCK_BYTES: usize = 1 << 19;
/// Tiles of rows from which on columns that lie row by row are copied into panels.
pub(super) const PACKED_TILES: usize = 3;
/// Multiplications of a task: it takes some microseconds, so that at the end no thread waits longer for another one.
const PIECE: usize = 1 << 19;
/// Tiles up to which a thread prepares all rows.
const FEW_TILES: usize = 16;
/// The fewest tasks of a thread where there is work for several threads, and the most.
const TASKS: RangeInclusive<usize> = 4..=32;

/// How a product is parted.
#[derive(Debug)]
pub(super) struct Tasks {
    row_blocks: usize,
    panel_blocks: usize,
    /// Panels at the end, of which each is parted into so many tasks.
    last: usize,
    parts: usize,
}

/// The rows of a tile at most.
pub(super) fn most_rows(level: Level, columns: &Columns<'_>) -> usize {
    if matches!(columns, Columns::Dots(_)) { dots::MOST_ROWS } else { tile::most_rows(level) }
}

impl Tasks {
    pub(super) fn new(level: Level, threads: usize, grid: &Grid, columns: &Columns<'_>) -> Self {
        let panels = grid.columns.div_ceil(grid.width);
        let most = most_rows(level, columns);
        let tiles = grid.rows.div_ceil(most);
        let products = grid.rows * grid.columns * grid.terms;
        let wanted = if products * grid.groups < ALONE { 1 } else { TASKS.start() * threads };
        if let Columns::Dots(_) = columns {
            let wanted = if products * grid.groups < ALONE_BY_DOTS { 1 } else { wanted };
            return Self::blocks(wanted.div_ceil(grid.groups).min(tiles), 1);
        }
        let of_bytes = (grid.rows * grid.own * size_of::<f32>()).div_ceil(BLOCK_BYTES).clamp(1, tiles);
        if let Columns::Plain(_) = columns {
            // What is copied into panels is copied once for all rows.
            let panel_blocks = wanted.div_ceil(grid.groups).min(panels);
            let row_blocks = if tiles < PACKED_TILES {
                1
            } else {
                wanted.div_ceil(grid.groups * panel_blocks).min(tiles / 4).max(1)
            };
            return Self::blocks(row_blocks, panel_blocks);
        }
        if grid.groups == 1 && of_bytes == 1 && tiles <= FEW_TILES && panels >= wanted && wanted > 1 {
            // All rows stay in the second cache level, and each panel comes there once.
            let of_panel = grid.rows * grid.width * grid.terms;
            let last = 2 * threads;
            let together = (PIECE / of_panel).clamp(1, panels / wanted);
            let panel_blocks = (panels - last).div_ceil(together);
            return Self { row_blocks: 1, panel_blocks, last, parts: of_panel.div_ceil(PIECE).min(tiles) };
        }
        let most_blocks = wanted.div_ceil(grid.groups).min(tiles).max(of_bytes);
        // Blocks of as many tiles each, so that tiles are as high as they can be, where there are panels to part instead.
        let even = tiles.div_ceil(tiles.div_ceil(most_blocks));
        let row_blocks = if grid.groups * even * panels < wanted { most_blocks } else { even };
        let row_blocks = if grid.rows < 4 * most && panels > 1 { of_bytes } else { row_blocks };
        let most = if wanted == 1 {
            1
        } else {
            (products * grid.groups / PIECE).clamp(TASKS.start() * threads, TASKS.end() * threads)
        };
        let panel_blocks = most.div_ceil(grid.groups * row_blocks).min(panels);
        Self::blocks(row_blocks, panel_blocks)
    }

    fn blocks(row_blocks: usize, panel_blocks: usize) -> Self {
        Self { row_blocks, panel_blocks, last: 0, parts: 1 }
    }

    pub(super) fn count(&self, grid: &Grid) -> usize {
        grid.groups * self.row_blocks * self.panel_blocks + self.last * self.parts
    }

    /// A task of a product. Those of the same rows follow one another, so that a thread prepares rows a few times.
    pub(super) fn at(&self, task: usize, product: u64, grid: &Grid) -> Task {
        let all_panels = grid.columns.div_ceil(grid.width);
        let blocks = grid.groups * self.row_blocks * self.panel_blocks;
        if task >= blocks {
            let panel = all_panels - self.last + (task - blocks) / self.parts;
            return Task {
                product,
                panel_blocks: all_panels,
                group: 0,
                rows: 0..grid.rows,
                panels: panel..panel + 1,
                part: ((task - blocks) % self.parts, self.parts),
            };
        }
        let (rest, panels) = (task / self.panel_blocks, task % self.panel_blocks);
        let (group, rows) = (rest / self.row_blocks, rest % self.row_blocks);
        Task {
            product,
            panel_blocks: self.panel_blocks,
            group,
            rows: part(grid.rows, self.row_blocks, rows),
            panels: part(all_panels - self.last, self.panel_blocks, panels),
            part: (0, 1),
        }
    }
}

/// The `i`-th of so many parts.
pub(super) fn part(all: usize, parts: usize, i: usize) -> Range<usize> {
    all * i / parts..all * (i + 1) / parts
}

/// Some rows by some panels of one group.
pub(super) struct Task {
    /// The product that it is of.
    pub(super) product: u64,
    /// Into how many tasks the panels of its rows are parted.
    pub(super) panel_blocks: usize,
    pub(super) group: usize,
    pub(super) rows: Range<usize>,
    pub(super) panels: Range<usize>,
    /// Which part of the rows' tiles it has, of how many.
    pub(super) part: (usize, usize),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fast::sink::WIDTH;

    #[test]
    fn tasks_share_every_tile_once() {
        let columns = Columns::Panels(&[]);
        for &level in Level::available() {
            for (rows, wide, terms) in [
                (128, 384, 384),
                (128, 1536, 384),
                (128, 384, 1536),
                (200, 300, 70),
                (16, 4000, 40),
                (3000, 64, 64),
                (1, 5, 7),
            ] {
                for (groups, threads) in [(1, 1), (1, 2), (1, 7), (3, 2)] {
                    let (width, next_rows, next_columns) = (WIDTH, rows, wide);
                    let grid = Grid {
                        groups,
                        rows,
                        columns: wide,
                        terms,
                        own: terms,
                        width,
                        next_rows,
                        next_columns,
                    };
                    let tasks = Tasks::new(level, threads, &grid, &columns);
                    let panels = wide.div_ceil(width);
                    let mut times = vec![0; groups * rows * panels];
                    for task in (0..tasks.count(&grid)).map(|task| tasks.at(task, 0, &grid)) {
                        let (length, (i, parts)) = (task.rows.len(), task.part);
                        let tiles = length.div_ceil(most_rows(level, &columns));
                        for tile in part(tiles, parts, i) {
                            for row in part(length, tiles, tile).map(|row| task.rows.start + row) {
                                for panel in task.panels.clone() {
                                    times[(task.group * rows + row) * panels + panel] += 1;
                                }
                            }
                        }
                    }
                    assert!(times.iter().all(|&t| t == 1), "{grid:?} by {threads} at {level:?}: {tasks:?}");
                }
            }
        }
    }
}
