//! Operations that move elements.

use anydnn::graph::Op;

use super::super::tensor::Tensor;
use super::front;

pub fn concat(op: &Op, inputs: &[Tensor]) -> Tensor {
    let axis = front(op.attrs.s64("axis").unwrap(), inputs[0].rank());
    let mut dims = inputs[0].dims.clone();
    dims[axis] = inputs.iter().map(|t| t.dims[axis]).sum();
    Tensor::of(&dims, |index| {
        let mut own = index.to_vec();
        for input in inputs {
            if own[axis] < input.dims[axis] {
                return input.at(&own);
            }
            own[axis] -= input.dims[axis];
        }
        unreachable!("{index:?} of {dims:?}")
    })
}

pub fn reshape(op: &Op, src: &Tensor) -> Tensor {
    let special_zero = op.attrs.bool("special_zero").unwrap();
    let shape = op.attrs.s64s("shape").unwrap();
    let mut dims: Vec<usize> = Vec::new();
    for (i, &dim) in shape.iter().enumerate() {
        dims.push(match dim {
            0 if special_zero => src.dims[i],
            -1 => 1,
            dim => dim as usize,
        });
    }
    if let Some(open) = shape.iter().position(|&dim| dim == -1) {
        dims[open] = src.values.len() / dims.iter().product::<usize>();
    }
    Tensor::new(&dims, src.values.clone())
}

pub fn transpose(op: &Op, src: &Tensor) -> Tensor {
    let order: Vec<usize> =
        op.attrs.s64s("order").unwrap().iter().map(|&axis| front(axis, src.rank())).collect();
    let dims: Vec<usize> = order.iter().map(|&axis| src.dims[axis]).collect();
    Tensor::of(&dims, |index| {
        let mut from = vec![0; index.len()];
        for (i, &axis) in order.iter().enumerate() {
            from[axis] = index[i];
        }
        src.at(&from)
    })
}
