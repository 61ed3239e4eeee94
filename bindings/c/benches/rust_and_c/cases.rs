//! The cases: a primitive of usual size of each kind.

use std::ffi::c_int;
use std::ptr;

use anydnn_backend::op::{
    Binary, Convolution, LayerNormalization, MatMul, Op, Pooling, PoolingAlgorithm, Reduction,
    ReductionAlgorithm, Reorder, Softmax,
};
use anydnn_backend::{Arg, BinaryAlgorithm, DataType, Eltwise, MemoryDesc, PrimitiveDesc, Result};
use anydnn_c::object_types::{
    dnnl_binary_add, dnnl_eltwise_tanh, dnnl_forward_inference, dnnl_softmax_accurate,
};
use anydnn_c::types::{dnnl_f32, dnnl_format_tag_any};

use crate::functions::{
    CONVOLUTION_DIRECT, Handle, POOLING_MAX, REDUCTION_SUM, call, check, dnnl_binary_primitive_desc_create,
    dnnl_convolution_forward_primitive_desc_create, dnnl_eltwise_forward_primitive_desc_create,
    dnnl_inner_product_forward_primitive_desc_create, dnnl_layer_normalization_forward_primitive_desc_create,
    dnnl_matmul_primitive_desc_create, dnnl_memory_desc_create_with_strides,
    dnnl_memory_desc_create_with_tag, dnnl_pooling_forward_primitive_desc_create,
    dnnl_reduction_primitive_desc_create, dnnl_reorder_primitive_desc_create,
    dnnl_softmax_forward_primitive_desc_create,
};

/// Describes a primitive through the C functions.
type Describe = Box<dyn Fn(Handle, *mut Handle) -> c_int>;

/// A primitive on both ways, and its arguments by the numbers of both.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) desc: PrimitiveDesc,
    pub(crate) describe: Describe,
    pub(crate) args: Vec<(Arg, c_int)>,
}

/// A descriptor of C, dense along the axes in this order, that stays to the end.
fn permuted(dims: &[i64], order: &[usize]) -> Handle {
    let mut strides = vec![0; dims.len()];
    let mut stride = 1;
    for &axis in order.iter().rev() {
        strides[axis] = stride;
        stride *= dims[axis];
    }
    let mut md = ptr::null_mut();
    let rank = dims.len() as c_int;
    let (dims, strides) = (dims.as_ptr(), strides.as_ptr());
    check(call!(dnnl_memory_desc_create_with_strides(&raw mut md, rank, dims, dnnl_f32 as c_int, strides)));
    md
}

fn dense(dims: &[i64]) -> Handle {
    permuted(dims, &(0..dims.len()).collect::<Vec<_>>())
}

fn open(dims: &[i64]) -> Handle {
    let mut md = ptr::null_mut();
    let (rank, data_type, tag) = (dims.len() as c_int, dnnl_f32 as c_int, dnnl_format_tag_any as c_int);
    check(call!(dnnl_memory_desc_create_with_tag(&raw mut md, rank, dims.as_ptr(), data_type, tag)));
    md
}

fn f32<const N: usize>(dims: [usize; N]) -> MemoryDesc {
    MemoryDesc::new(dims, DataType::F32)
}

pub(crate) fn cases() -> Result<Vec<Case>> {
    let (src, weights, dst) = ((Arg::SRC, 1), (Arg::Weights, 33), (Arg::DST, 17));
    let inference = dnnl_forward_inference as c_int;
    let none = ptr::null_mut;
    let mut all = Vec::new();
    let mut add =
        |name, op: Op, operands: &[(Arg, MemoryDesc)], describe: Describe, args: &[(Arg, c_int)]| {
            let builder = operands
                .iter()
                .fold(PrimitiveDesc::builder(op), |builder, (arg, desc)| builder.arg(*arg, desc.clone()));
            all.push(Case { name, desc: builder.build()?, describe, args: args.to_vec() });
            Ok::<_, anydnn_backend::Error>(())
        };
    let (a, b, c) = (dense(&[256, 256]), open(&[256, 256]), dense(&[256, 256]));
    add(
        "matmul",
        MatMul.into(),
        &[
            (Arg::SRC, f32([256, 256])),
            (Arg::Weights, MemoryDesc::any([256, 256], DataType::F32)),
            (Arg::DST, f32([256, 256])),
        ],
        Box::new(move |e, pd| call!(dnnl_matmul_primitive_desc_create(pd, e, a, b, none(), c, none()))),
        &[src, weights, dst],
    )?;
    let (a, b, c) = (dense(&[64, 1024]), open(&[512, 1024]), dense(&[64, 512]));
    add(
        "inner product",
        MatMul.into(),
        &[
            (Arg::SRC, f32([64, 1024])),
            (Arg::Weights, MemoryDesc::any([1024, 512], DataType::F32)),
            (Arg::DST, f32([64, 512])),
        ],
        Box::new(move |e, pd| {
            call!(dnnl_inner_product_forward_primitive_desc_create(pd, e, inference, a, b, none(), c, none()))
        }),
        &[src, weights, dst],
    )?;
    let (a, b, c) = (dense(&[1, 64, 28, 28]), open(&[64, 64, 3, 3]), dense(&[1, 64, 28, 28]));
    add(
        "convolution",
        Convolution::new(2).with_pads([1, 1], [1, 1]).into(),
        &[
            (Arg::SRC, f32([1, 64, 28, 28])),
            (Arg::Weights, MemoryDesc::any([64, 64, 3, 3], DataType::F32)),
            (Arg::DST, f32([1, 64, 28, 28])),
        ],
        Box::new(move |e, pd| {
            let (zeros, ones) = ([0_i64; 2], [1_i64; 2]);
            let [step, dilation, pad] = [&ones, &zeros, &ones].map(|list| list.as_ptr());
            call!(dnnl_convolution_forward_primitive_desc_create(
                pd,
                e,
                inference,
                CONVOLUTION_DIRECT,
                a,
                b,
                none(),
                c,
                step,
                dilation,
                pad,
                pad,
                none(),
            ))
        }),
        &[src, weights, dst],
    )?;
    let (a, c) = (dense(&[4, 64, 56, 56]), dense(&[4, 64, 28, 28]));
    add(
        "pooling",
        Pooling::new(PoolingAlgorithm::Max, [3, 3]).with_strides([2, 2]).with_pads([1, 1], [1, 1]).into(),
        &[(Arg::SRC, f32([4, 64, 56, 56])), (Arg::DST, f32([4, 64, 28, 28]))],
        Box::new(move |e, pd| {
            let (zeros, ones, twos, threes) = ([0_i64; 2], [1_i64; 2], [2_i64; 2], [3_i64; 2]);
            let [step, kernel, dilation, pad] = [&twos, &threes, &zeros, &ones].map(|list| list.as_ptr());
            call!(dnnl_pooling_forward_primitive_desc_create(
                pd,
                e,
                inference,
                POOLING_MAX,
                a,
                c,
                step,
                kernel,
                dilation,
                pad,
                pad,
                none(),
            ))
        }),
        &[src, dst],
    )?;
    let matrix = dense(&[512, 1024]);
    add(
        "softmax",
        Softmax::new(1).into(),
        &[(Arg::SRC, f32([512, 1024])), (Arg::DST, f32([512, 1024]))],
        Box::new(move |e, pd| {
            let algorithm = dnnl_softmax_accurate as c_int;
            call!(dnnl_softmax_forward_primitive_desc_create(
                pd,
                e,
                inference,
                algorithm,
                matrix,
                matrix,
                1,
                none()
            ))
        }),
        &[src, dst],
    )?;
    add(
        "layer normalisation",
        LayerNormalization::new(1, 1e-5).into(),
        &[
            (Arg::SRC, f32([512, 1024])),
            (Arg::Scale, f32([1024])),
            (Arg::Shift, f32([1024])),
            (Arg::DST, f32([512, 1024])),
        ],
        Box::new(move |e, pd| {
            call!(dnnl_layer_normalization_forward_primitive_desc_create(
                pd,
                e,
                inference,
                matrix,
                matrix,
                none(),
                1e-5,
                6,
                none(),
            ))
        }),
        &[src, (Arg::Scale, 51), (Arg::Shift, 52), dst],
    )?;
    add(
        "eltwise",
        Eltwise::Tanh.into(),
        &[(Arg::SRC, f32([512, 1024])), (Arg::DST, f32([512, 1024]))],
        Box::new(move |e, pd| {
            let algorithm = dnnl_eltwise_tanh as c_int;
            call!(dnnl_eltwise_forward_primitive_desc_create(
                pd,
                e,
                inference,
                algorithm,
                matrix,
                matrix,
                0.0,
                0.0,
                none()
            ))
        }),
        &[src, dst],
    )?;
    add(
        "binary",
        Binary::new(BinaryAlgorithm::Add).into(),
        &[(Arg::SRC, f32([512, 1024])), (Arg::Src(1), f32([512, 1024])), (Arg::DST, f32([512, 1024]))],
        Box::new(move |e, pd| {
            call!(dnnl_binary_primitive_desc_create(
                pd,
                e,
                dnnl_binary_add as c_int,
                matrix,
                matrix,
                matrix,
                none()
            ))
        }),
        &[src, (Arg::Src(1), 2), dst],
    )?;
    let (tall, column) = (dense(&[4096, 1024]), dense(&[4096, 1]));
    add(
        "reduction",
        Reduction::new(ReductionAlgorithm::Sum).into(),
        &[(Arg::SRC, f32([4096, 1024])), (Arg::DST, f32([4096, 1]))],
        Box::new(move |e, pd| {
            call!(dnnl_reduction_primitive_desc_create(pd, e, REDUCTION_SUM, tall, column, 0.0, 0.0, none()))
        }),
        &[src, dst],
    )?;
    let turned = permuted(&[512, 1024], &[1, 0]);
    add(
        "reorder",
        Reorder.into(),
        &[(Arg::SRC, f32([512, 1024])), (Arg::DST, f32([1024, 512]).permuted(&[1, 0])?)],
        Box::new(move |e, pd| call!(dnnl_reorder_primitive_desc_create(pd, matrix, e, turned, e, none()))),
        &[src, dst],
    )?;
    Ok(all)
}
