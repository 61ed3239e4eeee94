//! Operations along an axis.

use anydnn_backend::op::{Concat, Eltwise, Reduction, ReductionAlgorithm, Softmax};
use anydnn_backend::{Arg, Error, Result};

use super::{Anchor, ToPrimitive, input, tensor_name};
use crate::compile::program::Program;
use crate::graph::{Op, OpKind, gather_of, normalize_axis};

/// `SoftMax` and `LogSoftmax`.
pub(super) fn softmax(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let src = input(program, op, 0)?;
    if let Some(&stats) = op.outputs.get(1).filter(|&&id| program.is_read(id)) {
        return Err(Error::unsupported(
            "softmax",
            format!("its statistics output {} is not computed yet", tensor_name(program, stats)),
        ));
    }
    let along = normalize_axis(op.attrs.s64("axis")?, src.desc.rank())?;
    let inf_as_zero = op.attrs.string("mode").is_ok_and(|mode| mode == "inf_as_zero");
    let primitive = Softmax { axis: along, log: op.kind == OpKind::LogSoftmax, inf_as_zero };
    Ok(Anchor::plain(anydnn_backend::Op::Softmax(primitive), vec![(Arg::SRC, src)]))
}

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

/// `Gather`.
pub(super) fn gather(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let (src, indices) = (input(program, op, 0)?, input(program, op, 1)?);
    let gather = gather_of(op, src.desc.rank())?;
    Ok(Anchor::plain(anydnn_backend::Op::Gather(gather), vec![(Arg::Src(0), src), (Arg::Src(1), indices)]))
}

/// The reductions. Folded dimensions that the graph drops are ones for the primitive.
pub(super) fn reduction(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let src = input(program, op, 0)?;
    let algorithm =
        reduction_of(op.kind).ok_or_else(|| Error::unsupported(op.kind.to_string(), "not a reduction"))?;
    let axes = if op.attrs.get("axes").is_some() { op.attrs.s64s("axes")? } else { &[] };
    if op.inputs.len() > 1 {
        return Err(Error::unsupported(op.kind.to_string(), "axes that are an input are not read yet"));
    }
    if axes.is_empty() {
        // The identity, whatever the fold would make of single elements.
        let identity = Eltwise::Linear { alpha: 1.0, beta: 0.0 };
        return Ok(Anchor::plain(anydnn_backend::Op::Eltwise(identity), vec![(Arg::SRC, src)]));
    }
    let mut axes: Vec<usize> =
        axes.iter().map(|&a| normalize_axis(a, src.desc.rank())).collect::<Result<_>>()?;
    axes.sort_unstable();
    axes.dedup();
    let insert = if op.attrs.bool("keep_dims")? { Vec::new() } else { axes };
    let shape = ToPrimitive { insert, ..ToPrimitive::default() };
    Ok(Anchor {
        op: anydnn_backend::Op::Reduction(Reduction::new(algorithm)),
        args: vec![(Arg::SRC, src)],
        shape,
        extra: Vec::new(),
    })
}

/// How a reduction folds.
pub(super) fn reduction_of(kind: OpKind) -> Option<ReductionAlgorithm> {
    Some(match kind {
        OpKind::ReduceSum => ReductionAlgorithm::Sum,
        OpKind::ReduceMean => ReductionAlgorithm::Mean,
        OpKind::ReduceProd => ReductionAlgorithm::Product,
        OpKind::ReduceMax => ReductionAlgorithm::Max,
        OpKind::ReduceMin => ReductionAlgorithm::Min,
        OpKind::ReduceL1 => ReductionAlgorithm::NormL1,
        OpKind::ReduceL2 => ReductionAlgorithm::NormL2,
        _ => return None,
    })
}
