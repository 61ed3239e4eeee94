//! Normalisations with known statistics as part of the convolution before them: its weights and its bias are scaled while importing.

use anydnn_backend::{DataType, Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use crate::graph::{Attrs, OpKind};

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
    let mut statistics = Vec::new();
    for i in 1..5 {
        let known = numbers(network, node.input(i)?, channels);
        let Some(known) = known else { return Ok(None) };
        statistics.push(known);
    }
    let [scale, shift, mean, variance] = &statistics[..] else { return Ok(None) };
    let factors: Vec<f64> =
        (0..channels).map(|c| scale[c] / (variance[c] + f64::from(epsilon)).sqrt()).collect();
    let mut bias: Vec<f64> = (0..channels).map(|c| shift[c] - mean[c] * factors[c]).collect();
    for value in &found.biases {
        let Some(known) = numbers(network, value, channels) else { return Ok(None) };
        for (sum, (value, factor)) in bias.iter_mut().zip(known.iter().zip(&factors)) {
            *sum += value * factor;
        }
    }
    // The result's channels are the first dimension of a convolution's weights and the second of its transpose's.
    let dims = found.weights.dims.clone();
    let axis = usize::from(found.kind == OpKind::ConvTranspose);
    let inner = Dims::new(&dims[axis + 1..]).elements();
    let Some(weights) = network.known(&found.weights) else { return Ok(None) };
    let mut weights = weights.to_f32s();
    for (i, weight) in weights.iter_mut().enumerate() {
        *weight = (f64::from(*weight) * factors[i / inner.max(1) % channels.max(1)]) as f32;
    }
    let weights = network.computed(&format!("{}/weights", node.name()), dims, &weights)?;
    let bias: Vec<f32> = bias.into_iter().map(|value| value as f32).collect();
    let bias = network.computed(&format!("{}/bias", node.name()), Dims::from([channels]), &bias)?;
    network.op(node, found.kind, &[&found.src, &weights, &bias], found.attrs).map(Some)
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
            let is_known = network.known(&weights).is_some() && weights.data_type == DataType::F32;
            (plain && is_known).then_some(Convolved { kind, attrs, src, weights, biases })
        }
        OpKind::Add if summed => {
            let [a, b] = &inputs[..] else { return None };
            let (image, bias) = if network.known(b).is_some() { (a, b) } else { (b, a) };
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

/// The numbers of a value that has one for each channel.
fn numbers(network: &Network, value: &Value, channels: usize) -> Option<Vec<f64>> {
    let known = network.known(value)?;
    (value.dims.elements() == channels).then(|| known.to_f64s())
}
