//! Convolutions of images whose channels lie in blocks, of ONNX Runtime's domain `com.microsoft.nchwc`. In graphs the channels lie one after the
//! other, the last ones of zeros: weights are put in that order, and what brings images into blocks and back has nothing to do but leave those out.

use anydnn_backend::{DataType, Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::super::program::nchwc::{BLOCK, KEPT};
use super::convolution::groups;
use super::floats;
use super::fused::convolution_by;
use super::indexing::part;
use crate::graph::{Attrs, OpKind};
use crate::model::HostTensor;

/// `ReorderInput`: channels to blocks, from the last dimension where the node says so.
pub(super) fn to_blocks(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = image(node)?;
    if !node.flag("channels_last", false)? {
        return Ok(vec![src.clone()]);
    }
    let order = Attrs::new().with("order", vec![0_i64, 3, 1, 2]);
    Ok(vec![network.op(node, OpKind::StaticTranspose, &[src], order)?])
}

/// `ReorderOutput`: so many channels from blocks, to the last dimension where the node says so.
pub(super) fn from_blocks(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = image(node)?;
    let channels = usize::try_from(node.int("channels", 0)?).unwrap_or(0);
    if channels == 0 || channels > src.dims[1] {
        return Err(node.invalid("attribute channels", channels, format!("from 1 to {}", src.dims[1])));
    }
    let made = if channels == src.dims[1] { src.clone() } else { part(network, node, src, 1, 0, channels)? };
    if !node.flag("channels_last", false)? {
        return Ok(vec![made]);
    }
    let order = Attrs::new().with("order", vec![0_i64, 2, 3, 1]);
    Ok(vec![network.op(node, OpKind::StaticTranspose, &[&made], order)?])
}

/// `Conv`: with what is added to its result and a function of the sum, as `FusedConv` has them.
pub(super) fn convolution(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (mut src, weights) = (image(node)?.clone(), node.input(1)?);
    let [out, given, height, width] = weights.dims[..] else {
        return Err(node.invalid("weights", &weights.dims, "four dimensions"));
    };
    let mut groups = groups(node)?;
    let is_apart = groups > 1 && given == 1 && groups == out as i64;
    let block = usize::try_from(node.int(BLOCK, 0)?).unwrap_or(0).max(1);
    // Few channels, and channels apart, are not in blocks on the way in.
    let inner = if is_apart || groups == 1 && given < block { 1 } else { block };
    if !out.is_multiple_of(block) || !given.is_multiple_of(inner) {
        let expected = format!("channels in blocks of {block}, as the processor has them");
        return Err(node.invalid("weights", &weights.dims, expected));
    }
    // What only fills the last block is not computed where nothing else has it.
    let kept = usize::try_from(node.int(KEPT, 0)?).ok().filter(|kept| (1..out).contains(kept));
    let can_leave_out = groups == 1 || is_apart && kept == Some(src.dims[1]);
    let made = kept.filter(|_| can_leave_out && node.optional(3).is_none()).unwrap_or(out);
    if groups == 1 || is_apart && made < out {
        groups = if is_apart { made as i64 } else { 1 };
    } else {
        src = filled(network, node, &src, (groups as usize).saturating_mul(given))?;
    }
    // Of a source whose channels do not fill the last block, the weights of what is not there are zeros.
    let taken = if groups == 1 { given.min(src.dims[1]) } else { given };
    let stored = numbers(network, node, weights)?;
    let pixels = height * width;
    let mut plain = Vec::with_capacity(made * taken * pixels);
    for o in 0..made {
        for i in 0..taken {
            let at = (o / block * (given / inner) + i / inner) * pixels;
            let lane = (i % inner) * block + o % block;
            plain.extend((0..pixels).map(|pixel| stored[(at + pixel) * inner * block + lane]));
        }
    }
    let dims = Dims::from([made, taken, height, width]);
    let mut inputs = node.inputs().to_vec();
    inputs[0] = Some(src);
    inputs[1] = Some(network.computed(&format!("{}/weights", node.name()), dims, &plain)?);
    if let Some(bias) = node.optional(2).filter(|_| made < out) {
        let all = numbers(network, node, bias)?;
        let some = all.get(..made).unwrap_or(&all);
        inputs[2] =
            Some(network.computed(&format!("{}/bias", node.name()), Dims::from([some.len()]), some)?);
    }
    convolution_by(network, &node.given(inputs), groups)
}

/// The elements of a weight.
fn numbers(network: &Network, node: &Node, weight: &Value) -> Result<Vec<f32>> {
    let Some(known) = network.known(weight) else {
        return Err(node.unsupported("weights in blocks that are given on execution are not read"));
    };
    match known.data_type() {
        DataType::F32 => Ok(known.to_f32s()),
        other => Err(node.unsupported(format!("weights in blocks of {other} are not read"))),
    }
}

/// An image with channels of zeros behind its own.
fn filled(network: &mut Network, node: &Node, src: &Value, channels: usize) -> Result<Value> {
    let mut dims = src.dims.clone();
    match channels.checked_sub(dims[1]) {
        None | Some(0) => return Ok(src.clone()),
        Some(more) => dims[1] = more,
    }
    let zeros =
        network.constant(&format!("{}/zeros", node.name()), HostTensor::zeros(dims, src.data_type)?)?;
    network.op(node, OpKind::Concat, &[src, &zeros], Attrs::new().with("axis", 1_i64))
}

fn image<'a>(node: &'a Node) -> Result<&'a Value> {
    let src = floats(node, 0)?;
    match src.rank() {
        4 => Ok(src),
        _ => Err(node.invalid("source", &src.dims, "four dimensions")),
    }
}
