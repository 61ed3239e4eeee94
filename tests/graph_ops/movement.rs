//! Operations that move elements: concatenation, reshape, transposition, reorder.

use anydnn::backend::DataType;
use anydnn::graph::{Attrs, OpKind as K};
use rstest::rstest;

use super::case::Case;

fn order(order: &[i64]) -> Attrs {
    Attrs::new().with("order", order.to_vec())
}

fn shape(shape: &[i64], special_zero: bool) -> Attrs {
    Attrs::new().with("shape", shape.to_vec()).with("special_zero", special_zero)
}

#[rstest]
#[case::first(0, vec![vec![2, 3, 4], vec![5, 3, 4], vec![1, 3, 4]])]
#[case::middle(1, vec![vec![2, 1, 4], vec![2, 3, 4]])]
#[case::last(-1, vec![vec![2, 3, 1], vec![2, 3, 4], vec![2, 3, 2], vec![2, 3, 3]])]
#[case::single(0, vec![vec![2, 3]])]
#[case::with_an_empty_one(1, vec![vec![2, 3], vec![2, 0], vec![2, 1]])]
fn concat(#[case] axis: i64, #[case] shapes: Vec<Vec<usize>>) {
    let mut case = Case::on_devices();
    let inputs: Vec<_> = shapes.iter().map(|dims| case.input(dims)).collect();
    case.op(K::Concat, &inputs, Attrs::new().with("axis", axis));
    case.check();
}

/// Views and one tensor twice.
#[test]
fn concat_of_views() {
    let mut case = Case::on_devices();
    let (x, y) = (case.input(&[3, 4]), case.input(&[4, 3]));
    let turned = case.op(K::StaticTranspose, &[y], order(&[1, 0]));
    case.op(K::Concat, &[x, turned, x], Attrs::new().with("axis", 0_i64));
    case.check();
}

#[rstest]
#[case::split(&[4, 6], &[2, 2, 3, 2], false)]
#[case::merge(&[2, 3, 4], &[6, 4], false)]
#[case::open(&[2, 3, 4], &[-1, 2], false)]
#[case::open_last(&[2, 3, 4], &[4, -1], false)]
#[case::special_zero(&[2, 3, 4], &[0, -1], true)]
#[case::special_zero_inside(&[2, 3, 4], &[1, 0, 8], true)]
#[case::scalar(&[1, 1], &[], false)]
#[case::from_scalar(&[], &[1, 1], false)]
#[case::empty(&[2, 0, 3], &[0, 5], false)]
fn reshape(#[case] from: &[usize], #[case] to: &[i64], #[case] special_zero: bool) {
    // As an output by itself, and between operations.
    let mut case = Case::new();
    let x = case.input(from);
    case.op(K::StaticReshape, &[x], shape(to, special_zero));
    case.check();
    let mut case = Case::new();
    let x = case.input(from);
    let y = case.op(K::Tanh, &[x], Attrs::new());
    let y = case.op(K::StaticReshape, &[y], shape(to, special_zero));
    case.op(K::Square, &[y], Attrs::new());
    case.in_steps(2).check();
}

/// A reshape right behind a transposition has no view: a copy comes first.
#[rstest]
#[case::flatten(&[2, 3, 4], &[2, 0, 1], &[-1])]
#[case::merge(&[2, 3, 4], &[1, 0, 2], &[6, 4])]
#[case::heads(&[2, 5, 3, 4], &[0, 2, 1, 3], &[0, 3, 20])]
#[case::still_a_view(&[2, 3, 4], &[2, 0, 1], &[0, 2, 3, 1])]
fn reshape_after_transpose(#[case] dims: &[usize], #[case] axes: &[i64], #[case] to: &[i64]) {
    let mut case = Case::on_devices();
    let x = case.input(dims);
    let y = case.op(K::StaticTranspose, &[x], order(axes));
    let y = case.op(K::StaticReshape, &[y], shape(to, true));
    case.op(K::Abs, &[y], Attrs::new());
    case.check();
}

#[rstest]
#[case::matrix(&[3, 5], &[1, 0])]
#[case::same(&[3, 5], &[0, 1])]
#[case::negative(&[2, 3, 4], &[-1, 0, -2])]
#[case::channels_last(&[2, 3, 4, 5], &[0, 2, 3, 1])]
#[case::channels_first(&[2, 3, 4, 5], &[0, 3, 1, 2])]
#[case::scalar(&[], &[])]
#[case::empty(&[2, 0], &[1, 0])]
fn transpose(#[case] dims: &[usize], #[case] axes: &[i64]) {
    let mut case = Case::on_devices();
    let x = case.input(dims);
    case.op(K::StaticTranspose, &[x], order(axes));
    case.check();
    let mut case = Case::new();
    let x = case.input(dims);
    let y = case.op(K::Sigmoid, &[x], Attrs::new());
    let y = case.op(K::StaticTranspose, &[y], order(axes));
    let y = case.op(K::StaticTranspose, &[y], order(axes));
    case.op(K::Square, &[y], Attrs::new());
    case.in_steps(2).check();
}

/// Transposed operands of every kind of operation that reads rows.
#[test]
fn transposed_sources() {
    let mut case = Case::on_devices();
    let (x, w, other) = (case.input(&[5, 3, 4]), case.input(&[6, 5]), case.input(&[4, 3, 5]));
    let gamma = case.constant(&[5]);
    let turned = case.op(K::StaticTranspose, &[x], order(&[2, 1, 0]));
    let weights = case.op(K::StaticTranspose, &[w], order(&[1, 0]));
    case.op(K::MatMul, &[turned, weights], Attrs::new());
    case.op(K::SoftMax, &[turned], Attrs::new().with("axis", 2_i64));
    case.op(K::LayerNorm, &[turned, gamma, gamma], Attrs::new().with("keep_stats", false));
    case.op(K::ReduceSum, &[turned], Attrs::new().with("axes", [0, 2]));
    case.op(K::Subtract, &[other, turned], Attrs::new());
    case.op(K::Exp, &[turned], Attrs::new());
    case.check();
}

#[test]
fn reorder() {
    let mut case = Case::on_devices();
    let x = case.input(&[3, 4]);
    let same = case.op(K::Reorder, &[x], Attrs::new());
    let turned = case.op(K::StaticTranspose, &[same], order(&[1, 0]));
    let dense = case.op(K::Reorder, &[turned], Attrs::new());
    let sum = case.op(K::Exp, &[dense], Attrs::new());
    let copy = case.op(K::Reorder, &[sum], Attrs::new());
    case.op(K::Square, &[copy], Attrs::new());
    case.check();
}

/// Inputs, outputs and reorders with strides that are not dense row-major.
#[test]
fn given_strides() {
    let mut case = Case::on_devices();
    let columns_first = case.strided_input(&[3, 4], &[1, 3]);
    let padded = case.strided_input(&[3, 4], &[7, 1]);
    let sum = case.op(K::Add, &[columns_first, padded], Attrs::new());
    let product = case.op(K::MatMul, &[columns_first, padded], Attrs::new().with("transpose_b", true));
    let copy = case.op(K::Reorder, &[padded], Attrs::new());
    case.strides_of(sum, &[1, 4]);
    case.strides_of(product, &[5, 1]);
    case.strides_of(copy, &[2, 6]);
    case.check();
}

/// An image whose bytes are channels-last although the graph says channels-first.
#[test]
fn given_strides_of_images() {
    let mut case = Case::new();
    let src = case.strided_input(&[2, 3, 4, 5], &[60, 1, 15, 3]);
    let weights = case.constant(&[6, 3, 3, 3]);
    let attrs = Attrs::new()
        .with("strides", [1, 1])
        .with("pads_begin", [1, 1])
        .with("pads_end", [1, 1])
        .with("dilations", [1, 1])
        .with("data_format", "NCX")
        .with("weights_format", "OIX");
    let y = case.op(K::Convolution, &[src, weights], attrs);
    let y = case.op(K::ReLU, &[y], Attrs::new());
    case.strides_of(y, &[120, 1, 30, 6]);
    case.in_steps(1).check();
}

#[rstest]
fn empty_batches(#[values(false, true)] affine: bool) {
    let mut case = Case::new();
    let x = case.input_of(DataType::F32, &[0, 6], |v| v);
    let w = case.constant(&[6, 4]);
    let y = case.op(K::MatMul, &[x, w], Attrs::new());
    let y = case.op(K::ReLU, &[y], Attrs::new());
    let mut inputs = vec![y];
    if affine {
        inputs.extend([case.constant(&[4]), case.constant(&[4])]);
    }
    let y = case.op(K::LayerNorm, &inputs, Attrs::new().with("keep_stats", false).with("use_affine", affine));
    case.op(K::SoftMax, &[y], Attrs::new());
    case.check();
}
