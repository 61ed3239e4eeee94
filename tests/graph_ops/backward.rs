//! Gradients.

use anydnn::backend::DataType::{self, F32};
use anydnn::graph::{Attrs, OpKind as K};
use rstest::rstest;

use super::case::Case;

fn alpha(alpha: f32) -> Attrs {
    Attrs::new().with("alpha", alpha)
}

fn clamp() -> Attrs {
    Attrs::new().with("min", -0.75_f32).with("max", 1.5_f32)
}

/// From the source; all in one test, for a device builds their kernels together.
#[test]
fn unary_gradients_from_the_source() {
    let from_src = |attrs: Attrs| attrs.with("use_dst", false);
    let cases = [
        (K::AbsBackward, Attrs::new()),
        (K::ClampBackward, from_src(clamp())),
        (K::EluBackward, from_src(alpha(1.3))),
        (K::GELUBackward, Attrs::new()),
        (K::GELUBackward, Attrs::new().with("mode", "gelu_tanh")),
        (K::HardSigmoidBackward, alpha(0.3).with("beta", 0.4_f32)),
        (K::HardSwishBackward, Attrs::new()),
        (K::MishBackward, Attrs::new()),
        (K::ReLUBackward, from_src(Attrs::new())),
        (K::SigmoidBackward, from_src(Attrs::new())),
        (K::SoftPlusBackward, Attrs::new()),
        (K::SoftPlusBackward, Attrs::new().with("beta", 2.5_f32)),
        (K::TanhBackward, from_src(Attrs::new())),
    ];
    let mut case = Case::on_devices();
    let (x, diff) = (case.input_of(F32, &[3, 7], |v| 4.0 * v), case.input(&[3, 7]));
    for (kind, attrs) in cases {
        case.op(kind, &[x, diff], attrs);
    }
    let positive = case.input_of(F32, &[3, 7], |v| 2.5 + 2.0 * v);
    case.op(K::SqrtBackward, &[positive, diff], from_src(Attrs::new()));
    case.check();
}

#[test]
fn unary_gradients_from_the_result() {
    let cases = [
        (K::ClampBackward, clamp(), [-0.75, 1.5]),
        (K::EluBackward, alpha(0.8), [-0.8, 4.0]),
        (K::ReLUBackward, Attrs::new(), [0.0, 4.0]),
        (K::SigmoidBackward, Attrs::new(), [0.0, 1.0]),
        (K::SqrtBackward, Attrs::new(), [0.1, 3.0]),
        (K::TanhBackward, Attrs::new(), [-1.0, 1.0]),
    ];
    let mut case = Case::on_devices();
    let diff = case.input(&[3, 7]);
    for (kind, attrs, [low, high]) in cases {
        let y = case.input_of(F32, &[3, 7], |v| low + (high - low) * (0.5 + 0.5 * v));
        case.op(kind, &[y, diff], attrs);
    }
    case.check();
}

/// At kinks the derivative is that of the side towards zero, as oneDNN has it.
#[test]
fn gradients_at_kinks() {
    let mut case = Case::new();
    let (x, diff) = (case.input(&[4]), case.input(&[4]));
    case.set(x, &[-1.0, 0.0, 1.0, 0.5]);
    case.set(diff, &[1.0, 2.0, 3.0, 4.0]);
    let range = Attrs::new().with("min", -1.0_f32).with("max", 1.0_f32);
    case.op(K::ClampBackward, &[x, diff], range);
    case.op(K::ReLUBackward, &[x, diff], Attrs::new());
    case.check();
}

#[rstest]
#[case::last("NXC", &[2, 4, 5, 3])]
#[case::first("NCX", &[2, 3, 4, 5])]
#[case::rank_2("NXC", &[4, 6])]
#[case::rank_2_first("NCX", &[4, 6])]
fn bias_gradient(#[case] format: &str, #[case] dims: &[usize]) {
    let mut case = if dims.len() == 4 { Case::on_devices() } else { Case::new() };
    let diff = case.input(dims);
    case.op(K::BiasAddBackward, &[diff], Attrs::new().with("data_format", format));
    case.in_steps(1).check();
}

/// One slope, one for each channel, or a part of the source.
#[rstest]
#[case::one("NXC", &[2, 3, 4], &[1])]
#[case::scalar("NXC", &[2, 3, 4], &[])]
#[case::channels_last("NXC", &[2, 3, 4], &[4])]
#[case::channels_first("NCX", &[2, 3, 4], &[3])]
#[case::square("NCX", &[2, 3, 3], &[3])]
#[case::all_but_batch("NXC", &[2, 3, 4], &[3, 4])]
#[case::rows("NXC", &[2, 3, 4], &[3, 1])]
#[case::whole("NXC", &[2, 3, 4], &[2, 3, 4])]
fn prelu_and_its_gradients(#[case] format: &str, #[case] dims: &[usize], #[case] slope: &[usize]) {
    let mut case = if dims == [2, 3, 3] || slope == [3, 4] { Case::on_devices() } else { Case::new() };
    let (x, slope, diff) = (case.input(dims), case.input(slope), case.input(dims));
    case.op(K::PReLU, &[x, slope], Attrs::new().with("data_format", format));
    case.ops(K::PReLUBackward, &[x, slope, diff], Attrs::new().with("data_format", format), 2);
    case.check();
}

/// Without broadcasting along channels a vector lies along the last dimension.
#[test]
fn prelu_aligned_at_the_last_dimension() {
    let mut case = Case::new();
    let (x, slope) = (case.input(&[2, 3, 3]), case.input(&[3]));
    let attrs = Attrs::new().with("data_format", "NCX").with("per_channel_broadcast", false);
    case.op(K::PReLU, &[x, slope], attrs);
    case.check();
}

#[rstest]
fn softmax_gradients(
    #[values(K::SoftMaxBackward, K::LogSoftmaxBackward)] kind: K,
    #[values(0, 1, -1)] axis: i64,
) {
    let mut case = if axis == 1 { Case::on_devices() } else { Case::new() };
    let diff = case.input(&[3, 4, 2]);
    let log = kind == K::LogSoftmaxBackward;
    let y = case.input_of(F32, &[3, 4, 2], |v| if log { v - 1.5 } else { 0.5 + 0.5 * v });
    case.op(kind, &[diff, y], Attrs::new().with("axis", axis));
    case.in_steps(1).check();
}

#[rstest]
#[case::last(-1, true)]
#[case::two(1, true)]
#[case::all(0, true)]
#[case::without_parameters(-1, false)]
fn layer_norm_gradients(#[case] begin: i64, #[case] affine: bool) {
    let dims = [2, 3, 7];
    let begin_axis = if begin < 0 { 2 } else { begin as usize };
    let (outer, inner) = dims.split_at(begin_axis);
    let mut case = if begin == 1 { Case::on_devices() } else { Case::new() };
    let mut inputs = vec![
        case.input(&dims),
        case.input(&dims),
        case.input_of(F32, outer, |v| 0.3 * v),
        case.input_of(F32, outer, |v| 1.2 + v),
    ];
    if affine {
        inputs.extend([case.input(inner), case.input(inner)]);
    }
    let attrs =
        Attrs::new().with("begin_norm_axis", begin).with("use_affine", affine).with("epsilon", 1e-3_f32);
    case.ops(K::LayerNormBackward, &inputs, attrs, if affine { 3 } else { 1 });
    case.check();
}

#[rstest]
#[case::last("NXC", &[2, 4, 3], true)]
#[case::first("NCX", &[2, 3, 4, 2], true)]
#[case::rank_2("NXC", &[5, 3], true)]
#[case::without_factor("NXC", &[2, 4, 3], false)]
fn batch_norm_gradients(#[case] format: &str, #[case] dims: &[usize], #[case] scaled: bool) {
    let mut case = if dims.len() == 4 { Case::on_devices() } else { Case::new() };
    let mut inputs = vec![
        case.input(dims),
        case.input(dims),
        case.input_of(F32, &[3], |v| 0.3 * v),
        case.input_of(F32, &[3], |v| 1.2 + v),
    ];
    if scaled {
        inputs.push(case.input(&[3]));
    }
    let attrs = Attrs::new().with("epsilon", 1e-2_f32).with("data_format", format);
    case.ops(K::BatchNormTrainingBackward, &inputs, attrs, if scaled { 3 } else { 1 });
    case.in_steps(1).check();
}

/// Gradients in 16 bits.
#[rstest]
fn narrow_gradients(#[values(DataType::F16, DataType::BF16)] narrow: DataType) {
    let mut case = Case::on_devices();
    let (x, diff) = (case.input_of(narrow, &[4, 6], |v| 2.0 * v), case.input_of(narrow, &[4, 6], |v| v));
    case.op(K::GELUBackward, &[x, diff], Attrs::new());
    let y = case.input_of(narrow, &[4, 6], |v| 0.5 + 0.5 * v);
    case.op(K::SoftMaxBackward, &[diff, y], Attrs::new());
    case.op(K::BiasAddBackward, &[diff], Attrs::new());
    case.check();
}
