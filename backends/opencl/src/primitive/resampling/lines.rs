//! Resampling line by line on CPUs, for tensors whose last dimension lies side by side (`resampling/lines.cl`).

use anydnn_backend::op::{Resampling, ResamplingAlgorithm};
use anydnn_backend::{Arg, PrimitiveDesc};

use super::{POSITIONS, define_positions, push};
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::epilogue;
use crate::primitive::pointwise::is_wide;
use crate::primitive::rows::{CPU_LANES, is_cpu};
use crate::primitive::source::{Source, add_post_ops, is_contiguous};
use crate::primitive::space::{Binding, Index, Space};
use crate::primitive::value::Value;

const LINES: &str = anydnn_kernels::text("resampling/lines.cl");

/// Elements of a line that a work-item has at once, its sources' and its own.
const ROOM: usize = 2048;
/// Bytes of local memory that they take at most, with what else is known of each.
const ROOM_BYTES: usize = 64 << 10;
/// Work-items for each core, and lines that finding the neighbours takes little beside.
const ITEMS: usize = 16;
const LEAST_LINES: usize = 4;

/// The launch, where lines lie side by side.
pub(super) fn plan(desc: &PrimitiveDesc, op: Resampling, device: &DeviceTraits) -> Option<Launch> {
    let nearest = op.algorithm == ResamplingAlgorithm::Nearest;
    let value = Value::of(desc, nearest);
    let (src, dst) = (desc.src(), desc.dst());
    let [from, to] = [src, dst].map(|own| own.dims().last().copied().unwrap_or(0));
    // A loop of one step has no part in addresses, and the line's serves both.
    let applies = is_cpu(device)
        && device.local_memory_bytes >= ROOM_BYTES
        && value == Value::F32
        && to > 1
        && from > 0
        && dst.elements() > 0;
    if !applies {
        return None;
    }
    let mut space = Space::default();
    let before = [space.push("image", dst.dims()[0]), space.push("c", dst.dims()[1])].map(Index::of);
    let of = |spatial: &[Index]| before.iter().chain(spatial).cloned().collect::<Vec<_>>();
    let result = push(&mut space, "o", &dst.dims()[2..]);
    let ow = space.variable("ow")?;
    let mut source = push(&mut space, "s", &src.dims()[2..]);
    *source.last_mut()? = Index::of(ow);
    space.operand("SRC0", Binding::Arg(Arg::SRC), src, &of(&source));
    space.operand("DST", Binding::Arg(Arg::DST), dst, &of(&result));
    add_post_ops(&mut space, desc, &of(&result));
    if !["SRC0", "DST"].iter().all(|name| is_contiguous(&space, name, ow)) {
        return None;
    }
    // Of so many positions the sources fit as well, with a neighbour at each end.
    let chunk = (ROOM - 4).saturating_mul(to) / from.max(1);
    let chunk = chunk.min(ROOM).min(to).max(1);
    let chunks = to.div_ceil(chunk);
    if (chunk.saturating_mul(from) / to) + 4 > ROOM {
        return None;
    }
    let lines = space.count(0..ow);
    let item_lines = (lines * chunks / (device.compute_units.max(1) * ITEMS)).max(LEAST_LINES);
    let mut text = Source::new(&space, value, (CPU_LANES, Some(ow)), is_wide(desc), true);
    text.general()
        .declare("DECLARE_LINE", &space, 0..ow)
        .define("ROOM", ROOM)
        .number_of("LINES", lines)
        .number_of("ITEM_LINES", item_lines)
        .number_of("CHUNKS", chunks)
        .number_of("CHUNK", chunk);
    define_positions(&mut text, value, op, src.dims(), dst.dims());
    epilogue::define_all(&mut text, desc, value, device);
    let global = [lines.div_ceil(item_lines) * chunks, 1, 1];
    Some(text.launch("resampling_lines", &[POSITIONS, LINES], global, Some([1, 1, 1])))
}
