//! Sums of matrix products over batches: one product whose inner dimension has the batches and the terms of each.
//!
//! The gradients of keys and values that several queries share are such sums.

use anydnn_backend::{Arg, Result};

use super::chain::Chain;
use super::operand::{Operand, Read};
use super::region::Region;
use super::{Anchor, ToPrimitive, matmul, post_ops, views};
use crate::compile::program::{Program, Value};
use crate::formula::{Formula, Match, any, op};
use crate::graph::{OpKind, TensorId, normalize_axis};

/// The operations of a product and the sum of its batches.
#[derive(Clone, Debug)]
pub(super) struct SummedUnit {
    product: usize,
    sum: usize,
    chain: Chain,
    operands: [Operand; 2],
}

/// `sum(a b)` over the last dimension of the batches.
pub(super) fn formula() -> Formula {
    let product = op(OpKind::MatMul).of([any(), any()]).capture("product");
    let product = product.when("it has no bias", |_, op| op.inputs.len() == 2);
    let sum = op(OpKind::ReduceSum).of([product]).capture("sum");
    Formula::new(sum.when("its axes are known", |_, op| op.inputs.len() == 1))
}

/// The unit of what the formula found.
pub(super) fn make(region: &Region<'_>, found: &Match, taken: &dyn Fn(usize) -> bool) -> Option<SummedUnit> {
    let (product, sum) = (found.op("product")?, found.op("sum")?);
    let (first, second) = (region.op(product), region.op(sum));
    let dims = region.dims(first.outputs[0])?;
    let rank = dims.len();
    let &[axis] = second.attrs.s64s("axes").ok()? else { return None };
    let summed = normalize_axis(axis, rank).ok()?;
    // Both factors have the batches that are summed, and lie as rows below one another: then they are longer ones as they are.
    let whole = |id: TensorId| {
        let own = region.dims(id)?;
        (own.len() == rank && own[summed] == dims[summed]).then_some(())
    };
    first.inputs.iter().try_for_each(|&id| whole(id))?;
    let by_rows = first.attrs.bool("transpose_a").ok()? && !first.attrs.bool("transpose_b").ok()?;
    if rank < 3 || summed + 3 != rank || !by_rows {
        return None;
    }
    let chain = Chain::grow(region, *second.outputs.first()?, taken);
    let operands = [first.inputs[0], first.inputs[1]].map(Operand::plain);
    Some(SummedUnit { product, sum, chain, operands })
}

impl SummedUnit {
    /// All of its operations.
    pub(super) fn ops(&self) -> Vec<usize> {
        [&[self.product, self.sum][..], &self.chain.ops].concat()
    }

    pub(super) fn plan_operands(
        &mut self,
        region: &Region<'_>,
        taken: impl Fn(usize) -> bool,
    ) -> Vec<TensorId> {
        let mut reads = Vec::new();
        for operand in &mut self.operands {
            *operand = Operand::plan(region, operand.tensor, false, &taken);
            reads.extend(operand.reads(region.graph));
        }
        self.chain.plan_operands(region, taken);
        reads.extend(self.chain.reads(region));
        reads
    }

    /// Emits the primitive.
    pub(super) fn emit(&self, program: &mut Program<'_>, region: &Region<'_>, ops: Vec<usize>) -> Result<()> {
        let [src, weights] = &self.operands;
        let (src, weights) = (self.joined(program, src)?, self.joined(program, weights)?);
        let src = src.with_desc(matmul::matrix(&src.desc, true, true, src.desc.rank())?);
        let keeps = region.op(self.sum).attrs.bool("keep_dims")?;
        let insert = if keeps { Vec::new() } else { vec![src.desc.rank() - 3] };
        let anchor = Anchor {
            op: anydnn_backend::Op::MatMul(anydnn_backend::op::MatMul),
            args: vec![(Arg::SRC, src), (Arg::Weights, weights)],
            shape: ToPrimitive { insert, ..ToPrimitive::default() },
            extra: Vec::new(),
        };
        post_ops::emit(program, anchor, Vec::new(), None, &self.chain, ops)
    }

    /// `[.., batches, rows, columns]` as `[.., 1, batches rows, columns]`.
    fn joined(&self, program: &mut Program<'_>, operand: &Operand) -> Result<Value> {
        let Read { value, .. } = operand.read(program)?;
        let mut dims = value.desc.dims().clone();
        let rank = dims.len();
        dims[rank - 2] *= dims[rank - 3];
        dims[rank - 3] = 1;
        views::reshaped(program, value, &dims, self.product)
    }
}
