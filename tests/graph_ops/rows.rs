//! Softmax and reductions along every axis.

use anydnn::backend::DataType;
use anydnn::graph::{Attrs, OpKind as K};
use rstest::rstest;

use super::case::Case;

#[rstest]
fn softmax(#[values(K::SoftMax, K::LogSoftmax)] kind: K, #[values(0, 1, 2, 3, -1, -2, -3, -4)] axis: i64) {
    let mut case = if axis == 1 || axis == -1 { Case::on_devices() } else { Case::new() };
    let x = case.input_of(DataType::F32, &[3, 4, 2, 5], |v| 5.0 * v);
    case.op(kind, &[x], Attrs::new().with("axis", axis));
    case.in_steps(1).check();
}

/// `SoftMax` counts along axis 1 where none is named, `LogSoftmax` along the last.
#[rstest]
fn softmax_along_its_usual_axis(#[values(K::SoftMax, K::LogSoftmax)] kind: K) {
    let mut case = Case::new();
    let x = case.input(&[2, 3, 4]);
    case.op(kind, &[x], Attrs::new());
    case.check();
}

/// Large numbers do not overflow; rows of minus infinity are zeros where the mode says so.
#[test]
fn softmax_of_extremes() {
    let mut case = Case::on_devices();
    let x = case.input(&[3, 3]);
    let low = f64::NEG_INFINITY;
    case.set(x, &[1000.0, 999.0, -1000.0, low, low, low, low, 3.0, 3.0]);
    case.op(K::SoftMax, &[x], Attrs::new().with("axis", 1_i64).with("mode", "inf_as_zero"));
    case.check();
}

const REDUCTIONS: [K; 7] =
    [K::ReduceL1, K::ReduceL2, K::ReduceMax, K::ReduceMean, K::ReduceMin, K::ReduceProd, K::ReduceSum];

#[rstest]
#[case::first(&[0])]
#[case::middle(&[1])]
#[case::last(&[-1])]
#[case::ends(&[0, 2])]
#[case::unsorted(&[2, 1])]
#[case::negative(&[-1, -3])]
#[case::all(&[0, 1, 2])]
fn reductions(#[case] axes: &[i64]) {
    for kind in REDUCTIONS {
        for keep_dims in [false, true] {
            let mut case = if axes == [0, 2] && !keep_dims { Case::on_devices() } else { Case::new() };
            let x = case.input_of(DataType::F32, &[3, 4, 5], |v| 1.5 * v);
            case.op(kind, &[x], Attrs::new().with("axes", axes.to_vec()).with("keep_dims", keep_dims));
            case.in_steps(1).check();
        }
    }
}

/// Without axes a reduction is the identity.
#[rstest]
#[case::left_out(Attrs::new())]
#[case::empty(Attrs::new().with("axes", Vec::<i64>::new()))]
fn reductions_over_nothing(#[case] attrs: Attrs) {
    for kind in REDUCTIONS {
        let mut case = Case::new();
        let x = case.input(&[2, 3]);
        let y = case.op(kind, &[x], attrs.clone());
        case.op(K::Tanh, &[y], Attrs::new());
        case.check();
    }
}

/// Dimensions of zero: sums are zero, products one.
#[rstest]
#[case::sum(K::ReduceSum)]
#[case::product(K::ReduceProd)]
#[case::norm(K::ReduceL2)]
fn reductions_of_no_elements(#[case] kind: K) {
    let mut case = Case::new();
    let x = case.input(&[2, 0, 3]);
    case.op(kind, &[x], Attrs::new().with("axes", [1]).with("keep_dims", true));
    case.check();
}

/// A chain behind a reduction works on the shape without the folded dimensions.
#[rstest]
fn a_chain_behind_dropped_dimensions(#[values(false, true)] keep_dims: bool) {
    let mut case = Case::on_devices();
    let x = case.input(&[2, 3, 4, 5]);
    let kept: [&[usize]; 3] =
        if keep_dims { [&[2, 1, 4, 1], &[4, 1], &[2, 1, 1, 1]] } else { [&[2, 4], &[4], &[2, 1]] };
    let [full, row, column] = kept.map(|dims| case.input(dims));
    let attrs = Attrs::new().with("axes", [3, 1]).with("keep_dims", keep_dims);
    let y = case.op(K::ReduceMean, &[x], attrs);
    let y = case.op(K::Add, &[y, full], Attrs::new());
    let y = case.op(K::Subtract, &[row, y], Attrs::new());
    let y = case.op(K::Multiply, &[y, column], Attrs::new());
    case.op(K::Abs, &[y], Attrs::new());
    case.in_steps(1).check();
}
