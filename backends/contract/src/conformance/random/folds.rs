//! Operations along axes: softmax, normalisations, reductions.

use super::choices::Choices;
use super::elementwise::ALL;
use super::operand::{FLOATS, Role, finished, image, operand};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::{
    BatchNormalization, GroupNormalization, LayerNormalization, LocalResponseNormalization,
    LocalResponseNormalizationBackward, Reduction, ReductionAlgorithm, Softmax,
};
use crate::{Arg, DataType, Dims, Op, PrimitiveDesc, PrimitiveDescBuilder, Result};

pub(super) fn softmax(choices: &mut Choices) -> Result<Trial> {
    let dims = ranked(choices, 1, 5);
    let axis = dims.len() - 1 - choices.below(dims.len());
    let mut op = if choices.one_in(3) { Softmax::log(axis) } else { Softmax::new(axis) };
    op.inf_as_zero = choices.one_in(6);
    let (from, to) = float_pair(choices)?;
    let src = operand(choices, Role::Source, &dims, from)?;
    let dst = operand(choices, Role::Result, &dims, to)?;
    finished(choices, PrimitiveDesc::builder(Op::Softmax(op)).src(src).dst(dst))
}

pub(super) fn layer_normalization(choices: &mut Choices) -> Result<Trial> {
    let dims = ranked(choices, 1, 5);
    let axis = dims.len() - 1 - choices.below(dims.len());
    let mut op = LayerNormalization::new(axis, epsilon(choices, dims[axis..].iter().product())?);
    op.rms = choices.one_in(3);
    let (from, to) = float_pair(choices)?;
    let src = operand(choices, Role::Varied, &dims, from)?;
    let dst = operand(choices, Role::Result, &dims, to)?;
    let builder = PrimitiveDesc::builder(Op::LayerNormalization(op)).src(src).dst(dst);
    let builder = vectors(choices, builder, &dims[axis..], from)?;
    let kept: Vec<usize> = (0..dims.len()).map(|i| if i < axis { dims[i] } else { 1 }).collect();
    let outer = if choices.one_in(2) { dims[..axis].to_vec() } else { kept };
    let builder = statistics(choices, builder, &outer)?;
    finished(choices, builder)
}

pub(super) fn batch_normalization(choices: &mut Choices) -> Result<Trial> {
    let dims = ranked(choices, 2, 5);
    let op = BatchNormalization::new(choices.pick(&[1e-5, 1e-3, 0.1])?);
    let (from, to) = float_pair(choices)?;
    let src = image(choices, Role::Source, &dims, from)?;
    let dst = image(choices, Role::Result, &dims, to)?;
    let channels = &dims[1..2];
    let builder = PrimitiveDesc::builder(Op::BatchNormalization(op)).src(src).dst(dst);
    let mut builder = vectors(choices, builder, channels, from)?;
    for arg in [Arg::Mean, Arg::Variance] {
        builder = builder.arg(arg, operand(choices, Role::Side, channels, DataType::F32)?);
    }
    Ok(finished(choices, builder)?.values(Arg::Variance, Values::Uniform(0.25, 3.0)))
}

pub(super) fn group_normalization(choices: &mut Choices) -> Result<Trial> {
    let dims = ranked(choices, 2, 5);
    let groups = choices.divisor(dims[1]);
    let op = GroupNormalization::new(groups, epsilon(choices, dims[1..].iter().product::<usize>() / groups)?);
    let (from, to) = float_pair(choices)?;
    let src = image(choices, Role::Varied, &dims, from)?;
    let dst = image(choices, Role::Result, &dims, to)?;
    let builder = PrimitiveDesc::builder(Op::GroupNormalization(op)).src(src).dst(dst);
    let builder = vectors(choices, builder, &dims[1..2], from)?;
    let builder = statistics(choices, builder, &[dims[0], groups])?;
    finished(choices, builder)
}

/// A normalisation by the squares around, or its gradient.
pub(super) fn local_response(choices: &mut Choices) -> Result<Trial> {
    let dims = ranked(choices, 2, 5);
    let spatial = dims.len() - 2;
    let size = 1 + choices.below(5);
    let op = match choices.below(3) {
        0 => LocalResponseNormalization::across_channels(size, spatial),
        1 => LocalResponseNormalization::within_channel(size.min(3), spatial),
        _ => {
            let mut reach = || (0..=spatial).map(|_| choices.below(3)).collect::<Dims>();
            let (before, after) = (reach(), reach());
            LocalResponseNormalization::across_channels(1, spatial)
                .with_window(before, after)
                .with_count(size)
        }
    };
    let op = op.with_factors(
        choices.pick(&[1e-4, 0.5, 1.0])?,
        choices.pick(&[0.75, 0.5, 1.0, 0.3])?,
        choices.pick(&[1.0, 2.0])?,
    );
    let (from, to) = float_pair(choices)?;
    let src = image(choices, Role::Source, &dims, from)?;
    let dst = image(choices, Role::Result, &dims, to)?;
    if choices.one_in(3) {
        let diff = image(choices, Role::Source, &dims, from)?;
        let op = LocalResponseNormalizationBackward::new(op);
        return finished(choices, PrimitiveDesc::builder(op).src(diff).src(src).dst(dst));
    }
    finished(choices, PrimitiveDesc::builder(op).src(src).dst(dst))
}

pub(super) fn reduction(choices: &mut Choices) -> Result<Trial> {
    let algorithm = choices.pick(&ReductionAlgorithm::ALL)?;
    let limit = choices.limits().elements;
    let from = choices.dims(6, limit);
    let to: Dims = from.iter().map(|&dim| if choices.one_in(2) { 1 } else { dim }).collect();
    let own = choices.data_type(&ALL)?;
    let stored = if choices.one_in(4) { choices.data_type(&ALL)? } else { own };
    let src = operand(choices, Role::Source, &from, own)?;
    let dst = operand(choices, Role::Result, &to, stored)?;
    let trial = finished(
        choices,
        PrimitiveDesc::builder(Op::Reduction(Reduction::new(algorithm))).src(src).dst(dst),
    )?;
    Ok(match algorithm {
        // Products of many stay numbers, in whatever order they are taken: also where few elements are repeated.
        ReductionAlgorithm::Product if own.is_float() => {
            let terms = from.elements() / to.elements().max(1);
            let spread = (60.0 / terms.max(1) as f64).min(0.1);
            trial.values(Arg::SRC, Values::AwayFromZero(1.0 - spread, 1.0 + spread))
        }
        ReductionAlgorithm::Product => trial.values(Arg::SRC, Values::Integers(1, 1)),
        _ => trial,
    })
}

/// What is added to the variance of a number of elements: of few it may be next to nothing, and their difference to the mean too.
fn epsilon(choices: &mut Choices, count: usize) -> Result<f32> {
    choices.pick(if count < 32 { &[0.1, 0.5, 1.0] } else { &[1e-5, 1e-3, 0.1] })
}

/// Dimensions of a rank within bounds.
fn ranked(choices: &mut Choices, least: usize, most: usize) -> Vec<usize> {
    let rank = least + choices.below(most - least + 1);
    let limit = choices.limits().elements;
    choices.sizes(rank, limit)
}

/// The types of a source and a result.
fn float_pair(choices: &mut Choices) -> Result<(DataType, DataType)> {
    let own = choices.data_type(&FLOATS)?;
    let other = if choices.one_in(4) { choices.data_type(&FLOATS)? } else { own };
    Ok((own, other))
}

/// At times a scale, a shift, or both.
fn vectors(
    choices: &mut Choices,
    mut builder: PrimitiveDescBuilder,
    dims: &[usize],
    own: DataType,
) -> Result<PrimitiveDescBuilder> {
    for arg in [Arg::Scale, Arg::Shift] {
        if choices.one_in(2) {
            let data_type = choices.pick_often_first(&[DataType::F32, own])?;
            builder = builder.arg(arg, operand(choices, Role::Side, dims, data_type)?);
        }
    }
    Ok(builder)
}

/// At times the mean, the variance, or both as results.
fn statistics(
    choices: &mut Choices,
    mut builder: PrimitiveDescBuilder,
    dims: &[usize],
) -> Result<PrimitiveDescBuilder> {
    for arg in [Arg::Mean, Arg::Variance] {
        if choices.one_in(3) {
            builder = builder.arg(arg, operand(choices, Role::Side, dims, DataType::F32)?);
        }
    }
    Ok(builder)
}
