//! Tensors side by side; of quantised ones nothing is dequantised where all have the result's scale.

use anydnn_backend::op::{Concat, Eltwise};
use anydnn_backend::{Arg, Attributes, Error, MemoryDesc, PostOp, Result};

use super::post_ops::label;
use super::region::Region;
use super::{Anchor, emit_simple, input, quantization};
use crate::compile::program::Program;
use crate::formula::{Formula, Match, any, it, op};
use crate::graph::{Graph, Op, OpKind, TensorId, normalize_axis};

/// `Concat`.
pub(super) fn concat(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let args: Vec<_> = (0..op.inputs.len())
        .map(|i| Ok((Arg::Src(i as u16), input(program, op, i)?)))
        .collect::<Result<_>>()?;
    let rank = args.first().map_or(0, |(_, value)| value.desc.rank());
    Ok(Anchor::plain(
        anydnn_backend::Op::Concat(Concat::new(normalize_axis(op.attrs.s64("axis")?, rank)?)),
        args,
    ))
}

/// A concatenation between dequantisations and a quantisation, each with one scale.
#[derive(Clone, Debug)]
pub(super) struct ConcatUnit {
    concat: usize,
    /// What dequantises each input.
    dequantize: Vec<usize>,
    quantize: usize,
}

/// Dequantisations, a concatenation and a quantisation. Others may read what was dequantised.
pub(super) fn formula() -> Formula {
    let has_number = |_: &Graph, op: &Op| quantization::number(op).is_some();
    let dequantize = op(OpKind::Dequantize).of([any()]).when("it has one scale", has_number);
    let quantize = op(OpKind::Quantize).of([it()]).when("it has one scale", has_number);
    let concat = op(OpKind::Concat).each(dequantize.beside().capture("dequantize")).capture("concat");
    Formula::new(concat.then(quantize.capture("quantize")))
}

/// The unit of what the formula found.
pub(super) fn make(found: &Match) -> Option<ConcatUnit> {
    let dequantize = found.all("dequantize").collect();
    Some(ConcatUnit { concat: found.op("concat")?, dequantize, quantize: found.op("quantize")? })
}

impl ConcatUnit {
    /// The operations that it alone computes.
    pub(super) fn ops(&self) -> Vec<usize> {
        vec![self.concat, self.quantize]
    }

    pub(super) fn reads(&self, region: &Region<'_>) -> Vec<TensorId> {
        self.dequantize.iter().map(|&op| region.op(op).inputs[0]).collect()
    }

    /// Emits the primitive, after those that bring inputs to the result's scale.
    pub(super) fn emit(&self, program: &mut Program<'_>, region: &Region<'_>, ops: Vec<usize>) -> Result<()> {
        let number = |op: usize| {
            quantization::number(region.op(op))
                .ok_or_else(|| Error::unsupported(region.op(op).to_string(), "more than one scale"))
        };
        let (scale, zero_point) = number(self.quantize)?;
        let rounds_first = quantization::rounds_first(region.op(self.quantize));
        let result = program.result(region.op(self.quantize).outputs[0])?;
        let data_type = result.desc.data_type();
        let mut args = Vec::new();
        for (i, &op) in self.dequantize.iter().enumerate() {
            let mut value = program.value(region.op(op).inputs[0])?;
            let (own_scale, own_zero_point) = number(op)?;
            let alpha = own_scale / scale;
            let shift = -(own_zero_point as f32) * alpha;
            let beta = zero_point as f32 + shift;
            let same = (alpha, beta) == (1.0, 0.0) && value.desc.data_type() == data_type;
            if !same {
                let dense = program.temp(MemoryDesc::new(value.desc.dims().clone(), data_type));
                let (beta, attributes) = if rounds_first {
                    let point = Eltwise::Linear { alpha: 1.0, beta: zero_point as f32 };
                    let then = Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Round));
                    (shift, then.with_post_op(PostOp::Eltwise(point)))
                } else {
                    (beta, Attributes::default())
                };
                let linear = anydnn_backend::Op::Eltwise(Eltwise::Linear { alpha, beta });
                let name = label(program, &[op]);
                let places = vec![(Arg::SRC, value), (Arg::DST, dense.clone())];
                emit_simple(program, linear, attributes, places, &name, vec![op])?;
                value = dense;
            }
            args.push((Arg::Src(i as u16), value));
        }
        args.push((Arg::DST, result.clone()));
        let op = region.op(self.concat);
        let axis = normalize_axis(op.attrs.s64("axis")?, result.desc.rank())?;
        let name = label(program, &ops);
        let concat = anydnn_backend::Op::Concat(Concat::new(axis));
        emit_simple(program, concat, Attributes::default(), args, &name, ops)
    }
}
