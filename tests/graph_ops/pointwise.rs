//! Functions of elements, with broadcasting.

use anydnn::backend::DataType;
use anydnn::graph::{Attrs, OpKind as K};
use rstest::rstest;

use super::case::Case;

fn alpha_beta(alpha: f32, beta: f32) -> Attrs {
    Attrs::new().with("alpha", alpha).with("beta", beta)
}

#[rstest]
#[case::abs(K::Abs, Attrs::new())]
#[case::clamp(K::Clamp, Attrs::new().with("min", -0.75_f32).with("max", 1.5_f32))]
#[case::elu(K::Elu, Attrs::new().with("alpha", 1.3_f32))]
#[case::exp(K::Exp, Attrs::new())]
#[case::gelu(K::GELU, Attrs::new())]
#[case::gelu_erf(K::GELU, Attrs::new().with("mode", "gelu_erf"))]
#[case::gelu_tanh(K::GELU, Attrs::new().with("mode", "gelu_tanh"))]
#[case::hard_sigmoid(K::HardSigmoid, alpha_beta(0.3, 0.4))]
#[case::hard_swish(K::HardSwish, Attrs::new())]
#[case::leaky_relu(K::LeakyReLU, Attrs::new().with("alpha", 0.2_f32))]
#[case::mish(K::Mish, Attrs::new())]
#[case::square_by_pow(K::Pow, Attrs::new().with("beta", 2.0_f32))]
#[case::cube(K::Pow, Attrs::new().with("beta", 3.0_f32))]
#[case::to_the_zero(K::Pow, Attrs::new().with("beta", 0.0_f32))]
#[case::relu(K::ReLU, Attrs::new())]
#[case::round(K::Round, Attrs::new())]
#[case::sigmoid(K::Sigmoid, Attrs::new())]
#[case::soft_plus(K::SoftPlus, Attrs::new())]
#[case::soft_plus_beta(K::SoftPlus, Attrs::new().with("beta", 2.5_f32))]
#[case::soft_plus_negative_beta(K::SoftPlus, Attrs::new().with("beta", -1.5_f32))]
#[case::square(K::Square, Attrs::new())]
#[case::tanh(K::Tanh, Attrs::new())]
fn unary(#[case] kind: K, #[case] attrs: Attrs) {
    let mut case = Case::on_devices();
    let x = case.input_of(DataType::F32, &[3, 41], |v| 4.0 * v);
    case.op(kind, &[x], attrs);
    case.in_steps(1).check();
}

#[rstest]
#[case::log(K::Log, Attrs::new())]
#[case::reciprocal(K::Reciprocal, Attrs::new())]
#[case::sqrt(K::Sqrt, Attrs::new())]
#[case::pow(K::Pow, Attrs::new().with("beta", 1.7_f32))]
#[case::inverse_root(K::Pow, Attrs::new().with("beta", -0.5_f32))]
fn unary_of_positive_numbers(#[case] kind: K, #[case] attrs: Attrs) {
    let mut case = Case::on_devices();
    let x = case.input_of(DataType::F32, &[2, 3, 7], |v| 2.5 + 2.0 * v);
    case.op(kind, &[x], attrs);
    case.in_steps(1).check();
}

#[test]
fn halves_round_to_even() {
    let mut case = Case::on_devices();
    let x = case.input(&[8]);
    case.set(x, &[-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.499_999_97, 3.0]);
    case.op(K::Round, &[x], Attrs::new());
    case.check();
}

/// Pairs of shapes that stretch to each other, in both directions.
const SHAPES: [(&[usize], &[usize]); 10] = [
    (&[3, 4], &[3, 4]),
    (&[3, 4], &[4]),
    (&[3, 4], &[1]),
    (&[3, 4], &[]),
    (&[2, 3, 4], &[3, 1]),
    (&[2, 3, 4], &[2, 1, 1]),
    (&[2, 1, 4], &[3, 1]),
    (&[5, 1], &[1, 6]),
    (&[], &[]),
    (&[2, 0, 3], &[3]),
];

#[rstest]
fn binary(
    #[values(
        K::Add,
        K::Subtract,
        K::Multiply,
        K::Divide,
        K::Maximum,
        K::Minimum,
        K::SquaredDifference,
        K::GreaterEqual
    )]
    kind: K,
) {
    for (i, (a, b)) in SHAPES.into_iter().enumerate() {
        for (first, second) in [(a, b), (b, a)] {
            let mut case = if i == 6 && first == a { Case::on_devices() } else { Case::new() };
            let x = case.input_of(DataType::F32, first, |v| 4.0 * v);
            // Away from zero, for division, with both signs.
            let y = case.input_of(DataType::F32, second, |v| v.signum() * (0.5 + v.abs()));
            case.op(kind, &[x, y], Attrs::new());
            case.in_steps(1).check();
        }
    }
}

#[rstest]
fn binary_of_equal_shapes_without_broadcasting(#[values(K::Subtract, K::GreaterEqual)] kind: K) {
    let mut case = Case::new();
    let (x, y) = (case.input(&[2, 3]), case.constant(&[2, 3]));
    case.op(kind, &[x, y], Attrs::new().with("auto_broadcast", "none"));
    case.check();
}

/// Equal numbers are greater or equal; the result is a boolean tensor.
#[test]
fn equal_is_greater_or_equal() {
    let mut case = Case::on_devices();
    let (x, y) = (case.input(&[4]), case.input(&[4]));
    case.set(x, &[1.0, 2.0, -3.0, 0.0]);
    case.set(y, &[1.0, 2.5, -4.0, -0.0]);
    case.op(K::GreaterEqual, &[x, y], Attrs::new());
    case.check();
}

#[rstest]
#[case::same(&[3, 4], &[3, 4], &[3, 4])]
#[case::one_threshold(&[1], &[3, 4], &[3, 4])]
#[case::rows(&[3, 1], &[3, 4], &[4])]
#[case::scalar_choice(&[3, 4], &[3, 4], &[])]
#[case::all_stretch(&[4, 1, 1], &[1, 3, 1], &[1, 1, 2])]
#[case::empty(&[0, 4], &[0, 4], &[4])]
fn greater_equal_chooses(#[case] threshold: &[usize], #[case] a: &[usize], #[case] b: &[usize]) {
    let mut case = Case::on_devices();
    let (x, limit) = (case.input(threshold), case.constant(threshold));
    let (a, b) = (case.input(a), case.input(b));
    let mask = case.op(K::GreaterEqual, &[x, limit], Attrs::new());
    let y = case.op(K::Select, &[mask, a, b], Attrs::new());
    case.op(K::Square, &[y], Attrs::new());
    case.check();
}

/// An attention mask: what is masked out becomes minus infinity and weighs nothing.
#[test]
fn a_mask_before_softmax() {
    let mut case = Case::on_devices();
    let (scores, rows, columns) = (case.input(&[2, 3, 4]), case.constant(&[3, 1]), case.constant(&[4]));
    case.set(rows, &[0.0, 1.0, 2.0]);
    case.set(columns, &[0.0, 1.0, 2.0, 3.0]);
    let low = case.constant(&[1]);
    case.set(low, &[f64::NEG_INFINITY]);
    let mask = case.op(K::GreaterEqual, &[rows, columns], Attrs::new());
    let masked = case.op(K::Select, &[mask, scores, low], Attrs::new());
    case.op(K::SoftMax, &[masked], Attrs::new().with("axis", -1_i64));
    case.check();
}

#[rstest]
#[case::rank_2("NXC", &[3, 5], 5)]
#[case::rank_2_first("NCX", &[3, 5], 5)]
#[case::last("NXC", &[2, 3, 4, 5], 5)]
#[case::first("NCX", &[2, 3, 4, 5], 3)]
#[case::last_3d("NXC", &[1, 2, 3, 2, 4], 4)]
fn bias_add(#[case] format: &str, #[case] dims: &[usize], #[case] channels: usize) {
    let mut case = Case::new();
    let (x, bias) = (case.input(dims), case.constant(&[channels]));
    let y = case.op(K::BiasAdd, &[x, bias], Attrs::new().with("data_format", format));
    case.op(K::Tanh, &[y], Attrs::new());
    case.in_steps(1).check();
}
