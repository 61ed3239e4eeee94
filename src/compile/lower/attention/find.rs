//! Where attention is: the operations around a softmax that one primitive computes.

use std::collections::BTreeSet;

use anydnn_backend::Dims;

use super::super::chain::Chain;
use super::super::operand::Operand;
use super::super::pointwise::{binary_of, is_unary};
use super::super::region::Region;
use super::{AttentionUnit, Flat};
use crate::graph::{Op, OpKind, TensorId, normalize_axis};

/// The attention around a softmax.
pub(in super::super) fn find(
    region: &Region<'_>,
    softmax: usize,
    taken: impl Fn(usize) -> bool,
) -> Option<AttentionUnit> {
    let op = region.op(softmax);
    let scores = *op.inputs.first()?;
    let space = region.dims(scores)?;
    let axis = normalize_axis(op.attrs.s64("axis").ok()?, space.len()).ok()?;
    if taken(softmax) || axis + 1 != space.len() {
        return None;
    }
    let Weights { chain: weights, flattened, output, swapped } =
        weights_chain(region, *op.outputs.first()?, &space, &taken)?;
    let (product, split, scores) = score_chain(region, softmax, scores, &space, &taken)?;
    let (first, second) = (region.op(product), region.op(output));
    let flat = match (split, flattened) {
        (Some(split), Some(flattened)) => Some(Flat { views: [split, flattened], swapped }),
        (None, None) if !swapped => None,
        _ => return None,
    };
    let fits = if flat.is_some() {
        matrices(region, first, second)
    } else {
        shapes_fit(region, first, second, &space)
    };
    if product == output || !fits {
        return None;
    }
    let mut chain = Chain::grow(region, *second.outputs.first()?, &taken);
    // Operands of post-operations would have to be split as well.
    if flat.is_some()
        && chain.links.iter().any(|link| link.op().is_none_or(|op| region.op(op).inputs.len() > 1))
    {
        chain = Chain::none(*second.outputs.first()?);
    }
    let value = usize::from(!swapped);
    let operands = [first.inputs[0], first.inputs[1], second.inputs[value]].map(Operand::plain).to_vec();
    Some(AttentionUnit { product, scores, softmax, weights, output, flat, chain, operands })
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

/// What becomes of the weights of a softmax.
struct Weights {
    /// The operations on them.
    chain: Vec<usize>,
    /// The reshape that makes all batches one matrix.
    flattened: Option<usize>,
    /// The product with the value.
    output: usize,
    /// Whether the value comes first.
    swapped: bool,
}

/// The operations from a softmax to the product with the value, and that product.
fn weights_chain(
    region: &Region<'_>,
    start: TensorId,
    space: &Dims,
    taken: &impl Fn(usize) -> bool,
) -> Option<Weights> {
    let (mut chain, mut flattened) = (Vec::new(), None);
    let mut tensor = start;
    loop {
        let op = region.only_reader(tensor).filter(|&op| !taken(op))?;
        let operation = region.op(op);
        if operation.kind == OpKind::MatMul {
            let swapped = operation.inputs[0] != tensor;
            let fits =
                operation.attrs.bool(if swapped { "transpose_b" } else { "transpose_a" }).ok()? == swapped;
            return fits.then_some(Weights { chain, flattened, output: op, swapped });
        }
        let result = region.only_result(op)?;
        if operation.kind == OpKind::StaticReshape
            && flattened.is_none()
            && is_flat(region.dims(result), space)
        {
            flattened = Some(op);
        } else {
            let pointwise = in_scores(operation.kind) || operation.kind == OpKind::Dropout;
            if !pointwise || flattened.is_some() || region.dims(result)? != *space {
                return None;
            }
            chain.push(op);
        }
        tensor = result;
    }
}

/// The product whose results a softmax takes, the reshape that takes its batches apart, and the operations between them.
fn score_chain(
    region: &Region<'_>,
    softmax: usize,
    scores: TensorId,
    space: &Dims,
    taken: &impl Fn(usize) -> bool,
) -> Option<(usize, Option<usize>, Vec<usize>)> {
    // Everything element by element above the scores.
    let mut above = BTreeSet::new();
    let mut products = BTreeSet::new();
    let mut open = vec![scores];
    while let Some(id) = open.pop() {
        let Some(op) = region.producer(id).filter(|&op| !taken(op)) else { continue };
        let operation = region.op(op);
        if operation.kind == OpKind::MatMul {
            products.insert((op, None));
        } else if let Some(product) = behind(region, op, space).filter(|&op| !taken(op)) {
            products.insert((product, Some(op)));
        } else if in_scores(operation.kind) && above.insert(op) && operation.kind != OpKind::GenIndex {
            open.extend(&operation.inputs);
        }
    }
    products.into_iter().rev().find_map(|(product, split)| {
        let start = *region.op(split.unwrap_or(product)).outputs.first()?;
        let inner = between(region, start, softmax, scores, space, &above)?;
        Some((product, split, inner))
    })
}

/// The product behind a reshape that takes its batches apart.
fn behind(region: &Region<'_>, view: usize, space: &Dims) -> Option<usize> {
    let operation = region.op(view);
    let before = *operation.inputs.first()?;
    let product = region.producer(before)?;
    let fits = operation.kind == OpKind::StaticReshape
        && is_flat(region.dims(before), space)
        && region.only_reader(before) == Some(view)
        && region.kind(product) == OpKind::MatMul;
    fits.then_some(product)
}

/// The operations of `above` between a product's result and the scores, if nothing else reads what they make.
fn between(
    region: &Region<'_>,
    start: TensorId,
    softmax: usize,
    scores: TensorId,
    space: &Dims,
    above: &BTreeSet<usize>,
) -> Option<Vec<usize>> {
    let mut made = vec![start];
    let mut inner: BTreeSet<usize> = BTreeSet::new();
    for &op in above {
        let operation = region.op(op);
        if operation.kind != OpKind::GenIndex && operation.inputs.iter().any(|id| made.contains(id)) {
            inner.insert(op);
            made.extend(&operation.outputs);
        }
    }
    let closed = |id: &TensorId| {
        let readers = region.readers(*id);
        let own = |op: &usize| inner.contains(op) || *id == scores && *op == softmax;
        region.dims(*id).as_ref() == Some(space) && !region.leaves(*id) && readers.iter().all(own)
    };
    if !made.contains(&scores) || !made.iter().all(closed) {
        return None;
    }
    // What is computed of other tensors for these operations alone, such as an index or the cast of a mask.
    for &op in above.iter().rev() {
        let alone = |id: &TensorId| {
            !region.leaves(*id) && region.readers(*id).iter().all(|reader| inner.contains(reader))
        };
        if !inner.contains(&op) && is_cheap(region.kind(op)) && region.op(op).outputs.iter().all(alone) {
            inner.insert(op);
        }
    }
    Some(inner.into_iter().collect())
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
