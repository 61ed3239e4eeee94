//! `MatMul`: transposition, batches, vectors, bias.

use anydnn::backend::DataType;
use anydnn::graph::{Attrs, OpKind};
use rstest::rstest;

use super::case::Case;

fn flags(transpose_a: bool, transpose_b: bool) -> Attrs {
    Attrs::new().with("transpose_a", transpose_a).with("transpose_b", transpose_b)
}

#[rstest]
#[case::plain(&[3, 5], &[5, 4], false, false)]
#[case::transpose_a(&[5, 3], &[5, 4], true, false)]
#[case::transpose_b(&[3, 5], &[4, 5], false, true)]
#[case::both(&[5, 3], &[4, 5], true, true)]
#[case::batch(&[2, 3, 5], &[2, 5, 4], false, false)]
#[case::batch_both(&[2, 5, 3], &[2, 4, 5], true, true)]
#[case::batch_stretched_left(&[1, 3, 5], &[4, 5, 2], false, false)]
#[case::batch_stretched_right(&[4, 3, 5], &[1, 5, 2], false, false)]
#[case::batch_stretched_both(&[2, 1, 3, 5], &[1, 3, 5, 4], false, false)]
#[case::rank_left(&[2, 3, 4, 5], &[5, 6], false, false)]
#[case::rank_left_transposed(&[2, 3, 5, 4], &[6, 5], true, true)]
#[case::rank_right(&[4, 5], &[2, 3, 5, 6], false, false)]
#[case::rank_right_transposed(&[5, 4], &[3, 6, 5], true, true)]
#[case::dot(&[7], &[7], false, false)]
#[case::dot_flags_ignored(&[7], &[7], true, true)]
#[case::row(&[5], &[5, 3], false, false)]
#[case::row_transposed(&[5], &[3, 5], false, true)]
#[case::column(&[3, 5], &[5], false, false)]
#[case::column_transposed(&[5, 3], &[5], true, false)]
#[case::row_batch(&[5], &[2, 4, 5, 3], false, false)]
#[case::column_batch(&[2, 4, 3, 5], &[5], false, false)]
#[case::column_batch_transposed(&[2, 5, 3], &[5], true, true)]
#[case::outer(&[4, 1], &[1, 3], false, false)]
#[case::empty_batch(&[0, 5], &[5, 4], false, false)]
#[case::empty_sum(&[3, 0], &[0, 4], false, false)]
fn products(#[case] a: &[usize], #[case] b: &[usize], #[case] ta: bool, #[case] tb: bool) {
    for weights_are_constant in [false, true] {
        let mut case = Case::new();
        let x = case.input(a);
        let w = if weights_are_constant { case.constant(b) } else { case.input(b) };
        case.op(OpKind::MatMul, &[x, w], flags(ta, tb));
        case.in_steps(1).check();
    }
}

#[rstest]
#[case::plain(&[5, 9], &[9, 6], false, false)]
#[case::batch_both(&[2, 9, 5], &[2, 6, 9], true, true)]
#[case::rank_left(&[2, 3, 4, 5], &[6, 5], false, true)]
#[case::column(&[2, 3, 5], &[5], false, false)]
fn products_on_devices(#[case] a: &[usize], #[case] b: &[usize], #[case] ta: bool, #[case] tb: bool) {
    let mut case = Case::on_devices();
    let x = case.input(a);
    let w = case.constant(b);
    case.op(OpKind::MatMul, &[x, w], flags(ta, tb));
    case.check();
}

#[rstest]
#[case::vector(&[3, 5], &[5, 4], &[4])]
#[case::row(&[3, 5], &[5, 4], &[1, 4])]
#[case::column(&[3, 5], &[5, 4], &[3, 1])]
#[case::full(&[2, 3, 5], &[2, 5, 4], &[2, 3, 4])]
#[case::batch(&[2, 3, 5], &[5, 4], &[2, 1, 1])]
#[case::behind_a_row(&[5], &[2, 5, 4], &[4])]
#[case::behind_a_row_for_each_batch(&[5], &[2, 5, 4], &[2, 4])]
#[case::behind_a_column(&[2, 3, 5], &[5], &[2, 3])]
#[case::behind_a_dot(&[5], &[5], &[])]
#[case::scalar(&[3, 5], &[5, 4], &[])]
fn bias_input(#[case] a: &[usize], #[case] b: &[usize], #[case] bias: &[usize]) {
    let mut case = Case::new();
    let (x, w, bias) = (case.input(a), case.constant(b), case.constant_of(DataType::F32, bias, |v| 3.0 * v));
    let y = case.op(OpKind::MatMul, &[x, w, bias], Attrs::new());
    case.op(OpKind::ReLU, &[y], Attrs::new());
    case.in_steps(1).check();
}

/// A bias and a `BiasAdd` behind it are two summands.
#[test]
fn bias_input_and_bias_add() {
    let mut case = Case::new();
    let (x, w) = (case.input(&[3, 5]), case.constant(&[5, 4]));
    let (one, other) = (case.constant(&[4]), case.constant(&[4]));
    let y = case.op(OpKind::MatMul, &[x, w, one], Attrs::new());
    case.op(OpKind::BiasAdd, &[y, other], Attrs::new());
    case.in_steps(1).check();
}

#[test]
fn a_tensor_times_itself_transposed() {
    let mut case = Case::on_devices();
    let x = case.input(&[4, 6]);
    case.op(OpKind::MatMul, &[x, x], flags(false, true));
    case.op(OpKind::MatMul, &[x, x], flags(true, false));
    case.check();
}

/// Larger than one tile of a blocked implementation, with remainders on all sides.
#[test]
fn beyond_one_tile() {
    let mut case = Case::on_devices();
    let (x, w) = (case.input(&[67, 45]), case.constant(&[45, 83]));
    case.op(OpKind::MatMul, &[x, w], Attrs::new());
    case.check();
}
