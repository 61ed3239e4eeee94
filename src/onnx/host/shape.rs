//! Dimensions, and the same elements under others.

use anydnn_backend::{Dims, Result};

use super::super::axes::marked;
use super::super::tensor::{check_size, dims as checked_dims};
use super::call::Call;
use super::numbers::{indices, product};
use crate::graph::normalize_axis;
use crate::model::HostTensor;

pub(in crate::onnx) fn identity(call: &mut Call) -> Result<Vec<HostTensor>> {
    Ok(vec![call.tensor(0)?.clone()])
}

pub(in crate::onnx) fn shape(call: &mut Call) -> Result<Vec<HostTensor>> {
    let dims = call.tensor(0)?.dims();
    let rank = dims.len() as i64;
    let bound = |name: &str, absent: i64| -> Result<usize> {
        let given = call.node.int(name, absent)?;
        let from_front = if given < 0 { given.saturating_add(rank) } else { given };
        Ok(from_front.clamp(0, rank) as usize)
    };
    let (start, end) = (bound("start", 0)?, bound("end", rank)?);
    let taken: Vec<i64> = dims.get(start..end).unwrap_or_default().iter().map(|&dim| dim as i64).collect();
    Ok(vec![indices([taken.len()], &taken)?])
}

pub(in crate::onnx) fn size(call: &mut Call) -> Result<Vec<HostTensor>> {
    let elements = call.tensor(0)?.dims().elements();
    Ok(vec![indices(Dims::default(), &[elements as i64])?])
}

pub(in crate::onnx) fn reshape(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let shape = call.int_list(1, "shape")?.ok_or_else(|| call.invalid("shape", "missing", "integers"))?;
    let copies_zero = !call.node.flag("allowzero", false)?;
    let wrong =
        |expected: &str| call.invalid("new dimensions", format!("{shape:?} of {}", src.desc()), expected);
    let (mut open, mut given) = (None, Vec::with_capacity(shape.len()));
    for (i, &dim) in shape.iter().enumerate() {
        given.push(match dim {
            -1 if open.replace(i).is_some() => return Err(wrong("at most one -1")),
            -1 => 1,
            0 if copies_zero => *src.dims().get(i).ok_or_else(|| wrong("no 0 beyond the dimensions"))? as i64,
            dim => dim,
        });
    }
    let mut dims = checked_dims(&given, src.data_type())?;
    if let Some(open) = open {
        let rest = src.dims().elements().checked_div(dims.elements());
        dims[open] = rest.ok_or_else(|| wrong("no -1 beside a dimension of 0"))?;
    }
    reshaped(call, src, dims)
}

pub(in crate::onnx) fn flatten(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let rank = src.dims().len();
    let given = call.node.int("axis", 1)?;
    // The axis may be the end.
    let axis = if given == rank as i64 { rank } else { normalize_axis(given, rank)? };
    reshaped(call, src, Dims::from([product(&src.dims()[..axis]), product(&src.dims()[axis..])]))
}

pub(in crate::onnx) fn squeeze(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let rank = src.dims().len();
    let gone = match call.int_list(1, "axes")? {
        Some(axes) => marked(call.node, &axes, rank)?,
        None => src.dims().iter().map(|&dim| dim == 1).collect(),
    };
    let dims = (0..rank).filter(|&axis| !gone[axis]).map(|axis| src.dims()[axis]).collect();
    reshaped(call, src, dims)
}

pub(in crate::onnx) fn unsqueeze(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let axes = call.int_list(1, "axes")?;
    let axes = axes.ok_or_else(|| call.invalid("axes", "missing", "a list of integers"))?;
    let new = marked(call.node, &axes, src.dims().len().saturating_add(axes.len()))?;
    let mut old = src.dims().iter().copied();
    let dims = new.iter().map(|&new| if new { 1 } else { old.next().unwrap_or(1) }).collect();
    reshaped(call, src, dims)
}

fn reshaped(call: &mut Call, src: &HostTensor, dims: Dims) -> Result<Vec<HostTensor>> {
    check_size(&dims, src.data_type())?;
    call.take(&dims, src.data_type())?;
    Ok(vec![src.clone().reshaped(dims)?])
}
