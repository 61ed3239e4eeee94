//! Movement of elements: reordering, joining, quantising, shuffling channels.

use super::shared::{QUANTIZED, dequantized};
use crate::formula::{any, it, op, perhaps, steps};
use crate::fusion::pattern::Pattern;
use crate::graph::OpKind::{
    Add, Clamp, Concat, Dequantize, Divide, Maximum, Minimum, Multiply, Quantize, ReduceMax, ReduceMin,
    Reorder, Round, StaticReshape, StaticTranspose, Subtract, TypeCast,
};
use crate::graph::{Graph, Op, TensorId};

/// The most products with the scale of what is quantised: as many readers, whose weights have scales of their own.
const PRODUCTS: usize = 4;

pub(super) fn patterns() -> Vec<Pattern> {
    let residual = op(Add).of([it(), dequantized()]).keeps_shape();
    vec![
        Pattern::new(
            "reorder/int8",
            69,
            &["quantised source and result", "residual that is stored quantised (CPU form, GPU form)"],
            op(Reorder).of([dequantized()]).then(perhaps(steps![residual])).then(Quantize),
        ),
        Pattern::new("reorder/add", 68, &["addition"], op(Add).of([op(Reorder), any()])),
        Pattern::new(
            "concat/int8",
            67,
            &["quantised sources and result"],
            op(Concat).each(op(Dequantize).of([any()]).reads(QUANTIZED)).then(Quantize),
        ),
        Pattern::new(
            "quantize/typecast",
            66,
            &["conversion, then quantisation"],
            op(TypeCast).then(Quantize),
        ),
        dynamic(),
        Pattern::new(
            "shuffle/channels",
            105,
            &["StaticReshape, StaticTranspose and StaticReshape that shuffle channels"],
            op(StaticReshape)
                .when("it splits one axis in two", splits_axis)
                .then(op(StaticTranspose).of([it()]).when("it swaps two neighbours", swaps_neighbours))
                .then(op(StaticReshape).of([it()]).when("it joins two axes", joins_axes)),
        ),
    ]
}

/// Quantisation by the range of the values themselves, which zero belongs to, as ONNX's `DynamicQuantizeLinear` has it: folds, a few
/// numbers, and a function of every element. Products of the scale with another number come along.
fn dynamic() -> Pattern {
    let x = || any().named("x");
    let low = || op(Minimum).of([op(ReduceMin).of([x()]), any()]).named("low");
    let high = || op(Maximum).of([op(ReduceMax).of([x()]), any()]);
    let scale = || op(Divide).of([op(Subtract).of([high(), low()]), any()]).open(0).named("scale");
    let divisor = || op(Maximum).of([scale(), any()]).named("divisor");
    let below = || op(Subtract).of([any(), low()]);
    let point = || op(Round).of([op(Divide).of([below(), divisor()])]).then(Clamp).named("point");
    let steps = op(Round).of([op(Divide).of([x(), divisor()])]);
    let pattern = Pattern::new(
        "quantize/dynamic",
        81,
        &["scale and zero point from the range of the values", "scale times those of the readers' weights"],
        op(TypeCast).of([op(Add).of([steps, point()])]),
    );
    let product = || op(Multiply).of([scale(), any()]).when("it is one number", is_number);
    (0..PRODUCTS).fold(pattern.and_maybe(op(TypeCast).of([point()])), |all, _| all.and_maybe(product()))
}

fn is_number(graph: &Graph, op: &Op) -> bool {
    let dims = |id| graph.tensor(id)?.dims.as_deref();
    let are = |id: Option<&TensorId>, fit: fn(&Option<usize>) -> bool| {
        id.and_then(|&id| dims(id)).is_some_and(|dims: &[Option<usize>]| dims.iter().all(fit))
    };
    are(op.inputs.first(), Option::is_some) && are(op.outputs.first(), |dim| *dim == Some(1))
}

/// The axis of the shorter list that the longer one, one longer, splits in two.
fn split(short: &[usize], long: &[usize]) -> Option<usize> {
    let fits = |&axis: &usize| {
        let (&whole, &outer, &inner) = (&short[axis], &long[axis], &long[axis + 1]);
        short[..axis] == long[..axis] && short[axis + 1..] == long[axis + 2..] && whole == outer * inner
    };
    if short.len() + 1 == long.len() { (0..short.len()).find(fits) } else { None }
}

fn dims(graph: &Graph, op: &Op) -> Option<[Vec<usize>; 2]> {
    let known = |id| Some(graph.tensor(id)?.known_dims()?.to_vec());
    Some([known(*op.inputs.first()?)?, known(*op.outputs.first()?)?])
}

fn splits_axis(graph: &Graph, op: &Op) -> bool {
    dims(graph, op).is_some_and(|[from, to]| split(&from, &to).is_some())
}

fn joins_axes(graph: &Graph, op: &Op) -> bool {
    dims(graph, op).is_some_and(|[from, to]| split(&to, &from).is_some())
}

fn swaps_neighbours(_: &Graph, op: &Op) -> bool {
    let Ok(order) = op.attrs.s64s("order") else { return false };
    let moved: Vec<usize> = (0..order.len()).filter(|&i| order[i] != i as i64).collect();
    matches!(moved[..], [a, b] if b == a + 1 && order[a] == b as i64 && order[b] == a as i64)
}
