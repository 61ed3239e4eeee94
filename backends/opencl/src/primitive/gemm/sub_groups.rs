//! Large products by the registers of sub-groups, and by units that multiply what those hold (`matmul/sub_groups.cl`).

use super::{Product, Serves};
use crate::capability::instruction::{Instruction, Multiplicand};
use crate::capability::sub_groups::SubGroups;
use crate::capability::units::{Feature, SubGroupTiles, Tile};
use crate::plan::DeviceTraits;
use crate::primitive::choice::Planned;

const SUB_GROUPS: &str = anydnn_kernels::text("matmul/sub_groups.cl");

/// A unit that multiplies a product on a device.
#[derive(Debug)]
pub(super) struct Unit {
    instruction: &'static Instruction,
    tiles: &'static SubGroupTiles,
    sub_groups: SubGroups,
    width: usize,
}

impl Unit {
    /// The units of a device that take a product's factors.
    pub(super) fn all(product: &Product<'_>, device: &DeviceTraits) -> Vec<Self> {
        let Some(sub_groups) = device.sub_groups() else { return Vec::new() };
        let of = |(feature, tiles)| Self::of(product, device, feature, tiles, &sub_groups);
        Feature::of_sub_groups().filter_map(of).collect()
    }

    fn of(
        product: &Product<'_>,
        device: &DeviceTraits,
        feature: Feature,
        tiles: &'static SubGroupTiles,
        sub_groups: &SubGroups,
    ) -> Option<Self> {
        let [src, weights] = ["SRC0", "WEIGHTS"].map(|name| product.space.find(name).map(|o| o.data_type));
        let fpmath = product.desc.attributes().fpmath;
        let instruction = feature.instruction(src?, fpmath)?;
        let is_plain = product.desc.attributes().dequantize.is_empty();
        let fits = instruction.factor == Multiplicand::F32 || (is_plain && src == weights);
        let (any, own) = (instruction.k == 1, sub_groups.width);
        let width = if any { own } else { instruction.n };
        let possible = width == own || sub_groups.settable.contains(&width);
        (fits && possible && device.has(feature)).then(|| Self {
            instruction,
            tiles,
            sub_groups: sub_groups.clone(),
            width,
        })
    }

    /// The tiles, of slices as long as sub-groups are wide.
    pub(super) fn tiles(&self, device: &DeviceTraits) -> impl Iterator<Item = Tile> {
        let fits = |tile: &&Tile| {
            tile.m.is_multiple_of(self.instruction.m)
                && tile.n.is_multiple_of(self.width)
                && self.group(tile) <= device.max_work_group
        };
        let slice = |tile: &Tile| {
            let (clocks, latency) = (tile.clocks * self.width / tile.k, tile.latency * self.width / tile.k);
            Tile { k: self.width, clocks, latency, ..*tile }
        };
        self.tiles.tiles.iter().filter(fits).map(slice)
    }

    pub(super) fn has(&self, variant: &str) -> bool {
        self.tiles.tiles.iter().any(|tile| tile.variant == variant)
    }

    /// The columns of a work-item: fewer where a tile has no more for such wide sub-groups.
    fn columns(&self, tile: &Tile) -> usize {
        self.tiles.columns.min(tile.n / self.width)
    }

    /// The work-items of a tile.
    fn group(&self, tile: &Tile) -> usize {
        tile.m * tile.n / (self.instruction.m * self.columns(tile))
    }

    /// The launches.
    pub(super) fn plan(
        &self,
        product: &Product<'_>,
        tile: &Tile,
        parts: usize,
        device: &DeviceTraits,
    ) -> Planned {
        let group = self.group(tile);
        product.plan(
            (tile, parts),
            (1, Serves::OneShape),
            &[],
            device,
            |source| {
                source
                    .run_in(self.sub_groups.clone(), self.width)
                    .define("GROUP", group)
                    .define("ROWS", self.instruction.m)
                    .define("COLUMNS", self.columns(tile));
            },
            |source, files, [tiles, batch, parts]| {
                let files = [files, &[self.tiles.text, SUB_GROUPS]].concat();
                source.launch("matmul_sub_groups", &files, [tiles * group, batch, parts], Some([group, 1, 1]))
            },
        )
    }
}
