//! Large products in f32 by ordinary arithmetic (`matmul/simt.cl`).

use anydnn_backend::{Arg, DataType, Op};

use super::{Fetch, Product, Serves};
use crate::capability::units::{ORDINARY, Tile};
use crate::plan::DeviceTraits;
use crate::primitive::choice::Planned;
use crate::primitive::quantized::is_dequantized;

const SIMT: &str = anydnn_kernels::text("matmul/simt.cl");

/// The most work-items of a tile.
const GROUP: usize = 256;
const LANES: usize = 4;
/// Results of the smallest tiles, and of those whose work-items have blocks of eight by eight.
const SMALL: usize = 64 * 64;
const MIDDLE: usize = 64 * 128;

/// The tiles; none where others than floats are added, or the device has too small work-groups.
pub(super) fn tiles(product: &Product<'_>, device: &DeviceTraits) -> Vec<Tile> {
    let fits = product.sums_floats() && device.max_work_group >= GROUP && product.has_vectors(LANES);
    let [m, n] = [&product.loops.m, &product.loops.n].map(|loops| product.space.count(loops.clone()));
    // Flat tiles are for so few rows or columns alone: others share the programs of the first ones.
    let serves = |tile: &Tile| (tile.m >= tile.n / 2 || m <= tile.m) && (tile.n >= tile.m / 2 || n <= tile.n);
    // Half as many work-items load twice as much, which takes too long one by one. Convolutions of all shapes share 128x64.
    let is_whole = matches!(product.desc.op(), Op::MatMul(_)) && is_whole(product);
    let has_many = |tile: &Tile| tile.m * tile.n != MIDDLE && !is_long(tile);
    let loads = |tile: &Tile| is_whole || has_many(tile) || tile.m == 2 * tile.n;
    ORDINARY.into_iter().filter(|tile| fits && serves(tile) && loads(tile)).collect()
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

/// The launches; none when the device has too little local memory.
pub(super) fn plan(
    product: &Product<'_>,
    tile: &Tile,
    parts: usize,
    device: &DeviceTraits,
) -> Option<Planned> {
    let item = match tile.m * tile.n {
        ..=SMALL => [4, 4],
        MIDDLE if is_whole(product) => [8, 8],
        _ if is_long(tile) => [16, 8],
        _ => [tile.m / 16, tile.n / 16],
    };
    let group = tile.m * tile.n / (item[0] * item[1]);
    if 2 * (tile.m + tile.n) * tile.k * 4 > device.local_memory_bytes {
        return None;
    }
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
            }
            // A warp has no more rows than the tile.
            let lanes_n = 4.max(32 * item[0] / tile.m);
            source
                .define("GROUP", group)
                .define("ITEM_M", item[0])
                .define("ITEM_N", item[1])
                .define("LANES_N", lanes_n);
        },
        |source, files, [tiles, batch, parts]| {
            let files = [files, &[SIMT]].concat();
            let global = [tiles * group, batch, parts];
            let mut launch = source.launch("matmul_simt", &files, global, Some([group, 1, 1]));
            launch.alignment = 16;
            launch
        },
    );
    Some(planned)
}
