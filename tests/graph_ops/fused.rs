//! Chains: operations that ride on another one's result.

use anydnn::backend::DataType::{F16, F32};
use anydnn::graph::{Attrs, OpKind as K, TensorId};
use rstest::rstest;

use super::case::Case;

fn window() -> Attrs {
    Attrs::new().with("strides", [1, 1]).with("pads_begin", [1, 1]).with("pads_end", [1, 1])
}

fn image(n: usize, c: usize, h: usize, w: usize, format: &str) -> [usize; 4] {
    if format == "NCX" { [n, c, h, w] } else { [n, h, w, c] }
}

/// Four functions at a time, each only of numbers that suit it.
#[rstest]
#[case::bounded(&[K::Tanh, K::Exp, K::Log, K::Abs])]
#[case::gates(&[K::Sigmoid, K::Sqrt, K::Square, K::Reciprocal])]
#[case::linear_units(&[K::ReLU, K::HardSwish, K::Mish, K::GELU])]
#[case::with_attributes(&[K::Elu, K::LeakyReLU, K::Clamp, K::HardSigmoid])]
#[case::more(&[K::SoftPlus, K::Pow, K::Tanh, K::Elu])]
fn every_unary_post_op(#[case] kinds: &[K]) {
    let attrs = |kind| match kind {
        K::Elu | K::LeakyReLU => Attrs::new().with("alpha", 0.4_f32),
        K::Clamp => Attrs::new().with("min", -0.2_f32).with("max", 0.7_f32),
        K::HardSigmoid => Attrs::new().with("alpha", 0.6_f32).with("beta", 0.2_f32),
        K::SoftPlus => Attrs::new().with("beta", 2.0_f32),
        K::Pow => Attrs::new().with("beta", 1.5_f32),
        _ => Attrs::new(),
    };
    let mut case = Case::on_devices();
    let (x, w) = (case.input(&[5, 6]), case.constant(&[6, 7]));
    let mut y = case.op(K::MatMul, &[x, w], Attrs::new());
    for &kind in kinds {
        y = case.op(kind, &[y], attrs(kind));
    }
    case.in_steps(1).check();
}

/// Every binary operation, the chain on either side, with operands of every rank.
#[rstest]
fn every_binary_post_op(
    #[values(K::Add, K::Subtract, K::Multiply, K::Divide, K::Maximum, K::Minimum, K::SquaredDifference)] kind: K,
    #[values(false, true)] chain_is_second: bool,
) {
    let mut case = Case::on_devices();
    let x = case.input(&[2, 3, 4]);
    // Away from zero: the chain is a divisor too.
    let mut y = case.op(K::Exp, &[x], Attrs::new());
    for dims in [&[2, 3, 4][..], &[4], &[3, 1], &[2, 1, 1], &[]] {
        let other = case.input_of(F32, dims, |v| v + 2.0);
        y = case.op(kind, &if chain_is_second { [other, y] } else { [y, other] }, Attrs::new());
        y = case.op(K::Abs, &[y], Attrs::new());
        y = case.op(K::Add, &[y, other], Attrs::new());
    }
    case.in_steps(1).check();
}

#[rstest]
fn dense_layer(#[values(F32, F16)] to: anydnn::backend::DataType, #[values(2, 3)] rank: usize) {
    let mut case = Case::on_devices();
    let dims = if rank == 2 { vec![5, 8] } else { vec![2, 5, 8] };
    let (x, w, bias) = (case.input(&dims), case.constant(&[8, 6]), case.constant(&[6]));
    let y = case.op(K::MatMul, &[x, w], Attrs::new());
    let y = case.op(K::BiasAdd, &[y, bias], Attrs::new());
    let y = case.op(K::GELU, &[y], Attrs::new());
    case.typed(K::TypeCast, &[y], Attrs::new(), to);
    case.in_steps(1).check();
}

/// A bias along dimension 1, which is not the columns of the product.
#[test]
fn bias_along_another_dimension_of_a_product() {
    let mut case = Case::new();
    let (x, w, bias) = (case.input(&[2, 3, 4]), case.constant(&[4, 5]), case.constant(&[3]));
    let y = case.op(K::MatMul, &[x, w], Attrs::new());
    let y = case.op(K::BiasAdd, &[y, bias], Attrs::new().with("data_format", "NCX"));
    case.op(K::ReLU, &[y], Attrs::new());
    case.in_steps(1).check();
}

/// Chains behind products with a vector, whose results have fewer dimensions.
#[rstest]
#[case::row(&[4], &[2, 4, 5], &[2, 5])]
#[case::column(&[2, 3, 4], &[4], &[2, 3])]
#[case::dot(&[4], &[4], &[])]
fn chains_behind_vectors(#[case] a: &[usize], #[case] b: &[usize], #[case] result: &[usize]) {
    let mut case = Case::on_devices();
    let (x, w) = (case.input(a), case.constant(b));
    let operands: Vec<TensorId> = (0..=result.len()).map(|skip| case.input(&result[skip..])).collect();
    let mut y = case.op(K::MatMul, &[x, w], Attrs::new());
    if result.len() == 2 {
        let bias = case.constant(&result[1..]);
        y = case.op(K::BiasAdd, &[y, bias], Attrs::new());
    }
    for operand in operands {
        y = case.op(K::Subtract, &[operand, y], Attrs::new());
    }
    case.op(K::Square, &[y], Attrs::new());
    case.in_steps(1).check();
}

/// A residual block: convolution, bias, batch normalization, addition, rectifier.
#[rstest]
fn residual_block(
    #[values("NCX", "NXC")] format: &str,
    #[values("NCX", "NXC")] weights_format: &str,
    #[values(false, true)] constant_statistics: bool,
) {
    let mut case =
        if (format == "NXC") == (weights_format == "NXC") { Case::on_devices() } else { Case::new() };
    let weights_format = if weights_format == "NCX" { "OIX" } else { "XIO" };
    let (x, residual) = (case.input(&image(2, 3, 4, 5, format)), case.input(&image(2, 6, 4, 5, format)));
    let weights = case.constant(if weights_format == "OIX" { &[6, 3, 3, 3] } else { &[3, 3, 3, 6] });
    let bias = case.constant(&[6]);
    let format = |attrs: Attrs| attrs.with("data_format", format);
    let attrs = format(window()).with("dilations", [1, 1]).with("weights_format", weights_format);
    let y = case.op(K::Convolution, &[x, weights], attrs);
    let y = case.op(K::BiasAdd, &[y, bias], format(Attrs::new()));
    let mut vector = |f: fn(f64) -> f64| {
        if constant_statistics { case.constant_of(F32, &[6], f) } else { case.input_of(F32, &[6], f) }
    };
    let inputs = [y, vector(|v| v), vector(|v| v), vector(|v| 0.2 * v), vector(|v| 1.5 + v)];
    let y = case.op(K::BatchNormInference, &inputs, format(Attrs::new().with("epsilon", 1e-3_f32)));
    let y = case.op(K::ReLU, &[y], Attrs::new());
    case.op(K::Add, &[y, residual], Attrs::new());
    // Statistics that change make their factor and summand anew on every execution.
    case.in_steps(if constant_statistics { 1 } else { 3 }).check();
}

/// Operations of the other format in a convolution's chain: their channels are another dimension.
#[rstest]
fn mixed_formats(#[values("NCX", "NXC")] format: &str) {
    let other = if format == "NCX" { "NXC" } else { "NCX" };
    let mut case = Case::on_devices();
    let (x, weights) = (case.input(&image(1, 3, 4, 5, format)), case.constant(&[6, 3, 3, 3]));
    let channels = if format == "NCX" { 5 } else { 4 };
    let bias = case.constant(&[channels]);
    let vectors: Vec<TensorId> = (0..4).map(|_| case.constant_of(F32, &[channels], |v| 1.5 + v)).collect();
    let attrs = window().with("dilations", [1, 1]).with("weights_format", "OIX").with("data_format", format);
    let y = case.op(K::Convolution, &[x, weights], attrs);
    let y = case.op(K::BiasAdd, &[y, bias], Attrs::new().with("data_format", other));
    let attrs = Attrs::new().with("epsilon", 1e-3_f32).with("data_format", other);
    case.op(K::BatchNormInference, &[&[y], vectors.as_slice()].concat(), attrs);
    case.in_steps(1).check();
}

/// Operands of lower rank behind channels-last images.
#[rstest]
#[case::convolution(K::Convolution)]
#[case::max_pool(K::MaxPool)]
#[case::batch_norm(K::BatchNormInference)]
#[case::group_norm(K::GroupNorm)]
fn operands_behind_images(#[case] kind: K, #[values("NCX", "NXC")] format: &str) {
    let mut case = Case::on_devices();
    let x = case.input(&image(2, 4, 3, 5, format));
    let attrs = |attrs: Attrs| attrs.with("data_format", format);
    let affine = match kind {
        K::BatchNormInference => 4,
        K::GroupNorm => 2,
        _ => 0,
    };
    let vectors: Vec<TensorId> = (0..affine).map(|_| case.constant_of(F32, &[4], |v| 1.5 + v)).collect();
    let mut y = match kind {
        K::Convolution => {
            let w = case.constant(&[4, 4, 3, 3]);
            let attrs = attrs(window()).with("dilations", [1, 1]).with("weights_format", "OIX");
            case.op(kind, &[x, w], attrs)
        }
        K::MaxPool => case.op(kind, &[x], attrs(window()).with("kernel", [3, 3])),
        K::BatchNormInference => {
            case.op(kind, &[&[x], vectors.as_slice()].concat(), attrs(Attrs::new()).with("epsilon", 0.1_f32))
        }
        _ => {
            let attrs = attrs(Attrs::new()).with("groups", 2_i64).with("keep_stats", false);
            case.op(kind, &[x, vectors[0], vectors[1]], attrs)
        }
    };
    let result = image(2, 4, 3, 5, format);
    for skip in 0..=4 {
        let other = case.input(&result[skip..]);
        y = case.op(K::Subtract, &[other, y], Attrs::new());
    }
    let ends = case.input(&[result[0], 1, 1, result[3]]);
    case.op(K::Maximum, &[ends, y], Attrs::new());
    case.in_steps(1).check();
}

/// `x * sigmoid(x)` in either order of the factors.
#[rstest]
fn swish(#[values(false, true)] gate_first: bool) {
    let mut case = Case::on_devices();
    let (x, w) = (case.input(&[4, 5]), case.constant(&[5, 6]));
    let y = case.op(K::MatMul, &[x, w], Attrs::new());
    let gate = case.op(K::Sigmoid, &[y], Attrs::new());
    let y = case.op(K::Multiply, &if gate_first { [gate, y] } else { [y, gate] }, Attrs::new());
    case.op(K::Add, &[y, y], Attrs::new());
    case.in_steps(2).check();
}

/// Chains behind the remaining anchors.
#[rstest]
#[case::softmax(K::SoftMax, Attrs::new())]
#[case::log_softmax(K::LogSoftmax, Attrs::new())]
#[case::layer_norm(K::LayerNorm, Attrs::new().with("keep_stats", false).with("use_affine", false))]
#[case::rms_norm(K::RMSNorm, Attrs::new())]
fn chains_behind_rows(#[case] kind: K, #[case] attrs: Attrs) {
    let mut case = Case::on_devices();
    let x = case.input(&[3, 4, 5]);
    let (row, full) = (case.input_of(F32, &[5], |v| v + 2.0), case.input(&[3, 4, 5]));
    let y = case.op(kind, &[x], attrs);
    let y = case.op(K::Divide, &[y, row], Attrs::new());
    let y = case.op(K::Subtract, &[full, y], Attrs::new());
    case.op(K::Elu, &[y], Attrs::new().with("alpha", 0.5_f32));
    case.in_steps(1).check();
}
