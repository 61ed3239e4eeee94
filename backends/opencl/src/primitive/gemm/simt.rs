//! Large products in f32 by ordinary arithmetic (`matmul/simt.cl`).

use anydnn_backend::DataType;

use super::{Fetch, Product, Tile};
use crate::plan::DeviceTraits;
use crate::primitive::choice::{Choices, Planned};
use crate::primitive::sums::accumulator;

const SIMT: &str = anydnn_kernels::text("matmul/simt.cl");

const GROUP: usize = 256;
const LANES: usize = 4;
/// Clocks as on a unit of 128 multiply-adds a clock.
const TILES: [Tile; 3] = [
    Tile { variant: "simt-256x128", m: 256, n: 128, k: 8, resident: 1, clocks: 2_600, latency: 2_600 },
    Tile { variant: "simt-128x64", m: 128, n: 64, k: 16, resident: 2, clocks: 1_500, latency: 1_900 },
    Tile { variant: "simt-64x64", m: 64, n: 64, k: 16, resident: 4, clocks: 900, latency: 1_500 },
];

/// Offers the tiles, best first.
pub(super) fn offer(product: &Product<'_>, choices: &mut Choices<'_>, device: &DeviceTraits) {
    let is_sum_of_floats = accumulator(product.desc, product.terms(), product.value) == "float";
    if !is_sum_of_floats || device.max_work_group < GROUP || !product.has_vectors(LANES) {
        return;
    }
    for (i, (tile, parts)) in product.ranked(&TILES, device).into_iter().enumerate() {
        let reason =
            if i == 0 { "a tile in registers that fits the size" } else { "another tile in registers" };
        choices.offer(tile.variant, reason, || plan(product, &tile, parts, device));
    }
}

/// The launches; none when the device has too little local memory.
pub(super) fn plan(
    product: &Product<'_>,
    tile: &Tile,
    parts: usize,
    device: &DeviceTraits,
) -> Option<Planned> {
    let item = [tile.m / 16, tile.n / 16];
    if 2 * (tile.m + tile.n) * tile.k * 4 > device.local_memory_bytes {
        return None;
    }
    let fetch = |name: &str, rows| {
        let is_f32 = product.space.find(name).is_some_and(|o| o.data_type == DataType::F32);
        match product.fetch(name, rows, LANES, false) {
            fetch if is_f32 => fetch,
            _ => Fetch::Element,
        }
    };
    let planned = product.plan(
        (tile, parts),
        LANES,
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
