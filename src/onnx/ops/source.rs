//! Operators that make constants or hand on what they get.

use anydnn_backend::{DataType, Dims, MemoryDesc, Result, ResultExt};

use super::super::files::ExternalData;
use super::super::network::{Network, Value};
use super::super::node::Node;
use super::super::tensor::host_tensor;
use super::known_number;
use crate::graph::normalize_axis;
use crate::model::HostTensor;

pub(super) fn identity(_: &mut Network, node: &Node) -> Result<Vec<Value>> {
    Ok(vec![node.input(0)?.clone()])
}

/// Nothing is dropped outside training.
pub(super) fn dropout(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    node.check_inference()?;
    if let Some(training) = node.optional(2)
        && known_number(network, node, training)? != Some(0.0)
    {
        return Err(node.unsupported("only inference is read, not training"));
    }
    identity(network, node)
}

pub(super) fn constant(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let tensor = if let Some(tensor) = node.tensor("value")? {
        host_tensor(tensor, &mut ExternalData::default()).at(|| "attribute value")?
    } else if node.has("value_float") {
        HostTensor::from_f32(Dims::default(), &[node.float("value_float", 0.0)?])?
    } else if let Some(values) = node.floats("value_floats")? {
        HostTensor::from_f32([values.len()], &values)?
    } else if node.has("value_int") {
        integers(Dims::default(), &[node.int("value_int", 0)?])?
    } else if let Some(values) = node.ints("value_ints")? {
        integers([values.len()].into(), &values)?
    } else {
        return Err(node.unsupported("only tensors, floats and integers are read"));
    };
    Ok(vec![network.constant(node.name(), tensor)?])
}

/// The dimensions, known when the model is imported.
pub(super) fn shape(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let dims = &node.input(0)?.dims;
    let rank = dims.len() as i64;
    let bound = |name: &str, absent: i64| -> Result<usize> {
        let given = node.int(name, absent)?;
        let from_front = if given < 0 { given.saturating_add(rank) } else { given };
        Ok(from_front.clamp(0, rank) as usize)
    };
    let (start, end) = (bound("start", 0)?, bound("end", rank)?);
    let taken: Vec<i64> = dims.get(start..end).unwrap_or_default().iter().map(|&dim| dim as i64).collect();
    told(network, node, integers([taken.len()].into(), &taken)?)
}

pub(super) fn size(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let elements = node.input(0)?.dims.elements() as i64;
    told(network, node, integers(Dims::default(), &[elements])?)
}

/// What the input's dimensions tell.
fn told(network: &mut Network, node: &Node, integers: HostTensor) -> Result<Vec<Value>> {
    let input = node.input(0)?;
    let varies = !network.is_known(input) || network.follows_shape(input);
    Ok(vec![network.constant_of_shape(node.name(), integers, varies)?])
}

fn integers(dims: Dims, values: &[i64]) -> Result<HostTensor> {
    let bytes = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    HostTensor::new(MemoryDesc::new(dims, DataType::S64), bytes)
}

/// An axis attribute counted from the front.
pub(super) fn axis(node: &Node, absent: i64, rank: usize) -> Result<usize> {
    normalize_axis(node.int("axis", absent)?, rank)
}
