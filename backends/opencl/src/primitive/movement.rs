//! Elements in other places: slices, paddings, repetitions, elements by indices. They move as bits, whatever they mean.

use std::fmt::Write;

use super::Planner;
use super::choice::{Choice, Wanted, only};
use anydnn_backend::op::{Border, Gather, Remap};
use anydnn_backend::{Arg, Dims, MemoryDesc, PrimitiveDesc, Result};

use super::numbers::{always, mark};
use super::pointwise::{is_wide, padding};
use super::rows::{is_cpu, items, rows_per_item};
use super::source::Source;
use super::space::{Binding, Index, Space};
use super::value::Value;
use crate::plan::{DeviceTraits, KernelPlan, Launch};

const REMAP: &str = anydnn_kernels::text("movement/remap.cl");
const GATHER: &str = anydnn_kernels::text("movement/gather.cl");

/// Elements of a row that a work-item on a CPU takes.
const CPU_CHUNK: usize = 16384;

/// Plans slices, paddings and repetitions.
pub(super) fn plan_remap(desc: PrimitiveDesc, op: &Remap, device: &DeviceTraits) -> Result<KernelPlan> {
    let (op, src, dst) = merged(op, desc.src(), desc.dst())?;
    let rank = dst.rank();
    let mut space = Space::default();
    let to: Vec<Index> =
        (0..rank).map(|axis| Index::of(space.push(format!("i{axis}"), dst.dims()[axis]))).collect();
    let from: Vec<Index> =
        (0..rank).map(|axis| Index::of(space.push(format!("s{axis}"), src.dims()[axis]))).collect();
    space.operand("SRC0", Binding::Arg(Arg::SRC), &src, &from);
    if let Some(fill) = desc.find(Arg::Src(1)) {
        space.operand("FILL", Binding::Arg(Arg::Src(1)), fill, &vec![Index::default(); fill.rank()]);
    }
    space.operand("DST", Binding::Arg(Arg::DST), &dst, &to);
    let last = rank - 1;
    let place = |axis: usize, index: &str| {
        let (start, step) = (op.starts[axis], op.steps[axis]);
        format!("((idx)({}) + (idx)({}) * ({index}))", always(start), mark(step))
    };
    let far = (0..rank).any(|axis| {
        let end = op.starts[axis] + op.steps[axis] * dst.dims()[axis] as i64;
        op.starts[axis].abs().max(end.abs()) > i64::from(i32::MAX / 2)
    });
    let wide = is_wide(&desc) || far;
    let border = format!("border_{}", op.border.name());
    let mut rows = String::new();
    for axis in 0..last {
        let (at, extent) = (place(axis, &format!("i{axis}")), always(src.dims()[axis]));
        let _ = if op.border == Border::Fill {
            write!(rows, "const idx s{axis} = {at}; inside = inside && is_inside(s{axis}, {extent}); ")
        } else {
            write!(rows, "const idx s{axis} = {border}({at}, {extent}); ")
        };
    }
    let (low, high) = inner(&op, last, src.dims()[last]);
    let filler = if space.find("FILL").is_some() { "GET_FILL(OFF_FILL)" } else { "0" };
    let outside = op.border == Border::Fill;
    let dims = dst.dims().clone();
    let launch = launch(&space, &dims, wide, device, |source, bits| {
        source
            .define("GET_FILL(o)", format_args!("get_{bits}(fill, o)"))
            .define("PLACE_ROW", &rows)
            .define("PLACE(a)", place(last, "a"))
            .define("BORDER(at, n)", format_args!("{border}(at, n)"))
            .define("FROM", format_args!("s{last}"))
            .number_of("EXTENT", src.dims()[last])
            .number_of("LOW", low)
            .number_of("HIGH", high)
            .define("OUTSIDE", i32::from(outside))
            .define("FILLER", filler);
        ("remap", REMAP)
    });
    let launches = std::iter::once(launch).chain(padding(desc.dst(), Arg::DST, device)).collect();
    Ok(KernelPlan { implementation: "ocl:remap:rows".into(), scratchpad: 0, launches, desc })
}

/// From where to where the places along an axis are inside.
fn inner(op: &Remap, axis: usize, extent: usize) -> (i64, i64) {
    let (start, step, extent) = (op.starts[axis], op.steps[axis], extent as i64);
    let dim = op.dims[axis] as i64;
    // The first index whose place is at least `at`, for a positive step.
    let reaches = |at: i64| (at - start).div_euclid(step) + i64::from((at - start).rem_euclid(step) != 0);
    let (low, high) = match step {
        0 if (0..extent).contains(&start) => (0, dim),
        0 => (0, 0),
        1.. => (reaches(0), reaches(extent)),
        _ => {
            let by = -step;
            let first =
                (start - (extent - 1)).div_euclid(by) + i64::from((start - (extent - 1)).rem_euclid(by) != 0);
            (first, start.div_euclid(by) + 1)
        }
    };
    let low = low.clamp(0, dim);
    (low, high.clamp(low, dim))
}

/// The same with neighbouring axes joined where the elements behind an axis all move with it; at least one axis.
fn merged(op: &Remap, src: &MemoryDesc, dst: &MemoryDesc) -> Result<(Remap, MemoryDesc, MemoryDesc)> {
    if dst.rank() == 0 {
        let op = Remap::new([1], op.border);
        return Ok((op, src.reshaped([1])?, dst.reshaped([1])?));
    }
    if !src.is_row_major() || !dst.is_row_major() {
        return Ok((op.clone(), src.clone(), dst.clone()));
    }
    let mut axes: Vec<(usize, usize, i64, i64)> = Vec::new();
    for axis in (0..dst.rank()).rev() {
        let (from, to) = (src.dims()[axis], dst.dims()[axis]);
        let (start, step) = (op.starts[axis], op.steps[axis]);
        let joins = matches!(op.border, Border::Fill | Border::Wrap) || op.is_inside(axis, from);
        match axes.last_mut() {
            Some(inner) if inner.0 == inner.1 && (inner.2, inner.3) == (0, 1) && step == 1 && joins => {
                *inner = (from * inner.0, to * inner.1, start * inner.0 as i64, 1);
            }
            _ => axes.push((from, to, start, step)),
        }
    }
    axes.reverse();
    let op = Remap {
        dims: axes.iter().map(|axis| axis.1).collect(),
        starts: axes.iter().map(|axis| axis.2).collect(),
        steps: axes.iter().map(|axis| axis.3).collect(),
        border: op.border,
    };
    let from: Dims = axes.iter().map(|axis| axis.0).collect();
    let dims = op.dims.clone();
    Ok((op, src.reshaped(from)?, dst.reshaped(dims)?))
}

/// Plans elements by indices.
pub(super) fn plan_gather(desc: PrimitiveDesc, op: Gather, device: &DeviceTraits) -> KernelPlan {
    let (src, dst) = (desc.src(), desc.dst());
    let Some(indices) = desc.find(Arg::Src(1)) else {
        return KernelPlan { implementation: String::new(), scratchpad: 0, launches: Vec::new(), desc };
    };
    let mut space = Space::default();
    let to: Vec<Index> =
        (0..dst.rank()).map(|axis| Index::of(space.push(format!("i{axis}"), dst.dims()[axis]))).collect();
    let (first, count) = op.chosen(indices.dims());
    let found: Vec<Index> =
        (0..count).map(|k| Index::of(space.push(format!("at{k}"), src.dims()[first + k]))).collect();
    let own = dst.rank();
    let (from, at): (Vec<Index>, Vec<Index>) = match op {
        Gather::Elements(axis) => {
            let mut from = to.clone();
            from[axis] = found[0].clone();
            (from, to.clone())
        }
        Gather::Lists(batch) => {
            let lists = indices.rank() - 1;
            let from = [&to[..batch], &found, &to[lists..]].concat();
            (from, [&to[..lists], &[Index::default()]].concat())
        }
        // Also what is not known here: there is no other.
        _ => {
            let behind = first + indices.rank();
            ([&to[..first], &found, &to[behind..]].concat(), to[first..behind].to_vec())
        }
    };
    space.operand("SRC0", Binding::Arg(Arg::Src(0)), src, &from);
    for k in 0..count {
        let mut at = at.clone();
        if let (Gather::Lists(_), Some(entry)) = (op, at.last_mut()) {
            *entry = Index::default().shifted(k as isize);
        }
        let binding = if k == 0 { Binding::Arg(Arg::Src(1)) } else { Binding::Alias("INDEX0") };
        space.operand(format!("INDEX{k}"), binding, indices, &at);
    }
    space.operand("DST", Binding::Arg(Arg::DST), dst, &to);
    let mut find = String::new();
    for k in 0..count {
        let extent = always(src.dims()[first + k]);
        let _ = write!(
            find,
            "const long from{k} = from_front(NAT1_INDEX{k}(OFF_INDEX{k}), {extent}); \
             inside = inside && from{k} >= 0 && from{k} < {extent}; \
             const idx at{k} = inside ? (idx)from{k} : 0; "
        );
    }
    if own == 0 {
        space.push("one", 1);
        space.operands.iter_mut().for_each(|operand| operand.address.extend());
        space.rotate(space.loops.len() - 1);
    }
    let own = own.max(1);
    space.sort_by(0..own, "DST");
    let own = space.collapse(0..own, &[]);
    let of_row = (0..count).all(|k| {
        space.find(&format!("INDEX{k}")).is_some_and(|operand| operand.address.step(own - 1, 1) == Some(0))
    });
    let dims: Dims = space.loops[..own].iter().map(|l| l.extent).collect();
    let launch = launch(&space, &dims, is_wide(&desc), device, |source, _| {
        source.define("FIND", &find).define("OF_ROW", i32::from(of_row));
        ("gather", GATHER)
    });
    let launches = std::iter::once(launch).chain(padding(dst, Arg::DST, device)).collect();
    let shape = if of_row { "rows" } else { "elements" };
    KernelPlan { implementation: format!("ocl:gather:{shape}"), scratchpad: 0, launches, desc }
}

/// The launch over the first loops of a space, of these extents: the last of them along rows.
fn launch(
    space: &Space,
    dims: &Dims,
    wide: bool,
    device: &DeviceTraits,
    define: impl FnOnce(&mut Source, usize) -> (&'static str, &'static str),
) -> Launch {
    let last = dims.len() - 1;
    let (rows, run) = (Dims::new(&dims[..last]).elements(), dims[last]);
    let chunk = if is_cpu(device) { CPU_CHUNK.min(run.max(1)) } else { 1 };
    let chunks = run.div_ceil(chunk).max(1);
    let per_item = rows_per_item(device, rows, chunk);
    let work_items = chunks * rows.div_ceil(per_item);
    let bits = space.find("DST").map_or(32, |operand| operand.data_type.bits());
    let mut source = Source::new(space, Value::F32, (1, None), wide, true);
    source
        .general()
        .declare("DECLARE_ROW", space, 0..last)
        .define("ALONG", &space.loops[last].name)
        .number_of("RUN", run)
        .number_of("ROWS", rows)
        .number_of("CHUNK", chunk)
        .number_of("CHUNKS", chunks)
        .number_of("ROWS_PER_ITEM", per_item)
        .number_of("ITEMS", work_items)
        .define("BITS", ["uchar", "ushort", "uint", "ulong"][(bits / 8).trailing_zeros().min(3) as usize])
        .define("GET(o)", format_args!("get_{bits}(src0, o)"))
        .define("PUT(o, v)", format_args!("put_{bits}(dst, o, v)"));
    let (kernel, file) = define(&mut source, bits);
    let (global, local) = items(device, if run == 0 { 0 } else { work_items });
    source.launch(kernel, &[file], global, local)
}

impl Planner for Remap {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        Ok(only(plan_remap(desc.clone(), self, device)?, wanted))
    }

    fn counts_in_64_bits(&self) -> bool {
        true
    }
}

impl Planner for Gather {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        Ok(only(plan_gather(desc.clone(), *self, device), wanted))
    }

    fn counts_in_64_bits(&self) -> bool {
        true
    }
}
