//! Gated products: two matrix products of one source, multiplied with each other or joined otherwise, one of them perhaps through an
//! activation.

use anydnn_backend::op::{BinaryAlgorithm, Eltwise, GatedMatMul};
use anydnn_backend::{Arg, Quantized, Result};

use super::chain::{Chain, gated_eltwise};
use super::operand::{Operand, Read};
use super::pointwise::{binary_of, eltwise_of};
use super::post_ops::Dequantized;
use super::region::Region;
use super::{Anchor, ToPrimitive, matmul, post_ops};
use crate::compile::program::{Program, declared};
use crate::formula::parts::{BINARY, UNARY, gated_by_itself};
use crate::formula::{Formula, Match, any, it, op, steps};
use crate::graph::{OpKind, TensorId};

/// The operations of a gated product.
#[derive(Clone, Debug)]
pub(super) struct GatedUnit {
    /// The product that the gate is joined with.
    up: usize,
    /// What joins them.
    join: BinaryAlgorithm,
    /// What becomes of the other product.
    activation: Eltwise,
    /// All of its own operations.
    own: Vec<usize>,
    chain: Chain,
    /// The source, the weights of `up`, those of the gate.
    operands: Vec<Operand>,
}

/// `up(x) * activation(gate(x))`, or another function of the two.
pub(super) fn formula() -> Formula {
    let product = |name| {
        let product = op(OpKind::MatMul).of([any().named("x"), any()]);
        product.when("it has no bias", |_, op| op.inputs.len() == 2).capture(name)
    };
    let unary = op(UNARY.as_slice()).of([it()]).capture("activation");
    let gate = product("gate").repeat(0..=1, vec![steps![gated_by_itself(&it())], steps![unary]]);
    Formula::new(op(BINARY).of([product("up"), gate]).capture("join"))
}

/// The unit of what the formula found.
pub(super) fn make(region: &Region<'_>, found: &Match, taken: &dyn Fn(usize) -> bool) -> Option<GatedUnit> {
    let (up, join) = (found.op("up")?, region.op(found.op("join")?));
    let (first, second) = (region.op(up), region.op(found.op("gate")?));
    let operands = [first.inputs[0], first.inputs[1], second.inputs[1]];
    let alike = |name| Some(first.attrs.bool(name).ok()? == second.attrs.bool(name).ok()?);
    let same_weights = region.dims(first.inputs[1]) == region.dims(second.inputs[1]);
    let ends = [first.inputs[0], first.inputs[1], first.outputs[0]];
    let is_matrix = ends.iter().all(|&id| region.dims(id).is_some_and(|dims| dims.len() >= 2));
    let same_result = region.dims(first.outputs[0]) == region.dims(join.outputs[0]);
    let fits = same_weights && is_matrix && same_result && alike("transpose_a")? && alike("transpose_b")?;
    if !fits || operands.iter().any(|&id| region.is_made_by(&found.ops, id)) {
        return None;
    }
    let activation = match found.op("sigmoid") {
        Some(sigmoid) => gated_eltwise(region.op(sigmoid)).ok()?,
        None => match found.op("activation") {
            Some(activation) => eltwise_of(region.op(activation)).ok()?,
            None => Eltwise::Linear { alpha: 1.0, beta: 0.0 },
        },
    };
    let (own, join_by) = (found.ops.clone(), binary_of(join.kind)?);
    let chain = Chain::grow(region, *join.outputs.first()?, taken);
    let operands = operands.map(Operand::plain).to_vec();
    Some(GatedUnit { up, join: join_by, activation, own, chain, operands })
}

impl GatedUnit {
    /// All of its operations.
    pub(super) fn ops(&self) -> Vec<usize> {
        [&self.own[..], &self.chain.ops].concat()
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
        let reads = self.operands.iter().map(|operand| operand.read(program)).collect::<Result<Vec<_>>>()?;
        let rank = reads.iter().map(|read| read.value.desc.rank()).max().unwrap_or(2);
        let places = [Quantized::Src(0), Quantized::Weights, Quantized::Src(1)];
        let mut args = Vec::new();
        let mut dequantized = Vec::new();
        for (i, (Read { value, scales }, operand)) in reads.into_iter().zip(places).enumerate() {
            let view = |desc: &_| matmul::matrix(desc, transposed[i.min(1)], i == 0, rank);
            let element = value.desc.data_type();
            args.push((operand.arg(), value.with_desc(view(&value.desc)?)));
            if let Some(scales) = scales {
                let scales = scales.viewed(view)?;
                let zero_point = scales.zero_point(program, rank, element);
                let scale = scales.scale(program, rank);
                let own = declared(program.graph, up.inputs[i.min(1)])?.data_type();
                let fpmath = Dequantized::permitted(own);
                dequantized.push(Dequantized { operand, scale, zero_point, fpmath });
            }
        }
        let anchor = Anchor {
            op: anydnn_backend::Op::GatedMatMul(GatedMatMul::new(self.activation).with_join(self.join)),
            args,
            shape: ToPrimitive::default(),
            extra: Vec::new(),
        };
        debug_assert!(matches!(anchor.args[1].0, Arg::Weights));
        post_ops::emit(program, anchor, dequantized, None, &self.chain, ops)
    }
}
