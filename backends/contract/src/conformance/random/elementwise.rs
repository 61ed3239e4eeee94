//! Functions of elements: of one, their gradients, of two, by a condition.

use super::choices::Choices;
use super::operand::{FLOATS, Role, broadcasting, finished, operand};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::conformance::values::functions;
use crate::op::{Binary, Expression, Node, Select};
use crate::{Arg, BinaryAlgorithm, DataType, Dims, Op, PrimitiveDesc, Result};

/// Every type, those that functions are computed in first.
pub(super) const ALL: [DataType; 14] = [
    DataType::F32,
    DataType::F16,
    DataType::BF16,
    DataType::F64,
    DataType::S32,
    DataType::S8,
    DataType::U8,
    DataType::S64,
    DataType::Boolean,
    DataType::F8E5M2,
    DataType::F8E4M3,
    DataType::S4,
    DataType::U4,
    DataType::F4E2M1,
];

pub(super) fn eltwise(choices: &mut Choices) -> Result<Trial> {
    let (op, values) = choices.pick(&functions())?;
    let limit = choices.limits().elements;
    let dims = choices.dims(6, limit);
    let from = choices.data_type(&ALL)?;
    let to = if choices.one_in(4) { choices.data_type(&ALL)? } else { from };
    let src = operand(choices, Role::Source, &dims, from)?;
    let dst = operand(choices, Role::Result, &dims, to)?;
    let trial = finished(choices, PrimitiveDesc::builder(Op::Eltwise(op)).src(src).dst(dst))?;
    Ok(if from.is_float() { trial.values(Arg::SRC, values) } else { trial })
}

/// The derivative of a function, by its argument or its value.
pub(super) fn gradient(choices: &mut Choices) -> Result<Trial> {
    let (function, values) = choices.pick(&functions())?;
    let of_result = function.has_gradient_of_result() && choices.one_in(2);
    let limit = choices.limits().elements;
    let dims = choices.dims(5, limit);
    let data_type = choices.data_type(&FLOATS)?;
    let mut e = Expression::new(dims.clone());
    let (at, diff) = (e.push(Node::Operand(0)), e.push(Node::Operand(1)));
    e.results = vec![e.push(Node::Gradient { function, of_result, at, diff })];
    let at = operand(choices, Role::Source, &dims, data_type)?;
    let diff = operand(choices, Role::Source, &dims, data_type)?;
    let dst = operand(choices, Role::Result, &dims, data_type)?;
    let builder = PrimitiveDesc::builder(Op::Expression(e)).src(at).src(diff).dst(dst);
    let trial = finished(choices, builder)?;
    let values = if of_result { results(function) } else { values };
    Ok(trial.values(Arg::SRC, values))
}

/// Values that a function has, away from the ends of its range.
fn results(function: crate::Eltwise) -> Values {
    use crate::Eltwise::{Elu, Exp, Sigmoid, Sqrt, Tanh};
    match function {
        Exp | Sqrt => Values::Uniform(0.05, 6.0),
        Sigmoid => Values::Uniform(0.05, 0.95),
        Tanh => Values::Uniform(-0.95, 0.95),
        Elu { .. } => Values::Uniform(-0.7, 6.0),
        _ => Values::Uniform(-8.0, 8.0),
    }
}

pub(super) fn binary(choices: &mut Choices) -> Result<Trial> {
    let algorithm = choices.pick(&BinaryAlgorithm::ALL)?;
    let limit = choices.limits().elements;
    let dims = choices.dims(6, limit);
    let (left, right) = (broadcasting(choices, &dims), broadcasting(choices, &dims));
    let own = choices.data_type(&ALL)?;
    let other = if choices.one_in(5) { choices.data_type(&ALL)? } else { own };
    let src0 = operand(choices, Role::Source, &left, own)?;
    let src1 = operand(choices, Role::Source, &right, other)?;
    let to = match algorithm.is_comparison() {
        true if choices.one_in(3) => choices.data_type(&ALL)?,
        true => DataType::Boolean,
        false if choices.one_in(4) && own != DataType::Boolean => choices.data_type(&ALL)?,
        false => own,
    };
    // What is no truth value is not stored as one.
    let to = if to == DataType::Boolean && !algorithm.is_comparison() { own } else { to };
    let result = Dims::new(&left).broadcast(&Dims::new(&right))?;
    let dst = operand(choices, Role::Result, &result, to)?;
    let trial = finished(
        choices,
        PrimitiveDesc::builder(Op::Binary(Binary::new(algorithm))).src(src0).src(src1).dst(dst),
    )?;
    Ok(with_values(algorithm, trial, own, other))
}

fn with_values(algorithm: BinaryAlgorithm, trial: Trial, left: DataType, right: DataType) -> Trial {
    use BinaryAlgorithm::{Divide, Modulo, Power, Quotient, Remainder};
    let whole = |low| if matches!(left, DataType::U8 | DataType::U4 | DataType::Boolean) { 0 } else { low };
    match algorithm {
        Divide if right.is_float() => trial.values(Arg::Src(1), Values::AwayFromZero(0.25, 3.0)),
        // A quotient of integers may lie between two.
        Divide => trial.values(Arg::Src(1), Values::Listed(vec![1.0, 2.0, 4.0])),
        Power => trial
            .values(
                Arg::SRC,
                if left.is_float() { Values::Uniform(0.1, 3.0) } else { Values::Integers(1, 3) },
            )
            .values(
                Arg::Src(1),
                if right.is_float() { Values::Uniform(-2.0, 2.0) } else { Values::Integers(0, 3) },
            ),
        Quotient | Remainder | Modulo => trial
            .values(Arg::SRC, Values::Integers(whole(-100), 100))
            .values(Arg::Src(1), Values::Listed(vec![3.0, 7.0, 1.0, 5.0, 2.0])),
        // Often equal.
        _ if algorithm.is_comparison() => {
            trial.values(Arg::SRC, Values::Integers(whole(-2), 2)).values(Arg::Src(1), Values::Integers(0, 2))
        }
        _ => trial,
    }
}

pub(super) fn select(choices: &mut Choices) -> Result<Trial> {
    let limit = choices.limits().elements;
    let dims = choices.dims(6, limit);
    let shapes = [0; 3].map(|_| broadcasting(choices, &dims));
    let condition = choices.data_type(&[DataType::Boolean, DataType::F32, DataType::U8, DataType::S32])?;
    let own = choices.data_type(&ALL)?;
    let to = if choices.one_in(5) { choices.data_type(&ALL)? } else { own };
    let mut builder = PrimitiveDesc::builder(Op::Select(Select));
    let mut result = Dims::default();
    for (shape, data_type) in shapes.iter().zip([condition, own, own]) {
        result = result.broadcast(&Dims::new(shape))?;
        builder = builder.src(operand(choices, Role::Source, shape, data_type)?);
    }
    let dst = operand(choices, Role::Result, &result, to)?;
    Ok(finished(choices, builder.dst(dst))?.values(Arg::SRC, Values::Integers(0, 1)))
}
