//! Fast forms beside the reference, at every level of instructions.

use anydnn_backend::op::{
    BatchNormalization, Binary, Cell, Convolution, Deconvolution, Direction, GateOrder, MatMul, Op,
    Recurrent, Reduction, ReductionAlgorithm, Reorder,
};
use anydnn_backend::{
    Access, Arg, Attributes, BinaryAlgorithm, DataType, Dequantize, Eltwise, MemoryDesc, PostOp,
    PrimitiveDesc, Quantized, Tolerance,
};

mod attention;
mod dots;
mod nodes;
mod pooling;
mod quantizing;

use super::level::Level;
use super::{Call, Crew, plan, resolve};
use crate::compute::{Kind, compute, read_run, write_run};

fn f32(dims: &[usize]) -> MemoryDesc {
    MemoryDesc::new(dims, DataType::F32)
}

/// What computes on bytes by argument.
type Work<'w> = dyn Fn(&[(Arg, &[u8])], &mut [(Arg, &mut [u8])]) + 'w;

/// Compares what a fast form gives with the reference, at every level, on one and on three threads.
fn check(asked: &PrimitiveDesc) {
    let desc = resolve(asked.clone()).resolved_row_major();
    let fast = plan(&desc).unwrap_or_else(|| panic!("{desc} has a fast form"));
    // Bytes of each operand, in numbers so that they are aligned.
    let numbers = |seed: usize, desc: &MemoryDesc| -> Vec<f32> {
        let kind = Kind::of(desc.data_type()).unwrap();
        let mut numbers = vec![0.0_f32; desc.size().div_ceil(4)];
        let span = if desc.data_type().is_float() { 1.0 } else { 60.0 };
        let values: Vec<f32> = (0..desc.size() / (kind.bits() / 8))
            .map(|i| (((i * 7919 + seed * 104_729) % 1013) as f32 / 1013.0 - 0.5) * span)
            .collect();
        write_run(kind, &values, bytemuck::cast_slice_mut(&mut numbers));
        numbers
    };
    let operands: Vec<(Arg, Access, Vec<f32>)> =
        desc.args().iter().enumerate().map(|(i, a)| (a.arg, a.access, numbers(i, &a.desc))).collect();
    let run = |operands: &[(Arg, Access, Vec<f32>)], work: &Work<'_>| -> Vec<Vec<f32>> {
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
    let tolerance = Tolerance::of(&desc);
    let results: Vec<&MemoryDesc> =
        desc.args().iter().filter(|a| a.access != Access::Read).map(|a| &a.desc).collect();
    let wide = |desc: &MemoryDesc, numbers: &[f32]| -> Vec<f64> {
        let kind = Kind::of(desc.data_type()).unwrap();
        let mut values = vec![0.0; desc.size() / (kind.bits() / 8)];
        read_run(kind, bytemuck::cast_slice(numbers), &mut values);
        values
    };
    let compare = |operands: &[(Arg, Access, Vec<f32>)], missing: Option<Arg>| {
        let expected = run(operands, &|inputs, outputs| compute(&desc, inputs, outputs).unwrap());
        for (&level, threads) in Level::available().iter().flat_map(|level| [(level, 1), (level, 3)]) {
            let crew = Crew::new(threads);
            for _ in 0..2 {
                let made = run(operands, &|inputs, outputs| {
                    let given = inputs.iter().copied().filter(|(arg, _)| Some(*arg) != missing);
                    let given: Vec<(Arg, &[u8])> = given.collect();
                    let call = Call::new(level, &crew, &desc, &*fast, &given, outputs);
                    fast.run(&call.expect("operands that fit"));
                });
                for ((result, made), expected) in results.iter().zip(&made).zip(&expected) {
                    let compared = tolerance.compare(&wide(result, made), &wide(result, expected));
                    compared.unwrap_or_else(|error| {
                        panic!("{desc} at {level:?} on {threads} threads without {missing:?}: {error:?}")
                    });
                }
            }
        }
    };
    compare(&operands, None);
    for (arg, _, values) in operands.iter().filter(|(arg, ..)| fast.reads_in_place(*arg)) {
        let mut operands = operands.clone();
        operands.iter_mut().filter(|(other, ..)| *other == Arg::DST).for_each(|dst| dst.2.clone_from(values));
        compare(&operands, Some(*arg));
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
fn operands_in_the_place_of_the_result_are_read_there() {
    for (post_op, is_read) in [
        (PostOp::binary(BinaryAlgorithm::Add, f32(&[29, 70])), true),
        (PostOp::binary(BinaryAlgorithm::Multiply, f32(&[29, 70])), true),
        (PostOp::binary(BinaryAlgorithm::Subtract, f32(&[29, 70])), true),
        (PostOp::binary(BinaryAlgorithm::Add, f32(&[1, 70])), false),
        (PostOp::binary(BinaryAlgorithm::Add, f32(&[1, 1])), false),
    ] {
        let attributes = Attributes::default().with_post_op(post_op);
        let desc = PrimitiveDesc::builder(Op::MatMul(MatMul))
            .src(f32(&[29, 40]))
            .weights(f32(&[40, 70]))
            .dst(f32(&[29, 70]))
            .attributes(attributes)
            .build()
            .unwrap();
        assert_eq!(plan(&desc).unwrap().reads_in_place(Arg::PostOp(0)), is_read, "{desc}");
        check(&desc);
    }
    for algorithm in [BinaryAlgorithm::Subtract, BinaryAlgorithm::Add] {
        for (first, second) in
            [([5, 700], [5, 700]), ([5, 700], [1, 700]), ([5, 700], [5, 1]), ([1, 1], [5, 700])]
        {
            let attributes = Attributes::default()
                .with_post_op(PostOp::Eltwise(Eltwise::Relu))
                .with_post_op(PostOp::binary(BinaryAlgorithm::Multiply, f32(&[5, 700])));
            let desc = PrimitiveDesc::builder(Op::Binary(Binary::new(algorithm)))
                .src(f32(&first))
                .src(f32(&second))
                .dst(f32(&[5, 700]))
                .attributes(attributes)
                .build()
                .unwrap();
            let fast = plan(&desc).unwrap();
            let read = [Arg::Src(0), Arg::Src(1), Arg::PostOp(0)].map(|arg| fast.reads_in_place(arg));
            assert_eq!(read, [first == [5, 700], second == [5, 700], false], "{desc}");
            check(&desc);
        }
    }
}

#[test]
fn steps_behind_products_stay_in_registers() {
    for (m, k, n) in [(1, 30, 70), (29, 64, 33), (40, 9, 160), (6, 20, 3)] {
        let of = |post_ops: Vec<PostOp>| {
            let attributes = post_ops.into_iter().fold(Attributes::default(), Attributes::with_post_op);
            let desc = PrimitiveDesc::builder(Op::MatMul(MatMul))
                .src(f32(&[m, k]))
                .weights(MemoryDesc::any([k, n], DataType::F32))
                .arg(Arg::Bias, f32(&[n]))
                .dst(f32(&[m, n]))
                .attributes(attributes);
            check(&desc.build().unwrap());
        };
        let add = |dims: &[usize]| PostOp::binary(BinaryAlgorithm::Add, f32(dims));
        of(vec![add(&[m, n]), PostOp::Eltwise(Eltwise::Relu)]);
        of(vec![PostOp::binary(BinaryAlgorithm::Multiply, f32(&[1, n])), PostOp::sum(1.0)]);
        of(vec![PostOp::Eltwise(Eltwise::Clamp { min: -0.4, max: 0.7 }), add(&[1, n])]);
        of(vec![PostOp::Eltwise(Eltwise::HardSwish { alpha: 0.3, beta: 0.5 }), add(&[m, n])]);
        // One number behind what has an operand of its own, and before it.
        of(vec![add(&[m, n]), PostOp::binary(BinaryAlgorithm::Multiply, f32(&[1, 1])), add(&[1, n])]);
        of(vec![add(&[1, 1]), PostOp::Eltwise(Eltwise::Relu), add(&[m, n])]);
        of(vec![add(&[1, 1]), PostOp::Eltwise(Eltwise::GeluErf), add(&[m, n])]);
    }
}

fn narrow(dims: &[usize], data_type: DataType) -> MemoryDesc {
    MemoryDesc::new(dims, data_type)
}

/// Dequantised sources and weights, the latter by numbers of each output; `points` says how many of the two have zero points.
fn dequantized(src: DataType, of_outputs: &[usize], points: usize) -> Attributes {
    Attributes::default()
        .with_dequantize(Dequantize {
            operand: Quantized::Src(0),
            scale: Some(f32(&[1])),
            zero_point: (points > 0).then(|| narrow(&[1], src)),
        })
        .with_dequantize(Dequantize {
            operand: Quantized::Weights,
            scale: Some(f32(of_outputs)),
            zero_point: (points > 1).then(|| narrow(of_outputs, DataType::S8)),
        })
        .with_post_op(PostOp::Eltwise(Eltwise::Relu))
}

#[test]
fn narrow_products_are_computed_in_f32() {
    for (m, k, n) in [(1, 300, 70), (29, 64, 33), (50, 40, 16)] {
        let builder = |src: DataType, weights: MemoryDesc, dst: DataType| {
            PrimitiveDesc::builder(Op::MatMul(MatMul))
                .src(narrow(&[m, k], src))
                .weights(weights)
                .dst(narrow(&[m, n], dst))
        };
        for data_type in [DataType::F16, DataType::BF16] {
            let weights = [MemoryDesc::any([k, n], data_type), narrow(&[k, n], data_type)];
            for (weights, dst) in weights.into_iter().zip([data_type, DataType::F32]) {
                let sum = Attributes::default().with_post_op(PostOp::sum(1.0));
                check(
                    &builder(data_type, weights, dst)
                        .arg(Arg::Bias, f32(&[n]))
                        .attributes(sum)
                        .build()
                        .unwrap(),
                );
            }
        }
        for (src, dst) in [(DataType::U8, DataType::F32), (DataType::S8, DataType::U8)] {
            for (open, points) in [(true, 0), (true, 1), (true, 2), (false, 2)] {
                let weights =
                    if open { MemoryDesc::any([k, n], DataType::S8) } else { narrow(&[k, n], DataType::S8) };
                let attributes = dequantized(src, &[1, n], points);
                check(&builder(src, weights, dst).attributes(attributes).build().unwrap());
            }
        }
    }
}

#[test]
fn integers_become_f32_in_reorders() {
    for data_type in [DataType::S32, DataType::S64] {
        // Each element along a row of the result, as a mask that is stretched; transposed; as it is.
        for strides in [[0, 1, 0], [40, 1, 8], [40, 5, 1]] {
            let src = MemoryDesc::with_strides([3, 8, 5], data_type, strides).unwrap();
            let plus = PostOp::binary(BinaryAlgorithm::Add, f32(&[5]));
            for attributes in [Attributes::default(), Attributes::default().with_post_op(plus)] {
                let desc = PrimitiveDesc::builder(Op::Reorder(Reorder)).src(src.clone());
                check(&desc.dst(f32(&[3, 8, 5])).attributes(attributes).build().unwrap());
            }
        }
    }
}

#[test]
fn floats_with_scales_have_no_fast_form() {
    let scale = Dequantize { operand: Quantized::Src(0), scale: Some(f32(&[1, 1])), zero_point: None };
    for addend in [DataType::F32, DataType::BF16] {
        let attributes = Attributes::default()
            .with_dequantize(scale.clone())
            .with_post_op(PostOp::binary(BinaryAlgorithm::Add, narrow(&[3, 5], addend)));
        let desc = PrimitiveDesc::builder(Op::MatMul(MatMul)).src(f32(&[3, 70])).weights(f32(&[70, 5]));
        assert!(plan(&desc.attributes(attributes).build().unwrap()).is_none(), "{addend}");
    }
}

#[test]
fn narrow_convolutions_are_computed_in_f32() {
    for (channels, outputs, groups) in [(16, 40, 1), (3, 32, 1), (64, 64, 2), (24, 24, 24)] {
        for (open, points) in [(true, 0), (true, 1), (true, 2), (false, 2)] {
            let op = Convolution::new(2).with_pads([1, 1], [1, 1]).with_groups(groups);
            let dims = [outputs, channels / groups, 3, 3];
            let weights =
                if open { MemoryDesc::any(dims, DataType::S8) } else { narrow(&dims, DataType::S8) };
            let image = |channels: usize, data_type: DataType| {
                MemoryDesc::with_tag([2, channels, 9, 11], data_type, "acdb").unwrap()
            };
            let src = if points == 0 { DataType::U8 } else { DataType::S8 };
            let desc = PrimitiveDesc::builder(Op::Convolution(op.clone()))
                .src(image(channels, src))
                .weights(weights)
                .arg(Arg::Bias, f32(&[outputs]))
                .dst(image(outputs, DataType::F32))
                .attributes(dequantized(src, &[outputs, 1, 1, 1], points));
            check(&desc.build().unwrap());
            let desc = PrimitiveDesc::builder(Op::Convolution(op))
                .src(image(channels, DataType::BF16))
                .weights(MemoryDesc::any(dims, DataType::BF16))
                .dst(image(outputs, DataType::BF16));
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
        (1, 1, 1, 1, 1, 1),
        (70, 70, 1, 1, 1, 70),
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
fn transposed_convolutions_by_the_phases_of_their_strides() {
    // The result's extents are multiples of the strides, or not; taps reach over its ends, or leave gaps.
    for (size, kernel, stride, dilation, pad, groups) in [
        ([7, 5], 2, 2, 1, 0, 1),
        ([4, 9], 3, 2, 1, 1, 1),
        ([5, 3], 2, 3, 1, 0, 1),
        ([6, 4], 4, 2, 1, 1, 2),
        ([5, 5], 3, 2, 2, 2, 1),
    ] {
        for more in [0, 1] {
            let extent = |size: usize| (size - 1) * stride + dilation * (kernel - 1) + 1 + more - 2 * pad;
            let (src, dst) = ([2, 24, size[0], size[1]], [2, 40, extent(size[0]), extent(size[1])]);
            let op = Deconvolution::new(2)
                .with_strides([stride, stride])
                .with_dilations([dilation, dilation])
                .with_pads([pad, pad], [pad, pad])
                .with_output_padding([more, more])
                .with_groups(groups);
            let desc = PrimitiveDesc::builder(Op::Deconvolution(op))
                .src(image("abcd", &src))
                .weights(MemoryDesc::any([24, 40 / groups, kernel, kernel], DataType::F32))
                .arg(Arg::Bias, f32(&[40]))
                .dst(image("acdb", &dst));
            check(&desc.build().unwrap());
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

/// Sums of many rows and of many neighbours come within four roundings: variances are small differences of such.
#[test]
fn long_sums_are_near() {
    for (src, dst, stride) in [([4096, 70], [1, 70], 70), ([70, 4096], [70, 1], 1)] {
        let op = Op::Reduction(Reduction::new(ReductionAlgorithm::Sum));
        let desc = PrimitiveDesc::builder(op).src(f32(&src)).dst(f32(&dst)).build().unwrap();
        let fast = plan(&desc).unwrap();
        let value = |i: u64| 0.1 + (i * 7919 % 1013) as f32 * 1e-3;
        let values: Vec<f32> = (0..4096 * 70).map(value).collect();
        let mut sums = vec![f32::NAN; 70];
        for &level in Level::available() {
            let inputs = [(Arg::SRC, bytemuck::cast_slice(&values))];
            let mut outputs = [(Arg::DST, bytemuck::cast_slice_mut(&mut sums))];
            let crew = Crew::new(2);
            let call = Call::new(level, &crew, &desc, &*fast, &inputs, &mut outputs);
            fast.run(&call.expect("operands of f32"));
            for (at, &sum) in sums.iter().enumerate() {
                let start = if stride == 1 { at * 4096 } else { at };
                let all = values[start..].iter().step_by(stride).take(4096);
                let exact: f64 = all.map(|&x| f64::from(x)).sum();
                let error = (f64::from(sum) - exact).abs() / exact;
                assert!(error < 4.0 * f64::from(f32::EPSILON), "{src:?} at {at}: {sum}, not {exact}");
            }
        }
    }
}

/// Products of many factors near one would lose the same part in each step: the reference takes them in f64.
#[test]
fn long_products_are_left_to_the_reference() {
    let product = |factors: usize| {
        let op = Op::Reduction(Reduction::new(ReductionAlgorithm::Product));
        plan(&PrimitiveDesc::builder(op).src(f32(&[factors, 3])).dst(f32(&[1, 3])).build().unwrap())
    };
    assert!(product(1 << 12).is_some());
    assert!(product((1 << 12) + 1).is_none());
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
            fast.run(
                &Call::new(level, &crew, &desc, &*fast, &inputs, &mut outputs).expect("operands of f32"),
            );
        }
        assert!((0..count).all(|i| dst[i] == shift[i / inner % channels]), "{desc}");
    }
}
