//! Pooling by lines of the result, for processors.

use anydnn_backend::{Arg, PostOp, PrimitiveDesc};

use super::super::pointwise::is_wide;
use super::super::rows::{CPU_LANES, is_cpu, items, rows_per_item};
use super::super::source::{Source, add_post_ops, is_contiguous};
use super::super::space::{Binding, Index, Space};
use super::super::value::Value;
use super::super::window::{WINDOW, Window};
use super::Method;
use crate::plan::{DeviceTraits, Launch};

const LINES: &str = anydnn_kernels::text("pooling/lines.cl");

/// Bytes of a line that stay in a core's second-level cache.
const LINE_BYTES: usize = 64 << 10;
/// Elements behind a line that vectors may reach.
const SLACK: usize = 3 * CPU_LANES;
/// Rows of a window that every program has room for.
const FEW_ROWS: usize = 16;
/// Work-items for each core.
const ITEMS: usize = 4;

/// The launch; none where neither columns nor channels lie side by side, or a line has no room.
pub(super) fn launch(
    desc: &PrimitiveDesc,
    window: &Window,
    method: &Method,
    value: Value,
    device: &DeviceTraits,
) -> Option<Launch> {
    let (src, dst) = (desc.src(), desc.dst());
    let width = window.dst.len().checked_sub(1)?;
    let (columns, channels) = (window.src[width], src.dims()[1]);
    if !is_cpu(device) || value != Value::F32 || window.dst.contains(&0) || columns == 0 {
        return None;
    }
    let by_channels = channels > 1 && src.blocking()?.strides[1] == 1;
    if !by_channels && window.dst[width] == 1 {
        return None;
    }
    let mut space = Space::default();
    let image = space.push("image", src.dims()[0]);
    let mut channel = 0;
    if !by_channels {
        channel = space.push("c", channels);
    }
    let result = window.push_result(&mut space);
    // Lines are all loops before the columns of the result.
    let outer = space.loops.len() - 1;
    if by_channels {
        channel = space.push("c", channels);
    }
    let taps = window.push_taps(&mut space);
    let place = |spatial: Vec<Index>| -> Vec<Index> {
        [Index::of(image), Index::of(channel)].into_iter().chain(spatial).collect()
    };
    let mut source = window.source_index(&mut space, &result, &taps);
    source[width] = Index::of(outer);
    space.operand("SRC0", Binding::Arg(Arg::SRC), src, &place(source));
    let result = place(result);
    space.operand("DST", Binding::Arg(Arg::DST), dst, &result);
    add_post_ops(&mut space, desc, &result);
    let inner = if by_channels { channels } else { 1 };
    let lane = if by_channels { channel } else { outer };
    let sides = ["SRC0", "DST"].iter().all(|name| is_contiguous(&space, name, lane));
    if !space.is_linear() || !sides || (columns > 1 && src.strides()?[2 + width] != inner) {
        return None;
    }
    let last = |values: &[usize]| values[width];
    let (stride, reach) =
        (last(window.strides), (last(window.kernel) - 1).saturating_mul(last(window.dilations)) + 1);
    // The columns of the source that the windows of a line have.
    let covered = (last(window.dst) - 1).saturating_mul(stride).saturating_add(reach).min(columns);
    let most = LINE_BYTES.min(device.local_memory_bytes) / size_of::<f32>();
    let lines = space.count(0..outer);
    let units = device.compute_units.max(1);
    let rows: usize = window.kernel[..width].iter().product();
    let copied = by_channels
        && window.kernel.iter().all(|&extent| extent == 1)
        && window.pads_begin.iter().chain(window.pads_end.iter()).all(|&pad| pad == 0);
    let direct = by_channels
        && !copied
        && shares_little((rows, last(window.kernel)), (last(window.dst), covered), channels);
    // All channels of as many columns as there is room for; fewer channels where else there were too few segments, or no room.
    let split = (ITEMS * units).div_ceil(lines.max(1));
    let fits = if direct { inner } else { (most.saturating_sub(SLACK) / reach.saturating_mul(2)).max(1) };
    let part = if inner <= CPU_LANES || (direct && last(window.dst) >= split) {
        inner
    } else {
        let part = inner.div_ceil(split.min(inner / CPU_LANES)).min(fits);
        if part >= inner { inner } else { part.next_multiple_of(CPU_LANES).min(inner) }
    };
    let columns_room = most.saturating_sub(SLACK) / part;
    if !direct && columns_room < reach.saturating_add(stride * CPU_LANES * usize::from(!by_channels)) {
        return None;
    }
    let width_of_result = last(window.dst);
    let segments = match columns_room.saturating_sub(reach) / stride + 1 {
        _ if copied => 1,
        _ if direct => split.min(width_of_result),
        columns if by_channels => width_of_result.div_ceil(columns),
        columns => width_of_result.div_ceil(columns / CPU_LANES * CPU_LANES),
    };
    let segment = match width_of_result.div_ceil(segments) {
        columns if by_channels => columns,
        columns => columns.next_multiple_of(CPU_LANES),
    };
    let needed = (segment - 1).saturating_mul(stride).saturating_add(reach).saturating_mul(part) + SLACK;
    if needed > most && !direct && !copied {
        return None;
    }
    let parts = inner.div_ceil(part);
    let segments = width_of_result.div_ceil(segment);
    let all = lines.saturating_mul(segments).saturating_mul(parts);
    let work = (columns * inner * window.kernel.iter().product::<usize>()).div_ceil(segments * parts);
    let per_item = rows_per_item(device, all, work);
    let is_float = desc.dst().data_type().is_float();
    // What a vector stores beyond its own elements must be read by nothing before it is replaced: not by a sum, whose addend lies there.
    let is_only_written =
        desc.attributes().post_ops.iter().all(|post_op| matches!(post_op, PostOp::Eltwise(_)));
    let dense = by_channels
        && is_only_written
        && (last(window.dst) == 1 || space.coefficient("DST", outer) == Some(inner));
    space.complete = Some(lane);
    space.in_runs = dense && stride == 1 && part == inner;
    let mut source = Source::new(&space, value, (CPU_LANES, Some(lane)), is_wide(desc), true);
    source.general().gains(4, lines.saturating_mul(columns * inner).saturating_mul(2));
    window.define(&mut source);
    method.define(&mut source);
    source
        .number_of("COUNT_PADDING", i32::from(method.count_padding))
        .declare_before("DECLARE_LINE", &space, 0..outer)
        .number_of("ALL_SEGMENTS", all)
        .number_of("SEGMENTS_PER_ITEM", per_item)
        .number_of("SEGMENTS", segments)
        .number_of("SEGMENT", segment)
        .number_of("PARTS", parts)
        .number_of("PART", part)
        .define("LINE", most)
        .define("MOST_ROWS", rows.next_power_of_two().max(FEW_ROWS))
        .define("STEPPING", if !by_channels && stride <= 2 { stride } else { 0 })
        .define("BY_CHANNELS", i32::from(by_channels))
        .number_of("COPIED", i32::from(copied))
        .number_of("DIRECT", i32::from(direct))
        .define("BY_SHARES", i32::from(is_float))
        .number_of("DENSE", i32::from(dense))
        .number_of("INNER", inner)
        .define("DST_BYTES", dst.data_type().bits().div_ceil(8))
        .number_of("SRC_SIZE", src.size() * 8 / src.data_type().bits())
        .post_ops(desc);
    let (global, local) = items(device, all.div_ceil(per_item));
    Some(source.launch("pooling_lines", &[WINDOW, LINES], global, local))
}

/// Whether windows are joined from the source with fewer loads and stores than by way of a line of columns, each of which takes its rows, is
/// stored, and is read by the windows that it lies in. Columns follow each other, so that their vectors are whole. A window has so many rows
/// and taps in each, a line of the result so many columns of windows, which cover so many of the source.
fn shares_little((rows, taps): (usize, usize), (results, covered): (usize, usize), channels: usize) -> bool {
    let vectors = channels.div_ceil(CPU_LANES) * CPU_LANES;
    let in_windows = results.saturating_mul(taps).saturating_mul(vectors);
    let by_line = (rows + 1).saturating_mul(covered).saturating_mul(channels).saturating_add(in_windows);
    rows.saturating_mul(in_windows) <= by_line
}

#[cfg(test)]
mod tests {
    use super::shares_little;

    #[test]
    fn windows_that_overlap_little_are_taken_from_the_source() {
        let square = |taps: usize, stride, results, channels| {
            shares_little((taps, taps), (results, (results - 1) * stride + taps), channels)
        };
        for (taps, stride) in [(1, 1), (2, 1), (2, 2), (3, 2), (3, 3), (4, 3)] {
            assert!(square(taps, stride, 99, 64), "{taps} taps, stride {stride}");
        }
        for (taps, stride) in [(3, 1), (4, 2), (5, 1), (5, 2), (7, 1), (11, 2)] {
            assert!(!square(taps, stride, 99, 64), "{taps} taps, stride {stride}");
        }
        // Most lanes of such vectors are empty.
        assert!(!square(3, 2, 99, 6) && !square(3, 3, 99, 3));
        // One window to a line has all its columns for itself.
        assert!(square(7, 1, 1, 129) && !square(7, 1, 4, 129));
        // Others share columns although padding is all that is around these.
        assert!(!shares_little((3, 3), (3, 3), 479));
    }
}
