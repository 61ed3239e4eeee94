//! Functions of elements.

use anydnn_backend::op::{Binary, BinaryAlgorithm, Eltwise, Select};
use anydnn_backend::{Arg, Error, Result};

use super::{Anchor, channel_axis, input};
use crate::compile::program::Program;
use crate::graph::{Op, OpKind};

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
    matches!(
        kind,
        OpKind::Abs
            | OpKind::Clamp
            | OpKind::Elu
            | OpKind::Exp
            | OpKind::GELU
            | OpKind::HardSigmoid
            | OpKind::HardSwish
            | OpKind::LeakyReLU
            | OpKind::Log
            | OpKind::Mish
            | OpKind::Pow
            | OpKind::Reciprocal
            | OpKind::ReLU
            | OpKind::Round
            | OpKind::Sigmoid
            | OpKind::SoftPlus
            | OpKind::Sqrt
            | OpKind::Square
            | OpKind::Tanh
            | OpKind::Acos
            | OpKind::Acosh
            | OpKind::Asin
            | OpKind::Asinh
            | OpKind::Atan
            | OpKind::Atanh
            | OpKind::Ceil
            | OpKind::Cos
            | OpKind::Cosh
            | OpKind::Erf
            | OpKind::Floor
            | OpKind::Sign
            | OpKind::Sin
            | OpKind::Sinh
            | OpKind::Tan
            | OpKind::Truncate
    )
}

/// The function of a unary operation.
pub(super) fn eltwise_of(op: &Op) -> Result<Eltwise> {
    let f32 = |name: &str| op.attrs.f32(name);
    Ok(match op.kind {
        OpKind::Abs => Eltwise::Abs,
        OpKind::Clamp => Eltwise::Clamp { min: f32("min")?, max: f32("max")? },
        OpKind::Elu => Eltwise::Elu { alpha: f32("alpha")? },
        OpKind::Exp => Eltwise::Exp,
        OpKind::GELU if op.attrs.string("mode").is_ok_and(|mode| mode == "gelu_tanh") => Eltwise::GeluTanh,
        OpKind::GELU => Eltwise::GeluErf,
        OpKind::HardSigmoid => Eltwise::HardSigmoid { alpha: f32("alpha")?, beta: f32("beta")? },
        OpKind::HardSwish => Eltwise::HardSwish { alpha: 1.0 / 6.0, beta: 0.5 },
        OpKind::LeakyReLU => Eltwise::LeakyRelu { alpha: f32("alpha")? },
        OpKind::Log => Eltwise::Log,
        OpKind::Mish => Eltwise::Mish,
        OpKind::Pow => Eltwise::Pow { alpha: 1.0, beta: f32("beta")? },
        OpKind::Reciprocal => Eltwise::Reciprocal,
        OpKind::ReLU => Eltwise::Relu,
        OpKind::Round => Eltwise::Round,
        OpKind::Sigmoid => Eltwise::Sigmoid,
        OpKind::SoftPlus => Eltwise::SoftPlus { beta: f32("beta")? },
        OpKind::Sqrt => Eltwise::Sqrt,
        OpKind::Square => Eltwise::Square,
        OpKind::Tanh => Eltwise::Tanh,
        OpKind::Acos => Eltwise::Acos,
        OpKind::Acosh => Eltwise::Acosh,
        OpKind::Asin => Eltwise::Asin,
        OpKind::Asinh => Eltwise::Asinh,
        OpKind::Atan => Eltwise::Atan,
        OpKind::Atanh => Eltwise::Atanh,
        OpKind::Ceil => Eltwise::Ceil,
        OpKind::Cos => Eltwise::Cos,
        OpKind::Cosh => Eltwise::Cosh,
        OpKind::Erf => Eltwise::Erf,
        OpKind::Floor => Eltwise::Floor,
        OpKind::Sign => Eltwise::Sign,
        OpKind::Sin => Eltwise::Sin,
        OpKind::Sinh => Eltwise::Sinh,
        OpKind::Tan => Eltwise::Tan,
        OpKind::Truncate => Eltwise::Truncate,
        _ => return Err(not_executed(op)),
    })
}

/// The function of a binary operation.
pub(super) fn binary_of(kind: OpKind) -> Option<BinaryAlgorithm> {
    Some(match kind {
        OpKind::Add => BinaryAlgorithm::Add,
        OpKind::Subtract => BinaryAlgorithm::Subtract,
        OpKind::Multiply => BinaryAlgorithm::Multiply,
        OpKind::Divide => BinaryAlgorithm::Divide,
        OpKind::Maximum => BinaryAlgorithm::Maximum,
        OpKind::Minimum => BinaryAlgorithm::Minimum,
        OpKind::SquaredDifference => BinaryAlgorithm::SquaredDifference,
        OpKind::GreaterEqual => BinaryAlgorithm::GreaterEqual,
        OpKind::And => BinaryAlgorithm::And,
        OpKind::Equal => BinaryAlgorithm::Equal,
        OpKind::Greater => BinaryAlgorithm::Greater,
        OpKind::Less => BinaryAlgorithm::Less,
        OpKind::LessEqual => BinaryAlgorithm::LessEqual,
        OpKind::NotEqual => BinaryAlgorithm::NotEqual,
        OpKind::Or => BinaryAlgorithm::Or,
        OpKind::Xor => BinaryAlgorithm::Xor,
        OpKind::Modulo => BinaryAlgorithm::Modulo,
        OpKind::Power => BinaryAlgorithm::Power,
        OpKind::Quotient => BinaryAlgorithm::Quotient,
        OpKind::Remainder => BinaryAlgorithm::Remainder,
        _ => return None,
    })
}

fn not_executed(op: &Op) -> Error {
    Error::unsupported(
        format!("{} {:?}", op.kind, op.name),
        "graphs with this operation are read and written, but not executed yet",
    )
}
