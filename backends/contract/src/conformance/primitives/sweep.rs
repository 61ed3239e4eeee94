//! Pseudo-random shapes, layouts, types and attributes; the same on every run.

use super::convolution::convolution;
use super::matmul::matmul;
use super::{Trials, dense, gapped, tagged};
use crate::conformance::trial::Trial;
use crate::conformance::values::Random;
use crate::op::{Binary, Convolution, Pooling, PoolingAlgorithm, Reduction, ReductionAlgorithm, Softmax};
use crate::{Attributes, BinaryAlgorithm, DataType, Eltwise, MemoryDesc, Op, PostOp, PrimitiveDesc, Result};

pub(super) fn trials(list: &mut Trials) {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        list.add(format!("sweep/matmul/{seed}"), || random_matmul(&mut random));
        list.add(format!("sweep/convolution/{seed}"), || random_convolution(&mut random));
        list.add(format!("sweep/binary/{seed}"), || random_binary(&mut random));
    }
    for seed in 100..130 {
        let mut random = Random::new(seed);
        list.add(format!("sweep/pooling/{seed}"), || random_pooling(&mut random));
        list.add(format!("sweep/reduction/{seed}"), || random_reduction(&mut random));
        list.add(format!("sweep/softmax/{seed}"), || random_softmax(&mut random));
        list.add(format!("sweep/reorder/{seed}"), || random_reorder(&mut random));
    }
}

fn random_matmul(random: &mut Random) -> Result<Trial> {
    let data_type = float(random);
    let (m, k, n) = (size(random, 40), size(random, 70), size(random, 40));
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for _ in 0..random.below(3) {
        let batch = size(random, 3);
        left.push(if random.below(3) == 0 { 1 } else { batch });
        right.push(if random.below(3) == 0 { 1 } else { batch });
    }
    let batch: Vec<usize> = left.iter().zip(&right).map(|(&a, &b)| a.max(b)).collect();
    let (left, right) = ([&left[..], &[m, k]].concat(), [&right[..], &[k, n]].concat());
    let result = [&batch[..], &[m, n]].concat();
    let builder = matmul(layout(random, &left, data_type)?, layout(random, &right, data_type)?, data_type);
    let builder = if random.below(2) == 0 { builder.bias(dense(&[n], data_type)) } else { builder };
    Trial::of(builder.attributes(attributes(random, &result, data_type)))
}

fn random_convolution(random: &mut Random) -> Result<Trial> {
    let data_type = float(random);
    let spatial = 1 + random.below(3) as usize;
    let groups = size(random, 3);
    let (inputs, outputs) = (groups * size(random, 4), groups * size(random, 5));
    let mut src = vec![size(random, 2), inputs];
    let mut weights = vec![outputs, inputs / groups];
    let (mut strides, mut dilations, mut begin, mut end) = (vec![], vec![], vec![], vec![]);
    for _ in 0..spatial {
        let (kernel, dilation) = (size(random, 3), size(random, 2));
        src.push((kernel - 1) * dilation + size(random, if spatial == 3 { 3 } else { 7 }));
        weights.push(kernel);
        strides.push(size(random, 3));
        dilations.push(dilation);
        begin.push(random.below(3) as usize);
        end.push(random.below(3) as usize);
    }
    let mut op = Convolution::new(spatial).with_strides(strides).with_pads(begin, end).with_groups(groups);
    op.dilations = dilations.into();
    let (src, weights) = (layout(random, &src, data_type)?, layout(random, &weights, data_type)?);
    let builder = convolution(op, src, weights, data_type);
    let result = builder.clone().build()?.dst().dims().clone();
    Trial::of(builder.bias(dense(&[outputs], data_type)).attributes(attributes(random, &result, data_type)))
}

fn random_binary(random: &mut Random) -> Result<Trial> {
    let data_type = float(random);
    let dims = dims(random);
    let stretched = |random: &mut Random| -> Vec<usize> {
        let some: Vec<usize> = dims.iter().map(|&d| if random.below(4) == 0 { 1 } else { d }).collect();
        let skipped = if random.below(3) == 0 { random.below(dims.len() as u64) as usize } else { 0 };
        some[skipped..].to_vec()
    };
    let (left, right) = (stretched(random), stretched(random));
    let (left, right) = (layout(random, &left, data_type)?, layout(random, &right, data_type)?);
    let choices = [
        BinaryAlgorithm::Add,
        BinaryAlgorithm::Subtract,
        BinaryAlgorithm::Multiply,
        BinaryAlgorithm::Maximum,
        BinaryAlgorithm::SquaredDifference,
    ];
    let algorithm = *random.pick(&choices).unwrap_or(&BinaryAlgorithm::Add);
    let result = left.dims().broadcast(right.dims())?;
    let dst = layout(random, &result, data_type)?;
    let builder = PrimitiveDesc::builder(Op::Binary(Binary::new(algorithm))).src(left).src(right).dst(dst);
    Trial::of(builder.attributes(attributes(random, &result, data_type)))
}

fn random_pooling(random: &mut Random) -> Result<Trial> {
    let data_type = float(random);
    let spatial = 1 + random.below(3) as usize;
    let mut src = vec![size(random, 2), size(random, 6)];
    let (mut kernel, mut strides, mut begin, mut end) = (vec![], vec![], vec![], vec![]);
    for _ in 0..spatial {
        let window = 1 + size(random, 2);
        src.push(window + size(random, 5));
        kernel.push(window);
        strides.push(size(random, 2));
        // Less padding than window: every window sees an element.
        begin.push(random.below(window as u64) as usize);
        end.push(random.below(window as u64) as usize);
    }
    let choices = [
        PoolingAlgorithm::Max,
        PoolingAlgorithm::AverageExcludePadding,
        PoolingAlgorithm::AverageIncludePadding,
    ];
    let algorithm = *random.pick(&choices).unwrap_or(&PoolingAlgorithm::Max);
    let op = Pooling::new(algorithm, kernel)
        .with_strides(strides)
        .with_pads(begin, end)
        .with_ceil(random.below(2) == 0);
    let builder = PrimitiveDesc::builder(Op::Pooling(op)).src(layout(random, &src, data_type)?);
    let dst = builder.clone().build()?.dst().dims().clone();
    Trial::of(builder.dst(layout(random, &dst, data_type)?))
}

fn random_reduction(random: &mut Random) -> Result<Trial> {
    let data_type = float(random);
    let from = dims(random);
    let to: Vec<usize> = from.iter().map(|&d| if random.below(2) == 0 { 1 } else { d }).collect();
    let choices: Vec<ReductionAlgorithm> =
        ReductionAlgorithm::ALL.into_iter().filter(|a| *a != ReductionAlgorithm::Product).collect();
    let algorithm = *random.pick(&choices).unwrap_or(&ReductionAlgorithm::Sum);
    let builder = PrimitiveDesc::builder(Op::Reduction(Reduction::new(algorithm)))
        .src(layout(random, &from, data_type)?)
        .dst(layout(random, &to, data_type)?);
    Trial::of(builder.attributes(attributes(random, &to, data_type)))
}

fn random_softmax(random: &mut Random) -> Result<Trial> {
    let data_type = float(random);
    let dims = dims(random);
    let axis = random.below(dims.len() as u64) as usize;
    let op = if random.below(2) == 0 { Softmax::new(axis) } else { Softmax::log(axis) };
    let builder = PrimitiveDesc::builder(Op::Softmax(op))
        .src(layout(random, &dims, data_type)?)
        .dst(layout(random, &dims, data_type)?);
    Trial::of(builder)
}

fn random_reorder(random: &mut Random) -> Result<Trial> {
    let types = [DataType::F32, DataType::F16, DataType::BF16, DataType::S32, DataType::S8, DataType::U8];
    let from = *random.pick(&types).unwrap_or(&DataType::F32);
    let to = *random.pick(&types).unwrap_or(&DataType::F32);
    let dims = dims(random);
    let builder =
        PrimitiveDesc::builder(Op::Reorder).src(layout(random, &dims, from)?).dst(layout(random, &dims, to)?);
    Ok(Trial::of(builder)?.exact())
}

fn float(random: &mut Random) -> DataType {
    let types = [DataType::F32, DataType::F32, DataType::F16, DataType::BF16];
    *random.pick(&types).unwrap_or(&DataType::F32)
}

/// From one to `limit`.
fn size(random: &mut Random, limit: usize) -> usize {
    1 + random.below(limit as u64) as usize
}

fn dims(random: &mut Random) -> Vec<usize> {
    (0..size(random, 5)).map(|_| size(random, 7)).collect()
}

/// Some layout: dense, with gaps, permuted, or blocked in the second dimension.
fn layout(random: &mut Random, dims: &[usize], data_type: DataType) -> Result<MemoryDesc> {
    match random.below(5) {
        0 => gapped(dims, data_type, size(random, 4), random.below(5) as usize),
        1 | 2 => {
            let mut order: Vec<usize> = (0..dims.len()).collect();
            for i in (1..order.len()).rev() {
                order.swap(i, random.below(i as u64 + 1) as usize);
            }
            let mut stored = vec![0; dims.len()];
            for (to, &from) in order.iter().enumerate() {
                stored[from] = dims[to];
            }
            dense(&stored, data_type).permuted(&order)
        }
        3 if dims.len() >= 2 => {
            let tail: String = ('c'..='z').take(dims.len() - 2).collect();
            tagged(dims, data_type, &format!("aB{tail}4b"))
        }
        _ => Ok(dense(dims, data_type)),
    }
}

/// Up to three post-operations.
fn attributes(random: &mut Random, result: &[usize], data_type: DataType) -> Attributes {
    (0..random.below(4)).fold(Attributes::default(), |attributes, _| {
        let post_op = match random.below(4) {
            0 => PostOp::Eltwise(Eltwise::LeakyRelu { alpha: 0.25 }),
            1 => PostOp::Eltwise(Eltwise::Tanh),
            2 => {
                let operand: Vec<usize> =
                    result.iter().map(|&d| if random.below(2) == 0 { 1 } else { d }).collect();
                PostOp::Binary {
                    algorithm: BinaryAlgorithm::Subtract,
                    operand: dense(&operand, data_type),
                    reversed: random.below(2) == 0,
                }
            }
            _ => PostOp::sum(0.5),
        };
        attributes.with_post_op(post_op)
    })
}
