//! Between floats and quantised numbers.

use anydnn::backend::DataType::{F8E4M3, F8E5M2, F32, S8, S32, U8};
use anydnn::graph::{Attrs, OpKind as K};

use super::{Cases, Input, Out, none, x};

/// Scales are powers of two, so that a quotient falls on the same side of a half for everybody.
pub(super) fn add(cases: &mut Cases) {
    let whole = |zps: &[i64]| {
        none().with("qtype", "per_tensor").with("scales", vec![0.125_f32]).with("zps", zps.to_vec())
    };
    let channels = |zps: &[i64]| -> Attrs {
        let scales = vec![0.25_f32, 0.5, 0.125];
        none()
            .with("qtype", "per_channel")
            .with("axis", 1_i64)
            .with("scales", scales)
            .with("zps", zps.to_vec())
    };
    let far: fn(f64) -> f64 = |v| 24.0 * v;
    cases.add(K::Quantize, whole(&[7]), &[x(&[3, 5]).of(far)]).makes(Out::Is(U8));
    cases.add(K::Quantize, channels(&[0, 0, 0]), &[x(&[2, 3, 4]).of(far)]).makes(Out::Is(S8));
    cases.add(K::Quantize, whole(&[-3]), &[x(&[2, 3, 4]).of(far)]).makes(Out::Is(S8));
    let unshifted = || none().with("qtype", "per_tensor").with("scales", vec![0.125_f32]);
    for f8 in [F8E4M3, F8E5M2] {
        cases.add(K::Quantize, unshifted(), &[x(&[4, 6])]).makes(Out::Is(f8));
    }
    cases.add(K::Dequantize, whole(&[7]), &[x(&[3, 5])]).mainly(U8);
    cases.add(K::Dequantize, channels(&[0, 0, 0]), &[x(&[2, 3, 4])]).mainly(S8);
    cases.add(K::Dequantize, unshifted(), &[x(&[4, 6])]).mainly(F8E4M3);

    let scales = |dims: &[usize]| -> Input { x(dims).typed(F32).of(|v| if v < 0.0 { 0.125 } else { 0.25 }) };
    let zps = |data_type, dims: &[usize]| x(dims).typed(data_type).of(|v| (4.0 * v).round());
    let tensor = || none().with("qtype", "per_tensor");
    let channel = || none().with("qtype", "per_channel").with("axis", 1_i64);
    cases
        .add(K::DynamicQuantize, tensor(), &[x(&[3, 5]).of(far), scales(&[1]), zps(S32, &[1])])
        .makes(Out::Is(S8));
    cases.add(K::DynamicQuantize, channel(), &[x(&[2, 3, 4]).of(far), scales(&[3])]).makes(Out::Is(U8));
    cases.add(K::DynamicDequantize, tensor(), &[x(&[3, 5]), scales(&[1]), zps(S32, &[1])]).mainly(S8);
    cases.add(K::DynamicDequantize, channel(), &[x(&[2, 3, 4]), scales(&[3]), zps(S8, &[3])]).mainly(S8);
    let grouped = none().with("qtype", "per_group").with("group_shape", [2, 1]);
    cases.add(K::DynamicDequantize, grouped, &[x(&[4, 6]), scales(&[2, 6]), zps(S8, &[2, 6])]).mainly(S8);
}
