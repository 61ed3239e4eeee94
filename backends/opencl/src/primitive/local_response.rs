//! Normalisation by the squares around each element, and its gradient.

use anydnn_backend::op::{LocalResponseNormalization, LocalResponseNormalizationBackward};
use anydnn_backend::{Arg, ArgDesc, Dims, MemoryDesc, PostOp, PrimitiveDesc, Result};

use super::Planner;
use super::choice::{Choice, Wanted, only};
use super::epilogue;
use super::pointwise::{is_wide, padding};
use super::rows::Rows;
use super::source::add_post_ops;
use super::space::{Binding, Index, Space};
use super::value::Value;
use crate::plan::{DeviceTraits, KernelPlan};

const AROUND: &str = anydnn_kernels::text("normalization/around.cl");
const FORWARD: &str = anydnn_kernels::text("normalization/local_response.cl");
const BACKWARD: &str = anydnn_kernels::text("normalization/local_response_backward.cl");

/// Channels and the last three spatial dimensions.
const NAMES: [&str; 4] = ["c", "d", "h", "w"];

/// Plans a normalisation, or its gradient. Loops `c`, `od`, `oh`, `ow` run over the result, those with an `s` or a `t` in front over what
/// lies around an element.
fn plan(
    desc: PrimitiveDesc,
    op: &LocalResponseNormalization,
    backward: bool,
    device: &DeviceTraits,
) -> KernelPlan {
    let value = Value::of(&desc, false);
    let dst = desc.dst();
    let flat = is_flat(&desc, op).then(|| flattened(op, dst.dims()));
    let (op, dims) = flat.as_ref().map_or((op, dst.dims()), |(op, dims)| (op, dims));
    let tensor = |own: &MemoryDesc| match flat {
        Some(_) => MemoryDesc::new(dims.clone(), own.data_type()),
        None => own.clone(),
    };
    let reaches = Reaches::new(op, dims);
    let mut space = Space::default();
    let image = space.push("image", dims[0]);
    let own: Vec<usize> =
        NAMES.iter().zip(reaches.sizes).map(|(name, size)| space.push(result_loop(name), size)).collect();
    let outer = space.loops.len();
    // Loops of dimensions that windows do not reach along are those of the result.
    let around = |space: &mut Space, prefix: &str| -> Vec<usize> {
        let all = (0..4).map(|i| {
            let (name, size) = (format!("{prefix}{}", NAMES[i]), reaches.sizes[i]);
            if reaches.reach(i) { space.push(name, size) } else { own[i] }
        });
        all.collect()
    };
    let near = around(&mut space, "s");
    let far = if backward { around(&mut space, "t") } else { Vec::new() };
    let place = |loops: &[usize]| -> Vec<Index> {
        let inner = (0..4).filter(|&i| reaches.exists(i)).map(|i| Index::of(loops[i]));
        std::iter::once(Index::of(image)).chain(inner).collect()
    };
    let (result, near) = (place(&own), place(&near));
    let first = tensor(desc.src());
    space.operand("SRC0", Binding::Arg(Arg::Src(0)), &first, &result);
    if let Some(src) = desc.find(Arg::Src(1)) {
        let src = tensor(src);
        space.operand("SRC1", Binding::Arg(Arg::Src(1)), &src, &result);
        space.operand("DIFF", Binding::Alias("SRC0"), &first, &near);
        space.operand("SRC", Binding::Alias("SRC1"), &src, &near);
        space.operand("TAP", Binding::Alias("SRC1"), &src, &place(&far));
    } else {
        space.operand("SRC", Binding::Alias("SRC0"), &first, &near);
    }
    space.operand("DST", Binding::Arg(Arg::DST), &tensor(dst), &result);
    add_post_ops(&mut space, &desc, &result);
    let contiguous: &[&str] = if backward { &["SRC0", "SRC1"] } else { &["SRC0"] };
    let lane = if !reaches.reach(0) {
        Some(("c", contiguous))
    } else if !reaches.reach(3) {
        Some(("ow", contiguous))
    } else {
        None
    };
    let rows = Rows::outputs(space, outer, value, device, lane).complete(device);
    let taps = reaches.taps();
    let taps = if backward { taps.saturating_mul(taps.saturating_add(1)) } else { taps };
    let work = taps.saturating_mul(4 * rows.lanes);
    let mut text = rows.source(value, is_wide(&desc), device, work);
    for (i, name) in NAMES.iter().enumerate() {
        let name = name.to_uppercase();
        text.define(format_args!("REACH_{name}"), i32::from(reaches.reach(i)))
            .number_of(format_args!("SIZE_{name}"), reaches.sizes[i])
            .number_of(format_args!("BEFORE_{name}"), reaches.before[i])
            .number_of(format_args!("AFTER_{name}"), reaches.after[i]);
    }
    let is = |beta: f32| i32::from(op.beta.to_bits() == beta.to_bits());
    text.define("ALPHA", format_args!("((R){} / (R){}L)", value.literal(op.alpha), op.count))
        .define("BETA", value.literal(op.beta))
        .define("K", value.literal(op.k))
        .define("BETA_IS_THREE_QUARTERS", is(0.75))
        .define("BETA_IS_HALF", is(0.5))
        .define("BETA_IS_ONE", is(1.0));
    epilogue::define_all(&mut text, &desc, value, device);
    let (kernel, file) =
        if backward { ("local_response_backward", BACKWARD) } else { ("local_response", FORWARD) };
    let launch = rows.launch(text, kernel, &[AROUND, file], device, work);
    let launches = std::iter::once(launch).chain(padding(dst, Arg::DST, device)).collect();
    let shape = if rows.lanes > 1 { "vertical" } else { "ref" };
    let implementation = format!("ocl:{}:{shape}", desc.op().name());
    KernelPlan { implementation, scratchpad: 0, launches, desc }
}

/// Whether spatial dimensions can run as one: windows do not reach along them, they lie in one piece, and no post-operation reads memory by
/// the dimensions that there are.
fn is_flat(desc: &PrimitiveDesc, op: &LocalResponseNormalization) -> bool {
    let is_dense = |operand: &ArgDesc| operand.desc.is_row_major();
    let mut spatial = op.before[1..].iter().chain(&op.after[1..]);
    op.before.len() > 2
        && spatial.all(|&reach| reach == 0)
        && desc.args().iter().all(is_dense)
        && desc.attributes().post_ops.iter().all(|post_op| matches!(post_op, PostOp::Eltwise(_)))
}

/// The same with one spatial dimension.
fn flattened(op: &LocalResponseNormalization, dims: &[usize]) -> (LocalResponseNormalization, Dims) {
    let flat = op.clone().with_window([op.before[0], 0], [op.after[0], 0]);
    (flat, Dims::from([dims[0], dims[1], dims[2..].iter().product()]))
}

/// The name of a loop over the result.
fn result_loop(name: &str) -> String {
    if name == "c" { name.to_owned() } else { format!("o{name}") }
}

/// How far windows reach along channels and three spatial dimensions, of which a tensor lacks the first ones.
struct Reaches {
    missing: usize,
    sizes: [usize; 4],
    before: [usize; 4],
    after: [usize; 4],
}

impl Reaches {
    fn new(op: &LocalResponseNormalization, dims: &[usize]) -> Self {
        let missing = 5 - dims.len();
        let axis = |i: usize| match i {
            0 => Some(0),
            _ => i.checked_sub(missing).filter(|&axis| axis > 0),
        };
        let of = |entries: &[usize], absent: usize| -> [usize; 4] {
            std::array::from_fn(|i| axis(i).map_or(absent, |axis| entries[axis]))
        };
        let sizes = of(&dims[1..], 1);
        // A window ends with the source.
        let within =
            |entries: [usize; 4]| std::array::from_fn(|i| entries[i].min(sizes[i].saturating_sub(1)));
        Self { missing, sizes, before: within(of(&op.before, 0)), after: within(of(&op.after, 0)) }
    }

    /// Whether the tensor has a dimension.
    fn exists(&self, i: usize) -> bool {
        i == 0 || i > self.missing
    }

    /// Whether windows hold more than one element along a dimension.
    fn reach(&self, i: usize) -> bool {
        self.before[i] + self.after[i] > 0
    }

    /// The elements of a window.
    fn taps(&self) -> usize {
        (0..4).fold(1, |taps: usize, i| taps.saturating_mul(self.before[i] + self.after[i] + 1))
    }
}

impl Planner for LocalResponseNormalization {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        Ok(only(plan(desc.clone(), self, false, device), wanted))
    }
}

impl Planner for LocalResponseNormalizationBackward {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        Ok(only(plan(desc.clone(), &self.forward, true, device), wanted))
    }
}
