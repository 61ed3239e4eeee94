//! Elements in other places: concatenations, reorders, remaps, gathers, resamplings.

use super::choices::Choices;
use super::elementwise::ALL;
use super::operand::{FLOATS, Role, finished, operand};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::{
    Border, Concat, Gather, Remap, Reorder, Resampling, ResamplingAlgorithm, ResamplingBackward,
};
use crate::{Arg, DataType, Op, PrimitiveDesc, Result};

/// Types whose elements are whole bytes.
const BYTES: [DataType; 11] = [
    DataType::F32,
    DataType::F16,
    DataType::BF16,
    DataType::F64,
    DataType::S32,
    DataType::S8,
    DataType::U8,
    DataType::S64,
    DataType::Boolean,
    DataType::F8E5M2,
    DataType::F8E4M3,
];

pub(super) fn reorder(choices: &mut Choices) -> Result<Trial> {
    let limit = choices.limits().elements;
    let dims = choices.dims(6, limit);
    let from = choices.data_type(&ALL)?;
    let to = if choices.one_in(2) { choices.data_type(&ALL)? } else { from };
    let src = operand(choices, Role::Source, &dims, from)?;
    let dst = operand(choices, Role::Result, &dims, to)?;
    finished(choices, PrimitiveDesc::builder(Op::Reorder(Reorder)).src(src).dst(dst))
}

pub(super) fn concat(choices: &mut Choices) -> Result<Trial> {
    let rank = 1 + choices.below(5);
    let count = 1 + choices.choose(12, |random| [0, 1, 1, 1, 2, 3, 5, 11][random.below(8) as usize]) as usize;
    let limit = choices.limits().elements / count;
    let dims = choices.sizes(rank, limit);
    let axis = rank - 1 - choices.below(rank);
    let own = choices.data_type(&ALL)?;
    let to = if choices.one_in(5) { choices.data_type(&ALL)? } else { own };
    let mut builder = PrimitiveDesc::builder(Op::Concat(Concat::new(axis)));
    for i in 0..count {
        let mut part = dims.clone();
        if i > 0 {
            part[axis] = choices.size(dims[axis].max(4));
        }
        builder = builder.src(operand(choices, Role::Source, &part, own)?);
    }
    let result = builder.clone().build()?.dst().dims().clone();
    let dst = operand(choices, Role::Result, &result, to)?;
    finished(choices, builder.dst(dst))
}

pub(super) fn remap(choices: &mut Choices) -> Result<Trial> {
    let rank = 1 + choices.below(5);
    let limits = choices.limits();
    let dims = choices.sizes(rank, limits.elements);
    let result = choices.sizes(rank, limits.elements);
    let border = choices.pick(&[Border::Fill, Border::Edge, Border::Reflect, Border::Wrap])?;
    let mut op = Remap::new(result.clone(), border);
    for (axis, &extent) in dims.iter().enumerate() {
        let start = choices.choose(3, |random| [0, 0, 1, 2][random.below(4) as usize]);
        let start = match start {
            0 => 0,
            1 => choices.below(extent) as i64,
            _ => -(choices.below(extent + 3) as i64),
        };
        let step = choices.pick_often_first(&[1, -1, 2, 0, -3])?;
        op = op.with_axis(axis, start, step);
    }
    let own = choices.data_type(&BYTES)?;
    let src = operand(choices, Role::Source, &dims, own)?;
    let mut builder = PrimitiveDesc::builder(Op::Remap(op)).src(src);
    if border == Border::Fill && choices.one_in(2) {
        builder = builder.src(crate::MemoryDesc::new([1], own));
    }
    let dst = operand(choices, Role::Result, &result, own)?;
    finished(choices, builder.dst(dst))
}

pub(super) fn gather(choices: &mut Choices) -> Result<Trial> {
    let limits = choices.limits();
    let rank = 1 + choices.below(4);
    let dims = choices.sizes(rank, limits.elements);
    let (op, indices, extent) = match choices.below(3) {
        0 => {
            let axis = choices.below(rank);
            let others = dims.iter().product::<usize>() / dims[axis];
            let index_rank = [1, 2, 0][choices.below(3)];
            let indices = choices.sizes(index_rank, (limits.elements / others).max(1));
            (Gather::Axis(axis), indices, dims[axis])
        }
        1 => {
            let axis = choices.below(rank);
            let others = dims.iter().product::<usize>() / dims[axis];
            let most = (limits.elements / others).clamp(1, 64);
            let mut indices = dims.clone();
            for (i, extent) in indices.iter_mut().enumerate() {
                let other = choices.one_in(2);
                if other {
                    *extent = choices.size(if i == axis { most } else { *extent });
                }
            }
            (Gather::Elements(axis), indices, dims[axis])
        }
        _ => {
            let batch = choices.below(rank);
            let count = 1 + choices.below(rank - batch);
            let chosen: usize = dims[batch..batch + count].iter().product();
            let others = dims.iter().product::<usize>() / chosen;
            let list_rank = choices.below(3);
            let lists = choices.sizes(list_rank, (limits.elements / others).max(1));
            let extent = dims[batch..batch + count].iter().copied().min().unwrap_or(1);
            (Gather::Lists(batch), [&dims[..batch], &lists, &[count]].concat(), extent)
        }
    };
    let own = choices.data_type(&BYTES)?;
    let src = operand(choices, Role::Source, &dims, own)?;
    let index_type = choices.pick(&[DataType::S32, DataType::S64])?;
    let indices = operand(choices, Role::Source, &indices, index_type)?;
    let result = op.result(src.dims(), indices.dims())?;
    let dst = operand(choices, Role::Result, &result, own)?;
    let builder = PrimitiveDesc::builder(Op::Gather(op)).src(src).src(indices).dst(dst);
    let extent = extent as i64;
    // Some count from the end, and some are outside.
    Ok(finished(choices, builder)?.values(Arg::Src(1), Values::Integers(-extent - 1, extent)))
}

pub(super) fn resampling(choices: &mut Choices) -> Result<Trial> {
    let (op, dims, result) = resampled(choices)?;
    let from = choices.data_type(&[&FLOATS[..], &[DataType::U8, DataType::S8, DataType::S32]].concat())?;
    let to = if from.is_float() { choices.data_type(&[from, DataType::F32])? } else { from };
    let src = operand(choices, Role::Source, &dims, from)?;
    let dst = operand(choices, Role::Result, &result, to)?;
    finished(choices, PrimitiveDesc::builder(Op::Resampling(op)).src(src).dst(dst))
}

pub(super) fn resampling_backward(choices: &mut Choices) -> Result<Trial> {
    let (op, dims, result) = resampled(choices)?;
    let own = choices.data_type(&FLOATS)?;
    let src = operand(choices, Role::Source, &result, own)?;
    let dst = operand(choices, Role::Result, &dims, own)?;
    let op = Op::ResamplingBackward(ResamplingBackward::new(op));
    finished(choices, PrimitiveDesc::builder(op).src(src).dst(dst))
}

/// A resampling with the dimensions of its source and result.
fn resampled(choices: &mut Choices) -> Result<(Resampling, Vec<usize>, Vec<usize>)> {
    let algorithm = choices.pick(&[ResamplingAlgorithm::Nearest, ResamplingAlgorithm::Linear])?;
    let op = Resampling::new(algorithm).with_align_corners(choices.one_in(3));
    let spatial = 1 + choices.below(3);
    let limit = choices.limits().elements;
    let extent = [4096, 400, 60][spatial - 1];
    let most: Vec<usize> = [16, 512].into_iter().chain(std::iter::repeat_n(extent, 2 * spatial)).collect();
    let sizes = choices.sizes_where(&most, |s| {
        let channels = s[0] * s[1];
        let of = |spatial: &[usize]| spatial.iter().product::<usize>().saturating_mul(channels);
        of(&s[2..2 + spatial]) <= limit && of(&s[2 + spatial..]) <= limit
    });
    let dims = sizes[..2 + spatial].to_vec();
    let result = [&sizes[..2], &sizes[2 + spatial..]].concat();
    Ok((op, dims, result))
}
