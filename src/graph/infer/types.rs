//! Types of outputs from those of inputs.

use anydnn_backend::{DataType, Error, InvalidKind, Result};
use smallvec::SmallVec;

use super::super::op::Op;
use super::super::op_kind::OpKind as K;
use super::super::schema::Schema;
use super::recurrent::{RecurrentInput, recurrent_inputs};

/// The types of an operation's inputs or outputs.
pub(crate) type Types = SmallVec<[Option<DataType>; 8]>;

/// The type of each output: the given one, else what the operation makes of its inputs; none where nothing is known.
///
/// # Errors
/// [`Error::Invalid`] of the kind [`InvalidKind::DataType`] where an operation can never have the given types;
/// [`Error::Unsupported`] for [types of the host](DataType::HOST_ONLY).
pub(crate) fn infer_types(op: &Op, inputs: &[Option<DataType>], given: &[Option<DataType>]) -> Result<Types> {
    if let Some(host) = inputs.iter().chain(given).flatten().find(|data_type| data_type.is_host_only()) {
        return Err(Error::unsupported(op.kind.to_string(), format!("no operation computes with {host}")));
    }
    check_inputs(op, inputs)?;
    let mut types = Types::with_capacity(given.len());
    for (i, &given) in given.iter().enumerate() {
        let made = made(op, inputs, i);
        if let Some(given) = given {
            check_output(op, i, given, inputs)?;
        }
        types.push(given.or(made));
    }
    Ok(types)
}

/// Whether an operation makes truth values.
pub(crate) fn is_truth(kind: K) -> bool {
    matches!(
        kind,
        K::GreaterEqual
            | K::And
            | K::Equal
            | K::Greater
            | K::Less
            | K::LessEqual
            | K::NotEqual
            | K::Or
            | K::Xor
    )
}

/// The usual type of an output.
fn made(op: &Op, inputs: &[Option<DataType>], output: usize) -> Option<DataType> {
    let src = inputs.first().copied().flatten();
    match (op.kind, output) {
        (kind, 0) if is_truth(kind) => Some(DataType::Boolean),
        (K::GenIndex, 0) => Some(DataType::S32),
        (K::Dequantize, 0) | (K::SoftMax, 1) => Some(DataType::F32),
        (K::Dropout, 1) => Some(DataType::U8),
        (K::Quantize | K::DynamicQuantize | K::TypeCast | K::Wildcard, _) => None,
        (K::Select | K::DynamicDequantize, 0) | (K::PReLUBackward, 1) => inputs.get(1).copied().flatten(),
        (K::LayerNorm | K::GroupNorm | K::RMSNorm | K::BatchNormForwardTraining, 1..) => {
            inputs.get(1).copied().flatten().or(Some(DataType::F32))
        }
        (K::LayerNormBackward | K::BatchNormTrainingBackward, 1..) => {
            inputs.get(4).copied().flatten().or(Some(DataType::F32))
        }
        _ => src,
    }
}

fn check_inputs(op: &Op, inputs: &[Option<DataType>]) -> Result<()> {
    let ports = Schema::of(op.kind).inputs;
    let known = |i: usize| inputs.get(i).copied().flatten();
    match op.kind {
        K::Select => check(op, ports.name(0), known(0), |t| t == DataType::Boolean, "boolean"),
        K::Quantize | K::DynamicQuantize => check(op, "src", known(0), DataType::is_float, "a float type"),
        K::DynamicDequantize => check(op, "src", known(0), DataType::is_integer, "an integer type"),
        K::Gather => {
            check(op, "src", known(0), |t| t.bits() >= 8, "at least eight bits")?;
            let is_index = |t| matches!(t, DataType::S32 | DataType::S64);
            check(op, "indices", known(1), is_index, "s32 or s64")
        }
        K::Recurrent => {
            check(op, "src", known(0), DataType::is_float, "a float type")?;
            let lengths = recurrent_inputs(op).iter().position(|&input| input == RecurrentInput::Lengths);
            check(op, "lengths", lengths.and_then(|i| known(i + 3)), |t| t == DataType::S32, "s32")
        }
        K::Concat | K::Remap => {
            if op.kind == K::Remap {
                check(op, "src", known(0), |t| t.bits() >= 8, "at least eight bits")?;
            }
            let first = inputs.iter().copied().flatten().next();
            let other = inputs.iter().copied().find(|&t| t.is_some() && t != first).flatten();
            let expected = first.map_or_else(String::new, |first| format!("{first}, as another input"));
            check(op, "an input", other, |_| false, &expected)
        }
        _ => Ok(()),
    }
}

fn check_output(op: &Op, output: usize, given: DataType, inputs: &[Option<DataType>]) -> Result<()> {
    let name = Schema::of(op.kind).outputs.name(output);
    let given = Some(given);
    match op.kind {
        kind if is_truth(kind) => check(op, name, given, |t| t == DataType::Boolean, "boolean"),
        K::Quantize | K::DynamicQuantize => {
            let quantized = |t: DataType| t.is_integer() || t.bits() <= 8 && t.is_float();
            check(op, name, given, quantized, "an integer or 8-bit float type")
        }
        K::Dequantize | K::DynamicDequantize => check(op, name, given, DataType::is_float, "a float type"),
        K::StaticReshape | K::StaticTranspose | K::MaxPool | K::Concat | K::Remap | K::Gather => {
            match inputs.first().copied().flatten() {
                Some(src) => check(op, name, given, |t| t == src, &format!("{src}, as src")),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn check(
    op: &Op,
    port: &str,
    given: Option<DataType>,
    fits: impl FnOnce(DataType) -> bool,
    expected: &str,
) -> Result<()> {
    match given {
        Some(given) if !fits(given) => Err(Error::invalid_kind(
            InvalidKind::DataType,
            op.to_string(),
            format!("data type of {port}"),
            given.name(),
            expected,
        )),
        _ => Ok(()),
    }
}
