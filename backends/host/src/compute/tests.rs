//! Helpers of the kernels' tests, and operations against plain definitions.

use anydnn_backend::op::{Binary, Concat, Convolution, MatMul, Reorder, Select};
use anydnn_backend::{
    Arg, BinaryAlgorithm, DataType, Dims, Eltwise, Error, MemoryDesc, Op, PrimitiveDesc, Result, TensorValues,
};
use approx::assert_abs_diff_eq;
use proptest::prelude::*;

use super::view::dense;
use super::{implementation, pack::pack};

/// Memory of a tensor with these elements in row-major order.
pub(crate) fn bytes_of(desc: &MemoryDesc, values: &[f64]) -> Vec<u8> {
    let mut bytes = vec![0; desc.size()];
    pack(desc, values, &mut bytes).unwrap();
    bytes
}

/// The elements in memory, in row-major order.
pub(crate) fn values_of(desc: &MemoryDesc, bytes: &[u8]) -> Vec<f64> {
    dense(desc, bytes).unwrap().into_owned()
}

/// Checks that every element is within `epsilon` of what is expected.
#[track_caller]
pub(crate) fn assert_close(actual: &[f64], expected: &[f64], epsilon: f64) {
    let list = |values: &[f64]| TensorValues::list(DataType::F64, values.iter().copied());
    assert_abs_diff_eq!(list(actual), list(expected), epsilon = epsilon);
}

pub(crate) fn run(
    desc: &PrimitiveDesc,
    inputs: &[(Arg, &[u8])],
    outputs: &mut [(Arg, &mut [u8])],
) -> Result<()> {
    super::compute(desc, inputs, outputs)
}

fn f32(dims: &[usize]) -> MemoryDesc {
    MemoryDesc::new(dims, DataType::F32)
}

/// Runs an operation on sources alone.
fn run_op(op: Op, sources: &[(&MemoryDesc, &[f64])], dst: &MemoryDesc) -> Vec<f64> {
    let mut builder = PrimitiveDesc::builder(op).dst(dst.clone());
    for (desc, _) in sources {
        builder = builder.src((*desc).clone());
    }
    let bytes: Vec<Vec<u8>> = sources.iter().map(|(desc, values)| bytes_of(desc, values)).collect();
    let inputs: Vec<(Arg, &[u8])> =
        bytes.iter().enumerate().map(|(i, b)| (Arg::Src(i as u16), &b[..])).collect();
    let mut out = vec![0; dst.size()];
    run(&builder.build().unwrap(), &inputs, &mut [(Arg::DST, &mut out)]).unwrap();
    values_of(dst, &out)
}

#[test]
fn operands_are_checked() {
    let relu =
        PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).src(f32(&[2])).dst(f32(&[2])).build().unwrap();
    let error = run(&relu, &[(Arg::SRC, &[0; 7])], &mut [(Arg::DST, &mut [0; 8])]).unwrap_err();
    assert!(error.to_string().contains("7 bytes"), "{error}");
    assert!(matches!(run(&relu, &[(Arg::SRC, &[0; 8])], &mut []), Err(Error::Invalid(_))));
    let open = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).src(f32(&[2])).build().unwrap();
    let error = run(&open, &[(Arg::SRC, &[0; 8])], &mut [(Arg::DST, &mut [0; 8])]).unwrap_err();
    assert!(matches!(error.root(), Error::Unsupported { .. }), "{error}");
}

#[test]
fn elementwise_operations_work_at_any_address() {
    let relu =
        PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).src(f32(&[2])).dst(f32(&[2])).build().unwrap();
    let src = [&[0][..], &bytes_of(&f32(&[2]), &[-1.0, 5.0])].concat();
    let mut out = [0; 9];
    run(&relu, &[(Arg::SRC, &src[1..])], &mut [(Arg::DST, &mut out[1..])]).unwrap();
    assert_eq!(values_of(&f32(&[2]), &out[1..]), [0.0, 5.0]);
}

#[test]
fn binary_broadcasts_both_sides_and_gives_truth() {
    let (column, row) = (f32(&[2, 1]), f32(&[3]));
    let sources: [(&MemoryDesc, &[f64]); 2] = [(&column, &[1.0, 3.0]), (&row, &[1.0, 2.0, 3.0])];
    let sub = run_op(Op::Binary(Binary::new(BinaryAlgorithm::Subtract)), &sources, &f32(&[2, 3]));
    assert_eq!(sub, [0.0, -1.0, -2.0, 2.0, 1.0, 0.0]);
    let truth = MemoryDesc::new([2, 3], DataType::Boolean);
    let less = run_op(Op::Binary(Binary::new(BinaryAlgorithm::Less)), &sources, &truth);
    assert_eq!(less, [0.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn select_broadcasts_its_condition() {
    let condition = MemoryDesc::new([2, 1], DataType::Boolean);
    let out = run_op(
        Op::Select(Select),
        &[(&condition, &[1.0, 0.0]), (&f32(&[2]), &[1.0, 2.0]), (&f32(&[]), &[9.0])],
        &f32(&[2, 2]),
    );
    assert_eq!(out, [1.0, 2.0, 9.0, 9.0]);
}

#[test]
fn concat_interleaves_rows_of_any_layout() {
    let transposed = MemoryDesc::with_strides([2, 2], DataType::F32, [1, 2]).unwrap();
    let out = run_op(
        Op::Concat(Concat::new(1)),
        &[(&transposed, &[1.0, 2.0, 3.0, 4.0]), (&f32(&[2, 0]), &[]), (&f32(&[2, 1]), &[5.0, 6.0])],
        &MemoryDesc::with_strides([2, 3], DataType::F32, [1, 2]).unwrap(),
    );
    assert_eq!(out, [1.0, 2.0, 5.0, 3.0, 4.0, 6.0]);
}

#[test]
fn large_tensors_take_the_parallel_paths() {
    let count = 3 * super::CHUNK + 5;
    let values: Vec<f64> = (0..count).map(|i| (i % 251) as f64 - 125.0).collect();
    for data_type in
        [DataType::F32, DataType::F16, DataType::BF16, DataType::S8, DataType::S32, DataType::S64]
    {
        let tensor = MemoryDesc::new([count], data_type);
        let out = run_op(Op::Eltwise(Eltwise::Abs), &[(&tensor, &values)], &tensor);
        assert!(out.iter().zip(&values).all(|(out, v)| *out == v.abs()), "{data_type}");
    }
}

#[test]
fn long_integers_move_exactly() {
    let tensor = MemoryDesc::new([1], DataType::S64);
    let reorder =
        PrimitiveDesc::builder(Op::Reorder(Reorder)).src(tensor.clone()).dst(tensor).build().unwrap();
    let value = i64::MAX - 1;
    let mut out = [0; 8];
    run(&reorder, &[(Arg::SRC, &value.to_ne_bytes())], &mut [(Arg::DST, &mut out)]).unwrap();
    assert_eq!(i64::from_ne_bytes(out), value);
}

#[test]
fn operations_without_elements_do_nothing() {
    assert!(run_op(Op::Eltwise(Eltwise::Exp), &[(&f32(&[0, 3]), &[])], &f32(&[0, 3])).is_empty());
    let matmul = PrimitiveDesc::builder(Op::MatMul(MatMul))
        .src(f32(&[0, 3]))
        .weights(f32(&[3, 2]))
        .build()
        .unwrap()
        .resolved_row_major();
    run(&matmul, &[(Arg::SRC, &[]), (Arg::Weights, &[0; 24])], &mut [(Arg::DST, &mut [])]).unwrap();
}

#[test]
fn implementations_are_named() {
    let conv = |groups: usize, kernel: usize| {
        let desc = PrimitiveDesc::builder(Op::Convolution(Convolution::new(1).with_groups(groups)))
            .src(f32(&[1, 4, 9]))
            .weights(f32(&[4, 4 / groups, kernel]))
            .build()
            .unwrap();
        implementation(&desc)
    };
    assert_eq!((conv(1, 3), conv(1, 1), conv(4, 3)), ("host:im2col+gemm", "host:gemm", "host:direct"));
}

/// The definition of a two-dimensional convolution, in f64.
fn naive_convolution(
    op: &Convolution,
    src: &[f64],
    src_dims: &[usize],
    weights: &[f64],
    weight_dims: &[usize],
    dst: &Dims,
) -> Vec<f64> {
    let (per_group, outputs) = (weight_dims[1], weight_dims[0] / op.groups);
    let input = |n: usize, c: usize, y: Option<usize>, x: Option<usize>| match (y, x) {
        (Some(y), Some(x)) if y < src_dims[2] && x < src_dims[3] => {
            src[((n * src_dims[1] + c) * src_dims[2] + y) * src_dims[3] + x]
        }
        _ => 0.0,
    };
    dst.indices()
        .map(|index| {
            let mut sum = 0.0;
            for (at, tap) in Dims::new(&weight_dims[1..]).indices().enumerate() {
                let channel = index[1] / outputs * per_group + tap[0];
                let position = |axis: usize| {
                    (index[axis + 2] * op.strides[axis] + tap[axis + 1] * op.dilations[axis])
                        .checked_sub(op.pads_begin[axis])
                };
                let per_output: usize = weight_dims[1..].iter().product();
                sum +=
                    weights[index[1] * per_output + at] * input(index[0], channel, position(0), position(1));
            }
            sum
        })
        .collect()
}

proptest! {
    #[test]
    fn convolutions_meet_the_definition(
        (groups, per_group, outputs) in (1_usize..4, 1_usize..4, 1_usize..4),
        (height, width) in (1_usize..9, 1_usize..9),
        kernel in (1_usize..4, 1_usize..4),
        stride in (1_usize..3, 1_usize..4),
        dilation in (1_usize..3, 1_usize..3),
        pads in (0_usize..3, 0_usize..3, 0_usize..3, 0_usize..3),
        data_type in prop_oneof![Just(DataType::F32), Just(DataType::F16), Just(DataType::S8)],
        channels_last in any::<bool>(),
    ) {
        let op = Convolution::new(2)
            .with_groups(groups)
            .with_strides([stride.0, stride.1])
            .with_dilations([dilation.0, dilation.1])
            .with_pads([pads.0, pads.1], [pads.2, pads.3]);
        let tag = if channels_last { "acdb" } else { "abcd" };
        let src = MemoryDesc::with_tag([2, groups * per_group, height, width], data_type, tag).unwrap();
        let weights = MemoryDesc::new([groups * outputs, per_group, kernel.0, kernel.1], data_type);
        let bias = f32(&[groups * outputs]);
        let described = PrimitiveDesc::builder(Op::Convolution(op.clone()))
            .src(src.clone())
            .weights(weights.clone())
            .bias(bias.clone())
            .build();
        prop_assume!(described.is_ok());
        let desc = described.unwrap().resolved_row_major();
        let a: Vec<f64> = (0..src.elements()).map(|i| (i * 7 % 9) as f64 - 4.0).collect();
        let b: Vec<f64> = (0..weights.elements()).map(|i| (i * 5 % 7) as f64 - 3.0).collect();
        let c: Vec<f64> = (0..groups * outputs).map(|i| i as f64).collect();
        let mut out = vec![0; desc.dst().size()];
        run(
            &desc,
            &[(Arg::SRC, &bytes_of(&src, &a)), (Arg::Weights, &bytes_of(&weights, &b)), (Arg::Bias, &bytes_of(&bias, &c))],
            &mut [(Arg::DST, &mut out)],
        )
        .unwrap();
        let dst = desc.dst().dims();
        let plane = dst[2] * dst[3];
        let mut expected = naive_convolution(&op, &a, src.dims(), &b, weights.dims(), dst);
        expected.iter_mut().enumerate().for_each(|(i, e)| *e += c[i / plane % dst[1]]);
        // Small integers: exact in every type.
        prop_assert_eq!(values_of(desc.dst(), &out), expected);
    }
}
