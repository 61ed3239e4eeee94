use crate::compute::tests::{bytes_of, run, values_of};
use anydnn_backend::op::{BinaryAlgorithm, Eltwise, Expression, Fold, Node};
use anydnn_backend::{Arg, Attributes, DataType, Dims, MemoryDesc, Op, PostOp, PrimitiveDesc, TensorValues};
use approx::abs_diff_eq;
use proptest::prelude::*;

fn f32(dims: &[usize]) -> MemoryDesc {
    MemoryDesc::new(dims, DataType::F32)
}

fn compute(e: Expression, sources: &[(&MemoryDesc, &[f64])], results: &[&MemoryDesc]) -> Vec<Vec<f64>> {
    let mut builder = PrimitiveDesc::builder(Op::Expression(e));
    for (desc, _) in sources {
        builder = builder.src((*desc).clone());
    }
    for (i, desc) in results.iter().enumerate() {
        builder = builder.arg(Arg::Dst(i as u16), (*desc).clone());
    }
    let bytes: Vec<Vec<u8>> = sources.iter().map(|(desc, values)| bytes_of(desc, values)).collect();
    let inputs: Vec<(Arg, &[u8])> =
        bytes.iter().enumerate().map(|(i, bytes)| (Arg::Src(i as u16), &bytes[..])).collect();
    let mut out: Vec<Vec<u8>> = results.iter().map(|desc| vec![0; desc.size()]).collect();
    let mut outputs: Vec<(Arg, &mut [u8])> =
        out.iter_mut().enumerate().map(|(i, bytes)| (Arg::Dst(i as u16), &mut bytes[..])).collect();
    run(&builder.build().unwrap(), &inputs, &mut outputs).unwrap();
    out.iter().zip(results).map(|(bytes, desc)| values_of(desc, bytes)).collect()
}

/// `x - mean(x)` and the mean, along some axes.
fn centred(dims: &[usize], folded: &[usize]) -> Expression {
    let mut e = Expression::new(dims).with_folded(folded);
    let x = e.push(Node::Operand(0));
    let sum = e.push(Node::Fold(Fold::Sum, x));
    let count: usize = folded.iter().map(|&axis| dims[axis]).product();
    let mean = e.push(Node::Eltwise(Eltwise::Linear { alpha: 1.0 / count as f32, beta: 0.0 }, sum));
    let y = e.push(Node::Binary(BinaryAlgorithm::Subtract, x, mean));
    e.results = vec![y, mean];
    e
}

fn check_centred(dims: &[usize], folded: &[usize], dst: &MemoryDesc) {
    let e = centred(dims, folded);
    let kept = e.folded_dims();
    let values: Vec<f64> = (0..Dims::new(dims).elements()).map(|i| (i * 7 % 23) as f64).collect();
    let strides = kept.row_major_strides();
    let group = |index: &[usize]| -> usize {
        index.iter().zip(kept.iter()).zip(strides.iter()).map(|((i, kept), stride)| i % kept * stride).sum()
    };
    let mut sums = vec![0.0; kept.elements()];
    for (index, value) in Dims::new(dims).indices().zip(&values) {
        sums[group(&index)] += value;
    }
    let count = (values.len() / sums.len()) as f64;
    let got = compute(e, &[(&f32(dims), &values)], &[dst, &f32(&kept)]);
    let means: Vec<f64> = sums.iter().map(|sum| sum / count).collect();
    let centred = Dims::new(dims).indices().zip(&values).map(|(index, value)| value - means[group(&index)]);
    for ((got, expected), desc) in got.iter().zip([centred.collect(), means.clone()]).zip([dst, &f32(&kept)])
    {
        let of = |values: &[f64]| TensorValues::new(desc, values.iter().copied()).unwrap();
        let (got, expected) = (of(got), of(&expected));
        let close = abs_diff_eq!(got, expected, epsilon = 1e-4);
        assert!(close, "{dims:?} {folded:?}: {got:?} instead of {expected:?}");
    }
}

#[test]
fn large_folds_take_every_path() {
    // A long row in pieces, many rows in slabs, wide columns, narrow columns in pieces, axes on both sides.
    check_centred(&[2, 70_000], &[1], &f32(&[2, 70_000]));
    check_centred(&[700, 60], &[1], &f32(&[700, 60]));
    check_centred(&[5, 5000], &[0], &f32(&[5, 5000]));
    check_centred(&[20_000, 3], &[0], &f32(&[20_000, 3]));
    check_centred(&[40, 3, 50, 20], &[0, 2, 3], &f32(&[40, 3, 50, 20]));
    check_centred(&[3, 400, 20], &[1], &MemoryDesc::with_tag([3, 400, 20], DataType::F32, "cab").unwrap());
}

proptest! {
    #[test]
    fn any_axes_fold(dims in proptest::collection::vec(1_usize..5, 1..5), mask in any::<u8>()) {
        let folded: Vec<usize> = (0..dims.len()).filter(|axis| mask >> axis & 1 == 1).collect();
        check_centred(&dims, &folded, &f32(&dims));
    }
}

#[test]
fn folds_of_nothing_have_their_start() {
    let mut e = Expression::new([2, 0]).with_folded([1]);
    let x = e.push(Node::Operand(0));
    e.results = Fold::ALL.map(|fold| e.push(Node::Fold(fold, x))).to_vec();
    let one = f32(&[2, 1]);
    let got = compute(e, &[(&f32(&[2, 0]), &[])], &[&one, &one, &one, &one]);
    assert_eq!(got, Fold::ALL.map(|fold| vec![fold.start(); 2]));
}

#[test]
fn a_group_without_elements_still_shapes_full_results() {
    let got = compute(centred(&[0, 3], &[1]), &[(&f32(&[0, 3]), &[])], &[&f32(&[0, 3]), &f32(&[0, 1])]);
    assert_eq!(got, [vec![], vec![]] as [Vec<f64>; 2]);
}

#[test]
fn post_operations_follow_results_in_another_order() {
    // Sums of columns of the first axis, which changes places with the second.
    let mut e = Expression::new([2, 3, 2]).with_folded([0, 2]);
    let x = e.push(Node::Operand(0));
    let sum = e.push(Node::Fold(Fold::Sum, x));
    let y = e.push(Node::Binary(BinaryAlgorithm::Add, x, sum));
    e.results = vec![y];
    let tensor = f32(&[2, 3, 2]);
    let attributes =
        Attributes::default().with_post_op(PostOp::binary(BinaryAlgorithm::Multiply, tensor.clone()));
    let desc = PrimitiveDesc::builder(Op::Expression(e))
        .src(tensor.clone())
        .dst(tensor.clone())
        .attributes(attributes)
        .build()
        .unwrap();
    let values: Vec<f64> = (1..=12).map(f64::from).collect();
    let bytes = bytes_of(&tensor, &values);
    let mut out = vec![0; tensor.size()];
    run(&desc, &[(Arg::SRC, &bytes), (Arg::PostOp(0), &bytes)], &mut [(Arg::DST, &mut out)]).unwrap();
    let sums = [18.0, 26.0, 34.0];
    let expected: Vec<f64> = values.iter().enumerate().map(|(i, v)| (v + sums[i / 2 % 3]) * v).collect();
    assert_eq!(values_of(&tensor, &out), expected);
}

#[test]
fn dropouts_count_elements_in_row_major_order() {
    let dims = [3, 4, 5];
    let mut e = Expression::new(dims).with_folded([0]);
    let keep = e.push(Node::Keep { seed: 0, offset: 1, probability: 2 });
    let kept = e.push(Node::Fold(Fold::Sum, keep));
    e.results = vec![keep, kept];
    let long = MemoryDesc::new([1], DataType::S64);
    let seed = ((1_i64 << 40) + 1) as f64;
    let got = compute(
        e,
        &[(&long, &[seed]), (&long, &[3.0]), (&f32(&[1]), &[0.4])],
        &[&f32(&dims), &f32(&[1, 4, 5])],
    );
    for (i, kept) in got[0].iter().enumerate() {
        let expected = anydnn_backend::op::keeps((1 << 40) + 1, 3, i as u64, 0.4);
        assert_eq!(*kept, f64::from(u8::from(expected)), "{i}");
    }
    for (i, sum) in got[1].iter().enumerate() {
        assert_eq!(*sum, got[0][i] + got[0][20 + i] + got[0][40 + i]);
    }
}
