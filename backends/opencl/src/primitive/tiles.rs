//! Matrix products through tiles in local memory (`matmul/tiled.cl`), for matmul and convolution.

use std::ops::Range;

use anydnn_backend::PrimitiveDesc;

use super::epilogue;
use super::quantized;
use super::rows::is_cpu;
use super::source::Source;
use super::space::Space;
use super::sums::{accumulator, define_bias, define_gate};
use super::value::Value;
use crate::plan::{DeviceTraits, Launch};

const TILED: &str = anydnn_kernels::text("matmul/tiled.cl");

/// Which loops of a space are the dimensions of the product.
#[derive(Clone, Debug)]
pub(super) struct Tiles {
    pub(super) batch: Range<usize>,
    pub(super) m: Range<usize>,
    pub(super) n: Range<usize>,
    pub(super) k: Range<usize>,
    /// Whether a source element exists, as an expression in the loops of `m` and `k`.
    pub(super) inside: &'static str,
}

/// The tile of a work-group and of a work-item.
struct Size {
    m: usize,
    n: usize,
    k: usize,
    item: usize,
}

/// The launch of a tiled product with extra macros; none when the device has too little local memory or too small work-groups.
pub(super) fn launch(
    desc: &PrimitiveDesc,
    space: &Space,
    tiles: &Tiles,
    value: Value,
    wide: bool,
    device: &DeviceTraits,
    extra: impl FnOnce(&mut Source),
) -> Option<Launch> {
    let (m, n) = (space.count(tiles.m.clone()), space.count(tiles.n.clone()));
    let terms = space.count(tiles.k.clone());
    let acc = accumulator(desc, terms, value);
    let gate = space.find("SRC1").is_some();
    let bytes = if matches!(acc, "double" | "long") { 8 } else { 4 };
    // Large tiles need enough of them to fill the device.
    let large = Size { m: 128, n: 128, k: 8, item: 8 };
    let small = Size { m: 64, n: 64, k: 16, item: 4 };
    let groups = |size: &Size| m.div_ceil(size.m) * n.div_ceil(size.n) * space.count(tiles.batch.clone());
    let size = if bytes == 4 && !gate && groups(&large) >= device.compute_units { large } else { small };
    let group = size.m / size.item * (size.n / size.item);
    let local = (size.m + (size.n + 1) * (1 + usize::from(gate)) + 1) * size.k * bytes;
    if group > device.max_work_group || local > device.local_memory_bytes {
        return None;
    }
    let mut common = space.clone();
    common.complete = (!is_cpu(device) && space.is_linear()).then_some(usize::MAX);
    let space = &common;
    let mut source = Source::new(space, value, (1, None), wide, true);
    let closest = |operand: &str, loops: &Range<usize>| {
        loops
            .clone()
            .filter_map(|v| space.coefficient(operand, v).filter(|&c| c > 0))
            .min()
            .unwrap_or(usize::MAX)
    };
    let fast_m = closest("SRC0", &tiles.m) < closest("SRC0", &tiles.k);
    let fast_n = closest("WEIGHTS", &tiles.n) < closest("WEIGHTS", &tiles.k);
    source
        .general()
        .declare_before("DECLARE_BATCH", space, tiles.batch.clone())
        .declare("DECLARE_M", space, tiles.m.clone())
        .declare("DECLARE_N", space, tiles.n.clone())
        .declare("DECLARE_K", space, tiles.k.clone())
        .define("SRC_INSIDE", tiles.inside)
        .define("ACC", acc)
        .define("TILE_M", size.m)
        .define("TILE_N", size.n)
        .define("TILE_K", size.k)
        .define("ITEM_M", size.item)
        .define("ITEM_N", size.item)
        .number_of("TILES_N", n.div_ceil(size.n))
        .number_of("M_SIZE", m)
        .number_of("N_SIZE", n)
        .number_of("K_SIZE", terms)
        .define("FAST_M", i32::from(fast_m))
        .define("FAST_N", i32::from(fast_n));
    epilogue::define_all(&mut source, desc, value, device);
    for name in ["SRC0", "WEIGHTS", "SRC1"] {
        quantized::define(&mut source, space, name, &[]);
    }
    define_bias(&mut source, desc);
    define_gate(&mut source, desc, value);
    extra(&mut source);
    let tiles_of_all = m.div_ceil(size.m) * n.div_ceil(size.n);
    let global = [tiles_of_all * group, space.count(tiles.batch.clone()), 1];
    let files: &[&str] = if tiles.inside == "true" { &[TILED] } else { &[super::window::WINDOW, TILED] };
    Some(source.launch("matmul_tiled", files, global, Some([group, 1, 1])))
}
