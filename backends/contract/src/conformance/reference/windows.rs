//! Operations that slide a window over the spatial dimensions.

use super::{Operands, Tensor};
use crate::op::{Convolution, Pooling, PoolingAlgorithm};
use crate::{Arg, Dims};

pub(super) fn convolution(op: &Convolution, operands: &Operands) -> Tensor {
    let (src, weights) = (operands.get(Arg::SRC), operands.get(Arg::Weights));
    let window = Window {
        strides: &op.strides,
        dilations: &op.dilations,
        pads_begin: &op.pads_begin,
        pads_end: &op.pads_end,
        input: &src.dims[2..],
    };
    let kernel = Dims::new(&weights.dims[2..]);
    let (inputs, outputs) = (weights.dims[1], weights.dims[0]);
    let outputs_per_group = outputs / op.groups;
    Tensor::from_fn(operands.dst_dims(), |index| {
        let (sample, output) = (index[0], index[1]);
        let group = output / outputs_per_group;
        let mut sum = 0.0;
        for channel in 0..inputs {
            for tap in kernel.indices() {
                let Position::Inside(at) = window.position(&index[2..], &tap) else { continue };
                let mut from = vec![sample, group * inputs + channel];
                from.extend_from_slice(&at);
                let mut weight = vec![output, channel];
                weight.extend_from_slice(&tap);
                sum += src.at(&from) * weights.at(&weight);
            }
        }
        sum + operands.find(Arg::Bias).map_or(0.0, |bias| bias.at(&[output]))
    })
}

pub(super) fn pooling(op: &Pooling, operands: &Operands) -> Tensor {
    let src = operands.get(Arg::SRC);
    let window = Window {
        strides: &op.strides,
        dilations: &op.dilations,
        pads_begin: &op.pads_begin,
        pads_end: &op.pads_end,
        input: &src.dims[2..],
    };
    Tensor::from_fn(operands.dst_dims(), |index| {
        let (mut largest, mut sum) = (f64::NEG_INFINITY, 0.0);
        let (mut inside, mut padding) = (0.0, 0.0);
        for tap in op.kernel.indices() {
            match window.position(&index[2..], &tap) {
                Position::Inside(at) => {
                    let mut from = index[..2].to_vec();
                    from.extend_from_slice(&at);
                    let x = src.at(&from);
                    largest = if x > largest || x.is_nan() { x } else { largest };
                    sum += x;
                    inside += 1.0;
                }
                Position::Padding => padding += 1.0,
                Position::Beyond => {}
            }
        }
        match op.algorithm {
            PoolingAlgorithm::Max => largest,
            PoolingAlgorithm::AverageExcludePadding => sum / inside,
            PoolingAlgorithm::AverageIncludePadding => sum / (inside + padding),
        }
    })
}

/// A window that slides over the spatial dimensions `input`.
pub(super) struct Window<'a> {
    pub(super) strides: &'a [usize],
    pub(super) dilations: &'a [usize],
    pub(super) pads_begin: &'a [usize],
    pub(super) pads_end: &'a [usize],
    pub(super) input: &'a [usize],
}

/// Where a tap of a window falls.
pub(super) enum Position {
    /// On an element of the source.
    Inside(Vec<usize>),
    /// On the padding.
    Padding,
    /// Behind the padding, as in the last window when the output length is rounded up.
    Beyond,
}

impl Window<'_> {
    pub(super) fn position(&self, output: &[usize], tap: &[usize]) -> Position {
        let mut at = Vec::new();
        let (mut padding, mut beyond) = (false, false);
        for i in 0..output.len() {
            // Counted from the start of the padding before the source.
            let padded = output[i] * self.strides[i] + tap[i] * self.dilations[i];
            let (begin, end) = (self.pads_begin[i], self.pads_begin[i] + self.input[i]);
            if padded >= end + self.pads_end[i] {
                beyond = true;
            } else if padded < begin || padded >= end {
                padding = true;
            } else {
                at.push(padded - begin);
            }
        }
        match (beyond, padding) {
            (true, _) => Position::Beyond,
            (false, true) => Position::Padding,
            (false, false) => Position::Inside(at),
        }
    }
}
