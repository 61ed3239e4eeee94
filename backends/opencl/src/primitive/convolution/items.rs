//! What a work-item of the kernel of panels (`convolution/packed.cl`) computes: tiles of places, for panels of outputs.

use super::Shape;
use super::packed::three;
use super::ways::{Image, Run};
use crate::plan::DeviceTraits;
use crate::primitive::unit_panels::{Factors, MOST_ROOM, ROOMS};

/// Work-items for each core, so that none waits long for another one.
const ITEMS: usize = 4;
/// Panels for each core from which on they alone keep it at work.
const PANELS_OF_CORES: usize = 2;
/// Bytes of the source that a work-item goes through for every panel.
const ITEM_BYTES: usize = 256 << 10;
/// Bytes of gathered places that stay in the first-level cache; of many weights, which are read again for every such part, in the second one.
const NEAR_BYTES: usize = 32 << 10;
const MANY_WEIGHTS: usize = 512 << 10;

/// What of the source a work-item has in local memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Local {
    Nothing,
    /// Its places, each with all that its window takes.
    Places,
    /// The lines that its windows take, at each place all taps of one.
    Taps,
    /// These lines as they are in the source, with their borders.
    Lines,
}

/// The tiles of the result, and which of them a work-item has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Items {
    /// Whether tiles run on from line to line, up to the end of a stretch.
    pub(super) runs_on: bool,
    /// Stretches, the tiles of each, and those of a line of it.
    pub(super) stretches: usize,
    pub(super) tiles: usize,
    pub(super) line_tiles: usize,
    /// Places of a tile; of a line's first so many ones each has one more.
    pub(super) least: usize,
    pub(super) more: usize,
    /// Tiles of a work-item, for so many of so many panels.
    pub(super) item_tiles: usize,
    pub(super) item_panels: usize,
    pub(super) panels: usize,
    /// Bytes of local memory.
    pub(super) room: usize,
}

impl Items {
    /// The most places of a tile.
    pub(super) fn rows(&self) -> usize {
        self.least + usize::from(self.more > 0)
    }

    /// Work-items of a stretch.
    pub(super) fn of_stretch(&self) -> usize {
        self.tiles.div_ceil(self.item_tiles)
    }

    /// Work-items along the panels, the places and the groups.
    pub(super) fn global(&self, groups: usize) -> [usize; 3] {
        [self.panels.div_ceil(self.item_panels), self.stretches * self.of_stretch(), groups]
    }
}

impl Shape<'_> {
    /// The work-items for so many lines of places and panels of weights in bytes; none where local memory has no room for one.
    pub(super) fn items(
        &self,
        (local, image, run): (Local, &Image, Run),
        factors: Factors,
        [lines, line]: [usize; 2],
        (panels, weights_bytes): (usize, usize),
        device: &DeviceTraits,
    ) -> Option<Items> {
        let (rows, at_once) = (factors.unit.rows, factors.unit.tiles);
        let in_stretches = local != Local::Nothing || image.run_lines > 1;
        // Tiles of places that run on need not end with a line.
        let runs_on = in_stretches && local != Local::Lines;
        let stretches = if in_stretches { lines / image.run_lines } else { 1 };
        let stretch_lines = if in_stretches { image.run_lines } else { lines };
        let [tiled_lines, places] = if runs_on { [1, stretch_lines * line] } else { [stretch_lines, line] };
        let line_tiles = places.div_ceil(rows);
        let tiles = tiled_lines * line_tiles;

        let tile_bytes = (image.place_step * rows).max(1);
        let line_bytes = (line * image.place_step).max(1);
        let halo = 2 + (self.kernel()[1] - 1) * three(self.window.dilations, 1)[1];
        let held = |lines: usize| self.held_bytes(lines, run, factors);
        // Bytes of local memory for so many tiles.
        let bytes = |tiles: usize| match local {
            Local::Nothing => 0,
            Local::Places => tiles * tile_bytes,
            Local::Taps => ((tiles * rows) / line + halo) * line_bytes,
            // A row more than a line has may be read.
            Local::Lines => held(tiles.div_ceil(line_tiles)) + image.place_step,
        };
        let fitting = match local {
            Local::Nothing => ITEM_BYTES / tile_bytes,
            Local::Places => NEAR_BYTES / tile_bytes,
            Local::Taps => {
                let near = if weights_bytes > MANY_WEIGHTS { MOST_ROOM } else { ROOMS[2] };
                (near / line_bytes).saturating_sub(halo) * line / rows
            }
            Local::Lines => {
                (1..=tiled_lines).take_while(|&lines| held(lines) <= ROOMS[2]).last().unwrap_or(1)
                    * line_tiles
            }
        };
        // As many tiles as are multiplied at once always fit, and whole lines where an item has them.
        let step = if local == Local::Lines { line_tiles } else { at_once };
        let (item_tiles, item_panels) = if factors.unit.panels.repeats_rows {
            // One panel each, as was measured of these.
            let wanted = (device.compute_units * ITEMS * 2).div_ceil(panels * self.groups);
            (tiles.div_ceil(wanted).min(fitting.max(1)), 1)
        } else {
            // Each item goes through all weights of its panels, far ones had better be gone through once.
            let by_panels = matches!(local, Local::Nothing | Local::Lines)
                && weights_bytes > MANY_WEIGHTS
                && panels >= device.compute_units * PANELS_OF_CORES;
            let own = if by_panels {
                tiles
            } else {
                tiles.div_ceil((device.compute_units * ITEMS).div_ceil(stretches))
            };
            let item_tiles = own.next_multiple_of(step).min(fitting / step * step).max(step);
            // Cores that store panels side by side would wait for each other's cache lines.
            let items = tiles.div_ceil(item_tiles) * stretches * self.groups;
            (item_tiles, panels.div_ceil((device.compute_units * 2).div_ceil(items).min(panels)))
        };
        let room = ROOMS.into_iter().find(|&room| bytes(item_tiles) <= room)?;
        Some(Items {
            runs_on,
            stretches,
            tiles,
            line_tiles,
            least: places / line_tiles,
            more: places % line_tiles,
            item_tiles,
            item_panels,
            panels,
            room,
        })
    }
}
