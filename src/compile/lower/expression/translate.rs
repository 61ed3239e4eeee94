//! Functions of elements as nodes.

use anydnn_backend::op::{BinaryAlgorithm, Eltwise, Fold, Node};
use anydnn_backend::{Error, Result};

use super::super::pointwise::{binary_of, eltwise_of, gradient_of, is_gradient, is_unary};
use super::super::quantization::rounds_first;
use super::draft::{Scope, apart};
use super::layout::Side;
use super::{normalizations, rows};
use crate::graph::{OpKind as K, normalize_axis};

/// Whether operations of a kind become nodes.
pub(super) fn expressible(kind: K) -> bool {
    use K::{
        BatchNormForwardTraining, BatchNormInference, BatchNormTrainingBackward, BiasAdd, BiasAddBackward,
        Dequantize, Dropout, DynamicDequantize, DynamicQuantize, GenIndex, GroupNorm, LayerNorm,
        LayerNormBackward, LogSoftmax, LogSoftmaxBackward, PReLU, PReLUBackward, Quantize, RMSNorm, Reorder,
        Select, SoftMax, SoftMaxBackward, TypeCast,
    };
    binary_of(kind).is_some()
        || is_unary(kind)
        || rows::is_reduction(kind)
        || is_gradient(kind)
        || matches!(
            kind,
            Select
                | BiasAdd
                | BiasAddBackward
                | PReLU
                | PReLUBackward
                | TypeCast
                | Reorder
                | Quantize
                | Dequantize
                | DynamicQuantize
                | DynamicDequantize
                | GenIndex
                | Dropout
                | SoftMax
                | LogSoftmax
                | SoftMaxBackward
                | LogSoftmaxBackward
                | LayerNorm
                | LayerNormBackward
                | RMSNorm
                | GroupNorm
                | BatchNormInference
                | BatchNormForwardTraining
                | BatchNormTrainingBackward
        )
}

/// Adds the nodes of a part.
pub(super) fn translate(scope: &mut Scope<'_, '_>) -> Result<()> {
    match scope.op.kind {
        K::Select => {
            let (condition, a, b) = (scope.input(0)?, scope.input(1)?, scope.input(2)?);
            let y = scope.select(condition, a, b);
            scope.output(0, y);
            Ok(())
        }
        K::BiasAdd => binary(scope, BinaryAlgorithm::Add),
        K::BiasAddBackward => {
            let x = scope.input(0)?;
            let sum = scope.fold(Fold::Sum, x);
            scope.output(0, sum);
            Ok(())
        }
        K::PReLU => prelu(scope),
        K::PReLUBackward => prelu_backward(scope),
        K::TypeCast | K::Reorder => {
            let x = scope.input(0)?;
            scope.output(0, x);
            Ok(())
        }
        K::Quantize | K::Dequantize => quantization(scope),
        K::DynamicQuantize | K::DynamicDequantize => dynamic_quantization(scope),
        K::GenIndex => gen_index(scope),
        K::Dropout => dropout(scope),
        K::SoftMax | K::LogSoftmax => rows::softmax(scope),
        K::SoftMaxBackward | K::LogSoftmaxBackward => rows::softmax_backward(scope),
        K::LayerNorm | K::GroupNorm => normalizations::moments(scope),
        K::RMSNorm => normalizations::root_mean_square(scope),
        K::LayerNormBackward => normalizations::layer_backward(scope),
        K::BatchNormInference => normalizations::batch(scope),
        K::BatchNormForwardTraining => normalizations::batch_training(scope),
        K::BatchNormTrainingBackward => normalizations::batch_backward(scope),
        kind if rows::is_reduction(kind) => rows::reduction(scope),
        kind if is_gradient(kind) => gradient(scope),
        kind => {
            if let Some(algorithm) = binary_of(kind) {
                return binary(scope, algorithm);
            }
            let function = eltwise_of(scope.op)?;
            let x = scope.input(0)?;
            let y = scope.eltwise(function, x);
            scope.output(0, y);
            Ok(())
        }
    }
}

fn binary(scope: &mut Scope<'_, '_>, algorithm: BinaryAlgorithm) -> Result<()> {
    let (a, b) = (scope.input(0)?, scope.input(1)?);
    let y = scope.binary(algorithm, a, b);
    scope.output(0, y);
    Ok(())
}

/// The gradient of a unary operation, from its source or its result.
fn gradient(scope: &mut Scope<'_, '_>) -> Result<()> {
    let op = scope.op;
    let function = gradient_of(op)?.ok_or_else(|| Error::unsupported(op.to_string(), "not a gradient"))?;
    let of_result = function.has_gradient_of_result() && op.attrs.bool("use_dst").unwrap_or(false);
    let (at, diff) = (scope.input(0)?, scope.input(1)?);
    let y = scope.draft.push(Node::Gradient { function, of_result, at, diff });
    scope.output(0, y);
    Ok(())
}

/// `x` where positive, else `slope * x`.
fn prelu(scope: &mut Scope<'_, '_>) -> Result<()> {
    let (x, slope) = (scope.input(0)?, scope.input(1)?);
    let zero = scope.constant(0.0);
    let positive = scope.binary(BinaryAlgorithm::Greater, x, zero);
    let scaled = scope.multiply(x, slope);
    let y = scope.select(positive, x, scaled);
    scope.output(0, y);
    Ok(())
}

fn prelu_backward(scope: &mut Scope<'_, '_>) -> Result<()> {
    let (x, diff) = (scope.input(0)?, scope.input(2)?);
    let zero = scope.constant(0.0);
    let positive = scope.binary(BinaryAlgorithm::Greater, x, zero);
    if scope.side == Side::Main {
        let slope = scope.input(1)?;
        let scaled = scope.multiply(diff, slope);
        let y = scope.select(positive, diff, scaled);
        scope.output(0, y);
    } else {
        let product = scope.multiply(diff, x);
        let share = scope.select(positive, zero, product);
        let sum = scope.fold(Fold::Sum, share);
        scope.output(1, sum);
    }
    Ok(())
}

/// `x / scale + zero point` and back, with scales and zero points in attributes.
fn quantization(scope: &mut Scope<'_, '_>) -> Result<()> {
    let op = scope.op;
    let rank = scope.layout.dims.len();
    let axis = match op.attrs.string("qtype")? {
        "per_channel" => normalize_axis(op.attrs.s64("axis")?, rank)?,
        _ => 0,
    };
    let x = scope.input(0)?;
    let scales = op.attrs.f32s("scales")?;
    let wrong = |name: &str, given: usize| {
        let expected = "one, or one for each channel where qtype is per_channel";
        Error::invalid(op.to_string(), format!("attribute {name}"), format!("{given} values"), expected)
    };
    let fits = |count: usize| count == 1 || scope.layout.dims.get(axis) == Some(&count);
    if !fits(scales.len()) {
        return Err(wrong("scales", scales.len()));
    }
    let zps: Vec<f32> = match op.attrs.get("zps") {
        Some(_) => op.attrs.s64s("zps")?.iter().map(|&zp| zp as f32).collect(),
        None => Vec::new(),
    };
    if !zps.is_empty() && !fits(zps.len()) {
        return Err(wrong("zps", zps.len()));
    }
    let scale = scope.literal(scales, axis)?;
    let zero_point = if zps.iter().all(|&zp| zp == 0.0) { None } else { Some(scope.literal(&zps, axis)?) };
    let y = if op.kind == K::Quantize && rounds_first(op) {
        let steps = scope.divide(x, scale);
        let steps = scope.eltwise(Eltwise::Round, steps);
        zero_point.map_or(steps, |zero_point| scope.add(steps, zero_point))
    } else {
        affine(scope, x, scale, zero_point, op.kind == K::Quantize)
    };
    scope.output(0, y);
    Ok(())
}

/// The same with scales and zero points in tensors.
fn dynamic_quantization(scope: &mut Scope<'_, '_>) -> Result<()> {
    let (x, scale) = (scope.input(0)?, scope.input(1)?);
    let zero_point = if scope.has_input(2) { Some(scope.input(2)?) } else { None };
    let y = affine(scope, x, scale, zero_point, scope.op.kind == K::DynamicQuantize);
    scope.output(0, y);
    Ok(())
}

fn affine(scope: &mut Scope<'_, '_>, x: usize, scale: usize, zero_point: Option<usize>, to: bool) -> usize {
    match (to, zero_point) {
        (true, None) => scope.divide(x, scale),
        (true, Some(zero_point)) => {
            let scaled = scope.divide(x, scale);
            scope.add(scaled, zero_point)
        }
        (false, None) => scope.multiply(x, scale),
        (false, Some(zero_point)) => {
            let shifted = scope.subtract(x, zero_point);
            scope.multiply(shifted, scale)
        }
    }
}

fn gen_index(scope: &mut Scope<'_, '_>) -> Result<()> {
    let axis = normalize_axis(scope.op.attrs.s64("axis")?, scope.layout.dims.len())?;
    let along = scope.map[axis];
    let space = &scope.draft.space;
    let y = if scope.layout.dims[axis] == 1 {
        scope.constant(0.0)
    } else if space.split.is_some_and(|split| split.axis == along) {
        return Err(apart(scope.op));
    } else {
        let along = space.axis(along);
        scope.draft.push(Node::Index(along))
    };
    scope.output(0, y);
    Ok(())
}

/// `x / (1 - probability)` where kept, else zero; and the mask.
fn dropout(scope: &mut Scope<'_, '_>) -> Result<()> {
    if scope.layout.dims != scope.draft.space.dims {
        // The random number of an element is that of its position.
        return Err(apart(scope.op));
    }
    let x = scope.input(0)?;
    let (seed, offset) = (scope.element(1)?, scope.element(2)?);
    let probability = scope.element(3)?;
    let kept = scope.draft.push(Node::Keep { seed, offset, probability });
    let dropped = scope.draft.push(Node::Operand(probability));
    let one = scope.constant(1.0);
    let share = scope.subtract(one, dropped);
    let scaled = scope.divide(x, share);
    let zero = scope.constant(0.0);
    let y = scope.select(kept, scaled, zero);
    scope.output(0, y);
    scope.output(1, kept);
    Ok(())
}
