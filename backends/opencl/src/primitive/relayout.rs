//! Layouts that change once: one program for all of them, whose loops come with the launch.

use super::Planner;
use anydnn_backend::op::Reorder;
use anydnn_backend::{Arg, DataType, MemoryDesc, PrimitiveDesc, Result};

use super::choice::{Choice, Choices, Wanted};
use super::convolution::{groups, winograd};
use super::opaque::{GroupPanels, is_transformed};
use super::pointwise::{self, is_wide};
use super::rows::{is_cpu, items};
use super::source::Source;
use super::space::{Binding, Index, Space};
use super::value::Value;
use crate::plan::{DeviceTraits, KernelPlan, Launch};

const TABLE: &str = anydnn_kernels::text("reorder/table.cl");

/// The most loops of a table, and the most padded dimensions.
const LOOPS: usize = 10;
const PADDED: usize = 2;
/// Elements that a work-item on a CPU takes. On other devices neighbours take one each, so that their stores join.
const CPU_CHUNK: usize = 2048;

/// A loop over the result: its steps, and what one is worth in the source, in the result, and in the indices of padded dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Loop {
    extent: usize,
    from: usize,
    to: usize,
    index: [usize; PADDED],
}

impl Loop {
    /// Whether this loop and the one inside of it are one long loop.
    fn continues(&self, inner: &Self) -> bool {
        let fits = |outer: usize, step: usize| step.checked_mul(inner.extent) == Some(outer);
        fits(self.from, inner.from)
            && fits(self.to, inner.to)
            && self.index.iter().zip(inner.index).all(|(&outer, step)| fits(outer, step))
    }
}

/// The implementations of a reorder: a program of its own, which runs faster, or the one for all, which is there sooner.
pub(super) fn choices(desc: &PrimitiveDesc, device: &DeviceTraits, wanted: Wanted<'_>) -> Vec<Choice> {
    if is_transformed(desc.dst()) {
        let mut choices = Choices::new(desc, wanted);
        choices.offer("winograd", "weights are transformed", || winograd::prepare(desc));
        return choices.followed_by(|| None);
    }
    if [desc.src(), desc.dst()].into_iter().any(|own| GroupPanels::of(own).is_some()) {
        let mut choices = Choices::new(desc, wanted);
        choices.offer("panels", "weights of groups lie in panels", || groups::relayout(desc, device));
        return choices.followed_by(|| None);
    }
    let once = desc.attributes().once;
    let table = || {
        let launches = vec![plan(desc, device)?];
        let implementation = "ocl:reorder:table".into();
        let plan = KernelPlan { implementation, scratchpad: 0, launches, desc: desc.clone() };
        Some(Choice { plan, reason: "one program serves every layout" })
    };
    let own = || {
        let plan = pointwise::plan(desc.clone(), &Reorder, device);
        Choice { plan, reason: "a program made for these layouts" }
    };
    match wanted {
        Wanted::First if once => vec![table().unwrap_or_else(own)],
        Wanted::First => vec![own()],
        _ => {
            let mut list: Vec<Choice> = std::iter::once(own()).chain(table()).collect();
            if once {
                list.reverse();
            }
            list.retain(
                |choice| !matches!(wanted, Wanted::Named(name) if name != choice.plan.implementation),
            );
            list
        }
    }
}

/// The launch that moves a source into the layout of the result, and writes zeros where that is padded. None where elements change, the
/// source is blocked, or there are too many loops, padded dimensions or elements for a table.
fn plan(desc: &PrimitiveDesc, device: &DeviceTraits) -> Option<Launch> {
    let (src, dst) = (desc.src(), desc.dst());
    let attributes = desc.attributes();
    let moves = src.data_type() == dst.data_type()
        && attributes.post_ops.is_empty()
        && attributes.dequantize.is_empty()
        && desc.args().len() == 2;
    let total = dst.padded_dims().elements();
    if !moves || is_wide(desc) || u32::try_from(total).is_err() {
        return None;
    }
    let bits = dst.data_type().bits();
    let (element, name) = match bits {
        8 => (DataType::U8, "uchar"),
        16 => (DataType::F16, "ushort"),
        32 => (DataType::F32, "uint"),
        64 => (DataType::S64, "ulong"),
        _ => return None,
    };
    let (loops, inside) = loops(src, dst)?;
    let mut space = Space::default();
    space.push("i", 1);
    for (name, arg) in [("SRC0", Arg::SRC), ("DST", Arg::DST)] {
        let any = MemoryDesc::new([1], element);
        space.operand(name, Binding::Arg(arg), &any, &[Index::of(0)]);
    }
    let value = if bits == 64 { Value::I64 } else { Value::F32 };
    let mut source = Source::new(&space, value, (1, None), false, false);
    source
        .define("LOOPS", LOOPS)
        .define("BITS", name)
        .define("GET(o)", format_args!("get_{bits}(src0, o)"))
        .define("PUT(o, v)", format_args!("put_{bits}(dst, o, v)"));
    let chunk = if is_cpu(device) { CPU_CHUNK } else { 1 };
    let (global, local) = items(device, total.div_ceil(chunk));
    let column = |of: fn(&Loop) -> usize| {
        let column = loops.iter().map(move |l| of(l) as u64);
        column.chain(std::iter::repeat(0)).take(LOOPS)
    };
    let table = column(|l| l.extent)
        .chain(column(|l| l.from))
        .chain(column(|l| l.to))
        .chain(column(|l| l.index[0]))
        .chain(column(|l| l.index[1]))
        .chain([src.blocking()?.offset as u64, dst.blocking()?.offset as u64])
        .chain(inside.map(|extent| extent as u64))
        .chain([loops.len(), total, chunk].map(|number| number as u64));
    let table = table.flat_map(u64::to_ne_bytes).collect();
    Some(Launch { table, ..source.launch("relayout", &[TABLE], global, local) })
}

/// The loops over a padded result from the outermost to the innermost, and the extents of its padded dimensions.
fn loops(src: &MemoryDesc, dst: &MemoryDesc) -> Option<(Vec<Loop>, [usize; PADDED])> {
    let (from, to) = (src.blocking()?, dst.blocking()?);
    if !from.inner.is_empty() {
        return None;
    }
    let padded = dst.padded_dims();
    let (mut loops, mut inside, mut paddings) = (Vec::new(), [1; PADDED], 0);
    for (axis, &extent) in padded.iter().enumerate() {
        let mut index = [0; PADDED];
        if extent != dst.dims()[axis] {
            *inside.get_mut(paddings)? = dst.dims()[axis];
            index[paddings] = 1;
            paddings += 1;
        }
        let step = |worth: usize, extent: usize, to: usize| Loop {
            extent,
            from: from.strides[axis].wrapping_mul(worth),
            to,
            index: index.map(|one| one * worth),
        };
        // From the innermost block outwards.
        let (mut worth, mut place) = (1, 1);
        for &(blocked, block) in to.inner.iter().rev() {
            if blocked == axis {
                loops.push(step(worth, block, place));
                worth *= block;
            }
            place *= block;
        }
        loops.push(step(worth, extent / worth, to.strides[axis]));
    }
    loops.retain(|l| l.extent != 1);
    // In the result's order, so that stores go on where the last one ended.
    loops.sort_by_key(|l| std::cmp::Reverse(l.to));
    let mut joined: Vec<Loop> = Vec::with_capacity(loops.len());
    for inner in loops {
        match joined.last_mut() {
            Some(outer) if outer.continues(&inner) => {
                *outer = Loop { extent: outer.extent * inner.extent, ..inner };
            }
            _ => joined.push(inner),
        }
    }
    if joined.is_empty() {
        joined.push(Loop { extent: 1, from: 0, to: 1, index: [0; PADDED] });
    }
    (joined.len() <= LOOPS).then_some((joined, inside))
}

impl Planner for Reorder {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        Ok(choices(desc, device, wanted))
    }

    fn counts_in_64_bits(&self) -> bool {
        true
    }
}
