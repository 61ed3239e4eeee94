//! Operations that reduce, join and rearrange dimensions.

use anydnn_backend::op::{Border, Gather, Remap};
use anydnn_backend::{Dims, Result};

use super::super::op::Op;
use super::{Shapes, attr_axis, axis, bad_attr, bad_shape, normalize_axis};

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

/// The axes of the source that a `StaticTranspose` of so many axes puts one after the other, counted from the front.
pub(crate) fn order_of(op: &Op, rank: usize) -> Result<Vec<usize>> {
    op.attrs.s64s("order")?.iter().map(|&axis| normalize_axis(axis, rank)).collect()
}

/// Whether a `StaticTranspose` of so many axes exchanges the last two and leaves the others.
pub(crate) fn exchanges_last_axes(op: &Op, rank: usize) -> bool {
    let is_exchange = |order: Vec<usize>| order.into_iter().eq((0..rank - 2).chain([rank - 1, rank - 2]));
    rank >= 2 && order_of(op, rank).is_ok_and(is_exchange)
}

/// The places that a `Remap` takes its elements from.
pub(crate) fn remap_of(op: &Op) -> Result<Remap> {
    let shape = op.attrs.s64s("shape")?;
    let dims: Option<Dims> = shape.iter().map(|&dim| usize::try_from(dim).ok()).collect();
    let dims = dims.ok_or_else(|| bad_attr(op, "shape", format!("{shape:?}"), "no negative dimensions"))?;
    let border = match op.attrs.string("border")? {
        "edge" => Border::Edge,
        "reflect" => Border::Reflect,
        "wrap" => Border::Wrap,
        _ => Border::Fill,
    };
    let (starts, steps) = (op.attrs.s64s("starts")?.to_vec(), op.attrs.s64s("steps")?.to_vec());
    Ok(Remap { dims, starts, steps, border })
}

pub(super) fn remap(op: &Op, inputs: &[Dims]) -> Result<Dims> {
    let map = remap_of(op)?;
    let rank = inputs[0].len();
    for (name, count) in [("shape", map.dims.len()), ("starts", map.starts.len()), ("steps", map.steps.len())]
    {
        if count != rank {
            let expected = format!("{rank} numbers, one for each dimension of src {}", inputs[0]);
            return Err(bad_attr(op, name, format!("{count} numbers"), expected));
        }
    }
    if let Some(fill) = inputs.get(1)
        && (fill.elements() != 1 || map.border != Border::Fill)
    {
        return Err(bad_shape(op, "fill", fill, "one element, for the border fill"));
    }
    Ok(map.dims)
}

/// How a `Gather` chooses from a source of this rank.
pub(crate) fn gather_of(op: &Op, rank: usize) -> Result<Gather> {
    Ok(match op.attrs.string("mode")? {
        "lists" => {
            let batch = op.attrs.s64("batch_dims")?;
            let wrong = || bad_attr(op, "batch_dims", batch, format!("a number of the {rank} dimensions"));
            Gather::Lists(usize::try_from(batch).ok().filter(|&batch| batch < rank).ok_or_else(wrong)?)
        }
        "elements" => Gather::Elements(attr_axis(op, "axis", rank)?),
        _ => Gather::Axis(attr_axis(op, "axis", rank)?),
    })
}

pub(super) fn gather(op: &Op, inputs: &[Dims]) -> Result<Dims> {
    let gather = gather_of(op, inputs[0].len())?;
    gather.result(&inputs[0], &inputs[1]).map_err(|error| error.at(op.to_string()))
}
