//! Normalisations.

use anydnn_backend::{Arg, Dims, Error, Result, op};

use super::{Anchor, ToPrimitive, channels_first, input, is_channels_last, tensor_name};
use crate::compile::program::{Program, Value};
use crate::graph::{Op, OpKind, normalize_axis};

/// `LayerNorm` with its optional statistics, and `RMSNorm`.
pub(super) fn layer(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let src = input(program, op, 0)?;
    let begin_axis = normalize_axis(op.attrs.s64("begin_norm_axis")?, src.desc.rank())?;
    let rms = op.kind == OpKind::RMSNorm;
    if let (true, Some(&stats)) = (rms, op.outputs.get(1).filter(|&&id| program.is_read(id))) {
        return Err(Error::unsupported(
            "rms normalization",
            format!("its statistics output {} is not computed yet", tensor_name(program, stats)),
        ));
    }
    let inner = Dims::new(&src.desc.dims()[begin_axis..]);
    let primitive = op::LayerNormalization { begin_axis, epsilon: op.attrs.f32("epsilon")?, rms };
    let mut args = vec![(Arg::SRC, src)];
    push_affine(program, op, 1, &mut args)?;
    for (_, affine) in &mut args[1..] {
        // The graph may write it flat, or with ones in front.
        if affine.desc.elements() == inner.elements() {
            affine.desc = affine.desc.reshaped(inner.clone())?;
        }
    }
    let extra = statistics(program, op)?;
    Ok(Anchor {
        op: anydnn_backend::Op::LayerNormalization(primitive),
        args,
        shape: ToPrimitive::default(),
        extra,
    })
}

/// `BatchNormInference`.
pub(super) fn batch(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let (src, shape) = channels(program, op)?;
    let mut args = vec![(Arg::SRC, src)];
    for (i, arg) in [Arg::Scale, Arg::Shift, Arg::Mean, Arg::Variance].into_iter().enumerate() {
        args.push((arg, input(program, op, i + 1)?));
    }
    let primitive = op::BatchNormalization::new(op.attrs.f32("epsilon")?);
    Ok(Anchor { op: anydnn_backend::Op::BatchNormalization(primitive), args, shape, extra: Vec::new() })
}

/// `GroupNorm` with its optional statistics.
pub(super) fn group(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let (src, shape) = channels(program, op)?;
    let groups = usize::try_from(op.attrs.s64("groups")?).unwrap_or(0);
    let primitive = op::GroupNormalization::new(groups, op.attrs.f32("epsilon")?);
    let mut args = vec![(Arg::SRC, src)];
    push_affine(program, op, 1, &mut args)?;
    let extra = statistics(program, op)?;
    Ok(Anchor { op: anydnn_backend::Op::GroupNormalization(primitive), args, shape, extra })
}

/// The mean and the variance, where anything reads them.
fn statistics(program: &mut Program<'_>, op: &Op) -> Result<Vec<(Arg, Value)>> {
    let outputs = op.outputs.get(1..).unwrap_or_default();
    if !outputs.iter().any(|&id| program.is_read(id)) {
        return Ok(Vec::new());
    }
    [Arg::Mean, Arg::Variance]
        .into_iter()
        .zip(outputs)
        .map(|(arg, &id)| Ok((arg, program.result(id)?)))
        .collect()
}

/// The optional factor and summand from input `first` on.
fn push_affine(program: &Program<'_>, op: &Op, first: usize, args: &mut Vec<(Arg, Value)>) -> Result<()> {
    for (i, arg) in [Arg::Scale, Arg::Shift].into_iter().enumerate() {
        if op.inputs.len() > first + i {
            args.push((arg, input(program, op, first + i)?));
        }
    }
    Ok(())
}

/// The source with channels in dimension 1, and the way back for the result.
fn channels(program: &Program<'_>, op: &Op) -> Result<(Value, ToPrimitive)> {
    let src = input(program, op, 0)?;
    let rank = src.desc.rank();
    if rank < 3 || !is_channels_last(op)? {
        return Ok((src, ToPrimitive::default()));
    }
    let desc = src.desc.permuted(&channels_first(rank))?;
    Ok((src.with_desc(desc), ToPrimitive::channels_first(rank)))
}
