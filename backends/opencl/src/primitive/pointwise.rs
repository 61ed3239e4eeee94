//! Operations on each element by itself: eltwise, binary, select, batch normalisation, reorder, concat.

mod listed;
mod operations;
mod transposed;
#[cfg(test)]
mod transposed_tests;

use self::listed::List;
use anydnn_backend::op::Op;
use anydnn_backend::{Arg, DataType, MemoryDesc, PrimitiveDesc};

use super::axes::push_axes;
use super::epilogue;
use super::numbers;
use super::rows::{CPU_LANES, FEW_LANES, gpu_lanes, is_cpu, items, rows_per_item};
use super::source::{self, Source, add_post_ops, is_contiguous};
use super::space::{Binding, Index, Operand, Space, broadcast};
use super::value::Value;
use crate::plan::{DeviceTraits, KernelPlan, Launch};

const POINTWISE: &str = anydnn_kernels::text("pointwise/pointwise.cl");
const PADDING: &str = anydnn_kernels::text("reorder/padding.cl");

/// Elements of a contiguous run that a work-item on a CPU takes: at most, and at least where there are many.
const CPU_CHUNK: usize = 65536;
const CPU_LEAST_CHUNK: usize = 4096;
/// Elements up to which addresses and integers that come with the launch cost nothing that can be measured.
const SMALL_WORK: usize = 1024;
/// Loops that programs for every shape have, if not one.
const LOOPS: usize = 4;
/// What a program of its own gains over a list: its share of the time.
const LIST_GAIN: u64 = 4;
/// Work-items that fill a compute unit of a GPU, and the most rows that one takes to share what it reads for all of them.
const GPU_ITEMS: usize = 2048;
const SHARED_ROWS: usize = 16;
/// How many operations of a product take the time of an element.
const ELEMENT_WEIGHT: usize = 16;
/// An operation on each element by itself.
pub(super) trait Pointwise {
    /// Whether integers give integers.
    fn is_closed(&self) -> bool {
        false
    }

    /// The value of a result element before post-operations, in OpenCL C.
    fn expression(&self, desc: &PrimitiveDesc, value: Value) -> String;

    /// The same as steps, where a list has them.
    fn list(&self) -> Option<List> {
        None
    }
}

/// Plans an element-wise operation.
pub(super) fn plan(desc: PrimitiveDesc, op: &impl Pointwise, device: &DeviceTraits) -> KernelPlan {
    let dst = desc.dst();
    // Integers that become floats are rounded once either way, and floats have vectors.
    let rounds = matches!(desc.op(), Op::Reorder(_)) && dst.data_type().is_float();
    let value = Value::of(&desc, op.is_closed() && !rounds);
    let mut space = Space::default();
    let mut index = vec![Index::default(); dst.rank()];
    let layouts: Vec<&MemoryDesc> = std::iter::once(dst).chain(desc.args().iter().map(|a| &a.desc)).collect();
    push_axes(&mut space, 0..dst.rank(), dst.dims(), &layouts, &mut index);
    for arg in desc.args() {
        let name = match arg.arg {
            Arg::Src(i) => format!("SRC{i}"),
            Arg::Mean => "MEAN".into(),
            Arg::Variance => "VARIANCE".into(),
            Arg::Scale => "SCALE".into(),
            Arg::Shift => "SHIFT".into(),
            _ => continue,
        };
        let index = match arg.arg {
            Arg::Src(_) => broadcast(&arg.desc, dst.dims(), &index),
            _ => vec![index[1].clone()],
        };
        space.operand(name, Binding::Arg(arg.arg), &arg.desc, &index);
    }
    space.operand("DST", Binding::Arg(Arg::DST), dst, &index);
    add_post_ops(&mut space, &desc, &index);
    let compute = format!("V v = {};", op.expression(&desc, value));
    let list = op.list().and_then(|list| list.post_ops(&desc));
    let statements = Statements { compute: &compute, list: list.as_ref(), ..Statements::default() };
    let (launch, shape) = launch_all(space, value, Some(&desc), statements, is_wide(&desc), device);
    let launches = std::iter::once(launch).chain(padding(dst, Arg::DST, device)).collect();
    let implementation = format!("ocl:{}:{shape}", desc.op().name());
    KernelPlan { implementation, scratchpad: 0, launches, desc }
}

/// Plans a concatenation: a copy of each source into its place.
pub(super) fn plan_concat(desc: PrimitiveDesc, axis: usize, device: &DeviceTraits) -> KernelPlan {
    let value = Value::of(&desc, true);
    let dst = desc.dst();
    let mut launches = Vec::new();
    let mut start = 0;
    for source in desc.args().iter().filter(|a| matches!(a.arg, Arg::Src(_))) {
        let dims = source.desc.dims();
        let mut space = Space::default();
        let mut index = vec![Index::default(); dims.len()];
        push_axes(&mut space, 0..dims.len(), dims, &[&source.desc, dst], &mut index);
        space.operand("SRC0", Binding::Arg(source.arg), &source.desc, &index);
        index[axis] = index[axis].clone().shifted(start as isize);
        space.operand("DST", Binding::Arg(Arg::DST), dst, &index);
        if dims.elements() > 0 {
            launches.push(copy(space, value, is_wide(&desc), device));
        }
        start += dims[axis];
    }
    launches.extend(padding(dst, Arg::DST, device));
    KernelPlan { implementation: "ocl:concat:copies".into(), scratchpad: 0, launches, desc }
}

/// The launch that copies `SRC0` of a space to `DST`.
pub(super) fn copy(space: Space, value: Value, wide: bool, device: &DeviceTraits) -> Launch {
    let list = List::default();
    let statements =
        Statements { compute: "V v = LD_SRC0(OFF_SRC0, n);", list: Some(&list), ..Statements::default() };
    launch_all(space, value, None, statements, wide, device).0
}

/// What is computed of an element.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Statements<'a> {
    /// An operand other than `SRC0` that may lie along another loop than the results, and what declares `V read` from it alone.
    pub(super) read: Option<(&'a str, &'a str)>,
    /// What declares `V v`, which goes to `DST` after the post-operations.
    pub(super) compute: &'a str,
    /// What stores the rest.
    pub(super) store: &'a str,
    /// The same as what is computed, with the post-operations, as steps, where a list has them.
    pub(super) list: Option<&'a List>,
}

/// The launch that computes `DST` of a space, and its shape: over one contiguous stretch or many, or through tiles. Without a
/// description nothing is fused.
pub(super) fn launch_all(
    mut space: Space,
    value: Value,
    fused: Option<&PrimitiveDesc>,
    statements: Statements<'_>,
    wide: bool,
    device: &DeviceTraits,
) -> (Launch, &'static str) {
    let Statements { read, compute, store, list } = statements;
    if space.loops.is_empty() {
        space.push("one", 1);
        for operand in &mut space.operands {
            operand.address.extend();
        }
    }
    let count = space.loops.len();
    space.sort_by(0..count, "DST");
    let count = space.collapse(0..count, &[]);
    let last = count - 1;
    if let Some(launch) = transposed::launch(&space, value, fused, statements, wide, device) {
        return (launch, "transposed");
    }
    // Loops of any number share a program. A single one is worth a text of its own.
    let is_small = is_cpu(device) && space.count(0..count) <= SMALL_WORK && count <= LOOPS;
    let complete = (value == Value::F32 || is_small) && space.is_linear();
    let flat = last == 0 && (value == Value::F32 || !is_small);
    if complete {
        space.normalize(if flat { 1 } else { LOOPS });
    }
    let last = space.loops.len() - 1;
    let (rows, run) = (space.count(0..last), space.loops[last].extent);
    // Elements that lie apart are taken one by one, by as many lanes as there are, and a single run takes no time: those of any length share
    // a program then.
    let is_apart = |o: &Operand| o.address.coefficient(last).is_none_or(|step| step > 1);
    let best = match run {
        _ if !is_cpu(device) => gpu_lanes(&space, last),
        // Runs of few elements are one vector each, a whole one where there are vectors of that length.
        4 | 8 if rows > 1 && !space.operands.iter().any(is_apart) => run,
        _ => CPU_LANES,
    };
    let fewest = if is_cpu(device) { FEW_LANES } else { best };
    // A fractional condition must not be cut to zero on its way into a vector of integers.
    let is_source = |operand: &&Operand| matches!(operand.binding, Binding::Arg(Arg::Src(_)));
    let is_of_integers = is_cpu(device)
        && value == Value::I64
        && space.operands.iter().filter(is_source).all(|operand| !operand.data_type.is_float());
    let vectors = space.is_linear()
        && (value == Value::F32 || is_of_integers)
        && run >= fewest
        && is_contiguous(&space, "DST", last);
    let lanes = if vectors { best } else { 1 };
    let chunk = if is_cpu(device) {
        let share = (rows * run).div_ceil(device.compute_units.max(1) * 4).next_multiple_of(CPU_LANES);
        share.clamp(CPU_LEAST_CHUNK, CPU_CHUNK).min(run.max(1))
    } else {
        lanes
    };
    let chunks = run.div_ceil(chunk).max(1);
    let per_item = if shares_vectors(&space, last) && !is_cpu(device) {
        (rows * chunks / (device.compute_units.max(1) * GPU_ITEMS)).clamp(1, SHARED_ROWS)
    } else {
        rows_per_item(device, rows, chunk)
    };
    let work_items = chunks * rows.div_ceil(per_item);
    let chunks_of = |item: &str| {
        if complete {
            numbers::any_quotient(item, chunks).to_string()
        } else {
            numbers::quotient(item, chunks)
        }
    };
    let iterate = |source: &mut Source, space: &Space| {
        let last = space.loops.len() - 1;
        source
            .general()
            .declare("DECLARE_ROW", space, 0..last)
            .define("ALONG", &space.loops[last].name)
            .number_of("RUN", run)
            .number_of("ROWS", rows)
            .number_of("CHUNK", chunk)
            .define("ROW_GROUP_OF(item)", chunks_of("(item)"))
            .number_of("CHUNKS", chunks)
            .number_of("ROWS_PER_ITEM", per_item)
            .number_of("ITEMS", work_items);
    };
    let (global, local) = items(device, if run == 0 { 0 } else { work_items });
    let shape = if flat && space.is_linear() { "flat" } else { "nd" };
    // Short rows on a processor: dividing numbers of rows takes longer than the rows themselves.
    let by_lines = is_cpu(device) && last > 0;
    let list = list.filter(|list| list.serves(&mut space, value, device));
    space.complete = complete.then_some(last);
    let text = || {
        let mut source = Source::new(&space, value, (lanes, Some(last)), wide, false);
        iterate(&mut source, &space);
        source
            .define("BY_LINES", i32::from(by_lines))
            .define("REFINES_ROOTS", i32::from(is_cpu(device) && value == Value::F32 && lanes > 1));
        if by_lines {
            let across = &space.loops[last - 1];
            let line_of = if complete {
                numbers::any_quotient("(row)", across.extent).to_string()
            } else {
                numbers::quotient("(row)", across.extent)
            };
            source
                .declare("DECLARE_LINE", &space, 0..last - 1)
                .define("ACROSS", &across.name)
                .number_of("LINE_ROWS", across.extent)
                .define("LINE_OF(row)", line_of);
        }
        if let Some(step) = space.coefficient("PARTIAL", last) {
            // There is room for a whole vector behind every result, which needs no branch then.
            source.define("PARTIAL_LANES(n)", if step == 1 { "LANES" } else { "(n)" });
        }
        source
            .define("COMPUTE(n)", [read.map_or("", |(_, read)| read), compute].concat())
            .define("STORE_OTHERS(n)", store)
            .define_whole();
        match fused {
            Some(desc) => epilogue::define_all(&mut source, desc, value, device),
            None => drop(source.define("POST_OPS(v, n)", "")),
        }
        source
    };
    let work = rows.saturating_mul(run).saturating_mul(ELEMENT_WEIGHT);
    if let Some(list) = list {
        let alike = List::alike(&space);
        let mut source = Source::of_pointers(&alike, value, (CPU_LANES, Some(LOOPS - 1)), wide);
        iterate(&mut source, &alike);
        list.define(&mut source, &space, &alike);
        // What has shorter vectors computes by other functions.
        if lanes == CPU_LANES {
            source.gains(LIST_GAIN, work);
        }
        let files = [listed::LISTED.into()];
        let special = || (text(), vec![POINTWISE.into()]);
        let launch = source.launch_beside("pointwise", &files, (global, local), device, special);
        return (launch, shape);
    }
    let mut source = text();
    // On a processor rows of a few elements gain much, one long row nothing.
    if is_cpu(device) && !flat {
        source.gains(3, work);
    }
    (source.launch("pointwise", &[POINTWISE], global, local), shape)
}

/// Whether rows have vectors of channels in common, which a work-item then reads for several of them.
fn shares_vectors(space: &Space, last: usize) -> bool {
    let is_vector = |o: &Operand| {
        let coefficient = |v| o.address.coefficient(v).unwrap_or(1);
        source::is_constant(&o.binding) && coefficient(last) > 0 && (0..last).all(|v| coefficient(v) == 0)
    };
    space.operands.iter().any(is_vector)
}

/// The launch that writes zeros into the padding of a blocked result; none where there is no padding.
pub(super) fn padding(desc: &MemoryDesc, arg: Arg, device: &DeviceTraits) -> Option<Launch> {
    let padded = desc.padded_dims();
    if padded == *desc.dims() || desc.elements() == 0 {
        return None;
    }
    let mut space = Space::default();
    let index: Vec<Index> = padded
        .iter()
        .enumerate()
        .map(|(axis, &dim)| Index::of(space.push(format!("i{axis}"), dim)))
        .collect();
    // Zero is the same bits in every type; 64 of them are written as integers.
    let (value, stored) = match desc.data_type() {
        DataType::F64 | DataType::S64 => (Value::I64, DataType::S64),
        other => (Value::F32, other),
    };
    space.operand("DST", Binding::Arg(arg), &desc.with_data_type(stored), &index);
    let outside: Vec<String> = padded
        .iter()
        .zip(desc.dims().iter())
        .enumerate()
        .filter(|(_, (padded, dim))| padded != dim)
        .map(|(axis, (_, dim))| format!("i{axis} >= {dim}"))
        .collect();
    let total = padded.elements();
    let mut source = Source::new(&space, value, (1, None), total > i32::MAX as usize, true);
    source
        .declare("DECLARE_ROW", &space, 0..padded.len())
        .define("ITEMS", total)
        .define("PADDING", outside.join(" || "));
    let (global, local) = items(device, total);
    Some(source.launch("padding", &[PADDING], global, local))
}

/// Whether an operand has elements beyond 32-bit offsets.
pub(super) fn is_wide(desc: &PrimitiveDesc) -> bool {
    let limit = i32::MAX as usize;
    // Elements of four bits are twice as many as their bytes.
    let reach = |desc: &MemoryDesc| desc.size().saturating_mul(2).max(desc.elements());
    desc.args().iter().any(|a| {
        let most =
            if a.desc.data_type().bits() < 8 { reach(&a.desc) } else { a.desc.size().max(a.desc.elements()) };
        most > limit
    })
}
