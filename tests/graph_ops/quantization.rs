//! Scaled integers. Rounding shows in what comes back from them.

use anydnn::backend::DataType::{self, F8E4M3, F8E5M2, F32, S4, S8, S32, U4, U8};
use anydnn::graph::{Attrs, OpKind as K, TensorId};
use rstest::rstest;

use super::case::Case;

fn per_channel(axis: i64, scales: &[f32], zps: &[i64]) -> Attrs {
    let attrs = Attrs::new().with("qtype", "per_channel").with("axis", axis).with("scales", scales.to_vec());
    if zps.is_empty() { attrs } else { attrs.with("zps", zps.to_vec()) }
}

fn per_tensor(scale: f32, zp: Option<i64>) -> Attrs {
    let attrs = Attrs::new().with("scales", vec![scale]);
    match zp {
        Some(zp) => attrs.with("zps", vec![zp]),
        None => attrs,
    }
}

#[rstest]
#[case::tensor(per_tensor(0.05, Some(0)), S8)]
#[case::shifted(per_tensor(0.02, Some(90)), U8)]
#[case::saturated(per_tensor(0.005, None), S8)]
#[case::channels(per_channel(1, &[0.02, 0.05, 0.1], &[]), S8)]
#[case::float(per_tensor(0.01, None), F8E4M3)]
#[case::short_float(per_channel(1, &[0.02, 0.05, 0.1], &[]), F8E5M2)]
#[case::shifted_channels(per_channel(-2, &[0.02, 0.05, 0.1], &[3, 60, 128]), U8)]
fn there_and_back(#[case] attrs: Attrs, #[case] narrow: DataType) {
    let mut case = if matches!(narrow, U8 | F8E4M3) { Case::on_devices() } else { Case::new() };
    let x = case.input_of(F32, &[2, 3, 5], |v| 3.0 * v);
    let quantized = case.typed(K::Quantize, &[x], attrs.clone(), narrow);
    let back = case.op(K::Dequantize, &[quantized], attrs.clone());
    let given = case.input_of(narrow, &[2, 3, 5], |v| 100.0 * v + 20.0);
    let other = case.op(K::Dequantize, &[given], attrs);
    case.outputs(&[quantized, back, other]);
    case.sharp().check();
}

/// Steps are rounded before odd zero points are added: halves of a step show the order.
#[rstest]
#[case::tensor(per_tensor(0.5, Some(91)))]
#[case::channels(per_channel(1, &[0.5, 0.25, 0.125], &[3, 60, 127]))]
fn rounded_first(#[case] attrs: Attrs) {
    let mut case = Case::new();
    let x = case.input_of(F32, &[2, 3, 5], |v| (16.0 * v).round() / 16.0);
    let quantized = case.typed(K::Quantize, &[x], attrs.with("round_first", true), U8);
    case.outputs(&[quantized]);
    case.sharp().check();
}

/// Scales and zero points in tensors: one, one for each channel, one for each block.
#[rstest]
#[case::tensor(Attrs::new(), &[1])]
#[case::channel(Attrs::new().with("qtype", "per_channel").with("axis", 1_i64), &[6])]
#[case::rows(Attrs::new().with("qtype", "per_group").with("group_shape", [1, 3]), &[4, 2])]
#[case::blocks(Attrs::new().with("qtype", "per_group").with("group_shape", [2, 2]), &[2, 3])]
fn dynamic_dequantization(#[case] attrs: Attrs, #[case] dims: &[usize]) {
    let mut case = if dims == [2, 3] || dims == [6] { Case::on_devices() } else { Case::new() };
    for (from, zero_points) in
        [(S8, Some(S8)), (U8, Some(U8)), (S8, Some(S32)), (U8, None), (S4, Some(S4)), (U4, Some(U4))]
    {
        let x = case.input_of(from, &[4, 6], |v| match from {
            S4 => 7.0 * v,
            U4 => 7.5 + 7.5 * v,
            U8 => 100.0 + 90.0 * v,
            _ => 100.0 * v,
        });
        let mut inputs = vec![x, case.input_of(F32, dims, |v| 0.3 + 0.2 * v)];
        if let Some(zp) = zero_points {
            inputs.push(case.input_of(zp, dims, |v| 3.5 + 3.5 * v));
        }
        case.typed(K::DynamicDequantize, &inputs, attrs.clone(), F32);
    }
    case.sharp().check();
}

/// One zero point for all blocks.
#[test]
fn one_zero_point_for_all_blocks() {
    let mut case = Case::new();
    let x = case.input_of(U8, &[4, 6], |v| 100.0 + 90.0 * v);
    let (scales, zp) = (case.input(&[2, 6]), case.input_of(U8, &[1], |_| 77.0));
    let attrs = Attrs::new().with("qtype", "per_group").with("group_shape", [2, 1]);
    case.typed(K::DynamicDequantize, &[x, scales, zp], attrs, F32);
    case.in_steps(1).sharp().check();
}

#[rstest]
#[case::tensor(Attrs::new(), &[1])]
#[case::channel(Attrs::new().with("qtype", "per_channel").with("axis", -1_i64), &[6])]
fn dynamic_quantization(#[case] attrs: Attrs, #[case] dims: &[usize]) {
    let mut case = Case::on_devices();
    let x = case.input_of(F32, &[4, 6], |v| 3.0 * v);
    let scales = case.input_of(F32, dims, |v| 0.05 + 0.03 * v);
    let zps = case.input_of(S32, dims, |v| 8.0 + 7.0 * v);
    let made: Vec<TensorId> = [vec![x, scales], vec![x, scales, zps]]
        .iter()
        .map(|inputs| case.typed(K::DynamicQuantize, inputs, attrs.clone(), S8))
        .collect();
    for quantized in made {
        let back = case.typed(K::DynamicDequantize, &[quantized, scales], attrs.clone(), F32);
        case.outputs(&[quantized, back]);
    }
    case.sharp().check();
}
