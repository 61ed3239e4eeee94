//! Products of rows with panels, shared between threads.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use anydnn_backend::Arg;

use super::call::{Call, with_own_room};
use super::dots::{self, Dots};
use super::finish::{Finish, Rows};
use super::panels::Plain;
use super::places::Places;
use super::sink::{Step, Target, WIDTH};
use super::spread;
use super::tasks::{PACKED_TILES, Task, Tasks, most_rows, part};
use super::tile::{self, ROWS, Run, Tile};
use super::words;

/// Bytes of panels that stay in the second cache level while the rows of a tile stay in the first.
const PANEL_BYTES: usize = 1 << 19;
/// Panels that a thread takes of the same rows from which on rows that displace one another are copied.
const SPREAD_PANELS: usize = 4;
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
    let tasks = Tasks::new(call.level, call.crew.threads(), grid, columns);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let work = |task: usize| {
        let task = tasks.at(task, number, grid);
        OWN.with_borrow_mut(|own| task.run(call, grid, source, columns, finish, own));
    };
    call.crew.run(tasks.count(grid), &work);
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
    /// For each tile the offsets of its rows, to which its steps lead.
    offsets: Vec<Rows>,
    steps: Vec<Step<'static>>,
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
    /// Where the group's first column of a row at offset zero is stored out of registers, behind these steps.
    to: Option<*mut f32>,
    steps: std::ops::Range<usize>,
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
        let tiles = length.div_ceil(most_rows(call.level, columns));
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
                let tiles = part(own.tiles.len(), self.part.1, self.part.0);
                let of = |number: usize| data[(self.group * panels + number) * size..][..size].as_ptr();
                if self.panels.len() * size * size_of::<f32>() <= PANEL_BYTES {
                    // The rows of a tile stay in the first cache level while all panels pass by.
                    for tile in tiles {
                        for number in self.panels.clone() {
                            work.tile(own, tile, number, of(number), grid.width);
                        }
                    }
                    return;
                }
                for number in self.panels.clone() {
                    for tile in tiles.clone() {
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
        own.steps.clear();
        own.offsets.resize_with(tiles.max(own.offsets.len()), Rows::default);
        let length = self.rows.len();
        for i in 0..tiles {
            let tile = part(length, tiles, i);
            let (first, count) = (self.rows.start + tile.start, tile.len());
            let (runs, rows) = (own.runs.len(), own.rows.len());
            source.tile(self.group, first, count, &mut own.runs, &mut own.rows);
            finish.rows(self.group * grid.next_rows + first, count, &mut own.offsets[i]);
            // SAFETY: the steps are gone before the offsets change: both are for the rows that are prepared.
            let offsets: &'static Rows = unsafe { &*std::ptr::from_ref(&own.offsets[i]) };
            let (before, column) = (own.steps.len(), self.group * grid.next_columns);
            let to = finish.in_registers(offsets, 0..count, column, grid.columns, &mut own.steps);
            let (runs, steps) = (runs..own.runs.len(), before..own.steps.len());
            own.tiles.push(Prepared { count, runs, rows, to, steps });
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
        if let Some(to) = prepared.to {
            let steps = &own.steps[prepared.steps.clone()];
            let target = Target { steps, to, rows: offsets.of_target(all), column: first };
            // SAFETY: as below; the rows of the target and of what the steps read reach all columns.
            unsafe { tile::multiply_into(self.call.level, prepared.count, &tile, &target) };
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
