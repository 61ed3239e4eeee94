//! Products of groups whose sizes lie in memory.

use super::{Trials, dense, f32, gapped, transposed};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::GroupedMatMul;
use crate::{
    Arg, Attributes, BinaryAlgorithm, DataType, Dequantize, Eltwise, MemoryDesc, Op, PostOp, PrimitiveDesc,
    Quantized, Result,
};

pub(super) fn trials(list: &mut Trials) {
    rows(list);
    terms(list);
}

fn rows(list: &mut Trials) {
    use DataType::{BF16, F16, F32, S8, S32, U8};
    let plain = Attributes::default;
    list.add("grouped_matmul/rows/bias_and_post_ops", || {
        let attributes = plain()
            .with_post_op(PostOp::Eltwise(Eltwise::Swish { alpha: 1.0 }))
            .with_post_op(PostOp::binary(BinaryAlgorithm::Multiply, f32(&[23, 1])));
        // Empty groups, and rows behind the last one.
        let ends = &[7, 7, 8, 21, 21];
        product(f32(&[23, 33]), f32(&[5, 33, 37]), Some(f32(&[5, 37])), f32(&[23, 37]), ends, attributes)
    });
    list.add("grouped_matmul/rows/ends_in_no_order", || {
        product(f32(&[9, 8]), f32(&[4, 8, 16]), None, f32(&[9, 16]), &[4, 2, -7, 30], plain())
    });
    list.add("grouped_matmul/rows/one_of_many_groups", || {
        let ends = &[0, 0, 0, 1, 1, 1, 1, 1];
        product(f32(&[1, 40]), f32(&[8, 40, 48]), Some(f32(&[8, 48])), f32(&[1, 48]), ends, plain())
    });
    for data_type in [F16, BF16] {
        list.add(format!("grouped_matmul/rows/{data_type}"), || {
            let of = |dims: &[usize]| dense(dims, data_type);
            product(of(&[14, 32]), of(&[3, 32, 20]), None, of(&[14, 20]), &[1, 9, 14], plain())
        });
    }
    list.add("grouped_matmul/rows/layouts", || {
        let (src, weights) = (transposed(&[11, 9], F32)?, transposed(&[3, 9, 18], F32)?);
        let (bias, dst) = (transposed(&[3, 18], F32)?, gapped(&[11, 18], F32, 3, 2)?);
        product(src, weights, Some(bias), dst, &[5, 6, 11], plain())
    });
    list.add("grouped_matmul/rows/integers", || {
        let (src, weights) = (dense(&[10, 24], U8), dense(&[2, 24, 17], S8));
        product(src, weights, Some(dense(&[2, 17], S32)), dense(&[10, 17], S32), &[6, 10], plain())
    });
    list.add("grouped_matmul/rows/dequantized", || {
        let of = |operand, scale: &[usize], zero_point: Option<&[usize]>| Dequantize {
            operand,
            scale: Some(f32(scale)),
            zero_point: zero_point.map(|dims| dense(dims, S32)),
        };
        let attributes = plain()
            .with_dequantize(of(Quantized::Src(0), &[13, 1], Some(&[13, 1])))
            .with_dequantize(of(Quantized::Weights, &[3, 1, 20], None));
        let (src, weights) = (dense(&[13, 32], S8), dense(&[3, 32, 20], S8));
        product(src, weights, None, f32(&[13, 20]), &[4, 4, 13], attributes)
    });
    list.add("grouped_matmul/rows/dequantized_in_groups", || {
        let attributes = plain().with_dequantize(Dequantize {
            operand: Quantized::Weights,
            scale: Some(f32(&[3, 4, 20])),
            zero_point: Some(dense(&[3, 4, 20], DataType::U4)),
        });
        let weights = dense(&[3, 32, 20], DataType::U4);
        product(f32(&[13, 32]), weights, None, f32(&[13, 20]), &[4, 5, 12], attributes)
    });
}

fn terms(list: &mut Trials) {
    let plain = Attributes::default;
    let op = GroupedMatMul::Terms;
    list.add("grouped_matmul/terms/transposed_src", || {
        let src = transposed(&[19, 30], DataType::F32)?;
        trial(op, src, f32(&[30, 21]), None, f32(&[4, 19, 21]), &[9, 9, 10, 30], plain())
    });
    list.add("grouped_matmul/terms/bf16", || {
        let of = |dims: &[usize]| dense(dims, DataType::BF16);
        trial(op, of(&[5, 16]), of(&[16, 33]), None, f32(&[2, 5, 33]), &[11, 14], plain())
    });
}

fn product(
    src: MemoryDesc,
    weights: MemoryDesc,
    bias: Option<MemoryDesc>,
    dst: MemoryDesc,
    ends: &[i64],
    attributes: Attributes,
) -> Result<Trial> {
    trial(GroupedMatMul::Rows, src, weights, bias, dst, ends, attributes)
}

fn trial(
    op: GroupedMatMul,
    src: MemoryDesc,
    weights: MemoryDesc,
    bias: Option<MemoryDesc>,
    dst: MemoryDesc,
    ends: &[i64],
    attributes: Attributes,
) -> Result<Trial> {
    let builder = PrimitiveDesc::builder(Op::GroupedMatMul(op)).src(src);
    let builder = builder.src(dense(&[ends.len()], DataType::S32)).weights(weights).dst(dst);
    let builder = bias.into_iter().fold(builder, crate::PrimitiveDescBuilder::src);
    let list = ends.iter().map(|&end| end as f64).collect();
    let scales = [Quantized::Src(0), Quantized::Weights].map(Arg::ScaleOf);
    let trial = Trial::of(builder.attributes(attributes))?.values(Arg::Src(1), Values::Listed(list));
    Ok(scales.into_iter().fold(trial, |trial, scale| trial.values(scale, Values::Uniform(0.05, 0.45))))
}
