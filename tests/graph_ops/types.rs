//! Conversions and storage in f16 and bf16.

use anydnn::backend::DataType::{self, BF16, F16, F32};
use anydnn::graph::{Attrs, OpKind as K, TensorId};
use rstest::rstest;

use super::case::Case;

#[rstest]
fn casts(#[values(F32, F16, BF16)] from: DataType, #[values(F32, F16, BF16)] to: DataType) {
    let mut case = Case::on_devices();
    let x = case.input_of(from, &[3, 5], |v| 100.0 * v);
    case.typed(K::TypeCast, &[x], Attrs::new(), to);
    case.check();
}

/// There and back through a narrower type, between operations.
#[rstest]
fn casts_inside(#[values(F16, BF16)] narrow: DataType) {
    let mut case = Case::on_devices();
    let x = case.input(&[3, 5]);
    let y = case.op(K::Exp, &[x], Attrs::new());
    let y = case.typed(K::TypeCast, &[y], Attrs::new(), narrow);
    let y = case.op(K::Sqrt, &[y], Attrs::new());
    let y = case.typed(K::TypeCast, &[y], Attrs::new(), F32);
    case.op(K::Square, &[y], Attrs::new());
    case.check();
}

/// A mask made into numbers.
#[test]
fn booleans_to_numbers() {
    let mut case = Case::on_devices();
    let (x, y) = (case.input(&[4, 5]), case.input(&[5]));
    let mask = case.op(K::GreaterEqual, &[x, y], Attrs::new());
    let mask = case.typed(K::TypeCast, &[mask], Attrs::new(), F32);
    case.op(K::Multiply, &[x, mask], Attrs::new());
    case.check();
}

/// The main operations with all tensors in a 16-bit type.
#[rstest]
fn narrow_storage(#[values(F16, BF16)] narrow: DataType) {
    let run = |build: &dyn Fn(&mut Case)| {
        let mut case = Case::on_devices();
        build(&mut case);
        case.check();
    };
    let input = |case: &mut Case, dims: &[usize]| case.input_of(narrow, dims, |v| v);
    let constant = |case: &mut Case, dims: &[usize]| case.constant_of(narrow, dims, |v| v);
    run(&|case| {
        let (x, w, bias) = (input(case, &[5, 12]), constant(case, &[12, 7]), constant(case, &[7]));
        let y = case.op(K::MatMul, &[x, w], Attrs::new());
        let y = case.op(K::BiasAdd, &[y, bias], Attrs::new());
        case.op(K::ReLU, &[y], Attrs::new());
    });
    run(&|case| {
        let (x, w) = (input(case, &[1, 5, 5, 4]), constant(case, &[3, 3, 4, 6]));
        let y = case.op(K::Convolution, &[x, w], window().with("dilations", [1, 1]));
        case.op(K::MaxPool, &[y], window().with("kernel", [2, 2]));
        case.op(K::AvgPool, &[y], window().with("kernel", [2, 2]).with("exclude_pad", false));
    });
    run(&|case| {
        let x = input(case, &[4, 9]);
        let affine = [constant(case, &[9]), constant(case, &[9])];
        let attrs = Attrs::new().with("keep_stats", false);
        case.op(K::LayerNorm, &[x, affine[0], affine[1]], attrs);
        case.op(K::RMSNorm, &[x, affine[0]], Attrs::new());
        case.op(K::SoftMax, &[x], Attrs::new());
        case.op(K::ReduceMean, &[x], Attrs::new().with("axes", [1]));
        case.op(K::Tanh, &[x], Attrs::new());
        case.op(K::Multiply, &[x, affine[1]], Attrs::new());
        case.op(K::Concat, &[x, x], Attrs::new().with("axis", 1_i64));
        let turned = case.op(K::StaticTranspose, &[x], Attrs::new().with("order", [1, 0]));
        case.op(K::StaticReshape, &[turned], Attrs::new().with("shape", [-1]).with("special_zero", false));
    });
    run(&|case| {
        let x = input(case, &[2, 3, 4, 4]);
        let vectors: Vec<TensorId> =
            (0..4).map(|i| case.constant_of(F32, &[3], |v| if i == 3 { 1.5 + v } else { v })).collect();
        let attrs = Attrs::new().with("epsilon", 1e-3_f32).with("data_format", "NCX");
        case.op(K::BatchNormInference, &[x, vectors[0], vectors[1], vectors[2], vectors[3]], attrs);
    });
}

fn window() -> Attrs {
    Attrs::new().with("strides", [1, 1]).with("pads_begin", [1, 1]).with("pads_end", [1, 0])
}

/// A bf16 or f16 network computes in f32: means far from zero do not cost the batch normalization behind a convolution its accuracy.
#[rstest]
fn narrow_statistics_far_from_zero(
    #[values(F16, BF16)] narrow: DataType,
    #[values(false, true)] constant: bool,
) {
    let mut case = Case::new();
    let x = case.input_of(narrow, &[1, 4, 4, 2], |v| (2.0 * v).round() + 10.0);
    let w = case.constant_of(narrow, &[1, 1, 2, 3], |_| 1.0);
    let attrs = Attrs::new()
        .with("strides", [1, 1])
        .with("pads_begin", [0, 0])
        .with("pads_end", [0, 0])
        .with("dilations", [1, 1]);
    let y = case.op(K::Convolution, &[x, w], attrs);
    let mut vector = |f: fn(f64) -> f64| {
        if constant { case.constant_of(narrow, &[3], f) } else { case.input_of(narrow, &[3], f) }
    };
    let inputs = [y, vector(|v| 1.3 + 0.1 * v), vector(|v| v), vector(|v| 20.0 + v), vector(|v| 2.0 + v)];
    let y = case.op(K::BatchNormInference, &inputs, Attrs::new().with("epsilon", 1e-3_f32));
    case.typed(K::TypeCast, &[y], Attrs::new(), F32);
    case.check();
}
