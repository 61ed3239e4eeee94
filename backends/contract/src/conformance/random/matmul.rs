//! Products: plain, gated, of integers, dequantised.

use super::choices::{Choices, Lean};
use super::operand::{
    FLOATS, FUNCTIONS, Quantization, Role, broadcasting, operand, placed, post_ops, product_modes,
};
use crate::conformance::trial::Trial;
use crate::conformance::values::{Random, Values};
use crate::op::{BinaryAlgorithm, GatedMatMul, GroupedMatMul, MatMul};
use crate::{Arg, Attributes, DataType, Eltwise, MemoryDesc, Op, PrimitiveDesc, Quantized, Result};

/// The types of a product's operands and result, and which operands are dequantised.
#[derive(Clone, Copy, Debug)]
pub(super) struct Types {
    pub(super) src: DataType,
    pub(super) weights: DataType,
    pub(super) dst: DataType,
    pub(super) dequantized: [bool; 2],
}

impl Types {
    pub(super) fn draw(choices: &mut Choices) -> Result<Self> {
        use DataType::{BF16, F4E2M1, F8E4M3, F8E5M2, F16, F32, S4, S8, S32, U4, U8};
        let same = |one| Self { src: one, weights: one, dst: one, dequantized: [false; 2] };
        Ok(
            match choices.pick_often_first(&["same", "other_result", "integers", "weights", "both", "f8"])? {
                "same" => same(choices.data_type(&FLOATS)?),
                "other_result" => {
                    let own = choices.data_type(&[F16, BF16, F32])?;
                    let dst = choices.data_type(&[F32, F16, BF16])?;
                    Self { dst, ..same(own) }
                }
                "integers" => {
                    let src = choices.data_type(&[S8, U8])?;
                    let dst = choices.data_type(&[S32, F32, S8, U8])?;
                    Self { src, weights: S8, dst, dequantized: [false; 2] }
                }
                "weights" => {
                    let src = choices.data_type(&[F32, F16, BF16])?;
                    let weights = choices.data_type(&[S8, U8, S4, U4, F8E4M3, F8E5M2, F4E2M1])?;
                    Self { src, weights, dst: src, dequantized: [false, true] }
                }
                "both" => {
                    let src = choices.data_type(&[S8, U8])?;
                    let weights = choices.data_type(&[S8, U8, S4])?;
                    let dst = choices.data_type(&[F32, F16, BF16, S8, U8])?;
                    Self { src, weights, dst, dequantized: [true; 2] }
                }
                _ => {
                    let own = choices.data_type(&[F8E4M3, F8E5M2, F4E2M1])?;
                    let dst = choices.data_type(&[F32, F16, BF16])?;
                    Self { dst, ..same(own) }
                }
            },
        )
    }

    /// Operands that are dequantised, and values that make sums of `terms` products small.
    pub(super) fn quantization(
        &self,
        choices: &mut Choices,
        src: &MemoryDesc,
        weights: &[(Quantized, &MemoryDesc)],
        terms: usize,
    ) -> Result<Quantization> {
        let mut quantization = Quantization::default();
        let small = 2.0 / (terms.max(1) as f64).sqrt();
        if self.dequantized[0] {
            quantization.add(choices, Quantized::Src(0), src, 2.0)?;
        }
        for &(operand, desc) in weights {
            if self.dequantized[1] {
                quantization.add(choices, operand, desc, small)?;
            } else if self.weights.is_float() {
                quantization.values.push((operand.arg(), Values::Uniform(-small, small)));
            }
        }
        Ok(quantization)
    }

    /// The type of a bias.
    pub(super) fn bias(&self, choices: &mut Choices) -> Result<DataType> {
        let own = if self.src.is_float() && self.src.bits() > 8 { self.src } else { DataType::S32 };
        choices.pick_often_first(&[DataType::F32, own])
    }
}

pub(super) fn matmul(choices: &mut Choices) -> Result<Trial> {
    let (left, right) = factors(choices);
    let types = Types::draw(choices)?;
    let src = operand(choices, Role::Source, &left, types.src)?;
    let weights = operand(choices, Role::Weights, &right, types.weights)?;
    let builder = PrimitiveDesc::builder(Op::MatMul(MatMul)).src(src.clone()).weights(weights.clone());
    let result = builder.clone().build()?.dst().dims().clone();
    let dst = operand(choices, Role::Result, &result, types.dst)?;
    let bias = match choices.below(3) {
        0 => None,
        shape => {
            let dims =
                if shape == 1 { result[result.len() - 1..].to_vec() } else { broadcasting(choices, &result) };
            let own = types.bias(choices)?;
            Some(operand(choices, Role::Side, &dims, own)?)
        }
    };
    let terms = left[left.len() - 1];
    let quantization = types.quantization(choices, &src, &[(Quantized::Weights, &weights)], terms)?;
    let attributes = Attributes { dequantize: quantization.list, ..Attributes::default() };
    let attributes = post_ops(choices, attributes, &dst)?;
    let attributes = product_modes(choices, attributes)?;
    let builder = bias.into_iter().fold(builder.dst(dst), crate::PrimitiveDescBuilder::bias);
    let trial = Trial::of(builder.attributes(attributes))?;
    placed(
        choices,
        quantization.values.into_iter().fold(trial, |trial, (arg, values)| trial.values(arg, values)),
    )
}

/// What joins a product and its gate: a quotient would be of any size.
const JOINS: [BinaryAlgorithm; 4] =
    [BinaryAlgorithm::Multiply, BinaryAlgorithm::Add, BinaryAlgorithm::Subtract, BinaryAlgorithm::Maximum];

pub(super) fn gated(choices: &mut Choices) -> Result<Trial> {
    let (left, right) = factors(choices);
    let types = Types::draw(choices)?;
    let activation = choices.pick(&[&[Eltwise::Swish { alpha: 1.0 }][..], &FUNCTIONS].concat())?;
    let src = operand(choices, Role::Source, &left, types.src)?;
    let up = operand(choices, Role::Weights, &right, types.weights)?;
    let gate = operand(choices, Role::Weights, &right, types.weights)?;
    let builder = |op| {
        let builder = PrimitiveDesc::builder(Op::GatedMatMul(op));
        builder.src(src.clone()).src(gate.clone()).weights(up.clone())
    };
    let op = GatedMatMul::new(activation);
    let result = builder(op).build()?.dst().dims().clone();
    let dst = operand(choices, Role::Result, &result, types.dst)?;
    let both = [(Quantized::Weights, &up), (Quantized::Src(1), &gate)];
    let quantization = types.quantization(choices, &src, &both, left[left.len() - 1])?;
    let attributes = Attributes { dequantize: quantization.list, ..Attributes::default() };
    let attributes = post_ops(choices, attributes, &dst)?;
    let attributes = product_modes(choices, attributes)?;
    let op = op.with_join(choices.pick_often_first(&JOINS)?);
    let trial = Trial::of(builder(op).dst(dst).attributes(attributes))?;
    placed(
        choices,
        quantization.values.into_iter().fold(trial, |trial, (arg, values)| trial.values(arg, values)),
    )
}

pub(super) fn grouped(choices: &mut Choices) -> Result<Trial> {
    let limits = choices.limits();
    let op = choices.pick(&[GroupedMatMul::Rows, GroupedMatMul::Terms])?;
    let sizes = choices.sizes_where(&[64, 2048, 2048, 2048], |s| {
        let (g, m, k, n) = (s[0], s[1], s[2], s[3]);
        let largest = if op == GroupedMatMul::Rows { g * k * n } else { g * m * n };
        m * k * n <= limits.work && [m * k, k * n, m * n, largest].iter().all(|&own| own <= limits.elements)
    });
    let (groups, m, k, n) = (sizes[0], sizes[1], sizes[2], sizes[3]);
    let types = Types::draw(choices)?;
    let src = operand(choices, Role::Source, &[m, k], types.src)?;
    let right = if op == GroupedMatMul::Rows { vec![groups, k, n] } else { vec![k, n] };
    let weights = operand(choices, Role::Weights, &right, types.weights)?;
    let ends = operand(choices, Role::Side, &[groups], DataType::S32)?;
    let builder = PrimitiveDesc::builder(Op::GroupedMatMul(op));
    let builder = builder.src(src.clone()).src(ends).weights(weights.clone());
    let result = builder.clone().build()?.dst().dims().clone();
    let dst = operand(choices, Role::Result, &result, types.dst)?;
    let mut builder = builder.dst(dst.clone());
    if op == GroupedMatMul::Rows && choices.one_in(2) {
        let own = types.bias(choices)?;
        builder = builder.src(operand(choices, Role::Side, &[groups, n], own)?);
    }
    let quantization = types.quantization(choices, &src, &[(Quantized::Weights, &weights)], k)?;
    let attributes = Attributes { dequantize: quantization.list, ..Attributes::default() };
    let attributes = post_ops(choices, attributes, &dst)?;
    let extent = if op == GroupedMatMul::Rows { m } else { k } as u64;
    let trial = Trial::of(builder.attributes(attributes))?;
    // Mostly in order; at times anything, also what is not on the axis.
    let mut random = Random::new(choices.below(1 << 16) as u64);
    let mut list: Vec<f64> = (0..groups).map(|_| random.below(extent + 1) as f64).collect();
    if choices.one_in(4) {
        for end in &mut list {
            *end -= 2.0;
        }
        list[0] = extent as f64 + 3.0;
    } else {
        list.sort_by(f64::total_cmp);
    }
    let trial = trial.values(Arg::Src(1), Values::Listed(list));
    placed(
        choices,
        quantization.values.into_iter().fold(trial, |trial, (arg, values)| trial.values(arg, values)),
    )
}

/// `[.., M, K]` and `[.., K, N]`, at times with batches that broadcast.
fn factors(choices: &mut Choices) -> (Vec<usize>, Vec<usize>) {
    let limits = choices.limits();
    // A large factor is worth more than many of them.
    let elements = limits.elements.saturating_mul(4);
    // Vectors and thin matrices have kernels of their own.
    let leans = match choices.hint(8) {
        0 | 1 => [Lean::Few, Lean::Many, Lean::Many],
        2 => [Lean::Many, Lean::Many, Lean::Few],
        3 => [Lean::Many, Lean::Few, Lean::Many],
        4 => [Lean::Many; 3],
        _ => [Lean::Any; 3],
    };
    let sizes = choices.sizes_leaning(&leans.map(|lean| (8192, lean)), |s| {
        s[0] * s[1] * s[2] <= limits.work
            && [s[0] * s[1], s[1] * s[2], s[0] * s[2]].iter().all(|&own| own <= elements)
    });
    let (m, k, n) = (sizes[0], sizes[1], sizes[2]);
    let most = [m * k, k * n, m * n].into_iter().max().unwrap_or(1);
    // As many choices whatever the rank, so that what follows keeps its place.
    let count = choices.choose(3, |random| [0, 0, 0, 1, 1, 2][random.below(6) as usize]) as usize;
    let batches = choices.sizes_where(&[64; 2], |batches| {
        let all: usize = batches.iter().product();
        all * m * k * n <= limits.work && all * most <= elements
    });
    let stretched = |choices: &mut Choices| -> Vec<usize> {
        batches.iter().map(|&extent| if choices.one_in(3) { 1 } else { extent }).collect()
    };
    let (mut left, mut right) = (stretched(choices), stretched(choices));
    left.truncate(count);
    right.truncate(count);
    ([&left[..], &[m, k]].concat(), [&right[..], &[k, n]].concat())
}
