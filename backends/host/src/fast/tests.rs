//! Fast forms beside the reference, at every level of instructions.

use anydnn_backend::op::{
    BatchNormalization, Cell, Convolution, Direction, GateOrder, MatMul, Op, Recurrent, Reduction,
    ReductionAlgorithm,
};
use anydnn_backend::{
    Access, Arg, Attributes, BinaryAlgorithm, DataType, Eltwise, MemoryDesc, PostOp, PrimitiveDesc, Tolerance,
};

use super::level::Level;
use super::{Call, Crew, plan, resolve};
use crate::compute::compute;

fn f32(dims: &[usize]) -> MemoryDesc {
    MemoryDesc::new(dims, DataType::F32)
}

/// What computes on bytes by argument.
type Work<'w> = dyn Fn(&[(Arg, &[u8])], &mut [(Arg, &mut [u8])]) + 'w;

/// Compares what a fast form gives with the reference, at every level, on one and on three threads.
fn check(asked: &PrimitiveDesc) {
    let desc = resolve(asked.clone()).resolved_row_major();
    let fast = plan(&desc).unwrap_or_else(|| panic!("{desc} has a fast form"));
    let numbers = |seed: usize, desc: &MemoryDesc| -> Vec<f32> {
        let count = desc.size() / 4;
        (0..count).map(|i| ((i * 7919 + seed * 104_729) % 1013) as f32 / 1013.0 - 0.5).collect()
    };
    let operands: Vec<(Arg, Access, Vec<f32>)> =
        desc.args().iter().enumerate().map(|(i, a)| (a.arg, a.access, numbers(i, &a.desc))).collect();
    let run = |work: &Work<'_>| -> Vec<Vec<f32>> {
        let inputs: Vec<(Arg, &[u8])> = operands
            .iter()
            .filter(|(_, access, _)| *access == Access::Read)
            .map(|(arg, _, values)| (*arg, bytemuck::cast_slice(values)))
            .collect();
        let mut results: Vec<(Arg, Vec<f32>)> = operands
            .iter()
            .filter(|(_, access, _)| *access != Access::Read)
            .map(|(arg, _, values)| (*arg, values.clone()))
            .collect();
        let mut outputs: Vec<(Arg, &mut [u8])> =
            results.iter_mut().map(|(arg, values)| (*arg, bytemuck::cast_slice_mut(values))).collect();
        work(&inputs, &mut outputs);
        results.into_iter().map(|(_, values)| values).collect()
    };
    let expected = run(&|inputs, outputs| compute(&desc, inputs, outputs).unwrap());
    let tolerance = Tolerance::of(&desc);
    let wide = |values: &[f32]| -> Vec<f64> { values.iter().map(|&x| f64::from(x)).collect() };
    for (&level, threads) in Level::available().iter().flat_map(|level| [(level, 1), (level, 3)]) {
        let crew = Crew::new(threads);
        for _ in 0..2 {
            let made = run(&|inputs, outputs| {
                fast.run(&Call::new(level, &crew, &desc, inputs, outputs).expect("operands of f32"));
            });
            for (made, expected) in made.iter().zip(&expected) {
                tolerance
                    .compare(&wide(made), &wide(expected))
                    .unwrap_or_else(|error| panic!("{desc} at {level:?} on {threads} threads: {error:?}"));
            }
        }
    }
}

#[test]
fn products_of_all_heights_and_layouts() {
    for (m, k, n) in [(1, 300, 70), (2, 65, 33), (13, 31, 16), (57, 129, 200), (150, 40, 3)] {
        let transposed = MemoryDesc::with_strides([k, n], DataType::F32, [1, k]).unwrap();
        for weights in [MemoryDesc::any([k, n], DataType::F32), f32(&[k, n]), transposed] {
            let attributes = Attributes::default()
                .with_post_op(PostOp::Eltwise(Eltwise::GeluErf))
                .with_post_op(PostOp::binary(BinaryAlgorithm::Add, f32(&[m, n])))
                .with_post_op(PostOp::binary(BinaryAlgorithm::Multiply, f32(&[m, 1])))
                .with_post_op(PostOp::sum(0.5));
            let desc = PrimitiveDesc::builder(Op::MatMul(MatMul))
                .src(f32(&[m, k]))
                .weights(weights)
                .arg(Arg::Bias, f32(&[n]))
                .dst(f32(&[m, n]))
                .attributes(attributes);
            check(&desc.build().unwrap());
        }
    }
}

#[test]
fn batches_share_a_matrix_or_have_their_own() {
    for batch in [1, 3] {
        let column_major = MemoryDesc::with_strides([3, 20, 30], DataType::F32, [600, 1, 20]).unwrap();
        for src in [f32(&[3, 20, 30]), column_major] {
            let weights = f32(&[batch, 30, 40]);
            check(&PrimitiveDesc::builder(Op::MatMul(MatMul)).src(src).weights(weights).build().unwrap());
        }
    }
}

fn image(tag: &str, dims: &[usize]) -> MemoryDesc {
    MemoryDesc::with_tag(dims, DataType::F32, tag).unwrap()
}

#[test]
fn convolutions_of_all_kinds() {
    let window = |kernel: usize, stride: usize, dilation: usize, groups: usize| {
        let reach = kernel / 2 * dilation;
        Convolution::new(2)
            .with_strides([stride, stride])
            .with_dilations([dilation, dilation])
            .with_pads([reach, reach], [reach, reach])
            .with_groups(groups)
    };
    for (channels, outputs, kernel, stride, dilation, groups) in [
        (3, 40, 7, 2, 1, 1),
        (32, 64, 1, 1, 1, 1),
        (17, 33, 3, 1, 2, 1),
        (32, 64, 3, 1, 1, 2),
        (12, 18, 3, 2, 1, 3),
        (70, 70, 3, 1, 1, 70),
        (70, 70, 5, 2, 1, 70),
        (6, 12, 3, 1, 1, 6),
    ] {
        for tag in ["acdb", "abcd"] {
            for open in [true, false] {
                let dims = [outputs, channels / groups, kernel, kernel];
                let weights = if open { MemoryDesc::any(dims, DataType::F32) } else { f32(&dims) };
                let op = window(kernel, stride, dilation, groups);
                let src = image(tag, &[2, channels, 19, 23]);
                let builder = PrimitiveDesc::builder(Op::Convolution(op)).src(src).weights(weights);
                let dims = builder.clone().build().unwrap().dst().dims().clone();
                let relu = Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Relu));
                let builder = builder.arg(Arg::Bias, f32(&[outputs])).dst(image(tag, &dims)).attributes(relu);
                check(&builder.build().unwrap());
            }
        }
    }
}

#[test]
fn layers_whose_units_threads_share() {
    for cell in [Cell::Lstm(GateOrder::InputForgetCandidateOutput), Cell::Gru, Cell::GruLinearBeforeReset] {
        for direction in [Direction::LeftToRight, Direction::RightToLeft, Direction::Concat, Direction::Sum] {
            let (t, n, i, h, d, g) = (5, 9, 20, 70, direction.count(), cell.gates());
            let op = Recurrent::new(cell, direction);
            let mut builder = PrimitiveDesc::builder(Op::Recurrent(op))
                .src(f32(&[t, n, i]))
                .weights(f32(&[d, i, g, h]))
                .arg(Recurrent::STATE_WEIGHTS, f32(&[d, h, g, h]))
                .arg(Arg::Bias, f32(&[d, g, h]))
                .arg(Recurrent::STATE_BIAS, f32(&[d, g, h]))
                .arg(Recurrent::INITIAL_STATE, f32(&[d, n, h]))
                .arg(Recurrent::LAST_STATE, f32(&[d, n, h]));
            if matches!(cell, Cell::Lstm(_)) {
                builder = builder
                    .arg(Recurrent::INITIAL_CELL, f32(&[d, n, h]))
                    .arg(Recurrent::PEEPHOLES, f32(&[d, 3, h]))
                    .arg(Recurrent::LAST_CELL, f32(&[d, n, h]));
            }
            check(&builder.build().unwrap().resolved_row_major());
        }
    }
}

#[test]
fn folds_in_parts() {
    for (src, dst) in [
        (&[300_000][..], &[1][..]),
        (&[70_000, 5], &[1, 5]),
        (&[40, 3000], &[40, 1]),
        (&[7, 9, 700], &[1, 9, 1]),
    ] {
        for algorithm in [ReductionAlgorithm::Mean, ReductionAlgorithm::Max, ReductionAlgorithm::NormL2] {
            let op = Op::Reduction(Reduction::new(algorithm));
            check(&PrimitiveDesc::builder(op).src(f32(src)).dst(f32(dst)).build().unwrap());
        }
    }
}

/// A value that is its channel's mean becomes the shift, to the bit: the difference comes before the factor.
#[test]
fn a_mean_normalizes_to_the_shift() {
    for dims in [vec![1, 17], vec![2, 5, 7, 3], vec![3, 300, 2]] {
        let channels = dims[1];
        let op = BatchNormalization { epsilon: 0.1 };
        let of_channel = || f32(&[channels]);
        let desc = PrimitiveDesc::builder(Op::BatchNormalization(op))
            .src(f32(&dims))
            .arg(Arg::Mean, of_channel())
            .arg(Arg::Variance, of_channel())
            .arg(Arg::Scale, of_channel())
            .arg(Arg::Shift, of_channel());
        let desc = desc.build().unwrap().resolved_row_major();
        let fast = plan(&desc).unwrap();
        let count: usize = dims.iter().product();
        let inner: usize = dims[2..].iter().product();
        let of = |c: usize, factor: f32| 1000.0 + factor * c as f32;
        let mean: Vec<f32> = (0..channels).map(|c| of(c, 0.37)).collect();
        let shift: Vec<f32> = (0..channels).map(|c| of(c, -0.11)).collect();
        let src: Vec<f32> = (0..count).map(|i| mean[i / inner % channels]).collect();
        let (variance, scale) = (vec![0.013_f32; channels], vec![1.7_f32; channels]);
        let mut dst = vec![f32::NAN; count];
        let given: [(Arg, &[f32]); 5] = [
            (Arg::SRC, &src),
            (Arg::Mean, &mean),
            (Arg::Variance, &variance),
            (Arg::Scale, &scale),
            (Arg::Shift, &shift),
        ];
        let inputs = given.map(|(arg, values)| (arg, bytemuck::cast_slice(values)));
        let mut outputs = [(Arg::DST, bytemuck::cast_slice_mut(&mut dst))];
        for &level in Level::available() {
            let crew = Crew::new(2);
            fast.run(&Call::new(level, &crew, &desc, &inputs, &mut outputs).expect("operands of f32"));
        }
        assert!((0..count).all(|i| dst[i] == shift[i / inner % channels]), "{desc}");
    }
}
