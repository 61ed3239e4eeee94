//! Computation while importing, of what follows from shapes and constants alone.

mod arithmetic;
mod movement;

pub(super) use arithmetic::{binary, cast, choose, unary};
pub(super) use movement::{concat, constant_of_shape, expand, gather, range, slice, transpose};

use anydnn_backend::{DataType, Dims, Result};

use super::network::Room;
use super::node::Node;
use crate::model::HostTensor;

/// Results of arithmetic with more elements are left to the device.
const MOST: usize = 1 << 22;

/// The inputs of a node, all known.
pub(super) type Known<'a> = &'a [Option<&'a HostTensor>];

/// Computes the one output of a node; none where that is better left to the device.
pub(super) type Fold = fn(&Node, Known, &mut Room) -> Result<Option<HostTensor>>;

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
