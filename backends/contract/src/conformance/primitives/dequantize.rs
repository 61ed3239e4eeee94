//! Operands that are dequantised as they are read, and gated products.

use super::convolution::convolution;
use super::matmul::matmul;
use super::{Trials, dense, f32, gapped, transposed};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::{Convolution, GatedMatMul};
use crate::{
    Arg, Attributes, BinaryAlgorithm, DataType, Dequantize, Eltwise, MemoryDesc, Op, PostOp, PrimitiveDesc,
    PrimitiveDescBuilder, Quantized, Result,
};

pub(super) fn trials(list: &mut Trials) {
    products(list);
    windows(list);
    gated(list);
}

const WEIGHTS: Quantized = Quantized::Weights;
const SRC: Quantized = Quantized::Src(0);

fn products(list: &mut Trials) {
    use DataType::{F4E2M1, F8E4M3, F8E5M2, F16, F32, S4, S8, S32, U4, U8};
    let (m, k, n) = (9, 32, 20);
    for (name, src, weights, scale, zero_point) in [
        ("s8", F32, S8, (F32, &[][..]), None),
        ("s8_channels", F16, S8, (F32, &[1, 20]), None),
        ("u8_channels", F32, U8, (F32, &[20]), Some((U8, &[1, 20][..]))),
        ("s4_groups", F32, S4, (F32, &[4, 20]), None),
        ("s4_groups_f16", F16, S4, (F16, &[2, 20]), Some((S4, &[2, 20]))),
        ("u4_groups", F32, U4, (F16, &[4, 20]), Some((U4, &[4, 20]))),
        ("u4_one_zero_point", F32, U4, (F32, &[4, 1]), Some((S32, &[1]))),
        ("f8_e4m3", F32, F8E4M3, (F32, &[1, 1]), None),
        ("f8_e5m2", F32, F8E5M2, (F32, &[1, 20]), None),
        ("f4_e2m1_groups", F32, F4E2M1, (F32, &[4, 20]), None),
    ] {
        list.add(format!("dequantize/matmul/{name}"), || {
            let scale = dense(scale.1, scale.0);
            let zero_point = zero_point.map(|(data_type, dims)| dense(dims, data_type));
            let builder = matmul(dense(&[m, k], src), dense(&[k, n], weights), src);
            trial(builder, [(WEIGHTS, Some(scale), zero_point)])
        });
    }
    list.add("dequantize/matmul/zero_point_alone", || {
        let builder = matmul(f32(&[m, k]), dense(&[k, n], U8), F32);
        trial(builder, [(WEIGHTS, None, Some(dense(&[1], S32)))])
    });
    // Both operands of eight bits, as in static quantisation.
    list.add("dequantize/matmul/both", || {
        let builder = matmul(dense(&[m, k], U8), dense(&[k, n], S8), F32).bias(f32(&[n]));
        let src = (SRC, Some(f32(&[1])), Some(dense(&[1], S32)));
        trial(builder, [src, (WEIGHTS, Some(f32(&[1, n])), None)])
    });
    list.add("dequantize/matmul/rows_of_src", || {
        let builder = matmul(dense(&[m, k], S8), dense(&[k, n], S8), F16);
        trial(builder, [(SRC, Some(f32(&[m, 1])), None), (WEIGHTS, Some(f32(&[k / 8, n])), None)])
    });
    list.add("dequantize/matmul/batches", || {
        let builder = matmul(f32(&[2, 3, 5, 16]), dense(&[2, 1, 16, 6], S8), F32);
        trial(builder, [(WEIGHTS, Some(f32(&[2, 1, 4, 6])), None)])
    });
    list.add("dequantize/matmul/transposed_s4", || {
        let builder = matmul(f32(&[7, k]), transposed(&[k, 11], S4)?, F32);
        trial(builder, [(WEIGHTS, Some(f32(&[k / 16, 11])), None)])
    });
    list.add("dequantize/matmul/gapped_u4", || {
        let builder = matmul(f32(&[7, k]), gapped(&[k, 10], U4, 3, 1)?, F32);
        trial(builder, [(WEIGHTS, Some(f32(&[1])), Some(dense(&[1], U4)))])
    });
    list.add("dequantize/matmul/post_ops", || {
        let builder = matmul(f32(&[m, k]), dense(&[k, n], S8), F32).bias(f32(&[n]));
        let attributes = Attributes::default()
            .with_post_op(PostOp::Eltwise(Eltwise::Relu))
            .with_post_op(PostOp::binary(BinaryAlgorithm::Add, f32(&[m, n])));
        let scale = (WEIGHTS, Some(f32(&[1, n])), None);
        with(builder, attributes, [scale])
    });
}

fn windows(list: &mut Trials) {
    let (src, weights) = ([2, 4, 6, 5], [6, 4, 3, 3]);
    list.add("dequantize/convolution/channels", || {
        let builder = convolution(
            Convolution::new(2).with_pads([1, 1], [1, 1]),
            f32(&src),
            dense(&weights, DataType::S8),
            DataType::F32,
        );
        trial(builder, [(WEIGHTS, Some(f32(&[6, 1, 1, 1])), None)])
    });
    // The padding is zero after the dequantisation, whatever the zero point.
    list.add("dequantize/convolution/both", || {
        let builder = convolution(
            Convolution::new(2).with_pads([1, 1], [1, 1]),
            dense(&src, DataType::U8),
            dense(&weights, DataType::S8),
            DataType::F32,
        );
        let src = (SRC, Some(f32(&[])), Some(dense(&[1], DataType::S32)));
        trial(builder.bias(f32(&[6])), [src, (WEIGHTS, Some(f32(&[6, 1, 1, 1])), None)])
    });
    list.add("dequantize/convolution/groups", || {
        let op = Convolution::new(2).with_groups(4);
        let builder = convolution(op, f32(&src), dense(&[4, 1, 3, 3], DataType::S8), DataType::F32);
        trial(builder, [(WEIGHTS, Some(f32(&[4, 1, 1, 1])), None)])
    });
}

fn gated(list: &mut Trials) {
    use DataType::{BF16, F16, F32, S4, S8};
    let swish = Eltwise::Swish { alpha: 1.0 };
    let gated = |activation, src: MemoryDesc, weights: MemoryDesc, to| {
        let builder = PrimitiveDesc::builder(Op::GatedMatMul(GatedMatMul::new(activation)))
            .src(src)
            .src(weights.clone())
            .weights(weights);
        let dims = builder.clone().build().map(|desc| desc.dst().dims().clone()).unwrap_or_default();
        builder.dst(MemoryDesc::new(dims, to))
    };
    for (name, src, weights) in [
        ("matrix", &[9, 33][..], &[33, 17][..]),
        ("row", &[1, 40], &[40, 70]),
        ("batches", &[2, 3, 4, 8], &[1, 3, 8, 6]),
    ] {
        list.add(format!("gated_matmul/{name}"), || Trial::of(gated(swish, f32(src), f32(weights), F32)));
    }
    for data_type in [F16, BF16] {
        list.add(format!("gated_matmul/{data_type}"), || {
            let of = |dims: &[usize]| dense(dims, data_type);
            Trial::of(gated(Eltwise::GeluTanh, of(&[18, 32]), of(&[32, 20]), data_type))
        });
    }
    list.add("gated_matmul/joined_by_subtract", || {
        let (src, weights) = (f32(&[9, 32]), f32(&[32, 20]));
        let op = GatedMatMul::new(swish).with_join(BinaryAlgorithm::Subtract);
        let builder = PrimitiveDesc::builder(Op::GatedMatMul(op)).src(src).src(weights.clone());
        Trial::of(builder.weights(weights).dst(f32(&[9, 20])))
    });
    list.add("gated_matmul/post_ops", || {
        let attributes = Attributes::default()
            .with_post_op(PostOp::binary(BinaryAlgorithm::Multiply, f32(&[11])))
            .with_post_op(PostOp::Eltwise(Eltwise::Abs));
        let builder = gated(Eltwise::Sigmoid, f32(&[6, 16]), transposed(&[16, 11], F32)?, F32);
        Trial::of(builder.attributes(attributes))
    });
    for (name, data_type, scale) in [("s8", S8, &[1, 20][..]), ("s4_groups", S4, &[4, 20])] {
        list.add(format!("gated_matmul/dequantized_{name}"), || {
            let builder = gated(swish, f32(&[5, 32]), dense(&[32, 20], data_type), F32);
            trial(builder, [Quantized::Src(1), WEIGHTS].map(|operand| (operand, Some(f32(scale)), None)))
        });
    }
}

type Part = (Quantized, Option<MemoryDesc>, Option<MemoryDesc>);

fn trial<const N: usize>(builder: PrimitiveDescBuilder, parts: [Part; N]) -> Result<Trial> {
    with(builder, Attributes::default(), parts)
}

/// Dequantises operands, with scales below one half.
fn with<const N: usize>(
    builder: PrimitiveDescBuilder,
    attributes: Attributes,
    parts: [Part; N],
) -> Result<Trial> {
    let add = |attributes: Attributes, (operand, scale, zero_point): Part| {
        attributes.with_dequantize(Dequantize { operand, scale, zero_point })
    };
    let operands = parts.clone().map(|(operand, ..)| operand);
    let trial = Trial::of(builder.attributes(parts.into_iter().fold(attributes, add)))?;
    let scales = |trial: Trial, operand| trial.values(Arg::ScaleOf(operand), Values::Uniform(0.05, 0.45));
    Ok(operands.into_iter().fold(trial, scales))
}
