//! Gated products: two matrix products of one source, multiplied with each other, one of them through an activation.

use anydnn_backend::op::{Eltwise, GatedMatMul};
use anydnn_backend::{Arg, Quantized, Result};

use super::chain::{Chain, swish};
use super::operand::{Operand, Read};
use super::pointwise::{eltwise_of, is_unary};
use super::post_ops::Dequantized;
use super::region::Region;
use super::{Anchor, ToPrimitive, matmul, post_ops};
use crate::compile::program::Program;
use crate::graph::{OpKind, TensorId};

/// The operations of a gated product.
#[derive(Clone, Debug)]
pub(super) struct GatedUnit {
    up: usize,
    gate: usize,
    /// From the gate's product to what multiplies the other.
    activation: Vec<usize>,
    multiply: usize,
    chain: Chain,
    /// The source, the weights of `up`, those of `gate`.
    operands: Vec<Operand>,
}

/// The gated product that ends in a multiplication.
pub(super) fn find(region: &Region<'_>, multiply: usize, taken: impl Fn(usize) -> bool) -> Option<GatedUnit> {
    let op = region.op(multiply);
    let &[a, b] = op.inputs.as_slice() else { return None };
    let sides = [(a, b), (b, a)];
    sides.into_iter().filter(|_| !taken(multiply)).find_map(|(up, gate)| {
        let up = product(region, up, multiply, &taken)?;
        let (gate, activation) = gate_of(region, gate, multiply, &taken)?;
        let (first, second) = (region.op(up), region.op(gate));
        let same_weights = region.dims(first.inputs[1]) == region.dims(second.inputs[1])
            && first.attrs.bool("transpose_b").ok()? == second.attrs.bool("transpose_b").ok()?;
        let same_source = first.inputs[0] == second.inputs[0]
            && first.attrs.bool("transpose_a").ok()? == second.attrs.bool("transpose_a").ok()?;
        let ranks = [first.inputs[0], first.inputs[1], first.outputs[0]]
            .map(|id| region.dims(id).map_or(0, |d| d.len()));
        let is_matrix = ranks.iter().all(|&rank| rank >= 2);
        let same_result = region.dims(first.outputs[0]) == region.dims(op.outputs[0]);
        if up == gate || !same_weights || !same_source || !is_matrix || !same_result {
            return None;
        }
        let chain = Chain::grow(region, *op.outputs.first()?, &taken);
        let operands = [first.inputs[0], first.inputs[1], second.inputs[1]].map(Operand::plain).to_vec();
        Some(GatedUnit { up, gate, activation, multiply, chain, operands })
    })
}

/// The product without a bias that makes a tensor which nothing but `reader` reads.
fn product(
    region: &Region<'_>,
    id: TensorId,
    reader: usize,
    taken: &impl Fn(usize) -> bool,
) -> Option<usize> {
    let op = region.producer(id).filter(|&op| !taken(op))?;
    let fits = region.kind(op) == OpKind::MatMul && region.op(op).inputs.len() == 2;
    (fits && region.only_reader(id) == Some(reader)).then_some(op)
}

/// The product behind an activation, and the operations of that.
fn gate_of(
    region: &Region<'_>,
    id: TensorId,
    reader: usize,
    taken: &impl Fn(usize) -> bool,
) -> Option<(usize, Vec<usize>)> {
    let last = region.producer(id).filter(|&op| !taken(op))?;
    if region.only_reader(id) != Some(reader) {
        return None;
    }
    if is_unary(region.kind(last)) {
        let source = region.op(last).inputs[0];
        return Some((product(region, source, last, taken)?, vec![last]));
    }
    // x * sigmoid(x)
    region.op(last).inputs.iter().find_map(|&source| {
        let [sigmoid, multiply] = swish(region, source).filter(|&[_, multiply]| multiply == last)?;
        let op = region.producer(source).filter(|&op| !taken(op) && !taken(sigmoid))?;
        let fits = region.kind(op) == OpKind::MatMul && region.op(op).inputs.len() == 2;
        fits.then(|| (op, vec![sigmoid, multiply]))
    })
}

impl GatedUnit {
    /// All of its operations.
    pub(super) fn ops(&self) -> Vec<usize> {
        let own = [self.up, self.gate, self.multiply];
        own.into_iter().chain([&self.activation, &self.chain.ops].into_iter().flatten().copied()).collect()
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
        self.chain.plan_operands(region, taken);
        reads.extend(self.chain.reads(region));
        reads
    }

    /// Emits the primitive.
    pub(super) fn emit(&self, program: &mut Program<'_>, region: &Region<'_>, ops: Vec<usize>) -> Result<()> {
        let up = region.op(self.up);
        let transposed = [up.attrs.bool("transpose_a")?, up.attrs.bool("transpose_b")?];
        let activation = match self.activation.as_slice() {
            &[unary] => eltwise_of(region.op(unary))?,
            _ => Eltwise::Swish { alpha: 1.0 },
        };
        let reads = self.operands.iter().map(|operand| operand.read(program)).collect::<Result<Vec<_>>>()?;
        let rank = reads.iter().map(|read| read.value.desc.rank()).max().unwrap_or(2);
        let places = [Quantized::Src(0), Quantized::Weights, Quantized::Src(1)];
        let mut args = Vec::new();
        let mut dequantized = Vec::new();
        for (i, (Read { value, scales }, operand)) in reads.into_iter().zip(places).enumerate() {
            let view = |desc: &_| matmul::matrix(desc, transposed[i.min(1)], i == 0, rank);
            args.push((operand.arg(), value.with_desc(view(&value.desc)?)));
            if let Some(scales) = scales {
                let scales = scales.viewed(view)?;
                let zero_point = scales.zero_point(program, rank);
                let scale = scales.scale(program, rank);
                dequantized.push(Dequantized { operand, scale, zero_point });
            }
        }
        let anchor = Anchor {
            op: anydnn_backend::Op::GatedMatMul(GatedMatMul::new(activation)),
            args,
            shape: ToPrimitive::default(),
            extra: Vec::new(),
        };
        debug_assert!(matches!(anchor.args[1].0, Arg::Weights));
        post_ops::emit(program, anchor, dequantized, Vec::new(), &self.chain, ops)
    }
}
