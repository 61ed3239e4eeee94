//! Convolutions, their gradients, and poolings with theirs.

use super::choices::Choices;
use super::matmul::Types;
use super::operand::{FLOATS, Role, finished, image, operand, placed, post_ops, product_modes};
use crate::conformance::trial::Trial;
use crate::conformance::values::{Random, Values};
use crate::op::{Convolution, ConvolutionWeights, Deconvolution, Pooling, PoolingAlgorithm, PoolingBackward};
use crate::{Arg, Attributes, DataType, Dims, Op, PrimitiveDesc, PrimitiveDescBuilder, Quantized, Result};

/// Paddings are below as much and below the window's reach.
const MOST_PAD: usize = 12;
const MOST_DILATION: usize = 3;
/// Windows with more taps are dense.
const WIDEST_DILATED: usize = 5;

/// A window with the tensor that it slides over.
#[derive(Debug)]
struct Window {
    batch: usize,
    groups: usize,
    /// Channels of one group on both sides.
    inputs: usize,
    outputs: usize,
    /// The extents of what it slides over, without padding.
    spatial: Vec<usize>,
    kernel: Vec<usize>,
    strides: Vec<usize>,
    dilations: Vec<usize>,
    begin: Vec<usize>,
    end: Vec<usize>,
}

impl Window {
    /// With channels on both sides, or the same ones.
    fn draw(choices: &mut Choices, both: bool) -> Self {
        let limits = choices.limits();
        let rank = choices.choose(3, |random| [1, 1, 1, 0, 2][random.below(5) as usize]);
        let rank = rank as usize + 1;
        // As many choices whatever the rank, so that what follows keeps its place.
        let drawn = |random: &mut Random| [0, 0, 2, 2, 2, 1, 3, 4, 6, 10][random.below(10) as usize];
        let mut kernel: Vec<usize> = (0..3).map(|_| 1 + choices.choose(11, drawn) as usize).collect();
        kernel.truncate(rank);
        if rank == 3 {
            kernel = kernel.into_iter().map(|size| size.min(5)).collect();
        }
        let taps: usize = kernel.iter().product();
        let extent = |axis: usize| match rank {
            1 if axis == 0 => 8192,
            _ if axis < rank => 600,
            _ => 1,
        };
        let most = [64, 2048, if both { 2048 } else { 1 }, extent(0), extent(1), extent(2)];
        // What it slides over becomes as large as the window reaches, which its dilation decides later.
        let least = |axis: usize| match kernel.get(axis) {
            Some(&taps) if taps > WIDEST_DILATED => taps,
            Some(&taps) => (taps - 1) * MOST_DILATION + 1,
            None => 1,
        };
        let sizes = choices.sizes_where(&most, |s| {
            let spatial = s[3..].iter().enumerate().map(|(axis, &size)| size.max(least(axis)));
            let places: usize = spatial.fold(s[0], usize::saturating_mul);
            let product = places.saturating_mul(s[1]).saturating_mul(s[2]).saturating_mul(taps);
            product <= limits.work
                && places.saturating_mul(s[1].max(s[2])) <= limits.elements
                && s[1] * s[2] * taps <= limits.elements
        });
        let (batch, mut inputs, mut outputs) = (sizes[0], sizes[1], sizes[2]);
        let mut groups = 1;
        if both && choices.one_in(4) {
            // The channels are parted, down to one for each group.
            groups = choices.divisor(inputs);
            inputs /= groups;
            outputs = outputs.div_ceil(groups);
        }
        let mut window = Self {
            batch,
            groups,
            inputs,
            outputs,
            spatial: sizes[3..3 + rank].to_vec(),
            kernel,
            strides: vec![1; rank],
            dilations: vec![1; rank],
            begin: vec![0; rank],
            end: vec![0; rank],
        };
        for axis in 0..3 {
            let stride = |random: &mut Random| [0, 0, 0, 1, 1, 2, 3][random.below(7) as usize];
            let dilation = |random: &mut Random| [0, 0, 0, 0, 1, 2][random.below(6) as usize];
            let (stride, dilation) =
                (choices.choose(4, stride), choices.choose(MOST_DILATION as u64, dilation));
            let padded = choices.choose(3, |random| [0, 1, 1, 2][random.below(4) as usize]);
            let pads = [choices.below(MOST_PAD), choices.below(MOST_PAD)];
            if axis >= rank {
                continue;
            }
            window.strides[axis] += stride as usize;
            let dilation = if window.kernel[axis] > WIDEST_DILATED { 0 } else { dilation as usize };
            window.dilations[axis] += dilation;
            let reach = window.reach(axis);
            (window.begin[axis], window.end[axis]) = match padded {
                0 => (0, 0),
                // The same on both sides.
                1 => (pads[0] % reach, pads[0] % reach),
                _ => (pads[0] % reach, pads[1] % reach),
            };
            // What it slides over holds the window.
            window.spatial[axis] = window.spatial[axis].max(reach);
        }
        window
    }

    fn reach(&self, axis: usize) -> usize {
        (self.kernel[axis] - 1) * self.dilations[axis] + 1
    }

    fn larger(&self) -> Vec<usize> {
        [&[self.batch, self.groups * self.inputs][..], &self.spatial].concat()
    }

    fn weights(&self) -> Vec<usize> {
        [&[self.groups * self.outputs, self.inputs][..], &self.kernel].concat()
    }

    fn convolution(&self) -> Convolution {
        Convolution::new(self.kernel.len())
            .with_strides(self.strides.clone())
            .with_dilations(self.dilations.clone())
            .with_pads(self.begin.clone(), self.end.clone())
            .with_groups(self.groups)
    }

    /// What the convolution makes of the larger tensor.
    fn smaller(&self) -> Vec<usize> {
        let mut dims = vec![self.batch, self.groups * self.outputs];
        for axis in 0..self.kernel.len() {
            let padded = self.spatial[axis] + self.begin[axis] + self.end[axis];
            dims.push((padded - self.reach(axis)) / self.strides[axis] + 1);
        }
        dims
    }

    fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    fn pooling(&self, algorithm: PoolingAlgorithm, ceil: bool) -> Pooling {
        Pooling::new(algorithm, self.kernel.clone())
            .with_strides(self.strides.clone())
            .with_dilations(self.dilations.clone())
            .with_pads(self.begin.clone(), self.end.clone())
            .with_ceil(ceil)
    }
}

pub(super) fn convolution(choices: &mut Choices) -> Result<Trial> {
    let window = Window::draw(choices, true);
    let builder = PrimitiveDesc::builder(Op::Convolution(window.convolution()));
    let terms = window.inputs * window.taps();
    sums(choices, builder, &window.larger(), &window.weights(), &window.smaller(), terms)
}

pub(super) fn deconvolution(choices: &mut Choices) -> Result<Trial> {
    let window = Window::draw(choices, true);
    let mut op = Deconvolution::new(window.kernel.len())
        .with_strides(window.strides.clone())
        .with_dilations(window.dilations.clone())
        .with_pads(window.begin.clone(), window.end.clone())
        .with_groups(window.groups);
    let (src, mut dst) = (window.smaller(), window.larger());
    for axis in 0..window.kernel.len() {
        let padded = window.spatial[axis] + window.begin[axis] + window.end[axis];
        // What no window reaches lies behind the result; the operation may tell it or only the result.
        let behind = (padded - window.reach(axis)) % window.strides[axis];
        if choices.one_in(2) {
            op.output_padding[axis] = behind;
        }
        dst[2 + axis] = window.spatial[axis];
    }
    let builder = PrimitiveDesc::builder(Op::Deconvolution(op));
    sums(choices, builder, &src, &window.weights(), &dst, window.outputs * window.taps())
}

/// Source, weights, bias and result of a window's sums.
fn sums(
    choices: &mut Choices,
    builder: PrimitiveDescBuilder,
    src: &[usize],
    weights: &[usize],
    dst: &[usize],
    terms: usize,
) -> Result<Trial> {
    let types = Types::draw(choices)?;
    let src = image(choices, Role::Source, src, types.src)?;
    let weights = operand(choices, Role::Weights, weights, types.weights)?;
    let dst = image(choices, Role::Result, dst, types.dst)?;
    let mut builder = builder.src(src.clone()).weights(weights.clone()).dst(dst.clone());
    if choices.one_in(2) {
        let bias = types.bias(choices)?;
        builder = builder.bias(operand(choices, Role::Side, &dst.dims()[1..2], bias)?);
    }
    let quantization = types.quantization(choices, &src, &[(Quantized::Weights, &weights)], terms)?;
    let attributes = Attributes { dequantize: quantization.list, ..Attributes::default() };
    let attributes = post_ops(choices, attributes, &dst)?;
    let attributes = product_modes(choices, attributes)?;
    let winograd = choices.one_in(3);
    let trial = Trial::of(builder.attributes(attributes.with_winograd(winograd)))?;
    placed(
        choices,
        quantization.values.into_iter().fold(trial, |trial, (arg, values)| trial.values(arg, values)),
    )
}

pub(super) fn convolution_weights(choices: &mut Choices) -> Result<Trial> {
    let window = Window::draw(choices, true);
    let own = choices.data_type(&FLOATS)?;
    let to = choices.data_type(&[own, DataType::F32])?;
    let src = image(choices, Role::Source, &window.larger(), own)?;
    let diff = image(choices, Role::Source, &window.smaller(), own)?;
    let dst = operand(choices, Role::Result, &window.weights(), to)?;
    let terms = diff.elements() / diff.dims()[1].max(1);
    let small = 2.0 / (terms.max(1) as f64).sqrt();
    let op = Op::ConvolutionWeights(ConvolutionWeights::new(window.convolution()));
    let builder = PrimitiveDesc::builder(op).src(src).src(diff).dst(dst);
    Ok(finished(choices, builder)?.values(Arg::Src(1), Values::Uniform(-small, small)))
}

pub(super) fn pooling(choices: &mut Choices) -> Result<Trial> {
    let (op, dims) = drawn_pooling(choices)?;
    let own = choices.data_type(&[
        DataType::F32,
        DataType::F16,
        DataType::BF16,
        DataType::F64,
        DataType::S8,
        DataType::U8,
        DataType::S32,
    ])?;
    let to = if own.is_float() { choices.data_type(&[own, DataType::F32])? } else { own };
    let builder = PrimitiveDesc::builder(Op::Pooling(op)).src(image(choices, Role::Source, &dims, own)?);
    let result = builder.clone().build()?.dst().dims().clone();
    let dst = image(choices, Role::Result, &result, to)?;
    finished(choices, builder.dst(dst))
}

pub(super) fn pooling_backward(choices: &mut Choices) -> Result<Trial> {
    let (op, dims) = drawn_pooling(choices)?;
    let own = choices.data_type(&FLOATS)?;
    let src = image(choices, Role::Source, &dims, own)?;
    let forward = PrimitiveDesc::builder(Op::Pooling(op.clone())).src(src.clone()).build()?;
    let result: Dims = forward.dst().dims().clone();
    let diff = image(choices, Role::Source, &result, own)?;
    let dst = image(choices, Role::Result, &dims, own)?;
    let is_max = op.algorithm == PoolingAlgorithm::Max;
    let builder = PrimitiveDesc::builder(Op::PoolingBackward(PoolingBackward::new(op))).src(diff);
    if is_max {
        let trial = finished(choices, builder.src(src).dst(dst))?;
        // Few values, so that windows have several largest ones.
        return Ok(trial.values(Arg::Src(1), Values::Integers(-3, 1)));
    }
    finished(choices, builder.dst(dst))
}

/// A pooling with the dimensions of its source.
fn drawn_pooling(choices: &mut Choices) -> Result<(Pooling, Vec<usize>)> {
    let window = Window::draw(choices, false);
    let algorithm = choices.pick(&[
        PoolingAlgorithm::Max,
        PoolingAlgorithm::AverageExcludePadding,
        PoolingAlgorithm::AverageIncludePadding,
    ])?;
    let ceil = choices.one_in(3);
    Ok((
        window.pooling(algorithm, ceil),
        [&[window.batch, window.inputs * window.groups][..], &window.spatial].concat(),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::choices::Limits;
    use super::*;

    #[test]
    fn a_window_s_reach_does_not_lift_the_limits() {
        for seed in 0..500 {
            for both in [true, false] {
                let window = Window::draw(&mut Choices::random(seed, Limits::QUICK), both);
                let elements = [window.larger(), window.smaller()].map(|dims| dims.iter().product::<usize>());
                assert!(elements.into_iter().all(|one| one <= Limits::QUICK.elements), "{window:?}");
            }
        }
    }
}
