//! Operations whose results lie along another loop than what they are made of: tiles that are read the one way and stored the other.

use anydnn_backend::PrimitiveDesc;

use super::listed::List;
use super::{LOOPS, Statements};
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::epilogue;
use crate::primitive::numbers::any_quotient;
use crate::primitive::rows::{CPU_LANES, is_cpu};
use crate::primitive::source::{Source, is_contiguous};
use crate::primitive::space::Space;
use crate::primitive::value::Value;

const TRANSPOSED: &str = anydnn_kernels::text("pointwise/transposed.cl");
const LANES: &str = anydnn_kernels::text("pointwise/transposed_lanes.cl");

/// The side of a tile of `transposed.cl`, its work-items, and what is too short for it.
const TILE: usize = 64;
const TILE_GROUP: usize = 256;
const TILE_LEAST: usize = 16;

/// The short sides that vectors of a processor are turned to, and the fewest elements that make up for a program more.
const SHORT_SIDES: [usize; 4] = [2, 3, 4, 8];
const FEWEST: usize = 16 << 10;
/// Work-items for each core of a processor.
const ITEMS: usize = 16;

/// The launch by tiles. None where what is read lies along the same loop as the results, or tiles would stay almost empty.
pub(super) fn launch(
    space: &Space,
    value: Value,
    fused: Option<&PrimitiveDesc>,
    statements: Statements<'_>,
    wide: bool,
    device: &DeviceTraits,
) -> Option<Launch> {
    if is_cpu(device) {
        let is_copy = statements.list.is_some_and(List::is_empty);
        let copies = is_copy
            && value == Value::F32
            && space.operands.len() == 2
            && space.operands.iter().all(|operand| operand.data_type.bits() >= 8);
        return if copies { in_vectors(space, statements.compute, wide, device) } else { None };
    }
    in_local_memory(space, value, fused, statements, wide, device)
}

/// Through tiles in local memory.
fn in_local_memory(
    space: &Space,
    value: Value,
    fused: Option<&PrimitiveDesc>,
    Statements { read, compute, store, .. }: Statements<'_>,
    wide: bool,
    device: &DeviceTraits,
) -> Option<Launch> {
    let of = read.map_or("SRC0", |(of, _)| of);
    let last = space.loops.len() - 1;
    let long = |v: usize| space.loops[v].extent >= TILE_LEAST;
    let across = (0..last).find(|&v| long(v) && is_contiguous(space, of, v))?;
    let fits = device.max_work_group >= TILE_GROUP
        && device.local_memory_bytes >= TILE * (TILE + 1) * 8
        && space.is_linear()
        && long(last)
        && is_contiguous(space, "DST", last)
        && space.coefficient(of, last).is_some_and(|step| step > 1);
    if !fits {
        return None;
    }
    let mut space = space.clone();
    space.rotate(across);
    let [along, across] = [&space.loops[last], &space.loops[0]];
    let tiles = along.extent.div_ceil(TILE);
    let mut source = Source::new(&space, value, (1, None), wide, false);
    source
        .general()
        .declare("DECLARE_ROW", &space, 1..last)
        .define("ALONG", &along.name)
        .define("ACROSS", &across.name)
        .number_of("RUN", along.extent)
        .number_of("RUN_ACROSS", across.extent)
        .number_of("TILES", tiles)
        .define("PARTIAL_LANES(n)", "(n)")
        .define(
            "COMPUTE(n)",
            [read.map_or_else(String::new, |_| format!("const V read = HELD_IN({of}); ")), compute.into()]
                .concat(),
        )
        .define("STORE_OTHERS(n)", store);
    match read {
        Some((_, read)) => drop(source.define("READ(n)", read)),
        None => drop(source.hold(&["SRC0"]).define("READ(n)", "const V read = FETCH_SRC0(OFF_SRC0, n);")),
    }
    match fused {
        Some(desc) => epilogue::define_all(&mut source, desc, value, device),
        None => drop(source.define("POST_OPS(v, n)", "")),
    }
    let groups = tiles * across.extent.div_ceil(TILE);
    let global = [groups * TILE_GROUP, space.count(1..last), 1];
    Some(source.launch("transposed", &[TRANSPOSED], global, Some([TILE_GROUP, 1, 1])))
}

/// A copy by tiles in a processor's registers.
fn in_vectors(space: &Space, compute: &str, wide: bool, device: &DeviceTraits) -> Option<Launch> {
    let last = space.loops.len() - 1;
    let run = space.loops[last].extent;
    let across =
        (0..last).find(|&v| space.loops[v].extent >= CPU_LANES && is_contiguous(space, "SRC0", v))?;
    let (src_step, dst_step) = (space.coefficient("SRC0", last)?, space.coefficient("DST", across)?);
    let side = if run >= CPU_LANES { CPU_LANES } else { run };
    let is_short = SHORT_SIDES.contains(&side) && dst_step == side;
    let fits = space.is_linear()
        && is_contiguous(space, "DST", last)
        && src_step > 1
        && (side == CPU_LANES || is_short)
        && space.count(0..last + 1) >= FEWEST
        && last <= LOOPS;
    if !fits {
        return None;
    }
    let mut space = space.clone();
    space.rotate(across);
    // Of any number of other loops there is one program.
    space.pad(1, LOOPS - last);
    space.normalize(0);
    let last = space.loops.len() - 1;
    // Vectors of the source lie along the loop of the results for as long as they are read.
    space.set_coefficient("SRC0", 0, src_step);
    space.set_coefficient("SRC0", last, 1);
    space.complete = Some(last);
    let (run_across, rows) = (space.loops[0].extent, space.count(1..last));
    let (strips, long) =
        if side == CPU_LANES { (run_across.div_ceil(CPU_LANES), run) } else { (1, run_across) };
    // All cores have something to do, also where the other loops are few.
    let wanted = (device.compute_units.max(1) * ITEMS).div_ceil(strips * rows);
    let chunk = long.div_ceil(wanted).next_multiple_of(CPU_LANES);
    let pieces = strips * long.div_ceil(chunk);
    let rows_per_item = (rows * pieces / (device.compute_units.max(1) * ITEMS)).clamp(1, rows.max(1));
    let mut source = Source::new(&space, Value::F32, (CPU_LANES, Some(last)), wide, false);
    source
        .general()
        .hold(&["SRC0"])
        .declare("DECLARE_ROW", &space, 1..last)
        .define("SIDE", side)
        .define("ALONG", &space.loops[last].name)
        .define("ACROSS", &space.loops[0].name)
        .number_of("RUN", run)
        .number_of("RUN_ACROSS", run_across)
        .number_of("ROWS", rows)
        .number_of("ROWS_PER_ITEM", rows_per_item)
        .number_of("PIECES", pieces)
        .define("BY_PIECES(t)", any_quotient("(t)", pieces))
        .number_of("STRIPS", strips)
        .define("BY_STRIPS(t)", any_quotient("(t)", strips))
        .number_of("CHUNK", chunk)
        .define("COMPUTE(n)", compute)
        .define("POST_OPS(v, n)", "");
    let global = [pieces * rows.div_ceil(rows_per_item), 1, 1];
    Some(source.launch("transposed_lanes", &[LANES], global, Some([1, 1, 1])))
}
