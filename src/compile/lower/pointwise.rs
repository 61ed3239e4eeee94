//! Functions of elements.

use anydnn_backend::op::{
    Binary, BinaryAlgorithm, BinaryFunction, Eltwise, EltwiseAttributes, Function, Select,
};
use anydnn_backend::{Arg, Error, Result};

use super::{Anchor, channel_axis, input};
use crate::compile::program::Program;
use crate::graph::{Attrs, Op, OpKind};

/// An operation on one tensor.
pub(super) fn unary(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let eltwise = eltwise_of(op)?;
    Ok(Anchor::plain(anydnn_backend::Op::Eltwise(eltwise), vec![(Arg::SRC, input(program, op, 0)?)]))
}

/// An operation on two tensors.
pub(super) fn binary(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let algorithm = binary_of(op.kind).ok_or_else(|| not_executed(op))?;
    let args = vec![(Arg::Src(0), input(program, op, 0)?), (Arg::Src(1), input(program, op, 1)?)];
    Ok(Anchor::plain(anydnn_backend::Op::Binary(Binary::new(algorithm)), args))
}

/// `BiasAdd` on its own: an addition with the bias along the channels.
pub(super) fn bias_add(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let (src, bias) = (input(program, op, 0)?, input(program, op, 1)?);
    let axis = channel_axis(op, src.desc.rank())?;
    let mut dims = vec![1; src.desc.rank()];
    if let Some(dim) = dims.get_mut(axis) {
        *dim = bias.desc.elements();
    }
    let bias = bias.with_desc(bias.desc.reshaped(dims)?);
    Ok(Anchor::plain(
        anydnn_backend::Op::Binary(Binary::new(BinaryAlgorithm::Add)),
        vec![(Arg::Src(0), src), (Arg::Src(1), bias)],
    ))
}

/// `Select`.
pub(super) fn select(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let args = (0..3).map(|i| Ok((Arg::Src(i as u16), input(program, op, i)?))).collect::<Result<_>>()?;
    Ok(Anchor::plain(anydnn_backend::Op::Select(Select), args))
}

/// Whether an operation is a function of one element.
pub(super) fn is_unary(kind: OpKind) -> bool {
    Function::is_graph(kind.name())
}

/// The function of a unary operation.
pub(super) fn eltwise_of(op: &Op) -> Result<Eltwise> {
    Function::of_graph(op.kind.name(), &op.attrs)?.ok_or_else(|| not_executed(op))
}

/// The function whose gradient an operation is; none for one that is no such gradient.
pub(super) fn gradient_of(op: &Op) -> Result<Option<Eltwise>> {
    match op.kind.name().strip_suffix("Backward") {
        Some(forward) => Function::of_graph(forward, &op.attrs),
        None => Ok(None),
    }
}

/// Whether an operation is the gradient of a function of one element.
pub(super) fn is_gradient(kind: OpKind) -> bool {
    kind.name().strip_suffix("Backward").is_some_and(Function::is_graph)
}

impl EltwiseAttributes<Error> for Attrs {
    fn number(&self, name: &str, _absent: Option<f32>) -> Result<f32> {
        // A graph's schema has filled in what may be absent.
        self.f32(name)
    }

    fn is(&self, name: &str, word: &str) -> bool {
        self.string(name).is_ok_and(|given| given == word)
    }
}

/// The function of a binary operation.
pub(super) fn binary_of(kind: OpKind) -> Option<BinaryAlgorithm> {
    BinaryFunction::of_graph(kind.name()).map(|row| row.algorithm)
}

fn not_executed(op: &Op) -> Error {
    Error::unsupported(
        format!("{} {:?}", op.kind, op.name),
        "graphs with this operation are read and written, but not executed yet",
    )
}
