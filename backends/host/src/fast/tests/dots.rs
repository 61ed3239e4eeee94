//! Products with few columns, and convolutions that are no sums.

use anydnn_backend::op::{Convolution, MatMul, Op};
use anydnn_backend::{
    Arg, Attributes, BinaryAlgorithm, DataType, Eltwise, MemoryDesc, PostOp, PrimitiveDesc,
};

use super::{check, f32, image, plan, resolve};

/// The name of the form that computes a description.
fn form(desc: &PrimitiveDesc) -> &'static str {
    plan(&resolve(desc.clone()).resolved_row_major()).unwrap().name()
}

fn product(src: MemoryDesc, weights: MemoryDesc, attributes: Attributes) -> PrimitiveDesc {
    let (m, n) = (src.dims()[0], weights.dims()[1]);
    let builder = PrimitiveDesc::builder(Op::MatMul(MatMul)).src(src).weights(weights).dst(f32(&[m, n]));
    builder.arg(Arg::Bias, f32(&[n])).attributes(attributes).build().unwrap()
}

#[test]
fn products_with_few_columns_sum_along_their_terms() {
    for (m, k, n) in [(1, 32, 1), (10, 384, 1), (3, 701, 2), (57, 259, 3), (150, 256, 4), (900, 300, 1)] {
        let attributes = Attributes::default()
            .with_post_op(PostOp::Eltwise(Eltwise::GeluErf))
            .with_post_op(PostOp::binary(BinaryAlgorithm::Add, f32(&[m, n])))
            .with_post_op(PostOp::sum(0.5));
        let transposed = MemoryDesc::with_strides([k, n], DataType::F32, [1, k]).unwrap();
        for weights in [MemoryDesc::any([k, n], DataType::F32), f32(&[k, n]), transposed] {
            let desc = product(f32(&[m, k]), weights, attributes.clone());
            assert_eq!(form(&desc), "host:dots", "{desc}");
            check(&desc);
        }
    }
}

#[test]
fn what_has_more_columns_fewer_terms_or_terms_apart_is_computed_in_panels() {
    let apart = MemoryDesc::with_strides([10, 64], DataType::F32, [1, 10]).unwrap();
    for (src, k, n) in
        [(f32(&[10, 640]), 640, 5), (f32(&[10, 31]), 31, 1), (f32(&[10, 90]), 90, 3), (apart, 64, 1)]
    {
        let desc = product(src, MemoryDesc::any([k, n], DataType::F32), Attributes::default());
        assert_eq!(form(&desc), "host:panels", "{desc}");
        check(&desc);
    }
}

#[test]
fn convolutions_with_few_filters_sum_along_their_channels() {
    for (channels, outputs, kernel, groups) in [(384, 1, 1, 1), (260, 3, 3, 1), (520, 4, 3, 2), (33, 1, 5, 1)]
    {
        for (tag, open) in [("acdb", true), ("acdb", false), ("abcd", true)] {
            let pads = [kernel / 2; 2];
            let op = Convolution::new(2).with_pads(pads, pads).with_groups(groups);
            let dims = [outputs, channels / groups, kernel, kernel];
            let weights = if open { MemoryDesc::any(dims, DataType::F32) } else { f32(&dims) };
            let relu = Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Relu));
            let desc = PrimitiveDesc::builder(Op::Convolution(op))
                .src(image(tag, &[2, channels, 7, 9]))
                .weights(weights)
                .arg(Arg::Bias, f32(&[outputs]))
                .dst(image(tag, &[2, outputs, 7, 9]))
                .attributes(relu);
            let desc = desc.build().unwrap();
            assert_eq!(form(&desc), "host:dots", "{desc}");
            check(&desc);
        }
    }
}

#[test]
fn a_number_for_each_channel_is_a_product_of_elements() {
    for (channels, tag) in [(1, "acdb"), (1, "abcd"), (9, "acdb"), (300, "abcd")] {
        let op = Convolution::new(2).with_groups(channels);
        let desc = PrimitiveDesc::builder(Op::Convolution(op))
            .src(image(tag, &[2, channels, 7, 9]))
            .weights(MemoryDesc::any([channels, 1, 1, 1], DataType::F32))
            .arg(Arg::Bias, f32(&[channels]))
            .dst(image(tag, &[2, channels, 7, 9]))
            .attributes(Attributes::default().with_post_op(PostOp::sum(0.5)));
        let desc = desc.build().unwrap();
        assert_eq!(form(&desc), "host:streaming", "{desc}");
        check(&desc);
    }
}

#[test]
fn filters_of_one_channel_move_along_its_lines() {
    for (outputs, kernel, stride, dilation, pad) in
        [(1, 3, 1, 1, 1), (4, 3, 1, 1, 0), (8, 5, 2, 1, 2), (2, 2, 1, 3, 1), (7, 7, 1, 1, 3), (3, 1, 1, 1, 1)]
    {
        for (tag, width) in [("acdb", 16), ("abcd", 49)] {
            let op = Convolution::new(2)
                .with_strides([stride, 1])
                .with_dilations([dilation, dilation])
                .with_pads([pad, pad], [pad, pad]);
            let builder = PrimitiveDesc::builder(Op::Convolution(op))
                .src(image(tag, &[2, 1, 11, width + (kernel - 1) * dilation]))
                .weights(MemoryDesc::any([outputs, 1, kernel, kernel], DataType::F32));
            let dims = builder.clone().build().unwrap().dst().dims().clone();
            let attributes = Attributes::default()
                .with_post_op(PostOp::Eltwise(Eltwise::Relu))
                .with_post_op(PostOp::binary(BinaryAlgorithm::Multiply, f32(&[1, outputs, 1, 1])))
                .with_post_op(PostOp::sum(0.5));
            let builder = builder.arg(Arg::Bias, f32(&[outputs])).dst(image(tag, &dims));
            let desc = builder.attributes(attributes).build().unwrap();
            assert_eq!(form(&desc), "host:lines", "{desc}");
            check(&desc);
        }
    }
    // One dimension, and three.
    for (src, kernel) in [(&[3, 1, 40][..], &[2, 1, 3][..]), (&[2, 1, 4, 5, 33], &[5, 1, 2, 2, 4])] {
        let desc = PrimitiveDesc::builder(Op::Convolution(Convolution::new(src.len() - 2)))
            .src(f32(src))
            .weights(f32(kernel))
            .build()
            .unwrap()
            .resolved_row_major();
        assert_eq!(form(&desc), "host:lines", "{desc}");
        check(&desc);
    }
}
