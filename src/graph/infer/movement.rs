//! Operations that reduce, join and rearrange dimensions.

use anydnn_backend::{Dims, Result};

use super::super::op::Op;
use super::{Shapes, attr_axis, axis, bad_attr, bad_shape};

pub(super) fn reduce(op: &Op, inputs: &[Dims]) -> Result<Shapes> {
    if inputs.len() > 1 {
        return Ok(None);
    }
    let src = &inputs[0];
    // Without axes a reduction is the identity.
    let axes = if op.attrs.get("axes").is_some() { op.attrs.s64s("axes")? } else { &[] };
    let mut reduced = vec![false; src.len()];
    for &given in axes {
        match axis::from_front(given, src.len()) {
            Some(axis) if !reduced[axis] => reduced[axis] = true,
            _ => {
                let expected = format!("different axes of the {} dimensions of src {src}", src.len());
                return Err(bad_attr(op, "axes", format!("{axes:?}"), expected));
            }
        }
    }
    let keep = op.attrs.bool("keep_dims")?;
    let dims = src.iter().zip(&reduced).filter(|&(_, &gone)| keep || !gone);
    Ok(Some(vec![dims.map(|(&dim, &gone)| if gone { 1 } else { dim }).collect()]))
}

pub(super) fn concat(op: &Op, inputs: &[Dims]) -> Result<Dims> {
    let first = &inputs[0];
    let axis = attr_axis(op, "axis", first.len())?;
    let mut joined = first.clone();
    for (i, dims) in inputs.iter().enumerate().skip(1) {
        let fits = dims.len() == first.len() && (0..dims.len()).all(|d| d == axis || dims[d] == first[d]);
        if !fits {
            let expected = format!("{first}, as input 0, in every dimension but {axis}");
            return Err(bad_shape(op, &format!("input {i}"), dims, expected));
        }
        joined[axis] = joined[axis].saturating_add(dims[axis]);
    }
    Ok(joined)
}

pub(super) fn reshape(op: &Op, src: &Dims) -> Result<Dims> {
    let shape = op.attrs.s64s("shape")?;
    let special_zero = op.attrs.bool("special_zero")?;
    let wrong = |expected: String| bad_attr(op, "shape", format!("{shape:?} for src {src}"), expected);
    let mut open = None;
    let mut known = Vec::with_capacity(shape.len());
    for (i, &given) in shape.iter().enumerate() {
        known.push(match given {
            -1 if open.replace(i).is_some() => return Err(wrong("at most one -1".into())),
            -1 => 1,
            0 if special_zero => match src.get(i) {
                Some(&dim) => dim,
                None => return Err(wrong(format!("no 0 beyond the {} dimensions of src", src.len()))),
            },
            given => usize::try_from(given).map_err(|_| wrong("no dimension below -1".into()))?,
        });
    }
    let mut dims = Dims::from(known);
    if let Some(open) = open {
        let rest = dims.elements();
        dims[open] = match src.elements().checked_div(rest) {
            Some(dim) => dim,
            None => return Err(wrong("no -1 beside a dimension of 0".into())),
        };
    }
    if dims.elements() != src.elements() {
        return Err(wrong(format!("the {} elements of src, not {}", src.elements(), dims.elements())));
    }
    Ok(dims)
}

pub(super) fn transpose(op: &Op, src: &Dims) -> Result<Dims> {
    let order = op.attrs.s64s("order")?;
    let axes: Option<Vec<usize>> = order.iter().map(|&given| axis::from_front(given, src.len())).collect();
    let is_permutation = axes
        .as_ref()
        .is_some_and(|axes| axes.len() == src.len() && (0..src.len()).all(|axis| axes.contains(&axis)));
    match axes {
        Some(axes) if is_permutation => Ok(axes.iter().map(|&axis| src[axis]).collect()),
        _ => {
            let expected = format!("a permutation of the {} dimensions of src {src}", src.len());
            Err(bad_attr(op, "order", format!("{order:?}"), expected))
        }
    }
}
