//! Gradients of windows: deconvolutions, gradients of weights, gradients of poolings.

use super::{Trials, dense, f32, gapped, tagged};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::{Convolution, ConvolutionWeights, Deconvolution, Pooling, PoolingAlgorithm, PoolingBackward};
use crate::{
    Arg, Attributes, BinaryAlgorithm, DataType, Dequantize, Dims, Eltwise, MemoryDesc, Op, PostOp,
    PrimitiveDesc, PrimitiveDescBuilder, Quantized, Result,
};

pub(super) fn trials(list: &mut Trials) {
    deconvolutions(list);
    deconvolution_types(list);
    weights(list);
    poolings(list);
}

fn deconvolutions(list: &mut Trials) {
    let new = Deconvolution::new;
    for (name, op, src, weights) in [
        (
            "1d_output_padding",
            new(1).with_strides([3]).with_output_padding([2]),
            &[2, 4, 5][..],
            &[4, 3, 3][..],
        ),
        ("2d", new(2).with_pads([1, 1], [1, 1]), &[2, 6, 5, 9], &[6, 19, 3, 3]),
        (
            "2d_strided_uneven_pads",
            new(2).with_strides([2, 3]).with_pads([1, 0], [0, 2]).with_output_padding([1, 0]),
            &[1, 5, 4, 9],
            &[5, 18, 3, 4],
        ),
        ("2d_dilated", new(2).with_strides([2, 1]).with_dilations([3, 2]), &[1, 3, 4, 5], &[3, 4, 2, 3]),
        ("2d_grouped", new(2).with_groups(2).with_pads([1, 0], [1, 0]), &[1, 6, 4, 5], &[6, 20, 3, 2]),
        ("2d_depthwise", new(2).with_groups(3).with_strides([2, 2]), &[1, 3, 4, 4], &[3, 1, 3, 3]),
        (
            "3d",
            new(3).with_strides([1, 2, 2]).with_pads([1, 0, 1], [0, 1, 1]),
            &[1, 2, 3, 3, 4],
            &[2, 3, 2, 3, 3],
        ),
        ("no_samples", new(2), &[0, 3, 5, 5], &[3, 2, 3, 3]),
        ("no_channels", new(2), &[1, 0, 2, 2], &[0, 2, 2, 2]),
    ] {
        list.add(format!("deconvolution/{name}"), || {
            let bias = f32(&[weights[1] * op.groups]);
            Trial::of(deconvolution(op, f32(src), f32(weights), DataType::F32).bias(bias))
        });
    }
    list.add("deconvolution/channels_last_open_weights_post_ops", || {
        let layout = |dims: &[usize]| tagged(dims, DataType::F32, "acdb");
        let attributes = Attributes::default()
            .with_post_op(PostOp::Eltwise(Eltwise::Relu))
            .with_post_op(PostOp::binary(BinaryAlgorithm::Multiply, f32(&[20, 1, 1])));
        let builder = PrimitiveDesc::builder(Op::Deconvolution(new(2).with_strides([2, 2])))
            .src(layout(&[1, 5, 4, 3])?)
            .weights(MemoryDesc::any([5, 20, 3, 3], DataType::F32))
            .bias(f32(&[20]))
            // One element behind that no window reaches.
            .dst(layout(&[1, 20, 10, 7])?);
        Trial::of(builder.attributes(attributes))
    });
    list.add("deconvolution/channels_last_depthwise", || {
        let layout = |dims: &[usize]| tagged(dims, DataType::F32, "acdb");
        let builder = PrimitiveDesc::builder(Op::Deconvolution(new(2).with_strides([2, 1]).with_groups(18)))
            .src(layout(&[1, 18, 3, 4])?)
            .weights(MemoryDesc::any([18, 1, 3, 2], DataType::F32))
            .dst(layout(&[1, 18, 7, 5])?);
        Trial::of(builder)
    });
    list.add("deconvolution/dequantized", || {
        let attributes = Attributes::default()
            .with_dequantize(Dequantize {
                operand: Quantized::Src(0),
                scale: Some(f32(&[1])),
                zero_point: Some(dense(&[1], DataType::S32)),
            })
            .with_dequantize(Dequantize {
                operand: Quantized::Weights,
                scale: Some(f32(&[1, 18, 1, 1])),
                zero_point: None,
            });
        let (src, weights) = (dense(&[1, 5, 4, 3], DataType::U8), dense(&[5, 18, 3, 2], DataType::S8));
        let op = new(2).with_strides([2, 1]).with_pads([1, 0], [0, 1]);
        Trial::of(deconvolution(op, src, weights, DataType::F32).attributes(attributes))
    });
    list.add("deconvolution/blocked_gaps", || {
        let builder = PrimitiveDesc::builder(Op::Deconvolution(new(2)))
            .src(tagged(&[1, 6, 3, 4], DataType::F32, "aBcd4b")?)
            .weights(f32(&[6, 7, 2, 2]))
            .dst(gapped(&[1, 7, 4, 5], DataType::F32, 2, 1)?);
        Trial::of(builder)
    });
}

fn deconvolution_types(list: &mut Trials) {
    use DataType::{BF16, F16, S8, S32, U8};
    for data_type in [F16, BF16] {
        list.add(format!("deconvolution/{data_type}"), || {
            let op = Deconvolution::new(2).with_strides([2, 1]);
            let (src, weights) = (dense(&[1, 4, 3, 5], data_type), dense(&[4, 17, 2, 3], data_type));
            Trial::of(deconvolution(op, src, weights, data_type).bias(dense(&[17], data_type)))
        });
    }
    for left in [S8, U8] {
        list.add(format!("deconvolution/{left}_s8_to_s32"), || {
            let op = Deconvolution::new(2).with_strides([2, 2]).with_pads([1, 1], [1, 1]).with_groups(2);
            let (src, weights) = (dense(&[1, 4, 4, 4], left), dense(&[4, 3, 3, 3], S8));
            Ok(Trial::of(deconvolution(op, src, weights, S32))?.exact())
        });
    }
}

fn weights(list: &mut Trials) {
    let new = Convolution::new;
    for (name, op, src, kernel, outputs) in [
        ("1d", new(1).with_strides([2]).with_pads([1], [2]), &[3, 4, 11][..], &[3][..], 5),
        ("2d", new(2).with_pads([1, 1], [1, 1]), &[2, 3, 5, 21], &[3, 3], 6),
        (
            "2d_strided_dilated",
            new(2).with_strides([2, 3]).with_dilations([2, 1]).with_pads([0, 2], [1, 0]),
            &[1, 4, 8, 9],
            &[3, 2],
            3,
        ),
        ("2d_grouped", new(2).with_groups(2), &[2, 6, 5, 4], &[2, 3], 4),
        (
            "3d",
            new(3).with_pads([1, 0, 1], [0, 1, 1]).with_strides([1, 2, 1]),
            &[1, 2, 3, 5, 4],
            &[2, 2, 3],
            3,
        ),
        ("no_samples", new(2), &[0, 3, 5, 5], &[3, 3], 2),
    ] {
        list.add(format!("convolution_weights/{name}"), || {
            let dst = f32(&[&[outputs, src[1] / op.groups], kernel].concat());
            Trial::of(weights_gradient(op, f32(src), dst, |dims| Ok(f32(dims)))?)
        });
    }
    list.add("convolution_weights/channels_last", || {
        let layout = |dims: &[usize]| tagged(dims, DataType::F32, "acdb");
        let op = new(2).with_pads([1, 0], [0, 1]);
        let dst = tagged(&[20, 5, 3, 2], DataType::F32, "cdba")?;
        Trial::of(weights_gradient(op, layout(&[2, 5, 4, 5])?, dst, layout)?)
    });
    list.add("convolution_weights/channels_last_depthwise", || {
        let layout = |dims: &[usize]| tagged(dims, DataType::F32, "acdb");
        let op = new(2).with_pads([1, 1], [1, 1]).with_groups(19).with_strides([2, 1]);
        Trial::of(weights_gradient(op, layout(&[2, 19, 4, 5])?, f32(&[19, 1, 3, 3]), layout)?)
    });
    for data_type in [DataType::F16, DataType::BF16] {
        list.add(format!("convolution_weights/{data_type}_to_f32"), || {
            let op = new(2).with_pads([1, 1], [1, 1]);
            let diff = |dims: &[usize]| Ok(dense(dims, data_type));
            Trial::of(weights_gradient(op, dense(&[1, 4, 3, 18], data_type), f32(&[5, 4, 3, 3]), diff)?)
        });
    }
}

fn poolings(list: &mut Trials) {
    use PoolingAlgorithm::{AverageExcludePadding, AverageIncludePadding, Max};
    for (name, algorithm) in
        [("max", Max), ("average_exclude", AverageExcludePadding), ("average_include", AverageIncludePadding)]
    {
        for ceil in [false, true] {
            let rounding = if ceil { "ceil" } else { "floor" };
            list.add(format!("pooling_backward/{name}/2d_{rounding}"), || {
                let op = Pooling::new(algorithm, [3, 2])
                    .with_strides([2, 3])
                    .with_pads([1, 1], [1, 0])
                    .with_ceil(ceil);
                pooling(op, f32(&[2, 3, 8, 9]), |dims| Ok(f32(dims)))
            });
        }
        list.add(format!("pooling_backward/{name}/1d_dilated"), || {
            let op = Pooling::new(algorithm, [3]).with_dilations([2]).with_pads([2], [1]);
            pooling(op, f32(&[1, 2, 9]), |dims| Ok(f32(dims)))
        });
        list.add(format!("pooling_backward/{name}/3d"), || {
            let op =
                Pooling::new(algorithm, [2, 3, 2]).with_strides([2, 1, 2]).with_pads([1, 1, 0], [0, 1, 1]);
            pooling(op, f32(&[1, 2, 5, 4, 5]), |dims| Ok(f32(dims)))
        });
        list.add(format!("pooling_backward/{name}/channels_last"), || {
            let layout = |dims: &[usize]| tagged(dims, DataType::F32, "acdb");
            let op = Pooling::new(algorithm, [3, 3]).with_strides([2, 2]).with_pads([1, 1], [1, 1]);
            pooling(op, layout(&[1, 19, 6, 5])?, layout)
        });
    }
    list.add("pooling_backward/average_include/global", || {
        pooling(Pooling::new(AverageIncludePadding, [7, 5]), f32(&[2, 3, 7, 5]), |dims| Ok(f32(dims)))
    });
    for data_type in [DataType::F16, DataType::BF16] {
        list.add(format!("pooling_backward/max/{data_type}"), || {
            let op = Pooling::new(Max, [3, 3]).with_strides([2, 2]).with_pads([1, 1], [1, 1]);
            pooling(op, dense(&[1, 4, 7, 7], data_type), |dims| Ok(dense(dims, data_type)))
        });
    }
}

/// A deconvolution with a row-major result.
fn deconvolution(
    op: Deconvolution,
    src: MemoryDesc,
    weights: MemoryDesc,
    to: DataType,
) -> PrimitiveDescBuilder {
    let builder = PrimitiveDesc::builder(Op::Deconvolution(op)).src(src).weights(weights);
    let dims = builder.clone().build().map(|desc| desc.dst().dims().clone()).unwrap_or_default();
    builder.dst(MemoryDesc::new(dims, to))
}

/// The gradient of a convolution of `src` for weights like `dst`, with the layout of its result's gradient.
fn weights_gradient(
    op: Convolution,
    src: MemoryDesc,
    dst: MemoryDesc,
    layout: impl Fn(&[usize]) -> Result<MemoryDesc>,
) -> Result<PrimitiveDescBuilder> {
    let forward = PrimitiveDesc::builder(Op::Convolution(op.clone())).src(src.clone()).weights(dst.clone());
    let diff = layout(forward.build()?.dst().dims())?;
    Ok(PrimitiveDesc::builder(Op::ConvolutionWeights(ConvolutionWeights::new(op)))
        .src(src)
        .src(diff)
        .dst(dst))
}

/// The gradient of a pooling of `src`, with the layout of its result's gradient. A maximum has many equal elements to choose from.
fn pooling(op: Pooling, src: MemoryDesc, layout: impl Fn(&[usize]) -> Result<MemoryDesc>) -> Result<Trial> {
    let forward = PrimitiveDesc::builder(Op::Pooling(op.clone())).src(src.clone()).build()?;
    let diff: Dims = forward.dst().dims().clone();
    let is_max = op.algorithm == PoolingAlgorithm::Max;
    let builder = PrimitiveDesc::builder(Op::PoolingBackward(PoolingBackward::new(op))).src(layout(&diff)?);
    if is_max {
        let builder = builder.src(src.clone()).dst(src);
        return Ok(Trial::of(builder)?.values(Arg::Src(1), Values::Integers(-3, 1)));
    }
    Trial::of(builder.dst(src))
}
