//! Values that executions give, and what operators ask of their elements while they are imported.

use std::sync::Arc;

use anydnn_backend::{DataType, Dims, Error};

use super::stretch::Stretch;
use super::{Network, Source, Value};
use crate::graph::{Attrs, OpKind, TensorId};
use crate::model::HostTensor;
use crate::onnx::program::ValueId;

/// A value that executions have before the graph runs.
#[derive(Clone, Debug)]
pub(in crate::onnx) struct Held {
    pub(in crate::onnx) value: ValueId,
    pub(in crate::onnx) name: String,
    pub(in crate::onnx) dims: Dims,
    /// The type that it lies in memory with.
    pub(in crate::onnx) data_type: DataType,
    /// The elements that operators may ask for. The graph is good for these alone then.
    pub(in crate::onnx) tensor: Option<Arc<HostTensor>>,
    /// The elements in a round of a loop, which are others in the next one.
    pub(in crate::onnx) of_round: Option<Arc<HostTensor>>,
    /// The graph's input, once an operation reads it.
    pub(super) id: Option<TensorId>,
    /// The input in the type that the graph computes with.
    pub(super) converted: Option<TensorId>,
}

impl Held {
    pub(in crate::onnx) fn new(value: ValueId, name: &str, dims: Dims, data_type: DataType) -> Self {
        let (name, tensor, of_round) = (name.to_owned(), None, None);
        Self { value, name, dims, data_type, tensor, of_round, id: None, converted: None }
    }
}

/// What operators asked for.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// Held values that the graph was made for, as indices.
    pub(super) given: Vec<usize>,
    pub(super) stretches: Vec<Stretch>,
    /// Values whose elements are not known while importing.
    pub(super) missing: Vec<Source>,
    /// Why elements that are known could not be had.
    pub(super) failure: Option<Error>,
}

impl Network {
    /// A value given on execution.
    pub(in crate::onnx) fn held(&mut self, held: Held) -> Value {
        let (dims, data_type) = (held.dims.clone(), self.effective(held.data_type));
        self.held.push(held);
        Value { dims, data_type, source: Source::Held(self.held.len() - 1) }
    }

    /// Makes a value given on execution an input of the graph now, in front of those that are used later.
    pub(in crate::onnx) fn declare(&mut self, value: &Value) {
        self.id(value);
    }

    /// The elements of a value that the graph cannot be made without: known, or held at the moment, and then the graph is good for these
    /// alone.
    pub(in crate::onnx) fn demand(&self, value: &Value) -> Option<&HostTensor> {
        if let Some(known) = self.known(value) {
            return Some(known);
        }
        let mut asked = self.asked.borrow_mut();
        if let Source::Held(index) = value.source
            && let Some(tensor) = &self.held[index].tensor
        {
            if !asked.given.contains(&index) {
                asked.given.push(index);
            }
            return Some(tensor);
        }
        asked.missing.push(value.source);
        None
    }

    /// Whether operators asked since the last call for elements that are not known, and which values of these they are.
    pub(in crate::onnx) fn take_missing(&self, values: &[Option<Value>]) -> Vec<usize> {
        let missing = std::mem::take(&mut self.asked.borrow_mut().missing);
        let is_missing =
            |value: &Option<Value>| value.as_ref().is_some_and(|value| missing.contains(&value.source));
        (0..values.len()).filter(|&index| is_missing(&values[index])).collect()
    }

    /// The held values whose elements the graph was made for.
    pub(in crate::onnx) fn demanded(&self) -> Vec<(ValueId, Arc<HostTensor>)> {
        let asked = self.asked.borrow();
        let held = asked.given.iter().filter_map(|&index| self.held.get(index));
        held.filter_map(|held| Some((held.value, Arc::clone(held.tensor.as_ref()?)))).collect()
    }

    /// Whether a value is held with elements that operators may ask for.
    pub(in crate::onnx) fn has_elements(&self, value: &Value) -> bool {
        matches!(value.source, Source::Held(index) if self.held[index].tensor.is_some())
    }

    /// The held value that a value is.
    pub(in crate::onnx) fn is_held(&self, value: &Value) -> Option<ValueId> {
        match value.source {
            Source::Held(index) => self.held.get(index).map(|held| held.value),
            _ => None,
        }
    }

    /// The input that a held value is, converted where the graph computes with another type.
    pub(super) fn held_id(&mut self, index: usize) -> TensorId {
        let held = &self.held[index];
        if let Some(known) = held.converted.or(held.id) {
            return known;
        }
        let (name, dims, data_type) = (held.name.clone(), held.dims.clone(), held.data_type);
        let id = self.builder.input(&name, data_type, dims);
        self.held[index].id = Some(id);
        let effective = self.effective(data_type);
        if effective != data_type
            && let Ok((converted, ..)) =
                self.plain(&name, OpKind::TypeCast, vec![id], Attrs::new(), Some(effective))
        {
            self.held[index].converted = Some(converted);
            return converted;
        }
        id
    }
}
