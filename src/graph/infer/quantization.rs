//! Conversions between floats and scaled integers.

use anydnn_backend::{Dims, Result};

use super::super::op::Op;
use super::super::schema::Schema;
use super::{attr_axis, bad_attr, bad_shape};

/// Scales in attributes.
pub(super) fn fixed(op: &Op, src: &Dims) -> Result<Dims> {
    if op.attrs.string("qtype")? == "per_channel" {
        let axis = attr_axis(op, "axis", src.len())?;
        let scales = op.attrs.f32s("scales")?.len();
        if scales != src[axis] {
            let expected = format!("{}, one for each index along axis {axis} of src {src}", src[axis]);
            return Err(bad_attr(op, "scales", format!("{scales} values"), expected));
        }
    }
    Ok(src.clone())
}

/// Scales and zero points in tensors.
pub(super) fn dynamic(op: &Op, inputs: &[Dims]) -> Result<Dims> {
    let src = &inputs[0];
    let qtype = op.attrs.string("qtype")?;
    for (i, dims) in inputs.iter().enumerate().skip(1) {
        let name = Schema::of(op.kind).inputs.name(i);
        match qtype {
            "per_tensor" if dims.elements() != 1 => {
                return Err(bad_shape(op, name, dims, "one element, because qtype is per_tensor"));
            }
            "per_channel" => {
                let axis = attr_axis(op, "axis", src.len())?;
                if dims.elements() != src[axis] {
                    let expected =
                        format!("{}, one for each index along axis {axis} of src {src}", src[axis]);
                    return Err(bad_shape(op, name, dims, expected));
                }
            }
            "per_group" => check_groups(op, name, src, dims)?,
            _ => {}
        }
    }
    Ok(src.clone())
}

fn check_groups(op: &Op, name: &str, src: &Dims, dims: &Dims) -> Result<()> {
    let shape = op.attrs.s64s("group_shape")?;
    let groups: Option<Dims> = (shape.len() == src.len())
        .then(|| {
            src.iter().zip(shape).map(|(&dim, &size)| match usize::try_from(size) {
                Ok(size) if size > 0 && dim.is_multiple_of(size) => Some(dim / size),
                _ => None,
            })
        })
        .and_then(Iterator::collect);
    match groups {
        None => {
            let expected = format!("a divisor of each dimension of src {src}");
            Err(bad_attr(op, "group_shape", format!("{shape:?}"), expected))
        }
        // One zero point may serve all groups.
        Some(groups) if *dims != groups && dims.elements() != 1 => {
            Err(bad_shape(op, name, dims, format!("{groups}, one for each group of {shape:?} in src {src}")))
        }
        Some(_) => Ok(()),
    }
}
