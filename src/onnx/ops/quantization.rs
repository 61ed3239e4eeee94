//! Between floats and scaled integers.

use anydnn_backend::{DataType, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::super::tensor;
use super::floats;
use super::scales::{Inputs, Parameters};
use crate::graph::{OpKind, normalize_axis};

pub(super) fn quantize(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let to = match (node.optional(2), node.int("output_dtype", 0)?) {
        (Some(zero_points), _) => zero_points.data_type,
        (None, 0) => DataType::U8,
        (None, number) => tensor::data_type(i32::try_from(number).unwrap_or(-1))?,
    };
    if !matches!(to, DataType::U8 | DataType::S8) {
        return Err(node.unsupported(format!("results of {to} are not read")));
    }
    Ok(vec![parameters(network, node, src)?.quantize(network, node, src, to)?])
}

pub(super) fn dequantize(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = node.input(0)?;
    if !src.data_type.is_integer() {
        return Err(node.unsupported(format!("sources of {} are not read", src.data_type)));
    }
    let parameters = parameters(network, node, src)?;
    // Biases of 32 bits are few: the device gets them as floats.
    if let (DataType::S32, Some(known)) = (src.data_type, network.known(src))
        && let Some(tensor) = parameters.dequantized(network, known)
    {
        return Ok(vec![network.constant(node.name(), tensor?)?]);
    }
    if !parameters.are_known(network) && !matches!(src.data_type, DataType::U8 | DataType::S8) {
        let why = format!("scales that are given on execution are not read for {}", src.data_type);
        return Err(node.unsupported(why));
    }
    let kinds = [OpKind::Dequantize, OpKind::DynamicDequantize];
    Ok(vec![parameters.apply(network, node, src, kinds, DataType::F32)?])
}

fn parameters(network: &Network, node: &Node, src: &Value) -> Result<Parameters> {
    if node.int("block_size", 0)? != 0 {
        return Err(node.unsupported("scales of blocks are not read"));
    }
    // The axis counts only where there are several scales.
    let axis = normalize_axis(node.int("axis", 1)?, src.rank()).ok();
    Parameters::of(network, node, Inputs { scale: Some(1), point: 2 }, (src, axis))
}
