//! Attention: two matrix products with a softmax between them, as one primitive that never stores the scores.

use std::collections::BTreeSet;

use anydnn_backend::op::{Attention, Expression, Node};
use anydnn_backend::{Arg, Dims, Quantized, Result};

use super::chain::Chain;
use super::expression::score_nodes;
use super::operand::{Operand, Read};
use super::pointwise::{binary_of, is_unary};
use super::region::Region;
use super::tail::Dequantized;
use super::{Anchor, ToPrimitive, matmul, tail};
use crate::compile::program::{Program, Value, declared};
use crate::graph::{Op, OpKind, TensorId, normalize_axis};

/// The operations of an attention.
#[derive(Clone, Debug)]
pub(super) struct AttentionUnit {
    /// The product of query and key.
    product: usize,
    /// From products to scores, ascending; what is computed of other tensors on the way included.
    scores: Vec<usize>,
    softmax: usize,
    /// From softmax weights to what multiplies the value, in order.
    weights: Vec<usize>,
    /// The product of weights and value.
    output: usize,
    chain: Chain,
    /// Query, key and value.
    operands: Vec<Operand>,
}

/// The attention around a softmax.
pub(super) fn find(
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
    let (weights, output) = weights_chain(region, *op.outputs.first()?, &space, &taken)?;
    let (product, scores) = score_chain(region, softmax, scores, &space, &taken)?;
    let (first, second) = (region.op(product), region.op(output));
    if product == output || !shapes_fit(region, first, second, &space) {
        return None;
    }
    let chain = Chain::grow(region, *second.outputs.first()?, &taken);
    let operands = [first.inputs[0], first.inputs[1], second.inputs[1]].map(Operand::plain).to_vec();
    Some(AttentionUnit { product, scores, softmax, weights, output, chain, operands })
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

/// The operations from a softmax to the product with the value, and that product.
fn weights_chain(
    region: &Region<'_>,
    start: TensorId,
    space: &Dims,
    taken: &impl Fn(usize) -> bool,
) -> Option<(Vec<usize>, usize)> {
    let mut chain = Vec::new();
    let mut tensor = start;
    loop {
        let op = region.only_reader(tensor).filter(|&op| !taken(op))?;
        let operation = region.op(op);
        if operation.kind == OpKind::MatMul {
            let fits = operation.inputs[0] == tensor && !operation.attrs.bool("transpose_a").ok()?;
            return fits.then_some((chain, op));
        }
        let pointwise = in_scores(operation.kind) || operation.kind == OpKind::Dropout;
        let result = region.only_result(op)?;
        if !pointwise || region.dims(result)? != *space {
            return None;
        }
        chain.push(op);
        tensor = result;
    }
}

/// The product whose results a softmax takes, and the operations between them.
fn score_chain(
    region: &Region<'_>,
    softmax: usize,
    scores: TensorId,
    space: &Dims,
    taken: &impl Fn(usize) -> bool,
) -> Option<(usize, Vec<usize>)> {
    // Everything element by element above the scores.
    let mut above = BTreeSet::new();
    let mut products = BTreeSet::new();
    let mut open = vec![scores];
    while let Some(id) = open.pop() {
        let Some(op) = region.producer(id).filter(|&op| !taken(op)) else { continue };
        let operation = region.op(op);
        if operation.kind == OpKind::MatMul {
            products.insert(op);
        } else if in_scores(operation.kind) && above.insert(op) && operation.kind != OpKind::GenIndex {
            open.extend(&operation.inputs);
        }
    }
    products.into_iter().rev().find_map(|product| {
        let inner = between(region, product, softmax, scores, space, &above)?;
        Some((product, inner))
    })
}

/// The operations of `above` between a product and the scores, if nothing else reads what they make.
fn between(
    region: &Region<'_>,
    product: usize,
    softmax: usize,
    scores: TensorId,
    space: &Dims,
    above: &BTreeSet<usize>,
) -> Option<Vec<usize>> {
    let start = *region.op(product).outputs.first()?;
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

impl AttentionUnit {
    /// All of its operations.
    pub(super) fn ops(&self) -> Vec<usize> {
        let own = [self.product, self.softmax, self.output];
        own.into_iter()
            .chain([&self.scores, &self.weights, &self.chain.ops].into_iter().flatten().copied())
            .collect()
    }

    pub(super) fn plan_operands(
        &mut self,
        region: &Region<'_>,
        taken: impl Fn(usize) -> bool,
    ) -> Vec<TensorId> {
        let mut reads = Vec::new();
        for operand in &mut self.operands {
            *operand = Operand::plan(region, operand.tensor, true, &taken);
            reads.extend(operand.reads(region.graph));
        }
        let inner = self.ops();
        for &op in self.scores.iter().chain(&self.weights) {
            let outer = |id: &TensorId| region.producer(*id).is_none_or(|op| !inner.contains(&op));
            reads.extend(crate::compile::liveness::data_inputs(region.op(op)).iter().copied().filter(outer));
        }
        self.chain.plan_operands(region, taken);
        reads.extend(self.chain.reads(region));
        reads
    }

    /// Emits the primitive.
    pub(super) fn emit(&self, program: &mut Program<'_>, region: &Region<'_>, ops: Vec<usize>) -> Result<()> {
        let graph = program.graph;
        let (first, second) = (region.op(self.product), region.op(self.output));
        let softmax = region.op(self.softmax);
        let rank = declared(graph, softmax.inputs[0])?.rank();
        // A key is rows of its own, as the query: transposed where the product takes it as it is.
        let transposed = [
            first.attrs.bool("transpose_a")?,
            !first.attrs.bool("transpose_b")?,
            second.attrs.bool("transpose_b")?,
        ];
        let mut args = Vec::new();
        let mut dequantized = Vec::new();
        for (i, (operand, transposed)) in self.operands.iter().zip(transposed).enumerate() {
            let Read { value, scales } = operand.read(program)?;
            let view = |desc: &_| matmul::matrix(desc, transposed, false, rank);
            args.push((Arg::Src(i as u16), value.with_desc(view(&value.desc)?)));
            if let Some(scales) = scales {
                let scales = scales.viewed(view)?;
                let zero_point = scales.zero_point(program, rank);
                let scale = scales.scale(program, rank);
                dequantized.push(Dequantized { operand: Quantized::Src(i as u16), scale, zero_point });
            }
        }
        let space = declared(graph, softmax.inputs[0])?.dims().clone();
        let mut operands: Vec<Value> = Vec::new();
        let scores =
            expression(program, &space, &self.scores, first.outputs[0], softmax.inputs[0], &mut operands)?;
        // Casts alone would only lose precision.
        let weights = if self.weights.iter().all(|&op| region.casts_floats(op)) {
            None
        } else {
            let (from, to) = (softmax.outputs[0], second.inputs[0]);
            Some(expression(program, &space, &self.weights, from, to, &mut operands)?)
        };
        args.extend(operands.into_iter().enumerate().map(|(i, value)| (Arg::Src(i as u16 + 3), value)));
        let inf_as_zero = softmax.attrs.string("mode").is_ok_and(|mode| mode == "inf_as_zero");
        let mut extra = Vec::new();
        if let Some(&stats) = softmax.outputs.get(1).filter(|&&id| region.is_read(id)) {
            extra.push((Arg::Dst(1), program.result(stats)?));
        }
        let anchor = Anchor {
            op: anydnn_backend::Op::Attention(Attention { scores, weights, inf_as_zero }),
            args,
            shape: ToPrimitive::default(),
            extra,
        };
        tail::emit(program, anchor, dequantized, Vec::new(), &self.chain, ops)
    }
}

/// The expression over the scores that operations are.
fn expression(
    program: &mut Program<'_>,
    space: &Dims,
    ops: &[usize],
    input: TensorId,
    output: TensorId,
    operands: &mut Vec<Value>,
) -> Result<Expression> {
    let mut expression = Expression::new(space.clone());
    let result = if ops.is_empty() {
        expression.push(Node::Operand(0))
    } else {
        score_nodes(program, &mut expression, ops, input, output, operands)?
    };
    expression.results.push(result);
    Ok(expression)
}
