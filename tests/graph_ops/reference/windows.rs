//! Convolution and pooling in the graph's own formats.

use anydnn::graph::{Op, OpKind as K};

use super::super::tensor::{Tensor, indices};
use super::channel_axis;

/// Where windows lie along the spatial dimensions.
struct Window {
    kernel: Vec<usize>,
    strides: Vec<usize>,
    dilations: Vec<usize>,
    pads_begin: Vec<usize>,
    pads_end: Vec<usize>,
    output: Vec<usize>,
}

impl Window {
    fn of(op: &Op, spatial: &[usize], kernel: Vec<usize>) -> Self {
        let list =
            |name: &str| -> Vec<usize> { op.attrs.s64s(name).unwrap().iter().map(|&v| v as usize).collect() };
        let strides = list("strides");
        let dilations =
            if op.attrs.get("dilations").is_some() { list("dilations") } else { vec![1; spatial.len()] };
        let (mut pads_begin, mut pads_end, mut output) = (list("pads_begin"), list("pads_end"), Vec::new());
        for i in 0..spatial.len() {
            let reach = (kernel[i] - 1) * dilations[i] + 1;
            match op.attrs.string("auto_pad").unwrap() {
                "VALID" => (pads_begin[i], pads_end[i]) = (0, 0),
                // As many outputs as strides fit, the odd zero behind (upper) or in front (lower).
                word @ ("SAME_UPPER" | "SAME_LOWER") => {
                    let count = spatial[i].div_ceil(strides[i]);
                    let missing = ((count - 1) * strides[i] + reach).saturating_sub(spatial[i]);
                    pads_begin[i] = if word == "SAME_UPPER" { missing / 2 } else { missing - missing / 2 };
                    pads_end[i] = missing - pads_begin[i];
                }
                _ => {}
            }
            let room = spatial[i] + pads_begin[i] + pads_end[i] - reach;
            let ceil = op.attrs.string("rounding_type").is_ok_and(|word| word == "ceil");
            output.push(1 + if ceil { room.div_ceil(strides[i]) } else { room / strides[i] });
        }
        Self { kernel, strides, dilations, pads_begin, pads_end, output }
    }

    /// The positions under the window at an output position: none where they are padding. Positions behind the padding are left out.
    fn taps(&self, spatial: &[usize], at: &[usize]) -> Vec<(Vec<usize>, Option<Vec<usize>>)> {
        let mut taps = Vec::new();
        'taps: for tap in indices(&self.kernel) {
            let mut position = Some(Vec::new());
            for i in 0..tap.len() {
                let padded = at[i] * self.strides[i] + tap[i] * self.dilations[i];
                if padded >= self.pads_begin[i] + spatial[i] + self.pads_end[i] {
                    continue 'taps;
                }
                match (&mut position, padded.checked_sub(self.pads_begin[i]).filter(|&p| p < spatial[i])) {
                    (Some(position), Some(p)) => position.push(p),
                    _ => position = None,
                }
            }
            taps.push((tap, position));
        }
        taps
    }
}

pub fn convolution(op: &Op, inputs: &[Tensor]) -> Tensor {
    let (src, weights) = (&inputs[0], &inputs[1]);
    let channel = channel_axis(op, src.rank());
    let spatial = spatial_of(src, channel);
    let last = src.rank() - 1;
    let xio = op.attrs.string("weights_format").unwrap() == "XIO";
    let (outputs, inner, kernel) = if xio {
        (weights.dims[last], weights.dims[last - 1], weights.dims[..last - 1].to_vec())
    } else {
        (weights.dims[0], weights.dims[1], weights.dims[2..].to_vec())
    };
    let window = Window::of(op, &spatial, kernel);
    let groups = op.attrs.s64("groups").unwrap() as usize;
    let dims = joined(src.dims[0], outputs, &window.output, channel);
    Tensor::of(&dims, |index| {
        let (n, o, at) = split(index, channel);
        let group = o / (outputs / groups);
        let mut sum = inputs.get(2).map_or(0.0, |bias| bias.values[o]);
        for (tap, position) in window.taps(&spatial, &at) {
            let Some(position) = position else { continue };
            for c in 0..inner {
                let weight =
                    if xio { [tap.clone(), vec![c, o]].concat() } else { [vec![o, c], tap.clone()].concat() };
                sum += src.at(&joined(n, group * inner + c, &position, channel)) * weights.at(&weight);
            }
        }
        sum
    })
}

pub fn pooling(op: &Op, src: &Tensor) -> Tensor {
    let channel = channel_axis(op, src.rank());
    let spatial = spatial_of(src, channel);
    let kernel = op.attrs.s64s("kernel").unwrap().iter().map(|&v| v as usize).collect();
    let window = Window::of(op, &spatial, kernel);
    let dims = joined(src.dims[0], src.dims[channel], &window.output, channel);
    Tensor::of(&dims, |index| {
        let (n, c, at) = split(index, channel);
        let taps = window.taps(&spatial, &at);
        let inside: Vec<f64> =
            taps.iter().flat_map(|(_, p)| p).map(|p| src.at(&joined(n, c, p, channel))).collect();
        match op.kind {
            K::MaxPool => inside.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            _ if op.attrs.bool("exclude_pad").unwrap() => inside.iter().sum::<f64>() / inside.len() as f64,
            _ => inside.iter().sum::<f64>() / taps.len() as f64,
        }
    })
}

pub fn spatial_of(src: &Tensor, channel: usize) -> Vec<usize> {
    (1..src.rank()).filter(|&i| i != channel).map(|i| src.dims[i]).collect()
}

/// `[N, C, spatial..]` or `[N, spatial.., C]`.
pub fn joined(n: usize, c: usize, spatial: &[usize], channel: usize) -> Vec<usize> {
    let mut index = [vec![n], spatial.to_vec()].concat();
    index.insert(channel.min(index.len()), c);
    index
}

pub fn split(index: &[usize], channel: usize) -> (usize, usize, Vec<usize>) {
    let spatial = (1..index.len()).filter(|&i| i != channel).map(|i| index[i]).collect();
    (index[0], index[channel], spatial)
}
