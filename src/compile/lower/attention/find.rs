//! Where attention is: the operations around a softmax that one primitive computes.

use anydnn_backend::Dims;

use super::super::chain::Chain;
use super::super::operand::Operand;
use super::super::pointwise::{binary_of, is_unary};
use super::super::region::Region;
use super::{AttentionUnit, Flat};
use crate::compile::liveness::data_inputs;
use crate::formula::{Formula, Match, Web, any, it, one_of, op, steps};
use crate::graph::{Graph, Op, OpKind, TensorId, exchanges_last_axes, normalize_axis};

/// The most operations between a softmax and the product with the value.
const MOST: usize = 16;

/// The most of them that turn and store the weights.
const MOST_TURNED: usize = 4;

/// `weights(softmax(scores(q k))) v`, perhaps with the batches of the scores taken apart behind the first product and joined before the
/// second, or with the weights turned and stored anew.
pub(in super::super) fn formula() -> Formula {
    let kinds = |fits: fn(OpKind) -> bool| {
        let all = OpKind::ALL.iter().chain(OpKind::EXTENSIONS);
        all.copied().filter(|&kind| fits(kind)).collect::<Vec<_>>()
    };
    let view = |name| op(OpKind::StaticReshape).of([it()]).capture(name);
    let product = op(OpKind::MatMul).of([any(), any()]).capture("product").maybe(view("split"));
    let scores = Web { kinds: kinds(in_scores), capture: "scores", aside: (kinds(is_cheap), "aside") };
    let softmax = op(OpKind::SoftMax).of([it()]).open(1).capture("softmax");
    let of_one = |kind| in_scores(kind) && binary_of(kind).is_none() || kind == OpKind::Dropout;
    let one = op(kinds(of_one)).of([it()]);
    let two = op(kinds(|kind| binary_of(kind).is_some())).of([it(), any()]).either();
    let choices = [[any(), it(), any()], [any(), any(), it()]].map(|inputs| op(OpKind::Select).of(inputs));
    let steps = [one, two].into_iter().chain(choices).map(|step| steps![step.capture("weights")]);
    let weights = product.then(scores).then(softmax).repeat(0..=MOST, steps.collect());
    let turned = op([OpKind::StaticTranspose, OpKind::Reorder, OpKind::TypeCast]).of([it()]);
    let turned = turned.when("it exchanges the last two axes or none", exchanges_last).capture("turned");
    let weights = weights.repeat(0..=MOST_TURNED, vec![steps![turned]]);
    let weights = weights.maybe(view("flattened")).named("weights");
    let output = |inputs| op(OpKind::MatMul).of(inputs).capture("output");
    Formula::new(one_of([output([weights.clone(), any()]), output([any(), weights])]))
}

/// The unit of what the formula found.
pub(in super::super) fn make(
    region: &Region<'_>,
    found: &Match,
    taken: &dyn Fn(usize) -> bool,
) -> Option<AttentionUnit> {
    let (product, softmax, output) = (found.op("product")?, found.op("softmax")?, found.op("output")?);
    let (first, second) = (region.op(product), region.op(output));
    let space = region.dims(region.op(softmax).inputs[0])?;
    let axis = normalize_axis(region.op(softmax).attrs.s64("axis").ok()?, space.len()).ok()?;
    let swapped = second.inputs[0] != found.tensor("weights")?;
    let inner = if swapped { "transpose_b" } else { "transpose_a" };
    let mut turned: Vec<usize> = found.all("turned").collect();
    turned.reverse();
    let turns = turned.iter().filter(|&&op| region.kind(op) == OpKind::StaticTranspose).count();
    if axis + 1 != space.len() || second.attrs.bool(inner).ok()? != (swapped != (turns % 2 == 1)) {
        return None;
    }
    let flat = match (found.op("split"), found.op("flattened")) {
        (Some(split), Some(flattened)) if turned.is_empty() => {
            Some(Flat { views: [split, flattened], swapped })
        }
        (None, None) if !swapped => None,
        _ => return None,
    };
    let fits = match flat {
        Some(Flat { views: [_, flattened], .. }) => {
            let ends = [first.outputs[0], region.op(flattened).outputs[0]];
            matrices(region, first, second) && ends.iter().all(|&id| is_flat(region.dims(id), &space))
        }
        None => shapes_fit(region, first, second, &space),
    };
    let start = region.op(flat.map_or(product, |flat| flat.views[0])).outputs[0];
    let mut weights: Vec<usize> = found.all("weights").collect();
    weights.reverse();
    let whole = found.all("scores").chain(weights.iter().copied()).map(|op| region.op(op).outputs[0]);
    let in_space = whole.chain([start]).all(|id| region.dims(id).as_ref() == Some(&space));
    let mut scores: Vec<usize> = found.all("scores").chain(found.all("aside")).collect();
    scores.sort_unstable();
    let operands = [first.inputs[0], first.inputs[1], second.inputs[usize::from(!swapped)]];
    // Each part reads what comes right before it and what is made outside.
    let follows = |ops: &[usize], source: TensorId| {
        let mut reads = ops.iter().flat_map(|&op| data_inputs(region.op(op)));
        reads.all(|&id| id == source || region.is_made_by(ops, id) || !region.is_made_by(&found.ops, id))
    };
    let is_chain = follows(&scores, start)
        && follows(&weights, region.op(softmax).outputs[0])
        && !operands.iter().any(|&id| region.is_made_by(&found.ops, id));
    if !fits || !in_space || !is_chain {
        return None;
    }
    let mut chain = Chain::grow(region, *second.outputs.first()?, taken);
    // Operands of post-operations would have to be split as well.
    if flat.is_some() && chain.links.iter().any(|link| region.op(link.op()).inputs.len() > 1) {
        chain = Chain::none(*second.outputs.first()?);
    }
    let operands = operands.map(Operand::plain).to_vec();
    Some(AttentionUnit { product, scores, softmax, weights, turned, output, flat, chain, operands })
}

/// Whether an operation leaves the order of the axes, or exchanges the last two of them.
fn exchanges_last(graph: &Graph, op: &Op) -> bool {
    if op.kind != OpKind::StaticTranspose {
        return true;
    }
    let rank = op.inputs.first().and_then(|&id| graph.tensor(id)?.known_dims()).map_or(0, |dims| dims.len());
    exchanges_last_axes(op, rank)
}

/// Whether all operands of both products are plain matrices.
fn matrices(region: &Region<'_>, first: &Op, second: &Op) -> bool {
    let mut inputs = first.inputs.iter().chain(&second.inputs);
    first.inputs.len() == 2
        && second.inputs.len() == 2
        && inputs.all(|&id| region.dims(id).is_some_and(|dims| dims.len() == 2))
}

/// Whether a matrix has the rows of all batches of `space` below one another.
fn is_flat(dims: Option<Dims>, space: &Dims) -> bool {
    let (Some(dims), Some((columns, rows))) = (dims, space.split_last()) else { return false };
    space.len() > 2 && *dims == [rows.iter().product(), *columns]
}

/// Whether query, key and value are matrices whose batches are the scores'.
fn shapes_fit(region: &Region<'_>, first: &Op, second: &Op, space: &Dims) -> bool {
    let dims = |id: TensorId| region.dims(id);
    let (Some(query), Some(key)) = (dims(first.inputs[0]), dims(first.inputs[1])) else { return false };
    let (Some(value), Some(result)) = (dims(second.inputs[1]), dims(second.outputs[0])) else { return false };
    let rank = space.len();
    let batch = &space[..rank.saturating_sub(2)];
    let reaches = |dims: &Dims| {
        (2..=rank).contains(&dims.len()) && Dims::new(&dims[..dims.len() - 2]).broadcasts_to(batch)
    };
    first.inputs.len() == 2
        && second.inputs.len() == 2
        && rank >= 2
        && query.len() == rank
        && query[..rank - 2] == *batch
        && reaches(&key)
        && reaches(&value)
        && result.len() == rank
        && result[..rank - 2] == *batch
}

/// Whether an operation can be part of what becomes of a score.
fn in_scores(kind: OpKind) -> bool {
    is_unary(kind)
        || binary_of(kind).is_some()
        || matches!(
            kind,
            OpKind::Select | OpKind::GenIndex | OpKind::TypeCast | OpKind::Quantize | OpKind::Dequantize
        )
}

/// Whether an operation on small tensors may be repeated for every score.
fn is_cheap(kind: OpKind) -> bool {
    binary_of(kind).is_some() || matches!(kind, OpKind::Select | OpKind::GenIndex | OpKind::TypeCast)
}
