//! Every operation against the reference.

mod attention;
mod binary;
mod concat;
mod convolution;
mod dequantize;
mod eltwise;
mod expression;
mod gradients;
mod grouped;
mod local_response;
mod matmul;
mod movement;
mod normalization;
mod pooling;
mod post_ops;
mod recurrent;
mod recurrent_quantized;
mod recurrent_training;
mod reduction;
mod reorder;
mod resampling;
mod select;
mod softmax;
mod standard;
mod sweep;

use smallvec::SmallVec;

use super::trial::Trial;
use super::{Case, Failure, Level};
use crate::{Backend, Blocking, DataType, Dims, Layout, MemoryDesc, Result};

pub(super) fn cases<B: Backend>(level: Level) -> Vec<Case<B>> {
    let mut trials = Trials { level, list: Vec::new() };
    operations(&mut trials);
    sweep::regression_trials(&mut trials);
    if level == Level::Thorough {
        sweep::trials(&mut trials);
    }
    let case = |(name, trial): (String, Result<Trial>)| {
        Case::new(name, move |subject| match &trial {
            Ok(trial) => trial.run(subject),
            Err(error) => Err(Failure::from(error.clone()).at("the description does not build")),
        })
    };
    trials.list.into_iter().map(case).collect()
}

/// The trials of every operation, apart from random ones.
fn operations(trials: &mut Trials) {
    eltwise::trials(trials);
    binary::trials(trials);
    select::trials(trials);
    matmul::trials(trials);
    convolution::trials(trials);
    pooling::trials(trials);
    gradients::trials(trials);
    resampling::trials(trials);
    softmax::trials(trials);
    normalization::trials(trials);
    local_response::trials(trials);
    reduction::trials(trials);
    concat::trials(trials);
    movement::trials(trials);
    reorder::trials(trials);
    post_ops::trials(trials);
    expression::trials(trials);
    dequantize::trials(trials);
    grouped::trials(trials);
    attention::trials(trials);
    recurrent::trials(trials);
    recurrent_quantized::trials(trials);
    recurrent_training::trials(trials);
}

/// Collects trials under names.
struct Trials {
    level: Level,
    list: Vec<(String, Result<Trial>)>,
}

impl Trials {
    fn add(&mut self, name: impl Into<String>, make: impl FnOnce() -> Result<Trial>) {
        let name = name.into();
        if self.is_thorough() || standard::is_standard(&name) {
            self.list.push((name, make()));
        }
    }

    fn is_thorough(&self) -> bool {
        self.level == Level::Thorough
    }
}

fn dense(dims: &[usize], data_type: DataType) -> MemoryDesc {
    MemoryDesc::new(dims, data_type)
}

fn f32(dims: &[usize]) -> MemoryDesc {
    dense(dims, DataType::F32)
}

fn tagged(dims: &[usize], data_type: DataType, tag: &str) -> Result<MemoryDesc> {
    MemoryDesc::with_tag(dims, data_type, tag)
}

/// Strides in elements, with elements before the first.
fn strided(dims: &[usize], data_type: DataType, strides: &[usize], offset: usize) -> Result<MemoryDesc> {
    let layout = Layout::Blocked(Blocking { strides: Dims::new(strides), inner: SmallVec::new(), offset });
    MemoryDesc::with_layout(dims, data_type, layout)
}

/// The matrices of a row-major tensor stored transposed.
fn transposed(dims: &[usize], data_type: DataType) -> Result<MemoryDesc> {
    let mut order: Vec<usize> = (0..dims.len()).collect();
    order.swap(dims.len() - 2, dims.len() - 1);
    let stored: Vec<usize> = order.iter().map(|&axis| dims[axis]).collect();
    dense(&stored, data_type).permuted(&order)
}

/// A row-major tensor with a gap behind every innermost row, and elements before the first.
fn gapped(dims: &[usize], data_type: DataType, gap: usize, offset: usize) -> Result<MemoryDesc> {
    let mut stored = dims.to_vec();
    if let Some(last) = stored.last_mut() {
        *last += gap;
    }
    let strides = Dims::new(&stored).row_major_strides();
    strided(dims, data_type, &strides, offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thorough_level_has_what_the_standard_one_leaves_out() {
        let mut trials = Trials { level: Level::Thorough, list: Vec::new() };
        operations(&mut trials);
        for name in standard::LEFT_OUT {
            assert!(trials.list.iter().any(|(other, _)| other == name), "{name} does not exist");
        }
    }
}
