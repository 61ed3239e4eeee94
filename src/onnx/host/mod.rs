//! Operators computed on tensors in host memory: while importing, where a node's inputs are known, and on execution, where the device
//! cannot run it.

mod arithmetic;
mod movement;

pub(super) use arithmetic::{binary, cast, choose, unary};
pub(super) use movement::{concat, constant_of_shape, expand, gather, range, slice, transpose};

use anydnn_backend::{DataType, Dims, Error, Result};

use super::network::Room;
use super::node::Node;
use crate::model::HostTensor;

/// The inputs of a node, all known.
pub(super) type Known<'a> = &'a [Option<&'a HostTensor>];

/// Computes all outputs of a node, whose own values are not looked at: inputs are the tensors.
pub(super) type Host = fn(&Node, Known, &mut Room) -> Result<Vec<HostTensor>>;

fn one_output(tensor: HostTensor) -> Vec<HostTensor> {
    vec![tensor]
}

/// An input of a type that an operator is not computed for.
fn unfit(node: &Node, tensor: &HostTensor) -> Error {
    node.unsupported(format!("it is not computed for {}", tensor.desc()))
}

/// The elements of a tensor that must have integers.
fn integers(node: &Node, tensor: &HostTensor) -> Result<Vec<i64>> {
    ints(tensor).ok_or_else(|| node.invalid("input", tensor.desc(), "integers"))
}

/// An input that must be there.
pub(super) fn known<'a>(node: &Node, inputs: Known<'a>, index: usize) -> Result<&'a HostTensor> {
    let found = inputs.get(index).copied().flatten();
    found.ok_or_else(|| node.invalid(&format!("input {index}"), "missing", "a value for it"))
}

/// The elements of a tensor of integers or truth values.
pub(super) fn ints(tensor: &HostTensor) -> Option<Vec<i64>> {
    match tensor.data_type() {
        DataType::S64 => Some(words(tensor.bytes()).map(i64::from_ne_bytes).collect()),
        DataType::S32 => {
            Some(words(tensor.bytes()).map(|word| i64::from(i32::from_ne_bytes(word))).collect())
        }
        DataType::S8 | DataType::U8 | DataType::Boolean => {
            Some(tensor.to_f64s().into_iter().map(|value| value as i64).collect())
        }
        _ => None,
    }
}

/// A tensor of integers or truth values. Values out of range are cut off at the top, as conversions do it.
fn of_ints(dims: Dims, data_type: DataType, values: &[i64]) -> Result<HostTensor> {
    let bytes = match data_type {
        DataType::S64 => values.iter().flat_map(|value| value.to_ne_bytes()).collect(),
        DataType::S32 => values.iter().flat_map(|&value| (value as i32).to_ne_bytes()).collect(),
        DataType::Boolean => values.iter().map(|&value| u8::from(value != 0)).collect(),
        DataType::S8 | DataType::U8 => values.iter().map(|&value| value as u8).collect(),
        _ => {
            let values: Vec<_> = values.iter().map(|&value| value as f64).collect();
            return HostTensor::from_f64(dims, data_type, &values);
        }
    };
    HostTensor::new(anydnn_backend::MemoryDesc::new(dims, data_type), bytes)
}

fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks().0.iter().copied()
}
