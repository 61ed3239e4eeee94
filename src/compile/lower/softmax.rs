//! Softmax along an axis.

use anydnn_backend::op::Softmax;
use anydnn_backend::{Arg, Error, Result};

use super::{Anchor, input, tensor_name};
use crate::compile::program::Program;
use crate::graph::{Op, OpKind, normalize_axis};

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
    let inf_as_zero = op.attrs.says("mode", "inf_as_zero");
    let primitive = Softmax { axis: along, log: op.kind == OpKind::LogSoftmax, inf_as_zero };
    Ok(Anchor::plain(anydnn_backend::Op::Softmax(primitive), vec![(Arg::SRC, src)]))
}
