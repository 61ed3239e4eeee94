//! Products of rows with panels, shared between threads.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use anydnn_backend::Arg;

use super::call::{Call, with_own_room};
use super::dots::{self, Dots};
use super::finish::{Finish, Rows};
use super::panels::Plain;
use super::places::Places;
use super::sink::WIDTH;
use super::spread;
use super::tile::{self, ROWS, Run, Tile};
use super::words;

/// Multiplications that one thread does sooner than another one comes to help.
const ALONE: usize = 1 << 16;
/// The same where vectors are full of products.
const ALONE_BY_DOTS: usize = 1 << 18;
/// Bytes of rows that stay in the second cache level while panels pass by.
const BLOCK_BYTES: usize = 1 << 19;
/// Bytes of panels that stay in the second cache level while the rows of a tile stay in the first.
const PANEL_BYTES: usize = 1 << 19;
/// Tiles of rows from which on columns that lie row by row are copied into panels.
const PACKED_TILES: usize = 3;
/// Panels that a thread takes of the same rows from which on rows that displace one another are copied.
const SPREAD_PANELS: usize = 4;
/// Multiplications of a task: it takes some microseconds, so that at the end no thread waits longer for another one.
const PIECE: usize = 1 << 19;
/// The fewest tasks of a thread where there is work for several threads, and the most.
const TASKS: std::ops::RangeInclusive<usize> = 4..=32;

/// The extents of a product, for each group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) groups: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) terms: usize,
    /// Numbers that a row adds to what is read: fewer than its terms where rows overlap, as windows do.
    pub(super) own: usize,
    /// Columns of a panel.
    pub(super) width: usize,
    /// Rows and columns of the result between the groups.
    pub(super) next_rows: usize,
    pub(super) next_columns: usize,
}

/// The rows that are multiplied.
pub(super) trait Source: Sync {
    /// Appends the runs of so many rows, and for each of them a pointer for every row, which reaches the run's terms.
    fn tile(&self, group: usize, first: usize, count: usize, runs: &mut Vec<Run>, rows: &mut Vec<*const f32>);

    /// Numbers between the terms of a row.
    fn step(&self) -> usize {
        1
    }
}

/// The columns.
pub(super) enum Columns<'a> {
    /// In panels, those of the groups one after the other.
    Panels(&'a [f32]),
    /// As they lie, by group.
    Plain(&'a (dyn Fn(usize) -> Plain<'a> + Sync)),
    /// The same, of few columns, which meet rows whose terms are neighbours.
    Dots(&'a (dyn Fn(usize) -> Plain<'a> + Sync)),
}

/// Where a plan finds the weights' columns.
#[derive(Debug)]
pub(super) enum Weights {
    Panels,
    /// The first element, where those of each group and of each term lie, the distance of columns, and whether [`dots`] multiplies them.
    Plain {
        first: usize,
        groups: Places,
        terms: Places,
        column: usize,
        dots: bool,
    },
}

impl Weights {
    /// The name of the form that reads them.
    pub(super) fn form(&self) -> &'static str {
        match self {
            Self::Panels => "host:panels",
            Self::Plain { dots: true, .. } => "host:dots",
            Self::Plain { .. } => "host:tiles",
        }
    }

    /// Computes all sums of the rows by the weights of the call and finishes them.
    pub(super) fn multiply(&self, call: &Call<'_>, grid: &Grid, source: &dyn Source, finish: &Finish<'_>) {
        let data = call.input(Arg::Weights);
        match self {
            Self::Panels => run(call, grid, source, &Columns::Panels(data), finish),
            Self::Plain { first, groups, terms, column, dots } => {
                let of =
                    |group: usize| Plain { data: &data[first + groups.at(group)..], terms, column: *column };
                let columns = if *dots { Columns::Dots(&of) } else { Columns::Plain(&of) };
                run(call, grid, source, &columns, finish);
            }
        }
    }
}

/// Computes all sums and finishes them.
fn run(call: &Call<'_>, grid: &Grid, source: &dyn Source, columns: &Columns<'_>, finish: &Finish<'_>) {
    if grid.rows == 0 || grid.columns == 0 || grid.groups == 0 {
        return;
    }
    let tasks = Tasks::new(call, grid, columns);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let work = |task: usize| {
        let task = tasks.at(task, number, grid);
        OWN.with_borrow_mut(|own| task.run(call, grid, source, columns, finish, own));
    };
    call.crew.run(tasks.count(grid), &work);
}

/// How the product is parted.
struct Tasks {
    row_blocks: usize,
    panel_blocks: usize,
}

/// The rows of a tile at most.
fn most_rows(call: &Call<'_>, columns: &Columns<'_>) -> usize {
    if matches!(columns, Columns::Dots(_)) { dots::MOST_ROWS } else { tile::most_rows(call.level) }
}

impl Tasks {
    fn new(call: &Call<'_>, grid: &Grid, columns: &Columns<'_>) -> Self {
        let panels = grid.columns.div_ceil(grid.width);
        let most = most_rows(call, columns);
        let tiles = grid.rows.div_ceil(most);
        let products = grid.rows * grid.columns * grid.terms;
        let wanted = if products * grid.groups < ALONE { 1 } else { TASKS.start() * call.crew.threads() };
        if let Columns::Dots(_) = columns {
            let wanted = if products * grid.groups < ALONE_BY_DOTS { 1 } else { wanted };
            return Self { row_blocks: wanted.div_ceil(grid.groups).min(tiles), panel_blocks: 1 };
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
            return Self { row_blocks, panel_blocks };
        }
        let most_blocks = wanted.div_ceil(grid.groups).min(tiles).max(of_bytes);
        // Blocks of as many tiles each, so that tiles are as high as they can be, where there are panels to part instead.
        let even = tiles.div_ceil(tiles.div_ceil(most_blocks));
        let row_blocks = if grid.groups * even * panels < wanted { most_blocks } else { even };
        let row_blocks = if grid.rows < 4 * most && panels > 1 { of_bytes } else { row_blocks };
        let threads = call.crew.threads();
        let most = if wanted == 1 {
            1
        } else {
            (products * grid.groups / PIECE).clamp(TASKS.start() * threads, TASKS.end() * threads)
        };
        let panel_blocks = most.div_ceil(grid.groups * row_blocks).min(panels);
        Self { row_blocks, panel_blocks }
    }

    fn count(&self, grid: &Grid) -> usize {
        grid.groups * self.row_blocks * self.panel_blocks
    }

    /// A task of a product. Those of the same rows follow one another, so that a thread prepares rows a few times.
    fn at(&self, task: usize, product: u64, grid: &Grid) -> Task {
        let part = |all: usize, parts: usize, i: usize| all * i / parts..all * (i + 1) / parts;
        let (rest, panels) = (task / self.panel_blocks, task % self.panel_blocks);
        let (group, rows) = (rest / self.row_blocks, rest % self.row_blocks);
        Task {
            product,
            panel_blocks: self.panel_blocks,
            group,
            rows: part(grid.rows, self.row_blocks, rows),
            panels: part(grid.columns.div_ceil(grid.width), self.panel_blocks, panels),
        }
    }
}

/// Some rows by some panels of one group.
struct Task {
    /// The product that it is of.
    product: u64,
    /// Into how many tasks the panels of its rows are parted.
    panel_blocks: usize,
    group: usize,
    rows: std::ops::Range<usize>,
    panels: std::ops::Range<usize>,
}

/// What a thread keeps from task to task.
#[derive(Default)]
struct Own {
    /// The product, the group and the first of the rows that were prepared.
    prepared: Option<(u64, usize, usize)>,
    runs: Vec<Run>,
    rows: Vec<*const f32>,
    tiles: Vec<Prepared>,
    /// Copies of a tile's rows, where there are any.
    copies: Vec<Vec<f32>>,
    offsets: Vec<Rows>,
}

/// The number of the next product.
static NUMBER: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static OWN: RefCell<Own> = RefCell::default();
}

impl Own {
    /// Copies the rows of tiles that displace one another.
    fn spread(&mut self) {
        self.copies.resize_with(self.tiles.len().max(self.copies.len()), Vec::default);
        for (tile, copy) in self.tiles.iter().zip(&mut self.copies) {
            if let [run] = self.runs[tile.runs.clone()] {
                // SAFETY: the source gave pointers that reach the run's terms.
                unsafe { spread::spread(run.terms, &mut self.rows[tile.rows..][..tile.count], copy) };
            }
        }
    }
}

/// The places of a tile's rows in [`Own`].
struct Prepared {
    count: usize,
    runs: std::ops::Range<usize>,
    rows: usize,
}

impl Task {
    fn run(
        &self,
        call: &Call<'_>,
        grid: &Grid,
        source: &dyn Source,
        columns: &Columns<'_>,
        finish: &Finish<'_>,
        own: &mut Own,
    ) {
        let length = self.rows.len();
        if length == 0 || self.panels.is_empty() {
            return;
        }
        let tiles = length.div_ceil(most_rows(call, columns));
        self.prepare(call, grid, source, finish, tiles, own);
        if let Columns::Dots(of) = columns {
            return self.dots(call, grid, &of(self.group), finish, own);
        }
        let copied = if matches!(columns, Columns::Plain(_)) { grid.terms * grid.width } else { 0 };
        with_own_room(copied, |copy| {
            let mut work = Work {
                call,
                grid,
                step: source.step(),
                finish,
                group: self.group,
                sums: [0.0; ROWS * WIDTH],
            };
            if let Columns::Panels(data) = columns {
                let panels = grid.columns.div_ceil(grid.width);
                let size = grid.terms * grid.width;
                let of = |number: usize| data[(self.group * panels + number) * size..][..size].as_ptr();
                if self.panels.len() * size * size_of::<f32>() <= PANEL_BYTES {
                    // The rows of a tile stay in the first cache level while all panels pass by.
                    for tile in 0..own.tiles.len() {
                        for number in self.panels.clone() {
                            work.tile(own, tile, number, of(number), grid.width);
                        }
                    }
                    return;
                }
                for number in self.panels.clone() {
                    for tile in 0..own.tiles.len() {
                        work.tile(own, tile, number, of(number), grid.width);
                    }
                }
                return;
            }
            let Columns::Plain(of) = columns else { return };
            let plain = of(self.group);
            for number in self.panels.clone() {
                let first = number * grid.width;
                let count = grid.width.min(grid.columns - first);
                let in_place = tiles < PACKED_TILES;
                let (data, stride) =
                    plain.panel(call.level, first..first + count, grid.width, in_place, copy);
                (0..own.tiles.len()).for_each(|tile| work.tile(own, tile, number, data, stride));
            }
        });
    }

    /// Prepares the rows, unless the thread's last task was of the same ones.
    fn prepare(
        &self,
        call: &Call<'_>,
        grid: &Grid,
        source: &dyn Source,
        finish: &Finish<'_>,
        tiles: usize,
        own: &mut Own,
    ) {
        let wanted = Some((self.product, self.group, self.rows.start));
        if own.prepared == wanted {
            return;
        }
        // A panic on the way leaves nothing that counts as prepared.
        own.prepared = None;
        own.runs.clear();
        own.rows.clear();
        own.tiles.clear();
        own.offsets.resize_with(tiles.max(own.offsets.len()), Rows::default);
        let length = self.rows.len();
        for i in 0..tiles {
            let (start, end) = (length * i / tiles, length * (i + 1) / tiles);
            let (first, count) = (self.rows.start + start, end - start);
            let (runs, rows) = (own.runs.len(), own.rows.len());
            source.tile(self.group, first, count, &mut own.runs, &mut own.rows);
            own.tiles.push(Prepared { count, runs: runs..own.runs.len(), rows });
            finish.rows(self.group * grid.next_rows + first, count, &mut own.offsets[i]);
        }
        let threads = call.crew.threads().min(self.panel_blocks);
        if grid.columns.div_ceil(grid.width) >= SPREAD_PANELS * threads && source.step() == 1 {
            own.spread();
        }
        own.prepared = wanted;
    }

    /// The tiles of a task with few columns.
    fn dots(&self, call: &Call<'_>, grid: &Grid, columns: &Plain<'_>, finish: &Finish<'_>, own: &Own) {
        with_own_room(grid.terms * grid.columns, |copy| {
            let (first, next) = columns.by_columns(grid.columns, copy);
            let mut sums = [0.0; dots::MOST_ROWS * dots::MOST_COLUMNS];
            for (prepared, offsets) in own.tiles.iter().zip(&own.offsets) {
                let dots = Dots {
                    runs: &own.runs[prepared.runs.clone()],
                    rows: &own.rows[prepared.rows..],
                    count: prepared.count,
                    first,
                    next,
                    columns: grid.columns,
                };
                let (rows, column) = (0..prepared.count, self.group * grid.next_columns);
                // SAFETY: the source gave pointers that reach the runs' terms, and each column has all terms. Tasks have rows of the result
                // of their own.
                unsafe {
                    dots::multiply(call.level, &dots, &mut sums);
                    finish.store_all(offsets, rows, column, &mut sums, grid.columns, grid.columns);
                }
            }
        });
    }
}

/// What the tiles of a task share.
struct Work<'w, 'c, 'f> {
    call: &'w Call<'c>,
    grid: &'w Grid,
    step: usize,
    finish: &'w Finish<'f>,
    group: usize,
    sums: [f32; ROWS * WIDTH],
}

impl Work<'_, '_, '_> {
    /// A tile by the columns of a panel, the first one of the first term with the numbers between terms. They are handed on in registers: what
    /// was written in parts and is read as one vector waits until all stores before it are done, among them the results of the tile before.
    fn tile(&mut self, own: &Own, tile: usize, panel: usize, data: *const f32, stride: usize) {
        let (prepared, offsets) = (&own.tiles[tile], &own.offsets[tile]);
        let first = panel * self.grid.width;
        let columns = self.grid.width.min(self.grid.columns - first);
        let tile = Tile {
            runs: &own.runs[prepared.runs.clone()],
            rows: &own.rows[prepared.rows..],
            step: self.step,
            panel: data,
            stride,
            columns,
        };
        let column = self.group * self.grid.next_columns + first;
        let all = 0..prepared.count;
        self.finish.expect(offsets, all.clone(), column, columns);
        if let Some(words) = self.call.words {
            // SAFETY: as below; words stand in the place of numbers, in panels of whole vectors.
            unsafe {
                words::multiply(self.call.level, prepared.count, &tile, &mut self.sums);
                words.finish(self.call.level, prepared.count, column, columns, &mut self.sums);
                self.finish.store_all(offsets, all, column, &mut self.sums, WIDTH, columns);
            }
            return;
        }
        let is_stored = self.finish.with_target(offsets, all.clone(), column, columns, None, |target| {
            // SAFETY: as below; the target's rows reach their columns.
            unsafe { tile::multiply_into(self.call.level, prepared.count, &tile, target) };
        });
        if is_stored {
            return;
        }
        // SAFETY: the source gave pointers that reach the runs' terms, and a panel holds all terms with columns up to its width, a multiple
        // of the lanes of each level. Tasks have rows and columns of the result of their own.
        unsafe {
            tile::multiply(self.call.level, prepared.count, &tile, &mut self.sums, false);
            self.finish.store_all(offsets, all, column, &mut self.sums, WIDTH, columns);
        }
    }
}
