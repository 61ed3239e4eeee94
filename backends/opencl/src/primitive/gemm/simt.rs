//! Large products in f32 by ordinary arithmetic (`matmul/simt.cl`).

use anydnn_backend::{Arg, DataType};

use super::{Fetch, Product};
use crate::capability::units::{ORDINARY, Tile};
use crate::plan::DeviceTraits;
use crate::primitive::choice::Planned;
use crate::primitive::quantized::is_dequantized;

const SIMT: &str = anydnn_kernels::text("matmul/simt.cl");

const GROUP: usize = 256;
const LANES: usize = 4;
/// Results of the smallest tiles.
const SMALL: usize = 64 * 64;

/// The tiles; none where others than floats are added, or the device has too small work-groups.
pub(super) fn tiles(product: &Product<'_>, device: &DeviceTraits) -> Vec<Tile> {
    let fits = product.sums_floats() && device.max_work_group >= GROUP && product.has_vectors(LANES);
    let [m, n] = [&product.loops.m, &product.loops.n].map(|loops| product.space.count(loops.clone()));
    // Flat tiles are for so few rows or columns alone: others share the programs of the first ones.
    let serves = |tile: &Tile| (tile.m >= tile.n / 2 || m <= tile.m) && (tile.n >= tile.m / 2 || n <= tile.n);
    ORDINARY.into_iter().filter(|tile| fits && serves(tile)).collect()
}

/// The launches; none when the device has too little local memory.
pub(super) fn plan(
    product: &Product<'_>,
    tile: &Tile,
    parts: usize,
    device: &DeviceTraits,
) -> Option<Planned> {
    // Of 16 x 16 work-items, or of 8 x 32 and 32 x 8 with four rows and columns each.
    let item = if tile.m == tile.n || tile.m * tile.n > SMALL { [tile.m / 16, tile.n / 16] } else { [4, 4] };
    if 2 * (tile.m + tile.n) * tile.k * 4 > device.local_memory_bytes {
        return None;
    }
    let fetch = |name: &str, rows| {
        let is_f32 = product.space.find(name).is_some_and(|o| o.data_type == DataType::F32);
        let arg = if name == "SRC0" { Arg::SRC } else { Arg::Weights };
        // Vectors are taken as they lie, without scales and zero points.
        match product.fetch(name, rows, LANES, false) {
            fetch if is_f32 && !is_dequantized(product.desc, arg) => fetch,
            _ => Fetch::Element,
        }
    };
    let planned = product.plan(
        (tile, parts),
        (LANES, true),
        &[],
        device,
        |source| {
            for (letter, name, rows) in [("A", "SRC0", &product.loops.m), ("B", "WEIGHTS", &product.loops.n)]
            {
                let fetch = fetch(name, rows);
                let along_k = match fetch {
                    Fetch::Terms => true,
                    Fetch::Rows => false,
                    Fetch::Element => !product.is_closer(name, rows),
                };
                source
                    .define(format!("{letter}_ALONG_K"), i32::from(along_k))
                    .define(format!("{letter}_WHOLE"), i32::from(fetch != Fetch::Element));
            }
            source.define("ITEM_M", item[0]).define("ITEM_N", item[1]).define("LANES_N", 4);
        },
        |source, files, [tiles, batch, parts]| {
            let files = [files, &[SIMT]].concat();
            let global = [tiles * GROUP, batch, parts];
            let mut launch = source.launch("matmul_simt", &files, global, Some([GROUP, 1, 1]));
            launch.alignment = 16;
            launch
        },
    );
    Some(planned)
}
