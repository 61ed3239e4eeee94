//! Operations that work element by element.

use anydnn_backend::{Dims, Result};

use super::super::op::Op;
use super::super::schema::Schema;
use super::{bad_shape, channel_axis};

/// The one shape of all inputs.
pub(super) fn same(op: &Op, inputs: &[Dims]) -> Result<Dims> {
    for (i, dims) in inputs.iter().enumerate().skip(1) {
        if *dims != inputs[0] {
            let name = Schema::of(op.kind).inputs.name(i);
            return Err(bad_shape(op, name, dims, format!("{}, as the first input", inputs[0])));
        }
    }
    Ok(inputs[0].clone())
}

/// The shape that all inputs stretch to, by numpy's rule where `auto_broadcast` allows it.
pub(super) fn broadcast(op: &Op, inputs: &[Dims]) -> Result<Dims> {
    if op.attrs.string("auto_broadcast")? == "none" {
        return same(op, inputs);
    }
    let mut dims = inputs[0].clone();
    for other in &inputs[1..] {
        dims = dims.broadcast(other).map_err(|_| {
            let expected = "equal dimensions or ones, aligned at the last";
            bad_shape(op, "inputs", format!("{dims} with {other}"), expected)
        })?;
    }
    Ok(dims)
}

pub(super) fn bias_add(op: &Op, inputs: &[Dims]) -> Result<Dims> {
    let channels = inputs[0][channel_axis(op, &inputs[0])?];
    if *inputs[1] != [channels] {
        return Err(bad_shape(
            op,
            "bias",
            &inputs[1],
            format!("{channels}, the channels of src {}", inputs[0]),
        ));
    }
    Ok(inputs[0].clone())
}

pub(super) fn prelu(op: &Op, inputs: &[Dims]) -> Result<Dims> {
    let (src, slope) = (&inputs[0], &inputs[1]);
    let fits = match slope[..] {
        [] | [1] => true,
        [count] if src.len() > 1 => count == src[channel_axis(op, src)?] || slope.broadcasts_to(src),
        _ => slope.broadcasts_to(src),
    };
    if !fits {
        return Err(bad_shape(
            op,
            "slope",
            slope,
            format!("one slope, one for each channel, or a part of {src}"),
        ));
    }
    Ok(src.clone())
}
