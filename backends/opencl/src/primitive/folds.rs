//! Operations on rows: softmax, layer, root-mean-square and group normalisation, reduction.

use std::fmt::Write;

use super::Planner;
use super::choice::{Choice, Wanted, only};
use anydnn_backend::op::{
    GroupNormalization, LayerNormalization, Op, Reduction, ReductionAlgorithm, Softmax,
};
use anydnn_backend::{Arg, DataType, Error, MemoryDesc, PrimitiveDesc, Result};

use super::axes::push_axes;
use super::epilogue;
use super::numbers::always;
use super::pointwise::{is_wide, padding};
use super::rows::{CPU_LANES, Mode, Rows, group_size, is_cpu};
use super::source::{Source, add_post_ops};
use super::space::{Address, Binding, Index, Operand, Space};
use super::value::Value;
use crate::plan::{DeviceTraits, KernelPlan};

const SOFTMAX: &str = anydnn_kernels::text("softmax/softmax.cl");
const SOFTMAX_VECTORS: &str = anydnn_kernels::text("softmax/vectors.cl");
const STATISTICS: &str = anydnn_kernels::text("normalization/statistics.cl");
const REDUCTION: &str = anydnn_kernels::text("reduction/reduction.cl");

/// Elements of a row beyond which several work-items share it.
const LONG_ROW: usize = 16384;
/// The same where a work-item has a row for itself on a device that wants many.
const SHORT_ROW: usize = 512;

/// Plans softmax or its logarithm.
pub(super) fn plan_softmax(desc: PrimitiveDesc, op: Softmax, device: &DeviceTraits) -> KernelPlan {
    let value = Value::of(&desc, false);
    let dst = desc.dst();
    let (mut space, outer, index) = folded_space(&desc, |axis| axis == op.axis);
    space.operand("SRC0", Binding::Arg(Arg::SRC), desc.src(), &index);
    space.operand("DST", Binding::Arg(Arg::DST), dst, &index);
    add_post_ops(&mut space, &desc, &index);
    let rows = Rows::folded(space, outer, value, device, Some("DST")).in_common(device);
    let rests_in_result = !op.log && rows.kept_vectors(device) == 0;
    let rows = rows.overlapping(rests_in_result);
    // The result can hold the exponentials when it has their precision and its old content does not matter.
    let online = rows.mode == Mode::Lane && !is_cpu(device);
    let keep =
        !online && !op.log && dst.data_type() == value.storage() && desc.attributes().post_ops.is_empty();
    let work = desc.src().dims()[op.axis] * 4;
    let mut source = rows.source(value, is_wide(&desc), device, work);
    let source_kept = keeps_source(&rows, &desc, device);
    source
        .define("KEPT", if source_kept || !op.log { rows.kept_vectors(device) } else { 0 })
        .define("SOURCE_KEPT", i32::from(source_kept))
        .define("LOGARITHM", i32::from(op.log))
        .define("INF_AS_ZERO", i32::from(op.inf_as_zero))
        .define("KEEP", i32::from(keep))
        .define("ONLINE", i32::from(online));
    rows.fetch_next(&mut source, device);
    epilogue::define_all(&mut source, &desc, value, device);
    rows.hold(&mut source, device, &["SRC0"]);
    let file = if is_cpu(device) { SOFTMAX_VECTORS } else { SOFTMAX };
    finish(desc, &rows, source, "softmax", file, device, work)
}

/// Plans a normalisation by the rows' own statistics.
pub(super) fn plan_normalization(desc: PrimitiveDesc, device: &DeviceTraits) -> Result<KernelPlan> {
    let value = Value::of(&desc, false);
    let (src, dst) = (desc.src(), desc.dst());
    let mut space = Space::default();
    let mut index = vec![Index::default(); src.rank()];
    let (outer, statistics, vectors, epsilon, rms);
    match desc.op() {
        Op::GroupNormalization(op) => {
            // The channels are two dimensions, group and channel in the group.
            let channels = src.dims()[1] / op.groups;
            let n = space.push("i0", src.dims()[0]);
            let group = space.push("g", op.groups);
            outer = 2;
            let channel = space.push("i1", channels);
            index[0] = Index::of(n);
            index[1] = Index::sum(&[(group, channels), (channel, 1)]);
            push_axes(&mut space, 2..src.rank(), src.dims(), &[src, dst], &mut index);
            statistics = vec![Index::of(n), Index::of(group)];
            vectors = vec![index[1].clone()];
            (epsilon, rms) = (op.epsilon, false);
        }
        Op::LayerNormalization(op) => {
            push_axes(&mut space, 0..op.begin_axis, src.dims(), &[src, dst], &mut index);
            outer = space.loops.len();
            push_axes(&mut space, op.begin_axis..src.rank(), src.dims(), &[src, dst], &mut index);
            let mut kept = index[..op.begin_axis].to_vec();
            kept.resize(src.rank(), Index::default());
            statistics = kept;
            vectors = index[op.begin_axis..].to_vec();
            (epsilon, rms) = (op.epsilon, op.rms);
        }
        _ => {
            return Err(Error::unsupported(desc.name(), "not a normalization by own statistics"));
        }
    }
    space.operand("SRC0", Binding::Arg(Arg::SRC), src, &index);
    space.operand("DST", Binding::Arg(Arg::DST), dst, &index);
    let (mut scale_and_shift, mut store) = (String::new(), String::new());
    for (arg, name, operator) in [(Arg::Scale, "SCALE", "*="), (Arg::Shift, "SHIFT", "+=")] {
        if let Some(operand) = desc.find(arg) {
            space.operand(name, Binding::Arg(arg), operand, &vectors);
            let _ = write!(scale_and_shift, "v {operator} LD_{name}(OFF_{name}, n); ");
        }
    }
    for (arg, name) in [(Arg::Mean, "MEAN"), (Arg::Variance, "VARIANCE")] {
        if let Some(operand) = desc.find(arg) {
            space.operand(name, Binding::Arg(arg), operand, &statistics[..operand.rank()]);
            let _ = write!(store, "ST_{name}(OFF_{name}, rows, row_{}); ", name.to_lowercase());
        }
    }
    add_post_ops(&mut space, &desc, &index);
    let count = space.count(outer..space.loops.len());
    let rows = Rows::folded(space, outer, value, device, Some("DST")).in_common(device).overlapping(false);
    let mut source = rows.source(value, is_wide(&desc), device, count);
    let source_kept = keeps_source(&rows, &desc, device);
    // A compiler that knows the divisor may divide another way, and programs for one shape would make other bits.
    let mean_of = match value {
        Value::F32 => format!("((x) * {})", value.number(1.0 / count.max(1) as f32)),
        _ => format!("((x) / (R){})", always(count)),
    };
    source
        .define("KEPT", if source_kept { rows.kept_vectors(device) } else { 0 })
        .define("SOURCE_KEPT", i32::from(source_kept))
        .define("RMS", i32::from(rms))
        .define("MEAN_OF(x)", mean_of)
        .define("KEEPS_PRODUCTS", i32::from(!is_cpu(device)))
        .define("EPSILON", value.number(epsilon))
        .define("SCALE_AND_SHIFT(v, n)", scale_and_shift)
        .define("STORE_STATISTICS", store);
    rows.fetch_next(&mut source, device);
    epilogue::define_all(&mut source, &desc, value, device);
    // Vectors of factors come early too, where there is room: loads between the folds and the stores would be waited for one by one.
    let factors = ["SCALE", "SHIFT"].into_iter().filter(|name| rows.space.find(name).is_some());
    let held: Vec<&str> = std::iter::once("SRC0").chain(factors).collect();
    if !rows.hold(&mut source, device, &held) {
        rows.hold(&mut source, device, &held[..1]);
    }
    Ok(finish(desc, &rows, source, "normalization", STATISTICS, device, count))
}

/// Plans a reduction; long rows are folded in two stages when there are too few of them to fill the device.
pub(super) fn plan_reduction(
    desc: PrimitiveDesc,
    algorithm: ReductionAlgorithm,
    device: &DeviceTraits,
) -> KernelPlan {
    use ReductionAlgorithm as A;
    let value = Value::of(&desc, matches!(algorithm, A::Sum | A::Max | A::Min | A::NormL1));
    let (src, dst) = (desc.src(), desc.dst());
    let (mut space, outer, index) = folded_space(&desc, |axis| src.dims()[axis] != dst.dims()[axis]);
    space.operand("SRC0", Binding::Arg(Arg::SRC), src, &index);
    let kept: Vec<Index> = (0..src.rank())
        .map(|axis| if src.dims()[axis] == dst.dims()[axis] { index[axis].clone() } else { Index::default() })
        .collect();
    space.operand("DST", Binding::Arg(Arg::DST), dst, &kept);
    add_post_ops(&mut space, &desc, &kept);
    let count = space.count(outer..space.loops.len());
    let least = if value == Value::I64 { "LONG_MIN" } else { "(-INFINITY)" };
    let most = if value == Value::I64 { "LONG_MAX" } else { "INFINITY" };
    let absolute = if value == Value::I64 { "((x) < 0 ? -(x) : (x))" } else { "fabs(x)" };
    let (start, join) = match algorithm {
        A::Max => (least, "LARGER(b, a)"),
        A::Min => (most, "SMALLER(b, a)"),
        A::Product => ("1", "TIMES(a, b)"),
        _ => ("0", "PLUS(a, b)"),
    };
    let take = match algorithm {
        A::NormL1 => absolute,
        A::NormL2 => "((x) * (x))",
        _ => "(x)",
    };
    let over = |count: usize| format!("((x) / (R){})", always(count));
    // Sums are means over one, so that both have the same programs on devices with few programs to a kernel.
    let plain = match algorithm {
        A::Sum | A::Mean if !is_cpu(device) && value == Value::F32 => over(1),
        _ => "(x)".into(),
    };
    let mean = over(count);
    let finish_with = match algorithm {
        A::Mean => &*mean,
        A::NormL2 => "sqrt(x)",
        _ => &*plain,
    };
    let wide = is_wide(&desc);
    let macros = |source: &mut Source, take: &str, finish: &str| {
        source
            .define("START", start)
            .define("JOIN(a, b)", join)
            .define("TWICE", i32::from(matches!(algorithm, A::Max | A::Min)))
            // As for statistics: squares are rounded before they are summed, whatever a compiler knows.
            .define("KEEPS_PRODUCTS", i32::from(!is_cpu(device) && algorithm == A::NormL2))
            .define("TAKE(x)", take)
            .define("FINISH(x)", finish);
    };
    let rows = Rows::folded(space, outer, value, device, None);
    let Some((first, second, scratchpad)) = two_stages(&rows, value, device) else {
        let rows = rows.in_common(device).overlapping(false);
        let mut source = rows.source(value, wide, device, count);
        macros(&mut source, take, finish_with);
        epilogue::define_all(&mut source, &desc, value, device);
        rows.hold(&mut source, device, &["SRC0"]);
        return finish(desc, &rows, source, "reduction", REDUCTION, device, count);
    };
    let (first, second) = (first.in_common(device), second.in_common(device));
    let mut source = first.source(value, wide, device, count);
    macros(&mut source, take, &plain);
    source.define("POST_OPS(v, n)", "");
    let partial = first.launch(source, "reduction", &[REDUCTION], device, LONG_ROW);
    let mut source = second.source(value, wide, device, 1);
    macros(&mut source, "(x)", finish_with);
    epilogue::define_all(&mut source, &desc, value, device);
    let total = second.launch(source, "reduction", &[REDUCTION], device, 1);
    let launches = [partial, total].into_iter().chain(padding(dst, Arg::DST, device)).collect();
    KernelPlan { implementation: "ocl:reduction:two-stage".into(), scratchpad, launches, desc }
}

/// Whether a row's elements are read once and kept: where reading them again costs a conversion, steps from line to line, or
/// parts of a vector.
fn keeps_source(rows: &Rows, desc: &PrimitiveDesc, device: &DeviceTraits) -> bool {
    let is_short = rows.is_partial() && rows.space.loops.last().is_some_and(|last| last.extent < CPU_LANES);
    let is_dear = rows.mode == Mode::Lane || is_short || desc.src().data_type() != DataType::F32;
    is_dear && rows.kept_vectors(device) > 0
}

/// The loops of a row-wise operation: first those that stay, then those that are folded; their number; the dimensions' indices.
fn folded_space(desc: &PrimitiveDesc, folded: impl Fn(usize) -> bool) -> (Space, usize, Vec<Index>) {
    let (src, dst) = (desc.src(), desc.dst());
    let mut space = Space::default();
    let mut index = vec![Index::default(); src.rank()];
    let layouts: [&MemoryDesc; 2] = [src, dst];
    push_axes(&mut space, (0..src.rank()).filter(|&a| !folded(a)), src.dims(), &layouts, &mut index);
    let outer = space.loops.len();
    push_axes(&mut space, (0..src.rank()).filter(|&a| folded(a)), src.dims(), &layouts, &mut index);
    (space, outer, index)
}

/// The rows of both stages of a reduction and the bytes between them: a first stage that folds parts of rows, a second one that folds
/// their results. None where one stage serves as well.
fn two_stages(rows: &Rows, value: Value, device: &DeviceTraits) -> Option<(Rows, Rows, usize)> {
    let Rows { space, outer, .. } = rows;
    let outer = *outer;
    let (count, elements) = (space.count(0..outer), space.count(outer..space.loops.len()));
    let (wanted, long) = match rows.mode {
        _ if is_cpu(device) => (device.compute_units * 4, LONG_ROW),
        Mode::Lane => (device.compute_units * 512, SHORT_ROW),
        _ => (device.compute_units * 8, LONG_ROW),
    };
    if !space.is_linear() || elements < 2 * long || count == 0 || count >= wanted {
        return None;
    }
    let most = (elements / long).min(wanted.div_ceil(count)).max(2);
    let extent = space.loops[outer].extent;
    let parts = (2..=most).rev().find(|parts| extent.is_multiple_of(*parts))?;
    let rows_strides: Vec<usize> = (0..outer).map(|v| space.count(v + 1..outer)).collect();
    let partial = |name: &str, coefficients: Vec<usize>| Operand {
        name: name.into(),
        binding: Binding::Scratchpad(0),
        data_type: value.storage(),
        address: Address::linear(coefficients),
    };

    // Parts are the outermost loop of the first stage, so that rows side by side stay so.
    let mut first = space.clone();
    first.split(outer, "part", parts);
    first.operands.retain(|o| o.name == "SRC0");
    let inner = first.loops.len() - outer - 1;
    first.rotate(outer);
    let mut coefficients = vec![count];
    coefficients.extend(&rows_strides);
    coefficients.resize(outer + 1 + inner, 0);
    first.operands.push(partial("DST", coefficients));
    let lane = rows.lane.map(|v| v + 1);
    let first =
        Rows { space: first, outer: outer + 1, lane, mode: rows.mode, lanes: rows.lanes, overlaps: false };

    let mut second = space.clone();
    second.operands.retain(|o| o.name != "SRC0");
    while second.loops.len() > outer {
        second.remove(outer);
    }
    second.push("part", parts);
    for operand in &mut second.operands {
        operand.address.extend();
    }
    let coefficients = rows_strides.into_iter().chain([count]).collect();
    second.operands.push(partial("SRC0", coefficients));
    let mode =
        if !is_cpu(device) && parts >= 32 && group_size(device) >= 32 { Mode::Group } else { Mode::Lane };
    let second = Rows { space: second, outer, mode, lanes: 1, lane: None, overlaps: false };
    let bytes = DataType::bytes_for(value.storage(), count * parts);
    Some((first, second, bytes))
}

/// A plan of one launch over rows, and the zeros in the result's padding.
fn finish(
    desc: PrimitiveDesc,
    rows: &Rows,
    source: Source,
    kernel: &str,
    file: &'static str,
    device: &DeviceTraits,
    work: usize,
) -> KernelPlan {
    let mut launches = vec![rows.launch(source, kernel, &[file], device, work)];
    for arg in [Arg::DST, Arg::Mean, Arg::Variance] {
        launches.extend(desc.find(arg).and_then(|d| padding(d, arg, device)));
    }
    let mode = match rows.mode {
        Mode::Item if rows.lanes > 1 => "vector",
        Mode::Lane if rows.lanes > 1 => "vertical",
        Mode::Group => "group",
        Mode::Part => "parts",
        Mode::SubGroup => "sub-groups",
        _ => "ref",
    };
    let implementation = format!("ocl:{}:{mode}", desc.op().name());
    KernelPlan { implementation, scratchpad: 0, launches, desc }
}

impl Planner for Softmax {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        Ok(only(plan_softmax(desc.clone(), *self, device), wanted))
    }
}

impl Planner for LayerNormalization {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        Ok(only(plan_normalization(desc.clone(), device)?, wanted))
    }
}

impl Planner for GroupNormalization {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        Ok(only(plan_normalization(desc.clone(), device)?, wanted))
    }
}

impl Planner for Reduction {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        Ok(only(plan_reduction(desc.clone(), self.algorithm, device), wanted))
    }
}
