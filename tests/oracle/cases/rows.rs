//! Products, reductions and normalizations, with their gradients.

use anydnn::backend::DataType::F32;
use anydnn::graph::{Attrs, OpKind as K};

use super::{Cases, Input, none, x};

pub(super) fn add(cases: &mut Cases) {
    products(cases);
    reductions(cases);
    softmax(cases);
    layers(cases);
    batches(cases);
}

fn products(cases: &mut Cases) {
    let flags = |a: bool, b: bool| none().with("transpose_a", a).with("transpose_b", b);
    cases.add(K::MatMul, flags(false, false), &[x(&[3, 5]), x(&[5, 4])]);
    cases.add(K::MatMul, flags(true, true), &[x(&[2, 5, 3]), x(&[2, 4, 5])]);
    cases.add(K::MatMul, flags(false, true), &[x(&[2, 3, 4, 5]), x(&[6, 5])]);
    cases.add(K::MatMul, flags(false, false), &[x(&[2, 1, 3, 5]), x(&[1, 3, 5, 4])]);
    cases.add(K::MatMul, flags(false, false), &[x(&[3, 5]), x(&[5, 4]), x(&[4])]);
    cases.add(K::MatMul, flags(false, false), &[x(&[5]), x(&[5, 4])]);
    cases.add(K::MatMul, flags(false, false), &[x(&[2, 3, 5]), x(&[5])]);
}

fn reductions(cases: &mut Cases) {
    for kind in
        [K::ReduceL1, K::ReduceL2, K::ReduceMax, K::ReduceMean, K::ReduceMin, K::ReduceProd, K::ReduceSum]
    {
        cases.add(kind, none().with("axes", [1]).with("keep_dims", true), &[x(&[3, 5])]);
        cases.add(kind, none().with("axes", [0, -1]).with("keep_dims", false), &[x(&[2, 3, 4])]);
    }
}

fn softmax(cases: &mut Cases) {
    let axis = |axis: i64| none().with("axis", axis);
    let wide: fn(f64) -> f64 = |v| 3.0 * v;
    cases.add(K::SoftMax, axis(-1), &[x(&[3, 9]).of(wide)]);
    cases.add(K::SoftMax, axis(1), &[x(&[2, 5, 3]).of(wide)]);
    cases.add(K::SoftMax, axis(-1).with("mode", "inf_as_zero"), &[x(&[4, 3]).of(masked)]);
    cases.add_all(K::SoftMax, axis(-1), &[x(&[2, 3, 7]).of(wide)], 2);
    cases.add(K::LogSoftmax, axis(-1), &[x(&[3, 9]).of(wide)]);
    cases.add(K::LogSoftmax, axis(0), &[x(&[4, 2, 3]).of(wide)]);
    let weights: fn(f64) -> f64 = |v| 0.1 * (v + 1.0);
    cases.add(K::SoftMaxBackward, axis(-1), &[x(&[3, 9]), x(&[3, 9]).of(weights)]);
    cases.add(K::SoftMaxBackward, axis(1), &[x(&[2, 5, 3]), x(&[2, 5, 3]).of(weights)]);
    let logs: fn(f64) -> f64 = |v| v - 2.0;
    cases.add(K::LogSoftmaxBackward, axis(-1), &[x(&[3, 9]), x(&[3, 9]).of(logs)]);
    cases.add(K::LogSoftmaxBackward, axis(1), &[x(&[2, 5, 3]), x(&[2, 5, 3]).of(logs)]);
}

fn masked(v: f64) -> f64 {
    if v < 0.6 { f64::NEG_INFINITY } else { v }
}

fn vector(dims: &[usize]) -> Input {
    x(dims).typed(F32)
}

fn positive(dims: &[usize]) -> Input {
    vector(dims).of(|v| 1.5 + v)
}

fn layers(cases: &mut Cases) {
    let layer = |stats: bool, affine: bool| {
        none().with("keep_stats", stats).with("use_affine", affine).with("epsilon", 1e-3_f32)
    };
    cases.add_all(K::LayerNorm, layer(true, true), &[x(&[3, 7]), vector(&[7]), vector(&[7])], 3);
    cases.add(K::LayerNorm, layer(false, false), &[x(&[2, 3, 5])]);
    cases.add(K::LayerNorm, layer(false, true), &[x(&[2, 3, 5]), vector(&[5]), vector(&[5])]);
    let gradient = |affine: bool| none().with("use_affine", affine).with("epsilon", 1e-3_f32);
    let [mean, variance] = [vector(&[2, 3]), positive(&[2, 3])];
    let (src, diff) = (x(&[2, 3, 5]), x(&[2, 3, 5]));
    let with = [src.clone(), diff.clone(), mean.clone(), variance.clone(), vector(&[5]), vector(&[5])];
    cases.add_all(K::LayerNormBackward, gradient(true), &with, 3);
    cases.add(K::LayerNormBackward, gradient(false), &[src, diff, mean, variance]);
    cases.add(K::RMSNorm, none().with("epsilon", 1e-3_f32), &[x(&[3, 7]), vector(&[7])]);
    cases.add(K::RMSNorm, none(), &[x(&[2, 3, 5])]);

    let group =
        |groups: i64, format: &str| layer(true, true).with("groups", groups).with("data_format", format);
    cases.add_all(K::GroupNorm, group(2, "NCX"), &[x(&[2, 4, 3, 2]), vector(&[4]), vector(&[4])], 3);
    cases.add_all(K::GroupNorm, group(3, "NXC"), &[x(&[2, 5, 6]), vector(&[6]), vector(&[6])], 3);
    let plain = layer(false, false).with("groups", 2_i64).with("data_format", "NCX");
    cases.add(K::GroupNorm, plain, &[x(&[2, 4, 6])]);
}

fn batches(cases: &mut Cases) {
    let attrs = |format: &str| none().with("epsilon", 1e-3_f32).with("data_format", format);
    let training = |format: &str| -> Attrs { attrs(format).with("momentum", 0.3_f32) };
    for (format, dims, c) in [("NXC", [2, 4, 3, 5], 5), ("NCX", [2, 3, 4, 5], 3)] {
        let v = || vector(&[c]);
        let inference = [x(&dims), v(), v(), v(), positive(&[c])];
        cases.add(K::BatchNormInference, attrs(format), &inference);
        let forward = [x(&dims), v(), positive(&[c]), v(), v()];
        cases.add_all(K::BatchNormForwardTraining, training(format), &forward, 5);
        let backward = [x(&dims), x(&dims), v(), positive(&[c]), v()];
        cases.add_all(K::BatchNormTrainingBackward, attrs(format), &backward, 3);
    }
}
