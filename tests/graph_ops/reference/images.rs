//! Transposed convolutions, gradients of windows and resampling in the graph's own formats.

use anydnn::graph::{Op, OpKind as K};

use super::super::tensor::{Tensor, indices};
use super::channel_axis;
use super::windows::{joined, spatial_of, split};

/// A convolution between a larger and a smaller image.
struct Geometry {
    kernel: Vec<usize>,
    strides: Vec<usize>,
    dilations: Vec<usize>,
    pads_begin: Vec<usize>,
    pads_end: Vec<usize>,
}

impl Geometry {
    /// The padding is that of the larger image.
    fn of(op: &Op, kernel: &[usize], larger: &[usize]) -> Self {
        let list =
            |name: &str| -> Vec<usize> { op.attrs.s64s(name).unwrap().iter().map(|&v| v as usize).collect() };
        let strides = list("strides");
        let dilations =
            if op.attrs.get("dilations").is_some() { list("dilations") } else { vec![1; strides.len()] };
        let (mut pads_begin, mut pads_end) = (list("pads_begin"), list("pads_end"));
        for i in 0..kernel.len() {
            let reach = (kernel[i] - 1) * dilations[i] + 1;
            match op.attrs.string("auto_pad").unwrap() {
                "VALID" => (pads_begin[i], pads_end[i]) = (0, 0),
                word @ ("SAME_UPPER" | "SAME_LOWER") => {
                    let count = larger[i].div_ceil(strides[i]);
                    let missing = ((count - 1) * strides[i] + reach).saturating_sub(larger[i]);
                    pads_begin[i] = if word == "SAME_UPPER" { missing / 2 } else { missing - missing / 2 };
                    pads_end[i] = missing - pads_begin[i];
                }
                _ => {}
            }
        }
        Self { kernel: kernel.to_vec(), strides, dilations, pads_begin, pads_end }
    }

    /// Each place in the smaller image and tap with the place in the larger one, where there is one.
    fn links(&self, larger: &[usize], smaller: &[usize]) -> Vec<[Vec<usize>; 3]> {
        let mut links = Vec::new();
        for at in indices(smaller) {
            for tap in indices(&self.kernel) {
                let place: Option<Vec<usize>> = (0..tap.len())
                    .map(|i| {
                        (at[i] * self.strides[i] + tap[i] * self.dilations[i])
                            .checked_sub(self.pads_begin[i])
                            .filter(|&place| place < larger[i])
                    })
                    .collect();
                links.extend(place.map(|place| [at.clone(), tap, place]));
            }
        }
        links
    }
}

/// Where the weights' dimensions are: kernel, first and second channels, as in `OIX` and `IOX`.
fn weight(op: &Op, tap: &[usize], first: usize, second: usize) -> Vec<usize> {
    match op.attrs.string("weights_format").unwrap() {
        "XIO" | "XOI" => [tap, &[second, first]].concat(),
        _ => [&[first, second], tap].concat(),
    }
}

/// Weights of a transposed convolution with groups: `[I / groups, O, ..]`, or `[I, O / groups, ..]`.
struct Grouped {
    kernel: Vec<usize>,
    inputs: usize,
    outputs: usize,
    groups: usize,
    is_whole: bool,
}

impl Grouped {
    /// Which of both they are follows from channels of the source or of the result.
    fn of(op: &Op, weights: &[usize], inputs: Option<usize>, outputs: Option<usize>) -> Self {
        let groups = op.attrs.s64("groups").unwrap() as usize;
        let (kernel, first, second) = kernel_of(op, weights);
        let is_whole = groups > 1 && (inputs == Some(first) || outputs == Some(second * groups));
        let (inputs, outputs) = if is_whole { (first, second * groups) } else { (first * groups, second) };
        Self { kernel, inputs, outputs, groups, is_whole }
    }

    /// The output channels that an input channel adds to.
    fn outputs_of(&self, input: usize) -> std::ops::Range<usize> {
        let (group, size) = (input / (self.inputs / self.groups), self.outputs / self.groups);
        group * size..(group + 1) * size
    }

    fn place(&self, op: &Op, tap: &[usize], input: usize, output: usize) -> Vec<usize> {
        if self.is_whole {
            weight(op, tap, input, output % (self.outputs / self.groups))
        } else {
            weight(op, tap, input % (self.inputs / self.groups), output)
        }
    }
}

fn kernel_of(op: &Op, weights: &[usize]) -> (Vec<usize>, usize, usize) {
    let last = weights.len() - 1;
    match op.attrs.string("weights_format").unwrap() {
        "XIO" | "XOI" => (weights[..last - 1].to_vec(), weights[last], weights[last - 1]),
        _ => (weights[2..].to_vec(), weights[0], weights[1]),
    }
}

fn listed(op: &Op, name: &str, input: Option<&Tensor>) -> Vec<usize> {
    match input {
        Some(tensor) => tensor.values.iter().map(|&v| v as usize).collect(),
        None => op.attrs.s64s(name).unwrap().iter().map(|&v| v as usize).collect(),
    }
}

fn add(tensor: &mut Tensor, index: &[usize], value: f64) {
    let place = index.iter().zip(&tensor.dims).fold(0, |place, (i, dim)| place * dim + i);
    tensor.values[place] += value;
}

pub fn conv_transpose(op: &Op, inputs: &[Tensor]) -> Tensor {
    let (src, weights) = (&inputs[0], &inputs[1]);
    let channel = channel_axis(op, src.rank());
    let smaller = spatial_of(src, channel);
    let grouped = Grouped::of(op, &weights.dims, Some(src.dims[channel]), None);
    let kernel = &grouped.kernel;
    let extra = listed(op, "output_padding", None);
    let same = op.attrs.string("auto_pad").unwrap().starts_with("SAME");
    let strides = listed(op, "strides", None);
    let wanted: Vec<usize> = smaller.iter().zip(&strides).map(|(n, stride)| n * stride).collect();
    let geometry = Geometry::of(op, kernel, &wanted);
    let larger: Vec<usize> = (0..smaller.len())
        .map(|i| {
            let reach = (kernel[i] - 1) * geometry.dilations[i] + 1;
            let pads = geometry.pads_begin[i] + geometry.pads_end[i];
            if same { wanted[i] + extra[i] } else { (smaller[i] - 1) * strides[i] + reach + extra[i] - pads }
        })
        .collect();
    let dims = joined(src.dims[0], grouped.outputs, &larger, channel);
    let mut dst = Tensor::of(&dims, |index| inputs.get(2).map_or(0.0, |bias| bias.values[index[channel]]));
    for [at, tap, place] in geometry.links(&larger, &smaller) {
        for n in 0..src.dims[0] {
            for i in 0..grouped.inputs {
                let x = src.at(&joined(n, i, &at, channel));
                for o in grouped.outputs_of(i) {
                    let product = x * weights.at(&grouped.place(op, &tap, i, o));
                    add(&mut dst, &joined(n, o, &place, channel), product);
                }
            }
        }
    }
    dst
}

pub fn conv_transpose_backward_data(op: &Op, inputs: &[Tensor]) -> Tensor {
    let (diff, weights) = (&inputs[0], &inputs[1]);
    let channel = channel_axis(op, diff.rank());
    let larger = spatial_of(diff, channel);
    let grouped = Grouped::of(op, &weights.dims, None, Some(diff.dims[channel]));
    let kernel = &grouped.kernel;
    let geometry = Geometry::of(op, kernel, &larger);
    let smaller: Vec<usize> = (0..larger.len())
        .map(|i| {
            let reach = (kernel[i] - 1) * geometry.dilations[i] + 1;
            let room = larger[i] + geometry.pads_begin[i] + geometry.pads_end[i] - reach;
            room / geometry.strides[i] + 1
        })
        .collect();
    let mut dst = Tensor::of(&joined(diff.dims[0], grouped.inputs, &smaller, channel), |_| 0.0);
    for [at, tap, place] in geometry.links(&larger, &smaller) {
        for n in 0..diff.dims[0] {
            for i in 0..grouped.inputs {
                for o in grouped.outputs_of(i) {
                    let x = diff.at(&joined(n, o, &place, channel));
                    let product = x * weights.at(&grouped.place(op, &tap, i, o));
                    add(&mut dst, &joined(n, i, &at, channel), product);
                }
            }
        }
    }
    dst
}

pub fn conv_transpose_backward_weights(op: &Op, inputs: &[Tensor]) -> Tensor {
    let (src, diff) = (&inputs[0], &inputs[1]);
    let channel = channel_axis(op, src.rank());
    let mut dst = Tensor::of(&listed(op, "weights_shape", inputs.get(2)), |_| 0.0);
    let grouped = Grouped::of(op, &dst.dims, Some(src.dims[channel]), None);
    let (larger, smaller) = (spatial_of(diff, channel), spatial_of(src, channel));
    let geometry = Geometry::of(op, &grouped.kernel, &larger);
    for [at, tap, place] in geometry.links(&larger, &smaller) {
        for n in 0..src.dims[0] {
            for i in 0..grouped.inputs {
                let x = src.at(&joined(n, i, &at, channel));
                for o in grouped.outputs_of(i) {
                    let product = x * diff.at(&joined(n, o, &place, channel));
                    add(&mut dst, &grouped.place(op, &tap, i, o), product);
                }
            }
        }
    }
    dst
}

pub fn convolution_backward_data(op: &Op, inputs: &[Tensor]) -> Tensor {
    let (diff, weights) = (&inputs[0], &inputs[1]);
    let channel = channel_axis(op, diff.rank());
    let groups = op.attrs.s64("groups").unwrap() as usize;
    let mut dst = Tensor::of(&listed(op, "dst_shape", inputs.get(2)), |_| 0.0);
    let (kernel, outputs, inner) = kernel_of(op, &weights.dims);
    let (larger, smaller) = (spatial_of(&dst, channel), spatial_of(diff, channel));
    let geometry = Geometry::of(op, &kernel, &larger);
    for [at, tap, place] in geometry.links(&larger, &smaller) {
        for n in 0..diff.dims[0] {
            for o in 0..outputs {
                let x = diff.at(&joined(n, o, &at, channel));
                for c in 0..inner {
                    let to = joined(n, o / (outputs / groups) * inner + c, &place, channel);
                    add(&mut dst, &to, x * weights.at(&weight(op, &tap, o, c)));
                }
            }
        }
    }
    dst
}

pub fn convolution_backward_weights(op: &Op, inputs: &[Tensor]) -> Tensor {
    let (src, diff) = (&inputs[0], &inputs[1]);
    let channel = channel_axis(op, src.rank());
    let groups = op.attrs.s64("groups").unwrap() as usize;
    let mut dst = Tensor::of(&listed(op, "weights_shape", inputs.get(2)), |_| 0.0);
    let (kernel, outputs, inner) = kernel_of(op, &dst.dims);
    let (larger, smaller) = (spatial_of(src, channel), spatial_of(diff, channel));
    let geometry = Geometry::of(op, &kernel, &larger);
    for [at, tap, place] in geometry.links(&larger, &smaller) {
        for n in 0..diff.dims[0] {
            for o in 0..outputs {
                let gradient = diff.at(&joined(n, o, &at, channel));
                for c in 0..inner {
                    let from = joined(n, o / (outputs / groups) * inner + c, &place, channel);
                    add(&mut dst, &weight(op, &tap, o, c), gradient * src.at(&from));
                }
            }
        }
    }
    dst
}

pub fn pooling_backward(op: &Op, inputs: &[Tensor]) -> Tensor {
    let is_max = op.kind == K::MaxPoolBackward;
    let diff = &inputs[usize::from(is_max)];
    let channel = channel_axis(op, diff.rank());
    let dims = if is_max { inputs[0].dims.clone() } else { listed(op, "src_shape", inputs.get(1)) };
    let mut dst = Tensor::of(&dims, |_| 0.0);
    let (larger, smaller) = (spatial_of(&dst, channel), spatial_of(diff, channel));
    let kernel = listed(op, "kernel", None);
    let geometry = Geometry::of(op, &kernel, &larger);
    for index in indices(&diff.dims) {
        let (n, c, at) = split(&index, channel);
        let links = geometry.links(&larger, &smaller);
        let inside: Vec<Vec<usize>> = links
            .into_iter()
            .filter(|[other, ..]| *other == at)
            .map(|[_, _, place]| joined(n, c, &place, channel))
            .collect();
        let gradient = diff.at(&index);
        if is_max {
            let largest = inside.iter().map(|at| inputs[0].at(at)).fold(f64::NEG_INFINITY, f64::max);
            let first = inside.iter().find(|at| inputs[0].at(at) == largest).unwrap();
            add(&mut dst, first, gradient);
            continue;
        }
        // Taps behind the padding, where the number of windows was rounded up, count in no average.
        let counted: usize = (0..at.len())
            .map(|i| {
                let end = larger[i] + geometry.pads_begin[i] + geometry.pads_end[i];
                (0..kernel[i])
                    .filter(|tap| at[i] * geometry.strides[i] + tap * geometry.dilations[i] < end)
                    .count()
            })
            .product();
        let count = if op.attrs.bool("exclude_pad").unwrap() { inside.len() } else { counted };
        for at in &inside {
            add(&mut dst, at, gradient / count as f64);
        }
    }
    dst
}

pub fn interpolate(op: &Op, inputs: &[Tensor]) -> Tensor {
    let src = &inputs[0];
    let channel = channel_axis(op, src.rank());
    let from = spatial_of(src, channel);
    let to = match (inputs.get(1), op.attrs.s64s("sizes")) {
        (None, Err(_)) => {
            let scales = op.attrs.f32s("scales").unwrap();
            from.iter().zip(scales).map(|(&n, scale)| (n as f32 * scale).floor() as usize).collect()
        }
        (input, _) => listed(op, "sizes", input),
    };
    Tensor::of(&joined(src.dims[0], src.dims[channel], &to, channel), |index| {
        let (n, c, at) = split(index, channel);
        parts(op, &at, &from, &to)
            .iter()
            .map(|(place, part)| part * src.at(&joined(n, c, place, channel)))
            .sum()
    })
}

pub fn interpolate_backward(op: &Op, inputs: &[Tensor]) -> Tensor {
    let (src, diff) = (&inputs[0], &inputs[1]);
    let channel = channel_axis(op, src.rank());
    let (from, to) = (spatial_of(src, channel), spatial_of(diff, channel));
    let mut dst = Tensor::of(&src.dims, |_| 0.0);
    for index in indices(&diff.dims) {
        let (n, c, at) = split(&index, channel);
        for (place, part) in parts(op, &at, &from, &to) {
            add(&mut dst, &joined(n, c, &place, channel), part * diff.at(&index));
        }
    }
    dst
}

/// The source's places behind a place of the result, with their parts.
fn parts(op: &Op, at: &[usize], from: &[usize], to: &[usize]) -> Vec<(Vec<usize>, f64)> {
    let aligned = op.attrs.string("coordinate_transformation_mode").unwrap() == "align_corners";
    let nearest = op.attrs.string("mode").unwrap() == "nearest";
    let mut all = vec![(Vec::new(), 1.0)];
    for i in 0..at.len() {
        let (x, s, d) = (at[i] as f64, from[i] as f64, to[i] as f64);
        let position = match aligned {
            true if to[i] == 1 => 0.0,
            true => x * (s - 1.0) / (d - 1.0),
            false => (x + 0.5) * s / d - 0.5,
        };
        let (low, part) = (position.floor(), position - position.floor());
        // Halves round up.
        let low_part = if nearest { f64::from(u8::from(part < 0.5)) } else { 1.0 - part };
        let ends = [(low, low_part), (low + 1.0, 1.0 - low_part)];
        all = all
            .iter()
            .flat_map(|(place, whole): &(Vec<usize>, f64)| {
                ends.map(|(end, part)| {
                    ([&place[..], &[end.clamp(0.0, s - 1.0) as usize]].concat(), whole * part)
                })
            })
            .collect();
    }
    all
}
