//! What is linear in each channel, as part of the convolution before it: normalisations with known statistics, products and sums with known
//! numbers. The weights and the bias are scaled while importing.

use anydnn_backend::{DataType, Dims, Error, MemoryDesc, Result};

use super::super::large;
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
    let (dims, inner) = (found.weights.dims.clone(), inner(&found));
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

/// The convolution with what a product or a sum does to its channels, where the node alone reads it and the other source is known: one
/// number for each channel, or one for all.
pub(super) fn of_channels(network: &mut Network, node: &Node) -> Result<Option<Value>> {
    let is_product = match node.operator() {
        "Mul" => true,
        "Add" => false,
        _ => return Ok(None),
    };
    let known = |index: usize| network.is_known(node.inputs()[index].as_ref()?).then_some(index);
    let Some(number) = known(1).or_else(|| known(0)).filter(|number| node.reads_alone(1 - number)) else {
        return Ok(None);
    };
    let (image, numbers) = (node.input(1 - number)?, node.input(number)?);
    let Some(found) = convolution(network, image, false) else { return Ok(None) };
    let channels = image.dims.get(1).copied().unwrap_or(0);
    let is_of_channels = |value: &Value| {
        let at = (value.rank() + 1).checked_sub(image.rank());
        let of_each = at.and_then(|at| value.dims.get(at)) == Some(&channels);
        let elements = value.dims.elements();
        elements == channels && of_each || elements == 1 && value.rank() <= image.rank()
    };
    let biases_fit =
        found.biases.iter().all(|bias| network.is_known(bias) && bias.dims.elements() == channels);
    if numbers.data_type != DataType::F32 || !is_of_channels(numbers) || !biases_fit {
        return Ok(None);
    }
    let sources: Vec<&Value> = std::iter::once(numbers).chain(&found.biases).collect();
    let mut bias = None;
    if !is_product || !found.biases.is_empty() {
        // One number for all channels does not tell how many there are.
        let change = if is_product { "scaled" } else { "shifted" };
        let how = format!("bias of {} in {channels} channels {change}", found.biases.len());
        bias = Some(network.follows(
            &format!("{}/bias", node.name()),
            (Dims::from([channels]), DataType::F32),
            &how,
            &sources,
            move |sources| changed_bias(is_product, channels, sources),
        )?);
    }
    let mut weights = found.weights.clone();
    if is_product {
        let dims = found.weights.dims.clone();
        let inner = inner(&found);
        weights = network.follows(
            &format!("{}/weights", node.name()),
            (dims.clone(), DataType::F32),
            &format!("weights scaled by {inner}"),
            &[numbers, &found.weights],
            move |sources| scaled_weights(&dims, inner, sources),
        )?;
    }
    let inputs: Vec<&Value> = [&found.src, &weights].into_iter().chain(&bias).collect();
    network.op(node, found.kind, &inputs, found.attrs).map(Some)
}

/// The first source times all others, or the sum of all.
fn changed_bias(is_product: bool, channels: usize, sources: &[&HostTensor]) -> Result<HostTensor> {
    let [numbers, biases @ ..] = sources else { return Err(wrong(sources)) };
    let numbers = numbers.to_f64s();
    let of = |values: &[f64], channel: usize| values[channel % values.len().max(1)];
    let biases: Vec<Vec<f64>> = biases.iter().map(|bias| bias.to_f64s()).collect();
    let bias = (0..channels).map(|channel| {
        let bias: f64 = biases.iter().map(|bias| of(bias, channel)).sum();
        let number = of(&numbers, channel);
        (if is_product { bias * number } else { bias + number }) as f32
    });
    HostTensor::from_f32([channels], &bias.collect::<Vec<_>>())
}

/// The second source with each channel, `inner` numbers, times the first.
fn scaled_weights(dims: &Dims, inner: usize, sources: &[&HostTensor]) -> Result<HostTensor> {
    let [numbers, weights] = sources else { return Err(wrong(sources)) };
    scaled(dims, weights, inner, &numbers.to_f64s())
}

/// Weights whose channels, `inner` numbers each, are multiplied by the factors in turn.
fn scaled(dims: &Dims, weights: &HostTensor, inner: usize, factors: &[f64]) -> Result<HostTensor> {
    let weights = if weights.data_type() == DataType::F32 { weights } else { &weights.cast(DataType::F32) };
    if weights.desc().elements() != dims.elements() {
        return Err(Error::invalid("normalization", "weights", weights.desc().to_string(), dims.to_string()));
    }
    let (weights, inner) = (weights.bytes().as_chunks::<4>().0, inner.max(1));
    // Written once and where they stay: weights are many.
    large::filled(&MemoryDesc::new(dims.clone(), DataType::F32), |bytes| {
        let results = bytes.as_chunks_mut::<4>().0.chunks_mut(inner);
        for ((to, from), factor) in results.zip(weights.chunks(inner)).zip(factors.iter().cycle()) {
            for (to, from) in to.iter_mut().zip(from) {
                *to = ((f64::from(f32::from_ne_bytes(*from)) * factor) as f32).to_ne_bytes();
            }
        }
    })
}

/// Weights of a channel of the result that lie side by side: its channels are the first dimension of a convolution's weights and the second
/// of its transpose's.
fn inner(found: &Convolved) -> usize {
    let axis = usize::from(found.kind == OpKind::ConvTranspose);
    Dims::new(&found.weights.dims[axis + 1..]).elements()
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
        scaled(dims, weights, self.inner, &factors)
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
    if !matches!(network.made_by(value)?, OpKind::Convolution | OpKind::ConvTranspose | OpKind::Add) {
        return None;
    }
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
