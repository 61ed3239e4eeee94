//! Pooling by whole lines of the result, for processors.

use anydnn_backend::{Arg, PrimitiveDesc};

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
const LINE_BYTES: usize = 128 << 10;

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
    if !is_cpu(device) || value != Value::F32 || window.dst[width] == 1 || columns == 0 {
        return None;
    }
    let by_channels = channels > 1 && src.blocking()?.strides[1] == 1;
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
    if !space.is_linear() || !sides || space.coefficient("SRC0", outer) != Some(inner) {
        return None;
    }
    let last = |values: &[usize]| values[width];
    let reach = window.dst[width].next_multiple_of(CPU_LANES).saturating_mul(last(window.strides))
        + window.kernel[width].saturating_mul(last(window.dilations));
    let widest = reach.max(last(window.pads_begin) + columns).saturating_mul(inner) + 3 * CPU_LANES;
    let counted = window.dst[width].next_multiple_of(CPU_LANES) + CPU_LANES;
    if widest.saturating_add(counted).saturating_mul(4) > LINE_BYTES.min(device.local_memory_bytes) {
        return None;
    }
    let lines = space.count(0..outer);
    let work = columns * inner * window.kernel.iter().product::<usize>();
    let per_item = rows_per_item(device, lines, work);
    // Room for lines of many sizes, which then share a program.
    let most = LINE_BYTES.min(device.local_memory_bytes) / size_of::<f32>();
    let roomy = widest.next_power_of_two() + counted.next_power_of_two() <= most;
    let room = |size: usize| if roomy { size.next_power_of_two() } else { size };
    let rows: usize = window.kernel[..width].iter().product();
    let stride = last(window.strides);
    let mut source = Source::new(&space, value, (CPU_LANES, Some(lane)), is_wide(desc), true);
    source.general().gains(4, lines.saturating_mul(work).saturating_mul(2));
    window.define(&mut source);
    method.define(&mut source);
    source
        .declare("DECLARE_LINE", &space, 0..outer)
        .number_of("LINES", lines)
        .number_of("LINES_PER_ITEM", per_item)
        .define("LINE", room(widest))
        .number_of("LINE_SIZE", widest)
        .define("COLUMNS", room(counted))
        .define("MOST_ROWS", rows.next_power_of_two())
        .define("STEPPING", if stride <= 2 { stride } else { 0 })
        .define("BY_CHANNELS", i32::from(inner > 1))
        .number_of("INNER", inner)
        .post_ops(desc);
    let (global, local) = items(device, lines.div_ceil(per_item));
    Some(source.launch("pooling_lines", &[WINDOW, LINES], global, local))
}
