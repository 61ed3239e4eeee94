//! How tiles and the sums of a product are divided among work-groups, by a rough estimate of the time.

use std::ops::Range;

use super::Product;
use crate::capability::units::Tile;
use crate::plan::DeviceTraits;
use crate::primitive::space::Operand;

/// Clocks of a work-group besides its sums, and of the launch that adds up parts.
const GROUP_CLOCKS: usize = 3_000;
pub(in crate::primitive) const LAUNCH_CLOCKS: usize = 8_000;
/// Clocks of four results whose rows are no whole vectors: work-items store such results one by one, each into a sector of its own. And where
/// neighbours store neighbours.
const LONE_CLOCKS: usize = 4;
const NEIGHBOUR_CLOCKS: usize = 1;
const SHORTEST_VECTOR: usize = 4;
/// Multiply-adds that a unit starts in a clock where the clocks of tiles were measured.
const MEASURED_MULTIPLY_ADDS: usize = 128;
/// Bytes that a device with as many units as the measured one moves in a clock, by unit.
pub(in crate::primitive) const UNIT_BYTES: usize = 16;
const MOST_PARTS: usize = 32;
/// Slices that each part has at least.
const PART_STEPS: usize = 4;
/// Results of the smallest tiles that are divided where they are the last ones: smaller ones were the fastest of none of ten products.
const DIVIDED_RESULTS: usize = 128 * 128;
/// Clocks to join shares, as times as many as their bytes take.
const JOIN_BYTES: usize = 3;
/// What shares of the last tiles must gain for the working memory that they need, as the number that the time is divided by.
const LEAST_GAIN: usize = 32;
/// Elements of all parts at most, so that their offsets and the memory for them stay small.
const PARTIAL_ELEMENTS: usize = 1 << 26;

/// How the sums of a product are divided among work-groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shares {
    /// Into so many parts each.
    All(usize),
    /// Those of the last tiles, which would not fill the device: how many parts each has, and how many tiles there are before them.
    Last { parts: usize, whole: usize },
}

impl Product<'_> {
    /// Tiles with their numbers of parts, the fastest first.
    pub(super) fn ranked(&self, tiles: &[Tile], device: &DeviceTraits) -> Vec<(Tile, usize)> {
        let clocks =
            |tile: &Tile, &parts: &usize| self.estimate(tile, parts, self.neighbour_clocks(), device);
        rank(tiles, |tile| self.parts(tile).collect(), clocks)
    }

    /// Tiles with how their sums are divided, the fastest first, where the last ones may be divided alone.
    pub(super) fn ranked_shares(&self, tiles: &[Tile], device: &DeviceTraits) -> Vec<(Tile, Shares)> {
        let clocks = |tile: &Tile, shares: &Shares| match *shares {
            Shares::All(parts) => self.estimate(tile, parts, self.lone_clocks(), device),
            Shares::Last { parts, whole } => self.estimate_last(tile, parts, whole, device),
        };
        // Others were not measured.
        let shares = |tile: &Tile| {
            let parts = self.parts(tile).filter(|parts| parts.is_power_of_two());
            parts.map(Shares::All).chain(self.last_shares(tile, device)).collect()
        };
        rank(tiles, shares, clocks)
    }

    /// The numbers of parts that all sums may have.
    fn parts(&self, tile: &Tile) -> impl Iterator<Item = usize> {
        let steps = self.steps(tile);
        let is_deep = tile.is_deep();
        // Parts lie in f32, which integers do not fit into. Deep rings lose more by a second launch: 256 rows by 4096 x 4096 in f16 took 31
        // us in two parts by 128 x 128, and 25 by smaller tiles.
        let fits = move |parts: usize| {
            !is_deep
                && !self.is_exact()
                && steps / parts >= PART_STEPS
                && parts * self.results() <= PARTIAL_ELEMENTS
                // No part is empty.
                && steps.div_ceil(steps.div_ceil(parts)) == parts
        };
        (1..=MOST_PARTS).filter(move |&parts| parts == 1 || fits(parts))
    }

    /// The divisions of the tiles that are left when the units have been filled as often as there are tiles for. Where they are not filled
    /// once, all tiles begin together and have terms in common, which parts do not.
    fn last_shares(&self, tile: &Tile, device: &DeviceTraits) -> impl Iterator<Item = Shares> {
        let places = device.compute_units.max(1) * tile.resident;
        let (steps, tiles) = (self.steps(tile), self.groups(tile));
        let (last, whole) = (tiles % places, tiles - tiles % places);
        let results = tile.m * tile.n;
        let elements = last.saturating_mul(results);
        let fits = move |parts: usize| {
            last > 0
                && whole > 0
                && results >= DIVIDED_RESULTS
                && last * parts <= places
                && steps / parts >= PART_STEPS
                // No part is empty.
                && steps.div_ceil(steps.div_ceil(parts)) == parts
                && elements.saturating_mul(parts) <= PARTIAL_ELEMENTS
        };
        (2..=MOST_PARTS).filter(move |&parts| fits(parts)).map(move |parts| Shares::Last { parts, whole })
    }

    /// The clocks of work-groups that all have so many parts, whose results take so many clocks for four of them to store.
    fn estimate(&self, tile: &Tile, parts: usize, stores: usize, device: &DeviceTraits) -> usize {
        let units = device.compute_units.max(1);
        let groups = self.groups(tile).saturating_mul(parts).div_ceil(units);
        let steps = self.steps(tile).div_ceil(parts);
        let stores = tile.m * tile.n * stores / 4;
        let round =
            |groups: usize| slice_clocks(tile, groups, device) * steps + GROUP_CLOCKS + groups * stores;
        let rest = groups % tile.resident;
        let sums = groups / tile.resident * round(tile.resident) + if rest > 0 { round(rest) } else { 0 };
        let bytes = (parts + 1) * self.results() * 4;
        sums + if parts > 1 { LAUNCH_CLOCKS + 2 * bytes / (UNIT_BYTES * units) } else { 0 }
    }

    /// The clocks of so many whole tiles, which fill the units, and of parts of the last ones.
    fn estimate_last(&self, tile: &Tile, parts: usize, whole: usize, device: &DeviceTraits) -> usize {
        let units = device.compute_units.max(1);
        let last = self.groups(tile) - whole;
        let stores = tile.m * tile.n * self.lone_clocks() / 4;
        let round = |groups: usize, steps: usize| {
            slice_clocks(tile, groups, device) * steps + GROUP_CLOCKS + groups * stores
        };
        let steps = self.steps(tile);
        let sums = whole / (units * tile.resident) * round(tile.resident, steps)
            + round((last * parts).div_ceil(units), steps.div_ceil(parts));
        let bytes = (parts + 1) * last * tile.m * tile.n * 4;
        let clocks = sums + LAUNCH_CLOCKS + JOIN_BYTES * bytes / (UNIT_BYTES * units);
        clocks + clocks / LEAST_GAIN
    }

    /// The clocks of four results beyond those of a group.
    fn lone_clocks(&self) -> usize {
        if self.has_lone_results() { LONE_CLOCKS } else { 0 }
    }

    /// The same where work-items that are neighbours store neighbours of a row.
    fn neighbour_clocks(&self) -> usize {
        let are_neighbours = self.space.coefficient("DST", self.loops.n.start) == Some(1);
        if are_neighbours { self.lone_clocks().min(NEIGHBOUR_CLOCKS) } else { self.lone_clocks() }
    }

    /// Whether the rows of the result are no whole vectors.
    pub(super) fn has_lone_results(&self) -> bool {
        let lies_in_vectors = |dst: &Operand| dst.address.is_aligned(self.loops.n.start, SHORTEST_VECTOR);
        !self.space.find("DST").is_none_or(lies_in_vectors)
    }

    /// The slices of a whole sum.
    fn steps(&self, tile: &Tile) -> usize {
        self.terms().div_ceil(tile.k)
    }

    /// The work-groups of one part.
    pub(super) fn groups(&self, tile: &Tile) -> usize {
        self.tiles(tile).saturating_mul(self.space.count(self.loops.batch.clone()))
    }

    /// The tiles of one product of a batch.
    pub(super) fn tiles(&self, tile: &Tile) -> usize {
        let count = |loops: &Range<usize>, size| self.space.count(loops.clone()).div_ceil(size);
        count(&self.loops.m, tile.m) * count(&self.loops.n, tile.n)
    }
}

/// Tiles with the best of their divisions, the fastest first.
fn rank<S: Copy + Ord>(
    tiles: &[Tile],
    divisions: impl Fn(&Tile) -> Vec<S>,
    clocks: impl Fn(&Tile, &S) -> usize,
) -> Vec<(Tile, S)> {
    let best = |&tile: &Tile| {
        let all = divisions(&tile).into_iter().map(|division| (clocks(&tile, &division), division));
        all.min().map(|(clocks, division)| (clocks, tile, division))
    };
    let mut ranked: Vec<(usize, Tile, S)> = tiles.iter().filter_map(best).collect();
    ranked.sort_by_key(|&(clocks, ..)| clocks);
    ranked.into_iter().map(|(_, tile, division)| (tile, division)).collect()
}

/// The clocks of a slice while a unit has so many work-groups.
fn slice_clocks(tile: &Tile, groups: usize, device: &DeviceTraits) -> usize {
    let slower = MEASURED_MULTIPLY_ADDS / device.vendor.multiply_adds().clamp(1, MEASURED_MULTIPLY_ADDS);
    (groups * tile.clocks).max(tile.latency) * slower
}
