//! Stretches along an axis whose place changes from one round of a loop to the next, while their length does not.

use std::sync::Arc;

use anydnn_backend::DataType;

use super::{Network, Source, Value};
use crate::model::HostTensor;
use crate::onnx::program::ValueId;

/// The longest stretch that is gathered place by place; longer ones are views.
const LONGEST: usize = 8;

/// A stretch that a graph gathers from where an execution says: the graph is good for all places with as many elements.
#[derive(Clone, Copy, Debug)]
pub(in crate::onnx) struct Stretch {
    pub(in crate::onnx) start: ValueId,
    pub(in crate::onnx) end: End,
    extent: i64,
    pub(in crate::onnx) length: i64,
}

/// Where a stretch ends.
#[derive(Clone, Copy, Debug)]
pub(in crate::onnx) enum End {
    Held(ValueId),
    At(i64),
}

impl Stretch {
    /// Whether the elements that an execution has of held values make such a stretch.
    pub(in crate::onnx) fn is_there<'a>(
        &self,
        elements: impl Fn(ValueId) -> Option<&'a Arc<HostTensor>>,
    ) -> bool {
        let held = |value| elements(value).and_then(|tensor| single(tensor));
        let end = match self.end {
            End::Held(value) => held(value),
            End::At(end) => Some(end),
        };
        let (Some(start), Some(end)) = (held(self.start), end) else { return false };
        length(start, end, self.extent) == Some(self.length)
    }
}

impl Network {
    /// How many elements there are from a start to an end along an axis, where a round of a loop has both numbers or the end is known. Other
    /// rounds have as many elsewhere. None where there are none or many, or the start is not within the axis.
    pub(in crate::onnx) fn stretch(&self, start: &Value, end: &Value, extent: usize) -> Option<usize> {
        let held = |value: &Value| match value.source {
            Source::Held(index) => {
                let held = &self.held[index];
                Some((held.value, single(held.of_round.as_ref()?)?))
            }
            _ => None,
        };
        let extent = i64::try_from(extent).ok()?;
        let ((start, first), known) = (held(start)?, self.known(end).and_then(single));
        let (end, last) = match known {
            Some(number) => (End::At(number), number),
            None => held(end).map(|(value, number)| (End::Held(value), number))?,
        };
        let length = length(first, last, extent)?;
        let count = usize::try_from(length).ok().filter(|count| *count <= LONGEST)?;
        self.asked.borrow_mut().stretches.push(Stretch { start, end, extent, length });
        Some(count)
    }

    /// The stretches that the graph gathers from where executions say.
    pub(in crate::onnx) fn stretches(&self) -> Vec<Stretch> {
        self.asked.borrow().stretches.clone()
    }
}

/// The elements from a start within an axis to an end, which may be behind it. Negative numbers count from the end.
fn length(start: i64, end: i64, extent: i64) -> Option<i64> {
    let from_front = |index: i64| if index < 0 { index.saturating_add(extent) } else { index };
    let (start, end) = (from_front(start), from_front(end).min(extent));
    (start >= 0 && end > start).then_some(end - start)
}

fn single(tensor: &HostTensor) -> Option<i64> {
    let fits = matches!(tensor.data_type(), DataType::S32 | DataType::S64) && tensor.desc().elements() == 1;
    // Numbers that f64 rounds are behind every axis.
    if fits { tensor.to_f64s().first().map(|&number| number as i64) } else { None }
}
