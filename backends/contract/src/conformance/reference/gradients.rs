//! Gradients of operations that slide a window: each window's contributions are scattered to where they come from.

use super::windows::{Position, Window};
use super::{Operands, Tensor};
use crate::op::{ConvolutionWeights, Deconvolution, PoolingAlgorithm, PoolingBackward};
use crate::{Arg, Dims};

pub(super) fn deconvolution(op: &Deconvolution, operands: &Operands) -> Tensor {
    let (src, weights) = (operands.get(Arg::SRC), operands.get(Arg::Weights));
    let (kernel, channels) = (Dims::new(&weights.dims[2..]), weights.dims[1]);
    let outputs = weights.dims[0] / op.groups;
    let mut dst = Tensor::from_fn(operands.dst_dims(), |index| {
        operands.find(Arg::Bias).map_or(0.0, |bias| bias.at(&index[1..2]))
    });
    let input = dst.dims[2..].to_vec();
    let window = Window {
        strides: &op.strides,
        dilations: &op.dilations,
        pads_begin: &op.pads_begin,
        pads_end: &op.pads_end,
        input: &input,
    };
    for index in src.dims.indices() {
        for tap in kernel.indices() {
            let Position::Inside(at) = window.position(&index[2..], &tap) else { continue };
            for channel in 0..channels {
                let to = [&[index[0], index[1] / outputs * channels + channel], &at[..]].concat();
                let weight = [&[index[1], channel], &tap[..]].concat();
                dst.add(&to, src.at(&index) * weights.at(&weight));
            }
        }
    }
    dst
}

pub(super) fn convolution_weights(op: &ConvolutionWeights, operands: &Operands) -> Tensor {
    let op = &op.convolution;
    let (src, diff) = (operands.get(Arg::Src(0)), operands.get(Arg::Src(1)));
    let mut dst = Tensor::from_fn(operands.dst_dims(), |_| 0.0);
    let (kernel, channels) = (Dims::new(&dst.dims[2..]), dst.dims[1]);
    let outputs = dst.dims[0] / op.groups;
    let window = Window {
        strides: &op.strides,
        dilations: &op.dilations,
        pads_begin: &op.pads_begin,
        pads_end: &op.pads_end,
        input: &src.dims[2..],
    };
    for index in diff.dims.indices() {
        for tap in kernel.indices() {
            let Position::Inside(at) = window.position(&index[2..], &tap) else { continue };
            for channel in 0..channels {
                let from = [&[index[0], index[1] / outputs * channels + channel], &at[..]].concat();
                let to = [&[index[1], channel], &tap[..]].concat();
                dst.add(&to, src.at(&from) * diff.at(&index));
            }
        }
    }
    dst
}

pub(super) fn pooling(op: &PoolingBackward, operands: &Operands) -> Tensor {
    let op = &op.pooling;
    let diff = operands.get(Arg::Src(0));
    let mut dst = Tensor::from_fn(operands.dst_dims(), |_| 0.0);
    let input = dst.dims[2..].to_vec();
    let window = Window {
        strides: &op.strides,
        dilations: &op.dilations,
        pads_begin: &op.pads_begin,
        pads_end: &op.pads_end,
        input: &input,
    };
    for index in diff.dims.indices() {
        let (mut inside, mut padding) = (Vec::new(), 0);
        for tap in op.kernel.indices() {
            match window.position(&index[2..], &tap) {
                Position::Inside(at) => inside.push([&index[..2], &at[..]].concat()),
                Position::Padding => padding += 1,
                Position::Beyond => {}
            }
        }
        let gradient = diff.at(&index);
        if op.algorithm == PoolingAlgorithm::Max {
            let src = operands.get(Arg::Src(1));
            let first_largest = inside.iter().fold(None, |best: Option<&Vec<usize>>, at| match best {
                Some(best) if src.at(at) <= src.at(best) => Some(best),
                _ => Some(at),
            });
            if let Some(at) = first_largest {
                dst.add(at, gradient);
            }
            continue;
        }
        let counts_padding = op.algorithm == PoolingAlgorithm::AverageIncludePadding;
        let count = inside.len() + if counts_padding { padding } else { 0 };
        for at in &inside {
            dst.add(at, gradient / count as f64);
        }
    }
    dst
}
