//! The model against values that can be worked out by hand.

use approx::assert_abs_diff_eq;

use super::*;
use crate::op::{
    Attention, BatchNormalization, Binary, BinaryAlgorithm, Concat, Convolution, ConvolutionWeights,
    Deconvolution, Eltwise, Expression, Fold, GatedMatMul, GroupNormalization, LayerNormalization, MatMul,
    Node, Pooling, PoolingAlgorithm, PoolingBackward, Reduction, ReductionAlgorithm, Reorder, Resampling,
    ResamplingAlgorithm, ResamplingBackward, Select, Softmax,
};
use crate::{Attributes, DataType, MemoryDesc, PrimitiveDescBuilder, Quantized, TensorValues};

fn f32(dims: &[usize]) -> MemoryDesc {
    MemoryDesc::new(dims, DataType::F32)
}

/// The results for operands given as `(argument, values)`; dimensions come from the description.
fn results(builder: PrimitiveDescBuilder, inputs: &[(Arg, &[f64])]) -> Tensors {
    let desc = builder.build().unwrap();
    let inputs = inputs
        .iter()
        .map(|(arg, values)| {
            (*arg, Tensor::new(desc.find(*arg).unwrap().dims().clone(), values.to_vec()).unwrap())
        })
        .collect();
    compute(&desc, &inputs).unwrap()
}

fn dst(builder: PrimitiveDescBuilder, inputs: &[(Arg, &[f64])]) -> Vec<f64> {
    results(builder, inputs).remove(&Arg::DST).unwrap().values
}

fn unary(op: Op, dims: &[usize]) -> PrimitiveDescBuilder {
    PrimitiveDesc::builder(op).src(f32(dims))
}

#[track_caller]
fn close(actual: &[f64], expected: &[f64]) {
    let list = |values: &[f64]| TensorValues::list(DataType::F64, values.iter().copied());
    assert_abs_diff_eq!(list(actual), list(expected), epsilon = 1e-6);
}

#[test]
fn matmul_broadcasts_batches_and_adds_the_bias() {
    let builder = PrimitiveDesc::builder(Op::MatMul(MatMul))
        .src(f32(&[2, 2, 2]))
        .weights(f32(&[1, 2, 2]))
        .bias(f32(&[2]));
    let out = dst(
        builder,
        &[
            (Arg::SRC, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]),
            (Arg::Weights, &[1.0, 2.0, 3.0, 4.0]),
            (Arg::Bias, &[10.0, 20.0]),
        ],
    );
    close(&out, &[17.0, 30.0, 25.0, 42.0, 33.0, 54.0, 41.0, 66.0]);
}

#[test]
fn an_empty_sum_is_the_bias() {
    let builder =
        PrimitiveDesc::builder(Op::MatMul(MatMul)).src(f32(&[1, 0])).weights(f32(&[0, 2])).bias(f32(&[2]));
    close(&dst(builder, &[(Arg::SRC, &[]), (Arg::Weights, &[]), (Arg::Bias, &[3.0, 4.0])]), &[3.0, 4.0]);
}

#[test]
fn convolution_correlates() {
    let conv = |op: Convolution, src: &[usize], weights: &[usize]| {
        PrimitiveDesc::builder(Op::Convolution(op)).src(f32(src)).weights(f32(weights))
    };
    // Not flipped: the first tap meets the first element.
    let out = dst(
        conv(Convolution::new(1), &[1, 1, 4], &[1, 1, 2]),
        &[(Arg::SRC, &[1.0, 2.0, 3.0, 4.0]), (Arg::Weights, &[10.0, 1.0])],
    );
    close(&out, &[12.0, 23.0, 34.0]);
    // Padding of one before, steps of two, taps two apart.
    let op = Convolution::new(1).with_strides([2]).with_dilations([2]).with_pads([1], [1]);
    let out = dst(
        conv(op, &[1, 1, 4], &[1, 1, 2]),
        &[(Arg::SRC, &[1.0, 2.0, 3.0, 4.0]), (Arg::Weights, &[10.0, 1.0])],
    );
    close(&out, &[2.0, 24.0]);
    // Two groups: each output sees its own channels alone.
    let op = Convolution::new(1).with_groups(2);
    let out = dst(
        conv(op, &[1, 4, 1], &[2, 2, 1]),
        &[(Arg::SRC, &[1.0, 2.0, 3.0, 4.0]), (Arg::Weights, &[1.0, 10.0, 100.0, 1000.0])],
    );
    close(&out, &[21.0, 4300.0]);
    // Two dimensions: a kernel of ones sums each 2x2 window.
    let nine: Vec<f64> = (1..=9).map(f64::from).collect();
    let out = dst(
        conv(Convolution::new(2), &[1, 1, 3, 3], &[1, 1, 2, 2]),
        &[(Arg::SRC, &nine), (Arg::Weights, &[1.0; 4])],
    );
    close(&out, &[12.0, 16.0, 24.0, 28.0]);
}

#[test]
fn pooling_tells_padding_from_elements() {
    let pool = |algorithm, ceil| {
        let op = Pooling::new(algorithm, [3]).with_strides([2]).with_pads([1], [0]).with_ceil(ceil);
        dst(unary(Op::Pooling(op), &[1, 1, 5]), &[(Arg::SRC, &[-1.0, -2.0, -3.0, -6.0, -7.0])])
    };
    close(&pool(PoolingAlgorithm::Max, false), &[-1.0, -2.0]);
    close(&pool(PoolingAlgorithm::AverageExcludePadding, false), &[-1.5, -11.0 / 3.0]);
    close(&pool(PoolingAlgorithm::AverageIncludePadding, false), &[-1.0, -11.0 / 3.0]);
    // The third window reaches behind the padded source: its two elements count.
    close(&pool(PoolingAlgorithm::AverageIncludePadding, true), &[-1.0, -11.0 / 3.0, -6.5]);
}

#[test]
fn softmax_sums_to_one() {
    let out = dst(unary(Op::Softmax(Softmax::new(0)), &[3]), &[(Arg::SRC, &[1.0, 2.0, 3.0])]);
    close(&out, &[0.090_030_57, 0.244_728_47, 0.665_240_96]);
    let out = dst(unary(Op::Softmax(Softmax::log(1)), &[1, 2]), &[(Arg::SRC, &[1000.0, 1000.0])]);
    close(&out, &[-std::f64::consts::LN_2; 2]);
    let masked = [f64::NEG_INFINITY; 2];
    let out = dst(unary(Op::Softmax(Softmax::new(0)), &[2]), &[(Arg::SRC, &masked)]);
    close(&out, &[f64::NAN; 2]);
    let op = Softmax { inf_as_zero: true, ..Softmax::new(0) };
    close(&dst(unary(Op::Softmax(op), &[2]), &[(Arg::SRC, &masked)]), &[0.0; 2]);
}

#[test]
fn normalisations_give_their_statistics() {
    let builder = unary(Op::LayerNormalization(LayerNormalization::new(1, 0.0)), &[1, 4])
        .arg(Arg::Scale, f32(&[4]))
        .arg(Arg::Shift, f32(&[4]))
        .arg(Arg::Mean, f32(&[1]))
        .arg(Arg::Variance, f32(&[1, 1]));
    let out = results(
        builder,
        &[
            (Arg::SRC, &[1.0, 1.0, 5.0, 5.0]),
            (Arg::Scale, &[1.0, 2.0, 3.0, 4.0]),
            (Arg::Shift, &[0.0, 0.0, 0.0, 1.0]),
        ],
    );
    close(&out[&Arg::DST].values, &[-1.0, -2.0, 3.0, 5.0]);
    close(&out[&Arg::Mean].values, &[3.0]);
    close(&out[&Arg::Variance].values, &[4.0]);
    let rms = unary(Op::LayerNormalization(LayerNormalization::rms(0, 0.0)), &[2]);
    close(&dst(rms, &[(Arg::SRC, &[1.0, 7.0])]), &[0.2, 1.4]);
    let batch = unary(Op::BatchNormalization(BatchNormalization::new(0.25)), &[1, 2])
        .arg(Arg::Mean, f32(&[2]))
        .arg(Arg::Variance, f32(&[2]));
    let out = dst(batch, &[(Arg::SRC, &[3.0, 4.0]), (Arg::Mean, &[1.0, 4.5]), (Arg::Variance, &[3.75, 0.0])]);
    close(&out, &[1.0, -1.0]);
    let group = unary(Op::GroupNormalization(GroupNormalization::new(2, 0.0)), &[1, 4, 1])
        .arg(Arg::Mean, f32(&[1, 2]))
        .arg(Arg::Variance, f32(&[1, 2]));
    let out = results(group, &[(Arg::SRC, &[0.0, 2.0, 10.0, 30.0])]);
    close(&out[&Arg::DST].values, &[-1.0, 1.0, -1.0, 1.0]);
    close(&out[&Arg::Mean].values, &[1.0, 20.0]);
    close(&out[&Arg::Variance].values, &[1.0, 100.0]);
}

#[test]
fn reductions_fold_where_the_result_is_one() {
    let fold = |algorithm, to: &[usize]| {
        let builder = unary(Op::Reduction(Reduction::new(algorithm)), &[2, 2]).dst(f32(to));
        dst(builder, &[(Arg::SRC, &[1.0, -2.0, 3.0, -4.0])])
    };
    close(&fold(ReductionAlgorithm::Sum, &[2, 1]), &[-1.0, -1.0]);
    close(&fold(ReductionAlgorithm::Sum, &[1, 2]), &[4.0, -6.0]);
    close(&fold(ReductionAlgorithm::Mean, &[1, 1]), &[-0.5]);
    close(&fold(ReductionAlgorithm::Product, &[1, 1]), &[24.0]);
    close(&fold(ReductionAlgorithm::Max, &[1, 2]), &[3.0, -2.0]);
    close(&fold(ReductionAlgorithm::Min, &[2, 1]), &[-2.0, -4.0]);
    close(&fold(ReductionAlgorithm::NormL1, &[1, 1]), &[10.0]);
    close(&fold(ReductionAlgorithm::NormL2, &[2, 1]), &[5f64.sqrt(), 5.0]);
    let empty = unary(Op::Reduction(Reduction::new(ReductionAlgorithm::Max)), &[0]).dst(f32(&[1]));
    close(&dst(empty, &[(Arg::SRC, &[])]), &[f64::NEG_INFINITY]);
}

#[test]
fn elements_meet_by_broadcasting() {
    let binary = PrimitiveDesc::builder(Op::Binary(Binary::new(BinaryAlgorithm::Subtract)))
        .src(f32(&[2, 1]))
        .src(f32(&[3]));
    let out = dst(binary, &[(Arg::SRC, &[10.0, 20.0]), (Arg::Src(1), &[1.0, 2.0, 3.0])]);
    close(&out, &[9.0, 8.0, 7.0, 19.0, 18.0, 17.0]);
    let select = PrimitiveDesc::builder(Op::Select(Select))
        .src(MemoryDesc::new([2], DataType::Boolean))
        .src(f32(&[]))
        .src(f32(&[2]));
    let out = dst(select, &[(Arg::SRC, &[1.0, 0.0]), (Arg::Src(1), &[5.0]), (Arg::Src(2), &[6.0, 7.0])]);
    close(&out, &[5.0, 7.0]);
}

#[test]
fn concat_lays_sources_side_by_side() {
    let concat = PrimitiveDesc::builder(Op::Concat(Concat::new(1))).src(f32(&[2, 1])).src(f32(&[2, 2]));
    let out = dst(concat, &[(Arg::SRC, &[1.0, 2.0]), (Arg::Src(1), &[3.0, 4.0, 5.0, 6.0])]);
    close(&out, &[1.0, 3.0, 4.0, 2.0, 5.0, 6.0]);
}

#[test]
fn post_operations_run_in_order_before_the_store() {
    let attributes = Attributes::default()
        .with_post_op(PostOp::Sum { scale: 2.0, zero_point: 1, data_type: None })
        .with_post_op(PostOp::Binary {
            algorithm: BinaryAlgorithm::Subtract,
            operand: f32(&[]),
            reversed: true,
        })
        .with_post_op(PostOp::Eltwise(Eltwise::Relu));
    let builder =
        unary(Op::Reorder(Reorder), &[3]).dst(MemoryDesc::new([3], DataType::S8)).attributes(attributes);
    let inputs: [(Arg, &[f64]); 3] =
        [(Arg::SRC, &[1.25, 4.0, -200.0]), (Arg::DST, &[1.0, 2.0, 3.0]), (Arg::PostOp(1), &[3.75])];
    // 3.75 - (x + 2 * (old - 1)), cut off at zero, rounded half to even, saturated.
    close(&dst(builder, &inputs), &[2.0, 0.0, 127.0]);
}

#[test]
fn a_missing_or_misshapen_operand_is_an_error() {
    let desc = unary(Op::Eltwise(Eltwise::Relu), &[2]).build().unwrap();
    let error = compute(&desc, &Tensors::new()).unwrap_err().to_string();
    assert!(error.contains("src0") && error.contains("missing"), "{error}");
    let wrong = Tensors::from([(Arg::SRC, Tensor::new([1, 2], vec![0.0; 2]).unwrap())]);
    assert!(compute(&desc, &wrong).unwrap_err().to_string().contains("1x2"));
    assert!(Tensor::new([2], vec![1.0]).is_err());
}

#[test]
fn expressions_fold_and_broadcast_by_blocks() {
    // Softmax of two rows with the logarithm of their sums, over sources that repeat by blocks.
    let mut e = Expression::new([2, 4]).with_folded([1]);
    let x = e.push(Node::Operand(0));
    let max = e.push(Node::Fold(Fold::Max, x));
    let shifted = e.push(Node::Binary(BinaryAlgorithm::Subtract, x, max));
    let exponential = e.push(Node::Eltwise(Eltwise::Exp, shifted));
    let sum = e.push(Node::Fold(Fold::Sum, exponential));
    let y = e.push(Node::Binary(BinaryAlgorithm::Divide, exponential, sum));
    let log = e.push(Node::Eltwise(Eltwise::Log, sum));
    let stats = e.push(Node::Binary(BinaryAlgorithm::Add, log, max));
    e.results = vec![y, stats];
    let builder = PrimitiveDesc::builder(Op::Expression(e))
        .src(f32(&[2, 2]))
        .dst(f32(&[2, 4]))
        .arg(Arg::Dst(1), f32(&[2, 1]));
    let out = results(builder, &[(Arg::SRC, &[0.0, 3f64.ln(), 5.0, 5.0])]);
    close(&out[&Arg::DST].values, &[0.125, 0.125, 0.375, 0.375, 0.25, 0.25, 0.25, 0.25]);
    close(&out[&Arg::Dst(1)].values, &[8f64.ln(), 5.0 + 4f64.ln()]);
}

#[test]
fn expressions_know_indices_conditions_casts_and_gradients() {
    let mut e = Expression::new([2, 3]);
    let x = e.push(Node::Operand(0));
    let [row, column] = [0, 1].map(|axis| e.push(Node::Index(axis)));
    let lower = e.push(Node::Binary(BinaryAlgorithm::GreaterEqual, row, column));
    let nine = e.push(Node::Constant(9.0));
    let masked = e.push(Node::Select(lower, x, nine));
    let rounded = e.push(Node::Cast(DataType::S4, x));
    let function = Eltwise::Sigmoid;
    let of_result = e.push(Node::Gradient { function, of_result: true, at: x, diff: nine });
    e.results = vec![masked, rounded, of_result];
    let builder = PrimitiveDesc::builder(Op::Expression(e))
        .src(f32(&[3]))
        .dst(f32(&[2, 3]))
        .arg(Arg::Dst(1), f32(&[2, 3]))
        .arg(Arg::Dst(2), f32(&[2, 3]));
    let out = results(builder, &[(Arg::SRC, &[0.5, 1.5, -20.0])]);
    close(&out[&Arg::DST].values, &[0.5, 9.0, 9.0, 0.5, 1.5, 9.0]);
    close(&out[&Arg::Dst(1)].values, &[0.0, 2.0, -8.0, 0.0, 2.0, -8.0]);
    close(&out[&Arg::Dst(2)].values[..3], &[2.25, -6.75, -3780.0]);
}

#[test]
fn dropouts_keep_what_the_generator_says() {
    let mut e = Expression::new([2, 5]);
    let keep = e.push(Node::Keep { seed: 0, offset: 1, probability: 2 });
    e.results = vec![keep];
    let long = MemoryDesc::new([1], DataType::S64);
    let builder = PrimitiveDesc::builder(Op::Expression(e)).src(long.clone()).src(long).src(f32(&[1]));
    let out = dst(
        builder.dst(f32(&[2, 5])),
        &[(Arg::Src(0), &[1.0]), (Arg::Src(1), &[1.0]), (Arg::Src(2), &[0.5])],
    );
    // The numbers that `keeps` is checked with: 0.67, 0.87, 0.48, 0.66, 0.91, 0.26, 0.12, 0.53, 0.57, 0.999.
    close(&out, &[1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
}

#[test]
fn attention_weighs_values_by_scores() {
    let attention = |inf_as_zero: bool, mask: &[f64]| {
        // Two query heads share one key head; scores are products plus a mask.
        let mut scores = Expression::new([2, 1, 2]);
        let [x, y] = [0, 1].map(|i| scores.push(Node::Operand(i)));
        scores.results = vec![scores.push(Node::Binary(BinaryAlgorithm::Add, x, y))];
        let mut op = Attention { inf_as_zero, ..Attention::new(scores) };
        let mut weights = Expression::new([2, 1, 2]);
        let weight = weights.push(Node::Operand(0));
        weights.results =
            vec![weights.push(Node::Eltwise(Eltwise::Linear { alpha: 2.0, beta: 0.0 }, weight))];
        op.weights = Some(weights);
        let builder = PrimitiveDesc::builder(Op::Attention(op))
            .src(f32(&[2, 1, 1]))
            .src(f32(&[1, 2, 1]))
            .src(f32(&[1, 2, 2]))
            .src(f32(&[2, 1, 2]))
            .arg(Arg::Dst(1), f32(&[2, 1, 1]));
        let ln3 = 3f64.ln();
        results(
            builder,
            &[
                (Arg::Src(0), &[1.0, 0.0]),
                (Arg::Src(1), &[0.0, ln3]),
                (Arg::Src(2), &[1.0, 10.0, 2.0, 20.0]),
                (Arg::Src(3), mask),
            ],
        )
    };
    // Weights 1/4 and 3/4, then 1/2 and 1/2, doubled.
    let out = attention(false, &[0.0; 4]);
    close(&out[&Arg::DST].values, &[3.5, 35.0, 3.0, 30.0]);
    close(&out[&Arg::Dst(1)].values, &[4f64.ln(), 2f64.ln()]);
    let none = f64::NEG_INFINITY;
    let masked = [none, 0.0, none, none];
    let out = attention(false, &masked);
    close(&out[&Arg::DST].values, &[4.0, 40.0, f64::NAN, f64::NAN]);
    close(&out[&Arg::Dst(1)].values, &[3f64.ln(), none]);
    close(&attention(true, &masked)[&Arg::DST].values, &[4.0, 40.0, 0.0, 0.0]);
}

#[test]
fn operands_are_dequantised_by_blocks_before_the_product() {
    let attributes = |operand, scale: &[usize], zero_point: Option<&[usize]>| {
        Attributes::default().with_dequantize(Dequantize {
            operand,
            scale: Some(f32(scale)),
            zero_point: zero_point.map(|dims| MemoryDesc::new(dims, DataType::S32)),
        })
    };
    let builder = PrimitiveDesc::builder(Op::MatMul(MatMul))
        .src(f32(&[1, 4]))
        .weights(MemoryDesc::new([4, 1], DataType::U8))
        .attributes(attributes(Quantized::Weights, &[2, 1], Some(&[1])));
    let out = dst(
        builder,
        &[
            (Arg::SRC, &[1.0, 1.0, 1.0, 1.0]),
            (Arg::Weights, &[11.0, 12.0, 13.0, 14.0]),
            (Arg::ScaleOf(Quantized::Weights), &[1.0, 100.0]),
            (Arg::ZeroPointOf(Quantized::Weights), &[10.0]),
        ],
    );
    close(&out, &[703.0]);
    let gated = PrimitiveDesc::builder(Op::GatedMatMul(GatedMatMul::new(Eltwise::Square)))
        .src(f32(&[1, 1]))
        .src(f32(&[1, 2]))
        .weights(f32(&[1, 2]))
        .attributes(attributes(Quantized::Src(1), &[1, 2], None));
    let out = dst(
        gated,
        &[
            (Arg::Src(0), &[2.0]),
            (Arg::Src(1), &[1.0, 1.0]),
            (Arg::Weights, &[5.0, 7.0]),
            (Arg::ScaleOf(Quantized::Src(1)), &[1.0, 0.5]),
        ],
    );
    // 10 * 2^2 and 14 * 1^2.
    close(&out, &[40.0, 14.0]);
}

#[test]
fn a_post_operation_selects_either_way() {
    let select = |other_where_true| {
        let post_op = PostOp::Select {
            condition: MemoryDesc::new([2], DataType::Boolean),
            other: f32(&[]),
            other_where_true,
        };
        let builder = unary(Op::Reorder(Reorder), &[2])
            .dst(f32(&[2]))
            .attributes(Attributes::default().with_post_op(post_op));
        let inputs: [(Arg, &[f64]); 3] =
            [(Arg::SRC, &[1.0, 2.0]), (Arg::PostOp(0), &[1.0, 0.0]), (Arg::PostOpOther(0), &[9.0])];
        dst(builder, &inputs)
    };
    close(&select(false), &[1.0, 9.0]);
    close(&select(true), &[9.0, 2.0]);
}

#[test]
fn deconvolution_spreads_each_element() {
    let op = Deconvolution::new(1).with_strides([2]).with_pads([1], [0]);
    let builder = PrimitiveDesc::builder(Op::Deconvolution(op)).src(f32(&[1, 2, 2])).weights(f32(&[2, 1, 3]));
    let out = dst(
        builder.bias(f32(&[1])),
        &[
            (Arg::SRC, &[1.0, 2.0, 10.0, 0.0]),
            (Arg::Weights, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            (Arg::Bias, &[100.0]),
        ],
    );
    // 1*(1,2,3) + 2*(_,_,1,2,3) + 10*(4,5,6), the first element in the padding.
    close(&out, &[152.0, 165.0, 104.0, 106.0]);
}

#[test]
fn gradients_of_weights_sum_over_windows() {
    let op = ConvolutionWeights::new(Convolution::new(1).with_pads([1], [0]));
    let builder = PrimitiveDesc::builder(Op::ConvolutionWeights(op))
        .src(f32(&[1, 1, 3]))
        .src(f32(&[1, 2, 3]))
        .dst(f32(&[2, 1, 2]));
    let out =
        dst(builder, &[(Arg::Src(0), &[1.0, 2.0, 3.0]), (Arg::Src(1), &[1.0, 10.0, 100.0, 0.0, 0.0, 1.0])]);
    close(&out, &[210.0, 321.0, 2.0, 3.0]);
}

/// What oneDNN's CPU library computes.
#[test]
fn gradients_of_poolings_go_to_the_first_largest_or_in_equal_parts() {
    let back = |op: Pooling, sources: &[&[usize]], to: &[usize], values: &[(Arg, &[f64])]| {
        let builder = PrimitiveDesc::builder(Op::PoolingBackward(PoolingBackward::new(op))).dst(f32(to));
        dst(sources.iter().fold(builder, |builder, dims| builder.src(f32(dims))), values)
    };
    let max = Pooling::new(PoolingAlgorithm::Max, [2, 2]);
    let values: [(Arg, &[f64]); 2] = [
        (Arg::Src(0), &[1.0, 10.0, 100.0, 1000.0]),
        (Arg::Src(1), &[1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 1.0, 2.0, 0.0]),
    ];
    let out = back(max, &[&[1, 1, 2, 2], &[1, 1, 3, 3]], &[1, 1, 3, 3], &values);
    close(&out, &[0.0, 0.0, 0.0, 0.0, 1111.0, 0.0, 0.0, 0.0, 0.0]);
    for (algorithm, expected) in [
        (PoolingAlgorithm::AverageIncludePadding, [1.0, 11.0, 10.0, 110.0, 100.0]),
        (PoolingAlgorithm::AverageExcludePadding, [1.5, 11.5, 10.0, 160.0, 150.0]),
    ] {
        let op = Pooling::new(algorithm, [3]).with_strides([2]).with_pads([1], [1]);
        let out = back(op, &[&[1, 1, 3]], &[1, 1, 5], &[(Arg::SRC, &[3.0, 30.0, 300.0])]);
        close(&out, &expected);
    }
}

/// What oneDNN's CPU library computes for elements that are their own index, and for a gradient of ones.
#[test]
fn resampling_rounds_halves_up_and_clamps() {
    use ResamplingAlgorithm::{Linear, Nearest};
    for (algorithm, from, to, forward, backward) in [
        (Nearest, 4, 2, &[1.0, 3.0][..], &[0.0, 1.0, 0.0, 1.0][..]),
        (Linear, 4, 2, &[0.5, 2.5], &[0.5; 4]),
        (Nearest, 5, 7, &[0.0, 1.0, 1.0, 2.0, 3.0, 3.0, 4.0], &[1.0, 2.0, 1.0, 2.0, 1.0]),
        (Linear, 3, 6, &[0.0, 0.25, 0.75, 1.25, 1.75, 2.0], &[2.0; 3]),
        (
            Linear,
            10,
            4,
            &[0.75, 3.25, 5.75, 8.25],
            &[0.25, 0.75, 0.0, 0.75, 0.25, 0.25, 0.75, 0.0, 0.75, 0.25],
        ),
    ] {
        let op = Resampling::new(algorithm);
        let index: Vec<f64> = (0..from).map(|i| i as f64).collect();
        let builder = unary(Op::Resampling(op), &[1, 1, from]).dst(f32(&[1, 1, to]));
        close(&dst(builder, &[(Arg::SRC, &index)]), forward);
        let op = Op::ResamplingBackward(ResamplingBackward::new(op));
        let builder = unary(op, &[1, 1, to]).dst(f32(&[1, 1, from]));
        close(&dst(builder, &[(Arg::SRC, &vec![1.0; to])]), backward);
    }
    let aligned = Resampling::new(Linear).with_align_corners(true);
    let builder = unary(Op::Resampling(aligned), &[1, 1, 3]).dst(f32(&[1, 1, 5]));
    close(&dst(builder, &[(Arg::SRC, &[0.0, 1.0, 4.0])]), &[0.0, 0.5, 1.0, 2.5, 4.0]);
}
