//! Normalisations with known statistics as part of the convolution before them: its weights and its bias are scaled while importing.

use anydnn_backend::{DataType, Dims, Error, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use crate::graph::{Attrs, OpKind};
use crate::model::HostTensor;

/// A convolution, perhaps with a sum behind it, whose weights and biases are known.
struct Convolved {
    kind: OpKind,
    attrs: Attrs,
    src: Value,
    weights: Value,
    /// What is added to each channel.
    biases: Vec<Value>,
}

/// The convolution that a normalisation's source is, with the normalisation in it; none where that is not known.
pub(super) fn normalized(network: &mut Network, node: &Node, epsilon: f32) -> Result<Option<Value>> {
    let Some(found) = convolution(network, node.input(0)?, true) else { return Ok(None) };
    let channels = node.input(0)?.dims.get(1).copied().unwrap_or(0);
    let (mut sources, count) = (Vec::new(), found.biases.len());
    for i in 1..5 {
        sources.push(node.input(i)?);
    }
    sources.extend(&found.biases);
    if !sources.iter().all(|value| network.is_known(value) && value.dims.elements() == channels) {
        return Ok(None);
    }
    // The result's channels are the first dimension of a convolution's weights and the second of its transpose's.
    let dims = found.weights.dims.clone();
    let axis = usize::from(found.kind == OpKind::ConvTranspose);
    let inner = Dims::new(&dims[axis + 1..]).elements();
    let folding = Folding { channels, inner, epsilon: f64::from(epsilon) };
    let how = |what: &str| format!("{what} normalized by {inner}, epsilon {}", epsilon.to_bits());
    let weights = [&sources[..4], &[&found.weights]].concat();
    let weights = network.follows(
        &format!("{}/weights", node.name()),
        (dims.clone(), DataType::F32),
        &how("weights"),
        &weights,
        move |sources| folding.weights(&dims, sources),
    )?;
    let bias = network.follows(
        &format!("{}/bias", node.name()),
        (Dims::from([channels]), DataType::F32),
        &how(&format!("bias of {count}")),
        &sources,
        move |sources| folding.bias(sources),
    )?;
    network.op(node, found.kind, &[&found.src, &weights, &bias], found.attrs).map(Some)
}

/// How a normalisation scales and shifts channels. Its sources are scale, shift, mean and variance, then what else there is.
#[derive(Clone, Copy)]
struct Folding {
    channels: usize,
    /// Weights of a channel that lie side by side.
    inner: usize,
    epsilon: f64,
}

impl Folding {
    fn factors(self, scale: &[f64], variance: &[f64]) -> Vec<f64> {
        (0..self.channels).map(|c| scale[c] / (variance[c] + self.epsilon).sqrt()).collect()
    }

    /// The last source, scaled.
    fn weights(self, dims: &Dims, sources: &[&HostTensor]) -> Result<HostTensor> {
        let [scale, _, _, variance, weights] = sources else { return Err(wrong(sources)) };
        let factors = self.factors(&scale.to_f64s(), &variance.to_f64s());
        let mut weights = weights.to_f32s();
        for (of_channel, factor) in weights.chunks_mut(self.inner.max(1)).zip(factors.iter().cycle()) {
            for weight in of_channel {
                *weight = (f64::from(*weight) * factor) as f32;
            }
        }
        HostTensor::from_f32(dims.clone(), &weights)
    }

    /// The shift less the scaled mean, and all further sources, scaled.
    fn bias(self, sources: &[&HostTensor]) -> Result<HostTensor> {
        let [scale, shift, mean, variance, biases @ ..] = sources else { return Err(wrong(sources)) };
        let (shift, mean) = (shift.to_f64s(), mean.to_f64s());
        let factors = self.factors(&scale.to_f64s(), &variance.to_f64s());
        let mut bias: Vec<f64> = (0..self.channels).map(|c| shift[c] - mean[c] * factors[c]).collect();
        for known in biases {
            for (sum, (value, factor)) in bias.iter_mut().zip(known.to_f64s().iter().zip(&factors)) {
                *sum += value * factor;
            }
        }
        let bias: Vec<f32> = bias.into_iter().map(|value| value as f32).collect();
        HostTensor::from_f32([self.channels], &bias)
    }
}

fn wrong(sources: &[&HostTensor]) -> Error {
    Error::invalid("normalization", "sources", sources.len().to_string(), "statistics and what they change")
}

/// The convolution that a value is, with one sum behind it if that is allowed.
fn convolution(network: &Network, value: &Value, summed: bool) -> Option<Convolved> {
    let (kind, inputs) = network.maker(value)?;
    match kind {
        OpKind::Convolution | OpKind::ConvTranspose => {
            let attrs = network.attrs(value)?.clone();
            // The channels of a grouped transpose are in two dimensions of its weights.
            let plain = kind == OpKind::Convolution || attrs.s64("groups").ok()? == 1;
            let [src, weights, biases @ ..] = &inputs[..] else { return None };
            let (src, weights, biases) = (src.clone(), weights.clone(), biases.to_vec());
            let is_known = network.is_known(&weights) && weights.data_type == DataType::F32;
            (plain && is_known).then_some(Convolved { kind, attrs, src, weights, biases })
        }
        OpKind::Add if summed => {
            let [a, b] = &inputs[..] else { return None };
            let (image, bias) = if network.is_known(b) { (a, b) } else { (b, a) };
            let mut found = convolution(network, image, false)?;
            // One number for each channel: `[C, 1, ..]` with ones before it.
            let channels = *image.dims.get(1)?;
            let at = (bias.rank() + 1).checked_sub(image.rank())?;
            (image.dims == value.dims && bias.dims.get(at) == Some(&channels)).then_some(())?;
            found.biases.push(bias.clone());
            Some(found)
        }
        _ => None,
    }
}
