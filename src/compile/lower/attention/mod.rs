//! Attention: two matrix products with a softmax between them, as one primitive that never stores the scores.

mod find;

use anydnn_backend::op::{Attention, Expression, Node};
use anydnn_backend::{Arg, Dims, FpMath, MemoryDesc, Quantized, Result};

pub(super) use self::find::{formula, make};
use super::chain::Chain;
use super::expression::score_nodes;
use super::operand::{Operand, Read};
use super::post_ops::Dequantized;
use super::region::Region;
use super::{Anchor, ToPrimitive, matmul, post_ops};
use crate::compile::program::{Program, Value, declared};
use crate::graph::TensorId;

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
    /// Behind them, in order: what turns the weights for a product that takes them the other way round, and what stores them anew.
    turned: Vec<usize>,
    /// The product of weights and value.
    output: usize,
    /// For many queries of one key and value, whose batches the products have as rows.
    flat: Option<Flat>,
    chain: Chain,
    /// Query, key and value.
    operands: Vec<Operand>,
}

/// Products of all batches' rows at once, with the batches apart between them only.
#[derive(Clone, Copy, Debug)]
struct Flat {
    /// The reshapes behind the first product and before the second.
    views: [usize; 2],
    /// Whether the second product is that of value and weights, its result the other way round.
    swapped: bool,
}

impl AttentionUnit {
    /// All of its operations.
    pub(super) fn ops(&self) -> Vec<usize> {
        let own = [self.product, self.softmax, self.output];
        let views = self.flat.map(|flat| flat.views);
        own.into_iter()
            .chain(views.into_iter().flatten())
            .chain(
                [&self.scores, &self.weights, &self.turned, &self.chain.ops].into_iter().flatten().copied(),
            )
            .collect()
    }

    pub(super) fn plan_operands(
        &mut self,
        region: &Region<'_>,
        taken: impl Fn(usize) -> bool,
    ) -> Vec<TensorId> {
        let mut reads = Vec::new();
        for operand in &mut self.operands {
            // Scales would have to be split as their operand.
            *operand = Operand::plan(region, operand.tensor, self.flat.is_none(), &taken);
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
        let space = declared(graph, softmax.inputs[0])?.dims().clone();
        let rank = space.len();
        let swapped = self.flat.is_some_and(|flat| flat.swapped);
        // A key is rows of its own, as the query: transposed where the product takes it as it is.
        let transposed = [
            first.attrs.bool("transpose_a")?,
            !first.attrs.bool("transpose_b")?,
            if swapped { !second.attrs.bool("transpose_a")? } else { second.attrs.bool("transpose_b")? },
        ];
        let mut args = Vec::new();
        let mut dequantized = Vec::new();
        for (i, (operand, transposed)) in self.operands.iter().zip(transposed).enumerate() {
            let Read { value, scales } = operand.read(program)?;
            let is_split = i == 0 && self.flat.is_some();
            let element = value.desc.data_type();
            let view = |desc: &MemoryDesc| match matmul::matrix(
                desc,
                transposed,
                false,
                if is_split { 2 } else { rank },
            ) {
                Ok(matrix) if is_split => split_rows(&matrix, &space),
                matrix => matrix,
            };
            args.push((Arg::Src(i as u16), value.with_desc(view(&value.desc)?)));
            if let Some(scales) = scales {
                let scales = scales.viewed(view)?;
                let zero_point = scales.zero_point(program, rank, element);
                let scale = scales.scale(program, rank);
                let (operand, fpmath) = (Quantized::Src(i as u16), FpMath::Strict);
                dequantized.push(Dequantized { operand, scale, zero_point, fpmath });
            }
        }
        let mut operands: Vec<Value> = Vec::new();
        let (from, to) = if let Some(Flat { views: [split, flattened], .. }) = self.flat {
            (region.op(split).outputs[0], region.op(flattened).inputs[0])
        } else {
            let last = self.turned.first().map_or(second, |&op| region.op(op));
            (first.outputs[0], last.inputs[0])
        };
        let scores = expression(program, &space, &self.scores, from, softmax.inputs[0], &mut operands)?;
        // Casts alone would only lose precision.
        let weights = if self.weights.iter().all(|&op| region.casts_floats(op)) {
            None
        } else {
            Some(expression(program, &space, &self.weights, softmax.outputs[0], to, &mut operands)?)
        };
        args.extend(operands.into_iter().enumerate().map(|(i, value)| (Arg::Src(i as u16 + 3), value)));
        let inf_as_zero = softmax.attrs.says("mode", "inf_as_zero");
        let mut extra = Vec::new();
        if let Some(&stats) = softmax.outputs.get(1).filter(|&&id| region.is_read(id)) {
            extra.push((Arg::Dst(1), program.result(stats)?));
        }
        let anchor = Anchor {
            op: anydnn_backend::Op::Attention(Attention { scores, weights, inf_as_zero }),
            args,
            shape: ToPrimitive {
                insert: Vec::new(),
                order: swapped.then(|| vec![1, 0]),
                rows: self.flat.map(|_| Dims::new(&space[..rank - 1])),
            },
            extra,
        };
        post_ops::emit(program, anchor, dequantized, None, &self.chain, ops)
    }
}

/// A matrix with its rows taken apart as those of `space` are.
fn split_rows(matrix: &MemoryDesc, space: &Dims) -> Result<MemoryDesc> {
    let columns = matrix.dims().last().copied().unwrap_or(1);
    let rows = &space[..space.len().saturating_sub(1)];
    matrix.reshaped(Dims::new(&[rows, &[columns]].concat()))
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
