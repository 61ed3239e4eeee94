//! Gated products as two products, for devices whose tiles for one product are much faster than those with two sums: the first makes the
//! gate with its activation in working memory, the second is joined with it as it is stored.

use anydnn_backend::op::{MatMul, Op};
use anydnn_backend::{Arg, MemoryDesc, PostOp, PrimitiveDesc, PrimitiveDescBuilder, Quantized};

use super::Shape;
use crate::plan::{DeviceTraits, LaunchArg};
use crate::primitive::choice::Planned;
use crate::primitive::embedded::{Scratch, embedded};
use crate::primitive::value::Value;

impl Shape<'_> {
    /// Both products with what each of them has best.
    pub(super) fn apart(&self, value: Value, device: &DeviceTraits) -> Option<Planned> {
        let Op::GatedMatMul(op) = *self.desc.op() else { return None };
        let middle = MemoryDesc::new(self.desc.dst().dims().clone(), value.storage());
        let mut scratch = Scratch::default();
        let at = LaunchArg::Scratchpad { offset: scratch.take(middle.size()) };

        let activation = PostOp::Eltwise(op.activation);
        let gate = self.product(self.gate?, Quantized::Src(1), vec![activation]);
        let gate = gate.dst(middle.clone()).build().ok()?;
        let mut launches = embedded(&gate, device, &mut scratch, |arg| match arg {
            Arg::DST => at,
            Arg::Weights => LaunchArg::Memory(Arg::Src(1)),
            Arg::ScaleOf(Quantized::Weights) => LaunchArg::Memory(Arg::ScaleOf(Quantized::Src(1))),
            Arg::ZeroPointOf(Quantized::Weights) => LaunchArg::Memory(Arg::ZeroPointOf(Quantized::Src(1))),
            other => LaunchArg::Memory(other),
        })?;

        let join = PostOp::Binary { algorithm: op.join, operand: middle, reversed: false };
        let post_ops = [join].into_iter().chain(self.desc.attributes().post_ops.iter().cloned()).collect();
        let product = self.product(self.weights, Quantized::Weights, post_ops);
        let product = product.dst(self.desc.dst().clone()).build().ok()?;
        launches.extend(embedded(&product, device, &mut scratch, |arg| match arg {
            Arg::PostOp(0) => at,
            Arg::PostOp(i) => LaunchArg::Memory(Arg::PostOp(i - 1)),
            Arg::PostOpOther(i) => LaunchArg::Memory(Arg::PostOpOther(i.saturating_sub(1))),
            other => LaunchArg::Memory(other),
        })?);
        Some(Planned { scratchpad: scratch.bytes, launches })
    }

    /// The product with these weights, dequantised as those of the gated one's `operand`.
    fn product(
        &self,
        weights: &MemoryDesc,
        operand: Quantized,
        post_ops: Vec<PostOp>,
    ) -> PrimitiveDescBuilder {
        let mut attributes = self.desc.attributes().clone();
        attributes.post_ops = post_ops;
        attributes.dequantize.retain(|one| [Quantized::Src(0), operand].contains(&one.operand));
        for one in attributes.dequantize.iter_mut().filter(|one| one.operand == operand) {
            one.operand = Quantized::Weights;
        }
        PrimitiveDesc::builder(MatMul)
            .src(self.desc.src().clone())
            .weights(weights.clone())
            .attributes(attributes)
    }
}
