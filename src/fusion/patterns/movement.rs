//! Movement of elements: reordering, joining, quantising, shuffling channels.

use super::shared::{QUANTIZED, dequantized};
use crate::formula::{any, it, op, perhaps, steps};
use crate::fusion::pattern::Pattern;
use crate::graph::OpKind::{
    Add, Concat, Dequantize, Quantize, Reorder, StaticReshape, StaticTranspose, TypeCast,
};
use crate::graph::{Graph, Op};

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
