//! Reductions along axes.

use anydnn_backend::op::{Eltwise, Reduction, ReductionAlgorithm};
use anydnn_backend::{Arg, Error, Result};

use super::{Anchor, ToPrimitive, input};
use crate::compile::program::Program;
use crate::graph::{Op, OpKind, normalize_axis};

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
