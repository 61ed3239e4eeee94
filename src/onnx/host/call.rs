//! What a host function works with: a node, the tensors that are its inputs, and memory.

use anydnn_backend::{DataType, Dims, Error, Result};

use super::super::known::{Import, Known, computed};
use super::super::node::Node;
use super::super::room::Room;
use super::numbers::{self, Number, Numbers, ints};
use crate::graph::normalize_axis;
use crate::model::HostTensor;

/// One node to compute. Its own values are not looked at.
pub(in crate::onnx) struct Call<'a> {
    pub(super) node: &'a Node<'a>,
    pub(super) inputs: Known<'a>,
    room: &'a mut Room,
}

impl<'a> Call<'a> {
    pub(in crate::onnx) fn new(node: &'a Node<'a>, inputs: Known<'a>, room: &'a mut Room) -> Self {
        Self { node, inputs, room }
    }

    pub(super) fn operator(&self) -> &'a str {
        self.node.operator()
    }

    /// An input that must be there.
    pub(super) fn tensor(&self, index: usize) -> Result<&'a HostTensor> {
        self.optional(index)
            .ok_or_else(|| self.node.invalid(&format!("input {index}"), "missing", "a value for it"))
    }

    pub(super) fn optional(&self, index: usize) -> Option<&'a HostTensor> {
        self.inputs.get(index).copied().flatten()
    }

    /// All inputs of an operator that takes any number of them.
    pub(super) fn all(&self) -> Result<Vec<&'a HostTensor>> {
        if self.inputs.is_empty() {
            return Err(self.node.invalid("inputs", "none", "at least one"));
        }
        (0..self.inputs.len()).map(|index| self.tensor(index)).collect()
    }

    /// The integers of an input that must be there.
    pub(super) fn ints(&self, index: usize) -> Result<Vec<i64>> {
        let tensor = self.tensor(index)?;
        ints(tensor).ok_or_else(|| self.node.invalid(&format!("input {index}"), tensor.desc(), "integers"))
    }

    /// The integers of an input or, in older opsets, of an attribute; none where neither is there.
    pub(super) fn int_list(&self, index: usize, name: &str) -> Result<Option<Vec<i64>>> {
        match self.optional(index) {
            Some(_) => self.ints(index).map(Some),
            None => self.node.ints(name),
        }
    }

    /// The one integer of an input, if it is there.
    pub(super) fn int(&self, index: usize) -> Result<Option<i64>> {
        match self.optional(index) {
            None => Ok(None),
            Some(tensor) => match self.ints(index)?[..] {
                [one] => Ok(Some(one)),
                _ => Err(self.node.invalid(&format!("input {index}"), tensor.desc(), "one element")),
            },
        }
    }

    /// The one number of an input, if it is there.
    pub(super) fn number(&self, index: usize) -> Result<Option<f64>> {
        match self.optional(index) {
            None => Ok(None),
            Some(tensor) => match tensor.to_f64s()[..] {
                [one] => Ok(Some(one)),
                _ => Err(self.node.invalid(&format!("input {index}"), tensor.desc(), "one element")),
            },
        }
    }

    /// The values of an input that must be there and have this many elements.
    pub(super) fn values(&self, index: usize, count: usize) -> Result<Vec<f64>> {
        let tensor = self.tensor(index)?;
        if tensor.dims().elements() != count {
            let expected = format!("{count} elements");
            return Err(self.node.invalid(&format!("input {index}"), tensor.desc(), expected));
        }
        Ok(tensor.to_f64s())
    }

    /// The values of an input, or the same number everywhere.
    pub(super) fn values_or(&self, index: usize, count: usize, absent: f64) -> Result<Vec<f64>> {
        if self.optional(index).is_some() { self.values(index, count) } else { Ok(vec![absent; count]) }
    }

    /// An axis attribute counted from the front.
    pub(super) fn axis(&self, absent: i64, rank: usize) -> Result<usize> {
        normalize_axis(self.node.int("axis", absent)?, rank)
    }

    /// Checks that an input has this many dimensions.
    pub(super) fn ranked(&self, index: usize, rank: usize) -> Result<&'a HostTensor> {
        let tensor = self.tensor(index)?;
        if tensor.dims().len() == rank {
            return Ok(tensor);
        }
        Err(self.node.invalid(&format!("input {index}"), tensor.desc(), format!("{rank} dimensions")))
    }

    /// Checks that there is memory for one more tensor.
    pub(super) fn take(&mut self, dims: &Dims, data_type: DataType) -> Result<()> {
        self.room.take(dims, data_type)
    }

    /// What a graph makes of tensors in place of the node's own inputs.
    pub(super) fn computed(&mut self, import: Import, inputs: Known) -> Result<Vec<HostTensor>> {
        computed(self.node, import, inputs, self.room)
    }

    /// A tensor of values rounded to the type.
    pub(super) fn floats(&mut self, dims: Dims, data_type: DataType, values: &[f64]) -> Result<HostTensor> {
        self.take(&dims, data_type)?;
        HostTensor::from_f64(dims, data_type, values)
    }

    /// One output of values rounded to the type.
    pub(super) fn output(
        &mut self,
        dims: Dims,
        data_type: DataType,
        values: &[f64],
    ) -> Result<Vec<HostTensor>> {
        Ok(vec![self.floats(dims, data_type, values)?])
    }

    /// A tensor of numbers, integers cut off at the top where they do not fit.
    pub(super) fn numbers<T: Number>(
        &mut self,
        dims: Dims,
        data_type: DataType,
        values: Vec<T>,
    ) -> Result<HostTensor> {
        self.take(&dims, data_type)?;
        numbers::tensor(dims, data_type, &T::wrap(values))
    }

    /// One output of numbers.
    pub(super) fn made(
        &mut self,
        dims: Dims,
        data_type: DataType,
        values: &Numbers,
    ) -> Result<Vec<HostTensor>> {
        self.take(&dims, data_type)?;
        Ok(vec![numbers::tensor(dims, data_type, values)?])
    }

    /// An error for an input of a type that the operator is not computed for.
    pub(super) fn unfit(&self, tensor: &HostTensor) -> Error {
        self.node.unsupported(format!("it is not computed for {}", tensor.desc()))
    }

    /// An error for what is not valid.
    pub(super) fn invalid(
        &self,
        subject: &str,
        given: impl std::fmt::Display,
        expected: impl Into<String>,
    ) -> Error {
        self.node.invalid(subject, given, expected)
    }
}
