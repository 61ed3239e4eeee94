//! Pooling and its gradient.

mod lines;

use super::Planner;
use anydnn_backend::op::{Pooling, PoolingAlgorithm, PoolingBackward};
use anydnn_backend::{Arg, Error, PrimitiveDesc, Result};

use super::choice::{Choice, Choices, Wanted, only};
use super::epilogue;
use super::pointwise::{is_wide, padding};
use super::rows::Rows;
use super::source::{Source, add_post_ops};
use super::space::{Binding, Index, Space};
use super::value::Value;
use super::window::{WINDOW, Window};
use crate::plan::{DeviceTraits, KernelPlan, Launch};

const POOLING: &str = anydnn_kernels::text("pooling/pooling.cl");
const BACKWARD: &str = anydnn_kernels::text("pooling/backward.cl");

/// The implementations of a pooling, best first.
///
/// # Errors
/// [`Error::Unsupported`] for kinds of pooling that the kernels do not know.
pub(super) fn choices(
    desc: &PrimitiveDesc,
    op: &Pooling,
    device: &DeviceTraits,
    wanted: Wanted<'_>,
) -> Result<Vec<Choice>> {
    let value = Value::of(desc, op.algorithm == PoolingAlgorithm::Max);
    let window = Window {
        src: &desc.src().dims()[2..],
        dst: &desc.dst().dims()[2..],
        kernel: &op.kernel,
        strides: &op.strides,
        dilations: &op.dilations,
        pads_begin: &op.pads_begin,
        pads_end: &op.pads_end,
        transposed: false,
    };
    let method = Method::new(desc, op.algorithm, value)?;
    let mut choices = Choices::new(desc, wanted);
    let lines = || lines::launch(desc, &window, &method, value, device);
    choices.offer("lines", "whole lines of the result, their rows joined before their columns", lines);
    let vertical = || by_element(desc, &window, &method, value, device, true);
    choices.offer("vertical", "vectors along the channels", vertical);
    let reference = || by_element(desc, &window, &method, value, device, false);
    choices.offer("ref", "serves every layout and type", reference);
    Ok(choices.followed_by(|| padding(desc.dst(), Arg::DST, device)))
}

/// How the values in a window become one.
#[derive(Debug)]
struct Method {
    start: &'static str,
    join: &'static str,
    join_two: &'static str,
    average: bool,
    count_padding: bool,
}

impl Method {
    fn new(desc: &PrimitiveDesc, algorithm: PoolingAlgorithm, value: Value) -> Result<Self> {
        let least = if value == Value::I64 { "LONG_MIN" } else { "(-INFINITY)" };
        let sum = |count_padding| Self {
            start: "0",
            join: "PLUS(a, b)",
            join_two: "PLUS(before, PLUS(a, b))",
            average: true,
            count_padding,
        };
        Ok(match algorithm {
            PoolingAlgorithm::Max => Self {
                start: least,
                join: "LARGER(b, a)",
                join_two: "LARGER_OF_TWO(a, b, before)",
                average: false,
                count_padding: false,
            },
            PoolingAlgorithm::AverageExcludePadding => sum(false),
            PoolingAlgorithm::AverageIncludePadding => sum(true),
            _ => return Err(Error::unsupported(desc.name(), "no kernel for this kind of pooling")),
        })
    }

    fn define(&self, source: &mut Source) {
        source
            .define("START", self.start)
            .define("JOIN(a, b)", self.join)
            .define("JOIN_TWO(before, a, b)", self.join_two)
            .define("AVERAGE", i32::from(self.average));
    }
}

/// A window for each result element; with `vectors` only if that is a vector of them along the channels.
fn by_element(
    desc: &PrimitiveDesc,
    window: &Window,
    method: &Method,
    value: Value,
    device: &DeviceTraits,
    vectors: bool,
) -> Option<Launch> {
    let (src, dst) = (desc.src(), desc.dst());
    let mut space = Space::default();
    let image = space.push("image", src.dims()[0]);
    let channel = space.push("c", src.dims()[1]);
    let result = window.push_result(&mut space);
    let outer = space.loops.len();
    let taps = window.push_taps(&mut space);
    let place = |spatial: Vec<Index>| -> Vec<Index> {
        [Index::of(image), Index::of(channel)].into_iter().chain(spatial).collect()
    };
    let source = place(window.source_index(&mut space, &result, &taps));
    space.operand("SRC0", Binding::Arg(Arg::SRC), src, &source);
    let result = place(result);
    space.operand("DST", Binding::Arg(Arg::DST), dst, &result);
    add_post_ops(&mut space, desc, &result);
    let lane: Option<(&str, &[&str])> = if vectors { Some(("c", &["SRC0"])) } else { None };
    let rows = Rows::outputs(space, outer, value, device, lane).complete(device);
    if vectors && rows.lanes == 1 {
        return None;
    }
    let work = window.kernel.iter().product::<usize>() * 4 * rows.lanes;
    let mut source = rows.source(value, is_wide(desc), device, work);
    window.define(&mut source);
    method.define(&mut source);
    source.define("COUNT_PADDING", i32::from(method.count_padding));
    epilogue::define_all(&mut source, desc, value, device);
    Some(rows.launch(source, "pooling", &[WINDOW, POOLING], device, work))
}

/// Plans the gradient of a pooling. Loops `id`, `ih`, `iw` run over the pooling's source, `od`, `oh`, `ow` over its result.
pub(super) fn plan_backward(desc: PrimitiveDesc, op: &Pooling, device: &DeviceTraits) -> Result<KernelPlan> {
    let count_padding = match op.algorithm {
        PoolingAlgorithm::Max | PoolingAlgorithm::AverageExcludePadding => 0,
        PoolingAlgorithm::AverageIncludePadding => 1,
        _ => return Err(Error::unsupported(desc.name(), "no kernel for this kind of pooling")),
    };
    let value = Value::of(&desc, op.algorithm == PoolingAlgorithm::Max);
    let (diff, dst) = (desc.src(), desc.dst());
    let window = Window {
        src: &dst.dims()[2..],
        dst: &diff.dims()[2..],
        kernel: &op.kernel,
        strides: &op.strides,
        dilations: &op.dilations,
        pads_begin: &op.pads_begin,
        pads_end: &op.pads_end,
        transposed: false,
    };
    let mut space = Space::default();
    let image = space.push("image", dst.dims()[0]);
    let channel = space.push("c", dst.dims()[1]);
    let element = window.push_source(&mut space);
    let outer = space.loops.len();
    let result = window.push_result(&mut space);
    let taps = window.push_taps(&mut space);
    let under = window.source_index(&mut space, &result, &taps);
    let place = |spatial: Vec<Index>| -> Vec<Index> {
        [Index::of(image), Index::of(channel)].into_iter().chain(spatial).collect()
    };
    let element = place(element);
    space.operand("SRC0", Binding::Arg(Arg::Src(0)), diff, &place(result));
    if let Some(src) = desc.find(Arg::Src(1)) {
        space.operand("SRC1", Binding::Arg(Arg::Src(1)), src, &element);
        space.operand("TAP", Binding::Alias("SRC1"), src, &place(under));
    }
    space.operand("DST", Binding::Arg(Arg::DST), dst, &element);
    add_post_ops(&mut space, &desc, &element);
    let is_max = space.find("TAP").is_some();
    let contiguous: &[&str] = if is_max { &["SRC0", "SRC1"] } else { &["SRC0"] };
    let rows = Rows::outputs(space, outer, value, device, Some(("c", contiguous))).complete(device);
    let taps = op.kernel.iter().product::<usize>().saturating_mul(4);
    let work = taps.saturating_mul(if is_max { 4 * rows.lanes } else { rows.lanes });
    let mut source = rows.source(value, is_wide(&desc), device, work);
    window.define(&mut source);
    source.define("IS_MAX", i32::from(is_max)).define("COUNT_PADDING", count_padding);
    epilogue::define_all(&mut source, &desc, value, device);
    let launch = rows.launch(source, "pooling_backward", &[WINDOW, BACKWARD], device, work);
    let launches = std::iter::once(launch).chain(padding(dst, Arg::DST, device)).collect();
    let shape = if rows.lanes > 1 { "vertical" } else { "ref" };
    let implementation = format!("ocl:{}:{shape}", desc.op().name());
    Ok(KernelPlan { implementation, scratchpad: 0, launches, desc })
}

impl Planner for Pooling {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        choices(desc, self, device, wanted)
    }
}

impl Planner for PoolingBackward {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        Ok(only(plan_backward(desc.clone(), &self.pooling, device)?, wanted))
    }
}
