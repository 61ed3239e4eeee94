//! Normalizations and softmax.

use anydnn_backend::{Dims, Result};

use super::super::op::Op;
use super::super::op_kind::OpKind;
use super::super::schema::Schema;
use super::{Shapes, attr_axis, bad_attr, bad_shape, channels, elementwise};

/// `dst` or `diff_src`, then vectors with one element for each channel.
pub(super) fn batch(op: &Op, inputs: &[Dims]) -> Result<Shapes> {
    let src = &inputs[0];
    let count = channels(op, src)?;
    let mut vectors = 1;
    if op.kind == OpKind::BatchNormTrainingBackward {
        elementwise::same(op, &inputs[..2])?;
        vectors = 2;
    }
    for (i, dims) in inputs.iter().enumerate().skip(vectors) {
        check_vector(op, i, dims, count)?;
    }
    Ok(Some(std::iter::once(src.clone()).chain(std::iter::repeat_n(Dims::from([count]), 4)).collect()))
}

/// `dst`, then the mean and variance `[N, groups]`.
pub(super) fn group(op: &Op, inputs: &[Dims]) -> Result<Shapes> {
    let src = &inputs[0];
    let count = channels(op, src)?;
    let groups = op.attrs.s64("groups")?;
    let stats = match usize::try_from(groups) {
        Ok(groups) if (1..=count.max(1)).contains(&groups) && count.is_multiple_of(groups) => {
            Dims::from([src[0], groups])
        }
        _ => return Err(bad_attr(op, "groups", groups, format!("a divisor of the {count} channels"))),
    };
    for (i, dims) in inputs.iter().enumerate().skip(1) {
        check_vector(op, i, dims, count)?;
    }
    Ok(Some(vec![src.clone(), stats.clone(), stats]))
}

/// `dst`, then the statistics over the outer dimensions: mean and variance, or the reciprocal root mean square.
pub(super) fn layer(op: &Op, inputs: &[Dims]) -> Result<Shapes> {
    let src = &inputs[0];
    let begin = attr_axis(op, "begin_norm_axis", src.len())?;
    let (outer, inner) = (Dims::new(&src[..begin]), Dims::new(&src[begin..]));
    for (i, dims) in inputs.iter().enumerate().skip(1) {
        if dims.elements() != inner.elements() && !dims.broadcasts_to(src) {
            let name = Schema::of(op.kind).inputs.name(i);
            return Err(bad_shape(
                op,
                name,
                dims,
                format!("{inner}, the normalized dimensions of src {src}"),
            ));
        }
    }
    Ok(Some(vec![src.clone(), outer.clone(), outer]))
}

/// `diff_src`, `diff_gamma` and `diff_beta`.
pub(super) fn layer_backward(op: &Op, inputs: &[Dims]) -> Result<Shapes> {
    let src = elementwise::same(op, &inputs[..2])?;
    let begin = attr_axis(op, "begin_norm_axis", src.len())?;
    let affine = inputs.get(4).cloned().unwrap_or_else(|| Dims::new(&src[begin..]));
    Ok(Some(vec![src, affine.clone(), affine]))
}

/// `dst`, then the statistics with one element along the axis.
pub(super) fn softmax(op: &Op, inputs: &[Dims]) -> Result<Shapes> {
    let mut stats = inputs[0].clone();
    stats[attr_axis(op, "axis", inputs[0].len())?] = 1;
    Ok(Some(vec![inputs[0].clone(), stats]))
}

fn check_vector(op: &Op, input: usize, dims: &Dims, channels: usize) -> Result<()> {
    if **dims == [channels] {
        return Ok(());
    }
    let name = Schema::of(op.kind).inputs.name(input);
    Err(bad_shape(op, name, dims, format!("{channels}, the channels of src")))
}
