//! Large products in f32 by ordinary arithmetic (`matmul/simt.cl`).

use std::ops::Range;

use anydnn_backend::{Arg, DataType, Op};

use super::{Fetch, Product, Serves};
use crate::capability::units::{Feature, ORDINARY, Tile};
use crate::plan::DeviceTraits;
use crate::primitive::choice::Planned;
use crate::primitive::quantized::is_dequantized;

const SIMT: &str = anydnn_kernels::text("matmul/simt.cl");
const COPIES: &str = anydnn_kernels::text("matmul/simt_copies.cl");

/// The most work-items of a tile.
const GROUP: usize = 256;
const LANES: usize = 4;
/// Results of the smallest tiles, and of those whose work-items have blocks of eight by eight.
const SMALL: usize = 64 * 64;
const MIDDLE: usize = 64 * 128;
const MIDDLE_SIDE: usize = 128;
const LARGE: usize = 256 * 128;
/// The most slices of a ring that copies fill, and what each term takes beside its elements, for either operand.
const MOST_STAGES: usize = 4;
const PITCH: usize = 4;

/// The tiles; none where others than floats are added, or the device has too small work-groups.
pub(super) fn tiles(product: &Product<'_>, device: &DeviceTraits) -> Vec<Tile> {
    let fits = product.sums_floats() && device.max_work_group >= GROUP && product.has_vectors(LANES);
    let [m, n] = [&product.loops.m, &product.loops.n].map(|loops| product.space.count(loops.clone()));
    // Flat tiles are for so few rows or columns alone: others share the programs of the first ones.
    let serves = |tile: &Tile| (tile.m >= tile.n / 2 || m <= tile.m) && (tile.n >= tile.m / 2 || n <= tile.n);
    // Half as many work-items load twice as much, which takes too long one by one. Convolutions of all shapes share 128x64.
    let is_whole =
        matches!(product.desc.op(), Op::MatMul(_)) && (is_whole(product) || can_copy(product, device));
    let has_many = |tile: &Tile| tile.m * tile.n != MIDDLE && !is_long(tile);
    let loads = |tile: &Tile| is_whole || has_many(tile) || tile.m == 2 * tile.n;
    let tiles = ORDINARY.into_iter().filter(|tile| fits && serves(tile) && loads(tile));
    tiles.map(|tile| if copies(product, &tile, device) { by_copies(product, tile) } else { tile }).collect()
}

/// A tile with what it takes by copies: measured on an H200.
fn by_copies(product: &Product<'_>, tile: Tile) -> Tile {
    let (clocks, latency) = match (tile.m * tile.n, is_whole(product)) {
        (MIDDLE, true) => (1_400, 1_600),
        (MIDDLE, false) => (1_550, 1_700),
        (LARGE.., _) => (3_000, 3_000),
        _ => return tile,
    };
    Tile { clocks, latency, ..tile }
}

/// Whether a tile's work-items have blocks of 16 by 8, for which the fewest numbers come from local memory.
fn is_long(tile: &Tile) -> bool {
    tile.m * tile.n > MIDDLE && tile.n == 4 * tile.m
}

/// How an operand comes in vectors of f32, if it does: they are taken as they lie, without scales and zero points.
fn fetch(product: &Product<'_>, name: &str) -> Fetch {
    let (rows, arg) = match name {
        "SRC0" => (&product.loops.m, Arg::SRC),
        _ => (&product.loops.n, Arg::Weights),
    };
    let is_f32 = product.space.find(name).is_some_and(|o| o.data_type == DataType::F32);
    match product.fetch(name, rows, LANES, false) {
        fetch if is_f32 && !is_dequantized(product.desc, arg) => fetch,
        _ => Fetch::Element,
    }
}

/// Whether both operands come in vectors.
fn is_whole(product: &Product<'_>) -> bool {
    ["SRC0", "WEIGHTS"].iter().all(|name| fetch(product, name) != Fetch::Element)
}

/// Whether slices of all tiles come by copies, as the rows of the weights are no whole vectors.
pub(super) fn copies_weights(product: &Product<'_>, device: &DeviceTraits) -> bool {
    fetch(product, "WEIGHTS") == Fetch::Element && can_copy(product, device)
}

/// Whether slices may come by copies past the registers: both operands are f32 as they lie, as far apart from row to row and from term to
/// term.
fn can_copy(product: &Product<'_>, device: &DeviceTraits) -> bool {
    let lies = |name: &str, rows: &Range<usize>, arg| {
        let is_f32 = product.space.find(name).is_some_and(|o| o.data_type == DataType::F32);
        is_f32 && !is_dequantized(product.desc, arg) && steps(product, name, rows).is_some()
    };
    product.window.is_none()
        && product.loops.inside == "true"
        && lies("SRC0", &product.loops.m, Arg::SRC)
        && lies("WEIGHTS", &product.loops.n, Arg::Weights)
        // What has these matrix units has such copies.
        && device.has(Feature::NvidiaMma)
}

/// Whether they do: where rows are no whole vectors, and for tiles of which several share a unit. On an H200 2048 x 2048 by 2048 x 2048 takes
/// 363 us so by 64 x 128, and 530 through registers; by 256 x 128 it takes 392 and 357.
fn copies(product: &Product<'_>, tile: &Tile, device: &DeviceTraits) -> bool {
    let is_middle = tile.m * tile.n == MIDDLE && tile.m.max(tile.n) <= MIDDLE_SIDE;
    (is_middle || !is_whole(product)) && can_copy(product, device)
}

/// How many elements it is from a row to the next, and from a term to the next, where each is a loop.
fn steps(product: &Product<'_>, name: &str, rows: &Range<usize>) -> Option<[usize; 2]> {
    let only = |loops: &Range<usize>| (loops.len() == 1).then_some(loops.start);
    let step = |loops: &Range<usize>| product.space.coefficient(name, only(loops)?);
    Some([step(rows)?, step(&product.loops.k)?])
}

/// Whether results of f32 are neighbours whose rows are no whole vectors: those of a product, or parts of their sums.
fn has_lone_results(product: &Product<'_>, parts: usize) -> bool {
    let column = product.loops.n.start;
    if parts > 1 {
        return !product.space.loops[column].extent.is_multiple_of(LANES);
    }
    product.desc.dst().data_type() == DataType::F32
        && product.space.coefficient("DST", column) == Some(1)
        && product.has_lone_results()
}

/// The launches; none when the device has too little local memory.
pub(super) fn plan(
    product: &Product<'_>,
    tile: &Tile,
    parts: usize,
    device: &DeviceTraits,
) -> Option<Planned> {
    let copies = copies(product, tile, device);
    let item = match tile.m * tile.n {
        ..=SMALL => [4, 4],
        MIDDLE if copies || is_whole(product) => [8, 8],
        _ if is_long(tile) => [16, 8],
        _ => [tile.m / 16, tile.n / 16],
    };
    let group = tile.m * tile.n / (item[0] * item[1]);
    let slice = (tile.m + tile.n + if copies { 2 * PITCH } else { 0 }) * tile.k * size_of::<f32>();
    let stages = device.local_memory_bytes / slice;
    if stages < 2 {
        return None;
    }
    let is_lone = has_lone_results(product, parts);
    let planned = product.plan(
        (tile, parts),
        (LANES, Serves::ShapesAndFunctions),
        &[],
        device,
        |source| {
            for (letter, name, rows) in [("A", "SRC0", &product.loops.m), ("B", "WEIGHTS", &product.loops.n)]
            {
                let fetch = fetch(product, name);
                let along_k = match fetch {
                    Fetch::Terms => true,
                    Fetch::Rows => false,
                    Fetch::Element => !product.is_closer(name, rows),
                };
                source
                    .define(format_args!("{letter}_ALONG_K"), i32::from(along_k))
                    .define(format_args!("{letter}_WHOLE"), i32::from(fetch != Fetch::Element));
                if let Some([row, term]) = steps(product, name, rows).filter(|_| copies) {
                    source
                        .number_of(format_args!("{letter}_ROW"), row)
                        .number_of(format_args!("{letter}_TERM"), term);
                }
            }
            // A warp has no more rows than the tile.
            let lanes_n = 4.max(32 * item[0] / tile.m);
            source
                .define("GROUP", group)
                .define("ITEM_M", item[0])
                .define("ITEM_N", item[1])
                .define("LANES_N", lanes_n)
                .define("COPIES", i32::from(copies))
                .define("STAGES", stages.min(MOST_STAGES))
                .define("SHARED_COPIES", i32::from(item[0] * item[1] >= 64))
                .define("LONE_RESULTS", i32::from(is_lone));
        },
        |source, files, [tiles, batch, parts]| {
            let files = [files, &[COPIES, SIMT]].concat();
            let global = [tiles * group, batch, parts];
            let mut launch = source.launch("matmul_simt", &files, global, Some([group, 1, 1]));
            launch.alignment = 16;
            launch
        },
    );
    Some(planned)
}
