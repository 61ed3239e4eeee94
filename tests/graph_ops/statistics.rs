//! Results beside the first, training, and numbers made from positions.

use anydnn::backend::DataType::{BF16, F16, F32, S64};
use anydnn::graph::{Attrs, OpKind as K, TensorId};
use rstest::rstest;

use super::case::Case;

#[rstest]
fn softmax_statistics(#[values(0, 1, -1)] axis: i64, #[values("none", "inf_as_zero")] mode: &str) {
    let mut case = if axis == 1 { Case::on_devices() } else { Case::new() };
    let x = case.input_of(F32, &[3, 4, 2], |v| 5.0 * v);
    case.ops(K::SoftMax, &[x], Attrs::new().with("axis", axis).with("mode", mode), 2);
    case.in_steps(1).check();
}

/// A row of minus infinity alone has zeros, and zero as its statistics, as oneDNN has it.
#[test]
fn softmax_statistics_of_masked_rows() {
    let mut case = Case::on_devices();
    let x = case.input(&[3, 3]);
    let low = f64::NEG_INFINITY;
    case.set(x, &[1000.0, 999.0, -1000.0, low, low, low, low, 3.0, 3.0]);
    case.ops(K::SoftMax, &[x], Attrs::new().with("axis", 1_i64).with("mode", "inf_as_zero"), 2);
    case.check();
}

#[rstest]
fn rms_norm_statistics(#[values(0, 1, -1)] begin: i64) {
    let dims = [2, 3, 7];
    let inner = &dims[if begin < 0 { 2 } else { begin as usize }..];
    let mut case = if begin == 1 { Case::on_devices() } else { Case::new() };
    let (x, gamma) = (case.input_of(F32, &dims, |v| v + 1.0), case.input(inner));
    case.ops(K::RMSNorm, &[x, gamma], Attrs::new().with("begin_norm_axis", begin), 2);
    case.in_steps(1).check();
}

#[rstest]
#[case::last("NXC", &[2, 4, 5, 3], true, Some(0.1))]
#[case::first("NCX", &[2, 3, 4, 5], true, Some(0.9))]
#[case::usual_momentum("NXC", &[2, 4, 3], true, None)]
#[case::without_affine("NXC", &[6, 3], false, Some(0.3))]
fn batch_norm_training(
    #[case] format: &str,
    #[case] dims: &[usize],
    #[case] affine: bool,
    #[case] momentum: Option<f32>,
) {
    let mut case = if dims.len() == 4 { Case::on_devices() } else { Case::new() };
    let mut inputs = vec![
        case.input_of(F32, dims, |v| 2.0 * v + 0.5),
        case.input(&[3]),
        case.input_of(F32, &[3], |v| 1.5 + v),
    ];
    if affine {
        inputs.extend([case.input(&[3]), case.input(&[3])]);
    }
    let attrs = Attrs::new().with("epsilon", 1e-3_f32).with("data_format", format);
    let attrs = match momentum {
        Some(momentum) => attrs.with("momentum", momentum),
        None => attrs,
    };
    case.ops(K::BatchNormForwardTraining, &inputs, attrs, 5);
    case.in_steps(1).check();
}

/// Sources and results in 16 bits, statistics in 32.
#[rstest]
fn batch_norm_training_in_16_bits(#[values(F16, BF16)] narrow: anydnn::backend::DataType) {
    let mut case = Case::on_devices();
    let x = case.input_of(narrow, &[2, 4, 3], |v| 2.0 * v + 0.5);
    let vectors: Vec<TensorId> = (0..4).map(|_| case.input_of(F32, &[3], |v| 1.5 + v)).collect();
    let inputs = [&[x][..], &vectors].concat();
    case.ops(K::BatchNormForwardTraining, &inputs, Attrs::new().with("epsilon", 1e-3_f32), 5);
    case.check();
}

/// The folded axes as a tensor: the declared result says which they are.
#[rstest]
#[case::kept(&[2, 1, 4], true)]
#[case::dropped(&[2, 4], false)]
#[case::all(&[], false)]
fn reduction_along_axes_in_a_tensor(#[case] result: &[usize], #[case] keep: bool) {
    let mut case = Case::new();
    let x = case.input(&[2, 3, 4]);
    let axes = if result.is_empty() { vec![0.0, 1.0, 2.0] } else { vec![1.0] };
    let given = case.input_of(S64, &[axes.len()], |_| 0.0);
    case.set(given, &axes);
    let y = case.op(K::ReduceSum, &[x, given], Attrs::new().with("keep_dims", keep));
    case.dims_of(y, result);
    case.in_steps(1).check();
}

#[rstest]
fn indices(#[values(0, 1, -1)] axis: i64) {
    let mut case = if axis == 1 { Case::on_devices() } else { Case::new() };
    let x = case.input(&[2, 3, 4]);
    case.op(K::GenIndex, &[x], Attrs::new().with("axis", axis));
    case.in_steps(1).sharp().check();
}

/// Masks below the diagonal.
#[test]
fn causal_masks() {
    let mut case = Case::on_devices();
    let (x, low) = (case.input(&[2, 4, 5]), case.input(&[1]));
    case.set(low, &[-1e9]);
    let row = case.op(K::GenIndex, &[x], Attrs::new().with("axis", -2_i64));
    let column = case.op(K::GenIndex, &[x], Attrs::new().with("axis", -1_i64));
    let keep = case.op(K::GreaterEqual, &[row, column], Attrs::new());
    let masked = case.op(K::Select, &[keep, x, low], Attrs::new());
    case.op(K::SoftMax, &[masked], Attrs::new().with("axis", -1_i64));
    case.sharp().check();
}

#[rstest]
#[case::half(7.0, 3.0, 0.5)]
#[case::old_numbers(5.0, 0.0, 0.25)]
#[case::none(1.0, 2.0, 0.0)]
#[case::all(1.0, 2.0, 1.0)]
fn dropout(#[case] seed: f64, #[case] offset: f64, #[case] probability: f64) {
    let mut case = Case::on_devices();
    let x = case.input(&[3, 5, 7]);
    let (seed, offset) = (case.input_of(S64, &[1], |_| seed), case.input_of(S64, &[1], |_| offset));
    let probability = case.input_of(F32, &[1], |_| probability);
    case.ops(K::Dropout, &[x, seed, offset, probability], Attrs::new(), 2);
    case.in_steps(1).sharp().check();
}
