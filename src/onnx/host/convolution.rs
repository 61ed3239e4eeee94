//! Convolutions.

use anydnn_backend::{DataType, Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::super::window::Window;
use super::call::Call;
use super::numbers::{Numbers, product};
use super::product::points;
use super::quantization::requantized;
use super::sampling::between;
use super::stencils::{Planes, Stencils};
use crate::graph::{Attrs, OpKind};
use crate::model::HostTensor;

/// Which elements of an image each position of a window covers.
pub(super) struct Taps {
    /// How many taps a window has.
    pub(super) count: usize,
    /// For each position and tap the element, or [`OUTSIDE`].
    places: Vec<usize>,
}

const OUTSIDE: usize = usize::MAX;

impl Taps {
    pub(super) fn new(window: &Window, image: &[usize], result: &[usize]) -> Self {
        let count = product(&window.kernel);
        let strides = Dims::new(image).row_major_strides();
        let mut places = Vec::with_capacity(count * product(result));
        let kernel: Vec<Dims> = Dims::new(&window.kernel).indices().collect();
        for position in Dims::new(result).indices() {
            for tap in &kernel {
                let place = (0..image.len()).try_fold(0, |place, d| {
                    let at = position[d] * window.strides[d] + tap[d] * window.dilations[d];
                    let at = at.checked_sub(window.pads_begin[d]).filter(|at| *at < image[d])?;
                    Some(place + at * strides[d])
                });
                places.push(place.unwrap_or(OUTSIDE));
            }
        }
        Self { count, places }
    }

    /// The taps of a position that lie in the image, with their elements.
    pub(super) fn of(&self, position: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let places = &self.places[position * self.count..(position + 1) * self.count];
        places.iter().copied().enumerate().filter(|(_, place)| *place != OUTSIDE)
    }
}

/// What a convolution multiplies.
struct Sizes {
    window: Window,
    image: Vec<usize>,
    result: Vec<usize>,
    groups: usize,
    batch: usize,
    /// Channels of source and result.
    channels: (usize, usize),
}

impl Sizes {
    fn of(call: &Call, src: &HostTensor, weights: &HostTensor) -> Result<Self> {
        let (s, w) = (src.dims(), weights.dims());
        let groups = usize::try_from(call.node.int("group", 1)?).unwrap_or(0);
        let fits = s.len() >= 3
            && w.len() == s.len()
            && groups > 0
            && w[0].is_multiple_of(groups)
            && s[1] == w[1].saturating_mul(groups);
        if !fits {
            let given = format!("{} and {}", src.desc(), weights.desc());
            return Err(call.invalid("source and weights", given, format!("channels of {groups} groups")));
        }
        let mut window = Window::new(call.node, &w[2..])?;
        window.slide(call.node, &s[2..], false)?;
        let result = window.results(&s[2..]);
        Ok(Self { window, image: s[2..].to_vec(), result, groups, batch: s[0], channels: (s[1], w[0]) })
    }

    fn dims(&self) -> Dims {
        [self.batch, self.channels.1].into_iter().chain(self.result.iter().copied()).collect()
    }

    fn convolved(&self, src: &[f64], weights: &[f64], bias: &[f64]) -> Vec<f64> {
        let taps = Taps::new(&self.window, &self.image, &self.result);
        let (image, positions) = (product(&self.image), product(&self.result));
        let (inner, outer) = (self.channels.0 / self.groups, self.channels.1 / self.groups);
        let mut made = Vec::with_capacity(self.batch * self.channels.1 * positions);
        for n in 0..self.batch {
            for to in 0..self.channels.1 {
                let group = to / outer;
                for position in 0..positions {
                    let mut sum = bias[to];
                    for from in 0..inner {
                        let base = (n * self.channels.0 + group * inner + from) * image;
                        let row = &weights[(to * inner + from) * taps.count..][..taps.count];
                        sum += taps.of(position).map(|(t, place)| row[t] * src[base + place]).sum::<f64>();
                    }
                    made.push(sum);
                }
            }
        }
        made
    }
}

/// The values of source and weights without their zero points.
fn centred(call: &Call, src: (usize, usize), weights: (usize, usize)) -> Result<(Vec<f64>, Vec<f64>)> {
    let point = call.number(src.1)?.unwrap_or(0.0);
    let values = call.tensor(src.0)?.to_f64s().into_iter().map(|value| value - point).collect();
    let tensor = call.tensor(weights.0)?;
    let channels = tensor.dims().first().copied().unwrap_or(1);
    let by_channel = points(call, weights.1, channels)?;
    let each = tensor.dims().elements() / channels.max(1);
    let weights =
        tensor.to_f64s().into_iter().enumerate().map(|(i, value)| value - by_channel[i / each.max(1)]);
    Ok((values, weights.collect()))
}

/// Integers without their zero points, to s32.
pub(in crate::onnx) fn convolution_integer(call: &mut Call) -> Result<Vec<HostTensor>> {
    let sizes = Sizes::of(call, call.tensor(0)?, call.tensor(1)?)?;
    let (src, weights) = centred(call, (0, 2), (1, 3))?;
    call.take(&sizes.dims(), DataType::S32)?;
    let made = sizes.convolved(&src, &weights, &vec![0.0; sizes.channels.1]);
    let made = made.into_iter().map(|value| value as i64).collect();
    call.made(sizes.dims(), DataType::S32, &Numbers::Ints(made))
}

/// Scaled integers to scaled integers.
pub(in crate::onnx) fn quantized_convolution(call: &mut Call) -> Result<Vec<HostTensor>> {
    let sizes = Sizes::of(call, call.tensor(0)?, call.tensor(3)?)?;
    let (src, weights) = centred(call, (0, 2), (3, 5))?;
    let src_scale = call.number(1)?.unwrap_or(1.0);
    let scales = match call.tensor(4)?.dims().elements() {
        1 => vec![call.tensor(4)?.to_f64s()[0]; sizes.channels.1],
        _ => call.values(4, sizes.channels.1)?,
    };
    let bias = call.values_or(8, sizes.channels.1, 0.0)?;
    call.take(&sizes.dims(), DataType::S32)?;
    let mut made = sizes.convolved(&src, &weights, &bias);
    let positions = product(&sizes.result).max(1);
    for (i, value) in made.iter_mut().enumerate() {
        *value *= src_scale * scales[i / positions % sizes.channels.1];
    }
    requantized(call, sizes.dims(), &made, 6)
}

/// Images of two dimensions, each tap moved by offsets and weighed by a mask: products of weights and what the taps of each position read.
pub(in crate::onnx) fn deform(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (src, weights) = (call.ranked(0, 4)?, call.ranked(1, 4)?);
    let s = Sizes::of(call, src, weights)?;
    let moved = usize::try_from(call.node.int("offset_group", 1)?).unwrap_or(0);
    if moved == 0 || !s.channels.0.is_multiple_of(moved) {
        return Err(call.invalid("attribute offset_group", moved, format!("a divisor of {}", s.channels.0)));
    }
    let (taps, positions) = (product(&s.window.kernel), product(&s.result));
    let offsets = call.values(2, s.batch * moved * taps * 2 * positions)?;
    let bias = call.values_or(3, s.channels.1, 0.0)?;
    let mask = call.values_or(4, s.batch * moved * taps * positions, 1.0)?;
    let (inner, outer) = (s.channels.0 / s.groups * taps, s.channels.1 / s.groups);
    let columns = Dims::from([s.batch, s.groups, inner, positions]);
    call.take(&columns, src.data_type())?;
    let planes = Planes::of(src);
    let mut made = planes.like(columns.elements());
    let place = |axis: usize, position: usize, tap: usize| {
        let fixed = position * s.window.strides[axis] + tap * s.window.dilations[axis];
        fixed as f64 - s.window.pads_begin[axis] as f64
    };
    let each = s.channels.0 / moved;
    for group in 0..s.batch * moved {
        let mut stencils = Stencils::default();
        for tap in 0..taps {
            let at = group * taps + tap;
            for position in 0..positions {
                let y = place(0, position / s.result[1], tap / s.window.kernel[1]);
                let x = place(1, position % s.result[1], tap % s.window.kernel[1]);
                let y = y + offsets[2 * at * positions + position];
                let x = x + offsets[(2 * at + 1) * positions + position];
                between(&mut stencils, (s.image[0], s.image[1]), [y, x], mask[at * positions + position]);
                stencils.end();
            }
        }
        planes.apply(group * each..(group + 1) * each, product(&s.image), &stencils, &mut made);
    }
    let columns = made.tensor(columns, src.data_type())?;
    let weights = weights.clone().reshaped([s.groups, outer, inner])?;
    let bias = HostTensor::from_f64([s.groups, outer, 1], src.data_type(), &bias)?;
    let sums = call.computed(multiplied, &[Some(&weights), Some(&columns), Some(&bias)])?;
    sums.into_iter().map(|sums| sums.reshaped(s.dims())).collect()
}

/// A product and what is added to it.
fn multiplied(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let product = network.op(node, OpKind::MatMul, &[node.input(0)?, node.input(1)?], Attrs::new())?;
    Ok(vec![network.op(node, OpKind::Add, &[&product, node.input(2)?], Attrs::new())?])
}
