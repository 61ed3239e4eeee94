//! Normalisations, forward and backward, as nodes.

use anydnn_backend::Result;
use anydnn_backend::op::{Eltwise, Fold};

use super::draft::Scope;
use super::layout::Side;

/// What oneDNN takes where `momentum` is not given.
const MOMENTUM: f32 = 0.5;

/// Mean and variance over the folded axes, and what they make of the source: `LayerNorm` and `GroupNorm`.
pub(super) fn moments(scope: &mut Scope<'_, '_>) -> Result<()> {
    let x = scope.input(0)?;
    let Moments { mean, variance, centred } = Moments::of(scope, x);
    let y = over_deviation(scope, centred, variance)?;
    let y = affine(scope, y, 1)?;
    scope.output(0, y);
    scope.output(1, mean);
    scope.output(2, variance);
    Ok(())
}

/// `x / sqrt(mean(x^2) + epsilon)`, and the factor.
pub(super) fn root_mean_square(scope: &mut Scope<'_, '_>) -> Result<()> {
    let x = scope.input(0)?;
    let square = scope.eltwise(Eltwise::Square, x);
    let mean = scope.mean(square);
    let root = deviation(scope, mean)?;
    let y = scope.divide(x, root);
    let y = affine(scope, y, 1)?;
    scope.output(0, y);
    if scope.op.outputs.len() > 1 {
        let factor = scope.eltwise(Eltwise::Reciprocal, root);
        scope.output(1, factor);
    }
    Ok(())
}

/// The gradients of the source, or of factor and summand, from given statistics.
pub(super) fn layer_backward(scope: &mut Scope<'_, '_>) -> Result<()> {
    let (x, diff) = (scope.input(0)?, scope.input(1)?);
    let (mean, variance) = (scope.input(2)?, scope.input(3)?);
    let centred = scope.subtract(x, mean);
    let normal = over_deviation(scope, centred, variance)?;
    if scope.side == Side::Parameters {
        parameters(scope, diff, normal);
        return Ok(());
    }
    let gradient = factor(scope, diff, 4)?;
    let y = source_gradient(scope, gradient, normal, variance)?;
    scope.output(0, y);
    Ok(())
}

/// With given statistics.
pub(super) fn batch(scope: &mut Scope<'_, '_>) -> Result<()> {
    let (x, mean, variance) = (scope.input(0)?, scope.input(3)?, scope.input(4)?);
    let centred = scope.subtract(x, mean);
    let y = over_deviation(scope, centred, variance)?;
    let y = affine(scope, y, 1)?;
    scope.output(0, y);
    Ok(())
}

/// With the statistics of this batch, which also move the running ones: `momentum * running + (1 - momentum) * batch`.
pub(super) fn batch_training(scope: &mut Scope<'_, '_>) -> Result<()> {
    let momentum = match scope.op.attrs.get("momentum") {
        Some(_) => scope.op.attrs.f32("momentum")?,
        None => MOMENTUM,
    };
    let x = scope.input(0)?;
    let Moments { mean, variance, centred } = Moments::of(scope, x);
    let y = over_deviation(scope, centred, variance)?;
    let y = affine(scope, y, 3)?;
    scope.output(0, y);
    for (i, batch) in [mean, variance].into_iter().enumerate() {
        let running = scope.input(1 + i)?;
        let (old, new) = (scope.constant(momentum), scope.constant(1.0 - momentum));
        let kept = scope.multiply(old, running);
        let added = scope.multiply(new, batch);
        let moved = scope.add(kept, added);
        scope.output(1 + i, moved);
        scope.output(3 + i, batch);
    }
    Ok(())
}

pub(super) fn batch_backward(scope: &mut Scope<'_, '_>) -> Result<()> {
    let (x, diff) = (scope.input(0)?, scope.input(1)?);
    let (mean, variance) = (scope.input(2)?, scope.input(3)?);
    let centred = scope.subtract(x, mean);
    let normal = over_deviation(scope, centred, variance)?;
    let gradient = factor(scope, diff, 4)?;
    let y = source_gradient(scope, gradient, normal, variance)?;
    scope.output(0, y);
    parameters(scope, diff, normal);
    Ok(())
}

/// Mean, variance and the difference from the mean.
struct Moments {
    mean: usize,
    variance: usize,
    centred: usize,
}

impl Moments {
    fn of(scope: &mut Scope<'_, '_>, x: usize) -> Self {
        let mean = scope.mean(x);
        let centred = scope.subtract(x, mean);
        let square = scope.eltwise(Eltwise::Square, centred);
        let variance = scope.mean(square);
        Self { mean, variance, centred }
    }
}

/// The gradients of summand and factor: folds of the result's gradient, and of that times the normalised source.
fn parameters(scope: &mut Scope<'_, '_>, diff: usize, normal: usize) {
    let product = scope.multiply(diff, normal);
    let scale = scope.fold(Fold::Sum, product);
    scope.output(1, scale);
    let shift = scope.fold(Fold::Sum, diff);
    scope.output(2, shift);
}

/// `(g - mean(g) - normal * mean(g * normal)) / deviation`.
fn source_gradient(scope: &mut Scope<'_, '_>, g: usize, normal: usize, variance: usize) -> Result<usize> {
    let mean = scope.mean(g);
    let product = scope.multiply(g, normal);
    let share = scope.mean(product);
    let centred = scope.subtract(g, mean);
    let share = scope.multiply(normal, share);
    let rest = scope.subtract(centred, share);
    over_deviation(scope, rest, variance)
}

fn over_deviation(scope: &mut Scope<'_, '_>, x: usize, variance: usize) -> Result<usize> {
    let root = deviation(scope, variance)?;
    Ok(scope.divide(x, root))
}

/// `sqrt(variance + epsilon)`.
fn deviation(scope: &mut Scope<'_, '_>, variance: usize) -> Result<usize> {
    let epsilon = scope.op.attrs.f32("epsilon")?;
    let epsilon = scope.constant(epsilon);
    let sum = scope.add(variance, epsilon);
    Ok(scope.eltwise(Eltwise::Sqrt, sum))
}

/// The optional factor and summand from input `first` on.
fn affine(scope: &mut Scope<'_, '_>, x: usize, first: usize) -> Result<usize> {
    let scaled = factor(scope, x, first)?;
    if !scope.has_input(first + 1) {
        return Ok(scaled);
    }
    let shift = scope.input(first + 1)?;
    Ok(scope.add(scaled, shift))
}

fn factor(scope: &mut Scope<'_, '_>, x: usize, at: usize) -> Result<usize> {
    if !scope.has_input(at) {
        return Ok(x);
    }
    let scale = scope.input(at)?;
    Ok(scope.multiply(x, scale))
}
